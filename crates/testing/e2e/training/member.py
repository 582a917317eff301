"""A member of a training that the end-to-end tests interrupt: a worker of the SDK's own tests, in a pod of a Run.

What happens to it is written down beside the training, by this file alone: the judge does not ask the SDK.

    events-RANK   began, imported, told, left, loaded, committed, stalled, finished: one JSON object each, with attempt and time
    steps-RANK    attempt, step, processes, loss bit by bit, time
"""

from __future__ import annotations

import time

BEGAN = time.time()

import hashlib  # noqa: E402
import json  # noqa: E402
import logging  # noqa: E402
import os  # noqa: E402
import struct  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

OUT = Path(os.environ["TEST_OUT"])
ATTEMPT, RANK = int(os.environ["WARPYARD_ATTEMPT"]), int(os.environ["RANK"])
WORLD_SIZE = int(os.environ["WORLD_SIZE"])
# Machines that fail so seldom as ours say would be saved on every ten minutes.
if "TEST_MTBF_SECONDS" in os.environ:
    os.environ["WARPYARD_MTBF_SECONDS"] = os.environ["TEST_MTBF_SECONDS"]


def record(name: str) -> int:
    """A file that a member only ever adds whole lines to, so that nothing is half written when it is killed."""
    return os.open(OUT / f"{name}-{RANK}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)


EVENTS, STEPS = record("events"), record("steps")


def tell(what: str, at: float | None = None, **more: Any) -> None:
    """Writes an event down."""
    event = {"what": what, "attempt": ATTEMPT, "rank": RANK, "at": at or time.time()} | more
    os.write(EVENTS, (json.dumps(event) + "\n").encode())


class Losses:
    """The loss of the step under way: it is written down when the step is done."""

    last = 0.0


def trace(_step: int, loss: float) -> None:
    """What the workers call when they know a step's loss."""
    Losses.last = loss


def stepped(step: int) -> None:
    """Writes a step down."""
    bits = struct.pack(">d", Losses.last).hex()
    os.write(STEPS, f"{ATTEMPT} {step} {WORLD_SIZE} {bits} {time.time():.6f}\n".encode())


def worker_of(framework: str) -> Callable[[], None]:
    """The training. The modules of the frameworks take `trace` from the first, which is why that comes first."""
    from tests import workers

    workers.trace = trace
    if framework == "huggingface":
        from tests.workers_huggingface import train_huggingface

        return train_huggingface
    if framework == "lightning":
        from tests.workers_lightning import train_lightning

        return train_lightning
    if framework == "elastic":
        from elastic import train_elastic

        return train_elastic
    return workers.train_plain


def listen() -> None:
    """Writes down what the SDK does, when it does it."""
    from warpyard.commit import Store
    from warpyard.gang import Notice
    from warpyard.interval import Interval
    from warpyard.session import Session

    receive, begin = Notice._receive, Session.__init__
    boundary, commit, saw_save = Session.boundary, Store.commit, Interval.saw_save
    safe = 0

    def told(self: Any, *arguments: Any) -> None:
        tell("told")
        receive(self, *arguments)

    def begun(self: Any, *arguments: Any, **named: Any) -> None:
        nonlocal safe
        begin(self, *arguments, **named)
        safe = self.step
        tell("loaded", step=safe)

    def done(self: Any, step: int, *arguments: Any, **named: Any) -> Any:
        stepped(step)
        return boundary(self, step, *arguments, **named)

    def committed(self: Any, step: int, *arguments: Any) -> Any:
        nonlocal safe
        manifest = commit(self, step, *arguments)
        tell("committed", since=safe, step=step)
        safe = step
        return manifest

    def saved(self: Any, stall_seconds: float, persist_seconds: float) -> None:
        tell("stalled", seconds=stall_seconds)
        saw_save(self, stall_seconds, persist_seconds)

    Notice._receive, Session.__init__ = told, begun
    Session.boundary, Store.commit, Interval.saw_save = done, committed, saved


def fingerprint() -> str:
    """Of the final parameters, bit by bit."""
    import torch

    state = torch.load(OUT / "final.pt", weights_only=True)
    digest = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        digest.update(name.encode() + str(tensor.dtype).encode() + tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()


def main() -> None:
    """Trains."""
    tell("began", at=BEGAN)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    worker = worker_of(os.environ["TEST_FRAMEWORK"])
    listen()
    # With its first use PyTorch imports two hundred modules more.
    from tests.workers import seed_everything

    seed_everything()
    tell("imported", seconds=time.time() - BEGAN)
    try:
        worker()
    except SystemExit:
        tell("left")
        raise
    if RANK == 0:
        tell("finished", fingerprint=fingerprint())


main()
