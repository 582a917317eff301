"""How often to save: pure, from measured times.

A save costs the time for which training stands still; a failure costs the work since the last save. Daly's estimate
(J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", 2006) balances the two.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field


def daly_seconds(stall_seconds: float, mtbf_seconds: float) -> float:
    """The time of work between two saves that loses least, if a save stops training for ``stall_seconds``."""
    if not (stall_seconds > 0 and mtbf_seconds > 0):
        raise ValueError(f"times must be above 0: stall {stall_seconds}, between failures {mtbf_seconds}")
    if stall_seconds >= 2 * mtbf_seconds:
        return mtbf_seconds
    ratio = stall_seconds / (2 * mtbf_seconds)
    return math.sqrt(2 * stall_seconds * mtbf_seconds) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - stall_seconds


@dataclass
class Interval:
    """The interval in steps, as measurements come in: how many steps a failure without notice may cost at most.

    ``every_steps`` fixes it. Otherwise it follows Daly's estimate for the median of the last saves and steps, and is
    never shorter than a save takes in the background.
    """

    mtbf_seconds: float
    every_steps: int | None = None
    #: Whether training goes on while a save is written.
    is_background: bool = True
    _stalls: deque[float] = field(default_factory=lambda: deque(maxlen=5))
    _persists: deque[float] = field(default_factory=lambda: deque(maxlen=5))
    _steps: deque[float] = field(default_factory=lambda: deque(maxlen=50))

    def saw_step(self, seconds: float) -> None:
        """A step took this long."""
        self._steps.append(max(seconds, 1e-6))

    def saw_save(self, stall_seconds: float, persist_seconds: float) -> None:
        """A save stopped training for so long, and was committed after so long."""
        self._stalls.append(max(stall_seconds, 1e-6))
        self._persists.append(max(persist_seconds, 1e-6))

    def steps(self) -> int:
        """At most this many steps are at risk."""
        if self.every_steps is not None:
            return self.every_steps
        if not self._steps:
            return 1
        if not self._stalls:
            # Nothing is known of saves before the first one: ten steps show what a step costs, and lose little.
            return 10
        seconds = max(daly_seconds(_median(self._stalls), self.mtbf_seconds), _median(self._persists))
        return max(1, round(seconds / _median(self._steps)))

    def lag_steps(self) -> int:
        """How many steps pass while a save is written: it begins by so many earlier, half the interval at most."""
        if not self.is_background:
            return 0
        if not (self._persists and self._steps):
            return self.steps() // 2
        lag = math.ceil(_median(self._persists) / _median(self._steps))
        return min(lag, self.steps() // 2)

    def is_due(self, step: int, begun_step: int) -> bool:
        """Whether a save has to begin now, if the last one was begun at ``begun_step``."""
        return step - begun_step >= self.steps() - self.lag_steps()

    def must_wait(self, step: int, committed_step: int) -> bool:
        """Whether training may not go on before the save under way is committed: the interval is a promise."""
        return step - committed_step >= self.steps()


def _median(values: deque[float]) -> float:
    return sorted(values)[len(values) // 2]
