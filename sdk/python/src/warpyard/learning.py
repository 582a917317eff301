"""Passes the times of an attempt to the next one: a small file in the checkpoint directory, which may be missing.

::

    interval.json ─► recall ─► attempt: saves, steps ─► after each commit, and at the end: interval.json
                       └► it was not marked as over? then that attempt has failed, and failures are more likely
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warpyard.commit import write_synced
from warpyard.interval import Interval
from warpyard.session import SaveTimes, Session, Write

FILE = "interval.json"
#: Six values of 25 characters at most, with their names.
BYTES_MAX = 1024

_LOG = logging.getLogger("warpyard")


class LearningSession(Session):
    """This rank's part of the attempt, with the measurements of former ones."""

    def __init__(
        self, directory: Path | str | None, every_steps: int | None, keep: int, is_background: bool = True
    ) -> None:
        super().__init__(directory, every_steps, keep, is_background)
        # All ranks choose by the same times.
        recall(self.interval, self.gang.from_rank_0(read(self.store.directory) if self.gang.rank == 0 else None))
        self._remember(is_over=False)

    def commit(self, step: int, write: Write, about: Mapping[str, Any], times: SaveTimes) -> None:
        """Commits, and remembers how long that took."""
        super().commit(step, write, about, times)
        self._remember(is_over=False)

    def close(self) -> None:
        """Ends the attempt; an uncommitted save is lost."""
        self._remember(is_over=self.committed_step == self.step)
        super().close()

    def _remember(self, is_over: bool) -> None:
        if self.gang.rank == 0:
            write(self.store.directory, self.interval.memory(is_over))


def read(directory: Path) -> Any:
    """The record of the last attempt, ``None`` if none can be read."""
    try:
        with (directory / FILE).open("rb") as file:
            return json.loads(file.read(BYTES_MAX))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        _LOG.warning("The times of former attempts cannot be read, so they are measured anew: %s", error)
        return None


def recall(interval: Interval, memory: Any) -> None:
    """Passes the record to the interval, if an interval wrote it."""
    try:
        if memory is not None:
            interval.recall(memory)
    except (LookupError, TypeError, ValueError) as error:
        _LOG.warning("The times of former attempts make no sense, so they are measured anew: %r", error)


def write(directory: Path, memory: Mapping[str, Any]) -> None:
    """Replaces the record; if that fails, the next attempt knows less."""
    temporary = directory / f".{FILE}.{os.getpid()}"
    try:
        write_synced(temporary, json.dumps(memory).encode())
        temporary.rename(directory / FILE)
    except FileNotFoundError:
        # The directory was removed, so nothing is to be written.
        return
    except OSError as error:
        _LOG.warning("The times of this attempt are not kept for the next one: %s", error)
