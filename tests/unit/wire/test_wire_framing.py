"""Frames, headers and the framing of stored records."""

from __future__ import annotations

import pytest

from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import Buffer, FileSlice
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.framing import RequestHeader, encode_request, encode_response, read_request, read_request_header, read_response
from kmirror.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kmirror.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kmirror.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kmirror.wire.messages.topic_record import TopicRecord
from kmirror.wire.primitives import ProtocolReadError, Writer, encode_unsigned_varint, read_unsigned_varint
from kmirror.wire.records import read_metadata_record, read_versioned, write_metadata_record


def joined(parts: list[Buffer | FileSlice]) -> bytes:
    return b"".join(part if isinstance(part, (bytes, bytearray, memoryview)) else part.to_bytes() for part in parts)


def test_a_request_has_its_length_its_header_and_itself() -> None:
    parts = encode_request(RequestHeader(ApiKeys.METADATA, 1, 7, "me"), MetadataRequest(topics=[MetadataRequestTopic(name="t")]))
    assert joined(parts).hex() == "00000013" + "0003" + "0001" + "00000007" + "00026d65" + "00000001" + "000174"


def test_a_flexible_header_has_tags_but_no_compact_client_id() -> None:
    parts = encode_request(RequestHeader(ApiKeys.METADATA, 9, 7, None, ((5, b"x"),)), MetadataRequest(topics=None))
    frame = memoryview(joined(parts))[4:]
    assert bytes(frame).startswith(bytes.fromhex("0003" + "0009" + "00000007" + "ffff" + "01050178"))
    header, position = read_request_header(frame)
    assert header == RequestHeader(ApiKeys.METADATA, 9, 7, None, ((5, b"x"),))
    assert read_request(header, frame, position) == MetadataRequest(topics=None)


def test_trailing_bytes_are_ignored() -> None:
    frame = joined(encode_request(RequestHeader(ApiKeys.METADATA, 1, 7, "me"), MetadataRequest(topics=None)))[4:] + b"\0\0\0"
    header, position = read_request_header(memoryview(frame))
    assert read_request(header, memoryview(frame), position) == MetadataRequest(topics=None)


@pytest.mark.parametrize(
    "frame", ["", "0003", "0003000100000007", "000300010000000700", "00030001000000070009" + "6d65", "0003000900000007ffff"]
)
def test_a_header_that_is_cut_short(frame: str) -> None:
    with pytest.raises(ProtocolReadError):
        read_request_header(memoryview(bytes.fromhex(frame)))


@pytest.mark.parametrize("api_key", [-1, 4, 7, 93, 97, 106, 0x4745])
def test_a_key_that_is_no_api(api_key: int) -> None:
    frame = api_key.to_bytes(2, "big", signed=True) + bytes(10)
    with pytest.raises(ProtocolReadError, match=f"unknown API key {api_key}"):
        read_request_header(memoryview(frame))


@pytest.mark.parametrize("version", [-1, 14, 32767])
def test_an_unknown_version_has_a_header_but_no_request(version: int) -> None:
    frame = memoryview(bytes.fromhex("0003") + version.to_bytes(2, "big", signed=True) + bytes.fromhex("00000007" + "0000" + "00"))
    header, position = read_request_header(frame)
    assert (header.api_version, header.correlation_id) == (version, 7)
    with pytest.raises(ApiException) as raised:
        read_request(header, frame, position)
    assert raised.value.error == Errors.UNSUPPORTED_VERSION


def test_api_versions_is_answered_with_the_oldest_header_and_falls_back_to_version_0() -> None:
    answer = ApiVersionsResponse(error_code=Errors.UNSUPPORTED_VERSION, api_keys=[ApiVersion(api_key=18, max_version=4)])
    frame = joined(encode_response(ApiKeys.API_VERSIONS, 0, 9, answer))
    assert frame.hex() == "00000010" + "00000009" + "0023" + "00000001" + "001200000004"
    assert read_response(ApiKeys.API_VERSIONS, 4, memoryview(frame)[4:]) == (9, answer)
    modern = joined(encode_response(ApiKeys.API_VERSIONS, 4, 9, ApiVersionsResponse()))
    assert modern.hex() == "0000000c" + "00000009" + "0000" + "01" + "00000000" + "00"


def test_client_and_server_speak_of_the_same_api_versions_request() -> None:
    request = ApiVersionsRequest(client_software_name="kmirror", client_software_version="1")
    frame = memoryview(joined(encode_request(RequestHeader(ApiKeys.API_VERSIONS, 4, 1, "c"), request)))[4:]
    header, position = read_request_header(frame)
    assert read_request(header, frame, position) == request


def test_records_in_a_request_are_parts_of_their_own() -> None:
    records = memoryview(b"records")
    request = ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(records=records)])])
    parts = encode_request(RequestHeader(ApiKeys.PRODUCE, 9, 1, "c"), request)
    assert parts[1] is records
    assert int.from_bytes(joined(parts)[:4], "big") == len(joined(parts)) - 4


def test_metadata_records_are_framed() -> None:
    encoded = write_metadata_record(TopicRecord(name="t"), 0)
    assert encoded.hex() == "01" + "02" + "00" + "0274" + "00" * 16 + "00"
    assert read_metadata_record(encoded) == TopicRecord(name="t")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "cut short"),
        ("020200", "frame version 2"),
        ("010600", "unknown metadata record type 6"),
        ("010209", "TopicRecord has no version 9"),
        ("0102000274", "TopicRecord version 0 is cut short"),
        ("0102000274" + "00" * 16 + "00" + "aa", r"1 byte\(s\) of garbage"),
        ("ffffffffffff", "varint at byte 4 is too long"),
    ],
)
def test_a_metadata_record_that_kafka_would_refuse(value: str, reason: str) -> None:
    with pytest.raises(ProtocolReadError, match=reason):
        read_metadata_record(bytes.fromhex(value))


def test_a_coordinator_value_of_an_unknown_version() -> None:
    with pytest.raises(ProtocolReadError, match="TopicRecord has no version 5; known are 0 to 0"):
        read_versioned(TopicRecord, b"\x00\x05")
    with pytest.raises(ProtocolReadError, match="cut short"):
        read_versioned(TopicRecord, b"\x00")


@pytest.mark.parametrize("value", [0, 1, 127, 128, 16383, 16384, 2**28 - 1, 2**28, 2**31 - 1, 2**32 - 1])
def test_unsigned_varints(value: int) -> None:
    encoded = encode_unsigned_varint(value)
    assert read_unsigned_varint(encoded, 0) == (value, len(encoded))


def test_writer_counts_what_it_holds() -> None:
    out = Writer()
    out.write_string("ab")
    out.write_nullable_records([b"12", memoryview(b"345")])
    out.write_uuids([])
    assert out.size == 2 + 2 + 4 + 5
    assert out.to_bytes() == b"\x00\x02ab\x00\x00\x00\x0512345"
    assert out.size == len(b"".join(part for part in out.parts() if isinstance(part, (bytes, memoryview))))
