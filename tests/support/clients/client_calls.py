"""The same calls to Java's clients and to ours, one after the other, their results compared.

A call is a list: its name (ours are Java's, with underscores), the client's name, the arguments.
`JavaClients` hands it to a JVM (tests/interop/java/programs/ClientCalls.java), `OurClients` makes it
on a loop in a thread. A result is plain data. An error is {"error", "message"}, where `error` is its
name in the protocol, or that of Java's class.

Each side has topics, groups and transactional ids of its own, so that neither sees what the other
does: `@-` in a text of a call stands for the side's name, and in a result the name is `@` again.
Producer ids are left out of texts.
`ClientPair.same` makes a call on both sides and fails with both results if they differ.
"""

from __future__ import annotations

import asyncio
import json
import pathlib
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Protocol

from kmirror.clients.cluster_client import PartitionInfo
from kmirror.clients.consumer import consumer_types
from kmirror.clients.consumer.consumer_types import ConsumerGroupMetadata, ConsumerRecords
from kmirror.clients.consumer.kafka_consumer import KafkaConsumer
from kmirror.clients.kafka_producer import KafkaProducer, OffsetAndMetadata, ProducerRecord
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.network.client import AuthenticationError
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from support.peers.peers import ROOT, start_java_program
from support.waiting import REACHED_S

PROGRAM: Final = ROOT / "tests" / "interop" / "java" / "programs" / "ClientCalls.java"
CLASSES: Final = {"IllegalStateError": "IllegalStateException", "ConfigError": "ConfigException", "ValueError": "IllegalArgumentException"}
"""Java's classes of errors that have no code in the protocol, by ours."""
QUIET_ROUNDS: Final = 10
PRODUCER_ID: Final = re.compile("producerId=[0-9]+")


class Clients(Protocol):
    """One side."""

    name: str

    def call(self, words: list[Any]) -> Any: ...


class JavaClients:
    """Java's, in a JVM that reads calls from its standard input."""

    name = "java"

    def __init__(self, process: subprocess.Popen[str], log: pathlib.Path) -> None:
        self._process, self._output = process, log.open(encoding="utf-8")
        self._line = ""
        self._calls = 0

    def call(self, words: list[Any]) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        self._calls += 1
        begin, deadline = f"= {self._calls} ", time.monotonic() + REACHED_S
        while not (line := self._next_line()).startswith(begin):
            assert self._process.poll() is None and time.monotonic() < deadline, f"Java does not answer {str(words)[:300]}: {line}"
            if not line:
                time.sleep(0.002)
        return json.loads(line.removeprefix(begin))

    def _next_line(self) -> str:
        """The next whole line, "" while there is none."""
        self._line += self._output.readline()
        if not self._line.endswith("\n"):
            return ""
        line, self._line = self._line, ""
        return line


