"""Checkpoints in a directory: written separately, committed by one rename, verified before use.

::

    DIR/attempt                      the newest attempt that has begun here: the fence
    DIR/step-200.attempt-3.partial/  being written; never read
            │  every file fsynced, manifest.json with its hash and size fsynced, the directory fsynced
            ▼  attempt still the newest?  rename, fsync DIR
    DIR/step-200/                    complete, or damaged later: its manifest tells
    DIR/step-100/                    the one before, kept
    DIR/step-250.aside/              damaged, or newer than what the run was told to resume from

A process may die between any two of these calls: what is left is either invisible or complete. Only one process, rank
0, calls ``begin``, ``commit``, ``discard``, ``set_aside`` and ``tidy``; all may read.

A checkpoint is damaged if its bytes differ, or if a file is missing from a readable folder. Every other error of the
file system is an ``OSError``, and does not prove damage.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

MANIFEST = "manifest.json"
MARKER = "attempt"
#: A file name of 255 bytes, a hash and a size for each of 100,000 ranks' files.
MANIFEST_BYTES_MAX = 64 << 20
#: How many complete checkpoints are kept: the newest, and the one before in case the newest is damaged.
KEEP_MIN = 2
#: The damage of a missing file.
MISSING = "is missing"
#: Waits before a file system is asked again: 3.75 s together, enough for a server that moves to another machine.
PAUSES_SECONDS = (0.25, 0.5, 1.0, 2.0)

T = TypeVar("T")

_COMPLETE = re.compile(r"step-(\d{1,18})")
_PARTIAL = re.compile(r"step-\d{1,18}\.attempt-(\d{1,18})\.partial")
_ASIDE = re.compile(r"step-(\d{1,18})\.(?:aside|old)")


class Fenced(RuntimeError):  # noqa: N818
    """A newer attempt of the run has begun: this one may commit nothing any more."""


class Damaged(RuntimeError):  # noqa: N818
    """A checkpoint is not what its manifest says."""


class Unreadable(RuntimeError):  # noqa: N818
    """A checkpoint cannot be read now: it may be whole, so it stays where it is."""


@dataclass(frozen=True)
class FileSeal:
    """The hash and the size of a file when it was written."""

    sha256: str
    bytes: int


@dataclass(frozen=True)
class Manifest:
    """The content of a complete checkpoint. ``progress`` belongs to the saver, and is small."""

    step: int
    attempt: int
    files: Mapping[str, FileSeal]
    progress: Mapping[str, Any]
    #: When, as RFC 3339, by the clock of the one who committed it. None only as it was written before this was noted.
    committed_at: str | None = None

    @property
    def size(self) -> int:
        """The bytes of all its files."""
        return sum(seal.bytes for seal in self.files.values())

    def encode(self) -> bytes:
        """As it is written: the digest covers all the rest."""
        files = {name: {"sha256": seal.sha256, "bytes": seal.bytes} for name, seal in sorted(self.files.items())}
        body = {
            "version": 1,
            "step": self.step,
            "attempt": self.attempt,
            "progress": dict(self.progress),
            "files": files,
        }
        if self.committed_at is not None:
            body["committed_at"] = self.committed_at
        return json.dumps(body | {"digest": _digest(body)}, indent=1).encode()

    @classmethod
    def decode(cls, data: bytes) -> Manifest:
        """Reads what ``encode`` wrote, or raises ``Damaged``."""
        try:
            body = json.loads(data)
            digest = body.pop("digest")
            files = {name: FileSeal(seal["sha256"], seal["bytes"]) for name, seal in body["files"].items()}
            manifest = cls(body["step"], body["attempt"], files, body["progress"], body.get("committed_at"))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Damaged(f"{MANIFEST} cannot be read: {error!r}") from error
        if digest != _digest(body):
            raise Damaged(f"{MANIFEST} does not match its own digest")
        return manifest


class Store:
    """The checkpoints of one run."""

    def __init__(self, directory: Path, attempt: int) -> None:
        self.directory = directory
        self.attempt = attempt

    @classmethod
    def begin(cls, directory: Path, attempt: int | None) -> Store:
        """Takes the directory for this attempt; without a number, for the one after the last that began here."""
        directory.mkdir(parents=True, exist_ok=True)
        with _locked(directory):
            begun = begun_attempt(directory)
            attempt = begun + 1 if attempt is None else attempt
            if attempt < begun:
                raise Fenced(f"attempt {begun} has begun in {directory}: attempt {attempt} is over")
            if attempt > begun:
                _replace(directory / MARKER, f"{attempt}\n".encode())
        return cls(directory, attempt)

    def partial(self, step: int) -> Path:
        """Where this attempt writes that step: a former attempt that is still alive writes elsewhere."""
        return self.directory / f"step-{step}.attempt-{self.attempt}.partial"

    def complete(self, step: int) -> Path:
        """Where that step is once it is committed."""
        return self.directory / f"step-{step}"

    def commit(self, step: int, files: Mapping[str, FileSeal], progress: Mapping[str, Any]) -> Manifest:
        """Makes the partial checkpoint the newest complete one. Its files are synced by those who wrote them."""
        partial = self.partial(step)
        manifest = Manifest(step, self.attempt, dict(files), progress, _rfc_3339(time.time()))
        write_synced(partial / MANIFEST, manifest.encode())
        sync_directory(partial)
        # Under the lock that `begin` takes too, no newer attempt can begin between the look and the rename.
        with _locked(self.directory):
            begun = begun_attempt(self.directory)
            if begun > self.attempt:
                raise Fenced(f"attempt {begun} has begun: step {step} of attempt {self.attempt} is not committed")
            partial.rename(self.complete(step))
            sync_directory(self.directory)
        return manifest

    def discard(self, step: int) -> None:
        """Removes the files of a step that could not be committed: the next one needs the space."""
        _remove(self.partial(step))

    def steps(self) -> list[int]:
        """The steps that were committed, oldest first."""
        names = (_COMPLETE.fullmatch(name) for name in patiently(os.listdir, self.directory))
        return sorted(int(name[1]) for name in names if name)

    def manifest(self, step: int) -> Manifest:
        """The manifest of that step, or ``Damaged``."""
        folder = self.complete(step)
        try:
            data, written_at = patiently(_read_manifest, folder / MANIFEST)
        except FileNotFoundError as error:
            # A missing file counts only if the folder itself is visible.
            patiently(os.stat, folder)
            raise Damaged(f"{MANIFEST} {MISSING}") from error
        manifest = Manifest.decode(data)
        if manifest.step != step:
            raise Damaged(f"{MANIFEST} is that of step {manifest.step}")
        return manifest if manifest.committed_at else replace(manifest, committed_at=_rfc_3339(written_at))

    def damage(self, manifest: Manifest, share: int = 0, shares: int = 1) -> dict[str, str]:
        """The damaged files of that step; each of several ranks checks its share."""
        found = {}
        for name in sorted(manifest.files)[share::shares]:
            try:
                seal = patiently(seal_file, self.complete(manifest.step) / name)
            except FileNotFoundError:
                found[name] = MISSING
                continue
            expected = manifest.files[name]
            if seal.bytes != expected.bytes:
                found[name] = f"has {seal.bytes} bytes, and had {expected.bytes}"
            elif seal != expected:
                found[name] = "does not match its SHA-256"
        return found

    def has(self, step: int, name: str) -> bool:
        """Whether that file of a complete checkpoint is there."""
        try:
            patiently(os.stat, self.complete(step) / name)
        except FileNotFoundError:
            return False
        return True

    def set_aside(self, step: int) -> None:
        """Sets a checkpoint aside: its step may be committed again."""
        target = self.directory / f"step-{step}.aside"
        with _locked(self.directory):
            _remove(target)
            self.complete(step).rename(target)
            sync_directory(self.directory)

    def tidy(self, keep: int = KEEP_MIN) -> None:
        """Removes checkpoints older than the newest ``keep``, and remains of dead attempts."""
        steps = self.steps()
        for step in steps[: -max(keep, KEEP_MIN)]:
            # Renamed first: a half-removed checkpoint must not look like a checkpoint.
            old = self.directory / f"step-{step}.old"
            _remove(old)
            self.complete(step).rename(old)
        newest = steps[-1] if steps else -1
        for entry in list(os.scandir(self.directory)):
            partial, aside = _PARTIAL.fullmatch(entry.name), _ASIDE.fullmatch(entry.name)
            is_dead = partial is not None and int(partial[1]) < self.attempt
            is_passed = aside is not None and (entry.name.endswith(".old") or int(aside[1]) <= newest)
            if is_dead or is_passed:
                _remove(Path(entry.path))


def begun_attempt(directory: Path) -> int:
    """The newest attempt that has begun there, 0 if none has."""
    try:
        text = (directory / MARKER).read_text()[:32].strip()
    except FileNotFoundError:
        return 0
    if not text.isdigit():
        raise Damaged(f"{directory / MARKER} holds {text!r}, and no attempt")
    return int(text)


def patiently(ask: Callable[[Path], T], path: Path) -> T:
    """Retries a failed request to the file system. A missing file is an answer, and final."""
    for seconds in PAUSES_SECONDS:
        try:
            return ask(path)
        except FileNotFoundError:
            raise
        except OSError:
            time.sleep(seconds)
    return ask(path)


def write_synced(path: Path, data: bytes) -> FileSeal:
    """Writes a whole file, and returns when it is on the disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return FileSeal(hashlib.sha256(data).hexdigest(), len(data))


def sync_file(path: Path) -> None:
    """Returns when the file's content is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


#: A directory's entries are synced like a file's bytes.
sync_directory = sync_file


def seal_file(path: Path) -> FileSeal:
    """Hashes a file, in pieces."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return FileSeal(digest, file.tell())


def _read_manifest(path: Path) -> tuple[bytes, float]:
    """With the time at which it was written."""
    with path.open("rb") as file:
        return file.read(MANIFEST_BYTES_MAX + 1), os.fstat(file.fileno()).st_mtime


def _rfc_3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    write_synced(temporary, data)
    temporary.rename(path)
    sync_directory(path.parent)


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    descriptor = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        # Closing releases the lock, and so does the end of the process.
        os.close(descriptor)
