"""TxnOffsetCommit of members: who may commit in a transaction, in classic groups, with static
members, and in groups of the consumer protocol.
"""

from __future__ import annotations

from typing import Any

import pytest
from harness import Pair, Side
from steps import create_topic
from test_differential_consumer_groups import join as join_consumer
from test_differential_groups import await_coordinators, await_transaction_coordinators, join, keep_member
from test_differential_transactions import Producer

from kmirror.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kmirror.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kmirror.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kmirror.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

pytestmark = pytest.mark.interop
TOPIC = "transactional-offsets"
_made: list[str] = []


@pytest.fixture(autouse=True)
def topics(pair: Pair) -> None:
    if not _made:
        create_topic(pair, TOPIC)
        for side in pair.sides:
            await_coordinators(side)
            await_transaction_coordinators(side)
        _made.append(TOPIC)


def producers_of(pair: Pair, name: str) -> dict[str, Producer]:
    producers = {side.name: Producer(side, name) for side in pair.sides}
    for producer in producers.values():
        producer.init()
    return producers


def commit(producer: Producer, group: str, generation: int, member: str, instance: str | None = None) -> Any:
    return TxnOffsetCommitRequest(
        transactional_id=producer.name,
        group_id=group,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        generation_id=generation,
        member_id=member,
        group_instance_id=instance,
        topics=[TxnOffsetCommitRequestTopic(TOPIC, [TxnOffsetCommitRequestPartition(0, 5)])],
    )


def ask_all(
    pair: Pair, group: str, when: str, members: list[str], instances: tuple[str | None, ...], generations: range, version: int
) -> None:
    name = f"{group} {when} {version}"
    producers = producers_of(pair, name)
    for number, (member, instance, generation) in enumerate(
        (member, instance, generation) for member in members for instance in instances for generation in generations
    ):
        if version < 5 and number == 0:
            pair.same(lambda side: AddOffsetsToTxnRequest(name, producers[side.name].id, producers[side.name].epoch, group), 4)
        pair.same(
            lambda side, m=member, i=instance, g=generation: commit(producers[side.name], group, g, side.kept.get(m, m), i),
            version,
            note=repr((when, member, instance, generation)),
        )


@pytest.mark.parametrize("version", [3, 5])
def test_members_of_a_classic_group(pair: Pair, version: int) -> None:
    group, first = f"txn-classic-{version}", f"t-{version}"
    ask_all(pair, group, "no group", ["", "nobody"], (None, "i1"), range(-1, 2), version)
    keep_member(pair, pair.same(lambda side: join(side, group), 9, note="asks for an id"), first)
    ask_all(pair, group, "pending", ["", "nobody", first], (None, "i1"), range(-1, 2), version)
    keep_member(pair, pair.same(lambda side: join(side, group, member=first), 9, note="joins"), first)
    ask_all(pair, group, "completing", ["", "nobody", first], (None, "i1"), range(-1, 3), version)

    def sync(side: Side) -> SyncGroupRequest:
        mine = SyncGroupRequestAssignment(side.kept[first], b"plan")
        return SyncGroupRequest(group, 1, side.kept[first], None, "consumer", "range", [mine])

    pair.same(sync, 5)
    ask_all(pair, group, "stable", ["", "nobody", first], (None, "i1"), range(-1, 3), version)
    pair.same(lambda side: LeaveGroupRequest(group, members=[MemberIdentity(side.kept[first], None)]), 5)
    ask_all(pair, group, "empty", ["", "nobody", first], (None, "i1"), range(-1, 3), version)


@pytest.mark.parametrize("version", [3, 5])
def test_a_static_member_that_was_replaced(pair: Pair, version: int) -> None:
    group, old, new = f"txn-static-{version}", f"old-{version}", f"new-{version}"
    keep_member(pair, pair.same(lambda side: join(side, group, instance="i1"), 5, note="first"), old)

    def sync(side: Side, who: str) -> SyncGroupRequest:
        mine = SyncGroupRequestAssignment(side.kept[who], b"plan")
        return SyncGroupRequest(group, 1, side.kept[who], "i1", "consumer", "range", [mine])

    pair.same(lambda side: sync(side, old), 5)
    keep_member(pair, pair.same(lambda side: join(side, group, instance="i1"), 9, note="replaces"), new)
    ask_all(pair, group, "replaced", ["", old, new], (None, "i1", "i2"), range(-1, 3), version)


@pytest.mark.parametrize("version", [3, 5])
def test_members_of_the_consumer_protocol(pair: Pair, version: int) -> None:
    group, member = f"txn-consumer-{version}", "AAAAAAAAAAAAAAAAAAAAAQ"
    pair.same(join_consumer(group, member, [TOPIC]), 1, note="joins")
    ask_all(pair, group, "joined", ["", "nobody", member], (None, "i1"), range(-2, 4), version)
