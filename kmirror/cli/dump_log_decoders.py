"""What kafka-dump-log prints for keys and values: text, or Kafka's internal records as JSON.

A decoder turns (offset, key, value) into the two texts; for a text that is None nothing is printed.
A record that cannot be decoded is not an error of the tool: the text says so and the dump
continues, as in Kafka. Only a record without a key in a coordinator's topic ends it.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable
from typing import Any, Final

from kmirror.common.errors import KmirrorError
from kmirror.common.ports import Buffer
from kmirror.common.topic_partition import CLUSTER_METADATA_TOPIC_NAME

Texts = tuple[str | None, str | None]
Decoder = Callable[[int, Buffer | None, Buffer | None], Texts]
Concealer = Callable[[Buffer | None], Buffer | None]
"""Takes a value and returns what may be shown of it."""

_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_CLASS_PREFIXES: Final = ("org.apache.kafka.tools.api.", "kafka.serializer.")

OFFSETS_TYPES: Final = {
    0: "LegacyOffsetCommit",
    1: "OffsetCommit",
    2: "GroupMetadata",
    3: "ConsumerGroupMetadata",
    4: "ConsumerGroupPartitionMetadata",
    5: "ConsumerGroupMemberMetadata",
    6: "ConsumerGroupTargetAssignmentMetadata",
    7: "ConsumerGroupTargetAssignmentMember",
    8: "ConsumerGroupCurrentMemberAssignment",
    10: "ShareGroupMemberMetadata",
    11: "ShareGroupMetadata",
    12: "ShareGroupTargetAssignmentMetadata",
    13: "ShareGroupTargetAssignmentMember",
    14: "ShareGroupCurrentMemberAssignment",
    15: "ShareGroupStatePartitionMetadata",
    16: "ConsumerGroupRegularExpression",
    17: "StreamsGroupMetadata",
    19: "StreamsGroupMemberMetadata",
    20: "StreamsGroupTargetAssignmentMetadata",
    21: "StreamsGroupTargetAssignmentMember",
    22: "StreamsGroupCurrentMemberAssignment",
    23: "StreamsGroupTopology",
}
TRANSACTION_TYPES: Final = {0: "TransactionLog"}
SHARE_TYPES: Final = {0: "ShareSnapshot", 1: "ShareUpdate"}
MIRROR_TYPES: Final = {1: "LastMirrorEpochs", 2: "MirrorPartitionState"}


def java_text(data: Buffer) -> bytes:
    """Returns `data` as Java prints it when read as UTF-8: each malformed part becomes U+FFFD.

    An encoded surrogate becomes one U+FFFD, not three.
    """
    raw = bytes(data)
    try:
        raw.decode()
        return raw
    except UnicodeDecodeError:
        return _SURROGATE.sub("\ufffd".encode(), raw).decode("utf-8", "replace").encode()


def decoder_class(name: str) -> Callable[[Buffer], str]:
    """Returns the decoder that a Java class name stands for.

    KmirrorError for a class that kmirror does not have.
    """
    short = next((name.removeprefix(prefix) for prefix in _CLASS_PREFIXES if name.startswith(prefix)), name)
    decoders: dict[str, Callable[[Buffer], str]] = {
        "StringDecoder": lambda data: java_text(data).decode(),
        "IntegerDecoder": lambda data: str(_number(">i", data)),
        "LongDecoder": lambda data: str(_number(">q", data)),
    }
    if short not in decoders:
        raise KmirrorError(f"Failed to load decoder class {name}; kmirror has StringDecoder, IntegerDecoder and LongDecoder")
    return decoders[short]


def _number(form: str, data: Buffer) -> int:
    size = struct.calcsize(form)
    if len(data) < size:
        raise KmirrorError(f"cannot decode {len(data)} bytes as a number of {size} bytes")
    number: int = struct.unpack_from(form, data)[0]
    return number


def concealer(path: str) -> Concealer | None:
    """Returns what hides secrets in cluster metadata records that are printed as they are.

    Returns None for a file that has no such records, judged by its folder or its ending.
    """
    folders = {os.path.basename(os.path.dirname(each)) for each in (os.path.abspath(path), os.path.realpath(path))}
    is_metadata = path.endswith(".checkpoint") or f"{CLUSTER_METADATA_TOPIC_NAME}-0" in folders
    return _concealed if is_metadata else None


def _concealed(value: Buffer | None) -> Buffer | None:
    """Returns the record with `(redacted)` in place of its secrets.

    If the record cannot be decoded, returns only `(redacted)`.
    """
    from kmirror.server.sensitive_configs import REDACTED
    from kmirror.wire.records import write_metadata_record

    try:
        name, version, message = _metadata_record(value)
    except KmirrorError:
        return None if value is None else REDACTED.encode()
    secrets = _secret_fields(name, message)
    for field, replacement in secrets.items():
        setattr(message, field, replacement)
    return write_metadata_record(message, version) if secrets else value


def plain_decoder(key_class: str, value_class: str, conceal: Concealer | None = None) -> Decoder:
    """Returns the decoder for --key-decoder-class and --value-decoder-class."""
    key_decoder, value_decoder = decoder_class(key_class), decoder_class(value_class)

    def decode(_: int, key: Buffer | None, value: Buffer | None) -> Texts:
        value = value if conceal is None else conceal(value)
        return (None if key is None else key_decoder(key)), (None if value is None else value_decoder(value))

    return decode


def decoder_for(option: str, *, show_secrets: bool = False) -> Decoder:
    """Returns the decoder of one of the `--*-decoder` options.

    Secrets of the cluster's metadata are `(redacted)` unless `show_secrets` is set. KmirrorError
    for the decoder that kmirror does not have.
    """
    if option == "cluster-metadata-decoder":
        return lambda offset, _, value: _decode_metadata(offset, value, show_secrets=show_secrets)
    if option == "remote-log-metadata-decoder":
        raise KmirrorError(
            "--remote-log-metadata-decoder is not supported: kmirror has no tiered storage; use Apache Kafka's kafka-dump-log"
        )
    types = {
        "offsets-decoder": OFFSETS_TYPES,
        "transaction-log-decoder": TRANSACTION_TYPES,
        "share-group-state-decoder": SHARE_TYPES,
        "mirror-state-decoder": MIRROR_TYPES,
    }[option]
    deleted = "null" if option == "mirror-state-decoder" else "<DELETE>"
    return lambda offset, key, value: _decode_coordinator(types, deleted, offset, key, value)


def _decode_coordinator(types: dict[int, str], deleted: str, offset: int, key: Buffer | None, value: Buffer | None) -> Texts:
    if key is None:
        raise KmirrorError(f"Failed to decode message at offset {offset} using the specified decoder (message had a missing key)")
    from kmirror.wire.json_converter import dumps

    try:
        if len(key) < 2:
            return f"Error at offset {offset}, skipping. Could not read version from key's buffer.", None
        record_type = int.from_bytes(key[:2], "big", signed=True)
        if record_type not in types:
            return f"Unknown record type {record_type} at offset {offset}, skipping.", None
        name = types[record_type]
        key_json = _key_json(name.removeprefix("Legacy") if record_type else name, record_type, key)
        value_text = deleted if value is None else dumps(_value_json(name, record_type, value))
        return dumps(key_json), value_text
    except KmirrorError as error:
        return f"Error at offset {offset}, skipping. {error}", None


def message_class(name: str) -> Any:
    """Returns the generated class of a record's key or value."""
    from kmirror.wire import api_keys
    from kmirror.wire.json_schemas import RECORDS

    return api_keys.message_class(RECORDS[name][0], name)


