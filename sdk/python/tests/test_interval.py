import math
from collections.abc import Callable

import pytest

from warpyard.interval import Interval, daly_seconds, likely_mtbf_seconds

MINUTE = 60.0
HOUR = 3600.0


@pytest.mark.parametrize(("mtbf_seconds", "published_minutes"), [(24 * HOUR, 117), (6 * HOUR, 57), (15 * MINUTE, 9.1)])
def test_dalys_published_points_come_out(mtbf_seconds: float, published_minutes: float) -> None:
    assert daly_seconds(5 * MINUTE, mtbf_seconds) / MINUTE == pytest.approx(published_minutes, rel=0.01)


def test_a_save_longer_than_two_failures_apart_waits_for_one_failure() -> None:
    assert daly_seconds(2 * HOUR, HOUR) == HOUR


@pytest.mark.parametrize("stall", [1.0, 10.0, 60.0, 600.0])
@pytest.mark.parametrize("mtbf", [15 * MINUTE, HOUR, 24 * HOUR])
def test_no_other_interval_wastes_much_less(stall: float, mtbf: float) -> None:
    # Daly's exact model, restarts left out: the time that one second of work takes.
    def cost(interval: float) -> float:
        return mtbf * (math.exp((interval + stall) / mtbf) - 1) / interval

    # From a second or less to fifty times what lies between failures.
    best = min(cost(mtbf * 1.05**power) for power in range(-240, 80))
    assert cost(daly_seconds(stall, mtbf)) <= 1.005 * best


def test_times_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        daly_seconds(0.0, HOUR)


@pytest.mark.parametrize(
    ("expected_hours", "failures", "hours", "least", "most"),
    [
        # Nothing was seen.
        (10, 0, 0, 9.99, 10.01),
        # What comes is what was expected.
        (10, 1, 10, 9.99, 10.01),
        # A few failures, or a long time without, and a wrong guess is forgotten.
        (40, 10, 100, 10, 13),
        (2.5, 10, 100, 8, 10),
        (100_000, 5, 50, 10, 60),
        (1, 0, 1000, 100, 1000),
        # A script that fails at once tells little in a while.
        (10, 6, 0.01, 0.0001, 0.01),
        (10, 6, 60, 9.99, 10.01),
        # Nothing that can be counted is too much.
        (1, 999_999, 0, 0, 0.001),
    ],
)
def test_the_expected_rate_gives_way_to_the_seen_one(
    expected_hours: float, failures: int, hours: float, least: float, most: float
) -> None:
    assert least <= likely_mtbf_seconds(expected_hours * HOUR, failures, hours * HOUR) / HOUR <= most


def measured(stall_seconds: float, persist_seconds: float, step_seconds: float = 1.0, **named: object) -> Interval:
    interval = Interval(mtbf_seconds=HOUR, **named)  # type: ignore[arg-type]
    interval.saw_step(step_seconds)
    interval.saw_save(stall_seconds, persist_seconds)
    return interval


def test_the_interval_converges_on_what_is_measured() -> None:
    interval = Interval(mtbf_seconds=HOUR)
    assert interval.period_steps() == 1
    interval.saw_step(0.5)
    assert interval.period_steps() == 10
    for _ in range(9):
        interval.saw_save(stall_seconds=100.0, persist_seconds=100.0)
    for _ in range(9):
        interval.saw_save(stall_seconds=2.0, persist_seconds=4.0)
    assert interval.period_steps() == pytest.approx(daly_seconds(2.0, HOUR) / 0.5, abs=1)


def test_a_stall_is_not_taken_for_a_long_step() -> None:
    interval = Interval(mtbf_seconds=HOUR, is_background=False)
    for step in range(1, 100):
        is_first = interval.is_due(step, step - 1)
        if is_first:
            interval.save_begins()
            interval.saw_save(stall_seconds=60.0, persist_seconds=60.0)
        interval.saw_step(1.0 + (60.0 if is_first else 0.0))
    assert interval.period_steps() == pytest.approx(daly_seconds(60.0, HOUR), rel=0.05)


def test_what_is_being_written_is_at_risk_too() -> None:
    interval = measured(stall_seconds=2.0, persist_seconds=50.0)
    assert interval.steps() == interval.period_steps() + 2 * 50
    # A save cannot begin before the last one has ended.
    assert measured(stall_seconds=2.0, persist_seconds=500.0).steps() == 500 + 2 * 500


def test_nothing_waits_for_a_first_save_whose_length_nobody_knows() -> None:
    interval = Interval(mtbf_seconds=HOUR)
    interval.saw_step(1.0)
    assert interval.steps() is None and not interval.must_wait(10**6, 0)


def test_a_save_in_the_background_is_paid_by_its_stall_alone() -> None:
    # Saves are as far apart as if they were written at once: what takes long costs no time of training.
    slow, fast = measured(2.0, 100.0), measured(2.0, 2.0)
    assert slow.period_steps() == fast.period_steps()


@pytest.mark.parametrize("named", [{"every_steps": 10}, {}])
def test_at_most_the_interval_is_ever_at_risk(named: dict[str, int]) -> None:
    # A save is begun early enough, and training waits for one that is late.
    interval = measured(stall_seconds=0.1, persist_seconds=3.0, **named)
    most = interval.steps()
    assert most is not None
    begun = committed = 0
    for step in range(1, 20 * most):
        assert step - committed <= most
        if begun > committed and interval.must_wait(step, committed):
            committed = begun
        if begun == committed and interval.is_due(step, begun):
            begun = step
    assert committed > 15 * most


def test_a_save_that_stops_training_begins_when_it_is_due_and_no_earlier() -> None:
    interval = Interval(mtbf_seconds=HOUR, every_steps=10, is_background=False)
    assert [step for step in range(1, 12) if interval.is_due(step, 0)] == [10, 11]


def test_the_next_attempt_goes_on_with_what_was_measured() -> None:
    before, after = measured(2.0, 4.0), Interval(mtbf_seconds=HOUR)
    after.recall(before.memory(is_over=True))
    assert after.steps() == before.steps()


def test_an_attempt_that_was_not_over_has_failed() -> None:
    before, after = measured(2.0, 4.0), Interval(mtbf_seconds=HOUR)
    after.recall(before.memory(is_over=False))
    assert after.memory(is_over=True)["failures"] == 1
    assert after.period_steps() < before.period_steps() / 2


SPOILERS: list[Callable[[dict[str, object]], object]] = [
    lambda it: it.pop("failures"),
    lambda it: it.update(failures=-1),
    lambda it: it.update(failures=1.5),
    lambda it: it.update(seconds=math.inf),
    lambda it: it.update(seconds=None),
    lambda it: it.pop("stall_seconds"),
    lambda it: it.update(stall_seconds=math.nan),
    lambda it: it.update(persist_seconds="long"),
    lambda it: it.update(step_seconds=[]),
]


@pytest.mark.parametrize("spoil", SPOILERS)
def test_of_a_spoilt_memory_nothing_is_believed(spoil: Callable[[dict[str, object]], object]) -> None:
    memory = measured(2.0, 4.0).memory(is_over=True)
    spoil(memory)
    interval = Interval(mtbf_seconds=HOUR)
    with pytest.raises((LookupError, TypeError, ValueError)):
        interval.recall(memory)
    assert interval == Interval(mtbf_seconds=HOUR)
