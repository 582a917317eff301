"""Turns steps into reports: one range at a time, at most one report in some seconds."""

from __future__ import annotations

import time

from warpyard.report import Report, Reporter


class Progress:
    """The progress of one attempt. Without a reporter nothing is sent."""

    def __init__(self, reporter: Reporter | None, heading: Report, pause_seconds: float = 5.0) -> None:
        self._reporter = reporter
        self._heading = heading
        self._pause_seconds = pause_seconds
        self._told_step: int | None = None
        self._told_at = time.monotonic()

    def begin(self, step: int, loaded: Report) -> None:
        """The attempt begins at this step, from that checkpoint. Only it knows that, so the report survives a kill."""
        self._told_step, self._told_at = step, time.monotonic()
        if self._reporter is not None:
            self._reporter.put(self._heading | {"step": step, "ranges": [], "loaded": loaded}, survives=True)

    def stepped(self, step: int, is_last: bool = False) -> None:
        """All steps up to this one are done."""
        is_time = is_last or time.monotonic() - self._told_at >= self._pause_seconds
        if is_time and (ranges := self._take_range(step)):
            self._put({"step": step, "ranges": ranges})

    def saved(self, step: int, checkpoint: Report) -> None:
        """That checkpoint is committed."""
        self._put({"step": step, "ranges": [], "checkpoint": checkpoint})

    def close(self) -> None:
        """Sends or leaves the rest."""
        if self._reporter is not None:
            self._reporter.close()

    def _take_range(self, step: int) -> list[Report]:
        began, since = self._told_step, self._told_at
        self._told_step, self._told_at = step, time.monotonic()
        if began is None or began == step:
            return []
        world_size, seconds = self._heading["world_size"], round(self._told_at - since, 3)
        return [{"from": began, "to": step, "world_size": world_size, "seconds": seconds}]

    def _put(self, report: Report) -> None:
        if self._reporter is not None:
            self._reporter.put(self._heading | report)
