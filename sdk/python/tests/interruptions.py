"""Trains the same model twice, once in peace and once interrupted again and again: the ends must be equal bit by bit.

    python -m tests.interruptions                4 ranks, 20 notices, 10 kills; 5 interruptions for each framework
    python -m tests.interruptions --notices 2 --kills 1 --framework plain

It needs no cluster; the project's figures come from the same on real nodes (`cargo xtask bench runs plain`).
A notice is SIGTERM to one rank, a kill SIGKILL to one rank, at a random moment of a random attempt.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import torch

from tests.gangs import Gang, Worker
from tests.platform import ReportServer

EPOCH_STEPS = 40
EVERY_STEPS = 8
#: Interruptions come after 1 to 20 steps; the moment within a step is drawn too.
AFTER_STEPS_MAX = 20


@dataclass(frozen=True)
class Interruption:
    """What happens to an attempt. After 0 steps means: while it starts."""

    number: signal.Signals
    rank: int
    after_steps: int
    delay_seconds: float


@dataclass
class Result:
    """What was seen."""

    notices: int = 0
    kills: int = 0
    lost_per_notice_max: int = 0
    lost_per_kill_max: int = 0
    is_identical: bool = False
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


def plan(seed: int, notices: int, kills: int, world_size: int) -> list[Interruption]:
    """The interruptions of a seed."""
    dice = random.Random(seed)
    numbers = [signal.SIGTERM] * notices + [signal.SIGKILL] * kills
    dice.shuffle(numbers)
    return [
        Interruption(
            number=number,
            rank=dice.randrange(world_size),
            after_steps=0 if dice.random() < 0.1 else dice.randint(1, AFTER_STEPS_MAX),
            delay_seconds=dice.uniform(0.0, 0.03),
        )
        for number in numbers
    ]


class Trial:
    """One training, over as many attempts as it needs."""

    def __init__(self, worker: Worker, world_size: int, epochs: int, folder: Path) -> None:
        self.worker = worker
        self.world_size = world_size
        self.out = folder
        self.checkpoints = folder / "checkpoints"
        self.attempt = 0
        folder.mkdir(parents=True)
        self.server = ReportServer(folder)
        self.environment = self.server.environment() | {
            "WARPYARD_CHECKPOINT_DIR": str(self.checkpoints),
            "WARPYARD_RUN": "trial",
            "TEST_OUT": str(folder),
            "TEST_EPOCHS": str(epochs),
            "TEST_EPOCH_STEPS": str(EPOCH_STEPS),
            "TEST_EVERY_STEPS": str(EVERY_STEPS),
        }

    def start(self) -> Gang:
        """The next attempt."""
        self.attempt += 1
        environment = self.environment | {"WARPYARD_ATTEMPT": str(self.attempt), "TEST_STEP_SECONDS": "0.004"}
        return Gang(self.worker, self.world_size, environment, self.out / f"attempt-{self.attempt}.log")

    def executed(self, attempt: int) -> int:
        """The last step that any rank has done in that attempt, 0 if none."""
        return max((step for made_in, step, _ in self.traces() if made_in == attempt), default=0)

    def traces(self) -> list[tuple[int, int, str]]:
        """Attempt, step and loss of every step, of all ranks."""
        lines = []
        for rank in range(self.world_size):
            path = self.out / f"trace-{rank}"
            if path.exists():
                # A rank that was killed may have left half a line.
                whole = path.read_text().rpartition("\n")[0].splitlines()
                lines += [(int(made_in), int(step), f"{rank}:{loss}") for made_in, step, loss in map(str.split, whole)]
        return lines

    def committed(self) -> int:
        """The newest step in the directory."""
        names = [path.name for path in self.checkpoints.glob("step-*")] if self.checkpoints.exists() else []
        return max((int(name[5:]) for name in names if name[5:].isdigit()), default=0)

    def fingerprint(self) -> str:
        """Of the final parameters, bit by bit."""
        state = torch.load(self.out / "final.pt", weights_only=True)
        digest = hashlib.sha256()
        for name, tensor in sorted(state.items()):
            digest.update(name.encode() + str(tensor.dtype).encode() + tensor.contiguous().numpy().tobytes())
        return digest.hexdigest()


def interrupt(trial: Trial, what: Interruption, result: Result) -> None:
    """One attempt, with this interruption."""
    began_at = trial.committed()
    gang = trial.start()
    while not gang.poll() and trial.executed(trial.attempt) < began_at + what.after_steps:
        time.sleep(0.002)
    # Nothing is waited for here: this is where in the step it happens.
    time.sleep(what.delay_seconds)
    gang.signal(what.rank, what.number)
    codes = gang.wait()
    lost = max(0, trial.executed(trial.attempt) - trial.committed())
    say = f"attempt {trial.attempt}: {what}, exit codes {codes}, {lost} steps lost"
    print(say, file=sys.stderr)
    if what.number == signal.SIGTERM:
        result.notices += 1
        result.lost_per_notice_max = max(result.lost_per_notice_max, lost)
        if what.after_steps > 0 and set(codes.values()) != {75}:
            result.problems.append(f"{say}\n{gang.log()}")
    else:
        result.kills += 1
        result.lost_per_kill_max = max(result.lost_per_kill_max, lost)
        if lost > EVERY_STEPS:
            result.problems.append(f"more than an interval was lost: {say}")
    if lost > 1 and what.number == signal.SIGTERM:
        result.problems.append(f"more than a step was lost: {say}")


def finish(trial: Trial) -> None:
    """The last attempt, in peace."""
    gang = trial.start()
    codes = gang.wait()
    if set(codes.values()) != {0}:
        raise AssertionError(f"the last attempt ended with {codes}:\n{gang.log()}")


def twice_committed(reports: list[Mapping[str, object]]) -> list[int]:
    """Steps that lie in two commits of the record."""
    seen: set[int] = set()
    twice = []
    commits = {(c["since"], c["step"]) for report in reports if (c := report.get("checkpoint"))}  # type: ignore[index]
    for since, step in commits:
        steps = set(range(since + 1, step + 1))
        twice += sorted(seen & steps)
        seen |= steps
    return twice


def misjudged_loads(trial: Trial) -> list[str]:
    """What attempts told of those before them, and is not so by the judge's own record."""
    loads = {report["attempt"]: loaded for report in trial.server.reports() if (loaded := report.get("loaded"))}
    silent = [it for it in range(1, trial.attempt + 1) if trial.executed(it) and it not in loads]
    wrong = [f"attempts {silent} did not tell what they began from"] if silent else []
    for last, attempt in pairwise(sorted(loads)):
        by_rank_0 = [step for made_in, step, loss in trial.traces() if made_in == last and loss.startswith("0:")]
        done = max(by_rank_0, default=loads[last]["step"])
        # The judge writes a step down before the loop's end, where it is done.
        if loads[attempt]["reached"] not in {done, done - bool(by_rank_0)}:
            wrong.append(f"attempt {attempt} told {loads[attempt]}, and attempt {last} had done {done} steps")
    return wrong


