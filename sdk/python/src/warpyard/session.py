"""One attempt of a run in its checkpoint directory: what the three frameworks have in common.

::

    begin ─► take the directory (fence) ─► find what to load, all ranks verify it ─► the framework loads
      │
      └► after each step: boundary ─► all ranks agree: nothing │ save │ save and leave with 75
"""

from __future__ import annotations

import atexit
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from warpyard.commit import Damaged, Fenced, FileSeal, Manifest, Store, seal_file, sync_directory, sync_file
from warpyard.contract import REQUEUE_EXIT_CODE, Contract
from warpyard.gang import Gang, Notice
from warpyard.interval import Interval
from warpyard.progress import Progress
from warpyard.report import Reporter, poster

_LOG = logging.getLogger("warpyard")


@dataclass(frozen=True)
class Decision:
    """What all ranks do after a step."""

    save: bool
    stop: bool


class Session:
    """This rank's part of the attempt."""

    def __init__(
        self, directory: Path | str | None, every_steps: int | None, keep: int, is_background: bool = True
    ) -> None:
        if every_steps is not None and every_steps < 1:
            raise ValueError(f"every_steps is {every_steps}, and must be at least 1")
        self.contract = Contract.read(os.environ)
        chosen = Path(directory) if directory is not None else self.contract.checkpoint_dir
        if chosen is None:
            raise ValueError("no place for checkpoints: set WARPYARD_CHECKPOINT_DIR, or pass directory=")
        self.gang = Gang()
        self.notice = Notice()
        self.keep = keep
        self.interval = Interval(self.contract.mtbf_seconds, every_steps, is_background)
        self.store = self._take(chosen)
        self.found = self._find()
        self.step = self.found.step if self.found else 0
        self.begun_step = self.committed_step = self.step
        self._stepped_at: float | None = None
        self.progress = self._progress()
        atexit.register(self.close)

    def boundary(self, step: int, is_saving: bool = False) -> Decision:
        """A step is done on this rank. Every rank calls this for the same step, and gets the same answer."""
        now = time.monotonic()
        if self._stepped_at is not None:
            self.interval.saw_step(now - self._stepped_at)
        self._stepped_at = now
        self.step = step
        is_due = self.gang.rank == 0 and not is_saving and self.interval.is_due(step, self.begun_step)
        stop, save = self.gang.agree(self.notice.is_received, is_due)
        self.progress.stepped(step)
        return Decision(save=save or stop, stop=stop)

    def commit(self, step: int, names: Iterable[str], about: Mapping[str, Any], times: SaveTimes) -> None:
        """Commits what all ranks have written for that step; this rank wrote the files called ``names``.

        Collective, over the group of saves. Every rank gets the same outcome, or the same error.
        """
        since = self.committed_step
        parts = self.gang.from_all(_attempt(lambda: self._seal(step, names)), of_saves=True)
        outcome: Manifest | Exception = _first_error(parts) or Damaged("no outcome")
        if self.gang.rank == 0 and not _first_error(parts):
            files = {name: seal for part in parts if isinstance(part, dict) for name, seal in part.items()}
            about = dict(about) | {"world_size": self.gang.world_size}
            outcome = _attempt(lambda: self.store.commit(step, files, about))
        outcome = self.gang.from_rank_0(outcome, of_saves=True)
        if isinstance(outcome, Exception):
            raise outcome
        self.committed_step = step
        times.committed_at = time.monotonic()
        self.interval.saw_save(times.stall_seconds, times.persist_seconds)
        if self.gang.rank == 0:
            checkpoint = {"step": step, "since": since, "bytes": outcome.size} | times.told()
            self.progress.saved(self.step, checkpoint)
            self.store.tidy(self.keep)
            if times.persist_seconds > self.contract.grace_seconds:
                text = "A save took %.0f s, and there are %.0f s after a notice: it may come too late."
                _LOG.warning(text, times.persist_seconds, self.contract.grace_seconds)

    def leave(self) -> NoReturn:
        """Everything is saved: ends the process with the code that asks for another attempt."""
        if self.committed_step != self.step:
            raise RuntimeError(f"step {self.step} is not committed, only {self.committed_step}")
        _LOG.info("Saved step %d; leaving to be requeued.", self.step)
        self.close()
        raise SystemExit(REQUEUE_EXIT_CODE)

    def close(self) -> None:
        """Tells the rest, or leaves it to the next attempt. Does nothing the second time."""
        atexit.unregister(self.close)
        self.progress.stepped(self.step, is_last=True)
        self.progress.close()

    def _seal(self, step: int, names: Iterable[str]) -> dict[str, FileSeal]:
        seals = {}
        for name in names:
            path = self.store.partial(step) / name
            sync_file(path)
            sync_directory(path.parent)
            seals[name] = seal_file(path)
        return seals

    def require_same_world_size(self) -> None:
        """For frameworks that count their position in batches."""
        before = self.found.progress["world_size"] if self.found else self.gang.world_size
        if before != self.gang.world_size:
            raise RuntimeError(
                f"the checkpoint of step {self.step} was saved by {before} ranks and there are {self.gang.world_size}: "
                "this framework counts its position in batches, which mean other samples then"
            )

    def _take(self, directory: Path) -> Store:
        """Rank 0 takes the directory; the others see that it is the same one."""
        taken: Store | Exception | None = None
        if self.gang.rank == 0:
            taken = _attempt(lambda: Store.begin(directory, self.contract.attempt))
        taken = self.gang.from_rank_0(taken)
        if isinstance(taken, Exception):
            raise taken
        assert taken is not None  # noqa: S101
        sees = (directory / "attempt").exists()
        if not all(self.gang.from_all(sees)):
            raise RuntimeError(f"{directory} is not shared by all {self.gang.world_size} ranks")
        if self.gang.rank == 0:
            taken.tidy(self.keep)
        return taken

    def _find(self) -> Manifest | None:
        """The newest checkpoint that every rank finds whole, or the one asked for."""
        wanted = self.gang.from_rank_0(self._wanted_step() if self.gang.rank == 0 else None)
        if wanted == 0:
            self._abandon_after(0)
            return None
        steps = self.gang.from_rank_0(self.store.steps() if self.gang.rank == 0 else [])
        if wanted is not None and wanted not in steps:
            raise RuntimeError(f"there is no checkpoint of step {wanted} to resume from: there are {steps}")
        for step in [wanted] if wanted is not None else reversed(steps):
            manifest, damage = self._verify(step)
            if manifest is not None and not damage:
                self._abandon_after(step)
                return manifest
            text = f"the checkpoint of step {step} is damaged: {'; '.join(damage[:5])}"
            if wanted is not None:
                raise Damaged(text)
            if self.gang.rank == 0:
                _LOG.warning("%s. Falling back to the one before.", text)
                self.store.set_aside(step)
        if steps and self.gang.rank == 0:
            _LOG.warning("No checkpoint is whole: starting from the beginning.")
        return None

    def _wanted_step(self) -> int | None:
        """The order to resume from a step holds until this attempt has committed something itself."""
        for step in self.store.steps():
            try:
                if self.store.manifest(step).attempt == self.store.attempt:
                    return None
            except Damaged:
                continue
        return self.contract.resume_step

    def _verify(self, step: int) -> tuple[Manifest | None, list[str]]:
        try:
            manifest = self.store.manifest(step)
            damage = self.store.damage(manifest, self.gang.rank, self.gang.world_size)
        except Damaged as error:
            manifest, damage = None, [str(error)]
        parts = self.gang.from_all(damage)
        return manifest, sorted({line for part in parts for line in part})

    def _abandon_after(self, step: int) -> None:
        """What is newer belongs to a line that was given up."""
        if self.gang.rank == 0:
            for newer in [it for it in self.store.steps() if it > step]:
                self.store.set_aside(newer)
        self.gang.from_rank_0(None)

    def _progress(self) -> Progress:
        post = poster(self.contract) if self.gang.rank == 0 else None
        reporter = Reporter(post, self.store.directory) if post else None
        heading = {
            "run": self.contract.run,
            "attempt": self.store.attempt,
            "rank": self.gang.rank,
            "world_size": self.gang.world_size,
        }
        progress = Progress(reporter, heading)
        progress.begin(self.step, {"step": self.found.step, "attempt": self.found.attempt} if self.found else None)
        return progress


class SaveTimes:
    """How long a save took: until training went on, and until it was committed."""

    def __init__(self) -> None:
        self.began_at = time.monotonic()
        self.stalled_until: float | None = None
        self.committed_at: float | None = None

    def stalled(self) -> None:
        """Training goes on."""
        self.stalled_until = time.monotonic()

    @property
    def stall_seconds(self) -> float:
        """If training never went on meanwhile, the whole save."""
        ends = [it for it in (self.stalled_until, self.committed_at) if it is not None]
        return min(ends, default=time.monotonic()) - self.began_at

    @property
    def persist_seconds(self) -> float:
        """From the beginning until it was committed."""
        return (self.committed_at or time.monotonic()) - self.began_at

    def told(self) -> dict[str, float]:
        """As reports have it."""
        return {"seconds": round(self.persist_seconds, 3), "stall_seconds": round(self.stall_seconds, 3)}


def _attempt(work: Callable[[], Any]) -> Any:
    """What the work gives, or its error as a value, to be told to the other ranks."""
    try:
        return work()
    except (OSError, ValueError, Damaged, Fenced) as error:
        return error


def _first_error(parts: Iterable[Any]) -> Exception | None:
    return next((part for part in parts if isinstance(part, Exception)), None)
