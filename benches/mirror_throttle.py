"""The throttle: mirror.replication.throttled.rate at 10 MB/s for all ten partitions of a topic,
over 30 seconds of a busy mirror.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from confluent_kafka.admin import ResourceType

from benches.harness import MB, Context, Row, run_command, wait_until
from benches.mirror_source import log_size, mirrored, set_config

RATE = 10_000_000
PARTITIONS = 10
TOPIC = "throttled"


def run(context: Context) -> Iterator[Row]:
    seconds = context.choose(5, 30)
    with mirrored(context.folder, TOPIC, PARTITIONS) as (source, destination):
        set_config(destination, ResourceType.TOPIC, TOPIC, "mirror.replication.throttled.replicas", "*")
        set_config(destination, ResourceType.BROKER, "1", "mirror.replication.throttled.rate", str(RATE))
        time.sleep(1)
        records = (seconds + 10) * RATE // 1_000
        run_command(
            [sys.executable, "-m", "benches.load", "produce", source.bootstrap_servers, TOPIC, str(PARTITIONS), str(records), "none"]
        )
        available = sum(log_size(source, TOPIC, number) for number in range(PARTITIONS))

        def copied() -> int:
            return sum(log_size(destination, TOPIC, number) for number in range(PARTITIONS))

        first = copied()
        wait_until(lambda: copied() > first, "the throttled mirror to go on")
        began, before = time.monotonic(), copied()
        time.sleep(seconds)
        after, took = copied(), time.monotonic() - began
    assert after < available, "there was not enough to mirror"
    rate = (after - before) / took
    ratio = rate / RATE
    yield Row(
        "mirror_throttle", f"mirror.replication.throttled.rate of 10 MB/s over {seconds} s", rate / MB, "MB/s", "within 5 %",
        abs(ratio - 1) <= 0.05, note=f"{100 * ratio:.1f} % of the rate",
    )  # fmt: skip