class OurClients:
    """Ours, on a loop in a thread of its own."""

    name = "ours"

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="our clients")
        self._thread.start()
        self._runtime = AsyncioRuntime(loop=self._loop)
        self._clients: dict[str, KafkaProducer | KafkaConsumer] = {}

    def call(self, words: list[Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(self._outcome(words), self._loop).result(REACHED_S)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(REACHED_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(REACHED_S)
        self._runtime.close()
        self._loop.close()

    async def _close(self) -> None:
        for client in self._clients.values():
            if isinstance(client, KafkaProducer):
                await client.close(0)
            else:
                await client.close(timeout_ms=0)

    async def _outcome(self, words: list[Any]) -> Any:
        try:
            return await self._perform(*words)
        except Exception as error:  # noqa: BLE001 - whatever the call raises is its result
            return failure(error)

    async def _perform(self, call: str, name: Any, *given: Any) -> Any:
        if call == "producer":
            self._clients[name] = KafkaProducer(self._runtime, given[0])
        elif call == "consumer":
            self._clients[name] = KafkaConsumer(self._runtime, given[0])
        elif call == "settle":
            return await self._settle(name, *given)
        elif isinstance(client := self._clients[name], KafkaProducer):
            return await self._produce(client, call, *given)
        else:
            return await consume(client, call, *given)
        return None

    async def _produce(self, producer: KafkaProducer, call: str, *given: Any) -> Any:
        if call in ("send", "offer"):
            return await send(producer, given[0], flushed=call == "send")
        if call == "partitions_for":
            return infos(await producer.partitions_for(given[0]))
        if call == "send_offsets_to_transaction":
            found = {partition_of(row): OffsetAndMetadata(row[2], *row[3:]) for row in given[0]}
            return await producer.send_offsets_to_transaction(found, self._group_metadata(given[1]))
        return await getattr(producer, call)(*given)

    def _group_metadata(self, group: Any) -> ConsumerGroupMetadata:
        if not isinstance(group, str):
            return ConsumerGroupMetadata(*group)
        member = self._clients.get(group)
        return member.group_metadata() if isinstance(member, KafkaConsumer) else ConsumerGroupMetadata(group)

    async def _settle(self, names: list[str], total: int) -> dict[str, list[str]]:
        owned: dict[str, list[str]] = {}
        quiet, end = 0, time.monotonic() + REACHED_S / 2
        while quiet < QUIET_ROUNDS and time.monotonic() < end:
            now: dict[str, list[str]] = {}
            for name in sorted(names):
                member = self._clients[name]
                assert isinstance(member, KafkaConsumer)
                await member.poll(20)
                now[name] = texts(member.assignment())
            complete = sum(map(len, now.values())) == total and all(now.values())
            quiet = quiet + 1 if complete and now == owned else 0
            owned = now
        return owned


async def send(producer: KafkaProducer, rows: list[list[Any]], *, flushed: bool) -> list[Any]:
    """The outcome of each record; without `flushed`, only of those that were refused at once."""
    sent: list[Any] = []
    for topic, partition, timestamp, key, value, *headers in rows:
        pairs = [(name, data(text)) for name, text in headers[0]] if headers else []
        record = ProducerRecord(topic, data(value), data(key), pairs, partition, timestamp)
        try:
            sent.append(await producer.send(record))
        except Exception as error:  # noqa: BLE001 - the outcome of this record
            sent.append(failure(error))
    if not flushed:
        return [one if isinstance(one, dict) else None for one in sent]
    await producer.flush()
    outcomes: list[Any] = []
    for one in sent:
        try:
            written = one if isinstance(one, dict) else await one
        except Exception as error:  # noqa: BLE001
            written = failure(error)
        outcomes.append(written if isinstance(written, dict) else [written.topic, written.partition, written.offset, written.timestamp])
    return outcomes


async def consume(consumer: KafkaConsumer, call: str, *given: Any) -> Any:
    """One call of a consumer."""
    one = partition_of(given[0]) if call in ("seek", "position", "current_lag") else None
    if call == "poll":
        return await poll(consumer, given[0])
    if call == "poll_once":
        return rows_of(await consumer.poll(given[0]))
    if call == "seek" and one is not None:
        return consumer.seek(one, given[1])
    if call == "position" and one is not None:
        return await consumer.position(one)
    if call == "current_lag" and one is not None:
        return consumer.current_lag(one)
    if call == "subscribe":
        return consumer.subscribe(given[0])
    if call in ("assign", "pause", "resume", "seek_to_beginning", "seek_to_end"):
        return getattr(consumer, call)([partition_of(row) for row in given[0]])
    if call in ("assignment", "paused"):
        return texts(getattr(consumer, call)())
    if call == "subscription":
        return consumer.subscription()
    if call == "commit":
        offsets = given[0] and {
            partition_of(row): consumer_types.OffsetAndMetadata(row[2], metadata=(row[3:] or [""])[0]) for row in given[0]
        }
        return await consumer.commit(offsets)
    if call == "committed":
        found = await consumer.committed([partition_of(row) for row in given[0]])
        return {str(key): each and [each.offset, each.leader_epoch, each.metadata] for key, each in found.items()}
    if call in ("beginning_offsets", "end_offsets"):
        return {str(key): offset for key, offset in (await getattr(consumer, call)([partition_of(row) for row in given[0]])).items()}
    if call == "offsets_for_times":
        times = await consumer.offsets_for_times({partition_of(row): row[2] for row in given[0]})
        return {str(key): each and [each.offset, each.timestamp, each.leader_epoch] for key, each in times.items()}
    if call == "partitions_for":
        return infos(await consumer.partitions_for(given[0]))
    if call == "list_topics":
        return {topic: infos(rows) for topic, rows in (await consumer.list_topics()).items()}
    if call == "group_metadata":
        return [consumer.group_metadata().group_id, consumer.group_metadata().generation_id]
    return await getattr(consumer, call)()


async def poll(consumer: KafkaConsumer, count: int) -> list[list[Any]]:
    """Records until there are `count` of them."""
    found: list[list[Any]] = []
    end = time.monotonic() + REACHED_S / 2
    while len(found) < count and time.monotonic() < end:
        found += rows_of(await consumer.poll(200))
    return found


def rows_of(records: ConsumerRecords) -> list[list[Any]]:
    return [
        [
            *(record.topic, record.partition, record.offset, record.timestamp, record.timestamp_type.text),
            *([[name, text_of(value)] for name, value in record.headers], record.leader_epoch),
            *(text_of(record.key), text_of(record.value)),
        ]
        for record in records
    ]


def failure(error: Exception) -> dict[str, str]:
    if isinstance(error, ApiException):
        return {"error": error.error.name, "message": error.message}
    if isinstance(error, AuthenticationError):
        by_tls = "SSL handshake failed" in str(error)
        return {"error": "SslAuthenticationException" if by_tls else Errors.SASL_AUTHENTICATION_FAILED.name, "message": str(error)}
    name = type(error).__name__
    return {"error": CLASSES.get(name, name), "message": str(error)}


def data(text: str | None) -> bytes | None:
    return None if text is None else text.encode("latin-1")


def text_of(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")


def partition_of(row: list[Any]) -> TopicPartition:
    return TopicPartition(row[0], row[1])


def texts(partitions: list[TopicPartition]) -> list[str]:
    return sorted(str(one) for one in partitions)


def infos(rows: list[PartitionInfo]) -> list[list[Any]]:
    return [
        [row.topic, row.partition, -1 if row.leader is None else row.leader.id, len(row.replicas), len(row.in_sync_replicas)]
        for row in rows
    ]


class ClientPair:
    """Java's clients and ours, on one cluster. Every client gets `common` settings."""

    def __init__(self, java: JavaClients, ours: OurClients, common: Mapping[str, str]) -> None:
        self.sides: tuple[Clients, Clients] = (java, ours)
        self._common = dict(common)

    def both(self, call: str, name: Any, *given: Any) -> list[Any]:
        """Both results, not compared: Java's, ours."""
        words = [call, name, *given]
        if call in ("producer", "consumer"):
            words[2] = self._common | {key: str(value) for key, value in given[0].items()}
        return [edited(side.call(edited(words, "@", side.name)), side.name, "@") for side in self.sides]

    def same(self, call: str, name: Any, *given: Any, edit: Callable[[Any], Any] = lambda result: result) -> Any:
        """The result, which is the same on both sides; `edit` takes out what may differ."""
        java, ours = (edit(result) for result in self.both(call, name, *given))
        assert ours == java, f"{call} {name} {str(given)[:300]}:\n  Java {java}\n  ours {ours}"
        return ours

    def producer(self, name: str, **settings: Any) -> None:
        self.same("producer", name, dotted(settings))

    def consumer(self, name: str, **settings: Any) -> None:
        self.same("consumer", name, dotted(settings))


def dotted(settings: Mapping[str, Any]) -> dict[str, str]:
    return {name.replace("_", "."): str(value) for name, value in settings.items()}


def edited(value: Any, old: str, new: str) -> Any:
    """`value` with `new` for `old` wherever a `-` follows it."""
    if isinstance(value, str):
        return PRODUCER_ID.sub("producerId=<id>", value.replace(f"{old}-", f"{new}-"))
    if isinstance(value, list):
        return [edited(one, old, new) for one in value]
    if isinstance(value, dict):
        return {edited(key, old, new): edited(one, old, new) for key, one in value.items()}
    return value


@contextmanager
def client_pair(folder: pathlib.Path, common: Mapping[str, str]) -> Iterator[ClientPair]:
    """Both sides; `common` are settings of every client."""
    ours = OurClients()
    try:
        with start_java_program(PROGRAM, log=folder / "java-clients.txt") as process:
            yield ClientPair(JavaClients(process, folder / "java-clients.txt"), ours, common)
    finally:
        ours.close()
