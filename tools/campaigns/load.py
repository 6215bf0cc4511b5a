"""Load from librdkafka, remembered record by record: idempotent and transactional producers until
they are ended.

A record counts as acknowledged when its delivery was reported, and a record of a transaction only
when the commit was. A transaction with an unknown end (the commit failed, or its answer was lost)
counts neither way. `acknowledged` maps (topic, partition, offset) to the value, and `when_s` to the
time of the acknowledgement (monotonic).

The rate is bounded, because the campaign tests failures and not speed: two cores carry the brokers
of three clusters and their load.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

Place = tuple[str, int, int]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PAUSE_S = 0.1
FLUSH_S = 120
QUIET = {"log_level": 0, "reconnect.backoff.max.ms": 1000, "socket.timeout.ms": 10_000}


class Load:
    """Runs from the first line on.

    `keyed` topics get keys of a small set, and tombstones now and then.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topics: Sequence[str],
        partitions: int,
        *,
        seed: int,
        keyed: Sequence[str] = (),
        transactional: Sequence[str] = (),
        producers: int = 2,
        prefix: str = "load",
    ) -> None:
        self._servers, self._topics, self._partitions = bootstrap_servers, list(topics), partitions
        self._keyed, self._transactional, self._prefix = set(keyed), list(transactional), prefix
        self.acknowledged: dict[Place, bytes] = {}
        self.when_s: dict[Place, float] = {}
        self.commits = 0
        self.aborts = 0
        self.refused: dict[str, int] = {}
        """Errors by text: an unreachable or stalled cluster refuses, which breaks no promise."""
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._number = 0
        works: list[tuple[Callable[[int, random.Random], None], int]] = [(self._idempotent, index) for index in range(producers)]
        if transactional:
            works.append((self._transactions, producers))
        self._threads = [threading.Thread(target=work, args=(index, random.Random(seed * 100 + index))) for work, index in works]
        for thread in self._threads:
            thread.start()

    def end(self) -> dict[Place, bytes]:
        """Ends the load; from now on every record is acknowledged or refused."""
        self._ended.set()
        for thread in self._threads:
            thread.join()
        return self.acknowledged

    def _settings(self, codec: str) -> dict[str, Any]:
        settings = {"bootstrap.servers": self._servers, "enable.idempotence": True, "linger.ms": 20, "compression.type": codec}
        return settings | QUIET

    def _note(self, error: object) -> None:
        with self._lock:
            text = str(error)[:100]
            self.refused[text] = self.refused.get(text, 0) + 1

    def _value(self, chance: random.Random) -> bytes:
        with self._lock:
            self._number += 1
            number = self._number
        return f"{self._prefix}-{number}-".encode() + chance.randbytes(chance.randint(10, 200)) + b"x" * chance.randint(0, 800)

    def _send(self, producer: Producer, topic: str, chance: random.Random, into: dict[Place, bytes]) -> None:
        value = self._value(chance)
        key = f"k{chance.randrange(200)}" if topic in self._keyed else None
        tombstone = topic in self._keyed and chance.random() < 0.05

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._note(error)
                return
            place = (topic, message.partition(), message.offset())
            with self._lock:
                into[place] = b"" if tombstone else value
                if into is self.acknowledged:
                    self.when_s[place] = time.monotonic()

        sent = None if tombstone else value
        producer.produce(topic, value=sent, key=key, partition=chance.randrange(self._partitions), on_delivery=delivered)

    def _idempotent(self, index: int, chance: random.Random) -> None:
        producer = Producer(self._settings(CODECS[index % len(CODECS)]))
        while not self._ended.is_set():
            try:
                for _ in range(chance.randint(1, 8)):
                    self._send(producer, chance.choice(self._topics), chance, self.acknowledged)
                producer.poll(0)
            except BufferError:
                producer.poll(0.5)
            except KafkaException as error:
                self._note(error)  # a fatal error of the idempotent producer: begin with another one
                producer = Producer(self._settings(CODECS[index % len(CODECS)]))
            time.sleep(PAUSE_S * (0.5 + chance.random()))
        producer.flush(FLUSH_S)

    def _transactions(self, index: int, chance: random.Random) -> None:
        producer: Producer | None = None
        while not self._ended.is_set():
            written: dict[Place, bytes] = {}
            try:
                if producer is None:
                    settings = {
                        "transactional.id": f"{self._prefix}-{index}",
                        "transaction.timeout.ms": 30_000,
                        "message.timeout.ms": 25_000,
                    }
                    producer = Producer(self._settings("lz4") | settings)
                    producer.init_transactions(60)
                producer.begin_transaction()
                for _ in range(chance.randint(1, 12)):
                    self._send(producer, chance.choice(self._transactional), chance, written)
                producer.flush(20)
                self._end_transaction(producer, written, aborts=chance.random() < 0.3)
            except (KafkaException, BufferError) as error:
                self._note(error)
                producer = None  # its transaction ends by its timeout, or by the next producer of its id
            time.sleep(PAUSE_S * chance.random())
        del producer

    def _end_transaction(self, producer: Producer, written: dict[Place, bytes], *, aborts: bool) -> None:
        if aborts:
            producer.abort_transaction(60)
            self.aborts += 1
            return
        producer.commit_transaction(60)
        with self._lock:
            self.when_s |= dict.fromkeys(written, time.monotonic())
            self.acknowledged.update(written)
        self.commits += 1
