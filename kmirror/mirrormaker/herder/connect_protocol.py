"""The bytes of the "connect" protocol inside the classic group protocol (Kafka's `ConnectProtocol` and
`IncrementalCooperativeConnectProtocol`): what workers say of themselves, and what the leader assigns.

    version  protocol name   connect.protocol   a member that joins
    0        default         eager              gives all its work up
    1        compatible      compatible         keeps its work, and says what it is (KIP-415)
    2        sessioned       sessioned          the same; requests between workers are signed (KIP-507)

    metadata     version int16, url string, config offset int64,
                 from 1 on: bytes, the member's assignment as below, null for a new member
    assignment   version int16, error int16, leader string, leader's url string, config offset int64, work;
                 from 1 on: work that is taken away, delay int32
    work         array of (connector string, array of int32: its tasks; CONNECTOR_TASK is itself)

A worker offers its own protocol and all below it, highest first, and the coordinator chooses the first
that all members offer. From 1 on, an assignment says what is new and what is taken away, and the member
keeps the rest; a delay above 0 has it join again then, in ms. Strings have an int16 length, arrays and
bytes an int32 one, which is -1 for null. What is missing at the end is null or 0.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from kmirror.common.errors import ConfigError
from kmirror.mirrormaker.herder.java_hash_order import in_hash_order
from kmirror.wire.primitives import ProtocolReadError

PROTOCOL_TYPE: Final = "connect"
CONNECTOR_TASK: Final = -1
MOST_DIGITS: Final = 10
"""Of a task's number."""
NO_ERROR: Final = 0
CONFIG_MISMATCH: Final = 1
"""The leader knows fewer configs than a member; all read them, and join again."""
NOT_USED: Final = "NOTUSED"
"""The url of a worker that serves no internal REST, as Apache's MirrorMaker calls it."""
_NULL: Final = -1


class ConnectProtocol(IntEnum):
    """Kafka's `ConnectProtocolCompatibility`, by its version."""

    EAGER = 0
    COMPATIBLE = 1
    SESSIONED = 2

    @property
    def group_protocol(self) -> str:
        """Its name in the group protocol."""
        return "default" if self is ConnectProtocol.EAGER else self.name.lower()

    @property
    def is_cooperative(self) -> bool:
        return self is not ConnectProtocol.EAGER

    @property
    def offered(self) -> tuple[ConnectProtocol, ...]:
        """What a worker with this protocol offers its group, in this order."""
        return tuple(ConnectProtocol(version) for version in range(self, -1, -1))


def connect_protocol(text: str) -> ConnectProtocol:
    """ConfigError, in Kafka's words, for what is no `connect.protocol`."""
    try:
        return ConnectProtocol[text.upper()]
    except KeyError:
        raise ConfigError(f"Invalid value {text} for configuration connect.protocol: Invalid Connect protocol compatibility") from None


def of_group_protocol(name: str) -> ConnectProtocol:
    """ProtocolReadError for a name that no worker offers."""
    for protocol in ConnectProtocol:
        if protocol.group_protocol == name:
            return protocol
    raise ProtocolReadError(f"Not found Connect protocol compatibility mode for protocol: {name}")


class ConnectorTaskId(NamedTuple):
    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


def is_task_number(text: str) -> bool:
    """Whether the end of a record's key is an int of Java's that is not negative."""
    return text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS


@dataclass(frozen=True)
class Assignment:
    """One worker's. What it is told from version 1 on is what changes; what it says of itself is all it has."""

    leader: str
    leader_url: str
    offset: int
    connectors: list[str] = field(default_factory=list)
    tasks: list[ConnectorTaskId] = field(default_factory=list)
    error: int = NO_ERROR
    revoked_connectors: list[str] = field(default_factory=list)
    revoked_tasks: list[ConnectorTaskId] = field(default_factory=list)
    delay_ms: int = 0

    @property
    def revokes(self) -> bool:
        return bool(self.revoked_connectors or self.revoked_tasks)


class WorkerState(NamedTuple):
    """`offset` is the end of the topic of configs, as far as the worker has read it."""

    url: str
    offset: int
    assignment: Assignment | None = None


def serialize_metadata(state: WorkerState, version: int = ConnectProtocol.EAGER) -> bytes:
    head = struct.pack(">h", version) + _string(state.url) + struct.pack(">q", state.offset)
    if version == ConnectProtocol.EAGER:
        return head
    if state.assignment is None:
        return head + struct.pack(">i", _NULL)
    assignment = serialize_assignment(state.assignment, version)
    return head + struct.pack(">i", len(assignment)) + assignment


