"""Kills a process at every call by which a save changes the disk, and sees that the next load finds a whole checkpoint.

    python -m tests.crash_points                  every point
    python -m tests.crash_points --points 40      that many, spread evenly

A process saves step 2 beside step 1, under strace. First its calls are written down, then it is killed when it begins
each of them in turn. What is then found must be step 1 or step 2, equal bit by bit to what that step had; step 2 if its
rename was reached. The next attempt must be able to commit step 2 again if it is not there.
"""

from __future__ import annotations

import argparse
import enum
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tests.gangs import DEADLINE_SECONDS
from warpyard import checkpoint
from warpyard.checkpoint import Run, _Save

#: Every call that changes a directory or a file, and those that end one. `openat` is among them because it creates.
#: Those with a question mark exist only on some processors.
CALLS = (
    "openat,mkdirat,write,pwrite64,writev,fsync,fdatasync,close,renameat2,unlinkat,"
    "?mkdir,?rename,?renameat,?unlink,?rmdir"
)
#: More than there ever are.
POINTS_MAX = 10**9
#: So many layers that a save has some hundred writes.
LAYERS = 12


_CALL = re.compile(r"(?:(\d+) +)?(\w+)\(")


class Stage(enum.Enum):
    """What is traced. strace counts the calls of each thread apart, so a save in the background has two stages."""

    NOTICE = "a save under notice, in the training's thread"
    WRITING = "a save in the background, all threads"
    COMMIT = "a save in the background, from the last parameter on"


@dataclass(frozen=True)
class Point:
    """The N-th call of this name in a thread."""

    call: str
    number: int


@dataclass
class Outcome:
    """What was found after a kill."""

    is_killed: bool
    step: int
    problem: str | None


def build() -> tuple[nn.Module, torch.optim.Optimizer]:
    """A model and its optimiser, untouched."""
    model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(LAYERS)))
    return model, torch.optim.AdamW(model.parameters())


