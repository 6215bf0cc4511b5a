"""Sampled rates, token buckets and throttle times against Kafka's own classes, over random
histories of a client.
"""

from __future__ import annotations

import pathlib
import random
import subprocess

import pytest
from support.logs.storage_doubles import ManualClock
from support.peers.peers import TOOL_JVM, java, kafka_classpath
from support.waiting import REACHED_S

from kmirror.common.metrics import sensor_metric
from kmirror.common.sensors import MetricConfig, Rate, Sensor, TokenBucket, throttle_time_ms

pytestmark = pytest.mark.interop

PROGRAM = pathlib.Path(__file__).parent / "quota_arithmetic.java"
NAME = sensor_metric("Test", "value")


def history(seed: int) -> list[tuple[int, int]]:
    """Times (ms) and values: bursts, pauses of some windows, silences longer than all windows."""
    source = random.Random(seed)
    now_ms, events = 1_790_000_000_000, []
    for _ in range(400):
        now_ms += source.choice((0, 1, 30, 400, 999, 1_000, 1_001, 5_000, 11_000, 40_000))
        events.append((now_ms, source.choice((0, 1, 10, 700, 2_500, -10))))
    return events


def ours(kind: str, bound: float, samples: int, events: list[tuple[int, int]]) -> list[tuple[int, float]]:
    clock = ManualClock(events[0][0])
    sensor = Sensor(None, clock)
    metric = sensor.add(NAME, TokenBucket() if kind == "bucket" else Rate(), MetricConfig(1_000, samples, bound))
    answers = []
    for now_ms, value in events:
        clock.now_ms = now_ms
        sensor.record(value, now_ms)
        violation = sensor.check_quotas(now_ms)
        answers.append((0 if violation is None else throttle_time_ms(violation, now_ms), metric.value()))
    return answers


@pytest.mark.parametrize(("kind", "bound", "samples"), [("rate", 50.0, 11), ("rate", 333.3, 2), ("bucket", 7.5, 11)])
def test_the_same_history_gives_the_same_throttle_times(kind: str, bound: float, samples: int) -> None:
    events = history(len(kind) + samples)
    script = f"{kind} {bound} {samples}\n" + "".join(f"{now_ms} {value}\n" for now_ms, value in events)
    command = [java(), *TOOL_JVM, "-cp", kafka_classpath(), str(PROGRAM)]
    done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=REACHED_S, check=False)
    assert done.returncode == 0, done.stderr
    theirs = [(int(throttle), float(value)) for throttle, value in (line.split() for line in done.stdout.splitlines())]
    mine = ours(kind, bound, samples, events)
    assert len(theirs) == len(events) and sum(throttle > 0 for throttle, _ in theirs) > 20
    for number, (a, b) in enumerate(zip(theirs, mine, strict=True)):
        assert a[0] == b[0] and a[1] == pytest.approx(b[1], abs=1e-6), f"event {number} {events[number]}: Kafka {a}, kmirror {b}"
