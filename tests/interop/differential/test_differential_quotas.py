"""Client quotas: AlterClientQuotas, DescribeClientQuotas, and what a client that breaks a quota is
told.
"""

from __future__ import annotations

import time

import pytest
from harness import Pair
from steps import await_published, create_topic, produce, records

from kmirror.record.builder import build_batch
from kmirror.wire.messages import alter_client_quotas as acq
from kmirror.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kmirror.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kmirror.wire.messages.delete_topics import DeleteTopicsRequest
from kmirror.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from kmirror.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

pytestmark = pytest.mark.interop

EXACT, DEFAULT, ANY = range(3)
Entity = dict[str, str | None]


def alter(*entries: tuple[Entity, dict[str, float | None]], validate_only: bool = False) -> acq.AlterClientQuotasRequest:
    return acq.AlterClientQuotasRequest(
        [
            acq.AlterClientQuotasRequestEntryData(
                [acq.AlterClientQuotasRequestEntityData(kind, name) for kind, name in entity.items()],
                [acq.OpData(key, value or 0.0, value is None) for key, value in values.items()],
            )
            for entity, values in entries
        ],
        validate_only,
    )


def describe(*components: tuple[str, int, str | None], strict: bool = False) -> DescribeClientQuotasRequest:
    return DescribeClientQuotasRequest([ComponentData(*component) for component in components], strict)


def sort_entries(answer: dict) -> None:
    """Kafka keeps entities, their parts and their quotas in hash maps."""
    for entry in answer["entries"] or []:
        entry["entity"].sort(key=lambda part: part["entity_type"])
        entry.get("values", []).sort(key=lambda value: value["key"])
    (answer["entries"] or []).sort(key=repr)


def to_the_second(answer: dict) -> None:
    """Times that shrink while a request is on its way."""
    answer["throttle_time_ms"] = round(answer["throttle_time_ms"], -3)


REFUSED: list[tuple[Entity, dict[str, float | None]]] = [
    ({}, {"producer_byte_rate": 1.0}),
    ({"group": "g"}, {"producer_byte_rate": 1.0}),
    ({"user": ""}, {"producer_byte_rate": 1.0}),
    ({"ip": "1.2.3.4", "user": "u"}, {"connection_creation_rate": 1.0}),
    ({"ip": "no such host.invalid"}, {"connection_creation_rate": 1.0}),
    ({"ip": None}, {"producer_byte_rate": 1.0}),
    ({"user": "u"}, {"connection_creation_rate": 1.0}),
    ({"user": "u"}, {"nonsense": 1.0}),
    ({"user": "u"}, {"nonsense": None}),
    ({"user": "u"}, {"producer_byte_rate": -1.0}),
    ({"user": "u"}, {"request_percentage": 0.0}),
    ({"user": "u"}, {"producer_byte_rate": 1.5}),
    ({"user": "u"}, {"producer_byte_rate": 1e30}),
    ({"ip": "1.2.3.4"}, {"connection_creation_rate": 1e10}),
]


def test_what_is_refused_and_how(pair: Pair) -> None:
    for number, case in enumerate(REFUSED):
        pair.every_version(alter(case), note=f"case {number}", edit=sort_entries)
    twice: Entity = {"user": "twice", "client-id": None}
    pair.every_version(
        alter((twice, {"producer_byte_rate": 1.0}), (twice, {"producer_byte_rate": 2.0}), validate_only=True), edit=sort_entries
    )
    pair.every_version(alter(), note="nothing")
    pair.every_version(describe(strict=True), note="nothing was set", edit=sort_entries)


