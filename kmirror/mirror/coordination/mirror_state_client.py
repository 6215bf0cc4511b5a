"""MirrorStateClient: how a partition's leader reads and writes its state, wherever the coordinator
is.

The coordinator of a partition is the leader of the `__mirror_state` partition that its key hashes
to, so the partitions of one mirror have many coordinators. Everything asked of one broker for one
mirror at a time goes into one ReadMirrorStates or WriteMirrorStates (`request_batcher`, RS10); if
this broker is the coordinator, `MirrorCoordinator` is called directly. Errors are `ApiException`s;
COORDINATOR_NOT_AVAILABLE and the like mean "ask again". A coordinator that does not answer counts
as not available. Between kmirror brokers each partition also carries the tags of
`state_offset_tag`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kmirror.common.errors import ApiException, Errors
from kmirror.mirror.coordination.mirror_coordinator import MirrorCoordinator
from kmirror.mirror.coordination.mirror_coordinator_shard import PartitionKey, StateWrite, StoredState
from kmirror.mirror.coordination.mirror_partition_id import MirrorPartitionId
from kmirror.mirror.coordination.state_offset_tag import NOT_TOLD, leader_epoch_tag, state_offset_of, state_offset_tag
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.mirror.request_batcher import RequestBatcher
from kmirror.network.client import DisconnectError, RequestTimeoutError, UnsupportedVersionError
from kmirror.network.node_channels import BrokerChannel
from kmirror.runtime.api import Runtime
from kmirror.wire.messages import read_mirror_states, write_mirror_states
from kmirror.wire.mirror_tags import reason_of, reason_tag


class StateRequestKey(NamedTuple):
    """One request is for one mirror at one broker (RS10)."""

    mirror_name: str
    broker_id: int


class MirrorStateClient:
    """Reads and writes states at their coordinators: owns the two batchers of such requests."""

    def __init__(self, runtime: Runtime, coordinator: MirrorCoordinator, brokers: BrokerChannel, *, broker_id: int) -> None:
        self._coordinator = coordinator
        self._brokers = brokers
        self._broker_id = broker_id
        self.reads: RequestBatcher[StateRequestKey, PartitionKey, StoredState] = RequestBatcher(
            runtime, "read-mirror-states", self._send_reads
        )
        self.writes: RequestBatcher[StateRequestKey, StateWrite, int] = RequestBatcher(runtime, "write-mirror-states", self._send_writes)

    async def close(self) -> None:
        await self.reads.close()
        await self.writes.close()

    async def read(self, partitions: Iterable[MirrorPartitionId]) -> dict[PartitionKey, StoredState | Errors]:
        """Returns what is stored for partitions of one mirror, or an error code where the
        coordinator could not tell.
        """
        result: dict[PartitionKey, StoredState | Errors] = {}
        for key, group in self._by_coordinator(partitions, result).items():
            result.update(await self._read_at(key, [partition.key for partition in group]))
        return result

    async def read_one(self, partition: MirrorPartitionId) -> StoredState:
        """As `read` for one partition, batched with other current reads; raises the error."""
        key = StateRequestKey(partition.mirror_name, self._coordinator.coordinator_broker(partition))
        return await self.reads.submit(key, partition.key)

    async def write_one(self, partition: MirrorPartitionId, write: StateWrite) -> int:
        """Stores a state or an epoch; returns when it is committed, with the offset that the next
        write must follow. ApiException INVALID_REQUEST: the write does not follow the newest
        record, or the transition is not valid.
        """
        key = StateRequestKey(partition.mirror_name, self._coordinator.coordinator_broker(partition))
        return await self.writes.submit(key, write)

    async def remove_topics(self, mirror_name: str, topics: Sequence[str], brokers: Iterable[int]) -> None:
        """Tells each of `brokers` to forget deleted topics (D3-34)."""
        request = write_mirror_states.WriteMirrorStatesRequest(mirror_name=mirror_name, removed_topics=list(topics))
        for broker_id in brokers:
            if broker_id == self._broker_id:
                await self._coordinator.write_states(mirror_name, [], topics)
            else:
                await self._brokers.send(broker_id, request)

    async def _read_at(self, key: StateRequestKey, keys: list[PartitionKey]) -> Mapping[PartitionKey, StoredState | Errors]:
        try:
            if key.broker_id == self._broker_id:
                return await self._coordinator.read_states(key.mirror_name, keys)
            return _read_response(await self._brokers.send(key.broker_id, _read_request(key.mirror_name, keys)))
        except ApiException as error:
            return dict.fromkeys(keys, error.error)
        except (DisconnectError, RequestTimeoutError, UnsupportedVersionError):
            return dict.fromkeys(keys, Errors.COORDINATOR_NOT_AVAILABLE)

    async def _send_reads(self, key: StateRequestKey, keys: list[PartitionKey]) -> list[StoredState | Exception]:
        found = await self._read_at(key, keys)
        answers = [found.get(partition, Errors.COORDINATOR_NOT_AVAILABLE) for partition in keys]
        return [ApiException(answer) if isinstance(answer, Errors) else answer for answer in answers]

    async def _send_writes(self, key: StateRequestKey, writes: list[StateWrite]) -> list[int | Exception]:
        offsets: dict[PartitionKey, int] = {}
        if key.broker_id == self._broker_id:
            result = await self._coordinator.write_states(key.mirror_name, writes, offsets=offsets)
        else:
            result = _write_response(await self._brokers.send(key.broker_id, _write_request(key.mirror_name, writes)), offsets)
        answers: list[int | Exception] = []
        for write in writes:
            error = result.get((write.topic, write.partition), Errors.COORDINATOR_NOT_AVAILABLE)
            offset = offsets.get((write.topic, write.partition), NOT_TOLD)
            answers.append(offset if error is Errors.NONE else ApiException(error))
        return answers

    def _by_coordinator(
        self, partitions: Iterable[MirrorPartitionId], result: dict[PartitionKey, StoredState | Errors]
    ) -> dict[StateRequestKey, list[MirrorPartitionId]]:
        groups: dict[StateRequestKey, list[MirrorPartitionId]] = {}
        for partition in partitions:
            try:
                key = StateRequestKey(partition.mirror_name, self._coordinator.coordinator_broker(partition))
            except ApiException as error:
                result[partition.key] = error.error
                continue
            groups.setdefault(key, []).append(partition)
        return groups


def _read_request(mirror_name: str, keys: Iterable[PartitionKey]) -> read_mirror_states.ReadMirrorStatesRequest:
    topics: dict[str, list[read_mirror_states.PartitionData]] = {}
    for topic, partition in keys:
        topics.setdefault(topic, []).append(read_mirror_states.PartitionData(partition_index=partition))
    data = [read_mirror_states.TopicData(name=name, partitions=partitions) for name, partitions in topics.items()]
    return read_mirror_states.ReadMirrorStatesRequest(mirror_name=mirror_name, topics=data)


def _read_response(response: read_mirror_states.ReadMirrorStatesResponse) -> Mapping[PartitionKey, StoredState | Errors]:
    if response.error_code:
        raise ApiException(Errors.for_code(response.error_code), response.error_message)
    result: dict[PartitionKey, StoredState | Errors] = {}
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code:
                result[topic.name, partition.partition_index] = Errors.for_code(partition.error_code)
            else:
                state = MirrorPartitionState.from_byte(partition.state)
                tags = partition.unknown_tagged_fields
                stored = StoredState(state, partition.last_mirror_epoch, offset=state_offset_of(tags), reason=reason_of(tags))
                result[topic.name, partition.partition_index] = stored
    return result


def _write_request(mirror_name: str, writes: Iterable[StateWrite]) -> write_mirror_states.WriteMirrorStatesRequest:
    topics: dict[str, list[write_mirror_states.PartitionData]] = {}
    for write in writes:
        data = write_mirror_states.PartitionData(
            partition_index=write.partition,
            last_mirror_epoch=write.last_mirror_epoch,
            state=int(write.state),
            unknown_tagged_fields=state_offset_tag(write.follows) + leader_epoch_tag(write.leader_epoch) + reason_tag(write.reason),
        )
        topics.setdefault(write.topic, []).append(data)
    return write_mirror_states.WriteMirrorStatesRequest(
        mirror_name=mirror_name,
        topics=[write_mirror_states.TopicData(name=name, partitions=partitions) for name, partitions in topics.items()],
    )


def _write_response(
    response: write_mirror_states.WriteMirrorStatesResponse, offsets: dict[PartitionKey, int]
) -> dict[PartitionKey, Errors]:
    if response.error_code:
        raise ApiException(Errors.for_code(response.error_code), response.error_message)
    result: dict[PartitionKey, Errors] = {}
    for topic in response.topics:
        for partition in topic.partitions:
            key = (topic.name, partition.partition_index)
            result[key] = Errors.for_code(partition.error_code)
            offsets[key] = state_offset_of(partition.unknown_tagged_fields)
    return result
