"""How far an attempt came, even after SIGKILL: a number of 20 digits in a file, overwritten at each step.

::

    DIR/reached-3    the last step that attempt 3 has done

It only says what the next attempt has to repeat: if it cannot be written, the record lacks a number, and training goes
on. The write of a killed process stays, because the kernel has it; only the loss of the whole machine may lose a step.
A note takes about a microsecond.
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
    """This attempt's number, and the step of the attempt before. For one process, rank 0."""

    def __init__(self, directory: Path, attempt: int) -> None:
        before = sorted((number, path) for number, path in _files(directory) if number <= attempt)
        #: The last step of the newest attempt that did any; None if unknown.
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
    """The file exists as soon as that attempt has found its start."""
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
