"""`meta.properties`: the cluster and node that a log directory belongs to.

A file in the text format of `java.util.Properties`, in every log and metadata directory:

    #
    #Sat Nov 21 01:25:25 UTC 2026
    node.id=1
    directory.id=kA4HGqh4QOSj42ZTo50hcg
    version=1
    cluster.id=Z29sZGVuLXZlY3RvcnMtMQ

The first two lines are comments (an empty one and the date of writing); the order of the keys is
that of a Java `ConcurrentHashMap` and means nothing. Version 1 is KRaft's; version 0 (ZooKeeper's,
`broker.id`) is only read.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from kmirror.common.errors import CorruptFileError
from kmirror.common.ports import FileSystem, Random
from kmirror.common.uuid import Uuid
from kmirror.storage.checkpoint_file import parse_decimal, write_atomically
from kmirror.storage.java_properties import decode_properties, encode_properties

META_PROPERTIES_FILE_NAME: Final = "meta.properties"
RESERVED_DIRECTORY_IDS: Final = 100
DIRECTORY_ID_MIGRATING: Final = Uuid(bytes(16))
DIRECTORY_ID_UNASSIGNED: Final = Uuid(bytes(15) + b"\x01")
DIRECTORY_ID_LOST: Final = Uuid(bytes(15) + b"\x02")


def random_directory_id(random: Random) -> Uuid:
    """A new `directory.id`, never one of the first 100 ids, which Kafka reserves."""
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
    """Writes `meta.properties` of a log dir; `time_ms` is the wall clock for the date line."""
    write_atomically(files, meta_properties_path(log_dir), encode_properties(meta_properties.to_properties(), time_ms=time_ms))


def read_meta_properties(files: FileSystem, log_dir: str) -> MetaProperties | None:
    """The meta.properties of a log dir; None if there is none (it is not formatted).
    CorruptFileError if it makes no sense.
    """
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
