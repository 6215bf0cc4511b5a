"""The demonstration's clients: producers over two topics, and a probe for a writable cluster."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from types import TracebackType
from typing import Any, Self

from kmirror.common.errors import KmirrorError

TOPICS = {"orders": (3, "lz4"), "payments": (1, "zstd")}
"""Topic -> (partitions, codec of the producer)."""
FLUSH_TIMEOUT_S = 30
BACKGROUND_BATCH = 200


def _quiet(settings: dict[str, Any]) -> dict[str, Any]:
    """Turn off librdkafka's own log lines about the cluster that we kill on purpose."""
    return {"log_level": 0} | settings


def _client_module(name: str) -> Any:
    try:
        import importlib

        return importlib.import_module(name)
    except ImportError as error:
        raise KmirrorError("the demonstration needs the package confluent-kafka: pip install 'kmirror[clients]'") from error


def require_clients() -> None:
    """KmirrorError if the clients' library is not installed."""
    _client_module("confluent_kafka.admin")


def create_topics(bootstrap_servers: str) -> None:
    """Create the topics with librdkafka's admin client."""
    admin_module = _client_module("confluent_kafka.admin")
    admin = admin_module.AdminClient(_quiet({"bootstrap.servers": bootstrap_servers}))
    topics = [admin_module.NewTopic(name, partitions, 1) for name, (partitions, _) in TOPICS.items()]
    for future in admin.create_topics(topics).values():
        future.result(FLUSH_TIMEOUT_S)


def record(number: int) -> bytes:
    """Returns a JSON order of about 400 bytes, half of it noise that does not compress."""
    noise = hashlib.sha512(str(number).encode()).hexdigest() + hashlib.sha512(str(-number).encode()).hexdigest()
    return json.dumps(
        {
            "order": number,
            "customer": f"customer-{number % 977}",
            "item": f"item-{number * 7919 % 10007}",
            "amount": number % 100,
            "note": noise,
        }
    ).encode()


class Workload:
    """Producers of both topics against one cluster. `acked` counts acknowledged records."""

    def __init__(self, bootstrap_servers: str) -> None:
        producer = _client_module("confluent_kafka").Producer
        common = {
            "bootstrap.servers": bootstrap_servers,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 5,
            "message.timeout.ms": 8000,
        }
        self._producers = {name: producer(_quiet(common | {"compression.type": codec})) for name, (_, codec) in TOPICS.items()}
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._next = 0
        self.acked = 0
        self.probes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop_background()

    def _on_delivery(self, error: object, message: object) -> None:
        if error is None:
            self.acked += 1

    def _send(self, count: int) -> None:
        names = list(TOPICS)
        for _ in range(count):
            name = names[self._next % len(names)]
            producer = self._producers[name]
            while True:
                try:
                    producer.produce(name, key=f"k{self._next % 5000}".encode(), value=record(self._next), on_delivery=self._on_delivery)
                    break
                except BufferError:
                    producer.poll(0.1)
            self._next += 1
        for producer in self._producers.values():
            producer.poll(0)

    def produce(self, count: int) -> int:
        """Write `count` records and wait until all are acknowledged; returns how many were."""
        before = self.acked
        self._send(count)
        for producer in self._producers.values():
            if producer.flush(FLUSH_TIMEOUT_S):
                raise KmirrorError(f"not every record was acknowledged within {FLUSH_TIMEOUT_S} s")
        return self.acked - before

    def start_background(self) -> None:
        self._thread = threading.Thread(target=self._run, name="kmirror-demo-workload", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._send(BACKGROUND_BATCH)
            time.sleep(0.002)

    def stop_background(self) -> None:
        """Stop writing; records that were not acknowledged are dropped."""
        self._stopping.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()
            for producer in self._producers.values():
                producer.purge()
                while producer.flush(1):
                    producer.purge()

    def wait_until_writable(self, timeout_s: float) -> None:
        """Probe every partition until each acknowledged a record; READ_ONLY_TOPIC is retried."""
        deadline = time.monotonic() + timeout_s
        for name, (partitions, _) in TOPICS.items():
            for partition in range(partitions):
                while not self._probe(name, partition):
                    if time.monotonic() > deadline:
                        raise KmirrorError(f"{name}-{partition} took no write within {timeout_s:.0f} s after the failover")

    def _probe(self, name: str, partition: int) -> bool:
        outcome: list[object] = []
        producer = self._producers[name]
        producer.produce(name, value=b"probe", partition=partition, on_delivery=lambda error, _: outcome.append(error))
        producer.flush(5)
        if outcome and outcome[0] is None:  # (`==` with None leaves an exception behind in librdkafka's KafkaError)
            self.probes += 1
            return True
        time.sleep(0.02)
        return False
