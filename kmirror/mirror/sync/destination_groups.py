"""Offsets of groups at this cluster, read and committed at their coordinators, whichever brokers
those are.

The coordinator of a group is the leader of the `__consumer_offsets` partition that its id hashes
to: this broker, asked directly, or another one, asked over the inter-broker listener. A cluster
that never had a consumer has no `__consumer_offsets`; it is created before the first commit.
Requests are those of a client without membership (generation -1, no member id). A coordinator
accepts them for a group without members, whatever its protocol, and refuses them for other groups.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import GROUP_METADATA_TOPIC_NAME, TopicPartition, partition_for
from kmirror.coordinator.group.group_records import OffsetAndMetadata
from kmirror.coordinator.group.offset_metadata_manager import FetchedOffset
from kmirror.metadata.image import MetadataImage
from kmirror.mirror.source.source_metadata import CommittedOffset, GroupOffsets
from kmirror.network.client import DisconnectError, RequestTimeoutError, UnsupportedVersionError
from kmirror.network.node_channels import BrokerChannel
from kmirror.runtime.api import Runtime
from kmirror.wire.messages import offset_commit, offset_fetch

NO_MEMBER_EPOCH = -1
NO_LEADER_EPOCH = -1
OFFSET_COMMIT_VERSION = 10
GROUPS_PER_REQUEST = 100
POLL_INTERVAL_MS = 100
T = TypeVar("T")


class LocalGroupCoordinator(Protocol):
    """The part of `coordinator.group.GroupCoordinator` that is needed here."""

    async def commit_offsets(self, request: offset_commit.OffsetCommitRequest, api_version: int) -> offset_commit.OffsetCommitResponse: ...

    async def fetch_offsets(self, group_id: str, wanted: Mapping[str, Sequence[int]] | None) -> dict[str, dict[int, FetchedOffset]]: ...


class DestinationGroups:
    """Finds the coordinator of each group and asks it; owns no offsets.
    `create_group_metadata_topic` asks for `__consumer_offsets` and returns at once.
    """

    def __init__(
        self,
        runtime: Runtime,
        coordinator: LocalGroupCoordinator,
        brokers: BrokerChannel,
        *,
        image: Callable[[], MetadataImage],
        broker_id: int,
        create_group_metadata_topic: Callable[[], None],
        timeout_ms: int,
    ) -> None:
        self._runtime = runtime
        self._coordinator = coordinator
        self._brokers = brokers
        self._image = image
        self._broker_id = broker_id
        self._create_topic = create_group_metadata_topic
        self.timeout_ms = timeout_ms

    async def prepare(self) -> None:
        """Waits until `__consumer_offsets` exists; ApiException COORDINATOR_NOT_AVAILABLE if it
        does not in time.
        """
        deadline_ms = self._runtime.clock.monotonic_ms() + self.timeout_ms
        while self._image().topics.topic(GROUP_METADATA_TOPIC_NAME) is None:
            if self._runtime.clock.monotonic_ms() >= deadline_ms:
                raise ApiException(Errors.COORDINATOR_NOT_AVAILABLE, f"{GROUP_METADATA_TOPIC_NAME} could not be created in time")
            self._create_topic()
            await self._runtime.sleep_ms(POLL_INTERVAL_MS)

    async def offsets(self, groups: Iterable[str]) -> dict[str, GroupOffsets | Errors]:
        """What each group has committed here, or its error if the coordinator did not say."""
        return await self.ask_coordinators(groups, self._offsets_at)

    async def ask_coordinators(
        self, groups: Iterable[str], ask: Callable[[int, list[str]], Awaitable[dict[str, T | Errors]]]
    ) -> dict[str, T | Errors]:
        """`ask` each coordinator of its groups, some at a time; a group without coordinator gets
        COORDINATOR_NOT_AVAILABLE.
        """
        found: dict[str, T | Errors] = {}
        by_broker: dict[int, list[str]] = {}
        for group in groups:
            leader = self.coordinator_of(group)
            if leader < 0:
                found[group] = Errors.COORDINATOR_NOT_AVAILABLE
            else:
                by_broker.setdefault(leader, []).append(group)
        for broker_id, ids in sorted(by_broker.items()):
            for start in range(0, len(ids), GROUPS_PER_REQUEST):
                found |= await ask(broker_id, ids[start : start + GROUPS_PER_REQUEST])
        return found

    def coordinator_of(self, group: str) -> int:
        """The broker that coordinates the group; -1 while the group's partition, or the topic, has
        no leader.
        """
        topic = self._image().topics.topic(GROUP_METADATA_TOPIC_NAME)
        if topic is None or not topic.partitions:
            return -1
        return topic.partitions[partition_for(group, len(topic.partitions))].leader

    async def _offsets_at(self, broker_id: int, groups: list[str]) -> dict[str, GroupOffsets | Errors]:
        if broker_id == self._broker_id:
            return {group: await self._local_offsets(group) for group in groups}
        wanted = [offset_fetch.OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups]
        response = await answer_or_error(self._brokers.send(broker_id, offset_fetch.OffsetFetchRequest(groups=wanted)))
        if isinstance(response, Errors):
            return dict.fromkeys(groups, response)
        return {row.group_id: self._remote_offsets(row) for row in response.groups}

    async def _local_offsets(self, group: str) -> GroupOffsets | Errors:
        found = await answer_or_error(self._coordinator.fetch_offsets(group, None))
        if isinstance(found, Errors):
            return found
        return {
            TopicPartition(topic, number): CommittedOffset(committed.offset, committed.metadata)
            for topic, partitions in found.items()
            for number, committed in partitions.items()
            if isinstance(committed, OffsetAndMetadata)
        }

    def _remote_offsets(self, row: offset_fetch.OffsetFetchResponseGroup) -> GroupOffsets | Errors:
        if row.error_code:
            return Errors.for_code(row.error_code)
        offsets: GroupOffsets = {}
        for topic in row.topics:
            image = self._image().topics.topic_by_id(topic.topic_id)
            name = topic.name or (image.name if image is not None else "")
            for partition in topic.partitions:
                if not partition.error_code and partition.committed_offset >= 0:
                    offsets[TopicPartition(name, partition.partition_index)] = CommittedOffset(
                        partition.committed_offset, partition.metadata or ""
                    )
        return offsets

    async def commit(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> dict[TopicPartition, Errors]:
        """Commits offsets as the group's consumers would, but without a leader epoch (C19)."""
        leader = self.coordinator_of(group)
        if leader < 0:
            return dict.fromkeys(offsets, Errors.COORDINATOR_NOT_AVAILABLE)
        request = self._commit_request(group, offsets)
        if leader == self._broker_id:
            response = await answer_or_error(self._coordinator.commit_offsets(request, OFFSET_COMMIT_VERSION))
        else:
            response = await answer_or_error(self._brokers.send(leader, request))
        return dict.fromkeys(offsets, response) if isinstance(response, Errors) else self._commit_errors(response)

    def _commit_request(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> offset_commit.OffsetCommitRequest:
        by_topic: dict[str, list[offset_commit.OffsetCommitRequestPartition]] = {}
        for topic_partition, committed in sorted(offsets.items()):
            by_topic.setdefault(topic_partition.topic, []).append(
                offset_commit.OffsetCommitRequestPartition(
                    partition_index=topic_partition.partition,
                    committed_offset=committed.offset,
                    committed_leader_epoch=NO_LEADER_EPOCH,
                    committed_metadata=committed.metadata,
                )
            )
        topics = []
        for name, partitions in by_topic.items():
            image = self._image().topics.topic(name)
            if image is not None:
                topics.append(offset_commit.OffsetCommitRequestTopic(name=name, topic_id=image.id, partitions=partitions))
        return offset_commit.OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=NO_MEMBER_EPOCH, member_id="", topics=topics)

    def _commit_errors(self, response: offset_commit.OffsetCommitResponse) -> dict[TopicPartition, Errors]:
        errors = {}
        for topic in response.topics:
            image = self._image().topics.topic_by_id(topic.topic_id)
            name = topic.name or (image.name if image is not None else "")
            for partition in topic.partitions:
                errors[TopicPartition(name, partition.partition_index)] = Errors.for_code(partition.error_code)
        return errors


async def answer_or_error(answer: Awaitable[T]) -> T | Errors:
    """What a coordinator on this or another broker answers, or its error. A coordinator that does
    not answer counts as not available.
    """
    try:
        return await answer
    except ApiException as error:
        return error.error
    except (DisconnectError, RequestTimeoutError, UnsupportedVersionError):
        return Errors.COORDINATOR_NOT_AVAILABLE
