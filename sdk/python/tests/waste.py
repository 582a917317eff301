"""A training on a virtual clock: what random failures waste with the SDK's own ``Interval``, and with fixed ones.

::

    steps ─► due? ─► save: stall, then written beside the steps ─► committed ─► steps …
      failure at any moment: back to the last committed step, after a restart; the next attempt recalls

``tests.interval_waste`` compares them over a grid. The same seed gives the same failures to each chooser.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from warpyard.interval import Interval

#: A scheduled pod, an image that is there, an import of torch, a load.
RESTART_SECONDS = 60.0
#: Saves vary by so much either way.
VARIATION = 0.2


@dataclass(frozen=True)
class World:
    """What a training meets."""

    save_seconds: float
    mtbf_seconds: float
    work_seconds: float
    step_seconds: float
    #: The part of a save for which training stands still: 1 if nothing is written in the background.
    stall_share: float = 1.0
    #: Weibull's; 1 is exponential, below it failures come in bursts.
    shape: float = 1.0

    @property
    def stall_seconds(self) -> float:
        """On average."""
        return self.save_seconds * self.stall_share

    @property
    def is_background(self) -> bool:
        """Whether training goes on while a save is written."""
        return self.stall_share < 1.0


class Chooser(Protocol):
    """What the training asks and tells, attempt after attempt."""

    def begin(self) -> None:
        """An attempt begins; the one before has failed, if there was one."""

    def due_step(self, begun_step: int) -> int:
        """Where the next save begins."""

    def wait_step(self, committed_step: int) -> float:
        """Where training waits for the save under way."""

    def began(self) -> None:
        """A save begins."""

    def stepped(self, steps: int, seconds: float, stall_seconds: float) -> None:
        """So many steps took so long each, the first of them with a stall before it."""

    def committed(self, stall_seconds: float, persist_seconds: float) -> None:
        """A save is safe."""


class Automatic:
    """The SDK's own, over attempts: it remembers what it wrote when a save was committed."""

    def __init__(self, world: World, mtbf_seconds: float, memory: Mapping[str, Any] | None = None) -> None:
        self._world = world
        self._mtbf_seconds = mtbf_seconds
        self._memory = memory
        self.interval = Interval(mtbf_seconds)

    def begin(self) -> None:
        self.interval = Interval(self._mtbf_seconds, is_background=self._world.is_background)
        if self._memory is not None:
            self.interval.recall(self._memory)
        self._remember()

    def due_step(self, begun_step: int) -> int:
        return begun_step + self.interval.period_steps()

    def wait_step(self, committed_step: int) -> float:
        steps = self.interval.steps()
        return math.inf if steps is None else committed_step + steps

    def began(self) -> None:
        self.interval.save_begins()

    def stepped(self, steps: int, seconds: float, stall_seconds: float) -> None:
        for number in range(steps):
            self.interval.saw_step(seconds + (stall_seconds if number == 0 else 0.0))

    def committed(self, stall_seconds: float, persist_seconds: float) -> None:
        self.interval.saw_save(stall_seconds, persist_seconds)
        self._remember()

    def _remember(self) -> None:
        self._memory = self.interval.memory(is_over=False)


class Fixed:
    """Saves at equal distances, and never waits for one."""

    def __init__(self, steps: int) -> None:
        self._steps = steps

    def begin(self) -> None:
        pass

    def due_step(self, begun_step: int) -> int:
        return begun_step + self._steps

    def wait_step(self, committed_step: int) -> float:
        return math.inf

    def began(self) -> None:
        pass

    def stepped(self, steps: int, seconds: float, stall_seconds: float) -> None:
        pass

    def committed(self, stall_seconds: float, persist_seconds: float) -> None:
        pass


def wasted_seconds(world: World, chooser: Chooser, seed: int) -> float:
    """What the training takes beyond its work: stalls, waits, steps made again, restarts."""
    last_step = math.ceil(world.work_seconds / world.step_seconds)
    variations = _variations(seed)
    safe_step, now = 0, 0.0
    for failure_at in failures(world, seed):
        if now < failure_at:
            chooser.begin()
            attempt = Attempt(world, chooser, safe_step, last_step, variations)
            if (ended_at := attempt.run(now, failure_at)) is not None:
                return ended_at - last_step * world.step_seconds
            safe_step = attempt.committed_step
        # Else it failed again while it started.
        now = failure_at + RESTART_SECONDS
    raise AssertionError("failures never end")


def failures(world: World, seed: int) -> Iterator[float]:
    """When they happen."""
    dice = random.Random(f"failures {seed}")
    scale = world.mtbf_seconds / math.gamma(1 + 1 / world.shape)
    now = 0.0
    while True:
        now += dice.weibullvariate(scale, world.shape)
        yield now


def _variations(seed: int) -> Iterator[float]:
    dice = random.Random(f"saves {seed}")
    return (dice.uniform(1 - VARIATION, 1 + VARIATION) for _ in itertools.count())


class Attempt:
    """From a committed step to the end, or to a failure."""

    def __init__(self, world: World, chooser: Chooser, step: int, last_step: int, variations: Iterator[float]) -> None:
        self._world = world
        self._chooser = chooser
        self._variations = variations
        self._last_step = last_step
        self.committed_step = self._begun_step = self._step = step
        self._now = 0.0
        self._stall_seconds = 0.0
        self._is_first = True

    def run(self, began_at: float, failure_at: float) -> float | None:
        """When the training was done, or ``None`` if it failed before."""
        self._now = began_at
        while self.committed_step < self._last_step and self._now < failure_at:
            self._train_and_save(failure_at)
        return self._now if self.committed_step == self._last_step else None

    def _train_and_save(self, failure_at: float) -> None:
        """Until the save is committed or would have been: a failure in between is seen by what is not committed."""
        # Asked again on arrival, since steps are measured on the way.
        while self._step < min(due_step := self._chooser.due_step(self._begun_step), self._last_step):
            self._train(due_step - self._step)
        if self._now >= failure_at:
            return
        self._begun_step = self._step
        self._chooser.began()
        save_seconds = self._world.save_seconds * next(self._variations)
        self._stall_seconds = save_seconds * self._world.stall_share
        commit_at = self._now + save_seconds
        self._now += self._stall_seconds
        beside = math.ceil((commit_at - self._now) / self._world.step_seconds)
        self._train(min(beside, self._chooser.wait_step(self.committed_step) - self._step))
        self._now = max(self._now, commit_at)
        if commit_at <= failure_at:
            self.committed_step = self._begun_step
            self._chooser.committed(save_seconds * self._world.stall_share, save_seconds)

    def _train(self, steps: float) -> None:
        steps = int(min(steps, self._last_step - self._step))
        if steps > 0:
            self._step += steps
            self._now += steps * self._world.step_seconds
            # Nobody knows when an attempt's first step began.
            self._chooser.stepped(steps - self._is_first, self._world.step_seconds, self._stall_seconds)
            self._stall_seconds, self._is_first = 0.0, False
