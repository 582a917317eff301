"""In a process of its own each: gangs are forked from one that has not computed yet."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gangs import DEADLINE_SECONDS

SDK = Path(__file__).parents[1]


@pytest.mark.parametrize("what", ["mount", "plain", "huggingface", "lightning"])
def test_trouble_of_one_rank_is_known_to_all_and_costs_no_checkpoint(what: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(SDK / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.trouble", what]
    told = subprocess.run(
        command, cwd=SDK, env=environment, capture_output=True, text=True, timeout=4 * DEADLINE_SECONDS
    )
    assert told.returncode == 0, told.stdout + told.stderr
