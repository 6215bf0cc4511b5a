"""What a transformed record is on the wire (Connect's converters).

Keys and values go through ByteArrayConverter, which passes bytes and refuses all else. Headers go through
ByteArrayConverter, too, or through SimpleHeaderConverter, which writes every value as text:

    header.converter of           ByteArrayConverter            SimpleHeaderConverter
    bytes of the source           as they are                   Base64 (*)
    InsertHeader's `team a`       an error                      team a

(*) Only if the connector itself is configured with it. A worker's SimpleHeaderConverter, Connect's default,
leaves headers of the source as they are, with transformations as without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kmirror.common.errors import ConfigError
from kmirror.mirrormaker.transforms.connect_data import BYTES, DataException, Header, Schema, Value, class_text
from kmirror.mirrormaker.transforms.literals import text_of

CONVERTERS_PACKAGE: Final = "org.apache.kafka.connect.converters."
BYTE_ARRAY_CLASS: Final = f"{CONVERTERS_PACKAGE}ByteArrayConverter"
SIMPLE_CLASS: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
HeaderConverter = Callable[[Header], bytes | None]


def to_bytes(schema: Schema | None, value: Value) -> bytes | None:
    """As ByteArrayConverter's `fromConnectData`. DataException for what is not bytes."""
    if schema is not None and schema.type != BYTES:
        raise DataException(f"Invalid schema type for ByteArrayConverter: {schema.type}")
    if value is not None and not isinstance(value, bytes):
        raise DataException(f"ByteArrayConverter is not compatible with objects of type {class_text(value)}")
    return value


def header_converter(of_connector: str | None, of_worker: str | None) -> tuple[str, HeaderConverter]:
    """Returns the converter's class and the converter. ConfigError for one that there is not."""
    name = (of_connector or of_worker or BYTE_ARRAY_CLASS).strip()
    simple = name.rpartition(".")[2]
    if simple == "ByteArrayConverter":
        return BYTE_ARRAY_CLASS, lambda header: to_bytes(header.schema, header.value)
    if simple != "SimpleHeaderConverter":
        raise ConfigError(f"Invalid value {name} for configuration header.converter: Class {name} could not be found.")
    return SIMPLE_CLASS, _to_text if of_connector else _made_to_text


def changes_headers(of_connector: str | None) -> bool:
    """Whether headers of the source become others, so that batches cannot be passed on."""
    return of_connector is not None and of_connector.strip().rpartition(".")[2] == "SimpleHeaderConverter"


def _to_text(header: Header) -> bytes | None:
    return None if header.value is None else text_of(header.value).encode("utf-8", "replace")


def _made_to_text(header: Header) -> bytes | None:
    """Bytes stay as they are."""
    return header.value if isinstance(header.value, bytes) else _to_text(header)