def deserialize_metadata(data: bytes) -> WorkerState:
    """ProtocolReadError for bytes that are no metadata. What newer versions append is ignored."""
    reader = _Reader(data)
    reader.version()
    url, offset = reader.string(), reader.number(">q")
    allocation = reader.nullable_bytes()
    return WorkerState(url, offset, None if allocation is None else deserialize_assignment(allocation))


def serialize_assignment(assignment: Assignment, version: int = ConnectProtocol.EAGER) -> bytes:
    """Connectors stand before tasks: those that are assigned in Java's order, others in that of the lists."""
    head = struct.pack(">hh", version, assignment.error) + _string(assignment.leader) + _string(assignment.leader_url)
    told = head + struct.pack(">q", assignment.offset) + _work(in_hash_order(assignment.connectors, copied=True), assignment.tasks)
    if version == ConnectProtocol.EAGER:
        return told
    return told + _work(assignment.revoked_connectors, assignment.revoked_tasks) + struct.pack(">i", assignment.delay_ms)


def deserialize_assignment(data: bytes) -> Assignment:
    """ProtocolReadError for bytes that are no assignment."""
    reader = _Reader(data)
    reader.version()
    error, leader, url, offset = reader.number(">h"), reader.string(), reader.string(), reader.number(">q")
    connectors, tasks = reader.work()
    revoked_connectors, revoked_tasks = reader.work()
    delay_ms = 0 if reader.is_at_end else reader.number(">i")
    return Assignment(leader, url, offset, connectors, tasks, error, revoked_connectors, revoked_tasks, delay_ms)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = bytes(data)
        self._position = 0

    def number(self, form: str) -> int:
        try:
            (value,) = struct.unpack_from(form, self._data, self._position)
        except struct.error as error:
            raise ProtocolReadError(f"data of the connect protocol ends after {len(self._data)} bytes") from error
        self._position += struct.calcsize(form)
        return int(value)

    @property
    def is_at_end(self) -> bool:
        return self._position >= len(self._data)

    def version(self) -> None:
        version = self.number(">h")
        if version < ConnectProtocol.EAGER:
            raise ProtocolReadError(f"Unsupported subscription version: {version}")

    def string(self) -> str:
        size = self.number(">h")
        end = self._position + size
        if size < 0 or end > len(self._data):
            raise ProtocolReadError(f"a string of the connect protocol has {size} bytes, and {len(self._data) - self._position} are left")
        text, self._position = self._data[self._position : end], end
        try:
            return text.decode()
        except UnicodeDecodeError as error:
            raise ProtocolReadError(f"a string of the connect protocol is not UTF-8: {text!r}") from error

    def nullable_bytes(self) -> bytes | None:
        size = _NULL if self.is_at_end else self.number(">i")
        if size < 0:
            return None
        end = self._position + size
        if end > len(self._data):
            raise ProtocolReadError(f"bytes of the connect protocol are {size}, and {len(self._data) - self._position} are left")
        found, self._position = self._data[self._position : end], end
        return found

    def work(self) -> tuple[list[str], list[ConnectorTaskId]]:
        """Connectors and tasks; null, and what is missing at the end, is none."""
        connectors: list[str] = []
        tasks: list[ConnectorTaskId] = []
        for _ in range(_NULL if self.is_at_end else self.count(nullable=True)):
            connector = self.string()
            for _ in range(self.count()):
                task = self.number(">i")
                if task == CONNECTOR_TASK:
                    connectors.append(connector)
                else:
                    tasks.append(ConnectorTaskId(connector, task))
        return connectors, tasks

    def count(self, *, nullable: bool = False) -> int:
        count = self.number(">i")
        if not (0 <= count <= len(self._data) or (nullable and count < 0)):
            raise ProtocolReadError(f"an array of the connect protocol has {count} elements")
        return count


def _work(connectors: Iterable[str], tasks: Iterable[ConnectorTaskId]) -> bytes:
    rows: dict[str, list[int]] = {connector: [CONNECTOR_TASK] for connector in connectors}
    for connector, task in tasks:
        rows.setdefault(connector, []).append(task)
    body = b"".join(_string(connector) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers) for connector, numbers in rows.items())
    return struct.pack(">i", len(rows)) + body


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data
