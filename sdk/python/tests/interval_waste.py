"""Is the chosen interval a good one? What it wastes, over what the best fixed interval wastes, on a virtual clock.

    python -m tests.interval_waste                  all of the grid: some five minutes on two cores
    python -m tests.interval_waste --failures 200   a look
    python -m tests.interval_waste --curve          the guide's table: what other intervals waste

The best fixed one is found by search, is the best for these very failures, and has nothing to learn. The chosen one has
measured no save when it begins, or has wrong times from elsewhere, and expects a time between failures that is right,
or wrong by a factor of four: it must come within 5 %. Bursts of failures (Weibull, shape 0.7) are reported beside it.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product

from tests.waste import Automatic, Chooser, Fixed, World, wasted_seconds
from warpyard.interval import Interval, daly_seconds

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
SAVES = (1.0, 10.0, MINUTE, 10 * MINUTE)
MTBFS = (15 * MINUTE, HOUR, 6 * HOUR, 24 * HOUR)
#: All of a save, or what a save in the background leaves of it.
STALL_SHARES = (1.0, 0.1)
#: A training takes so long, or so many failures if that is less.
WORK_SECONDS_MAX, WORK_FAILURES_MAX = 30 * DAY, 100
#: Fixed intervals are whole steps, so neighbours in the search are 5 % apart.
STEPS_PER_INTERVAL = 20
#: For each chooser and place, at least: the moment of one is worth 0.3 of an interval, so the mean is known to 1 %.
FAILURES = 1000
BURSTS_SHAPE = 0.7
WRONG_BY = 4.0
BAR = 1.05
SEED = 7


@dataclass(frozen=True)
class Cell:
    """One place of the grid."""

    save_seconds: float
    mtbf_seconds: float
    stall_share: float

    def world(self, shape: float = 1.0) -> World:
        """Steps are so long that Daly's interval has a fair number of them."""
        step_seconds = daly_seconds(self.save_seconds * self.stall_share, self.mtbf_seconds) / STEPS_PER_INTERVAL
        work_seconds = min(WORK_SECONDS_MAX, WORK_FAILURES_MAX * self.mtbf_seconds)
        return World(self.save_seconds, self.mtbf_seconds, work_seconds, step_seconds, self.stall_share, shape)


GRID = [Cell(*place) for place in product(SAVES, MTBFS, STALL_SHARES)]


@dataclass(frozen=True)
class Row:
    """What was found at a place."""

    cell: Cell
    #: What the best fixed interval wastes, over the work, and how long it is.
    best_waste: float
    best_seconds: float
    #: What the chosen one wastes over that: with the right expectation, with the worst of the wrong ones, with bursts.
    right: float
    wrong: float
    bursts: float


def measure(cell: Cell, failures: int, seed: int) -> Row:
    """Searches, and compares."""
    world, bursts = cell.world(), cell.world(BURSTS_SHAPE)
    seeds = range(seed, seed + trainings(world, failures))
    steps, best = best_fixed(world, seeds)
    right, *wrong = (waste(world, chooser, seeds) / best for chooser in choosers(world))
    return Row(
        cell,
        best_waste=best / world.work_seconds,
        best_seconds=steps * world.step_seconds,
        right=right,
        wrong=max(wrong),
        bursts=waste(bursts, choosers(bursts)[0], seeds) / best_fixed(bursts, seeds)[1],
    )


def trainings(world: World, failures: int) -> int:
    """So many see so many failures; more of them where chance decides more."""
    failures_of_one = world.work_seconds / world.mtbf_seconds
    saves_between_failures = world.mtbf_seconds / (STEPS_PER_INTERVAL * world.step_seconds + world.stall_seconds)
    # Where few saves are ever committed, luck in that counts; where a training sees few failures, what they teach.
    more = max(50 / saves_between_failures, 1 if failures_of_one == WORK_FAILURES_MAX else 2)
    return math.ceil(more * failures / failures_of_one)


def waste(world: World, chooser: Callable[[], Chooser], seeds: Sequence[int]) -> float:
    """The mean over the trainings of these seeds."""
    return sum(wasted_seconds(world, chooser(), seed) for seed in seeds) / len(seeds)


