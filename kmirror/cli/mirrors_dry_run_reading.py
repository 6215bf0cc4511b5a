"""What a dry run reads of a partition: the offsets that a cluster has, and the batches in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kmirror.admin.admin_client import EARLIEST_TIMESTAMP, AdminClient
from kmirror.admin.results import ConfigResourceType
from kmirror.cli.mirrors_comparison import MirrorLogView
from kmirror.cli.mirrors_losses import OffsetRange
from kmirror.cli.mirrors_wait import answered
from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.logs.log_alignment import header_of
from kmirror.record.record_batch import iter_batches
from kmirror.storage.batch_header import unpack_header

FETCH_SIZE_BYTES = 4 << 20


class Bounds(NamedTuple):
    """The offsets of a partition that a client can read."""

    start_offset: int
    end_offset: int


async def bounds_of(admin: AdminClient, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Bounds]:
    """Returns the bounds of all partitions, with two requests per broker.

    The ends come first: if a log start then moves past its end, there is nothing to read.
    """
    ends = await admin.list_offsets(partitions)
    starts = await admin.list_offsets(partitions, timestamp=EARLIEST_TIMESTAMP)
    return {name: Bounds(starts[name], ends[name]) for name in partitions}


async def fetched(admin: AdminClient, topic_partition: TopicPartition, bounds: Bounds) -> MirrorLogView:
    headers, batches = [], []
    offset, end_offset = bounds
    while offset < end_offset:
        data = await admin.fetch_records(topic_partition, offset, max_bytes=FETCH_SIZE_BYTES)
        next_offset = offset
        for batch in iter_batches(data):
            if batch.last_offset >= offset:
                headers.append(header_of(batch))
                batches.append(unpack_header(batch.memory, 0, 0))
                next_offset = batch.last_offset + 1
        if next_offset == offset:
            break
        offset = next_offset
    return MirrorLogView(bounds.start_offset, end_offset, headers, batches)


async def ranges_of(admin: AdminClient, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetRange]:
    """Returns the offsets that a cluster has, of those partitions that it has."""
    described = await admin.describe_topics({name.topic for name in partitions})
    found = {name for name in partitions if name.topic in described and name.partition < len(described[name.topic].partitions)}
    return {name: OffsetRange(*bounds) for name, bounds in (await bounds_of(admin, sorted(found))).items()}


async def compacted_topics(admin: AdminClient, topics: Iterable[str]) -> set[str]:
    """Returns the topics whose cleanup.policy here is compacting.

    A topic whose configs we have no permission to see is left out.
    """
    found = set()
    for topic in sorted(topics):
        entries, _ = await answered(admin.describe_configs(ConfigResourceType.TOPIC, topic), passing=Errors.TOPIC_AUTHORIZATION_FAILED)
        if any(entry.name == "cleanup.policy" and "compact" in (entry.value or "") for entry in entries or ()):
            found.add(topic)
    return found
