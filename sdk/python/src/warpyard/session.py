"""One attempt of a run in its checkpoint directory, shared by the three frameworks.

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

from warpyard.commit import MARKER, Fenced, FileSeal, Manifest, Store, patiently, seal_file, sync_directory, sync_file
from warpyard.contract import REQUEUE_EXIT_CODE, Contract
from warpyard.gang import Gang, Notice, attempt
from warpyard.interval import Interval
from warpyard.last_words import tell_when_memory_runs_out
from warpyard.progress import Progress
from warpyard.reached import Reached
from warpyard.report import Reporter, poster
from warpyard.resume import find

_LOG = logging.getLogger("warpyard")

Write = Callable[[], Iterable[str]]


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
            in_a_run = "name a claim in the job file (`checkpoints: CLAIM`), or pass directory="
            hint = in_a_run if self.contract.run else "set WARPYARD_CHECKPOINT_DIR, or pass directory="
            raise ValueError(f"there is no place for checkpoints\n\nhint: {hint}")
        if self.contract.run:
            tell_when_memory_runs_out()
        self.gang = Gang()
        self.notice = Notice()
        self.keep = keep
        self.interval = Interval(self.contract.mtbf_seconds, every_steps, is_background)
        self.store = self._take(chosen)
        self.found = find(self.store, self.gang, self.contract)
        self.step = self.found.step if self.found else 0
        self.begun_step = self.committed_step = self.step
        self._stepped_at: float | None = None
        self._reached = Reached(self.store.directory, self.store.attempt) if self.gang.rank == 0 else None
        self.progress = self._progress()
        atexit.register(self.close)

    def boundary(self, step: int, is_saving: bool = False) -> Decision:
        """A step is done on this rank. Every rank calls this for the same step, and gets the same answer."""
        now = time.monotonic()
        if self._stepped_at is not None:
            self.interval.saw_step(now - self._stepped_at)
        self._stepped_at = now
        self.step = step
        if self._reached is not None:
            self._reached.note(step)
        is_due = self.gang.rank == 0 and not is_saving and self.interval.is_due(step, self.begun_step)
        stop, save = self.gang.agree(self.notice.is_received, is_due)
        self.progress.stepped(step)
        return Decision(save=save or stop, stop=stop)

    def commit(self, step: int, write: Write, about: Mapping[str, Any], times: SaveTimes) -> None:
        """Commits that step. ``write`` ends the writing of this rank's files, and names them.

        Collective, over the group of saves: whatever fails on a rank must fail in ``write``. Every rank gets the same
        outcome, or the same error; after an error no files of the step are left.
        """
        since = self.committed_step
        parts = self.gang.from_all(attempt(lambda: self._seal(step, write())), of_saves=True)
        manifest = self.gang.by_rank_0(lambda: self._commit_parts(step, parts, about), of_saves=True)
        self.committed_step = step
        times.committed_at = time.monotonic()
        self.interval.saw_save(times.stall_seconds, times.persist_seconds)
        if self.gang.rank == 0:
            checkpoint: dict[str, Any] = {"step": step, "since": since, "bytes": manifest.size}
            checkpoint |= times.told() | {"committed_at": manifest.committed_at}
            self.progress.saved(self.step, checkpoint)
            self._tidy(self.store)
            if times.persist_seconds > self.contract.grace_seconds:
                text = "A save took %.0f s, and there are %.0f s after a notice: it may come too late."
                _LOG.warning(text, times.persist_seconds, self.contract.grace_seconds)

    def save_failed(self, step: int, error: Exception) -> None:
        """That step could not be committed: training goes on, and the next may be. A newer attempt ends this one."""
        if isinstance(error, Fenced):
            raise error
        _LOG.warning("The checkpoint of step %d failed, training goes on: %s", step, error)

    def leave(self) -> NoReturn:
        """Everything is saved: ends the process with the code that asks for another attempt."""
        if self.committed_step != self.step:
            raise RuntimeError(f"step {self.step} is not committed, only {self.committed_step}")
        _LOG.info("Saved step %d; leaving to be requeued.", self.step)
        self.close()
        raise SystemExit(REQUEUE_EXIT_CODE)

    def close(self) -> None:
        """Sends the remaining reports, or leaves them to the next attempt. Does nothing the second time."""
        atexit.unregister(self.close)
        self.progress.stepped(self.step, is_last=True)
        self.progress.close()
        if self._reached is not None:
            self._reached.close()

    def _seal(self, step: int, names: Iterable[str]) -> dict[str, FileSeal]:
        seals = {}
        for name in names:
            path = self.store.partial(step) / name
            sync_file(path)
            sync_directory(path.parent)
            seals[name] = seal_file(path)
        return seals

    def _commit_parts(self, step: int, parts: list[Any], about: Mapping[str, Any]) -> Manifest:
        error = _first_error(parts)
        if error is None:
            files = {name: seal for part in parts for name, seal in part.items()}
            about = dict(about) | {"world_size": self.gang.world_size}
            outcome = attempt(lambda: self.store.commit(step, files, about))
            if isinstance(outcome, Manifest):
                return outcome
            error = outcome
        # No rank writes there any more: each has sent its part.
        self.store.discard(step)
        raise error

    def _tidy(self, store: Store) -> None:
        try:
            store.tidy(self.keep)
        except OSError as error:
            _LOG.warning("Old checkpoints could not be removed: %s", error)

    def require_same_world_size(self) -> None:
        """For frameworks that count their position in batches."""
        before = self.found.progress["world_size"] if self.found else self.gang.world_size
        if before != self.gang.world_size:
            raise RuntimeError(
                f"the checkpoint of step {self.step} was saved by {before} ranks and there are {self.gang.world_size}: "
                "this framework counts its position in batches, which mean other samples then"
            )

    def _take(self, directory: Path) -> Store:
        """Rank 0 takes the directory; the others check that it is the same one."""
        store = self.gang.by_rank_0(lambda: Store.begin(directory, self.contract.attempt))
        seen = self.gang.from_all(attempt(lambda: patiently(os.stat, directory / MARKER).st_size))
        if error := _first_error(seen):
            raise RuntimeError(f"{directory} is not shared by all {self.gang.world_size} ranks: {error}")
        if self.gang.rank == 0:
            self._tidy(store)
        return store

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
        if self._reached is not None:
            progress.begin(self.step, self._loaded(self._reached.before))
            # An attempt that ends before its first step has come as far as what it loaded.
            self._reached.note(self.step)
        return progress

    def _loaded(self, reached: int | None) -> dict[str, Any]:
        """The checkpoint that this attempt begins from, and how far earlier attempts had come."""
        loaded: dict[str, Any] = {"step": self.step, "reached": max(self.step, reached or 0)}
        if self.found is not None:
            loaded |= {"attempt": self.found.attempt, "committed_at": self.found.committed_at}
        return loaded


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
        """In the form of reports."""
        return {"seconds": round(self.persist_seconds, 3), "stall_seconds": round(self.stall_seconds, 3)}


def _first_error(parts: Iterable[Any]) -> Exception | None:
    return next((part for part in parts if isinstance(part, Exception)), None)
