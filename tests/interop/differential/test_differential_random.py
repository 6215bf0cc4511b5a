"""Random requests of every API that both serve, the same to Apache Kafka 4.3 and to kmirror.

`random_requests` makes them from a seed. A broker that has just changed something publishes it a
moment later, each in its own time. So an answer that differs is asked for again if the request does
nothing the second time, and counts as a difference when it stays one; after a change both get a
moment's rest. KMIRROR_RANDOM_SEED and KMIRROR_RANDOM_REQUESTS play other runs.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from harness import CLOSED, Pair, Side, differences
from known_differences import is_known_random
from peer_pairs import COMMON, both
from random_requests import LEFT_OUT, SHARE_STATE, TOPICS, RandomRequests
from schema_interpreter import write
from steps import await_topic, create_topic, fill
from support.waiting import REACHED_S
from test_differential_groups import await_coordinators, await_transaction_coordinators

from kmirror.common.errors import Errors
from kmirror.common.uuid import Uuid
from kmirror.server.broker_api_table import ROWS, AnsweredBy
from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.messages.api_versions import ApiVersionsRequest
from kmirror.wire.messages.init_producer_id import InitProducerIdRequest
from kmirror.wire.messages.metadata import MetadataRequest

pytestmark = pytest.mark.interop

REQUESTS = int(os.environ.get("KMIRROR_RANDOM_REQUESTS", "10000"))
SEED = int(os.environ.get("KMIRROR_RANDOM_SEED", "35"))
PARTS = 5
PARTS_IN_CI = 2
"""CI plays the first parts, `make rounds` the others."""
TOPIC_CHANGES = (ApiKeys.CREATE_TOPICS, ApiKeys.DELETE_TOPICS, ApiKeys.CREATE_PARTITIONS)
READS = {
    row.api_key for row in ROWS if row.api_key.name.startswith(("DESCRIBE_", "LIST_", "READ_")) or row.api_key.name.endswith("_DESCRIBE")
} | {ApiKeys.FETCH, ApiKeys.METADATA, ApiKeys.OFFSET_FETCH, ApiKeys.OFFSET_FOR_LEADER_EPOCH, ApiKeys.FIND_COORDINATOR}
SAFE_TO_REPEAT = READS | {ApiKeys.DELETE_RECORDS}
"""A broker may still say UNKNOWN_TOPIC_OR_PARTITION when a topic has its leader. Records that are
deleted up to an offset stay so.
"""
ON_THEIR_WAY = (Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.LEADER_NOT_AVAILABLE)
REST_S = 0.03
TRIES = 60
INDEX = re.compile(r"\[\d+\]")
ORDERED: set[str] = set()
"""Paths of lists that are compared in order."""
NOBODYS_ID = Uuid(bytes(range(1, 17)))
SECURED = COMMON | {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with both(tmp_path_factory.mktemp("random"), SECURED) as pair:
        for name in TOPICS:
            create_topic(pair, name, partitions=int(name[1:]))
        pair.each(await_coordinators)
        pair.each(await_transaction_coordinators)
        pair.each(await_producer_ids)
        for name in TOPICS:
            for partition in range(int(name[1:])):
                fill(pair, name, 2, partition=partition)
        yield pair


def await_producer_ids(side: Side) -> None:
    """The first block of producer ids is on its way when the first is asked for."""
    deadline = time.monotonic() + REACHED_S
    while side.ask(InitProducerIdRequest(None, transaction_timeout_ms=60000), 4).error_code:
        assert time.monotonic() < deadline, f"{side.name}: no producer ids"
        time.sleep(REST_S)


def served_by_both(pair: Pair) -> list[tuple[ApiKeys, int, int]]:
    """Each API with the versions that both announce, without those that are left out."""
    announced = []
    for side in pair.sides:
        answer = side.ask(ApiVersionsRequest("differential", "1"), 3)
        announced.append({key.api_key: (key.min_version, key.max_version) for key in answer.api_keys})
    theirs, ours = announced
    refused = {row.api_key for row in ROWS if row.answered_by is AnsweredBy.REFUSED}
    return [
        (api, max(theirs[api][0], ours[api][0], API_TABLE[api].lowest), min(theirs[api][1], ours[api][1]))
        for api in ApiKeys
        if api in theirs and api in ours and api not in LEFT_OUT and api not in SHARE_STATE and api not in refused
    ]


def on_side(side: Side, value: Any) -> Any:
    """The request as this side takes it: `<topic>` becomes the id that it gave the topic."""
    if isinstance(value, dict):
        return {name: on_side(side, content) for name, content in value.items()}
    if isinstance(value, list):
        return [on_side(side, entry) for entry in value]
    if isinstance(value, str) and value.startswith("<") and value.endswith(">"):
        return side.topic_ids.get(value[1:-1], NOBODYS_ID).raw
    return value


def ask(pair: Pair, requests: RandomRequests, api: ApiKeys, version: int, value: Any) -> list[Any]:
    answers = []
    for side in pair.sides:
        data = write(requests.schema(api), on_side(side, value), version)
        message = API_TABLE[api].request.read(memoryview(data), 0, version)[0]
        answer = side.ask(message, version)
        for name in made_by(api, value, answer):
            await_topic(side, name)
        answers.append(as_multisets(without_choices(api, pair.plain(side, answer)), api.name))
    return answers


def made_by(api: ApiKeys, value: Any, answer: Any) -> list[str]:
    """The topics that a request makes or lets grow; one for metadata makes those that it allows."""
    if answer == CLOSED or value.get("ValidateOnly"):
        return []
    if api is ApiKeys.METADATA and value.get("AllowAutoTopicCreation", True):
        return [topic.name for topic in answer.topics if topic.name and topic.error_code in ON_THEIR_WAY]
    if api in (ApiKeys.CREATE_TOPICS, ApiKeys.CREATE_PARTITIONS):
        made = answer.topics if api is ApiKeys.CREATE_TOPICS else answer.results
        return [topic.name for topic in made if not topic.error_code]
    return []


def await_equal_metadata(pair: Pair) -> None:
    """Each broker learns of a change of topics in its own time."""
    deadline = time.monotonic() + REACHED_S
    while time.monotonic() < deadline:
        seen = [pair.plain(side, side.ask(MetadataRequest(None, False), 12)) for side in pair.sides]
        if sorted(map(repr, seen[0]["topics"])) == sorted(map(repr, seen[1]["topics"])):
            return
        time.sleep(REST_S)


def as_multisets(value: Any, path: str) -> Any:
    """Sorts every list of structs, because Kafka fills most of them from hash maps.

    The order is kept where Kafka's does not depend on a hash (`ORDERED`).
    """
    if isinstance(value, dict):
        return {name: as_multisets(content, f"{path}.{name}") for name, content in value.items()}
    if not isinstance(value, list):
        return value
    entries = [as_multisets(entry, path) for entry in value]
    return entries if path in ORDERED else sorted(entries, key=repr)


def without_choices(api: ApiKeys, answer: Any) -> Any:
    """Drops what each broker chooses or words for itself: producer ids, documentation of configs."""
    if not isinstance(answer, dict):
        return answer
    if api is ApiKeys.INIT_PRODUCER_ID and answer["producer_id"] >= 0:
        answer["producer_id"] = "<producer id>"
    if api is ApiKeys.DESCRIBE_TRANSACTIONS:
        for state in answer["transaction_states"]:
            state["transaction_start_time_ms"] = state["transaction_start_time_ms"] >= 0
    if api is ApiKeys.DESCRIBE_CONFIGS:
        for result in answer["results"]:
            for config in result["configs"]:
                config["documentation"] = config["documentation"] is not None
    return answer


@pytest.mark.parametrize("part", [pytest.param(part, marks=pytest.mark.round if part >= PARTS_IN_CI else ()) for part in range(PARTS)])
def test_random_requests_have_the_same_answers(secured: Pair, part: int) -> None:
    """Each part has a seed of its own, and goes on with what the ones before it left."""
    apis = served_by_both(secured)
    seed = SEED + part
    requests = RandomRequests(seed, apis)
    found: dict[str, tuple[int, str]] = {}
    asked = {api: 0 for api, _, _ in apis}
    for number in range(REQUESTS // PARTS):
        api, version, value = requests.next()
        asked[api] += 1
        for _ in range(TRIES if api in SAFE_TO_REPEAT else 1):
            answers = ask(secured, requests, api, version, value)
            lines = differences(*answers)
            if not lines:
                break
            time.sleep(REST_S)
        if api in TOPIC_CHANGES:
            await_equal_metadata(secured)
        elif api not in READS and "'error_code': 0" in repr(answers[0]):
            time.sleep(REST_S)
        for line in lines:
            text = f"{api.name}{INDEX.sub('[]', line)}"
            if not is_known_random(text):
                found.setdefault(text, (number, f"v{version} {value}"))
    assert min(asked.values()) > 0, f"never asked: {[api.name for api, count in asked.items() if not count]}"
    told = [f"request {number}: {text}\n    {value}" for text, (number, value) in found.items()]
    assert not told, f"seed {seed}, {REQUESTS // PARTS} requests of {len(apis)} APIs, {len(told)} differences:\n" + "\n".join(told)
