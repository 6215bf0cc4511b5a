"""The same request frames to an Apache Kafka 4.3 broker and to kmirror, the decoded answers
compared field by field.

A `Side` is one broker as a client sees it: a port, a connection that is kept, and what the broker
handed out (topic ids, member ids, producer ids). A request is a message, or a function of the side
that gives one, where it has to name such a thing. Both sides are made by the same requests, so
every answer must be the same but for what a broker chooses: `Normaliser` writes names in the place
of ports, ids of clusters, topics, members and producers, sessions, folders and times. Lists that
Kafka fills from a hash map (`UNORDERED`) are compared by the entries' names. Nothing else is left
out: texts of errors and bytes of records are compared as they are.

`Pair.same` notes a difference and goes on, so that one run shows all of them; the `pair` fixture
fails the test that has any. An answer of Apache Kafka is written back by our own codec as well and
has to give the same bytes.
"""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Callable, Iterable
from typing import Any

from kmirror.common.uuid import Uuid
from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.framing import RequestHeader, encode_request, encode_response, read_response
from kmirror.wire.primitives import ProtocolReadError

CLOSED = "the connection was closed"
NOTHING = "no answer"
TIMEOUT_S = 6.0
MEMBER_ID = re.compile(r"-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIMES = re.compile(r"within \[-?\d+, \d+\]")
CHOSEN = {
    "port",
    "finalized_features_epoch",
    "total_bytes",
    "usable_bytes",
    "last_timestamp",
    "last_fetch_timestamp",
    "last_caught_up_timestamp",
}
CHOSEN_IF_SET = {"session_id", "log_append_time_ms", "replica_directory_id"}
UNORDERED = {"supported_features", "finalized_features", "topics", "responses", "results", "groups", "config_resources", "partitions",
             "replica_election_results", "partition_responses", "partition_result", "members"}  # fmt: skip
IDENTITY = ("name", "topic", "topic_id", "group_id", "feature", "resource_type", "resource_name", "partition", "partition_index",
            "partition_id", "index", "group_instance_id", "member_id")  # fmt: skip

Request = Any
Maker = Callable[["Side"], Any]


class RawConnection:
    """A socket that sends any bytes and reads frames."""

    def __init__(self, port: int, timeout_s: float = TIMEOUT_S) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def _read(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            try:
                part = self.socket.recv(size - len(data))
            except ConnectionError:
                return None
            if not part:
                return None
            data += part
        return bytes(data)

    def frame(self) -> bytes | None:
        """The next frame without its length; None when the broker closed the connection."""
        length = self._read(4)
        return None if length is None else self._read(struct.unpack(">i", length)[0])

    def close(self) -> None:
        self.socket.close()


class Side:
    """One broker, and what it handed out under the names that the tests gave."""

    def __init__(self, name: str, port: int, *, verbatim: bool = False) -> None:
        self.name, self.port, self.verbatim = name, port, verbatim
        self.topic_ids: dict[str, Uuid] = {}
        self.producer_ids: dict[str, int] = {}
        self.kept: dict[str, Any] = {}
        self._connection: RawConnection | None = None
        self._correlation_id = 0

    def topic_id(self, name: str) -> Uuid:
        return self.topic_ids[name]

    def ask(self, request: Request, version: int, *, api_key: ApiKeys | None = None, client_id: str | None = "differential") -> Any:
        """The decoded answer, or CLOSED."""
        api = api_key if api_key is not None else ApiKeys(type(request).API_KEY)
        self._correlation_id += 1
        frame = b"".join(bytes(part) for part in encode_request(RequestHeader(api, version, self._correlation_id, client_id), request))
        raw = self.exchange(frame)
        return raw if raw == NOTHING else CLOSED if raw is None else self.decode(api, version, raw)

    def tell(self, request: Request, version: int) -> None:
        """Send a request that has no answer."""
        self._correlation_id += 1
        header = RequestHeader(ApiKeys(type(request).API_KEY), version, self._correlation_id, "differential")
        if self._connection is None:
            self._connection = RawConnection(self.port)
        self._connection.send(b"".join(bytes(part) for part in encode_request(header, request)))

    def exchange(self, frame: bytes) -> Any:
        if self._connection is None:
            self._connection = RawConnection(self.port)
        self._connection.send(frame)
        try:
            answer: Any = self._connection.frame()
        except TimeoutError:
            answer = NOTHING
        if answer is None or answer == NOTHING:
            self.close()
        return answer

    def decode(self, api: ApiKeys, version: int, raw: bytes) -> Any:
        correlation_id, message = read_response(api, version, memoryview(raw))
        assert correlation_id == self._correlation_id
        if self.verbatim:
            self._check_codec(api, version, correlation_id, message, raw)
        return message

    def _check_codec(self, api: ApiKeys, version: int, correlation_id: int, message: Any, raw: bytes) -> None:
        if api is ApiKeys.API_VERSIONS and message.error_code == 35:
            return
        again = b"".join(bytes(part) for part in encode_response(api, version, correlation_id, message))[4:]
        assert again == raw, f"{api.name} v{version}: our codec writes {again.hex()} where Kafka wrote {raw.hex()}"

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Normaliser:
    """An answer as plain data, with names in the place of what a broker chooses."""

    def __init__(self, side: Side, replacements: Iterable[tuple[str, str]]) -> None:
        self._topics = {topic_id: name for name, topic_id in side.topic_ids.items()}
        self._producers = {producer_id: name for name, producer_id in side.producer_ids.items()}
        self._replacements = list(replacements)

    def plain(self, value: Any, name: str = "") -> Any:
        if hasattr(value, "__struct_fields__"):
            return {field: self.plain(getattr(value, field), field) for field in value.__struct_fields__}
        if isinstance(value, list | tuple):
            entries = [self.plain(entry, name) for entry in value if not is_mirror_config(entry)]
            return sorted(entries, key=identity) if name in UNORDERED else entries
        if isinstance(value, Uuid):
            return self._topics.get(value, "<zero>" if value == Uuid.ZERO else "<id>")
        if isinstance(value, memoryview | bytes | bytearray):
            return bytes(value)
        return self._text(value) if isinstance(value, str) else self._number(value, name)

    def _number(self, value: Any, name: str) -> Any:
        if name in CHOSEN or (name in CHOSEN_IF_SET and value and value > 0):
            return f"<{name}>"
        return f"<{self._producers[value]}>" if name == "producer_id" and value in self._producers else value

    def _text(self, value: str) -> str:
        for old, new in self._replacements:
            value = value.replace(old, new)
        for topic_id, name in self._topics.items():
            value = value.replace(str(topic_id), f"<id of {name}>")
        return TIMES.sub("within <times>", MEMBER_ID.sub("-<uuid>", value))


def is_mirror_config(entry: Any) -> bool:
    """A topic or broker setting of KIP-1279, which Apache Kafka does not have."""
    return "is_sensitive" in getattr(entry, "__struct_fields__", ()) and entry.name.startswith("mirror.")


def identity(entry: Any) -> list[str]:
    """By what an entry of a list is known."""
    return [str(entry.get(name)) for name in IDENTITY] if isinstance(entry, dict) else []


def differences(apache: Any, ours: Any, path: str = "") -> list[str]:
    """Where two plain answers differ, one line each, with the path of the field."""
    if isinstance(apache, dict) and isinstance(ours, dict):
        return [line for key in apache | ours for line in differences(apache.get(key), ours.get(key), f"{path}.{key}")]
    if isinstance(apache, list) and isinstance(ours, list) and len(apache) == len(ours):
        return [line for index, pair in enumerate(zip(apache, ours, strict=True)) for line in differences(*pair, f"{path}[{index}]")]
    if isinstance(apache, list) and isinstance(ours, list) and apache and ours and isinstance(apache[0], dict):
        return unmatched(apache, ours, path)
    return [] if apache == ours and type(apache) is type(ours) else [f"{path}: Kafka {short(apache)}, kmirror {short(ours)}"]


def unmatched(apache: list[Any], ours: list[Any], path: str) -> list[str]:
    """The entries of two lists of different lengths that only one has."""
    lines = [f"{path}: only Kafka has {short(entry)}" for entry in apache if entry not in ours]
    lines += [f"{path}: only kmirror has {short(entry)}" for entry in ours if entry not in apache]
    return lines or [f"{path}: {len(apache)} entries with repetitions, kmirror {len(ours)}"]


def short(value: Any, limit: int = 900) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"


class Pair:
    """Both brokers. `replacements` are (text of that side, common name) by side name."""

    def __init__(self, apache: Side, kmirror: Side, replacements: dict[str, list[tuple[str, str]]]) -> None:
        self.apache, self.kmirror = apache, kmirror
        self._replacements = replacements
        self.found: dict[str, list[str]] = {}
        self.controllers: Pair | None = None

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.apache, self.kmirror

    def ask(self, request: Request | Maker, version: int, **options: Any) -> tuple[Any, Any]:
        """Both decoded answers, not compared."""
        return tuple(side.ask(request(side) if callable(request) else request, version, **options) for side in self.sides)  # type: ignore[return-value]

    def plain(self, side: Side, answer: Any) -> Any:
        return Normaliser(side, self._replacements[side.name]).plain(answer)

    def same(
        self, request: Request | Maker, version: int, *, note: str = "", edit: Callable[[Any], None] | None = None, **options: Any
    ) -> tuple[Any, Any]:
        """Ask both and note where the answers differ.

        `edit` changes a plain answer before (for what only this case may ignore).
        """
        answers = self.ask(request, version, **options)
        plain = [self.plain(side, answer) for side, answer in zip(self.sides, answers, strict=True)]
        if edit is not None:
            for answer in plain:
                if isinstance(answer, dict):
                    edit(answer)
        label = f"{type(request(self.apache) if callable(request) else request).__name__} {note}".strip()
        self.note(label, *plain, where=f"v{version}")
        return answers

    def every_version(
        self, request: Request | Maker, lowest: int | None = None, highest: int | None = None, **options: Any
    ) -> list[tuple[Any, Any]]:
        """`same` in every version that Kafka 4.3 serves (or from `lowest` to `highest`)."""
        api = ApiKeys(type(request(self.apache) if callable(request) else request).API_KEY)
        low, high = SERVED_BY_KAFKA_4_3.get(api, (API_TABLE[api].lowest, API_TABLE[api].highest))
        versions = range(low if lowest is None else lowest, (high if highest is None else highest) + 1)
        return [self.same(request, version, **options) for version in versions]

    def note(self, label: str, apache: Any, ours: Any, *, where: str = "") -> None:
        for line in differences(apache, ours):
            self.found.setdefault(f"{label}{line}", []).append(where)

    def report(self) -> list[str]:
        """The differences since the last report, one line each, with the versions that have it."""
        found, self.found = self.found, {}
        return [f"{' '.join(versions)} {line}" for line, versions in found.items()]

    def each(self, action: Callable[[Side], None]) -> None:
        for side in self.sides:
            action(side)

    def close(self) -> None:
        self.each(Side.close)


SERVED_BY_KAFKA_4_3 = {
    ApiKeys.FETCH: (4, 18),
    ApiKeys.CREATE_TOPICS: (2, 7),
    ApiKeys.FIND_COORDINATOR: (0, 6),
    ApiKeys.INIT_PRODUCER_ID: (0, 5),
}
"""Where our schemas go further than Kafka 4.3 does (KIP-1279, versions that are not stable)."""

__all__ = ["CLOSED", "NOTHING", "Pair", "ProtocolReadError", "RawConnection", "Side"]
