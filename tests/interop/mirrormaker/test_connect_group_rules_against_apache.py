"""The group protocol of Connect's workers against Apache's own classes: what members say of themselves
and are told, byte for byte, what the leader gives to whom, over thousands of random histories, how workers
sign their requests, and how they are configured for it.
"""

from __future__ import annotations

import asyncio
import random

import pytest
from support.mirrormaker.apaches_rules import Apache, Question, compare
from support.mirrormaker.connect_group_histories import GroupHistory

from kmirror.common.errors import ConfigError
from kmirror.mirrormaker.herder.connect_protocol import (
    Assignment,
    ConnectorTaskId,
    ConnectProtocol,
    WorkerState,
    deserialize_assignment,
    deserialize_metadata,
    serialize_assignment,
    serialize_metadata,
)
from kmirror.mirrormaker.herder.request_signatures import (
    DIGESTS,
    SIGNATURE_ALGORITHM_HEADER,
    SIGNATURE_HEADER,
    UnreadableSignatureError,
    request_signature,
    signature_headers,
)
from kmirror.mirrormaker.herder.worker_group_member import WorkerGroupConfig
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.wire.primitives import ProtocolReadError

pytestmark = pytest.mark.interop

NAMES = ["a", "b", "MirrorSourceConnector", "x-1", "\u00e9\u00df", "\U0001f600", *(f"connector-{number}" for number in range(26))]


def an_assignment(chance: random.Random) -> Assignment:
    def connectors() -> list[str]:
        return chance.sample(NAMES, chance.choice((0, 1, 2, 3, 11, 12, 13, 24, 25)))

    def tasks() -> list[ConnectorTaskId]:
        return list(dict.fromkeys(ConnectorTaskId(chance.choice(NAMES), chance.randint(0, 9)) for _ in range(chance.randint(0, 6))))

    error, offset, delay_ms = chance.choice((0, 1)), chance.choice((-1, 0, 2**40)), chance.choice((0, 1, 300_000, 2**31 - 1))
    return Assignment(
        "leader", chance.choice(("NOTUSED", "http://h:1/")), offset, connectors(), tasks(), error, connectors(), tasks(), delay_ms
    )


def told(one: Assignment | None) -> str:
    if one is None:
        return "null"
    lists = (one.connectors, one.tasks, one.revoked_connectors, one.revoked_tasks)
    shown = "".join(f"[{', '.join(map(str, units))}]" for units in lists)
    return f"{one.error} {one.leader} {one.leader_url} {one.offset} {shown} {one.delay_ms}"


def on_one_line(text: str) -> str:
    return text.replace("\n", " ").replace("\r", " ")


def read_metadata(version: int, data: bytes) -> str:
    try:
        state = deserialize_metadata(data)
    except ProtocolReadError:
        return "error"
    return on_one_line(f"{state.url} {state.offset} {told(state.assignment)} {serialize_metadata(state, version).hex()}")


def read_assignment(version: int, data: bytes) -> str:
    try:
        one = deserialize_assignment(data)
    except ProtocolReadError:
        return "error"
    return on_one_line(f"{told(one)} {serialize_assignment(one, version).hex()}")


def mutated(chance: random.Random, data: bytes) -> bytes:
    found = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        if found and chance.random() < 0.7:
            found[chance.randrange(len(found))] = chance.choice((0, 1, 2, 255, chance.randrange(256)))
    return bytes(found[: chance.randint(0, len(found))] if chance.random() < 0.5 else found)


def test_metadata_and_assignments_are_the_same_bytes_in_every_version(apaches_group: Apache) -> None:
    chance = random.Random(1)
    questions: list[Question] = []
    ours = []
    for _ in range(1_500):
        version = chance.choice((0, 1, 2))
        state = WorkerState("http://w:2/", chance.choice((-1, 0, 7)), an_assignment(chance) if chance.random() < 0.8 else None)
        data = serialize_metadata(state, version)
        questions.append(("metadata", version, data.hex()))
        ours.append(read_metadata(version, data))
        data = serialize_assignment(an_assignment(chance), version)
        questions.append(("assignment", version, data.hex()))
        ours.append(read_assignment(version, data))
    compare(questions, apaches_group(questions), ours)


def test_damaged_bytes_are_read_alike_or_refused_by_both(apaches_group: Apache) -> None:
    chance = random.Random(2)
    questions: list[Question] = []
    ours = []
    for _ in range(1_500):
        version = chance.choice((0, 1, 2))
        data = mutated(chance, serialize_metadata(WorkerState("u", 7, an_assignment(chance)), version))
        questions.append(("metadata", version, data.hex()))
        ours.append(read_metadata(version, data))
        data = mutated(chance, serialize_assignment(an_assignment(chance), version))
        questions.append(("assignment", version, data.hex()))
        ours.append(read_assignment(version, data))
    theirs = apaches_group(questions)
    # Bytes that are no UTF-8 are text with marks in Java; here they are refused.
    skipped = [answer == "error" and "\ufffd" in other for answer, other in zip(ours, theirs, strict=True)]
    rows = [row for row, skip in zip(zip(questions, theirs, ours, strict=True), skipped, strict=True) if not skip]
    refused = sum(answer == "error" for answer in ours)
    assert 300 < refused < 2_500
    compare([row[0] for row in rows], ["error" if row[1].startswith("error") else row[1] for row in rows], [row[2] for row in rows])


