"""How often to save: pure, from measured times.

A save costs the time for which training stands still; a failure costs the work since the last save. Daly's estimate
(J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", 2006) balances the two.

::

    saves and steps of this attempt ─► medians ─────────────────────┐
    times of former attempts, and the number of failures ─► recall ─┴─► Daly's period ─► is a save due?
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: By how much an expected time between failures may be wrong: a factor, one deviation of its logarithm. The simulation
#: (tests/interval_waste.py) hardly changes from 2 to 10: below, a wrong guess stays; above, the first failures lead.
MTBF_DOUBT = 4.0
#: How many saves and steps are remembered. If saves vary by 20 %, the median of nine varies by 6 %, the
#: interval by 3 %.
_SAVES_MAX, _STEPS_MAX = 9, 50
#: The first save shows what a save costs, and comes after the first step. This many steps show what a step costs.
_STEPS_UNKNOWN = 10


def daly_seconds(stall_seconds: float, mtbf_seconds: float) -> float:
    """The time of work between two saves that loses least, if a save stops training for ``stall_seconds``."""
    if not (stall_seconds > 0 and mtbf_seconds > 0):
        raise ValueError(f"times must be above 0: stall {stall_seconds}, between failures {mtbf_seconds}")
    if stall_seconds >= 2 * mtbf_seconds:
        return mtbf_seconds
    ratio = stall_seconds / (2 * mtbf_seconds)
    return math.sqrt(2 * stall_seconds * mtbf_seconds) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - stall_seconds


def likely_mtbf_seconds(expected_seconds: float, failures: int, seconds: float) -> float:
    """The likeliest time between failures, after this number of them in these seconds.

    The expected time is taken to be right up to a factor (``MTBF_DOUBT``). So a wrong guess is overruled after a few
    failures, however wrong it was, and the first failure hardly changes a right one.
    """
    weight = 1 / math.log(MTBF_DOUBT) ** 2
    # No two failures within a second: a bound for the exponents below.
    ratio = max(seconds, failures) / expected_seconds
    # The logarithm of the rate, over that of the expected one, at which the likelihood's slope is 0. The slope falls
    # ever faster, so from a place where it is below 0 Newton's steps come down to it and never pass it.
    place = math.log(failures / ratio) if failures > ratio else 0.0
    for _ in range(100):
        slope = failures - ratio * math.exp(place) - weight * place
        place += slope / (ratio * math.exp(place) + weight)
        if slope > -1e-6:
            break
    return expected_seconds * math.exp(-place)


@dataclass
class Interval:
    """Decides from measurements when to save, and how many steps a failure without notice may cost at most.

    ``every_steps`` fixes the latter. Otherwise saves begin as far apart as Daly's estimate says, for the median of the
    last saves and steps and the likeliest time between failures.
    """

    #: As expected before anything was seen.
    mtbf_seconds: float
    every_steps: int | None = None
    #: Whether training goes on while a save is written.
    is_background: bool = True
    _stalls: deque[float] = field(default_factory=lambda: deque(maxlen=_SAVES_MAX))
    _persists: deque[float] = field(default_factory=lambda: deque(maxlen=_SAVES_MAX))
    _steps: deque[float] = field(default_factory=lambda: deque(maxlen=_STEPS_MAX))
    _is_after_save: bool = False
    _failures: int = 0
    _seconds: float = 0.0
    #: The estimate after everything seen up to the last save.
    _likely_mtbf_seconds: float = field(init=False)

    def __post_init__(self) -> None:
        self._likely_mtbf_seconds = self.mtbf_seconds

    def saw_step(self, seconds: float) -> None:
        """A step took this long, with the stall of a save if one began before it."""
        self._seconds += seconds
        stall = 0.0
        if self._is_after_save:
            stall = self._stalls[-1] if self._stalls else seconds
            self._is_after_save = False
        # The rest of a step with a long stall has no meaning. Counted as a step, the stall would make steps look as
        # long as saves: then there would be a save after each step, and a stall in each step again.
        if stall <= seconds / 2:
            self._steps.append(max(seconds - stall, 1e-6))

    def save_begins(self) -> None:
        """The next step's time has a stall in it."""
        self._is_after_save = True

    def saw_save(self, stall_seconds: float, persist_seconds: float) -> None:
        """A save stopped training for this long, and was committed after this long."""
        self._stalls.append(max(stall_seconds, 1e-6))
        self._persists.append(max(persist_seconds, 1e-6))
        self._estimate()

    def memory(self, is_over: bool) -> dict[str, Any]:
        """The measurements for the next attempt; ``is_over`` if this one ends without losing work."""
        return {
            "failures": self._failures,
            "seconds": self._seconds,
            # Medians, each of which then counts as one time, so that newer measurements soon outweigh
            # them.
            "step_seconds": _median(self._steps) if self._steps else None,
            "stall_seconds": _median(self._stalls) if self._stalls else None,
            "persist_seconds": _median(self._persists) if self._persists else None,
            "is_over": is_over,
        }

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Takes up the measurements of former attempts. One that was not over has failed, after it wrote them."""
        failures, seconds = _count(memory["failures"]), _time(memory["seconds"])
        names = {"step_seconds": self._steps, "stall_seconds": self._stalls, "persist_seconds": self._persists}
        found = {name: _time(memory[name]) for name in names if memory[name] is not None}
        self._failures, self._seconds = failures, seconds
        for name, value in found.items():
            names[name].append(value)
        if memory["is_over"] is not True:
            if self._stalls:
                # It wrote when it had saved: on average it then came half the way to the next time.
                self._estimate()
                self._seconds += (self.period_seconds() + _median(self._stalls)) / 2
            self._failures += 1
        self._estimate()

    def period_seconds(self) -> float:
        """Daly's estimate; only after a save."""
        return daly_seconds(_median(self._stalls), self._likely_mtbf_seconds)

    def period_steps(self) -> int:
        """From the beginning of one save to that of the next."""
        if self.every_steps is not None:
            return self.every_steps - self._lag_steps(self.every_steps // 2)
        if not (self._steps and self._stalls):
            return _STEPS_UNKNOWN if self._steps or self._stalls else 1
        return max(1, round(self.period_seconds() / _median(self._steps)))

    def steps(self) -> int | None:
        """At most this many steps are at risk; ``None`` if that is not known yet."""
        if self.every_steps is not None:
            return self.every_steps
        if not (self._steps and self._persists):
            return None
        # The next save begins when it is due and the last one is committed, and may take twice as long as usual.
        lag = self._lag_steps(10**9)
        return max(self.period_steps(), lag) + 2 * lag

    def is_due(self, step: int, begun_step: int) -> bool:
        """Whether a save has to begin now, if the last one was begun at ``begun_step`` and is committed."""
        return step - begun_step >= self.period_steps()

    def must_wait(self, step: int, committed_step: int) -> bool:
        """Whether training may not go on before the save under way is committed: the interval is a promise."""
        steps = self.steps()
        return steps is not None and step - committed_step >= steps

    def _estimate(self) -> None:
        self._likely_mtbf_seconds = likely_mtbf_seconds(self.mtbf_seconds, self._failures, self._seconds)

    def _lag_steps(self, most: int) -> int:
        """How many steps pass while a save is written; ``most`` if that is unknown."""
        if not self.is_background:
            return 0
        if not (self._persists and self._steps):
            return most
        return min(most, math.ceil(_median(self._persists) / _median(self._steps)))


def _median(values: deque[float]) -> float:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def _count(value: Any) -> int:
    if not (isinstance(value, int) and 0 <= value < 10**6):
        raise ValueError(f"{value!r} is no number of failures")
    return value


def _time(value: Any) -> float:
    # Three hundred years; infinity and NaN are beyond.
    if not (isinstance(value, (int, float)) and 0 <= value < 1e10):
        raise ValueError(f"{value!r} is no time")
    return max(float(value), 1e-6)
