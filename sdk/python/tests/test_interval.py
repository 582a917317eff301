import math

import pytest

from warpyard.interval import Interval, daly_seconds

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


def test_the_interval_converges_on_what_is_measured() -> None:
    interval = Interval(mtbf_seconds=HOUR)
    assert interval.steps() == 1
    interval.saw_step(0.5)
    assert interval.steps() == 10
    for _ in range(5):
        interval.saw_save(stall_seconds=100.0, persist_seconds=100.0)
    for _ in range(10):
        interval.saw_save(stall_seconds=2.0, persist_seconds=4.0)
    assert interval.steps() == round(daly_seconds(2.0, HOUR) / 0.5)
    assert interval.lag_steps() == 8


def test_an_interval_is_never_shorter_than_its_save() -> None:
    interval = Interval(mtbf_seconds=HOUR)
    interval.saw_step(1.0)
    interval.saw_save(stall_seconds=0.001, persist_seconds=50.0)
    assert interval.steps() == 50


def test_at_most_the_interval_is_ever_at_risk() -> None:
    # A save is begun early enough, and training waits for one that is late.
    interval = Interval(mtbf_seconds=HOUR, every_steps=10)
    interval.saw_step(1.0)
    interval.saw_save(stall_seconds=0.1, persist_seconds=3.0)
    begun = committed = 0
    for step in range(1, 200):
        assert step - committed <= 10
        if begun > committed and interval.must_wait(step, committed):
            committed = begun
        if begun == committed and interval.is_due(step, begun):
            begun = step
    assert committed > 150


def test_a_save_that_stops_training_begins_when_it_is_due_and_no_earlier() -> None:
    interval = Interval(mtbf_seconds=HOUR, every_steps=10, is_background=False)
    assert [step for step in range(1, 12) if interval.is_due(step, 0)] == [10, 11]
