"""Sends mutated request frames to an embedded broker, and checks that nothing bad comes of them.

A `Campaign` sends `mutated_frames` over real sockets, several per connection, to the broker's and the
controller's listener. A frame that comes after one that closed the connection is sent again. A part
of the frames (`in_process`) is handed to the listeners' frame handlers without a socket, which
costs a third. An `Observer` produces and fetches on a connection of its own meanwhile. In the end
nothing unexpected was logged, no task and no connection is left over, the observer was never
disturbed, and the broker serves.

The only frames left out are those that any client may send to harm a broker and that would end the
campaign (`is_allowed_harm`): well-formed requests that delete or reconfigure the observer's topic,
unregister or fence brokers, change features, settings of brokers or quotas, create thousands of
partitions, or wait for minutes.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
import socket
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from kmirror import EmbeddedCluster
from kmirror.common.errors import KmirrorError
from kmirror.common.kafka_principal import ANONYMOUS, KafkaPrincipal
from kmirror.common.uuid import Uuid
from kmirror.network.request_context import CLOSE, Answer, ClientInformation
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.framing import read_response
from kmirror.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kmirror.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kmirror.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from support.brokers.mutated_frames import MAX_WAIT_MS, TOPICS, Mutator, captured_frames, decoded, encode, filled_frames, localised

OBSERVED = "undisturbed-by-anything"
BURST = 6
ABANDON_S = 0.5
FEW_PARTITIONS = 8
Handler = Callable[[memoryview, int, Any], Awaitable[Any]]
LAST_FRAME = struct.pack(">hhih", ApiKeys.API_VERSIONS, 0, 0x7EADBEEF, -1)
"""Ends a burst: its answer shows that everything before it was handled, also requests without an
answer.
"""


BY_BROKERS_ALONE = (ApiKeys.UNREGISTER_BROKER, ApiKeys.UPDATE_FEATURES, ApiKeys.ALTER_CLIENT_QUOTAS)
WAITS = ("max_wait_ms", "timeout_ms", "session_timeout_ms", "rebalance_timeout_ms", "timeout")


def is_allowed_harm(frame: bytes) -> bool:
    """Whether a well-formed request does what any client may do to a broker without access control,
    and would disturb the campaign.
    """
    if OBSERVED.encode() in frame:
        return True
    read = decoded(frame)
    if read is None:
        return False
    header, message = read
    api_key = ApiKeys(header.api_key)
    if api_key in BY_BROKERS_ALONE:
        return True
    if api_key is ApiKeys.ENVELOPE:
        return is_allowed_harm(bytes(message.request_data))
    if api_key is ApiKeys.BROKER_HEARTBEAT:
        return bool(message.want_fence or message.want_shut_down)
    if api_key in (ApiKeys.ALTER_CONFIGS, ApiKeys.INCREMENTAL_ALTER_CONFIGS):
        return any(resource.resource_type == 4 for resource in message.resources)
    if api_key is ApiKeys.CREATE_TOPICS:
        return any(FEW_PARTITIONS < topic.num_partitions <= 10_000 for topic in message.topics)
    if api_key is ApiKeys.CREATE_PARTITIONS:
        return any(FEW_PARTITIONS < topic.count <= 11_000 for topic in message.topics)
    return any(getattr(message, name, 0) > MAX_WAIT_MS for name in WAITS if isinstance(getattr(message, name, None), int))


class Observer(threading.Thread):
    """Produces and fetches on one connection.

    `problems` says what went wrong, `slowest_s` is the longest round trip.
    """

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._ended = threading.Event()
        self.problems: list[str] = []
        self.rounds = 0
        self.slowest_s = 0.0

    def run(self) -> None:
        with socket.create_connection(("127.0.0.1", self._port), 30) as connection:
            while not self._ended.is_set() and not self.problems:
                started = time.monotonic()
                try:
                    self._round(connection)
                except (OSError, KmirrorError, struct.error) as error:
                    self.problems.append(f"round {self.rounds}: {error!r}")
                self.slowest_s = max(self.slowest_s, time.monotonic() - started)
                self.rounds += 1
                time.sleep(0.01)

    def stop(self) -> None:
        self._ended.set()
        self.join(60)

    def _round(self, connection: socket.socket) -> None:
        value = f"value {self.rounds}".encode()
        batch = bytes(build_batch([Record(0, time.time_ns() // 1_000_000, b"key", value)]))
        produced = ProduceRequest(
            acks=-1, timeout_ms=30000, topic_data=[TopicProduceData(OBSERVED, partition_data=[PartitionProduceData(0, batch)])]
        )
        answer = self._exchange(connection, ApiKeys.PRODUCE, 9, produced).responses[0].partition_responses[0]
        if answer.error_code or answer.base_offset != self.rounds:
            self.problems.append(f"round {self.rounds}: produce answered {answer}")
        wanted = FetchPartition(partition=0, fetch_offset=self.rounds, partition_max_bytes=1 << 20)
        fetched = FetchRequest(max_wait_ms=0, topics=[FetchTopic(OBSERVED, partitions=[wanted])])
        data = self._exchange(connection, ApiKeys.FETCH, 12, fetched).responses[0].partitions[0]
        if data.error_code or value not in bytes(data.records or b""):
            self.problems.append(f"round {self.rounds}: fetch answered {data}")

    def _exchange(self, connection: socket.socket, api_key: ApiKeys, version: int, message: Any) -> Any:
        frame = encode(api_key, version, message, self.rounds)
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        size = struct.unpack(">i", _read(connection, 4))[0]
        correlation_id, answer = read_response(api_key, version, memoryview(_read(connection, size)))
        if correlation_id != self.rounds:
            self.problems.append(f"round {self.rounds}: the answer is that to {correlation_id}")
        return answer


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError("the connection was closed")
        data += part
    return data


EXPECTED_ERRORS = ("Error processing append operation on partition",)
"""Kafka also logs what producers do wrong as errors."""


WORK_OF_MIRRORS = ("mirror", "connect-")
"""Tasks that stay because well-formed frames created mirrors, which look for their sources for
ever.
"""


class Faults(logging.Handler):
    """Collects log records that must not occur: errors, and anything with a traceback."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        if (record.levelno >= logging.ERROR or record.exc_info) and not record.getMessage().startswith(EXPECTED_ERRORS):
            text = record.getMessage()
            if record.exc_info:
                text += " | " + logging.Formatter().formatException(record.exc_info)[-1500:]
            self.found[text[:2500]] += 1