def _key_json(name: str, record_type: int, key: Buffer) -> dict[str, Any]:
    from kmirror.wire.json_converter import to_json

    try:
        message, _ = message_class(f"{name}Key").read(memoryview(key), 2, 0)
    except KmirrorError:
        raise KmirrorError(f"Could not read record with version {record_type} from key's buffer due to: null.") from None
    return {"type": str(record_type), "data": to_json(message, 0)}


def _value_json(name: str, record_type: int, value: Buffer) -> dict[str, Any]:
    from kmirror.wire.json_converter import to_json

    found = message_class(f"{name}Value")
    if len(value) < 2:
        raise KmirrorError("Could not read version from value's buffer.")
    version = int.from_bytes(value[:2], "big", signed=True)
    if not found.LOWEST_VERSION <= version <= found.HIGHEST_VERSION:
        raise KmirrorError(f"Found an unknown record version {version} for {record_type} type")
    try:
        message, _ = found.read(memoryview(value), 2, version)
    except KmirrorError:
        raise KmirrorError(f"Could not read record with version {version} from value's buffer due to: null.") from None
    data = to_json(message, version)
    if name == "GroupMetadata" and data.get("protocolType") == "consumer":
        for member, shown in zip(message.members, data["members"]):
            shown["subscription"] = _embedded("ConsumerProtocolSubscription", member.subscription, shown["subscription"])
            shown["assignment"] = _embedded("ConsumerProtocolAssignment", member.assignment, shown["assignment"])
    return {"version": str(version), "data": data}


