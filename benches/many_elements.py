"""One request with thousands of elements: how its cost grows, for each list that a request has.

Each API of a broker is asked with 1,000, 10,000 and 40,000 elements of one list at a time, once
all different and once all the same; everything else in the request is empty or has one element.
Time is that of the whole answer on one connection. A broker works on one request of a connection at
a time, so what grows faster than the number of elements stops everybody: `growth` is how much more
the last step of the size costs than in proportion. What is below `NOISE_S` is not judged. Beside
it stands Apache Kafka's figure, where the jars are there.
"""

from __future__ import annotations

import socket
import struct
import time
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from benches.foreign import missing_kafka
from benches.harness import Context, Row
from kmirror import EmbeddedCluster
from kmirror.common.uuid import Uuid
from kmirror.server.broker_api_table import ROWS, AnsweredBy
from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.primitives import Writer

SIZES: Final = (1_000, 10_000, 40_000)
QUICK_SIZES: Final = (250, 1_000, 4_000)
NOISE_S: Final = 0.5
GROWTH: Final = 2.5
PATIENCE_S: Final = 60
NEEDS_MORE: Final = {ApiKeys.SASL_AUTHENTICATE, ApiKeys.SASL_HANDSHAKE}
"""Requests that have to come in an order."""
PLAUSIBLE: Final = {
    "resource_type": 2,
    "resource_pattern_type": 3,
    "operation": 2,
    "permission_type": 3,
    "resource_type_filter": 2,
    "pattern_type_filter": 3,
    "mechanism": 1,
    "num_partitions": -1,
    "replication_factor": -1,
}
"""Values without which an element is refused before anybody looks at the others."""


@dataclass(frozen=True)
class ListOf:
    """One list in a request: the names of the fields that lead to it, and the elements' type."""

    api_key: ApiKeys
    path: tuple[str, ...]
    element: Any

    def __str__(self) -> str:
        return f"{self.api_key.name.lower()}: {'.'.join(self.path)}"


def lists_of(api_key: ApiKeys) -> Iterator[ListOf]:
    """Every list of an API's request, however deep."""
    yield from _lists_in(api_key, API_TABLE[api_key].request, ())


def _lists_in(api_key: ApiKeys, cls: Any, path: tuple[str, ...]) -> Iterator[ListOf]:
    for name, hint in typing.get_type_hints(cls).items():
        element = _element_of(hint)
        if element is None or name == "unknown_tagged_fields":
            continue
        yield ListOf(api_key, (*path, name), element)
        if hasattr(element, "__struct_fields__"):
            yield from _lists_in(api_key, element, (*path, name))


def _element_of(hint: Any) -> Any:
    """The type of a list's elements; None if the field is no list."""
    for option in (hint, *typing.get_args(hint)):
        if typing.get_origin(option) is list:
            element = typing.get_args(option)[0]
            return element if element in (str, int, Uuid) or hasattr(element, "__struct_fields__") else None
    return None


def request_with(wanted: ListOf, count: int, *, same: bool) -> Any:
    """A request with `count` elements in one list, and one element in each list above it."""
    request = root = _plain(API_TABLE[wanted.api_key].request)
    for name in wanted.path[:-1]:
        element = _element_of(typing.get_type_hints(type(request))[name])
        setattr(request, name, [_numbered(element, 0)])
        request = getattr(request, name)[0]
    numbers = (0 if same else number for number in range(count))
    setattr(request, wanted.path[-1], [_numbered(wanted.element, number) for number in numbers])
    return root


def _plain(cls: Any) -> Any:
    request = cls()
    for name, value in (("acks", -1), ("timeout_ms", 30_000), ("allow_auto_topic_creation", False)):
        if hasattr(request, name):
            setattr(request, name, value)
    return request


def _numbered(element: Any, number: int) -> Any:
    """An element that differs from those of other numbers."""
    if element is str:
        return f"u{number:07d}"
    if element is int:
        return number
    if element is Uuid:
        return Uuid(struct.pack(">QQ", 7, number + 1))
    value = element()
    for name, hint in typing.get_type_hints(element).items():
        if str in (hint, *typing.get_args(hint)):
            setattr(value, name, f"u{number:07d}")
        elif hint is int and ("index" in name or name in ("partition", "partition_id")):
            setattr(value, name, number)
        elif name in PLAUSIBLE:
            setattr(value, name, PLAUSIBLE[name])
    return value


