"""Kafka's `Throttler`, and the meters that feed it, on a clock that stands still."""

from __future__ import annotations

import pytest
from support.logs.storage_doubles import ManualClock

from kmirror.storage.throttler import Throttler, ThrottlerMeter


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_what_was_too_fast_is_paid_for_by_a_pause(clock):
    throttler = Throttler(1000, clock)
    throttler.maybe_throttle(500)
    assert throttler.pause_ms == 0, "within the first interval nobody looks"
    clock.now_ms += 400
    throttler.maybe_throttle(500)
    assert throttler.pause_ms == 600, "1000 units should have taken a second"
    clock.now_ms += 250
    assert throttler.pause_ms == 350
    clock.now_ms += 350
    assert throttler.pause_ms == 0


def test_the_next_interval_begins_after_the_pause(clock):
    throttler = Throttler(1000, clock)
    clock.now_ms += 301
    throttler.maybe_throttle(1000)
    clock.now_ms += throttler.pause_ms + 300
    throttler.maybe_throttle(5000)
    assert throttler.pause_ms == 0, "exactly 300 ms is within it"
    clock.now_ms += 1
    throttler.maybe_throttle(0)
    assert throttler.pause_ms == 5000 - 301


def test_a_rate_that_is_kept_costs_nothing(clock):
    throttler = Throttler(1000, clock)
    for _ in range(10):
        clock.now_ms += 500
        throttler.maybe_throttle(499)
        assert throttler.pause_ms == 0


def test_a_new_rate_ends_the_pause_for_the_old_one(clock):
    throttler = Throttler(0, clock)
    clock.now_ms += 301
    throttler.maybe_throttle(1)
    clock.now_ms += 86_400_000
    assert throttler.pause_ms > 86_400_000, "nothing is allowed"
    throttler.update_desired_rate_per_sec(10)
    assert throttler.desired_rate_per_sec == 10
    assert throttler.pause_ms == 0


def test_a_negative_rate_paused_for_ever(clock):
    """Kafka takes such a rate, and never sleeps for it."""
    throttler = Throttler(-1, clock)
    clock.now_ms += 301
    throttler.maybe_throttle(1_000_000)
    assert throttler.pause_ms == 0
    throttler.update_desired_rate_per_sec(1000)
    clock.now_ms += 301
    throttler.maybe_throttle(1000)
    assert throttler.pause_ms == 1000 - 301, "what was done without a limit does not count"


def test_a_meter_is_due_at_the_end_of_an_interval_and_begins_anew(clock):
    meter = ThrottlerMeter(clock)
    clock.now_ms += 300
    meter.observe(5)
    assert not meter.is_due
    clock.now_ms += 1
    meter.observe(6)
    assert meter.is_due
    assert meter.take() == 11
    assert not meter.is_due
    assert meter.take() == 0
    meter.begin()
    clock.now_ms += 300
    meter.observe(1)
    assert not meter.is_due, "what passed while nobody worked does not count"