def choosers(world: World) -> list[Callable[[], Automatic]]:
    """The first expects what comes and has measured nothing; the others are wrong about one or both."""
    wrong = (WRONG_BY, 1 / WRONG_BY)
    return [
        *(partial(Automatic, world, world.mtbf_seconds * by) for by in (1.0, *wrong)),
        *(partial(_misled, world, mtbf_by, 1 / mtbf_by) for mtbf_by in wrong),
    ]


def _misled(world: World, mtbf_by: float, saves_by: float) -> Automatic:
    """As if the times of another training were in the directory."""
    other = Interval(world.mtbf_seconds)
    other.saw_step(world.step_seconds)
    other.saw_save(world.stall_seconds * saves_by, world.save_seconds * saves_by)
    return Automatic(world, world.mtbf_seconds * mtbf_by, other.memory(is_over=True))


def best_fixed(world: World, seeds: Sequence[int]) -> tuple[int, float]:
    """The fixed interval that wastes least, in steps, and its waste: first a wide look, then step by step."""
    some = seeds[: max(1, len(seeds) // 4)]
    wide = sorted({max(1, round(STEPS_PER_INTERVAL * 1.3**power)) for power in range(-10, 8)})
    steps = min(wide, key=lambda steps: waste(world, partial(Fixed, steps), some))
    known: dict[int, float] = {}
    while True:
        near = range(max(1, steps - max(3, steps // 6)), steps + max(3, steps // 6) + 1)
        for it in near:
            known.setdefault(it, waste(world, partial(Fixed, it), seeds))
        best = min(known, key=lambda it: known[it])
        if best == steps or best not in (near[0], near[-1]):
            return best, known[best]
        steps = best


def main() -> int:
    """Prints the table and the figure; 1 if the bar is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--failures", type=int, default=FAILURES, help="of each chooser at each place, at least")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--curve", action="store_true", help="only the guide's table")
    args = parser.parse_args()
    if args.curve:
        print("\n".join(curve()))
        return 0
    print(f"seed {args.seed}, at least {args.failures} failures for each chooser at each place")
    print(HEADING)
    rows = []
    with ProcessPoolExecutor() as pool:
        for row in pool.map(partial(measure, failures=args.failures, seed=args.seed), GRID):
            rows.append(row)
            print(line(row), flush=True)
    worst = max(max(row.right, row.wrong) for row in rows)
    bursts = max(row.bursts for row in rows)
    about = f"(the worst of {len(rows)} places; with bursts {bursts:.3f}; seed {args.seed}; bar: {BAR})"
    # A look is no figure.
    word = "figure" if args.failures >= FAILURES else "about"
    print(f"{word} runs.interval_waste_over_best {worst:.4f} times  {about}")
    return int(worst > BAR)


HEADING = "   save   stall  between failures  best fixed   its waste   right   wrong   bursts"


def line(row: Row) -> str:
    """Of the table."""
    cell = row.cell
    return (
        f"{cell.save_seconds:5.0f} s {cell.save_seconds * cell.stall_share:5.1f} s {cell.mtbf_seconds / HOUR:15.2f} h"
        f" {row.best_seconds:9.0f} s {100 * row.best_waste:9.1f} % {row.right:7.3f} {row.wrong:7.3f} {row.bursts:8.3f}"
    )


def curve() -> Iterator[str]:
    """What other intervals waste, for a save that stops training for 10 s and a failure every four hours."""
    cell = Cell(10.0, 4 * HOUR, 1.0)
    world, seeds = cell.world(), range(SEED, SEED + 3)
    yield "| a save every | is wasted | |"
    yield "|---|---|---|"
    for minutes in (1, 2, 4, 9, 20, 40, 80):
        steps = round(minutes * MINUTE / world.step_seconds)
        yield _drawn(f"{minutes} min", waste(world, partial(Fixed, steps), seeds) / world.work_seconds)
    yield _drawn("**chosen**", waste(world, choosers(world)[0], seeds) / world.work_seconds)


def _drawn(name: str, share: float) -> str:
    return f"| {name} | {100 * share:.1f} % | {'█' * round(200 * share)} |"


if __name__ == "__main__":
    sys.exit(main())
