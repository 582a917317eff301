"""The guide shows what really changes in a script, and the changed scripts run."""

from __future__ import annotations

import difflib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.gangs import DEADLINE_SECONDS, _free_port

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "training"
GUIDE = ROOT / "docs" / "guides" / "checkpoints.md"
FRAMEWORKS = ["pytorch", "huggingface", "lightning"]
LINES_MAX = 5


def difference(framework: str) -> list[str]:
    before, after = ((EXAMPLES / framework / name).read_text().splitlines() for name in ("before.py", "after.py"))
    return [line.rstrip() for line in list(difflib.unified_diff(before, after, n=1, lineterm=""))[2:]]


def changed_lines(framework: str) -> int:
    """A line that is new or another one."""
    return sum(line.startswith("+") for line in difference(framework))


def test_the_guide_shows_the_real_difference_and_it_is_small(capsys: pytest.CaptureFixture[str]) -> None:
    shown = re.findall(r"```diff\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
    assert [block.splitlines() for block in shown] == [difference(framework) for framework in FRAMEWORKS]
    most = max(changed_lines(framework) for framework in FRAMEWORKS)
    assert most <= LINES_MAX
    with capsys.disabled():
        each = ", ".join(f"{framework} {changed_lines(framework)}" for framework in FRAMEWORKS)
        print(f"\nfigure runs.user_lines_changed {most} lines  ({each}; bar: {LINES_MAX})")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_changed_script_saves_on_notice_and_goes_on(framework: str, tmp_path: Path) -> None:
    checkpoints = tmp_path / "checkpoints"
    first = start(framework, tmp_path, epochs=100_000)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not list(checkpoints.glob("step-*[0-9]")):
        assert first.poll() is None and time.monotonic() < deadline, (tmp_path / "log").read_text()
        time.sleep(0.02)
    first.send_signal(signal.SIGTERM)
    assert first.wait(DEADLINE_SECONDS) == 75, (tmp_path / "log").read_text()
    saved = newest(checkpoints)
    second = start(framework, tmp_path, epochs=1 + saved // 32)
    assert second.wait(DEADLINE_SECONDS) == 0, (tmp_path / "log").read_text()
    assert newest(checkpoints) >= saved
    assert (checkpoints / "attempt").read_text() == "2\n"


def start(framework: str, folder: Path, epochs: int) -> subprocess.Popen[bytes]:
    """As a run of one member is started."""
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "sdk" / "python" / "src"),
        "WARPYARD_CHECKPOINT_DIR": str(folder / "checkpoints"),
        "OUTPUT_DIR": str(folder / "out"),
        "EPOCHS": str(epochs),
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        "OMP_NUM_THREADS": "1",
    }
    script = EXAMPLES / framework / "after.py"
    with (folder / "log").open("ab") as log:
        return subprocess.Popen([sys.executable, str(script)], env=environment, stdout=log, stderr=log, cwd=folder)


def newest(checkpoints: Path) -> int:
    return max(int(path.name[5:]) for path in checkpoints.glob("step-*") if path.name[5:].isdigit())
