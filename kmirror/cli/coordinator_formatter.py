"""The console consumer's formatters for internal topics: a record as one JSON object.

They work like Kafka's `CoordinatorRecordMessageFormatter`. Each shows the record types in its row
and leaves out all others, including unknown ones:

    OffsetsMessageFormatter             __consumer_offsets       offsets that were committed
    GroupMetadataMessageFormatter       __consumer_offsets       groups of the classic protocol and their members
    ShareGroupMessageFormatter          __consumer_offsets       share groups
    TransactionLogMessageFormatter      __transaction_state      transactional ids
    ShareGroupStateMessageFormatter     __share_group_state      what share groups have consumed
"""

from __future__ import annotations

from typing import Any

from kmirror.cli.dump_log_decoders import OFFSETS_TYPES, SHARE_TYPES, TRANSACTION_TYPES, message_class
from kmirror.common.errors import KmirrorError

Types = dict[int, str]
NO_VERSION = 2
"""Length of the version at the beginning of every key and value."""


def _of(types: Types, *prefixes: str) -> Types:
    return {number: name for number, name in types.items() if name.startswith(prefixes)}


FORMATTER_TYPES: dict[str, Types] = {
    "OffsetsMessageFormatter": _of(OFFSETS_TYPES, "OffsetCommit", "LegacyOffsetCommit"),
    "GroupMetadataMessageFormatter": _of(OFFSETS_TYPES, "GroupMetadata"),
    "ShareGroupMessageFormatter": _of(OFFSETS_TYPES, "ShareGroup"),
    "TransactionLogMessageFormatter": TRANSACTION_TYPES,
    "ShareGroupStateMessageFormatter": SHARE_TYPES,
}


def coordinator_record(types: Types, offset: int, key: bytes | None, value: bytes | None) -> bytes:
    """Returns the JSON of a record of one of `types`, and b"" for any other record.

    KmirrorError if the record's bytes make no sense.
    """
    from kmirror.wire.json_converter import dumps

    if key is None or len(key) < NO_VERSION:
        return b""
    number = int.from_bytes(key[:2], "big", signed=True)
    if number not in types:
        return b""
    try:
        shown_key = {"type": number, "data": _data(f"{types[number].removeprefix('Legacy')}Key", 0, key)}
        shown_value = None if value is None else _value(f"{types[number]}Value", value)
    except KmirrorError as error:
        raise KmirrorError(f"Could not read record at offset {offset} due to: {error}") from error
    return dumps({"key": shown_key, "value": shown_value}).encode()


def _value(name: str, value: bytes) -> dict[str, Any]:
    version = int.from_bytes(value[:2], "big", signed=True)
    found = message_class(name)
    if len(value) < NO_VERSION or not found.LOWEST_VERSION <= version <= found.HIGHEST_VERSION:
        raise KmirrorError(f"Found an unknown record version {version} for {name}")
    return {"version": version, "data": _data(name, version, value)}


def _data(name: str, version: int, data: bytes) -> dict[str, Any]:
    from kmirror.wire.json_converter import to_json

    return to_json(message_class(name).read(memoryview(data), NO_VERSION, version)[0], version)