class Connection:
    """A plain connection that is asked one request at a time."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)

    def seconds(self, request: Any, version: int) -> float | None:
        """How long the answer takes; None if there is none."""
        writer = Writer()
        request.write(writer, version)
        flexible = request.FLEXIBLE_FROM is not None and version >= request.FLEXIBLE_FROM
        header = struct.pack(">hhih", request.API_KEY, version, 7, 1) + b"b" + b"\0" * flexible
        body = b"".join(bytes(part) for part in writer.parts())
        frame = struct.pack(">i", len(header) + len(body)) + header + body
        began = time.monotonic()
        try:
            self._socket.sendall(frame)
            size = self._socket.recv(4, socket.MSG_WAITALL)
            if len(size) < 4:
                return None
            self._socket.recv(struct.unpack(">i", size)[0], socket.MSG_WAITALL)
        except OSError:
            return None
        return time.monotonic() - began

    def close(self) -> None:
        self._socket.close()


def seconds_at(port: int, wanted: ListOf, count: int, *, same: bool) -> float | None:
    """How long a broker takes for the request, in the newest version that can carry it."""
    spec = API_TABLE[wanted.api_key]
    request = request_with(wanted, count, same=same)
    for version in range(spec.highest - spec.latest_unstable, spec.lowest - 1, -1):
        connection = Connection(port)
        try:
            return connection.seconds(request, version)
        except (ValueError, TypeError, AttributeError, struct.error):
            continue
        except Exception as error:  # a field that this version lacks
            if "version" not in str(error):
                raise
        finally:
            connection.close()
    return None


def wanted_lists() -> list[ListOf]:
    """The lists of everything that a broker's listener answers without mirroring."""
    asked = [
        row.api_key
        for row in ROWS
        if row.answered_by not in (AnsweredBy.CONTROLLER_LISTENER, AnsweredBy.REFUSED)
        and row.api_key not in NEEDS_MORE
        and row.gate is None
    ]
    return [wanted for api_key in asked for wanted in lists_of(api_key)]


def measured(port: int, sizes: tuple[int, ...], told: Callable[[str, list[float | None]], None]) -> None:
    """Asks for each list and size; `told` gets a name and the seconds at each size."""
    for wanted in wanted_lists():
        for same in (False, True):
            times: list[float | None] = []
            for count in sizes:
                times.append(seconds_at(port, wanted, count, same=same))
                if times[-1] is None:
                    break
            told(f"{wanted}{' (the same)' if same else ''}", times)


def growth(sizes: tuple[int, ...], times: list[float | None]) -> float:
    """How much more the largest request costs than in proportion to the one before; 0 if that
    cannot be judged.
    """
    if len(times) < len(sizes) or times[-1] is None or times[-2] is None or times[-1] < NOISE_S:
        return 0.0
    return times[-1] / times[-2] / (sizes[-1] / sizes[-2])


def run(context: Context) -> Iterator[Row]:
    sizes = context.choose(QUICK_SIZES, SIZES)
    ours: dict[str, list[float | None]] = {}
    theirs: dict[str, list[float | None]] = {}
    with EmbeddedCluster(1, processes=True, folder=context.folder / "cluster") as cluster:
        measured(cluster.nodes[0].port, sizes, ours.__setitem__)
    missing = missing_kafka()
    if missing is None:
        from support.peers.peers import KafkaPeer

        with KafkaPeer(context.folder / "apache") as peer:
            port = int(peer.bootstrap_servers.rpartition(":")[2])
            measured(port, sizes, theirs.__setitem__)
    for name, times in ours.items():
        last = times[-1]
        if last is None:
            continue
        grown, beside = growth(sizes, times), theirs.get(name, [None])[-1]
        note = missing or ("no answer of Apache's" if beside is None else f"Apache {beside:.2f} s")
        yield Row("many_elements", f"{name}, {sizes[-1]} elements", last, "s", "", None, note=note)
        if grown:
            met = grown < GROWTH
            yield Row("many_elements", f"{name}: growth", grown, "x", f"< {GROWTH}", met, note=note)
