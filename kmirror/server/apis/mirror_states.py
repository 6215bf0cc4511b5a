"""Handlers of the brokers' own mirroring APIs: 100 ReadMirrorStates, 101 WriteMirrorStates (v0).

Both need mirror.version 1 (UNSUPPORTED_VERSION) and ClusterAction on the cluster
(CLUSTER_AUTHORIZATION_FAILED), as `broker_api_table` says. The requests are about partitions that
this broker coordinates; every other partition gets NOT_COORDINATOR (RS8). State 16 means "none" in
an answer and "leave it" in a write (RS9). A write of PREPARING or STOPPING over the same state
appends a record; only a new leader asks for that (D3-28). LastMirrorEpoch -2 is kmirror's own
"store -1". Tags say for each partition which state a write follows, and in which leader epoch
(`state_offset_tag`); all brokers of a cluster run the same program.
"""

from __future__ import annotations

from collections.abc import Mapping

from kmirror.common.errors import ApiException, Errors
from kmirror.mirror.coordination.mirror_coordinator_shard import PartitionKey, StateWrite, StoredState
from kmirror.mirror.coordination.state_offset_tag import NOT_TOLD, leader_epoch_of, state_offset_of, state_offset_tag
from kmirror.mirror.mirror_manager import MirrorManager
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.server.broker_api_table import MIRRORING
from kmirror.server.kafka_apis import KafkaApis
from kmirror.server.request import Request
from kmirror.wire.messages import read_mirror_states, write_mirror_states
from kmirror.wire.mirror_tags import reason_of, reason_tag

REWRITTEN_STATES = (MirrorPartitionState.PREPARING, MirrorPartitionState.STOPPING)


def mirror_of(apis: KafkaApis) -> MirrorManager:
    """Returns the broker's mirror manager; ApiException UNSUPPORTED_VERSION on a broker that has
    none.
    """
    if apis.mirror is None:
        raise ApiException(Errors.UNSUPPORTED_VERSION, MIRRORING.refusal)
    return apis.mirror


async def handle_read_mirror_states(apis: KafkaApis, request: Request) -> read_mirror_states.ReadMirrorStatesResponse:
    manager = mirror_of(apis)
    message = request.message
    keys = [(topic.name, partition.partition_index) for topic in message.topics for partition in topic.partitions]
    found = await manager.coordinator.read_states(message.mirror_name, keys)
    topics = [
        read_mirror_states.TopicResult(
            name=topic.name,
            partitions=[
                _read_result(partition.partition_index, found[topic.name, partition.partition_index]) for partition in topic.partitions
            ],
        )
        for topic in message.topics
    ]
    return read_mirror_states.ReadMirrorStatesResponse(topics=topics)


def _read_result(partition: int, stored: StoredState | Errors) -> read_mirror_states.PartitionResult:
    if isinstance(stored, Errors):
        return read_mirror_states.PartitionResult(partition_index=partition, state=MirrorPartitionState.UNKNOWN, error_code=stored)
    return read_mirror_states.PartitionResult(
        partition_index=partition,
        last_mirror_epoch=stored.last_mirror_epoch,
        state=stored.state,
        unknown_tagged_fields=state_offset_tag(stored.offset) + reason_tag(stored.reason),
    )


async def handle_write_mirror_states(apis: KafkaApis, request: Request) -> write_mirror_states.WriteMirrorStatesResponse:
    manager = mirror_of(apis)
    message = request.message
    writes = [_state_write(topic.name, partition) for topic in message.topics for partition in topic.partitions]
    offsets: dict[PartitionKey, int] = {}
    errors = await manager.coordinator.write_states(message.mirror_name, writes, message.removed_topics, offsets=offsets)
    topics = [
        write_mirror_states.TopicResult(
            name=topic.name,
            partitions=[_write_result((topic.name, partition.partition_index), errors, offsets) for partition in topic.partitions],
        )
        for topic in message.topics
    ]
    return write_mirror_states.WriteMirrorStatesResponse(topics=topics)


def _write_result(
    key: PartitionKey, errors: Mapping[PartitionKey, Errors], offsets: Mapping[PartitionKey, int]
) -> write_mirror_states.PartitionResult:
    tag = state_offset_tag(offsets.get(key, NOT_TOLD))
    return write_mirror_states.PartitionResult(partition_index=key[1], error_code=errors.get(key, Errors.NONE), unknown_tagged_fields=tag)


def _state_write(topic: str, data: write_mirror_states.PartitionData) -> StateWrite:
    try:
        state = MirrorPartitionState.from_byte(data.state)
    except ValueError as error:
        raise ApiException(Errors.INVALID_REQUEST, f"Unknown mirror partition state {data.state}") from error
    return StateWrite(
        topic,
        data.partition_index,
        state,
        data.last_mirror_epoch,
        rewrite=state in REWRITTEN_STATES,
        follows=state_offset_of(data.unknown_tagged_fields),
        leader_epoch=leader_epoch_of(data.unknown_tagged_fields),
        reason=reason_of(data.unknown_tagged_fields),
    )
