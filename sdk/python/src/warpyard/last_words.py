"""Tells the platform that the framework ran out of memory, in the pod's termination message.

A process that ends for another reason leaves its message as it is: it belongs to the script.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from types import TracebackType

#: Where a kubelet reads the termination message of a container.
TERMINATION_MESSAGE = Path("/dev/termination-log")
#: What the platform looks for.
OUT_OF_MEMORY = "OutOfMemory: "
#: A kubelet keeps 4096 bytes; the platform keeps 300 characters.
_WORDS_MAX = 300
#: torch has its name for GPUs; Python has one for its own memory.
_NAMES = frozenset({"OutOfMemoryError", "MemoryError"})


def tell_when_memory_runs_out(path: Path = TERMINATION_MESSAGE) -> None:
    """From now on an exception that ends this process because of memory is told there. The second call does nothing."""
    before = sys.excepthook
    if getattr(before, "tells_about_memory", False):
        return

    def tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        words = about_memory(error)
        if words is not None:
            # Outside of a container there is no such file; the traceback below says it anyway.
            with contextlib.suppress(OSError):
                path.write_text(OUT_OF_MEMORY + words + "\n", encoding="utf-8")
        before(kind, error, trace)

    tell.tells_about_memory = True  # type: ignore[attr-defined]
    sys.excepthook = tell


def about_memory(error: BaseException) -> str | None:
    """The error's words on one line, if it or its cause is about memory."""
    cause: BaseException | None = error
    # A framework wraps an error a few times at most; a longer chain may be a circle.
    for _ in range(8):
        if cause is None:
            return None
        if any(kind.__name__ in _NAMES for kind in type(cause).__mro__):
            words = " ".join(str(cause).split()) or type(cause).__name__
            return words[:_WORDS_MAX]
        cause = cause.__cause__ or cause.__context__
    return None
