"""Reports to the platform: they never block training, and are harmless without a listener.

::

    training ──put──► bounded queue ──► one thread ──POST──► 202: done
                                          ▲   │ anything else: again, after 1 s, 2 s, … 60 s
                                          └───┘
    at exit: the rest ──► DIR/report-N.json ──► sent by the next attempt
    reports that must survive a kill are in the file until they are sent

Only rank 0 of a run reports. A report may arrive twice, which is harmless, because each names its attempt and its
steps.
"""

from __future__ import annotations

import json
import logging
import os
import re
import ssl
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpyard.contract import Contract

Report = dict[str, Any]

#: With a progress report at most every 5 s, merged while they wait, 256 hold more saves than an outage of days has.
QUEUE_MAX = 256
#: A report is some 500 bytes; a file of another size is not one of ours.
REPORT_BYTES_MAX = 16 << 10
TIMEOUT_SECONDS = 5.0
BACKOFF_SECONDS_MAX = 60.0

_LOG = logging.getLogger("warpyard.report")
_LEFT = re.compile(r"report-(\d{1,9})\.json")
#: Status codes of reports that the platform will never accept.
_HOPELESS = {400, 413, 415, 422}


@dataclass
class _Entry:
    report: Report
    #: While it is being sent, nothing may be merged into it.
    is_sealed: bool = False
    #: Its file for the next attempt.
    file: Path | None = None


class Reporter:
    """Sends reports in the background."""

    def __init__(self, post: Callable[[Report], int], directory: Path | None) -> None:
        self._post = post
        self._directory = directory
        self._queue: deque[_Entry] = deque(_left_entries(directory) if directory else [])
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="warpyard-report", daemon=True)
        self._thread.start()

    def put(self, report: Report, survives: bool = False) -> None:
        """Takes a report; returns at once. When the queue is full, the oldest is dropped.

        One that ``survives`` is sent by the next attempt, should this one be killed before.
        """
        files = _leave(self._directory, [report]) if survives and self._directory is not None else []
        with self._changed:
            last = self._queue[-1] if self._queue else None
            merged = merge(last.report, report) if last is not None and not last.is_sealed else None
            if last is not None and merged is not None:
                last.report = merged
            else:
                self._queue.append(_Entry(report, file=files[0] if files else None))
            while len(self._queue) > QUEUE_MAX:
                self._queue.popleft()
                _LOG.warning("The platform has not answered for long: the oldest report is dropped.")
            self._changed.notify()

    def close(self, seconds: float = 2.0) -> None:
        """Gives the thread a moment to send the rest, and leaves unsent reports to the next attempt."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(seconds)
        with self._changed:
            left, self._queue = list(self._queue), deque()
        if self._directory is not None:
            _leave(self._directory, [entry.report for entry in left if entry.file is None])

    def _run(self) -> None:
        backoff = 1.0
        while (entry := self._next()) is not None:
            status = self._post(entry.report)
            if status in _HOPELESS:
                _LOG.warning("The platform refused a report with %d.", status)
            if status == 202 or status in _HOPELESS:
                self._done(entry)
                backoff = 1.0
            elif self._rest(backoff):
                return
            else:
                backoff = min(2 * backoff, BACKOFF_SECONDS_MAX)

    def _next(self) -> _Entry | None:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closing)
            if not self._queue:
                return None
            self._queue[0].is_sealed = True
            return self._queue[0]

    def _done(self, entry: _Entry) -> None:
        if entry.file is not None:
            entry.file.unlink(missing_ok=True)
        with self._changed:
            # It is gone already if the queue was full meanwhile, or was left at exit.
            if self._queue and self._queue[0] is entry:
                self._queue.popleft()

    def _rest(self, seconds: float) -> bool:
        """Waits; says whether the run is over meanwhile."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closing, timeout=seconds)


