"""A group coordinator's shard outside of a broker: its records go into a list, its timers fire when the test says how time goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from storage_doubles import ManualClock, SeededRandom

from kmirror.common.uuid import Uuid
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord, CoordinatorResult
from kmirror.coordinator.group.consumer_group_manager import Requester
from kmirror.coordinator.group.coordinator_metadata_image import CoordinatorMetadataImage
from kmirror.coordinator.group.group_coordinator_config import GroupConfigManager, GroupCoordinatorConfig
from kmirror.coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from kmirror.metadata.image import MetadataImage, MetadataProvenance, TopicImage, TopicsImage
from kmirror.metadata.registrations import PartitionRegistration
from kmirror.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)

R = TypeVar("R")


class ManualTimers:
    """`CoordinatorTimer` whose operations are run by `due`."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._operations: dict[str, tuple[int, Callable[[], CoordinatorResult[None]]]] = {}

    def schedule(self, key: str, delay_ms: int, operation: Callable[[], CoordinatorResult[None]]) -> None:
        self._operations[key] = (self._clock.time_ms() + delay_ms, operation)

    def cancel(self, key: str) -> None:
        self._operations.pop(key, None)

    def is_scheduled(self, key: str) -> bool:
        return key in self._operations

    @property
    def keys(self) -> list[str]:
        return list(self._operations)

    def next_at_ms(self) -> int | None:
        return min((at_ms for at_ms, _ in self._operations.values()), default=None)

    def pop_due(self) -> Callable[[], CoordinatorResult[None]] | None:
        due = [(at_ms, key) for key, (at_ms, _) in self._operations.items() if at_ms <= self._clock.time_ms()]
        return self._operations.pop(min(due)[1])[1] if due else None


class ShardHarness:
    """One shard with its log. `run` is what the runtime's write does, without waiting for anything."""

    def __init__(
        self, config: GroupCoordinatorConfig | None = None, *, log: list[Any] | None = None, clock: ManualClock | None = None
    ) -> None:
        self.config = config or GroupCoordinatorConfig()
        self.group_properties: dict[str, dict[str, str]] = {}
        self.clock = clock or ManualClock()
        self.random = SeededRandom(0)
        self.log: list[Any] = []
        self.timers = ManualTimers(self.clock)
        configs = GroupConfigManager(lambda: self.config, lambda group_id: self.group_properties.get(group_id, {}))
        self.shard = GroupCoordinatorShard(configs, timer=self.timers, clock=self.clock, random=self.random)
        for entry in log or []:
            self._replay(entry)
        self.is_loaded = False

    def set_topics(self, version: int = 1, **partitions: int) -> ShardHarness:
        """Topics change: those named are all there are, with so many partitions each."""
        before = self.shard.groups.groups.image
        image = image_of(version, **partitions)
        changed = {*partitions, *before.topic_names()}
        has_new_topics = not set(partitions) <= set(before.topic_names())
        self.shard.groups.on_metadata_update(image, sorted(changed), has_new_topics=has_new_topics)
        return self

    def load(self) -> ShardHarness:
        """The log is read to its end: start timers."""
        self.is_loaded = True
        self.shard.on_loaded(self.clock.time_ms())
        return self

    def reloaded(self) -> ShardHarness:
        """Another broker's shard, made from this one's log."""
        fresh = ShardHarness(self.config, log=self.log, clock=self.clock)
        fresh.shard.groups.on_metadata_update(self.shard.groups.groups.image, (), has_new_topics=False)
        fresh.group_properties = self.group_properties
        return fresh

    def append(self, record: CoordinatorRecord, producer_id: int = -1) -> None:
        self._replay((record, producer_id))

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        self._replay((committed, producer_id))

    def _replay(self, entry: Any) -> None:
        what, producer_id = entry
        offset = len(self.log)
        self.log.append(entry)
        if isinstance(what, bool):
            self.shard.replay_end_transaction_marker(producer_id=producer_id, producer_epoch=0, committed=what)
        else:
            self.shard.replay(offset, what, producer_id=producer_id, producer_epoch=-1 if producer_id == -1 else 0)

    def run(self, result: CoordinatorResult[R], producer_id: int = -1) -> R:
        for record in result.records:
            self.append(record, producer_id)
        if result.on_appended is not None:
            result.on_appended()
        return result.response

    def advance(self, ms: int) -> None:
        """Let `ms` pass; timers fire in their order, each at its time."""
        end_ms = self.clock.time_ms() + ms
        while (at_ms := self.timers.next_at_ms()) is not None and at_ms <= end_ms:
            self.clock.now_ms = max(at_ms, self.clock.now_ms)
            operation = self.timers.pop_due()
            assert operation is not None, "a timer is due"
            self.run(operation())
        self.clock.now_ms = end_ms


def topic_id(name: str) -> Uuid:
    """The id that `images` gives a topic of this name."""
    return Uuid(name.encode().rjust(16, b"\x01")[:16])


def image_of(version: int = 1, **partitions: int) -> CoordinatorMetadataImage:
    """Topics with so many partitions each, all on broker 1."""
    registration = PartitionRegistration(replicas=(1,), isr=(1,), leader=1)
    topics = [TopicImage(name, topic_id(name), dict.fromkeys(range(count), registration)) for name, count in partitions.items()]
    image = MetadataImage(
        provenance=MetadataProvenance(version, 0, 0),
        topics=TopicsImage({topic.id: topic for topic in topics}, {topic.name: topic for topic in topics}),
    )
    return CoordinatorMetadataImage(image)


REQUESTER = Requester("client", "/127.0.0.1")


class ConsumerClient:
    """A member that speaks KIP-848 by the book: takes what it is given, gives up at once what it is told to."""

    def __init__(self, harness: ShardHarness, group_id: str = "g", *, topics: list[str] | None = None, **options: Any) -> None:
        self.harness = harness
        self.group_id = group_id
        self.topics = topics
        self.regex: str | None = options.get("regex")
        self.instance_id: str | None = options.get("instance_id")
        self.assignor: str | None = options.get("assignor")
        self.member_id: str = options.get("member_id", "")
        self.epoch = 0
        self.owned: dict[Uuid, list[int]] = {}

    def request(self, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id, **fields
        )

    def _owned(self) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
        return [ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic, partitions=list(p)) for topic, p in self.owned.items()]

    def send(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        response = self.harness.run(self.harness.shard.groups.consumer_heartbeat(request, REQUESTER))
        self.member_id = response.member_id or self.member_id
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.owned = {topic.topic_id: list(topic.partitions) for topic in response.assignment.topic_partitions}
        return response

    def join(self) -> ConsumerGroupHeartbeatResponse:
        self.owned = {}
        return self.send(
            self.request(
                0,
                rebalance_timeout_ms=30_000,
                subscribed_topic_names=self.topics,
                subscribed_topic_regex=self.regex,
                server_assignor=self.assignor,
                topic_partitions=[],
            )
        )

    def beat(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        return self.send(self.request(self.epoch, topic_partitions=self._owned(), **fields))

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        response = self.send(self.request(epoch))
        self.owned = {}
        return response

    @property
    def partitions(self) -> list[tuple[str, int]]:
        image = self.harness.shard.groups.groups.image
        return sorted((image.topic_name(topic) or "?", partition) for topic, numbers in self.owned.items() for partition in numbers)


def converge(harness: ShardHarness, *members: ConsumerClient, rounds: int = 12) -> None:
    """Heartbeats of all members, a second apart, until nobody's assignment changes any more."""
    for _ in range(rounds):
        harness.advance(1_000)
        for member in members:
            member.beat()
