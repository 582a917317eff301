"""Gangs of real processes, as the platform starts them: one for each rank, told by the environment alone.

They are forked from this process, which has imported the frameworks already: that spares seconds for each, and is why
no test may compute with torch in the parent before it forks.
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

#: A gang of these tests works for some seconds at most; two loaded cores need several times that.
DEADLINE_SECONDS = 180.0
#: When one has died, the others hang in a collective with it: nothing is gained by a pod's whole grace of 30 s.
GRACE_SECONDS = 2.0

Worker = Callable[[], None]


class Gang:
    """The processes of one attempt."""

    def __init__(self, worker: Worker, world_size: int, environment: Mapping[str, str], logs: Path) -> None:
        port = _free_port()
        common = {"WORLD_SIZE": str(world_size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        self.logs = logs
        self.codes: dict[int, int] = {}
        self.pids = {}
        sys.stdout.flush()
        for rank in range(world_size):
            ranked = dict(environment) | common | {"RANK": str(rank), "LOCAL_RANK": "0", "NODE_RANK": str(rank)}
            self.pids[rank] = _fork(worker, ranked, logs)

    def signal(self, rank: int, number: signal.Signals) -> None:
        """Sends a signal to a rank that has not ended."""
        if rank not in self.codes:
            os.kill(self.pids[rank], number)

    def poll(self) -> bool:
        """Sees who has ended; whether all have."""
        for rank, pid in self.pids.items():
            if rank not in self.codes:
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    self.codes[rank] = os.waitstatus_to_exitcode(status)
        return len(self.codes) == len(self.pids)

    def wait(self) -> dict[int, int]:
        """Exit codes by rank. When one fails, the others are told to stop, and killed after the grace."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        told_at: float | None = None
        while not self.poll():
            now = time.monotonic()
            if told_at is None and any(code not in (0, 75) for code in self.codes.values()):
                told_at = now
                self._all(signal.SIGTERM)
            if now > deadline or (told_at is not None and now > told_at + GRACE_SECONDS):
                self._all(signal.SIGKILL)
            time.sleep(0.005)
        if time.monotonic() > deadline:
            raise AssertionError(f"a gang took more than {DEADLINE_SECONDS} s:\n{self.log()}")
        return self.codes

    def log(self) -> str:
        """The end of what all ranks printed."""
        return self.logs.read_text(errors="replace")[-8000:]

    def _all(self, number: signal.Signals) -> None:
        for rank in self.pids:
            self.signal(rank, number)


def _fork(worker: Worker, environment: dict[str, str], logs: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        log = os.open(logs, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        # What the parent does when it ends, like removing its folders, is not the child's to do.
        atexit._clear()
        os.environ.update(environment)
        worker()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