def fill(model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Gives every tensor the values of that step."""
    generator = torch.Generator().manual_seed(step)
    if not optimizer.state:
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
            for value in optimizer.state[parameter].values():
                value.copy_(torch.randn(value.shape, generator=generator))


def values(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """All that `fill` fills, in its order."""
    found = []
    for parameter in model.parameters():
        found += [parameter.detach(), *optimizer.state[parameter].values()]
    return found


def begin(folder: Path) -> Run:
    """An attempt in this folder, with a fresh model."""
    model, optimizer = build()
    return checkpoint.attach(model, optimizer, directory=folder, every_steps=1000)


def save(folder: Path, step: int) -> None:
    """Saves the values of that step as that step, as a run does it."""
    run = begin(folder)
    fill(run._model, run._optimizers, step)  # type: ignore[arg-type]
    run._session.step = step
    run.save()


def look(folder: Path) -> tuple[int, str | None]:
    """The step that the next attempt loads, and what is wrong with it."""
    run = begin(folder)
    if run.step not in (1, 2):
        return run.step, "neither step was found"
    expected = build()
    fill(*expected, run.step)
    loaded = values(run._model, run._optimizers)  # type: ignore[arg-type]
    if not all(torch.equal(a, b) for a, b in zip(values(*expected), loaded, strict=True)):
        return run.step, f"step {run.step} is not what was saved"
    if list(folder.glob("*.partial")):
        return run.step, "what the dead attempt left was not removed"
    step = run.step
    if step == 1:
        save(folder, 2)
        if begin(folder).step != 2:
            return step, "step 2 could not be committed by the next attempt"
    return step, None


def in_child(work: object, *arguments: object) -> int:
    """Runs it in a fork, which has torch imported already; its exit code."""
    pid = os.fork()
    if pid == 0:
        try:
            work(*arguments)  # type: ignore[operator]
        except BaseException as error:
            print(f"child: {error!r}", file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def crash(prepared: Path, folder: Path, stage: Stage, point: Point) -> Outcome:
    """One kill, and what is left."""
    kill = f"inject={point.call}:signal=SIGKILL:when={point.number}"
    code = traced(prepared, folder, stage, ["-o", os.devnull, "-e", kill])
    is_renamed = (folder / "step-2").exists()
    step, problem = look(folder)
    if problem is None and step != (2 if is_renamed else 1):
        problem = f"step {step} was loaded, and step 2 was {'' if is_renamed else 'not '}committed"
    if code not in (0, -signal.SIGKILL):
        problem = f"the saving process ended with {code}"
    shutil.rmtree(folder)
    return Outcome(code == -signal.SIGKILL, step, problem)


def find_points(prepared: Path, folder: Path, stage: Stage) -> list[Point]:
    """Every call of a save that nobody kills, in their order."""
    record = folder.with_name("calls")
    if code := traced(prepared, folder, stage, ["-o", str(record)]):
        raise AssertionError(f"the saving process ended with {code}")
    shutil.rmtree(folder)
    return points_of(record.read_text().splitlines())


def points_of(lines: list[str]) -> list[Point]:
    """Where two threads make the N-th call of a name, the first of them is killed: that is one point."""
    counts: Counter[tuple[str, str]] = Counter()
    points: dict[Point, None] = {}
    for line in lines:
        if found := _CALL.match(line):
            thread = (found[1] or "", found[2])
            counts[thread] += 1
            points[Point(found[2], counts[thread])] = None
    return list(points)


def traced(prepared: Path, folder: Path, stage: Stage, arguments: list[str]) -> int:
    """Saves step 2 under strace; the exit code of the saving process."""
    shutil.copytree(prepared, folder)
    ready, go = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        _save_when_told(folder, stage, ready[1], go[0])
    os.close(ready[1])
    thread = os.read(ready[0], 32).decode()
    if not thread:
        raise AssertionError("the saving process could not begin")
    follow = ["-f"] if stage is Stage.WRITING else []
    strace = subprocess.Popen(["strace", "-qq", *follow, "-p", thread, "-e", f"trace={CALLS}", *arguments])
    _wait_for_tracer(pid, thread)
    os.write(go[1], b"1")
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    strace.wait(DEADLINE_SECONDS)
    for descriptor in (ready[0], *go):
        os.close(descriptor)
    return code


def _save_when_told(folder: Path, stage: Stage, ready: int, go: int) -> None:
    """The process that is killed. The attempt is begun before strace looks: what is counted is the save alone."""

    def wait() -> None:
        os.write(ready, str(threading.get_native_id()).encode())
        os.read(go, 1)

    def write_when_told(save: _Save, write_parameters: Callable[[], Any]) -> list[str]:
        write_parameters()
        wait()
        return write(save, lambda: None)

    code = 1
    try:
        run = begin(folder)
        fill(run._model, run._optimizers, 2)  # type: ignore[arg-type]
        run._session.step = 2
        write = _Save._write
        if stage is Stage.COMMIT:
            _Save._write = write_when_told  # type: ignore[method-assign]
        else:
            wait()
        run._save(is_blocking=stage is Stage.NOTICE)
        run._wait()
        code = 0 if run._session.committed_step == 2 else 1
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _wait_for_tracer(pid: int, thread: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        if "TracerPid:\t0\n" not in Path(f"/proc/{pid}/task/{thread}/status").read_text():
            return
        time.sleep(0.001)
    raise AssertionError("strace did not attach")


def spread(points: list[Point], wanted: int) -> list[Point]:
    """So many of the points, first and last among them."""
    if wanted >= len(points):
        return points
    return [points[round(index * (len(points) - 1) / (wanted - 1))] for index in range(wanted)]


def main() -> int:
    """Prints the figures; 1 if any load failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=POINTS_MAX, help="how many points, of all stages together")
    args = parser.parse_args()
    torch.set_num_threads(1)
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as temporary:
        prepared, folder = Path(temporary) / "prepared", Path(temporary) / "run"
        if in_child(save, prepared, 1) != 0:
            raise AssertionError("step 1 could not be saved")
        for stage in Stage:
            points = find_points(prepared, folder, stage)
            outcomes_of_stage = []
            for point in spread(points, max(2, args.points // len(Stage))):
                outcome = crash(prepared, folder, stage, point)
                if outcome.problem:
                    print(f"{stage.value}: {point}: {outcome.problem}")
                outcomes_of_stage.append(outcome)
            late = sum(it.is_killed and it.step == 2 for it in outcomes_of_stage)
            print(f"{stage.value}: {len(points)} points, {late} kills after the commit", file=sys.stderr, flush=True)
            outcomes += outcomes_of_stage
    killed = [outcome for outcome in outcomes if outcome.is_killed]
    failures = sum(outcome.problem is not None for outcome in outcomes)
    about = f"({sum(it.step == 2 for it in killed)} of them after the commit)"
    # A part of the points is a test, but no figure.
    word = "figure" if args.points >= POINTS_MAX else "of a part:"
    print(f"{word} runs.save_crash_points {len(killed)} points  {about}")
    print(f"{word} runs.save_crash_failures {failures} loads  {about}")
    return int(failures > 0 or not {1, 2} <= {outcome.step for outcome in killed})


if __name__ == "__main__":
    sys.exit(main())
