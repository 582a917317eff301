"""The ranks of a run, and their agreements.

Everything here goes over gloo groups of our own: it neither waits for a GPU nor mixes with the script's collectives.
Saves have a second group, because they talk from a thread of their own.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist

T = TypeVar("T")

#: Modules whose errors can be sent to another process. Of other errors only the text is sent.
_MODULES_OF_ERRORS = ("builtins", "warpyard.commit")


class Gang:
    """All ranks, or this process alone."""

    def __init__(self) -> None:
        self.is_distributed = dist.is_available() and dist.is_initialized()
        world = int(os.environ.get("WORLD_SIZE") or 1)
        if not self.is_distributed and world > 1:
            raise RuntimeError(f"WORLD_SIZE is {world}: call init_process_group before warpyard is attached")
        self.rank = dist.get_rank() if self.is_distributed else 0
        self.world_size = dist.get_world_size() if self.is_distributed else 1
        self._control: Any = dist.new_group(backend="gloo") if self.is_distributed else None
        #: For the thread that writes checkpoints.
        self.saves: Any = dist.new_group(backend="gloo") if self.is_distributed else None

    def agree(self, *flags: bool) -> list[bool]:
        """For each flag, whether any rank raised it. Every rank must call this at the same step."""
        if not self.is_distributed:
            return list(flags)
        raised = torch.tensor(flags, dtype=torch.int32)
        dist.all_reduce(raised, op=dist.ReduceOp.MAX, group=self._control)
        return [bool(flag) for flag in raised.tolist()]

    def from_rank_0(self, value: T, of_saves: bool = False) -> T:
        """The value of rank 0."""
        if not self.is_distributed:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0, group=self.saves if of_saves else self._control)
        return box[0]

    def from_all(self, value: T, of_saves: bool = False) -> list[T]:
        """The value of each rank, by rank."""
        if not self.is_distributed:
            return [value]
        boxes: list[Any] = [None] * self.world_size
        dist.all_gather_object(boxes, value, group=self.saves if of_saves else self._control)
        return boxes

    def by_rank_0(self, work: Callable[[], T], of_saves: bool = False) -> T:
        """Does the work only at rank 0. Every rank gets its result, or the same error."""
        outcome = self.from_rank_0(attempt(work) if self.rank == 0 else None, of_saves)
        if isinstance(outcome, Exception):
            raise outcome
        return cast(T, outcome)


def attempt(work: Callable[[], T]) -> T | Exception:
    """The result of the work, or its error as a value: a rank that raised it would leave the others waiting."""
    try:
        return work()
    except Exception as error:
        is_known = type(error).__module__ in _MODULES_OF_ERRORS
        return error if is_known else RuntimeError(f"{type(error).__name__}: {error}")


class Notice:
    """Whether SIGTERM has come: save and leave."""

    def __init__(self) -> None:
        self.is_received = False
        if threading.current_thread() is threading.main_thread():
            self.listen()

    def listen(self) -> None:
        """Takes over SIGTERM, also from a framework that took it meanwhile."""
        signal.signal(signal.SIGTERM, self._receive)

    def _receive(self, _signal: int, _frame: FrameType | None) -> None:
        self.is_received = True
