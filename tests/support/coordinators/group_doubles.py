"""A group coordinator's shard outside a broker: its records go into a list, and its timers fire as
the test moves the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kmirror.common.errors import ApiException, Errors
from kmirror.common.uuid import Uuid
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord, CoordinatorResult
from kmirror.coordinator.group.consumer_group_patterns import Requester
from kmirror.coordinator.group.consumer_protocol import deserialize_assignment, deserialize_subscription, serialize_assignment
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
from kmirror.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kmirror.wire.messages.consumer_protocol_subscription import TopicPartition as OwnedPartitions
from kmirror.wire.messages.heartbeat import HeartbeatRequest
from kmirror.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kmirror.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kmirror.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from kmirror.wire.primitives import Writer
from support.logs.storage_doubles import ManualClock, SeededRandom

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
    """One shard with its log.

    `run` is what the runtime's write does, without waiting for anything.
    """

    def __init__(
        self,
        config: GroupCoordinatorConfig | None = None,
        *,
        log: list[Any] | None = None,
        clock: ManualClock | None = None,
        random: SeededRandom | None = None,
    ) -> None:
        self.config = config or GroupCoordinatorConfig()
        self.group_properties: dict[str, dict[str, str]] = {}
        self.clock = clock or ManualClock()
        self.random = random or SeededRandom(0)
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
        fresh = ShardHarness(self.config, log=self.log, clock=self.clock, random=self.random)
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
    """A member that follows KIP-848 exactly: it takes what it is given, and gives up at once what
    it is told to.
    """

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
        self.says_everything = False
        """Whether the next heartbeat is a full one, as clients send it after an error."""

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
                subscribed_topic_names=self.topics or [],
                subscribed_topic_regex=self.regex or "",
                server_assignor=self.assignor,
                topic_partitions=[],
            )
        )

    def beat(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        if self.says_everything:
            fields = {
                "rebalance_timeout_ms": 30_000,
                "subscribed_topic_names": self.topics or [],
                "subscribed_topic_regex": self.regex or "",
            } | fields
        self.says_everything = False
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


class ClassicClient:
    """A member of the classic protocol.

    An eager member gives everything up before it joins again. A cooperative one keeps what it has,
    says so when it joins, and joins once more if it had to give something up. As the leader it
    spreads partitions evenly.
    """

    def __init__(self, harness: ShardHarness, group_id: str = "g", *, topics: list[str], cooperative: bool = False, **options: Any) -> None:
        self.harness = harness
        self.group_id = group_id
        self.topics = topics
        self.cooperative = cooperative
        self.instance_id: str | None = options.get("instance_id")
        self.member_id = ""
        self.generation = -1
        self.owned: set[tuple[str, int]] = set()
        self.joined: JoinGroupResponse | None = None
        self.synced: SyncGroupResponse | None = None
        self.state = "idle"
        self.error = Errors.NONE

    @property
    def partitions(self) -> list[tuple[str, int]]:
        return sorted(self.owned)

    @property
    def epoch(self) -> int:
        return self.generation

    def _metadata(self) -> bytes:
        owned: dict[str, list[int]] = {}
        for topic, partition in sorted(self.owned) if self.cooperative else ():
            owned.setdefault(topic, []).append(partition)
        subscription = ConsumerProtocolSubscription(
            topics=self.topics, owned_partitions=[OwnedPartitions(topic=topic, partitions=numbers) for topic, numbers in owned.items()]
        )
        out = Writer()
        subscription.write(out, 1)
        return b"\x00\x01" + out.to_bytes()

    def _run(self, operation: Callable[[], CoordinatorResult[Any]], fail: Callable[[Errors], None]) -> None:
        try:
            result = operation()
        except ApiException as error:
            fail(error.error)
            return
        on_committed = self.harness.run(result)
        if on_committed is not None:
            on_committed(Errors.NONE)

    def join(self) -> None:
        if not self.cooperative:
            self.owned = set()
        self.state, self.joined = "joining", None
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=30_000,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="coop" if self.cooperative else "eager", metadata=self._metadata())],
        )

        def respond(response: JoinGroupResponse) -> None:
            self.joined = response

        groups = self.harness.shard.groups
        self._run(lambda: groups.join(request, 9, REQUESTER, respond), lambda error: respond(JoinGroupResponse(error_code=error)))

    def sync(self) -> None:
        assert self.joined is not None
        self.state, self.synced = "syncing", None
        given = self._assign(self.joined) if self.joined.leader == self.member_id and self.joined.members else {}
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=self.joined.protocol_name,
            assignments=[SyncGroupRequestAssignment(member_id=member, assignment=data) for member, data in given.items()],
        )

        def respond(response: SyncGroupResponse) -> None:
            self.synced = response

        groups = self.harness.shard.groups
        self._run(lambda: groups.sync(request, respond), lambda error: respond(SyncGroupResponse(error_code=error)))

    def _assign(self, joined: JoinGroupResponse) -> dict[str, bytes]:
        """Returns what each member gets: as even as possible, with owners kept.

        A partition that another member still has is assigned to nobody yet.
        """
        image = self.harness.shard.groups.groups.image
        subscriptions = {member.member_id: deserialize_subscription(bytes(member.metadata)) for member in joined.members}
        owner = {
            (topic.topic, partition): member
            for member, subscription in subscriptions.items()
            for topic in subscription.owned_partitions
            for partition in topic.partitions
        }
        loads = dict.fromkeys(sorted(subscriptions), 0)
        given: dict[str, dict[str, list[int]]] = {member: {} for member in subscriptions}
        for topic in sorted({topic for subscription in subscriptions.values() for topic in subscription.topics}):
            topic_uuid = image.topic_id(topic)
            for partition in range(image.partition_count(topic_uuid) or 0) if topic_uuid is not None else ():
                wanting = [member for member in loads if topic in subscriptions[member].topics]
                target = min(wanting, key=lambda member: (loads[member], member))
                loads[target] += 1
                if owner.get((topic, partition), target) == target:
                    given[target].setdefault(topic, []).append(partition)
        return {member: serialize_assignment(partitions, 1) for member, partitions in given.items()}

    def poll(self) -> None:
        """Go on from whatever state it is in."""
        if self.state == "idle":
            self.join()
        elif self.state == "joining" and self.joined is not None:
            self._on_joined(self.joined)
        elif self.state == "syncing" and self.synced is not None:
            self._on_synced(self.synced)
        elif self.state == "stable":
            self._heartbeat()

    def _on_joined(self, response: JoinGroupResponse) -> None:
        if response.error_code == Errors.NONE:
            self.member_id, self.generation = response.member_id, response.generation_id
            self.sync()
        elif response.error_code == Errors.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self.join()
        else:
            self._on_error(Errors.for_code(int(response.error_code)))

    def _on_synced(self, response: SyncGroupResponse) -> None:
        if response.error_code != Errors.NONE:
            self._on_error(Errors.for_code(int(response.error_code)))
            return
        assignment = deserialize_assignment(bytes(response.assignment)) if response.assignment else None
        topics = assignment.assigned_partitions if assignment is not None else []
        given = {(topic.topic, partition) for topic in topics for partition in topic.partitions}
        has_revoked = bool(self.owned - given)
        self.owned, self.state = given, "stable"
        if self.cooperative and has_revoked:
            self.join()

    def _heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.group_id, generation_id=self.generation, member_id=self.member_id, group_instance_id=self.instance_id
        )
        try:
            error = Errors.for_code(int(self.harness.shard.groups.heartbeat(request).error_code))
        except ApiException as refused:
            error = refused.error
        if error is not Errors.NONE:
            self._on_error(error)

    def _on_error(self, error: Errors) -> None:
        self.error = error
        if error is Errors.REBALANCE_IN_PROGRESS:
            self.join()
        elif error is Errors.FENCED_INSTANCE_ID:
            self.owned, self.state = set(), "fenced"
        elif error in (Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION):
            self.owned = set()
            self.member_id = "" if error is Errors.UNKNOWN_MEMBER_ID else self.member_id
            self.join()
        else:
            self.owned, self.state = set(), "idle"

    def leave(self) -> None:
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        request = LeaveGroupRequest(group_id=self.group_id, members=[identity])
        try:
            self.harness.run(self.harness.shard.groups.leave(request))
        except ApiException as refused:
            self.error = refused.error
        self.owned, self.state, self.member_id = set(), "left", ""
