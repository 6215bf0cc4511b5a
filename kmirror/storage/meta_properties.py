"""`meta.properties`: whose log directory this is.

A file in the text format of `java.util.Properties`, in every log and metadata directory:

    #
    #Sat Nov 21 01:25:25 UTC 2026
    node.id=1
    directory.id=kA4HGqh4QOSj42ZTo50hcg
    version=1
    cluster.id=Z29sZGVuLXZlY3RvcnMtMQ

The first two lines are comments (an empty one and the date of writing); the order of the keys is that of a Java
`ConcurrentHashMap` and means nothing. Version 1 is KRaft's; version 0 (ZooKeeper's, `broker.id`) is only read.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from kmirror.common.errors import CorruptFileError
from kmirror.common.ports import FileSystem, Random
from kmirror.common.uuid import Uuid
from kmirror.storage.checkpoint_file import parse_decimal, write_atomically
from kmirror.storage.java_hash_map import java_hash_map_order, java_string_key_hash

META_PROPERTIES_FILE_NAME: Final = "meta.properties"
RESERVED_DIRECTORY_IDS: Final = 100
DIRECTORY_ID_MIGRATING: Final = Uuid(bytes(16))
DIRECTORY_ID_UNASSIGNED: Final = Uuid(bytes(15) + b"\x01")
DIRECTORY_ID_LOST: Final = Uuid(bytes(15) + b"\x02")

_ESCAPED_IN_VALUES: Final = {
    "\\": "\\\\",
    "\t": "\\t",
    "\n": "\\n",
    "\r": "\\r",
    "\f": "\\f",
    "=": "\\=",
    ":": "\\:",
    "#": "\\#",
    "!": "\\!",
}
_UNESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def random_directory_id(random: Random) -> Uuid:
    """A new `directory.id`: never one of the first 100 ids, which Kafka keeps for meanings of its own."""
    while True:
        directory_id = Uuid.random(random)
        if int.from_bytes(directory_id.raw, "big") >= RESERVED_DIRECTORY_IDS:
            return directory_id


class MetaProperties(Struct, frozen=True):
    """The content of a meta.properties file (Kafka's `MetaProperties`)."""

    cluster_id: str | None
    node_id: int | None
    directory_id: Uuid | None = None
    version: int = 1

    def to_properties(self) -> dict[str, str]:
        properties = {"version": str(self.version)}
        if self.cluster_id is not None:
            properties["cluster.id"] = self.cluster_id
        if self.node_id is not None:
            properties["node.id" if self.version >= 1 else "broker.id"] = str(self.node_id)
        if self.directory_id is not None:
            properties["directory.id"] = str(self.directory_id)
        return properties


def meta_properties_path(log_dir: str) -> str:
    return f"{log_dir}/{META_PROPERTIES_FILE_NAME}"


def write_meta_properties(files: FileSystem, log_dir: str, meta_properties: MetaProperties, *, time_ms: int) -> None:
    """Write `meta.properties` of a log dir; `time_ms` is the wall clock for the date line."""
    write_atomically(files, meta_properties_path(log_dir), encode_properties(meta_properties.to_properties(), time_ms=time_ms))


def read_meta_properties(files: FileSystem, log_dir: str) -> MetaProperties | None:
    """The meta.properties of a log dir; None if it has none (it is not formatted), CorruptFileError if it makes no sense."""
    path = meta_properties_path(log_dir)
    try:
        data = files.read_bytes(path)
    except FileNotFoundError:
        return None
    properties = decode_properties(path, data)
    try:
        return _from_properties(properties)
    except ValueError as error:
        raise CorruptFileError(path, 0, str(error)) from error


def _from_properties(properties: dict[str, str]) -> MetaProperties:
    version = parse_decimal(properties.get("version", "0"))
    if version not in (0, 1):
        raise ValueError(f"version is {version}; only 0 and 1 are known")
    node_key = "node.id" if version >= 1 else "broker.id"
    for key in ("cluster.id", "node.id") if version >= 1 else ():
        if key not in properties:
            raise ValueError(f"{key} was not found")
    node_id = properties.get(node_key)
    directory_id = properties.get("directory.id")
    return MetaProperties(
        cluster_id=properties.get("cluster.id"),
        node_id=None if node_id is None else parse_decimal(node_id),
        directory_id=None if directory_id is None else Uuid.from_string(directory_id),
        version=version,
    )


def encode_properties(properties: dict[str, str], *, time_ms: int) -> bytes:
    """`java.util.Properties.store` with an empty comment; the date is in UTC."""
    date = datetime.fromtimestamp(time_ms / 1000, UTC)
    weekday = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[date.weekday()]
    month = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")[date.month - 1]
    lines = ["#", f"#{weekday} {month} {date.day:02} {date.hour:02}:{date.minute:02}:{date.second:02} UTC {date.year}"]
    for key in java_hash_map_order(properties, java_string_key_hash):
        lines.append(f"{_escape(key).replace(' ', chr(92) + ' ')}={_escape(properties[key])}")
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def _escape(text: str) -> str:
    escaped = "".join(_ESCAPED_IN_VALUES.get(char, char) for char in text)
    if escaped.startswith(" "):
        escaped = "\\" + escaped
    units = escaped.encode("utf-16-be")
    pairs = (units[index] << 8 | units[index + 1] for index in range(0, len(units), 2))
    return "".join(chr(unit) if 0x20 <= unit <= 0x7E else f"\\u{unit:04X}" for unit in pairs)


def decode_properties(path: str, data: bytes) -> dict[str, str]:
    """Key-value lines of a Java properties file (ISO-8859-1, backslash escapes, continued lines); a later key wins."""
    properties: dict[str, str] = {}
    for position, line in _logical_lines(data.decode("latin-1")):
        key, value = _split_key(line)
        try:
            properties[_unescape(key)] = _unescape(value)
        except ValueError as error:
            raise CorruptFileError(path, position, f"malformed \\uxxxx in {line!r}") from error
    return properties


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """(position, line) without comments and blank lines, continued lines joined."""
    result: list[tuple[int, str]] = []
    position, pending, pending_position = 0, "", 0
    for raw in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = raw.lstrip(" \t\f")
        if not pending:
            pending_position = position
        position += len(raw) + 1
        if not pending and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        result.append((pending_position, pending + line))
        pending = ""
    if pending:
        result.append((pending_position, pending))
    return result


def _split_key(line: str) -> tuple[str, str]:
    index = 0
    while index < len(line) and line[index] not in " \t\f=:":
        index += 2 if line[index] == "\\" else 1
    rest = line[index:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return line[:index], rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    units: list[str] = []
    index = 0
    while index < len(text):
        char = text[index]
        if char != "\\":
            units.append(char)
            index += 1
        elif text[index + 1 : index + 2] == "u":
            units.append(chr(int(text[index + 2 : index + 6], 16)))
            index += 6
        else:
            units.append(_UNESCAPED.get(text[index + 1 : index + 2], text[index + 1 : index + 2]))
            index += 2
    return "".join(units).encode("utf-16-be", "surrogatepass").decode("utf-16-be", "replace")