def different_losses(reference: Trial, trial: Trial) -> list[int]:
    """Steps whose loss was another one in some attempt."""
    expected = {(step, loss) for _, step, loss in reference.traces()}
    return sorted({step for _, step, loss in trial.traces() if (step, loss) not in expected})


def measure(worker: Worker, world_size: int, notices: int, kills: int, seed: int, folder: Path) -> Result:
    """Both trainings, and what is wrong with the second."""
    interruptions = plan(seed, notices, kills, world_size)
    # Every attempt overshoots by a few steps before it is told.
    steps = sum(it.after_steps + 8 for it in interruptions) + AFTER_STEPS_MAX
    epochs = -(-steps // EPOCH_STEPS)
    result = Result()
    began = time.monotonic()
    reference = Trial(worker, world_size, epochs, folder / "reference")
    trial = Trial(worker, world_size, epochs, folder / "interrupted")
    try:
        finish(reference)
        for what in interruptions:
            interrupt(trial, what, result)
        if trial.committed() >= epochs * EPOCH_STEPS:
            result.problems.append("the training was over before its last interruption")
        finish(trial)
        result.is_identical = reference.fingerprint() == trial.fingerprint()
        if not result.is_identical:
            result.problems.append("the final parameters differ")
        if different := different_losses(reference, trial):
            result.problems.append(f"the losses of steps {different[:10]} differ")
        if twice := twice_committed(trial.server.reports()):
            result.problems.append(f"steps {twice[:10]} were committed twice")
        result.problems += misjudged_loads(trial)
        if not any(report.get("checkpoint") for report in trial.server.reports()):
            result.problems.append("no report told of a checkpoint")
    finally:
        reference.server.close()
        trial.server.close()
    result.seconds = time.monotonic() - began
    return result


def worker_of(framework: str) -> Worker:
    """Imported only when it is used: two of them are large."""
    if framework == "huggingface":
        from tests.workers_huggingface import train_huggingface

        return train_huggingface
    if framework == "lightning":
        from tests.workers_lightning import train_lightning

        return train_lightning
    from tests.workers import train_plain

    return train_plain


def main() -> int:
    """Prints what was measured; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--framework", action="append", choices=["plain", "huggingface", "lightning"])
    parser.add_argument("--notices", type=int, help="20 for plain PyTorch, else 3")
    parser.add_argument("--kills", type=int, help="10 for plain PyTorch, else 2")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--folder", type=Path, help="keep everything here")
    args = parser.parse_args()
    seed = args.seed if args.seed is not None else secrets.randbits(32)
    results = {}
    for framework in args.framework or ["plain", "huggingface", "lightning"]:
        is_plain = framework == "plain"
        notices = args.notices if args.notices is not None else (20 if is_plain else 3)
        kills = args.kills if args.kills is not None else (10 if is_plain else 2)
        print(f"{framework}: seed {seed}", flush=True)
        with tempfile.TemporaryDirectory() as temporary:
            folder = (args.folder or Path(temporary)) / framework
            result = measure(worker_of(framework), 4 if is_plain else 2, notices, kills, seed, folder)
        results[framework] = result
        for problem in result.problems:
            print(f"{framework}: {problem}")
        print(
            f"{framework}: {result.notices} notices lost {result.lost_per_notice_max} steps at most, {result.kills} "
            f"kills {result.lost_per_kill_max} of an interval of {EVERY_STEPS}, the end is "
            f"{'the same' if result.is_identical else 'another'} bit by bit, {result.seconds:.0f} s",
            flush=True,
        )
    return int(any(result.problems for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
