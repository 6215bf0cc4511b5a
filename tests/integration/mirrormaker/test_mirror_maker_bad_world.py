"""MirrorMaker 2 among clusters that are away, refuse, or have been changed by somebody else. What is
refused must be told, must keep nothing else from being copied, and must be made up for when the
cause is gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from support.mirrormaker.embedded_flows import Clusters, clusters, config_of, set_topic_config, until, until_it_says
from support.mirrormaker.logs_compared import QUIET, is_dense, make_topics, produce, read, rows, until_copied
from support.mirrormaker.mirror_makers import commit, committed, count_of, topics_of
from support.waiting import REACHED_S

from kmirror.admin.admin_client import AdminClient as KmirrorAdmin
from kmirror.admin.groups import OffsetAndMetadata
from kmirror.admin.results import NewTopic
from kmirror.clients.consumer.classic_requests import ClassicRequests
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.embedded import Security
from kmirror.mirrormaker import kept_running, source_watch
from kmirror.mirrormaker.driver import MirrorMaker

ONE_WAY = {"B->A.enabled": "false"}
NO_AUTO = {"auto.create.topics.enable": "false"}
OPEN = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:broker;User:admin",
    "allow.everyone.if.no.acl.found": "true",
}
"""A broker that allows everything for which there is no access rule."""


def admin(servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": servers, **QUIET})


def set_rules(servers: str, rules: Iterable[AclBinding]) -> None:
    client = admin(servers)
    for future in client.create_acls(list(rules)).values():
        future.result(REACHED_S)


def drop_rules(servers: str) -> None:
    client = admin(servers)
    every = AclBindingFilter(ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.DENY)
    for future in client.delete_acls([every]).values():
        future.result(REACHED_S)


def denied(kind: ResourceType, name: str, operation: AclOperation) -> list[AclBinding]:
    """One operation is denied to everybody, all others stay allowed."""
    allowed = AclBinding(kind, name, ResourcePatternType.LITERAL, "User:*", "*", AclOperation.ALL, AclPermissionType.ALLOW)
    refused = AclBinding(kind, name, ResourcePatternType.LITERAL, "User:*", "*", operation, AclPermissionType.DENY)
    return [allowed, refused]


def tells(maker: MirrorMaker, *words: str) -> bool:
    return any(all(word in reason for word in words) for reason in maker.reasons())


@pytest.mark.parametrize("away", ["source", "target"])
async def test_a_cluster_that_is_away_at_the_start_is_waited_for(away: str) -> None:
    with clusters(ONE_WAY) as both:
        make_topics(both.a, {"t": 1})
        produce(both.a, "t", 50)
        cluster = both.source if away == "source" else both.target
        cluster.stop_node()
        async with both.mirrored() as maker:
            await until_it_says("the reason is told", lambda: maker.reasons())
            await asyncio.to_thread(cluster.start_node)
            assert is_dense(await until_copied(both.a, "t", both.b, "A.t"))
            await until_it_says("no reason is left", lambda: not maker.reasons())


@pytest.mark.parametrize("away", ["source", "target"])
async def test_a_cluster_that_goes_away_later_is_told_until_it_is_back(away: str) -> None:
    """Without its group a worker has no work: the list of what does not run was empty then."""
    session = {"B.session.timeout.ms": "3000", "B.heartbeat.interval.ms": "1000"}
    with clusters({**ONE_WAY, **session}, target={"group.min.session.timeout.ms": "1000"}) as both:
        make_topics(both.a, {"t": 1})
        produce(both.a, "t", 50)
        async with both.mirrored() as maker:
            await until_copied(both.a, "t", both.b, "A.t")
            await until_it_says("no reason is left", lambda: not maker.reasons())
            cluster = both.source if away == "source" else both.target
            await asyncio.to_thread(cluster.stop_node)
            word = "A has not answered" if away == "source" else "what should run here is not known"
            await until_it_says("the reason is told", lambda: tells(maker, word))
            await asyncio.to_thread(cluster.start_node)
            await until_it_says("no reason is left", lambda: not maker.reasons())


async def test_a_worker_whose_coordinator_hangs_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """It refuses nothing: a heartbeat waits for the timeout of its request."""

    async def hangs(_: ClassicRequests) -> Errors:
        await asyncio.Event().wait()
        return Errors.NONE

    session = {"B.session.timeout.ms": "3000", "B.heartbeat.interval.ms": "1000"}
    with clusters({**ONE_WAY, **session}, target={"group.min.session.timeout.ms": "1000"}) as both:
        make_topics(both.a, {"t": 1})
        async with both.mirrored() as maker:
            await until_it_says("no reason is left", lambda: len(maker.statuses()) >= 3 and not maker.reasons())
            monkeypatch.setattr(ClassicRequests, "heartbeat", hangs)
            await until_it_says("the reason is told", lambda: tells(maker, "what should run here is not known", "has not answered"))


async def test_a_flow_whose_topics_are_not_there_is_not_ready() -> None:
    with clusters(ONE_WAY) as both:
        async with both.mirrored({"A->B.topics": "not-there", "emit.heartbeats.enabled": "false"}) as maker:
            await until_it_says("it runs", lambda: len(maker.statuses()) >= 3)
            await until_it_says("the reason is told", lambda: tells(maker, "MirrorSourceConnector", "no tasks"))
            await asyncio.to_thread(make_topics, both.a, {"not-there": 1})
            await until_it_says("no reason is left", lambda: not maker.reasons())


async def test_records_are_copied_though_the_topic_of_offset_syncs_cannot_be_made(caplog: pytest.LogCaptureFixture) -> None:
    """One broker, and offset-syncs.topic.replication.factor 3, its default."""
    factors = {f"{name}.topic.replication.factor": "3" for name in ("offset-syncs", "checkpoints", "heartbeats")}
    with clusters({**ONE_WAY, **factors}, source=NO_AUTO, target=NO_AUTO) as both, caplog.at_level(logging.WARNING):
        make_topics(both.a, {"t": 1})
        produce(both.a, "t", 50)
        async with both.mirrored():
            await until_copied(both.a, "t", both.b, "A.t")
        assert "Topic mm2-offset-syncs.B.internal cannot be made, so there are no offset syncs" in caplog.text


async def test_a_healthy_first_start_logs_no_error(caplog: pytest.LogCaptureFixture) -> None:
    with clusters(ONE_WAY, source=NO_AUTO, target=NO_AUTO) as both, caplog.at_level(logging.WARNING):
        make_topics(both.a, {"t": 1})
        async with both.mirrored() as maker:
            await until_it_says("no reason is left", lambda: len(maker.statuses()) >= 3 and not maker.reasons())
        assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_wrong_password_is_told_and_a_right_one_copies() -> None:
    security = Security.sasl_plaintext({"admin": "admin-secret", "mm": "mm-secret"})
    with clusters(ONE_WAY, source_security=security) as both:
        mine = both.source.client_properties("admin")
        servers = mine.pop("bootstrap.servers")
        make_topics(servers, {"t": 1}, **mine)
        produce(servers, "t", 50, **mine)
        right = {f"A.{name}": value for name, value in both.source.client_properties("mm", style="java").items()}
        wrong = {name: value.replace("mm-secret", "mm-guess") for name, value in right.items()}
        assert wrong != right
        async with both.mirrored(wrong) as maker:
            await until_it_says("the reason is told", lambda: tells(maker, "SASL"))
            assert "mm-guess" not in " ".join(maker.reasons())
            assert "A.t" not in topics_of(both.b)
        async with both.mirrored(right) as maker:
            await until("copied", lambda: count_of(both.b, "A.t", 1) == 50)
            await until_it_says("no reason is left", lambda: not maker.reasons())
        assert rows(read(both.b, "A.t")) == rows(read(servers, "t", **mine))


@pytest.mark.parametrize("there", [1, 5])
async def test_a_remote_topic_that_somebody_made_keeps_the_partition_of_each_record(there: int) -> None:
    with clusters(ONE_WAY) as both:
        make_topics(both.a, {"t": 3})
        make_topics(both.b, {"A.t": there})
        produce(both.a, "t", 90, partitions=3)
        async with both.mirrored():
            assert is_dense(await until_copied(both.a, "t", both.b, "A.t", 3))
            assert topics_of(both.b)["A.t"] == max(3, there)
            assert count_of(both.b, "A.t", max(3, there)) == 90, "a record went to a partition of its own"


async def test_a_record_too_large_for_the_target_is_told_and_copied_when_it_is_allowed() -> None:
    """Each life of the task comes to the large record. Records behind it, which were sent with it, may
    have been written by a life before, and come twice (Kafka's producer sends five batches ahead).
    """
    with clusters(ONE_WAY, target={"message.max.bytes": "20000"}) as both:
        make_topics(both.a, {"t": 1, "other": 1})
        produce(both.a, "t", 20)
        large = ck.Producer({"bootstrap.servers": both.a, **QUIET})
        large.produce("t", b"x" * 50_000)
        assert large.flush(REACHED_S) == 0
        produce(both.a, "t", 20, first=20)
        async with both.mirrored({"tasks.max": "1"}) as maker:
            await until_it_says("the reason is told", lambda: tells(maker, "MESSAGE_TOO_LARGE", "A.t-0"))
            await asyncio.to_thread(set_topic_config, both.a, "t", "max.message.bytes", "1000000")
            wanted = rows(await asyncio.to_thread(read, both.a, "t"))[0]
            await until("each record is there", lambda: set(rows(read(both.b, "A.t"))[0]) == set(wanted))
            await until_it_says("no reason is left", lambda: not maker.reasons())


async def test_a_topic_that_may_not_be_read_is_told_and_copied_when_it_may(caplog: pytest.LogCaptureFixture) -> None:
    with clusters(ONE_WAY, source=OPEN) as both, caplog.at_level(logging.WARNING):
        make_topics(both.a, {"open": 1, "closed": 1})
        produce(both.a, "open", 50)
        produce(both.a, "closed", 50)
        set_rules(both.a, denied(ResourceType.TOPIC, "closed", AclOperation.READ))
        async with both.mirrored() as maker:
            await until_copied(both.a, "open", both.b, "A.open")
            await until_it_says("the reason is told", lambda: tells(maker, "closed") or "TOPIC_AUTHORIZATION_FAILED" in caplog.text)
            assert count_of(both.b, "A.closed", 1) == 0
            await asyncio.to_thread(drop_rules, both.a)
            await until_copied(both.a, "closed", both.b, "A.closed")
            await until_it_says("no reason is left", lambda: not maker.reasons())


def topic_rules(servers: str) -> set[tuple[str, str, str, str]]:
    client = admin(servers)
    every = AclBindingFilter(ResourceType.TOPIC, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)
    found = client.describe_acls(every).result(REACHED_S)
    return {(one.name, one.principal, one.operation.name, one.permission_type.name) for one in found}


RULES = [
    AclBinding(ResourceType.TOPIC, "t", ResourcePatternType.LITERAL, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
    for user, operation in (
        ("reader", AclOperation.READ),
        ("writer", AclOperation.WRITE),
        ("both", AclOperation.ALL),
        ("ANONYMOUS", AclOperation.ALL),
    )
]


async def test_access_rules_follow_without_the_right_to_write() -> None:
    with clusters(ONE_WAY, source=OPEN, target=OPEN) as both:
        make_topics(both.a, {"t": 1})
        set_rules(both.a, RULES)
        expected = {("A.t", f"User:{user}", "READ", "ALLOW") for user in ("reader", "both", "ANONYMOUS")}
        async with both.mirrored():
            await until("the rules are there", lambda: topic_rules(both.b) == expected)


async def test_a_target_that_refuses_access_rules_gets_the_records(caplog: pytest.LogCaptureFixture) -> None:
    with clusters(ONE_WAY, source=OPEN, target=OPEN) as both, caplog.at_level(logging.WARNING):
        make_topics(both.a, {"t": 1})
        produce(both.a, "t", 50)
        set_rules(both.b, denied(ResourceType.BROKER, "kafka-cluster", AclOperation.ALTER))
        set_rules(both.a, RULES)
        async with both.mirrored():
            await until("the refusal is told", lambda: "CLUSTER_AUTHORIZATION_FAILED" in caplog.text)
            await until_copied(both.a, "t", both.b, "A.t")


async def test_one_topic_whose_configs_cannot_be_had_keeps_no_other_from_its_own(caplog: pytest.LogCaptureFixture) -> None:
    with clusters(ONE_WAY, source=OPEN) as both, caplog.at_level(logging.WARNING):
        make_topics(both.a, {"closed": 1, "open": 1, "zone": 1}, {"retention.ms": "86400000"})
        set_rules(both.a, denied(ResourceType.TOPIC, "closed", AclOperation.DESCRIBE_CONFIGS))
        produce(both.a, "zone", 20)
        async with both.mirrored():
            await until("others are made", lambda: {"A.open", "A.zone"} <= topics_of(both.b).keys())
            await asyncio.to_thread(set_topic_config, both.a, "zone", "retention.ms", "123456")
            await until("the changed config", lambda: config_of(both.b, "A.zone", "retention.ms") == "123456")
            await until_copied(both.a, "zone", both.b, "A.zone")
            assert "Could not describe configuration of topic closed" in caplog.text
            assert "A.closed" not in topics_of(both.b), "made without its configs"
            await asyncio.to_thread(drop_rules, both.a)
            await until("the topic comes", lambda: "A.closed" in topics_of(both.b))
            assert config_of(both.b, "A.closed", "retention.ms") == "86400000"


async def test_one_group_whose_offsets_are_refused_keeps_no_other_from_its_own(caplog: pytest.LogCaptureFixture) -> None:
    with clusters(ONE_WAY, source=OPEN) as both, caplog.at_level(logging.WARNING):
        make_topics(both.a, {"t": 1})
        produce(both.a, "t", 100)
        for group in ("bar", "desk", "shop"):
            commit(both.a, group, {("t", 0): 100})
        set_rules(both.a, denied(ResourceType.GROUP, "desk", AclOperation.DESCRIBE))
        async with both.mirrored():
            for group in ("bar", "shop"):
                await until(f"{group} is translated", lambda group=group: committed(both.b, group, [("A.t", 0)]) == {("A.t", 0): 100})
            assert "Error querying offsets for consumer group desk" in caplog.text
            assert committed(both.b, "desk", [("A.t", 0)]) == {}
            await asyncio.to_thread(drop_rules, both.a)
            await until("desk is translated", lambda: committed(both.b, "desk", [("A.t", 0)]) == {("A.t", 0): 100})


async def test_one_group_that_the_target_refuses_keeps_no_other_from_its_offsets(caplog: pytest.LogCaptureFixture) -> None:
    with clusters(ONE_WAY, target=OPEN) as both, caplog.at_level(logging.WARNING):
        make_topics(both.a, {"t": 1})
        produce(both.a, "t", 100)
        for group in ("bar", "desk", "shop"):
            commit(both.a, group, {("t", 0): 100})
        set_rules(both.b, denied(ResourceType.GROUP, "desk", AclOperation.DESCRIBE))
        async with both.mirrored():
            for group in ("bar", "shop"):
                await until(f"{group} is synced", lambda group=group: committed(both.b, group, [("A.t", 0)]) == {("A.t", 0): 100})
            await until("it is told", lambda: "Error querying for consumer group desk on cluster B" in caplog.text)
            await asyncio.to_thread(drop_rules, both.b)
            await until("desk is synced", lambda: committed(both.b, "desk", [("A.t", 0)]) == {("A.t", 0): 100})


async def test_many_groups_may_take_longer_than_the_limit_of_one_request() -> None:
    with clusters({**ONE_WAY, "admin.timeout.ms": "100", "tasks.max": "1"}) as both:
        make_topics(both.a, {"t": 1})
        produce(both.a, "t", 100)
        host, _, port = both.a.rpartition(":")
        async with KmirrorAdmin(both.runtime, [(host, int(port))]) as client:
            for number in range(300):
                await client.alter_consumer_group_offsets(f"g-{number}", {TopicPartition("t", 0): OffsetAndMetadata(100)})
        async with both.mirrored():
            every = [("A.t", 0)]
            await until("the last is synced", lambda: all(committed(both.b, f"g-{number}", every) for number in range(0, 300, 50)))


async def test_a_topic_that_was_made_although_the_answer_was_lost_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    create, lost = KmirrorAdmin.create_topics, []

    async def answer_lost(client: KmirrorAdmin, topics: list[NewTopic], *more: Any, **named: Any) -> object:
        outcome = await create(client, topics, *more, **named)
        if not lost and any(topic.name == "A.new" for topic in topics):
            lost.append("A.new")
            raise ApiException(Errors.REQUEST_TIMED_OUT)
        return outcome

    monkeypatch.setattr(KmirrorAdmin, "create_topics", answer_lost)
    with clusters(ONE_WAY) as both:
        make_topics(both.a, {"t": 1})
        produce(both.a, "t", 20)
        async with both.mirrored() as maker:
            await until_copied(both.a, "t", both.b, "A.t")
            make_topics(both.a, {"new": 1})
            produce(both.a, "new", 20)
            assert is_dense(await until_copied(both.a, "new", both.b, "A.new"))
            assert lost
            await until("all runs", lambda: not maker.reasons())


async def test_offset_syncs_at_the_target() -> None:
    with clusters({**ONE_WAY, "offset-syncs.topic.location": "target"}) as both:
        make_topics(both.a, {"t": 1})
        produce(both.a, "t", 100)
        commit(both.a, "shop", {("t", 0): 100})
        async with both.mirrored():
            await until("translated", lambda: committed(both.b, "shop", [("A.t", 0)]) == {("A.t", 0): 100})
            assert "mm2-offset-syncs.A.internal" in topics_of(both.b)
            assert not [name for name in topics_of(both.a) if name.startswith("mm2-offset-syncs")]


async def test_a_remote_topic_that_is_deleted_is_made_again_and_goes_on() -> None:
    with clusters(ONE_WAY) as both:
        make_topics(both.a, {"t": 1})
        produce(both.a, "t", 100)
        async with both.mirrored() as maker:
            await until_copied(both.a, "t", both.b, "A.t")
            client = admin(both.b)
            client.delete_topics(["A.t"])["A.t"].result(REACHED_S)
            await until("made again", lambda: "A.t" in topics_of(both.b))
            produce(both.a, "t", 60, first=100)
            await until("went on", lambda: _newest(both, "A.t") == _newest(both, "t", source=True))
            await until_it_says("no reason is left", lambda: not maker.reasons())


async def test_groups_follow_into_a_remote_topic_that_was_made_anew() -> None:
    """An offset of the old topic would let a group that moves skip records of the new one."""
    with clusters(ONE_WAY) as both:
        make_topics(both.a, {"t": 1})
        produce(both.a, "t", 100)
        for group in ("shop", "bar"):
            commit(both.a, group, {("t", 0): 100})
        async with both.mirrored():
            for group in ("shop", "bar"):
                await until(f"{group} is synced", lambda group=group: committed(both.b, group, [("A.t", 0)]) == {("A.t", 0): 100})
            client = admin(both.b)
            client.delete_topics(["A.t"])["A.t"].result(REACHED_S)
            await until("made again", lambda: "A.t" in topics_of(both.b))
            produce(both.a, "t", 60, first=100)
            commit(both.a, "shop", {("t", 0): 130})
            await until("went on", lambda: count_of(both.b, "A.t", 1) == 60)
            await until("shop follows", lambda: 0 < committed(both.b, "shop", [("A.t", 0)]).get(("A.t", 0), 100) <= 30)
            await until("bar follows", lambda: committed(both.b, "bar", [("A.t", 0)]) == {("A.t", 0): 0})


async def test_an_old_offset_that_is_written_while_the_remote_topic_is_made_anew_is_replaced(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator has dropped the group's offset with the topic, so the old one is written again; on
    its way there it is overtaken by the news that the log went back.
    """
    alter, held, holds = KmirrorAdmin.alter_consumer_group_offsets, [], asyncio.Event()

    async def alter_late(client: KmirrorAdmin, group: str, offsets: dict[Any, Any], **settings: Any) -> Any:
        if holds.is_set() and not held:
            held.extend(one.offset for one in offsets.values())
            await until_it_says("the log went back", lambda: "does not count any more" in caplog.text)
        return await alter(client, group, offsets, **settings)

    monkeypatch.setattr(KmirrorAdmin, "alter_consumer_group_offsets", alter_late)
    with clusters(ONE_WAY) as both:
        make_topics(both.a, {"t": 1})
        produce(both.a, "t", 100)
        commit(both.a, "shop", {("t", 0): 100})
        async with both.mirrored():
            await until("shop is synced", lambda: committed(both.b, "shop", [("A.t", 0)]) == {("A.t", 0): 100})
            client = admin(both.b)
            holds.set()
            client.delete_topics(["A.t"])["A.t"].result(REACHED_S)
            await until_it_says("the old offset is on its way", lambda: held == [100])
            await until("made again", lambda: "A.t" in topics_of(both.b))
            produce(both.a, "t", 60, first=100)
            commit(both.a, "shop", {("t", 0): 130})
            await until("shop follows", lambda: 0 < committed(both.b, "shop", [("A.t", 0)]).get(("A.t", 0), 100) <= 30)


def _newest(both: Clusters, topic: str, *, source: bool = False) -> object:
    found = read(both.a if source else both.b, topic)[0]
    return found[-1][1] if found else None


async def test_a_source_topic_that_is_deleted_is_not_made_again_if_the_consumer_says_so() -> None:
    """A consumer asks for a topic that is gone with each refresh of its metadata, and the source's
    broker makes it again, as with Apache's program, unless the consumer does not want that.
    """
    with clusters({**ONE_WAY, "A.consumer.allow.auto.create.topics": "false"}) as both:
        make_topics(both.a, {"t": 1})
        produce(both.a, "t", 20)
        async with both.mirrored() as maker:
            await until_copied(both.a, "t", both.b, "A.t")
            client = admin(both.a)
            client.delete_topics(["t"])["t"].result(REACHED_S)
            make_topics(both.a, {"later": 1})
            produce(both.a, "later", 20)
            await until_copied(both.a, "later", both.b, "A.later")
            assert "t" not in topics_of(both.a)
            assert count_of(both.b, "A.t", 1) == 20, "its copy stays"
            await until_it_says("no reason is left", lambda: not maker.reasons())


async def test_a_source_that_goes_away_is_told(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task polled on, was heard of with each poll, and no word was said for as long as no connector
    happened to ask the source.
    """
    monkeypatch.setattr(source_watch, "TOLD_AFTER_MS", 1_000)
    monkeypatch.setattr(kept_running, "SILENT_MS", 2_000)
    rarely = dict.fromkeys(("refresh.topics", "refresh.groups", "sync.topic.configs", "sync.topic.acls", "emit.checkpoints"), "600")
    settings = {f"{name}.interval.seconds": seconds for name, seconds in rarely.items()}
    with clusters(ONE_WAY) as both, caplog.at_level(logging.INFO):
        make_topics(both.a, {"t": 1})
        produce(both.a, "t", 20)
        async with both.mirrored(settings) as maker:
            await until_copied(both.a, "t", both.b, "A.t")
            await asyncio.to_thread(both.source.stop_node)
            await until_it_says("the log says that A is away", lambda: "A has not answered for" in caplog.text)
            await until_it_says("the task's state is unknown", lambda: tells(maker, "MirrorSourceConnector-task-0", "UNKNOWN"))
            await asyncio.to_thread(both.source.start_node)
            produce(both.a, "t", 20, first=20)
            await until_copied(both.a, "t", both.b, "A.t")
            await until_it_says("A is back", lambda: "A answers again" in caplog.text)
            await until_it_says("the task is heard of", lambda: not tells(maker, "MirrorSourceConnector-task-0"))


async def test_partitions_that_may_not_be_added_hold_their_own_task_alone(caplog: pytest.LogCaptureFixture) -> None:
    with clusters(ONE_WAY, target=OPEN) as both, caplog.at_level(logging.WARNING):
        make_topics(both.a, {"fixed": 2, "free": 2})
        make_topics(both.b, {"A.fixed": 1})
        set_rules(both.b, denied(ResourceType.TOPIC, "A.fixed", AclOperation.ALTER))
        produce(both.a, "fixed", 40, partitions=2)
        produce(both.a, "free", 40, partitions=2)
        async with both.mirrored({"tasks.max": "4"}) as maker:
            assert is_dense(await until_copied(both.a, "free", both.b, "A.free", 2))
            assert "Could not create topic-partitions for A.fixed" in caplog.text
            await asyncio.to_thread(drop_rules, both.b)
            assert is_dense(await until_copied(both.a, "fixed", both.b, "A.fixed", 2))
            await until_it_says("no reason is left", lambda: not maker.reasons())
