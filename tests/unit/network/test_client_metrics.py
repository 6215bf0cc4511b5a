"""What a client counts, and its rates over the last 30 to 60 seconds."""

from __future__ import annotations

import math

from support.logs.storage_doubles import ManualClock

from kmirror.network.client_metrics import ClientMetrics


def test_there_are_kafkas_thirty_metrics() -> None:
    names = [name for name, _ in ClientMetrics(ManualClock()).readings()]
    assert len(names) == len(set(names)) == 30
    assert {"connection-count", "select-rate", "network-io-total", "reauthentication-latency-max", "request-size-avg"} <= set(names)


def test_rates_forget_what_is_older_than_two_windows() -> None:
    clock = ManualClock()
    metrics = ClientMetrics(clock)
    metrics.opened()
    for _ in range(60):
        metrics.wrote(100, clock.monotonic_ms())
    assert dict(metrics.readings())["request-rate"] == 2.0
    clock.now_ms += 31_000
    metrics.wrote(200, clock.monotonic_ms())
    found = dict(metrics.readings())
    assert found["request-total"] == 61 and math.isclose(found["request-rate"], 61 / 31)
    clock.now_ms += 35_000
    found = dict(metrics.readings())
    assert math.isclose(found["request-rate"], 1 / 35) and found["request-total"] == 61
    clock.now_ms += 600_000
    found = dict(metrics.readings())
    assert found["request-rate"] == 0.0 and found["outgoing-byte-total"] == 6_200
    assert math.isnan(found["request-size-avg"])


def test_later_logins_of_a_connection_are_told_from_first_ones() -> None:
    metrics = ClientMetrics(ManualClock())
    metrics.logged_in(again=False, has_end=False, duration_ms=3)
    metrics.logged_in(again=False, has_end=True, duration_ms=3)
    metrics.logged_in(again=True, has_end=True, duration_ms=8)
    metrics.logged_in(again=True, has_end=True, duration_ms=4)
    metrics.refused(again=True)
    found = dict(metrics.readings())
    assert found["successful-authentication-total"] == 2 and found["successful-authentication-no-reauth-total"] == 1
    assert found["successful-reauthentication-total"] == 2 and found["failed-reauthentication-total"] == 1
    assert found["reauthentication-latency-avg"] == 6 and found["reauthentication-latency-max"] == 8
    assert found["failed-authentication-total"] == 0
