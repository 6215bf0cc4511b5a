"""Groups as a whole: members of both protocols come, go, crash, come back, lose answers; the broker
fails over; topics change.

Checked after every step
* no partition is held by two members: in the coordinator's eyes, and, for consumer groups, in the members' own (unless the coordinator
  has removed the one that still believes in it)
* what a member of a consumer group believes it owns, the coordinator counts as its own: it gives nothing away that is still worked on
* group epochs of a consumer group never go back, nor does the epoch of a member while it has the same id
* committed offsets are those that were acknowledged, and only they; transactional ones count from their commit on
* a shard that is made from the log at this moment is in the same state
At the end everybody calms down, and every partition that somebody wants has one owner that wants it.

    KMIRROR_GROUP_MACHINE=2000 pytest tests/property/test_group_machine.py      a long run
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test
from support.coordinators.group_doubles import ClassicClient, ConsumerClient, ShardHarness

from kmirror.common.errors import ApiException, Errors
from kmirror.coordinator.group.classic_group import ClassicGroup, ClassicGroupState
from kmirror.coordinator.group.consumer_group import ConsumerGroup
from kmirror.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from kmirror.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kmirror.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

MAX_CLIENTS = 5
TOPICS = ("a", "b", "c")
INSTANCES = tuple(f"instance-{number}" for number in range(MAX_CLIENTS))
CONFIG = GroupCoordinatorConfig(initial_rebalance_delay_ms=500, offsets_retention_ms=10**12)
Client = ClassicClient | ConsumerClient
index = st.integers(0, MAX_CLIENTS - 1)


class GroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.harness = ShardHarness(CONFIG).set_topics(a=3, b=2).load()
        self.topics = {"a": 3, "b": 2}
        self.version = 1
        self.clients: list[Client] = []
        self.committed: dict[tuple[str, int], int] = {}
        self.pending: dict[int, dict[tuple[str, int], int]] = {}
        self.order: dict[tuple[str, int], int] = {}
        self.next_offset = 1
        self.seen: dict[str, int] = {}
        self.cooperative = False

    @initialize(cooperative=st.booleans())
    def begin(self, cooperative: bool) -> None:
        self.cooperative = cooperative

    # -- what happens
    # ---------------------------------------------------------------------------------------------------

    def _client(self, number: int) -> Client | None:
        return self.clients[number % len(self.clients)] if self.clients else None

    @staticmethod
    def _step(client: Client) -> None:
        if isinstance(client, ClassicClient):
            client.poll()
            return
        try:
            if client.epoch > 0:
                client.beat()
            else:
                client.join()
        except ApiException as error:
            client.owned = {}
            client.epoch = 0
            if error.error in (Errors.UNKNOWN_MEMBER_ID, Errors.FENCED_INSTANCE_ID) and client.instance_id is not None:
                client.member_id = ""

    @precondition(lambda self: len(self.clients) < MAX_CLIENTS)
    @rule(is_classic=st.booleans(), static=st.booleans(), topics=st.sets(st.sampled_from(TOPICS), min_size=1), pattern=st.booleans())
    def come(self, is_classic: bool, static: bool, topics: set[str], pattern: bool) -> None:
        taken = {client.instance_id for client in self.clients}
        instance = next(name for name in INSTANCES if name not in taken) if static else None
        client: Client
        if is_classic:
            client = ClassicClient(self.harness, topics=sorted(topics), cooperative=self.cooperative, instance_id=instance)
        elif pattern:
            client = ConsumerClient(self.harness, regex=f"[{''.join(sorted(topics))}]", instance_id=instance)
        else:
            client = ConsumerClient(self.harness, topics=sorted(topics), instance_id=instance)
        self.clients.append(client)
        self._step(client)

    @rule(number=index, times=st.integers(1, 4))
    def step(self, number: int, times: int) -> None:
        client = self._client(number)
        for _ in range(times if client is not None else 0):
            assert client is not None
            self._step(client)

    @rule(number=index)
    def answer_is_lost(self, number: int) -> None:
        """The coordinator hears of the member, the member hears nothing."""
        client = self._client(number)
        if isinstance(client, ConsumerClient) and client.epoch > 0:
            before = (client.epoch, client.owned, client.member_id)
            self._step(client)
            if client.epoch != 0:
                client.epoch, client.owned, client.member_id = before
                client.says_everything = True

    @rule(number=index, for_a_while=st.booleans())
    def leave(self, number: int, for_a_while: bool) -> None:
        client = self._client(number)
        if client is None:
            return
        self.clients.remove(client)
        if isinstance(client, ClassicClient):
            if client.member_id:
                client.leave()
        elif client.epoch > 0:
            try:
                client.leave(-2 if for_a_while and client.instance_id is not None else -1)
            except ApiException:
                pass

    @rule(number=index)
    def crash(self, number: int) -> None:
        client = self._client(number)
        if client is not None:
            self.clients.remove(client)

    @rule(number=index)
    def restart(self, number: int) -> None:
        """The same program again, without memory; a static member under its instance id."""
        client = self._client(number)
        if isinstance(client, ConsumerClient):
            if client.epoch > 0 and client.instance_id is not None:
                try:
                    client.leave(-2)
                except ApiException:
                    pass
            client.member_id, client.epoch, client.owned = "", 0, {}
        elif client is not None:
            client.member_id, client.owned, client.state, client.generation = "", set(), "idle", -1

    @rule(ms=st.sampled_from([0, 100, 600, 1_000, 5_000, 11_000, 31_000, 46_000]))
    def time_goes_by(self, ms: int) -> None:
        self.harness.advance(ms)

    @rule(topic=st.sampled_from(TOPICS), more=st.integers(0, 2))
    def topic_changes(self, topic: str, more: int) -> None:
        """A topic is created or gets more partitions; with 0 more it is deleted, and what was
        committed for it goes, too.
        """
        self.version += 1
        if more == 0 and topic in self.topics:
            del self.topics[topic]
            groups = self.harness.shard.groups.groups
            topic_uuid = groups.image.topic_id(topic)
            assert topic_uuid is not None
            self.harness.set_topics(self.version, **self.topics)
            self.harness.run(self.harness.shard.offsets.on_topics_deleted({topic: topic_uuid}))
            self.committed = {each: offset for each, offset in self.committed.items() if each[0] != topic}
            for pending in self.pending.values():
                for each in [each for each in pending if each[0] == topic]:
                    del pending[each]
        else:
            self.topics[topic] = self.topics.get(topic, 0) + more + (topic not in self.topics)
            self.harness.set_topics(self.version, **self.topics)

    @rule()
    def fail_over(self) -> None:
        """Another broker coordinates: all it knows is the log."""
        self.harness.shard.on_unloaded()
        self.harness = self.harness.reloaded().load()
        for client in self.clients:
            client.harness = self.harness
            if isinstance(client, ClassicClient) and client.state in ("joining", "syncing"):
                client.poll()

    @rule(number=index, transactional=st.booleans(), producer=st.integers(1, 2))
    def commit(self, number: int, transactional: bool, producer: int) -> None:
        client = self._client(number)
        if client is None or not client.partitions:
            return
        topic, partition = client.partitions[0]
        offset, self.next_offset = self.next_offset, self.next_offset + 1
        try:
            if transactional:
                self._commit_transactional(client, topic, partition, offset, producer)
            else:
                self._commit(client, topic, partition, offset)
        except ApiException as error:
            refused = (Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION, Errors.STALE_MEMBER_EPOCH, Errors.REBALANCE_IN_PROGRESS)
            assert error.error in (*refused, Errors.FENCED_INSTANCE_ID, Errors.GROUP_ID_NOT_FOUND), error

    def _commit(self, client: Client, topic: str, partition: int, offset: int) -> None:
        rows = [OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)]
        topic_uuid = self.harness.shard.groups.groups.image.topic_id(topic)
        assert topic_uuid is not None or topic not in self.topics
        if topic_uuid is None:
            return
        request = OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=client.epoch,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            topics=[OffsetCommitRequestTopic(name=topic, topic_id=topic_uuid, partitions=rows)],
        )
        self.harness.run(self.harness.shard.offsets.commit(request, 9, self.harness.clock.time_ms()))
        self._acknowledge(topic, partition, offset)

    def _acknowledge(self, topic: str, partition: int, offset: int) -> None:
        self.committed[(topic, partition)] = offset
        self.order[(topic, partition)] = offset

    def _commit_transactional(self, client: Client, topic: str, partition: int, offset: int, producer: int) -> None:
        if topic not in self.topics:
            return
        rows = [TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)]
        request = TxnOffsetCommitRequest(
            group_id="g",
            producer_id=producer,
            generation_id=client.epoch,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=rows)],
        )
        self.harness.run(self.harness.shard.offsets.commit_transactional(request, self.harness.clock.time_ms()), producer)
        self.pending.setdefault(producer, {})[(topic, partition)] = offset

    @rule(producer=st.integers(1, 2), committed=st.booleans())
    def end_transaction(self, producer: int, committed: bool) -> None:
        self.harness.end_transaction(producer, committed=committed)
        for each, offset in self.pending.pop(producer, {}).items():
            if committed and self.committed.get(each, 0) < offset:  # offsets are numbered in the order of their records
                self.committed[each] = offset

    # -- what must hold
    # -------------------------------------------------------------------------------------------------

    def _group(self) -> ClassicGroup | ConsumerGroup | None:
        return self.harness.shard.groups.groups.by_id.get("g")

    @invariant()
    def nobody_shares_a_partition(self) -> None:
        group = self._group()
        if not isinstance(group, ConsumerGroup):
            return
        holders: dict[Any, str] = {}
        for member in group.members.values():
            for partitions in (member.assigned_partitions, member.partitions_pending_revocation):
                for each in ((topic, partition) for topic, epochs in partitions.items() for partition in epochs):
                    assert each not in holders, f"{each} is held by {member.member_id} and {holders[each]}"
                    holders[each] = member.member_id
        believed: dict[tuple[str, int], str] = {}
        for client in self.clients:
            member = group.members.get(client.member_id)
            if member is None or (isinstance(client, ClassicClient) and client.state == "fenced"):
                continue
            for each in client.partitions:
                assert believed.setdefault(each, client.member_id) == client.member_id, f"{each} is worked on twice"

    @invariant()
    def what_members_own_is_theirs(self) -> None:
        group = self._group()
        if not isinstance(group, ConsumerGroup):
            return
        image = self.harness.shard.groups.groups.image
        for client in self.clients:
            member = group.members.get(client.member_id)
            epochs = () if member is None else (member.member_epoch, member.previous_member_epoch)
            if member is None or client.epoch not in epochs or client.epoch <= 0:
                continue
            for topic, partition in client.partitions:
                topic_uuid = image.topic_id(topic)
                if topic_uuid is not None:
                    assert member.assignment_epoch(topic_uuid, partition) is not None, f"{client.member_id} owns {topic}-{partition}"

    @invariant()
    def epochs_do_not_go_back(self) -> None:
        group = self._group()
        if not isinstance(group, ConsumerGroup) or group.is_empty:
            self.seen = {}
            return
        assert group.group_epoch >= self.seen.get("", 0)
        assert group.assignment_epoch <= group.group_epoch
        self.seen[""] = group.group_epoch

    @invariant()
    def offsets_are_what_was_acknowledged(self) -> None:
        found = {
            (topic, partition): committed.offset
            for topic, partitions in self.harness.shard.offsets.offsets("g").items()
            for partition, committed in partitions.items()
        }
        assert found == self.committed
        assert self.harness.shard.offsets.count == len(found)

    @invariant()
    def changed_topics_find_the_groups_that_name_them(self) -> None:
        group, by_topic = self._group(), self.harness.shard.groups.groups.by_topic
        named = {topic for topics in group.named_topics() for topic in topics} if isinstance(group, ConsumerGroup) else set()
        assert {topic for topic in by_topic.topics() if "g" in by_topic.groups(topic)} == named
        assert not isinstance(group, ConsumerGroup) or group.subscribed_topics() <= named

    @invariant()
    def the_log_tells_the_same(self) -> None:
        ours, theirs = self.harness.shard, self.harness.reloaded().shard
        assert ours.offsets.offsets("g") == theirs.offsets.offsets("g")
        group, again = self._group(), theirs.groups.groups.by_id.get("g")
        if isinstance(group, ConsumerGroup):
            assert isinstance(again, ConsumerGroup)
            for name in ("group_epoch", "metadata_hash", "assignment_epoch", "assignment_timestamp_ms", "members", "target_assignments"):
                assert getattr(group, name) == getattr(again, name), name
            assert group.resolved_regular_expressions == again.resolved_regular_expressions
            for member in group.members.values():
                for topic, epochs in member.assigned_partitions.items():
                    assert all(again.current_partition_epoch(topic, each) == group.current_partition_epoch(topic, each) for each in epochs)
        elif group is not None and group.is_in(ClassicGroupState.STABLE):
            assert isinstance(again, ClassicGroup)
            assert (again.generation_id, list(again.members)) == (group.generation_id, list(group.members))
            assert [m.assignment for m in again.members.values()] == [m.assignment for m in group.members.values()]

    def teardown(self) -> None:
        """Everybody alive goes on, the dead are found out, and then all is shared out."""
        for _ in range(150):
            self.harness.advance(700)
            for client in self.clients:
                self._step(client)
        wanted = {
            (topic, partition)
            for client in self.clients
            for topic, count in self.topics.items()
            if self._wants(client, topic)
            for partition in range(count)
        }
        owners: dict[tuple[str, int], Client] = {}
        for client in self.clients:
            for each in client.partitions:
                assert each not in owners, f"{each} has two owners in the end"
                owners[each] = client
        assert {each for each in owners if each[0] in self.topics} == wanted, self._group()
        assert all(self._wants(client, topic) for (topic, _), client in owners.items())

    @staticmethod
    def _wants(client: Client, topic: str) -> bool:
        if isinstance(client, ClassicClient):
            return topic in client.topics and client.state != "fenced"
        return topic in client.regex if client.regex is not None else topic in (client.topics or ())


def test_groups_of_both_protocols_hold_what_they_promise() -> None:
    examples = int(os.environ.get("KMIRROR_GROUP_MACHINE", "30"))
    run_state_machine_as_test(
        GroupMachine,
        settings=settings(max_examples=examples, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)),
    )
