"""Commits of a group and what it has committed: OffsetCommit and OffsetFetch, with what their
errors mean for a member (Kafka's `CommitRequestManager`).

    coordinator moved, loads, timed out, UNSTABLE_OFFSET_COMMIT    tried again until the time is up
    STALE_MEMBER_EPOCH               tried again with the member's present epoch (KIP-848)
    REBALANCE_IN_PROGRESS            RebalanceInProgressException: poll, then commit again
    UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, FENCED_MEMBER_EPOCH     CommitFailedException; the
                                     membership is told that it was fenced
    FENCED_INSTANCE_ID and others    raised as ApiException
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from kmirror.clients.cluster_client import GROUP, ClusterClient
from kmirror.clients.consumer.consumer_types import (
    CommitFailedException,
    OffsetAndMetadata,
    RebalanceInProgressException,
)
from kmirror.clients.consumer.partition_assignor import by_topic
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.api import Runtime
from kmirror.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kmirror.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

OFFSETS_CONNECTION: Final = "offsets"
"""Not the connection of JoinGroup, behind which a commit would wait."""
HIGHEST_VERSION_BY_NAME: Final = 9
FIRST_FETCH_OF_GROUPS: Final = 8
FIRST_STABLE_FETCH: Final = 7
FIRST_WITH_INSTANCES: Final = 7
FIRST_WITH_EPOCHS: Final = 6
FENCED: Final = (Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION, Errors.FENCED_MEMBER_EPOCH)
MOVED: Final = (Errors.NOT_COORDINATOR, Errors.COORDINATOR_NOT_AVAILABLE, Errors.REQUEST_TIMED_OUT, Errors.NETWORK_EXCEPTION)


class MemberIdentity(NamedTuple):
    """Who commits. Generation -1 without a member id: somebody outside of the group. `life` is
    another one after the member lost everything, and joined anew."""

    generation: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    life: tuple[object, int] | None = None


class _StaleEpochError(KmirrorError):
    """The member's epoch has moved on since the commit was made."""


class _TopicGoneError(KmirrorError):
    """A topic is not known; all else was committed."""


