"""The system tests of the KIP's plan, as small as a test suite allows (E15, TST14 to TST17).

`benches/` has the figures. The wide-area link and the week of mirroring are simulated, so that no
limit in seconds depends on the machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest
from confluent_kafka import Consumer, TopicPartition
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    create_mirror,
    create_topic,
    numbered,
    partitions_of,
    produce,
    produce_once_writable,
    quiet,
    remove,
    wait_caught_up,
    wait_for,
    wait_state,
)
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.server import metadata_fetcher
from kmirror.sim.links import Link
from kmirror.sim.mirror_checkers import check_mirrors
from kmirror.sim.mirror_stage import MirrorStage
from kmirror.sim.run import Setting, run_history
from kmirror.sim.stage import ORDERS
from kmirror.storage import log_manager_tasks

ROUND_TRIP_US = 120_000
WIDE_AREA = Link(ROUND_TRIP_US // 2, ROUND_TRIP_US // 2 + 5_000, 50_000_000)
HOUR_MS, HOUR_US, WEEK_HOURS = 3_600_000, 3_600_000_000, 7 * 24
UNHURRIED = {
    "replica.fetch.wait.max.ms": str(HOUR_MS // 2),
    "replica.lag.time.max.ms": str(2 * HOUR_MS),
    "replica.socket.timeout.ms": str(HOUR_MS),
    "request.timeout.ms": str(HOUR_MS),
    "broker.heartbeat.interval.ms": str(HOUR_MS // 6),
    "broker.session.timeout.ms": str(HOUR_MS),
    "mirror.metadata.refresh.interval.ms": str(HOUR_MS // 2),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(HOUR_MS),
    "replica.high.watermark.checkpoint.interval.ms": str(HOUR_MS),
    "log.flush.offset.checkpoint.interval.ms": str(HOUR_MS),
    "log.flush.start.offset.checkpoint.interval.ms": str(HOUR_MS),
    "log.retention.check.interval.ms": str(HOUR_MS),
    "offsets.retention.check.interval.ms": str(HOUR_MS),
}
"""A week of mirroring is simulated, not a week of polling: what polls does so once or twice an
hour.
"""
TOPICS, PARTITIONS = 200, 5


@pytest.fixture
def pair() -> Iterator[tuple[EmbeddedCluster, EmbeddedCluster]]:
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        yield a, b


async def over_a_wide_area_link(stage: MirrorStage, figures: dict[str, int]) -> None:
    await stage.open()
    for theirs in stage.fleets["a"].servers:
        for ours in stage.fleets["b"].servers:
            stage.world.network.links.set(theirs.name, ours.name, WIDE_AREA)
            stage.world.network.links.set(ours.name, theirs.name, WIDE_AREA)
    await stage.mirror("a", "b")
    await stage.write("a", batches=5)
    await stage.until("the first batches are at b", lambda: stage.equal("a", "b", ORDERS))
    await stage.write("a", batches=1)
    written_us = stage.world.loop.now_us
    await stage.until("one batch is at b", lambda: stage.equal("a", "b", ORDERS))
    figures["latency_us"] = stage.world.loop.now_us - written_us
    written_us = stage.world.loop.now_us
    await stage.write("a", batches=60)
    figures["writing_us"] = stage.world.loop.now_us - written_us
    await stage.until("sixty more are at b", lambda: stage.equal("a", "b", ORDERS))
    figures["catching_up_us"] = stage.world.loop.now_us - written_us - figures["writing_us"]


def test_tst14_throughput_and_latency_over_a_wide_area_link() -> None:
    """A batch arrives within the link's time and one more round trip; many arrive together, not one
    in a round trip.
    """
    figures: dict[str, int] = {}
    result = run_history("wide_area", 1, partial(over_a_wide_area_link, figures=figures), Setting(MirrorStage, check_mirrors))
    assert result.violations == []
    assert ROUND_TRIP_US // 2 <= figures["latency_us"] <= 2 * ROUND_TRIP_US, figures
    assert figures["catching_up_us"] <= 3 * ROUND_TRIP_US, figures


def test_tst15_a_thousand_partitions(pair: tuple[EmbeddedCluster, EmbeddedCluster]) -> None:
    a, b = pair
    names = [f"t{number:03d}" for number in range(TOPICS)]
    for name in names:
        create_topic(a.bootstrap_servers, name, PARTITIONS)
    create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
    add(b.bootstrap_servers, "m", *names)
    for name in names[::20]:
        for partition in range(PARTITIONS):
            produce(a.bootstrap_servers, name, numbered(name, 3), partition=partition)
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
    rows = partitions_of(b.bootstrap_servers, "m")
    assert len(rows) == TOPICS * PARTITIONS and {row.state for row in rows} == {"MIRRORING"}
    assert sum(row.destination_offset for row in rows) == 10 * PARTITIONS * 3


def read_as_group(bootstrap_servers: str, count: int) -> list[str]:
    """`count` values from where group g stands; they are committed."""
    consumer = Consumer(
        quiet({"bootstrap.servers": bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False})
    )
    consumer.subscribe(["t"])
    values: list[str] = []
    try:

        def read() -> bool:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                values.append(message.value().decode())
            return len(values) >= count

        wait_for(f"{count} records", read)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return values


def committed(bootstrap_servers: str) -> int:
    consumer = Consumer(quiet({"bootstrap.servers": bootstrap_servers, "group.id": "g"}))
    try:
        offset: int = consumer.committed([TopicPartition("t", 0)], timeout=REACHED_S)[0].offset
        return offset
    finally:
        consumer.close()


def test_tst16_a_consumer_goes_on_after_a_failover(pair: tuple[EmbeddedCluster, EmbeddedCluster]) -> None:
    """From the record at which its group stood at the source that died: none is skipped, none is
    read twice.
    """
    a, b = pair
    create_topic(a.bootstrap_servers, "t")
    produce(a.bootstrap_servers, "t", numbered("v", 30))
    create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
    add(b.bootstrap_servers, "m", "t")
    read = read_as_group(a.bootstrap_servers, 30)
    produce(a.bootstrap_servers, "t", numbered("w", 10))
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
    wait_for("the group's offset at b", lambda: committed(b.bootstrap_servers) == 30)
    a.kill_node()
    remove(b.bootstrap_servers, "m", "t")
    wait_state(b.bootstrap_servers, "m", "STOPPED")
    produce_once_writable(b.bootstrap_servers, "t", 0, 5)
    read += read_as_group(b.bootstrap_servers, 15)
    assert read[:40] == [*numbered("v", 30), *numbered("w", 10)] and len(set(read)) == 45
    a.start_node()


async def a_week(stage: MirrorStage) -> None:
    """A batch an hour, a broker that dies every other day, a failover and a failback in the middle."""
    await stage.open(config=UNHURRIED)
    active, passive = "a", "b"
    await stage.mirror(active, passive)
    for hour in range(WEEK_HOURS):
        await stage.write(active, batches=1)
        if hour % 48 == 12:
            fleet = stage.fleets[passive if hour % 96 == 12 else active]
            server = fleet.broker_named(1 + hour // 24 % 3)
            server.crash()
            await stage.sleep_ms(HOUR_MS)  # its session has ended by then
            server.start()
        if hour in (80, 110):
            await stage.until("all is mirrored", lambda: stage.equal(active, passive, ORDERS))
            await stage.fail_over(passive)
            active, passive = passive, active
            await stage.mirror(active, passive)
        await stage.sleep_ms(HOUR_MS)
    await stage.until("all is mirrored at the end", lambda: stage.equal(active, passive, ORDERS))
    await stage.until("every replica is in sync", stage.is_whole)


@pytest.mark.soak
def test_tst17_a_week(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_fetcher, "FETCH_MAX_WAIT_MS", HOUR_MS // 2)
    monkeypatch.setattr(log_manager_tasks, "FAILURE_CHECK_MS", HOUR_MS // 2)
    setting = replace(Setting(MirrorStage, check_mirrors), max_steps=8_000_000, max_time_us=(WEEK_HOURS + 24) * HOUR_US)
    result = run_history("a_week", 1, a_week, setting)
    assert result.violations == []
    assert result.now_us >= WEEK_HOURS * HOUR_US