@dataclass
class Outcome:
    """What a campaign found. `problems` is empty when all went well."""

    frames: int = 0
    in_process: int = 0
    connections: int = 0
    answered: int = 0
    closed: int = 0
    abandoned: int = 0
    left_out: int = 0
    rounds: int = 0
    slowest_round_s: float = 0.0
    seconds: float = 0.0
    rss_mib: tuple[float, float] = (0.0, 0.0)
    apis: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


class Campaign:
    """Owns one embedded broker and the frames for it."""

    def __init__(self, seed: int, *, mirroring: bool = True) -> None:
        self.cluster = EmbeddedCluster(
            mirroring=mirroring, config={"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}
        )
        self._seed = seed

    def run(
        self,
        frames: int,
        *,
        workers: int = 4,
        in_process: float = 0.0,
        limit_s: float = float("inf"),
        progress: Callable[[Outcome], None] | None = None,
    ) -> Outcome:
        """`in_process` is the part of the bursts that goes without sockets; after `limit_s` no more
        are sent.
        """
        self._in_process, self._deadline_s = in_process, time.monotonic() + limit_s
        faults = Faults()
        root = logging.getLogger()
        root.addHandler(faults)
        try:
            with self.cluster:
                return self._run(frames, workers, progress, faults)
        finally:
            root.removeHandler(faults)

    def _run(self, frames: int, workers: int, progress: Callable[[Outcome], None] | None, faults: Faults) -> Outcome:
        outcome = Outcome()
        started = time.monotonic()
        topic_ids = self._make_topics()
        mutator = Mutator(self.corpus(topic_ids), self._seed)
        observer = Observer(self.cluster.nodes[0].port)
        observer.start()
        warm_up = max(frames // 10, 1)
        self._send(mutator, warm_up, workers, outcome, progress)
        before = self._measure()
        self._send(mutator, frames - warm_up, workers, outcome, progress)
        observer.stop()
        outcome.rounds = observer.rounds - bool(observer.problems)
        after = self._settled(before)
        outcome.slowest_round_s = observer.slowest_s
        outcome.problems += observer.problems
        outcome.problems += [f"logged {count} times: {text}" for text, count in faults.found.items()]
        for what in ("tasks", "connections"):
            if after[what] > before[what]:
                outcome.problems.append(f"{what}: {before[what]} after a tenth of the frames, {after[what]} at the end")
        outcome.rss_mib = (before["rss"], after["rss"])
        self._check_served(outcome)
        outcome.seconds = time.monotonic() - started
        return outcome

    def corpus(self, topic_ids: list[Uuid]) -> list[bytes]:
        chance = random.Random(self._seed)
        return [localised(frame, chance, topic_ids) for frame in captured_frames() + filled_frames(topic_ids)]

    def _make_topics(self) -> list[Uuid]:
        request = CreateTopicsRequest([CreatableTopic(name, 2, 1) for name in (*TOPICS, OBSERVED)], 30000)
        with socket.create_connection(("127.0.0.1", self.cluster.nodes[0].port), 30) as connection:
            frame = encode(ApiKeys.CREATE_TOPICS, 7, request)
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            answer: Any = read_response(
                ApiKeys.CREATE_TOPICS, 7, memoryview(_read(connection, struct.unpack(">i", _read(connection, 4))[0]))
            )[1]
        return [topic.topic_id for topic in answer.topics if topic.name != OBSERVED]

    def _send(self, mutator: Mutator, frames: int, workers: int, outcome: Outcome, progress: Callable[[Outcome], None] | None) -> None:
        node = self.cluster.nodes[0]
        server = node.server
        assert server is not None and server.broker is not None and server.controller is not None
        handlers = (server.broker._listeners.sockets[0].handle, server.controller._socket_server.handle)
        sender = _Sender(mutator, (node.port, node.controller_port), handlers, outcome, progress)
        sender.in_process, sender.deadline_s = self._in_process, self._deadline_s
        self.cluster._call(sender.run(frames, workers))

    def _measure(self) -> dict[str, float]:
        async def tasks() -> int:
            return sum(not task.get_name().startswith(WORK_OF_MIRRORS) for task in asyncio.all_tasks())

        gc.collect()
        with open("/proc/self/statm", encoding="ascii") as statm:
            resident = int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
        return {"tasks": self.cluster._call(tasks()), "connections": self._connections(), "rss": resident}

    def _connections(self) -> int:
        ports = {f":{port:04X}" for port in (self.cluster.nodes[0].port, self.cluster.nodes[0].controller_port)}
        with open("/proc/net/tcp", encoding="ascii") as table:
            rows = [row.split() for row in table]
        return sum(row[1][-5:] in ports and row[3] in ("01", "08") for row in rows if len(row) > 3)

    def _settled(self, before: dict[str, float]) -> dict[str, float]:
        """Measures when nothing is left over, or after a while."""
        deadline = time.monotonic() + 20
        while True:
            after = self._measure()
            if time.monotonic() > deadline or all(after[what] <= before[what] for what in ("tasks", "connections")):
                return after
            time.sleep(0.2)

    def _check_served(self, outcome: Outcome) -> None:
        observer = Observer(self.cluster.nodes[0].port)
        observer.rounds = outcome.rounds
        with socket.create_connection(("127.0.0.1", self.cluster.nodes[0].port), 30) as connection:
            observer._round(connection)
        outcome.problems += [f"afterwards: {problem}" for problem in observer.problems]


@dataclass
class NoConnection:
    """The part of a connection that a frame handler looks at."""

    connection_id: str
    client_address: str = "127.0.0.1"
    principal: KafkaPrincipal = ANONYMOUS
    authenticator: None = None
    client_information: ClientInformation = field(default_factory=ClientInformation)


class _Sender:
    """The clients, on the broker's own loop, since two busy threads would mostly wait for each
    other. Several connections at a time, each with a burst of frames; what comes behind a frame
    that closed its connection waits for another one.
    """

    def __init__(
        self,
        mutator: Mutator,
        ports: tuple[int, int],
        handlers: tuple[Handler, Handler],
        outcome: Outcome,
        progress: Callable[[Outcome], None] | None,
    ) -> None:
        self._mutator, self._ports, self._handlers, self._outcome, self._progress = mutator, ports, handlers, outcome, progress
        self._ways = random.Random(0)
        self.in_process = 0.0
        self.deadline_s = float("inf")
        self._again: deque[bytes] = deque()
        self._left = 0

    async def run(self, frames: int, workers: int) -> None:
        self._left = frames
        await asyncio.gather(*(self._work() for _ in range(workers)))

    async def _work(self) -> None:
        while self._left > 0 and time.monotonic() < self.deadline_s:
            burst = [self._next() for _ in range(min(BURST, self._left))]
            self._left -= len(burst)
            listener = self._ways.random() < 0.25
            is_in_process = self._ways.random() < self.in_process
            done = await (self._hand_over(burst, listener) if is_in_process else self._exchange(burst, self._ports[listener]))
            for frame in burst[:done]:
                self._outcome.apis[_api_name(frame)] += 1
            self._again.extend(burst[done:])
            self._left += len(burst) - done
            self._outcome.frames += done
            if self._progress is not None:
                self._progress(self._outcome)

    def _next(self) -> bytes:
        if self._again:
            return self._again.popleft()
        while is_allowed_harm(frame := self._mutator.next_frame()):
            self._outcome.left_out += 1
        return frame

    async def _hand_over(self, burst: list[bytes], listener: int) -> int:
        """Does with each frame what the connection's task does, without a connection.

        An exception that escapes there escapes here, too.
        """
        outcome = self._outcome
        connection = NoConnection(f"no socket {outcome.in_process}")
        for frame in burst:
            outcome.in_process += 1
            task = asyncio.ensure_future(self._handlers[listener](memoryview(frame), 0, connection))
            await asyncio.wait([task], timeout=ABANDON_S)
            if not task.done():
                task.cancel()
                outcome.abandoned += 1
                continue
            escaped = task.exception()
            if escaped is not None:
                logging.getLogger(__name__).error("escaped: %s", frame.hex(), exc_info=escaped)
                continue
            answer = task.result()
            if answer is CLOSE:
                outcome.closed += 1
            else:
                outcome.answered += 1
                parts = answer.parts if isinstance(answer, Answer) else answer
                for part in parts or ():
                    if not isinstance(part, bytes | bytearray | memoryview):
                        part.to_bytes()
            await asyncio.sleep(0)
        return len(burst)

    async def _exchange(self, burst: list[bytes], port: int) -> int:
        """How many of the frames the broker has dealt with."""
        outcome = self._outcome
        outcome.connections += 1
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        answers = 0
        try:
            writer.write(b"".join(struct.pack(">i", len(frame)) + frame for frame in (*burst, LAST_FRAME)))
            async with asyncio.timeout(ABANDON_S):
                while True:
                    size = struct.unpack(">i", await reader.readexactly(4))[0]
                    if (await reader.readexactly(size))[:4] == LAST_FRAME[4:8]:
                        break
                    answers += 1
            outcome.answered += answers
            return len(burst)
        except TimeoutError:
            outcome.abandoned += 1
            answers = min(answers + 1, len(burst))
        except (asyncio.IncompleteReadError, ConnectionError):
            outcome.closed += 1
            outcome.answered += answers
            return min(answers + 1, len(burst))
        finally:
            writer.transport.abort()
        outcome.answered += answers
        return answers


def _api_name(frame: bytes) -> str:
    try:
        return ApiKeys(struct.unpack(">h", frame[:2])[0]).name
    except (ValueError, struct.error):
        return "none"
