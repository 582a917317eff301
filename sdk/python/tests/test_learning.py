"""On real trainings: the interval settles, and the next attempt begins with it."""

from __future__ import annotations

import atexit
import random
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from warpyard import checkpoint
from warpyard.checkpoint import Run
from warpyard.interval import Interval, daly_seconds
from warpyard.learning import FILE, write

#: What else a save takes is small beside this, on a loaded machine too.
STALL_SECONDS = 0.1
#: A second between saves.
MTBF_SECONDS = 6.0
SAVES = 12


class Slow:
    """A state that takes its time to be copied: 20 % more or less each time."""

    def __init__(self) -> None:
        self._dice = random.Random(7)

    def state_dict(self) -> dict[str, Any]:
        time.sleep(STALL_SECONDS * self._dice.uniform(0.8, 1.2))
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


def begin(directory: Path, **others: Any) -> Run:
    model = nn.Linear(4, 1)
    return checkpoint.attach(model, torch.optim.SGD(model.parameters()), directory=directory, **others)


def die(run: Run) -> None:
    """As a killed process: nothing is done at its end."""
    run._wait()
    atexit.unregister(run._session.close)


def failures(run: Run) -> int:
    count: int = run._session.interval.memory(is_over=True)["failures"]
    return count


def test_the_chosen_interval_settles_though_saves_vary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPYARD_MTBF_SECONDS", str(MTBF_SECONDS))
    # Failures were as expected so far; else it would hope for better with each second in which nothing fails.
    nothing = Interval(MTBF_SECONDS).memory(is_over=True)
    write(tmp_path, nothing | {"failures": 100, "seconds": 100 * MTBF_SECONDS})
    run = begin(tmp_path, slow=Slow())
    interval, committed, chosen = run._session.interval, 0, []
    for _ in run.steps(range(10**6)):
        time.sleep(0.01)
        if run._session.committed_step > committed:
            committed = run._session.committed_step
            chosen.append(interval.period_seconds())
            if len(chosen) == SAVES:
                break
    settled = chosen[SAVES // 2 :]
    changes = [abs(b / a - 1) for a, b in pairwise(settled)]
    assert max(changes) < 0.1, str(chosen)
    assert 0.8 < settled[-1] / daly_seconds(STALL_SECONDS, MTBF_SECONDS) < 1.5, str(chosen)
    run.finish()
    again = begin(tmp_path, slow=Slow())
    assert again._session.interval.period_seconds() == pytest.approx(settled[-1], rel=0.1)
    die(again)


def test_an_attempt_that_lost_its_work_is_a_failure_and_one_that_saved_it_is_none(tmp_path: Path) -> None:
    first = begin(tmp_path)
    for _ in first.steps(range(3)):
        pass
    die(first)
    second = begin(tmp_path)
    assert failures(second) == 1
    for _ in second.steps(range(3)):
        pass
    second.finish()
    third = begin(tmp_path)
    assert failures(third) == 1
    die(third)


@pytest.mark.parametrize("left", [b"", b"{", b"[]", b"7", b'{"failures": 1}', b"[" * 10_000, b"\xff"])
def test_without_sensible_times_of_former_attempts_they_are_measured_anew(
    left: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).write_bytes(left)
    run = begin(tmp_path)
    assert "measured anew" in caplog.text
    assert run._session.interval.period_steps() == 1 and failures(run) == 0
    die(run)
