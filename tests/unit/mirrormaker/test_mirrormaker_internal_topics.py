"""Reading MirrorMaker's own topics (`internal_topics`), with consumers that hand out what is told."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker import internal_topics
from kmirror.mirrormaker.internal_topics import InternalTopicReader

LOG = {TopicPartition("log", 0): 3, TopicPartition("log", 1): 3}


class Consumer:
    """Of `LOG`, whose ends may change: each poll hands out all that there is."""

    def __init__(self, _runtime: object, _props: Mapping[str, str]) -> None:
        self.log = dict(LOG)
        self.positions = dict.fromkeys(LOG, 0)

    async def partitions_for(self, _topic: str) -> list[TopicPartition]:
        return list(LOG)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        assert list(partitions) == list(LOG)

    def seek_to_beginning(self, partitions: Iterable[TopicPartition]) -> None:
        self.positions |= dict.fromkeys(partitions, 0)

    async def position(self, partition: TopicPartition) -> int:
        return self.positions[partition]

    async def poll(self, _timeout_ms: int) -> list[Any]:
        found = [
            SimpleNamespace(key=b"%d" % partition.partition, value=b"%d" % offset, offset=offset)
            for partition, end in self.log.items()
            for offset in range(self.positions[partition], end)
        ]
        self.positions = dict(self.log)
        return found

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {partition: self.log[partition] for partition in partitions}


@pytest.fixture
def handled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes | None, bytes | None]]:
    monkeypatch.setattr(internal_topics, "KafkaConsumer", Consumer)
    return []


def reader_of(handled: list[tuple[bytes | None, bytes | None]]) -> tuple[InternalTopicReader, Any, Any]:
    reader = InternalTopicReader(None, {}, "log", lambda key, value: handled.append((key, value)))  # type: ignore[arg-type]
    return reader, reader._consumer, reader._ends


async def test_what_is_written_while_another_partition_is_read_does_not_have_a_topic_read_again(
    handled: list[tuple[bytes | None, bytes | None]], caplog: pytest.LogCaptureFixture
) -> None:
    reader, reads, ends = reader_of(handled)
    await reader.start()
    first, second = LOG
    ends.log = {first: 4, second: 4}
    reads.log = {first: 4, second: 9}  # written after the ends were asked for
    with caplog.at_level(logging.WARNING):
        await reader.read_to_end()
    assert len(handled) == 4 + 9, "records were handled again"
    assert not caplog.records


async def test_a_topic_that_ends_before_the_place_where_reading_stopped_is_read_from_its_beginning(
    handled: list[tuple[bytes | None, bytes | None]], caplog: pytest.LogCaptureFixture
) -> None:
    reader, reads, ends = reader_of(handled)
    await reader.start()
    first, second = LOG
    reads.log = ends.log = {first: 3, second: 1}
    with caplog.at_level(logging.WARNING):
        await reader.read_to_end()
    assert handled[6:] == [(b"1", b"0")]
    assert "log-1 ends at offset 1 and was read up to 3 before" in caplog.text