def test_set_describe_and_remove(pair: Pair) -> None:
    entities: list[Entity] = [
        {"user": "a"}, {"user": None}, {"client-id": "c"}, {"client-id": None}, {"user": "a", "client-id": "c"}, {"user": "a", "client-id": None},
        {"user": None, "client-id": "c"}, {"user": None, "client-id": None}, {"ip": "10.0.0.1"}, {"ip": None},
    ]  # fmt: skip
    values = [{"connection_creation_rate": 500.0 + n} if "ip" in entity else {"producer_byte_rate": 1e9 + n, "request_percentage": 900.5}
              for n, entity in enumerate(entities)]  # fmt: skip
    pair.every_version(alter(*zip(entities, values, strict=True)), edit=sort_entries)
    for side in pair.sides:
        while len(side.ask(describe(), 1).entries) < len(entities):
            time.sleep(0.05)
    filters = [
        (), (("user", EXACT, "a"),), (("user", DEFAULT, None),), (("user", ANY, None),), (("client-id", EXACT, "c"),),
        (("user", ANY, None), ("client-id", DEFAULT, None)), (("user", EXACT, "a"), ("client-id", ANY, None)), (("ip", ANY, None),),
        (("ip", EXACT, "10.0.0.1"),), (("ip", EXACT, "10.0.0.2"),),
        (("", EXACT, "a"),), (("group", EXACT, "a"),), (("user", EXACT, "a"), ("user", ANY, None)), (("user", 7, None),),
        (("user", EXACT, None),), (("user", DEFAULT, "a"),), (("user", ANY, "a"),), (("ip", ANY, None), ("user", ANY, None)),
    ]  # fmt: skip
    for components in filters:
        for strict in (False, True):
            pair.every_version(describe(*components, strict=strict), note=f"{components} {strict}", edit=sort_entries)
    removals: list[dict[str, float | None]] = [dict.fromkeys(value) for value in values]
    pair.every_version(alter(*zip(entities, removals, strict=True)), edit=sort_entries)
    for side in pair.sides:
        while side.ask(describe(), 1).entries:
            time.sleep(0.05)


def test_a_producer_above_its_quota_is_told_how_long_it_is_muted(pair: Pair) -> None:
    create_topic(pair, "quota-produce")
    data = build_batch(records(b"x" * 60_000))
    for version, client in ((9, "p9"), (12, "p12")):
        pair.same(alter(({"client-id": client}, {"producer_byte_rate": 1_000.0})), 1)
        await_published(pair)
        answers = pair.same(produce("quota-produce", data), version, client_id=client)
        assert all(answer.throttle_time_ms > 40_000 for answer in answers)
        pair.close()
        pair.same(alter(({"client-id": client}, {"producer_byte_rate": None})), 1)


def fetch(max_bytes: int = 1 << 20) -> FetchRequest:
    partition = FetchPartition(0, partition_max_bytes=1 << 20)
    return FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=max_bytes, topics=[FetchTopic(topic="quota-fetch", partitions=[partition])])


def test_a_consumer_above_its_quota_gets_no_data(pair: Pair) -> None:
    create_topic(pair, "quota-fetch")
    for side in pair.sides:
        side.ask(produce("quota-fetch", build_batch(records(b"x" * 60_000))), 9)
    pair.same(alter(({"client-id": "f"}, {"consumer_byte_rate": 1_000.0})), 1)
    await_published(pair)

    def roughly(answer: dict) -> None:
        answer["throttle_time_ms"] = round(answer["throttle_time_ms"], -2)

    answers = pair.same(fetch(), 12, client_id="f", edit=roughly)
    assert all(answer.throttle_time_ms > 40_000 and not answer.responses for answer in answers)
    pair.close()
    pair.same(alter(({"client-id": "f"}, {"consumer_byte_rate": None})), 1)
    await_published(pair)
    pair.same(fetch(), 12, client_id="f", note="quota removed")


def test_controller_mutations_above_the_quota(pair: Pair) -> None:
    pair.same(alter(({"client-id": "m"}, {"controller_mutation_rate": 1.0})), 1)
    await_published(pair)

    def create(name: str, partitions: int) -> CreateTopicsRequest:
        return CreateTopicsRequest([CreatableTopic(name, partitions, 1)], 30_000)

    def without_configs(answer: dict) -> None:
        answer["throttle_time_ms"] = round(answer["throttle_time_ms"], -3)
        for topic in answer["topics"]:
            topic["configs"] = topic["topic_id"] = None

    pair.same(create("mutated-1", 31), 6, client_id="m", note="a full bucket", edit=without_configs)
    pair.same(create("mutated-2", 1), 6, client_id="m", note="strict", edit=without_configs)
    pair.close()
    answers = pair.same(create("mutated-2", 1), 5, client_id="m", note="permissive", edit=without_configs)
    assert all(answer.topics[0].error_code == 0 and answer.throttle_time_ms > 15_000 for answer in answers)
    pair.close()
    more = CreatePartitionsRequest([CreatePartitionsTopic("mutated-2", 2, None)], 30_000, False)
    pair.same(more, 3, client_id="m", edit=to_the_second)
    pair.close()
    pair.same(DeleteTopicsRequest([], ["mutated-2"], 30_000), 5, client_id="m", edit=to_the_second)
    pair.close()
    pair.same(alter(({"client-id": "m"}, {"controller_mutation_rate": None})), 1)
