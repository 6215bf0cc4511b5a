"""The mirror fetcher against a source that does as it is told."""

from __future__ import annotations

from support.mirrors.mirror_world import MirrorWorld

from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.mirror_metrics import fetcher_readings


async def test_records_arrive_as_they_are(tmp_path):
    world = MirrorWorld(str(tmp_path))
    world.source.create("t")
    world.source.append("t", b"a", b"b")
    (driver,) = await world.mirror_topic("t")
    await world.advance(600)
    world.source.append("t", b"c")
    await world.settle()
    assert world.log_bytes("t") == world.source_bytes("t") != b""
    assert driver.progress.source_offset == driver.log.log_end_offset == driver.log.high_watermark == 3
    assert (driver.given_back, driver.status.reason) == ([], None)


def _dead_fetchers(world: MirrorWorld) -> int:
    readings = {name.name: value for name, value in fetcher_readings(1, world.fetchers.running())}
    return int(readings["DeadThreadCount"])


async def test_a_fetcher_that_died_kept_its_partitions_until_the_next_refresh_and_was_counted_as_none(tmp_path, monkeypatch):
    world = MirrorWorld(str(tmp_path))
    world.runtime.expected_failures = []
    for topic in "tu":
        world.source.create(topic)
        world.source.append(topic, b"a")
    for topic in "tu":
        await world.mirror_topic(topic)
    await world.advance(600)
    (running,) = world.fetchers.running()
    assert _dead_fetchers(world) == 0
    monkeypatch.setattr(running.fetcher, "_handle_all", lambda answers: 1 // 0)
    world.source.append("t", b"b")
    await world.settle()
    assert world.runtime.expected_failures == [f"task {running.fetcher.name} ended unexpectedly and begins again in 100 ms"]
    assert _dead_fetchers(world) == 1
    assert not any(world.fetchers.owns(topic_partition) for topic_partition in world.drivers)
    monkeypatch.undo()
    world.source.append("u", b"b")
    await world.advance(world.config.mirror_fetch_backoff_ms + 600)
    assert _dead_fetchers(world) == 0
    for topic in "tu":
        assert world.log_bytes(topic) == world.source_bytes(topic)
        assert world.drivers[TopicPartition(topic, 0)].log.log_end_offset == 2


async def test_a_mistake_over_one_partition_costs_that_one_a_backoff(tmp_path, monkeypatch):
    world = MirrorWorld(str(tmp_path))
    world.runtime.expected_failures = []
    for topic in "tu":
        world.source.create(topic)
    for topic in "tu":
        await world.mirror_topic(topic)
    await world.advance(600)
    (running,) = world.fetchers.running()
    append = running.fetcher._append

    def mistaken(partition, fetched):
        return 1 // 0 if partition.topic_partition.topic == "t" else append(partition, fetched)

    monkeypatch.setattr(running.fetcher, "_append", mistaken)
    for topic in "tu":
        world.source.append(topic, b"a")
    await world.advance(50)
    assert world.log_bytes("u") == world.source_bytes("u") != b"" and world.log_bytes("t") == b""
    assert world.runtime.expected_failures == [f"[{running.fetcher.name}] Unexpected error over partition t-0"]
    assert (len(world.drivers[TopicPartition("t", 0)].given_back), world.drivers[TopicPartition("u", 0)].given_back) == (1, [])
    monkeypatch.undo()
    await world.advance(world.config.mirror_fetch_backoff_ms + 600)
    assert world.log_bytes("t") == world.source_bytes("t")