def _embedded(name: str, data: bytes, fallback: str) -> Any:
    """Decode a classic consumer's subscription or assignment; returns `fallback` if it is none."""
    from kmirror.wire.json_converter import to_json

    found = message_class(name)
    version = int.from_bytes(data[:2], "big", signed=True)
    if len(data) < 2 or not found.LOWEST_VERSION <= version <= found.HIGHEST_VERSION:
        return fallback
    try:
        return to_json(found.read(memoryview(data), 2, version)[0], version)
    except KmirrorError:
        return fallback


def _decode_metadata(offset: int, value: Buffer | None, *, show_secrets: bool) -> Texts:
    from kmirror.wire.json_converter import dumps, to_json

    try:
        name, version, message = _metadata_record(value)
        data = to_json(message, version)
    except KmirrorError as error:
        return None, f"Error at {offset}, skipping. {error}"
    if not show_secrets:
        from kmirror.server.sensitive_configs import REDACTED

        data |= dict.fromkeys((_camel_case(field) for field in _secret_fields(name, message)), REDACTED)
    return None, dumps({"type": name, "version": version, "data": data})


def _secret_fields(name: str, message: Any) -> dict[str, str | bytes]:
    """Returns the secret fields of a record, with their replacements.

    These are values of secret configs and the keys of SCRAM credentials. They are replaced as in
    Kafka's own logs (`RecordRedactor`).
    """
    from kmirror.server.sensitive_configs import REDACTED, is_sensitive_config

    if name == "CONFIG_RECORD" and message.value is not None and is_sensitive_config(message.resource_type, message.name):
        return {"value": REDACTED}
    if name == "USER_SCRAM_CREDENTIAL_RECORD":
        return dict.fromkeys(("salt", "stored_key", "server_key"), REDACTED.encode())
    return {}


def _camel_case(field: str) -> str:
    first, *others = field.split("_")
    return first + "".join(word.capitalize() for word in others)


def _metadata_record(value: Buffer | None) -> tuple[str, int, Any]:
    """Returns (type, version, record); KmirrorError with Kafka's text if the value is not one."""
    from kmirror.common.varint import VarintError, read_unsigned_varint
    from kmirror.wire.messages.index import METADATA_RECORDS
    from kmirror.wire.records import FRAME_VERSION, read_metadata_record

    numbers = []
    position = 0
    for what in ("frame version", "type", "version"):
        try:
            number, position = read_unsigned_varint(b"" if value is None else value, position)
        except VarintError:
            raise KmirrorError(f"Error while reading {what}") from None
        numbers.append(number)
        if numbers[0] == 0:
            raise KmirrorError(
                "Could not deserialize metadata record with frame version 0. "
                "Note that upgrades from the preview release of KRaft in 2.8 to newer versions are not supported."
            )
        if numbers[0] != FRAME_VERSION:
            raise KmirrorError(
                f"Could not deserialize metadata record due to unknown frame version {number}(only frame version {FRAME_VERSION} is supported)"
            )
    _, record_type, version = numbers
    if record_type not in METADATA_RECORDS:
        raise KmirrorError(f"org.apache.kafka.common.errors.UnsupportedVersionException: Unknown metadata id {record_type}")
    assert value is not None
    try:
        message = read_metadata_record(value)
    except KmirrorError:
        raise KmirrorError(f"Failed to deserialize record with type {record_type}") from None
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", METADATA_RECORDS[record_type][0]).upper()
    return name, version, message
