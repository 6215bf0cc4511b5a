"""The records of a share group in a broker's internal topics, decoded; and our writers give the
same bytes for what they say.
"""

from __future__ import annotations

from typing import Any

from harness import Side
from steps import await_topic

from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord
from kmirror.coordinator.group.group_records import read_record
from kmirror.coordinator.share.share_coordinator_records import (
    SHARE_SNAPSHOT,
    read_share_record,
    share_snapshot_record,
    share_state_tombstone,
    share_update_record,
)
from kmirror.record.record_batch import iter_batches
from kmirror.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kmirror.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kmirror.wire.primitives import Writer

SHARE_RECORDS = range(10, 16)


def records_of(side: Side, topic: str, group: str) -> list[Any]:
    """What the topic holds of a share group, in the order of partitions and offsets, without times."""
    await_topic(side, topic)
    count = len(side.ask(MetadataRequest([MetadataRequestTopic(name=topic)], False), 12).topics[0].partitions)
    found: list[Any] = []
    for partition in range(count):
        wanted = [FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20)]
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=[FetchTopic(topic=topic, partitions=wanted)])
        data = side.ask(request, 12).responses[0].partitions[0].records
        for batch in iter_batches(data or b""):
            for record in batch.records():
                raw = CoordinatorRecord(bytes(record.key), None if record.value is None else bytes(record.value))
                decoded = _share_state(raw, group) if topic == "__share_group_state" else _group_record(raw, group)
                if decoded is not None:
                    found.append(decoded)
    if topic == "__share_group_state":
        found.sort(key=lambda entry: entry[1])
    return found


def _share_state(raw: CoordinatorRecord, group: str) -> Any:
    known = read_share_record(raw)
    assert known is not None
    kind, key, state = known
    if key.group_id != group:
        return None
    if state is None:
        assert raw == share_state_tombstone(key)
        return kind, key.partition, "tombstone"
    again = share_snapshot_record(key, state) if kind == SHARE_SNAPSHOT else share_update_record(key, state)
    assert raw == again, f"our writer: {again}, the log: {raw}"
    fields = [state.snapshot_epoch, state.state_epoch, state.leader_epoch, state.start_offset, state.delivery_complete_count]
    return kind, key.partition, [*fields, *map(list, state.state_batches), state.create_timestamp_ms > 0, state.write_timestamp_ms > 0]


def _group_record(raw: CoordinatorRecord, group: str) -> Any:
    kind = int.from_bytes(raw.key[:2], "big")
    known = read_record(raw) if kind in SHARE_RECORDS else None
    if known is None or known[0].group_id != group:
        return None
    key, value = known
    out = Writer()
    if value is not None:
        value.write(out, 0)
    assert raw.value == (None if value is None else b"\0\0" + out.to_bytes())
    return kind, value
