"""The bytes of the "connect" protocol inside the classic group protocol (Kafka's `ConnectProtocol`,
version 0, protocol name "default"): what workers say of themselves, and what the leader assigns.

    metadata     version int16, url string, config offset int64
    assignment   version int16, error int16, leader string, leader's url string, config offset int64,
                 array of (connector string, array of int32: its tasks; CONNECTOR_TASK is itself)

Apache's workers offer the protocols "sessioned", "compatible" and "default", in this order. A group
with a member of ours has "default" in common, in which every member gives all its work up before it
joins. Strings have an int16 length, arrays an int32 one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kmirror.wire.primitives import ProtocolReadError

PROTOCOL_TYPE: Final = "connect"
EAGER: Final = "default"
"""Kafka's `ConnectProtocolCompatibility.EAGER`."""
CONNECT_PROTOCOL_V0: Final = 0
CONNECTOR_TASK: Final = -1
MOST_DIGITS: Final = 10
"""Of a task's number."""
NO_ERROR: Final = 0
CONFIG_MISMATCH: Final = 1
"""The leader knows fewer configs than a member; all read them, and join again."""
NOT_USED: Final = "NOTUSED"
"""The url of a worker that serves no internal REST, as Apache's MirrorMaker calls it."""


class ConnectorTaskId(NamedTuple):
    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


def is_task_number(text: str) -> bool:
    """Whether the end of a record's key is an int of Java's that is not negative."""
    return text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS


class WorkerState(NamedTuple):
    """`offset` is the end of the topic of configs, as far as the worker has read it."""

    url: str
    offset: int


@dataclass(frozen=True)
class Assignment:
    """One worker's."""

    leader: str
    leader_url: str
    offset: int
    connectors: list[str] = field(default_factory=list)
    tasks: list[ConnectorTaskId] = field(default_factory=list)
    error: int = NO_ERROR


def serialize_metadata(state: WorkerState) -> bytes:
    return struct.pack(">h", CONNECT_PROTOCOL_V0) + _string(state.url) + struct.pack(">q", state.offset)


def deserialize_metadata(data: bytes) -> WorkerState:
    """ProtocolReadError for bytes that are no metadata. What newer versions append is ignored."""
    reader = _Reader(data)
    reader.version()
    return WorkerState(reader.string(), reader.number(">q"))


def serialize_assignment(assignment: Assignment) -> bytes:
    """Connectors stand before tasks, in the order of the lists."""
    rows: dict[str, list[int]] = {}
    for connector in assignment.connectors:
        rows.setdefault(connector, []).append(CONNECTOR_TASK)
    for connector, task in assignment.tasks:
        rows.setdefault(connector, []).append(task)
    head = struct.pack(">hh", CONNECT_PROTOCOL_V0, assignment.error) + _string(assignment.leader) + _string(assignment.leader_url)
    body = b"".join(_string(connector) + struct.pack(f">i{len(tasks)}i", len(tasks), *tasks) for connector, tasks in rows.items())
    return head + struct.pack(">qi", assignment.offset, len(rows)) + body


def deserialize_assignment(data: bytes) -> Assignment:
    """ProtocolReadError for bytes that are no assignment."""
    reader = _Reader(data)
    reader.version()
    error, leader, url, offset = reader.number(">h"), reader.string(), reader.string(), reader.number(">q")
    connectors: list[str] = []
    tasks: list[ConnectorTaskId] = []
    for _ in range(reader.count()):
        connector = reader.string()
        for _ in range(reader.count()):
            task = reader.number(">i")
            if task == CONNECTOR_TASK:
                connectors.append(connector)
            else:
                tasks.append(ConnectorTaskId(connector, task))
    return Assignment(leader, url, offset, connectors, tasks, error)


def assign_eagerly(
    leader: str, url: str, offset: int, members: Iterable[str], connectors: Iterable[str], tasks: Iterable[ConnectorTaskId]
) -> dict[str, Assignment]:
    """Returns each member's work: tasks go round robin over the members, connectors to the leader
    (Kafka's `EagerAssignor` deals connectors, too). The leader alone writes configs of tasks, so a
    connector that runs with it needs no way to tell it.
    """
    every = sorted(members)
    dealt: dict[str, list[ConnectorTaskId]] = {member: [] for member in every}
    others_first = [member for member in every if member != leader] + [leader]
    for number, task in enumerate(sorted(tasks)):
        dealt[others_first[number % len(others_first)]].append(task)
    return {member: Assignment(leader, url, offset, sorted(connectors) if member == leader else [], dealt[member]) for member in every}


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

    def version(self) -> None:
        version = self.number(">h")
        if version < CONNECT_PROTOCOL_V0:
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

    def count(self) -> int:
        count = self.number(">i")
        if not 0 <= count <= len(self._data):
            raise ProtocolReadError(f"an array of the connect protocol has {count} elements")
        return count


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data
