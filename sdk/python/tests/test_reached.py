import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from tests.platform import ReportServer
from warpyard.commit import MANIFEST, Manifest
from warpyard.reached import Reached
from warpyard.session import SaveTimes, Session


def test_the_next_attempt_knows_how_far_the_last_one_came(tmp_path: Path) -> None:
    first = Reached(tmp_path, 1)
    assert first.before is None
    for step in (1, 2, 3):
        first.note(step)
    assert Reached(tmp_path, 2).before == 3


def test_a_step_is_known_though_the_process_is_killed_right_after(tmp_path: Path) -> None:
    for attempt in range(1, 6):
        child = os.fork()
        if child == 0:
            reached = Reached(tmp_path, attempt)
            for step in range(1, 1000 * attempt + 1):
                reached.note(step)
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        assert Reached(tmp_path, attempt).before == 1000 * attempt


def test_an_attempt_that_went_back_counts_and_not_the_one_that_was_furthest(tmp_path: Path) -> None:
    Reached(tmp_path, 1).note(500)
    second = Reached(tmp_path, 2)
    second.note(100)
    second.note(101)
    assert Reached(tmp_path, 3).before == 101


def test_what_nobody_finished_writing_is_passed_over(tmp_path: Path) -> None:
    Reached(tmp_path, 1).note(7)
    Reached(tmp_path, 2)
    (tmp_path / "reached-3").write_text("12")
    assert Reached(tmp_path, 4).before == 7


def test_old_numbers_go_and_another_attempts_number_is_left_alone(tmp_path: Path) -> None:
    for attempt in range(1, 5):
        Reached(tmp_path, attempt).note(attempt)
    (tmp_path / "reached-9").write_text("0" * 20)
    Reached(tmp_path, 5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["reached-4", "reached-5", "reached-9"]


def test_training_goes_on_where_nothing_can_be_noted(tmp_path: Path) -> None:
    (tmp_path / "reached-1").mkdir()
    reached = Reached(tmp_path, 1)
    reached.note(1)
    reached.close()


def attempt(directory: Path, number: int, steps: int, saves: tuple[int, ...]) -> None:
    """One process that does so many steps and saves some of them."""
    before = signal.getsignal(signal.SIGTERM)
    session = Session(directory, every_steps=None, keep=5)
    signal.signal(signal.SIGTERM, before)
    assert session.store.attempt == number
    for step in range(session.step + 1, steps + 1):
        session.boundary(step)
        if step in saves:
            session.store.partial(step).mkdir()
            (session.store.partial(step) / "a").write_text("weights")
            session.commit(step, lambda: ["a"], {}, SaveTimes())
    session.close()


@pytest.mark.parametrize(
    ("saves", "resume", "expected"),
    [((2, 4), "", (4, 5)), ((2, 5), "", (5, 5)), ((2, 4), "2", (2, 5)), ((2, 4), "0", (0, 5)), ((), "", (0, 5))],
)
def test_an_attempt_tells_what_it_loaded_and_how_far_the_last_one_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saves: tuple[int, ...], resume: str, expected: tuple[int, int]
) -> None:
    server = ReportServer(tmp_path)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("WARPYARD_ATTEMPT", "1")
    attempt(tmp_path / "checkpoints", 1, 5, saves)
    monkeypatch.setenv("WARPYARD_ATTEMPT", "2")
    monkeypatch.setenv("WARPYARD_RESUME_STEP", resume)
    attempt(tmp_path / "checkpoints", 2, 0, ())
    reports = server.reports()
    server.close()
    first, second = (report["loaded"] for report in reports if "loaded" in report)
    assert first == {"step": 0, "reached": 0}
    assert (second["step"], second["reached"]) == expected
    saved = {it["step"]: it["committed_at"] for report in reports if (it := report.get("checkpoint"))}
    assert second.get("committed_at") == saved.get(second["step"])
    assert all(at.endswith("Z") for at in saved.values())


def test_a_manifest_without_a_time_was_committed_when_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPYARD_ATTEMPT", "1")
    attempt(tmp_path / "checkpoints", 1, 2, (2,))
    file = tmp_path / "checkpoints" / "step-2" / MANIFEST
    file.write_bytes(replace(Manifest.decode(file.read_bytes()), committed_at=None).encode())
    os.utime(file, (0, 1_700_000_000.25))
    server = ReportServer(tmp_path)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("WARPYARD_ATTEMPT", "2")
    attempt(tmp_path / "checkpoints", 2, 0, ())
    (loaded,) = [report["loaded"] for report in server.reports()]
    server.close()
    assert loaded == {"step": 2, "reached": 2, "attempt": 1, "committed_at": "2023-11-14T22:13:20.250Z"}
