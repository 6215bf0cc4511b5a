"""MirrorFetcherManager: which fetcher copies which partition.

The key is (fetcher id, source broker, mirror), as the KIP asks (FEA8): the partitions of one mirror
are spread over mirror.num.replica.fetchers fetchers per source broker, and different mirrors never
share a fetcher. A fetcher lives as long as it has partitions. Its client id
`broker-N-fetcher-F-mirror-X` (A12) is what operators of the source set quotas on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition, java_string_hash
from kmirror.mirror.fetch.fetch_failures import REFUSED
from kmirror.mirror.fetch.fetched_mirror_partition import FetchedMirrorPartition, FetchTarget
from kmirror.mirror.fetch.fetcher_inquiries import answer_questions
from kmirror.mirror.fetch.healthy_waits import quota_wait
from kmirror.mirror.fetch.mirror_fetcher import MirrorFetcher
from kmirror.mirror.logs.log_questions import Inquiry, Verdict
from kmirror.mirror.mirror_safeguards import MirrorSafeguards
from kmirror.mirror.ports import MirrorConfig, SourceClientFactory
from kmirror.mirror.source.source_cluster import SourceError, SourceNode
from kmirror.mirror.source.source_end_point import LeaderHint, SourceEndPoint
from kmirror.replica.replication_quota_manager import ReplicationQuotaManager
from kmirror.runtime.api import Runtime, TaskScope
from kmirror.runtime.supervision import Supervised


class FetcherKey(NamedTuple):
    fetcher_id: int
    source_broker: SourceNode
    mirror_name: str


class _Running(NamedTuple):
    fetcher: MirrorFetcher
    life: Supervised
    task: asyncio.Task[None]


@dataclass(slots=True)
class _Borrowed:
    """A connection to a source broker, and how many inquiries use it."""

    end_point: SourceEndPoint
    users: int = 0


class RunningFetcher(NamedTuple):
    """A fetcher as the metrics see it (`mirror_metrics.FetcherView`)."""

    key: FetcherKey
    fetcher: MirrorFetcher
    is_dead: bool


class MirrorFetcherManager:
    """Owns all mirror fetchers of this broker, which of them has which partition, and the
    connections that inquiries borrow.
    """

    def __init__(
        self,
        runtime: Runtime,
        config: MirrorConfig,
        client_factory: SourceClientFactory,
        *,
        safeguards: MirrorSafeguards,
        quota: ReplicationQuotaManager,
        complete_delayed: Callable[[Sequence[TopicPartition]], None],
    ) -> None:
        """`complete_delayed` tells those who wait for local logs that these logs have grown."""
        self._runtime = runtime
        self._config = config
        self._client_factory = client_factory
        self._safeguards = safeguards
        self._quota = quota
        self._complete_delayed = complete_delayed
        self._fetchers: dict[FetcherKey, _Running] = {}
        self._owner: dict[TopicPartition, FetcherKey] = {}
        self._borrowed: dict[tuple[str, SourceNode], _Borrowed] = {}
        self._scope = TaskScope(runtime, "mirror-fetchers")

    def owns(self, topic_partition: TopicPartition) -> bool:
        """Whether some fetcher has the partition now. A fetcher that died has given back all its
        partitions.
        """
        key = self._owner.get(topic_partition)
        running = self._fetchers.get(key) if key is not None else None
        return running is not None and running.fetcher.owns(topic_partition)

    async def add_partition(self, target: FetchTarget) -> None:
        """Finds the source's leader and starts fetching. SourceError if there is no leader; a topic
        with another id is rejected (`FetchTarget.on_rejected`).
        """
        found = await self._leader_of(target)
        if found is not None:
            self._add(*found)

    async def inquire(self, target: FetchTarget, inquiry: Inquiry) -> Verdict | None:
        """Asks the source's leader on behalf of a partition that is not fetched yet. SourceError:
        no answer; None: the source's topic has another id.
        """
        found = await self._leader_of(target)
        if found is None:
            return None
        partition, node = found
        partition.inquiry = inquiry
        end_point = self._borrow(target.id.mirror_name, node, target.mirror.configs)
        try:
            answer: object = None
            while True:
                try:
                    partition.question = inquiry.throw(answer) if isinstance(answer, Exception) else inquiry.send(answer)
                except StopIteration as ended:
                    verdict: Verdict = ended.value
                    return verdict
                answers = await answer_questions(self._runtime, end_point, [partition])
                answer = answers[partition.topic_partition]
        finally:
            self._give_back(target.id.mirror_name, node)

    def _borrow(self, mirror_name: str, node: SourceNode, mirror_configs: dict[str, str]) -> SourceEndPoint:
        """Returns the connection that all inquiries of a mirror at a source broker share, for as
        long as there are any.
        """
        borrowed = self._borrowed.get((mirror_name, node))
        if borrowed is None:
            client_id = f"broker-{self._config.broker_id}-mirror-alignment-{mirror_name}"
            end_point = SourceEndPoint(self._runtime, self._client_factory(client_id, mirror_configs), node, self._config)
            borrowed = self._borrowed[mirror_name, node] = _Borrowed(end_point)
        borrowed.users += 1
        return borrowed.end_point

    def _give_back(self, mirror_name: str, node: SourceNode) -> None:
        borrowed = self._borrowed[mirror_name, node]
        borrowed.users -= 1
        if not borrowed.users:
            self._borrowed.pop((mirror_name, node)).end_point.close()

    async def _leader_of(self, target: FetchTarget) -> tuple[FetchedMirrorPartition, SourceNode] | None:
        """Returns the partition and its source leader; None if the source's topic has another id,
        which the target is told. SourceError: no leader.
        """
        topic_partition = target.id.topic_partition
        mirror = target.mirror
        metadata = await mirror.source_metadata(topic_partition.topic)
        topic = metadata.topics.get(topic_partition.topic)
        if topic is None or topic.error is not Errors.NONE:
            if topic is not None and topic.error is Errors.TOPIC_AUTHORIZATION_FAILED:
                raise SourceError(REFUSED, topic.error)
            if topic is None or topic.error is Errors.UNKNOWN_TOPIC_OR_PARTITION:
                raise SourceError(f"the source's metadata has no topic {topic_partition.topic}: it is gone, or our user may not see it")
            raise SourceError(f"source topic {topic_partition.topic}: {topic.error.name}")
        if topic.topic_id and topic.topic_id != target.id.topic_id:
            target.on_rejected(f"the source's topic has the id {topic.topic_id}, but the local topic has the id {target.id.topic_id}")
            return None
        partition = topic.partitions.get(topic_partition.partition)
        node = mirror.source.node(partition.leader) if partition is not None else None
        if partition is None or node is None:
            raise SourceError(f"the source has no leader for {topic_partition}")
        fetched = FetchedMirrorPartition(
            target,
            topic_id=topic.topic_id,
            source_epoch=partition.leader_epoch,
            source_is_mirror=mirror.is_known_chain(topic_partition.topic),
        )
        return fetched, node

    def redirect(self, partition: FetchedMirrorPartition, leader: LeaderHint) -> bool:
        """Moves the partition to the fetcher of the broker that an answer named as its leader.
        False if that broker's address is not known.
        """
        target = partition.target
        node = leader.node or target.mirror.source.node(leader.leader_id)
        if node is None:
            return False
        moved = FetchedMirrorPartition(
            target,
            topic_id=partition.topic_id,
            source_epoch=leader.leader_epoch,
            source_is_mirror=partition.source_is_mirror,
            was_redirected=True,
        )
        self._add(moved, node)
        return True

    def _add(self, partition: FetchedMirrorPartition, node: SourceNode) -> None:
        topic_partition = partition.topic_partition
        self.remove_partition(topic_partition)
        key = FetcherKey(self._fetcher_id(topic_partition), node, partition.target.id.mirror_name)
        self._owner[topic_partition] = key
        self._fetcher(key, partition.target.mirror.configs).add(partition)

    def known_as_of_ms(self, target: FetchTarget) -> int:
        """When the source last said where its log of a partition ends (monotonic clock); -1 if it
        never did.
        """
        topic_partition = target.id.topic_partition
        key = self._owner.get(topic_partition)
        running = self._fetchers.get(key) if key is not None else None
        partition = running.fetcher.partition(topic_partition) if running is not None else None
        if running is None or partition is None:
            return target.progress.source_offset_at_ms
        return running.fetcher.known_as_of_ms(partition)

    def wait_of(self, target: FetchTarget) -> str | None:
        """Why a partition waits although nothing is wrong with it: in its fetcher, or before it has
        one, while its log is compared with the source's.
        """
        topic_partition, mirror_name = target.id.topic_partition, target.id.mirror_name
        key = self._owner.get(topic_partition)
        running = self._fetchers.get(key) if key is not None else None
        if running is not None and running.fetcher.owns(topic_partition):
            return running.fetcher.wait_of(topic_partition)
        now_ms = self._runtime.clock.monotonic_ms()
        for (name, _), borrowed in self._borrowed.items():
            if name == mirror_name and borrowed.end_point.throttle.is_on(now_ms):
                return str(quota_wait(borrowed.end_point, now_ms))
        return None

    def remove_partition(self, topic_partition: TopicPartition) -> None:
        """No fetcher touches the partition when this returns."""
        key = self._owner.pop(topic_partition, None)
        running = self._fetchers.get(key) if key is not None else None
        if key is None or running is None:
            return
        running.fetcher.remove(topic_partition)
        if running.fetcher.is_empty and self._fetchers.get(key) is running:
            del self._fetchers[key]
            running.task.cancel()
            running.fetcher.close()

    def running(self) -> list[RunningFetcher]:
        """Returns every fetcher. A fetcher is dead if its task ended although nobody ended it, and
        has not been restarted.
        """
        return [RunningFetcher(key, running.fetcher, running.life.is_down) for key, running in self._fetchers.items()]

    async def shutdown(self) -> None:
        await self._scope.cancel()
        for running in self._fetchers.values():
            running.fetcher.close()
        self._fetchers.clear()
        self._owner.clear()

    def _fetcher_id(self, topic_partition: TopicPartition) -> int:
        spread = abs(31 * java_string_hash(topic_partition.topic) + topic_partition.partition)
        return spread % self._config.mirror_num_replica_fetchers

    def _fetcher(self, key: FetcherKey, mirror_configs: dict[str, str]) -> MirrorFetcher:
        running = self._fetchers.get(key)
        if running is None:
            client_id = f"broker-{self._config.broker_id}-fetcher-{key.fetcher_id}-mirror-{key.mirror_name}"
            client = self._client_factory(client_id, mirror_configs)
            end_point = SourceEndPoint(self._runtime, client, key.source_broker, self._config)
            name = f"MirrorFetcherThread-{key.source_broker.id}-{key.fetcher_id}-{key.mirror_name}"
            fetcher = MirrorFetcher(
                self._runtime,
                end_point,
                name,
                config=self._config,
                safeguards=self._safeguards,
                quota=self._quota,
                complete_delayed=self._complete_delayed,
                owner=self,
                mirror_name=key.mirror_name,
            )
            life = Supervised(self._runtime, fetcher.run, name=name, on_end=fetcher.on_unexpected_end)
            running = _Running(fetcher, life, self._scope.spawn(life.run(), name=name))
            self._fetchers[key] = running
        return running.fetcher