class OffsetCommits:
    """`identity` is asked for each try; it raises if this member must not commit now."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: ClusterClient,
        group_id: str,
        *,
        identity: Callable[[], MemberIdentity],
        on_fenced: Callable[[MemberIdentity], None],
    ) -> None:
        self._runtime = runtime
        self._cluster = cluster
        self._group_id = group_id
        self._identity = identity
        self._on_fenced = on_fenced

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: int, *, topics_may_be_gone: bool = False
    ) -> None:
        """Returns once all are committed; the module's docstring lists what is raised. With
        `topics_may_be_gone` nothing waits for a topic that the cluster does not know."""
        if not offsets:
            return
        life = self._identity().life

        async def attempt() -> None:
            try:
                await self._commit_once(offsets, life)
            except ApiException as error:
                if topics_may_be_gone and error.error is Errors.UNKNOWN_TOPIC_OR_PARTITION:
                    raise _TopicGoneError(str(error)) from error
                raise

        await self._cluster.retry(attempt, timeout_ms)

    async def _commit_once(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], life: tuple[object, int] | None) -> None:
        failures = 0
        while True:
            identity = self._identity()
            if identity.life != life:
                raise CommitFailedException  # what it read in its former life may be somebody else's
            try:
                return await self._commit_as(identity, offsets)
            except _StaleEpochError:
                await self._runtime.sleep_ms(self._cluster.backoff_ms(failures))
                failures += 1

    async def _commit_as(self, identity: MemberIdentity, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        def message(version: int) -> OffsetCommitRequest:
            topics: dict[str, OffsetCommitRequestTopic] = {}
            for partition, committed in offsets.items():
                row = OffsetCommitRequestPartition(
                    partition_index=partition.partition,
                    committed_offset=committed.offset,
                    committed_leader_epoch=committed.leader_epoch if version >= FIRST_WITH_EPOCHS else -1,
                    committed_metadata=committed.metadata,
                )
                topics.setdefault(partition.topic, OffsetCommitRequestTopic(name=partition.topic)).partitions.append(row)
            return OffsetCommitRequest(
                group_id=self._group_id,
                generation_id_or_member_epoch=identity.generation,
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id if version >= FIRST_WITH_INSTANCES else None,
                topics=list(topics.values()),
            )

        response = await self._ask(OffsetCommitRequest.API_KEY, message)
        unauthorized = []
        for topic in response.topics:
            for row in topic.partitions:
                error = Errors.for_code(row.error_code)
                if error is Errors.TOPIC_AUTHORIZATION_FAILED:
                    unauthorized.append(topic.name)
                elif error is not Errors.NONE:
                    self._raise(error, identity, TopicPartition(topic.name, row.partition_index))
        if unauthorized:
            names = ", ".join(dict.fromkeys(unauthorized))
            raise ApiException(Errors.TOPIC_AUTHORIZATION_FAILED, f"Not authorized to access topics: [{names}]")

    def _raise(self, error: Errors, identity: MemberIdentity, partition: TopicPartition) -> None:
        if error in MOVED:
            self._cluster.forget_coordinator(self._group_id, GROUP)
        if error in FENCED:
            self._on_fenced(identity)
            raise CommitFailedException
        if error is Errors.REBALANCE_IN_PROGRESS:
            raise RebalanceInProgressException(
                "Offset commit cannot be completed since the consumer group is executing a rebalance at the moment. You can try completing the "
                "rebalance by calling poll() and then retry commit again"
            )
        if error is Errors.STALE_MEMBER_EPOCH:
            raise _StaleEpochError
        raise ApiException(error, f"{partition}: {error.message}")

    async def fetch(self, partitions: Iterable[TopicPartition], timeout_ms: int) -> dict[TopicPartition, OffsetAndMetadata]:
        """What is committed; partitions without a commit are left out. Waits for open transactions
        that commit offsets (KIP-447)."""
        wanted = list(partitions)
        if not wanted:
            return {}
        return await self._cluster.retry(lambda: self._fetch_once(wanted), timeout_ms)

    async def _fetch_once(self, partitions: list[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        topics = by_topic(partitions)
        identity = self._identity_or_none()

        def message(version: int) -> OffsetFetchRequest:
            stable = version >= FIRST_STABLE_FETCH
            if version < FIRST_FETCH_OF_GROUPS:
                rows = [OffsetFetchRequestTopic(name=topic, partition_indexes=numbers) for topic, numbers in topics.items()]
                return OffsetFetchRequest(group_id=self._group_id, topics=rows, require_stable=stable)
            group = OffsetFetchRequestGroup(
                group_id=self._group_id,
                topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=numbers) for topic, numbers in topics.items()],
            )
            if version >= HIGHEST_VERSION_BY_NAME and identity.member_id:
                group.member_id, group.member_epoch = identity.member_id, identity.generation
            return OffsetFetchRequest(groups=[group], require_stable=stable)

        response = await self._ask(OffsetFetchRequest.API_KEY, message)
        answer = response.groups[0] if response.groups else response
        self._raise_fetch_error(Errors.for_code(answer.error_code), identity, partitions[0])
        found = {}
        for topic in answer.topics:
            for row in topic.partitions:
                partition = TopicPartition(topic.name, row.partition_index)
                self._raise_fetch_error(Errors.for_code(row.error_code), identity, partition)
                if row.committed_offset >= 0:
                    found[partition] = OffsetAndMetadata(row.committed_offset, row.committed_leader_epoch, row.metadata or "")
        return found

    def _identity_or_none(self) -> MemberIdentity:
        try:
            return self._identity()
        except (CommitFailedException, RebalanceInProgressException):
            return MemberIdentity()

    def _raise_fetch_error(self, error: Errors, identity: MemberIdentity, partition: TopicPartition) -> None:
        if error is Errors.NONE:
            return
        if error in MOVED:
            self._cluster.forget_coordinator(self._group_id, GROUP)
        if error in FENCED and identity.member_id:
            self._on_fenced(identity)
        if error is Errors.STALE_MEMBER_EPOCH or (error in FENCED and identity.member_id):
            raise ApiException(Errors.COORDINATOR_LOAD_IN_PROGRESS, error.message)  # tried again as who it is then
        if error is Errors.GROUP_AUTHORIZATION_FAILED:
            raise ApiException(error, f"Not authorized to access group: {self._group_id}")
        raise ApiException(error, f"{partition}: {error.message}")

    async def _ask(self, api_key: int, message: Callable[[int], Any]) -> Any:
        node = await self._cluster.coordinator(self._group_id, GROUP)
        try:
            version = await self._cluster.api_version(node, api_key, max_version=HIGHEST_VERSION_BY_NAME, connection_key=OFFSETS_CONNECTION)
            return await self._cluster.ask(node, message(version), version=version, connection_key=OFFSETS_CONNECTION)
        except ApiException as error:
            if error.error in MOVED:
                self._cluster.forget_coordinator(self._group_id, GROUP, node)
            raise