def test_a_worker_offers_the_same_protocols_in_the_same_order(apaches_group: Apache) -> None:
    questions = [("offered", protocol.name.lower()) for protocol in ConnectProtocol]
    state = WorkerState("u", 1)
    ours = [
        " ".join(f"{one.group_protocol}={serialize_metadata(state, one).hex()}" for one in protocol.offered) for protocol in ConnectProtocol
    ]
    compare(questions, apaches_group(questions), ours)


def test_a_leader_gives_and_takes_the_same_work_and_waits_as_long(apaches_group: Apache) -> None:
    questions: list[Question] = []
    ours = []
    for seed in range(3_000):
        history = GroupHistory(seed)
        questions.append(("assignor", history.max_delay_ms))
        ours.append("")
        for question, answer in history.rounds(12):
            questions.append(question)
            ours.append(answer)
    delays = {answer.split(" ", 1)[0] for answer in ours}
    assert {"0", "1", "40", "1600", "3000", "300000"} <= delays, "the histories wait for members, and back off"
    compare(questions, apaches_group(questions), ours)


WORKER = {"bootstrap.servers": "x:1", "group.id": "x"}
APACHES_DEFAULT = {"scheduled.rebalance.max.delay.ms": "300000"}
"""Ours is 0."""
SETTINGS: list[dict[str, str]] = [
    {},
    *({"connect.protocol": text} for text in ("eager", "EAGER", "Compatible", "sessioned", "default", "", "eager ")),
    *({"scheduled.rebalance.max.delay.ms": text} for text in ("0", "-1", "2147483647", "2147483648", "x")),
    *({"inter.worker.key.ttl.ms": text} for text in ("0", "-1", "3600000")),
    *({"inter.worker.key.generation.algorithm": name} for name in (*DIGESTS, "hmacsha256", "Hmac", "")),
    *({"inter.worker.key.size": text} for text in ("39", "40", "41", "256", "-1", "x")),
    *({"inter.worker.key.size": text, "inter.worker.key.generation.algorithm": "HmacSHA1"} for text in ("8", "39", "40", "256")),
    *({"inter.worker.key.size": text, "inter.worker.key.generation.algorithm": "HmacSHA3-256"} for text in ("39", "40")),
    {"inter.worker.signature.algorithm": "HmacSHA512"},
    {"inter.worker.signature.algorithm": "HmacSHA512", "inter.worker.verification.algorithms": "HmacSHA256,HmacSHA512"},
    {"inter.worker.signature.algorithm": "hmacsha256"},
    {"inter.worker.signature.algorithm": "none", "inter.worker.verification.algorithms": "none"},
    {"inter.worker.verification.algorithms": "HmacSHA1"},
    {"inter.worker.verification.algorithms": ""},
    {"inter.worker.verification.algorithms": "HmacSHA256, none"},
]


def configured(settings: dict[str, str]) -> str:
    async def read() -> str:
        config = WorkerGroupConfig({**WORKER, **APACHES_DEFAULT, **settings}, AsyncioRuntime())
        return f"{config.get_string('connect.protocol')} {config.max_delay_ms} {config.session.key_bytes} {config.session.key_algorithm}"

    try:
        return asyncio.run(read())
    except ConfigError as error:
        return f"error {error}"


def without_lists(text: str) -> str:
    """Java has more algorithms."""
    return text.partition("the algorithm is not supported")[0]


def test_workers_are_configured_alike_and_refuse_the_same(apaches_group: Apache) -> None:
    questions = [("config", *(word for pair in settings.items() for word in pair)) for settings in SETTINGS]
    ours = [without_lists(configured(settings)) for settings in SETTINGS]
    assert 10 < sum(answer.startswith("error") for answer in ours) < 30
    compare(questions, [without_lists(answer) for answer in apaches_group(questions)], ours)


def test_requests_are_signed_and_read_alike(apaches_group: Apache) -> None:
    chance = random.Random(3)
    questions: list[Question] = []
    ours = []
    for _ in range(600):
        algorithm, key, body = (
            chance.choice([*DIGESTS]),
            chance.randbytes(chance.randint(1, 70)),
            chance.randbytes(chance.choice((0, 3, 99))),
        )
        headers = signature_headers(algorithm, key, body)
        questions.append(("sign", algorithm, key.hex(), body.hex()))
        ours.append(headers[SIGNATURE_HEADER])
        name = chance.choice((algorithm, algorithm.upper(), algorithm, "HmacX", "", "-"))
        text = list(headers[SIGNATURE_HEADER])
        for _ in range(chance.choice((0, 0, 1, 2))):
            text[chance.randrange(len(text))] = chance.choice("=ab+/-*é=")
        encoded = chance.choice(("".join(text), "".join(text).rstrip("="), "".join(text)[: chance.randint(0, 9)], "-"))
        questions.append(("signature", name, encoded, body.hex(), key.hex()))
        sent = {SIGNATURE_ALGORITHM_HEADER.lower(): name, SIGNATURE_HEADER.lower(): encoded}
        try:
            found = request_signature(body, {header: value for header, value in sent.items() if value != "-"})
            ours.append("none" if found is None else f"{found.algorithm} {java_text(found.is_valid(key))}")
        except UnreadableSignatureError as error:
            ours.append(f"error {error}")
    assert {answer.split(" ")[-1] for answer in ours} >= {"true", "false", "none", "available", "unit", "bits"}
    compare(questions, apaches_group(questions), ours)


def java_text(value: bool) -> str:
    return str(value).lower()
