"""The last words of a process that runs out of memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from warpyard.last_words import about_memory, tell_when_memory_runs_out
from warpyard.session import Session


def end_of(path: Path, script: str) -> str:
    """Runs the script to its end by an exception, and returns what it printed."""
    lead = f"""
from pathlib import Path
from warpyard.last_words import tell_when_memory_runs_out
tell_when_memory_runs_out(Path({str(path)!r}))
tell_when_memory_runs_out(Path({str(path)!r}))
class OutOfMemoryError(RuntimeError): pass
"""
    done = subprocess.run([sys.executable, "-c", lead + script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    return done.stderr


def test_an_end_without_gpu_memory_is_told_on_one_line(tmp_path: Path) -> None:
    path = tmp_path / "termination-log"
    printed = end_of(path, "raise OutOfMemoryError('CUDA out of memory.\\nTried to allocate 2.00 GiB.')")
    assert path.read_text() == "OutOfMemory: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    assert printed.count("Traceback") == 1, "the usual traceback stays"


def test_an_error_that_a_framework_wrapped_is_found(tmp_path: Path) -> None:
    path = tmp_path / "termination-log"
    end_of(path, "try:\n  raise MemoryError()\nexcept MemoryError as error:\n  raise ValueError('step 7') from error")
    assert path.read_text() == "OutOfMemory: MemoryError\n"


def test_any_other_end_leaves_the_message_alone(tmp_path: Path) -> None:
    path = tmp_path / "termination-log"
    path.write_text("mine")
    end_of(path, "raise RuntimeError('out of ideas')")
    assert path.read_text() == "mine"


def test_where_nothing_can_be_written_the_traceback_still_comes(tmp_path: Path) -> None:
    assert "CUDA" in end_of(tmp_path / "missing" / "log", "raise OutOfMemoryError('CUDA out of memory')")


def test_words_are_bounded_and_a_circle_of_causes_ends() -> None:
    assert len(about_memory(MemoryError("x" * 9999)) or "") == 300
    first, second = ValueError(), ValueError()
    first.__cause__, second.__cause__ = second, first
    assert about_memory(first) is None


def test_the_second_call_installs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    tell_when_memory_runs_out()
    hook = sys.excepthook
    tell_when_memory_runs_out()
    assert sys.excepthook is hook


@pytest.mark.parametrize(("run", "tells"), [("train", True), ("", False)])
def test_only_a_session_of_a_run_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: str, tells: bool) -> None:
    monkeypatch.setenv("WARPYARD_RUN", run)
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    Session(tmp_path, every_steps=None, keep=2).close()
    assert hasattr(sys.excepthook, "tells_about_memory") is tells