def merge(last: Report, new: Report) -> Report | None:
    """Merges two reports of one attempt, if the second goes on where the first ended."""
    if "loaded" in last or "loaded" in new:
        return None
    if (last["attempt"], last["world_size"]) != (new["attempt"], new["world_size"]):
        return None
    ranges = _joined(last["ranges"], new["ranges"], "to", "from")
    before, after = ([report["checkpoint"]] if "checkpoint" in report else [] for report in (last, new))
    checkpoint = _joined(before, after, "step", "since")
    if ranges is None or checkpoint is None:
        return None
    step = max(last["step"], new["step"])
    return new | {"step": step, "ranges": ranges} | ({"checkpoint": checkpoint[0]} if checkpoint else {})


def _joined(last: list[Report], new: list[Report], end: str, begin: str) -> list[Report] | None:
    """At most one each become one; None if there is a gap between them. Of two saves the newer one is kept."""
    if not last or not new:
        return last or new
    if len(last) > 1 or len(new) > 1 or last[0].get(end) != new[0].get(begin) or begin not in last[0]:
        return None
    joined = new[0] | {begin: last[0][begin]}
    if end == "to":
        joined["seconds"] = round(last[0]["seconds"] + new[0]["seconds"], 3)
    return [joined]


def poster(contract: Contract) -> Callable[[Report], int] | None:
    """How to send a report: its HTTP status, or 0 if there was no answer. None if the platform gave no address."""
    url, token_file = contract.report_url, contract.report_token_file
    if url is None or token_file is None:
        return None
    check_url(url)
    context = ssl.create_default_context(cafile=contract.report_ca_file) if url.startswith("https:") else None

    def post(report: Report) -> int:
        try:
            # A pod-bound token is renewed in its file: it is read again for every call.
            token = token_file.read_text().strip()
            request = urllib.request.Request(  # noqa: S310
                url,
                data=json.dumps(report).encode(),
                headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
                method="POST",
            )
            return _send(request, context)
        except (OSError, ValueError) as error:
            _LOG.debug("A report was not sent: %s.", type(error).__name__)
            return 0

    return post


def check_url(url: str) -> None:
    """A token goes over TLS, or stays on this machine."""
    parts = urllib.parse.urlsplit(url)
    is_local = parts.scheme == "http" and parts.hostname in {"127.0.0.1", "::1", "localhost"}
    if parts.scheme != "https" and not is_local:
        raise ValueError("WARPYARD_REPORT_URL must begin with https://")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, which would send the token elsewhere."""

    def redirect_request(self, *_arguments: Any, **_named: Any) -> None:
        return None


def _send(request: urllib.request.Request, context: ssl.SSLContext | None) -> int:
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({}), _NoRedirect()]
    if context is not None:
        handlers.append(urllib.request.HTTPSHandler(context=context))
    opener = urllib.request.build_opener(*handlers)
    try:
        with opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def _left_entries(directory: Path) -> list[_Entry]:
    entries = []
    for path in _left_files(directory)[:QUEUE_MAX]:
        try:
            with path.open("rb") as file:
                report = json.loads(file.read(REPORT_BYTES_MAX))
            entries.append(_Entry(dict(report), is_sealed=True, file=path))
        except (OSError, ValueError, TypeError):
            _LOG.warning("%s is no report, and is removed.", path)
            path.unlink(missing_ok=True)
    return entries


def _leave(directory: Path, reports: list[Report]) -> list[Path]:
    """Writes reports for the next attempt; returns the path."""
    left: list[Path] = []
    taken = [int(found[1]) for path in _left_files(directory) if (found := _LEFT.fullmatch(path.name))]
    for number, report in enumerate(reports, start=max(taken, default=0) + 1):
        path = directory / f"report-{number}.json"
        temporary = path.with_name(f".{path.name}")
        try:
            temporary.write_text(json.dumps(report))
            temporary.rename(path)
            left.append(path)
        except OSError as error:
            _LOG.warning("A report could not be left for the next attempt: %s.", error)
            break
    return left


def _left_files(directory: Path) -> list[Path]:
    found = [(_LEFT.fullmatch(entry.name), entry.path) for entry in os.scandir(directory)]
    return [Path(path) for _, path in sorted((int(name[1]), path) for name, path in found if name)]
