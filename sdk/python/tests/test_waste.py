"""The simulation is true to how a training asks the interval, and what it shows holds."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from tests.interval_waste import BAR, DAY, HOUR, MINUTE, Cell, curve, measure
from tests.test_examples import GUIDE
from tests.waste import RESTART_SECONDS, Automatic, Fixed, World, _variations, failures, wasted_seconds
from warpyard.interval import Interval


class StepByStep:
    """The same training, asking after each step, in the order of ``warpyard.checkpoint``."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.last = round(world.work_seconds / world.step_seconds)
        self.variations, self.failures = _variations(seed), failures(world, seed)
        self.now, self.committed = 0.0, 0
        self.memory: dict[str, Any] | None = None

    def wasted_seconds(self) -> float:
        failure_at = next(self.failures)
        while True:
            self.attempt(failure_at)
            if self.committed == self.last:
                return self.now - self.last * self.world.step_seconds
            self.now = failure_at
            while failure_at <= self.now:
                # It may fail again while it starts.
                self.now, failure_at = failure_at + RESTART_SECONDS, next(self.failures)

    def attempt(self, failure_at: float) -> None:
        world, interval = self.world, Interval(self.world.mtbf_seconds, is_background=self.world.is_background)
        if self.memory is not None:
            interval.recall(self.memory)
        self.memory = interval.memory(is_over=False)
        step = begun = resumed = self.committed
        save: tuple[float, float, float] | None = None
        stall = 0.0
        while self.now < failure_at and self.committed < self.last:
            if save and save[0] > self.now and (step == self.last or interval.must_wait(step, self.committed)):
                self.now = save[0]
            elif step < self.last and not (save and save[0] <= self.now):
                self.now += world.step_seconds
                step += 1
                if step > resumed + 1:
                    interval.saw_step(world.step_seconds + stall)
                stall = 0.0
            if save and save[0] <= min(self.now, failure_at):
                interval.saw_save(*save[1:])
                self.committed, self.memory, save = begun, interval.memory(is_over=False), None
            is_due = begun < step and (step == self.last or interval.is_due(step, begun))
            if self.now < failure_at and save is None and is_due:
                interval.save_begins()
                seconds = world.save_seconds * next(self.variations)
                stall = seconds * world.stall_share
                save, begun = (self.now + seconds, stall, seconds), step
                self.now += stall


@pytest.mark.parametrize("stall_share", [1.0, 0.1])
@pytest.mark.parametrize("save_seconds", [5.0, 100.0, 2000.0])
def test_leaping_from_save_to_save_is_the_same_as_asking_after_each_step(
    save_seconds: float, stall_share: float
) -> None:
    world = World(save_seconds, HOUR, 100 * HOUR, 3.0, stall_share)
    for seed in range(2):
        leaping = wasted_seconds(world, Automatic(world, world.mtbf_seconds), seed)
        assert leaping == pytest.approx(StepByStep(world, seed).wasted_seconds(), rel=1e-6)


def test_the_same_failures_hit_every_chooser() -> None:
    world = World(10.0, HOUR, DAY, 1.0)
    first, again, other = (list(itertools.islice(failures(world, seed), 2000)) for seed in (1, 1, 2))
    assert first == again != other
    assert first[-1] / 2000 == pytest.approx(HOUR, rel=0.05)


def test_without_failures_only_saves_are_wasted() -> None:
    world = World(10.0, 1e15, 1000.0, 1.0)
    assert wasted_seconds(world, Fixed(100), 1) == pytest.approx(10 * 10.0, rel=0.1)


@pytest.mark.parametrize(
    ("cell", "failures"),
    [
        (Cell(1.0, 15 * MINUTE, 0.1), 200),
        (Cell(10.0, HOUR, 1.0), 500),
        (Cell(10 * MINUTE, 15 * MINUTE, 1.0), 100),
        (Cell(10 * MINUTE, 15 * MINUTE, 0.1), 200),
        (Cell(10 * MINUTE, 24 * HOUR, 1.0), 600),
    ],
)
def test_what_is_chosen_wastes_little_more_than_the_best_fixed_interval(cell: Cell, failures: int) -> None:
    row = measure(cell, failures, seed=7)
    assert max(row.right, row.wrong) <= BAR


def test_the_guide_shows_what_the_simulation_says() -> None:
    shown = re.search(r"\| a save every .*?\n\n", GUIDE.read_text(), flags=re.DOTALL)
    assert shown is not None and shown[0].rstrip().splitlines() == list(curve())
