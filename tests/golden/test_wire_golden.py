"""Frames that Apache Kafka 4.3 and its clients exchanged: decoded and encoded again they are the
same bytes.

`12-wire` has requests and responses of eight kinds of clients, with what Kafka's own classes read
from each; `20-reference/wire-frames.jsonl.gz` has those of the KIP's reference implementation
(mirror APIs, Fetch v19, CreateTopics v8).
"""

from __future__ import annotations

import base64
import gzip
import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
from support.logs.golden_vectors import COMMITTED, golden_dir, read_recording, recordings

from kmirror.common.ports import Buffer, FileSlice
from kmirror.common.uuid import Uuid
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.framing import RequestHeader, encode_request, encode_response, read_request, read_request_header, read_response

CAPTURES = [name for name in recordings(golden_dir() / "12-wire", ".jsonl") if not name.endswith(".decoded.jsonl")]
REFERENCE = sorted((golden_dir() / "20-reference").glob("wire-frames.jsonl.gz"))


def unframed(parts: list[Buffer | FileSlice]) -> bytes:
    """A frame without its length, which must be right."""
    frame = b"".join(part for part in parts if isinstance(part, (bytes, bytearray, memoryview)))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return frame[4:]


def read_whole_request(data: bytes) -> tuple[RequestHeader, Any]:
    header, position = read_request_header(memoryview(data))
    return header, read_request(header, memoryview(data), position)


def captured(name: str) -> Iterator[tuple[bytes, bytes | None]]:
    for line in read_recording(golden_dir() / "12-wire", name).splitlines():
        pair = json.loads(line)
        yield base64.b64decode(pair["request"]), None if pair["response"] is None else base64.b64decode(pair["response"])


def reference_frames(path: pathlib.Path) -> Iterator[tuple[bytes, bytes | None]]:
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        pair = json.loads(line)
        yield bytes.fromhex(pair["req"])[4:], bytes.fromhex(pair["resp"])[4:] if pair.get("resp") else None


def assert_same_bytes(request: bytes, response: bytes | None) -> tuple[int, int]:
    """Trailing bytes that Kafka ignores are ignored: those of requests, whose number is returned
    with the API key.
    """
    header, message = read_whole_request(request)
    encoded = unframed(encode_request(header, message))
    assert request.startswith(encoded), (header, message)
    if response is not None:
        correlation_id, answer = read_response(header.api_key, header.api_version, memoryview(response))
        assert correlation_id == header.correlation_id
        assert unframed(encode_response(header.api_key, header.api_version, correlation_id, answer)) == response, (header, answer)
    return header.api_key, len(request) - len(encoded)


@pytest.mark.parametrize("name", CAPTURES)
def test_captured_frames_encode_to_the_same_bytes(name: str) -> None:
    trailing = [assert_same_bytes(request, response) for request, response in captured(name)]
    assert trailing
    with_garbage = {pair for pair in trailing if pair[1]}
    assert not with_garbage or name.startswith("librdkafka")
    if COMMITTED:
        assert with_garbage <= {(ApiKeys.METADATA, 3), (ApiKeys.ALTER_USER_SCRAM_CREDENTIALS, 1)}


@pytest.mark.parametrize("path", REFERENCE)
def test_reference_frames_encode_to_the_same_bytes(path: pathlib.Path) -> None:
    seen = set()
    for request, response in reference_frames(path):
        assert assert_same_bytes(request, response)[1] == 0
        seen.add((int.from_bytes(request[:2], "big"), int.from_bytes(request[2:4], "big")))
    assert seen
    if COMMITTED:
        assert {(1, 19), (19, 8), (10, 7)} <= seen
        assert {94, 95, 96, 99, 100, 101, 102, 103, 104, 105} <= {api_key for api_key, _ in seen}


@pytest.mark.parametrize("path", REFERENCE)
def test_reference_sends_mirror_leader_epochs_and_a_mirror_info_with_the_zero_id(path: pathlib.Path) -> None:
    epochs, infos = set(), set()
    for request, _ in reference_frames(path):
        header, message = read_whole_request(request)
        if (header.api_key, header.api_version) == (1, 19):
            epochs |= {partition.mirror_leader_epoch for topic in message.topics for partition in topic.partitions}
        if (header.api_key, header.api_version) == (19, 8):
            infos |= {None if topic.mirror_info is None else topic.mirror_info.topic_id == Uuid.ZERO for topic in message.topics}
    assert None not in infos
    if COMMITTED:
        assert (epochs, infos) == ({-1, 0}, {True, False})


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def attribute(message: Any, name: str) -> Any:
    """A field by Kafka's JSON name; of record data Kafka shows the size only."""
    return len(message.records or b"") if name == "recordsSizeInBytes" else getattr(message, snake_case(name))


def assert_holds(ours: Any, kafkas: Any, where: str) -> int:
    """Everything Kafka's JSON says is in our message; the number of values compared."""
    if isinstance(kafkas, dict):
        return sum(assert_holds(attribute(ours, name), value, f"{where}.{name}") for name, value in kafkas.items())
    if isinstance(kafkas, list):
        assert len(ours) == len(kafkas), where
        return sum(assert_holds(mine, value, f"{where}[{index}]") for index, (mine, value) in enumerate(zip(ours, kafkas, strict=True)))
    if isinstance(ours, Uuid):
        ours = str(ours)
    elif isinstance(ours, memoryview):
        return 0  # the recording leaves record data out
    elif isinstance(ours, bytes):
        ours = base64.b64encode(ours).decode()
    assert ours == kafkas, where
    return 1


@pytest.mark.parametrize("name", CAPTURES)
def test_kafkas_own_classes_read_the_same_values(name: str) -> None:
    decoded = read_recording(golden_dir() / "12-wire", name.replace(".jsonl", ".decoded.jsonl"), missing=b"").splitlines()
    if not decoded:
        pytest.skip("what Kafka's classes read was not recorded")
    compared = 0
    for (request, response), line in zip(captured(name), decoded, strict=True):
        kafkas = json.loads(line)
        header, message = read_whole_request(request)
        assert (header.api_key, header.api_version) == (kafkas["header"]["requestApiKey"], kafkas["version"])
        assert header.client_id == kafkas["header"].get("clientId")
        compared += assert_holds(message, kafkas["request"], f"{kafkas['api']} v{kafkas['version']} request")
        if response is not None:
            _, answer = read_response(header.api_key, header.api_version, memoryview(response))
            compared += assert_holds(answer, kafkas["response"], f"{kafkas['api']} v{kafkas['version']} response")
    assert compared > (100 if COMMITTED else 0)
