"""How far an attempt came, known also after SIGKILL: a number of 20 digits in a file, written over at each step.

::

    DIR/reached-3    the last step that attempt 3 has done

It says what the next attempt has to do again, and nothing else: a file that cannot be written costs the record a
number, and training nothing. What a killed process wrote is in the kernel and stays; only with its whole machine a
step may go. A note takes about a microsecond.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path

_LOG = logging.getLogger("warpyard")
_NAME = re.compile(r"reached-(\d{1,18})")
_DIGITS = 20


class Reached:
    """This attempt's number, and what it was when the attempt began. For one process, rank 0."""

    def __init__(self, directory: Path, attempt: int) -> None:
        before = sorted((number, path) for number, path in _files(directory) if number <= attempt)
        #: The last step of the newest attempt that did any, or None: then nobody knows.
        self.before = next((step for _, path in reversed(before) if (step := _read(path)) is not None), None)
        self._descriptor = _open(file_of(directory, attempt))
        if self._descriptor is not None:
            for _, path in [it for it in before if it[0] < attempt][:-1]:
                path.unlink(missing_ok=True)

    def note(self, step: int) -> None:
        """All steps up to this one are done."""
        if self._descriptor is None:
            return
        try:
            os.pwrite(self._descriptor, b"%020d" % step, 0)
        except OSError as error:
            _LOG.warning("How far this attempt came is not noted any more: %s.", error)
            self.close()

    def close(self) -> None:
        """Notes nothing any more."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def file_of(directory: Path, attempt: int) -> Path:
    """There as soon as that attempt has found what to begin from."""
    return directory / f"reached-{attempt}"


def _files(directory: Path) -> list[tuple[int, Path]]:
    found = [(_NAME.fullmatch(entry.name), entry.path) for entry in os.scandir(directory)]
    return [(int(name[1]), Path(path)) for name, path in found if name]


def _read(path: Path) -> int | None:
    try:
        with path.open("rb") as file:
            digits = file.read(_DIGITS + 1)
    except OSError:
        return None
    return int(digits) if len(digits) == _DIGITS and digits.isdigit() else None


def _open(path: Path) -> int | None:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        _LOG.warning("How far this attempt comes cannot be noted: %s.", error)
        return None
