"""What tests of whole mirrors share: an operator (kafka-mirrors in this process), waiting, and raw logs of both sides."""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import time
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kmirror.cli import mirrors

FAST_MIRROR = {
    "mirror.metadata.refresh.interval.ms": "500",
    "mirror.truncation.backoff.ms": "300",
    "mirror.fetch.backoff.ms": "100",
    "mirror.topic.num.partitions": "3",
}
"""Broker properties with which a test need not wait."""


def wait_for(condition: Callable[[], Any], what: str, timeout_s: float = 40) -> Any:
    """The first true result of `condition`; AssertionError naming `what` (and the last result) otherwise."""
    deadline = time.monotonic() + timeout_s
    while True:
        result = condition()
        if result:
            return result
        assert time.monotonic() < deadline, f"waited {timeout_s} s for {what}; last: {result!r}"
        time.sleep(0.1)


def kafka_mirrors(bootstrap_servers: str, *arguments: str) -> str:
    """Run `kafka-mirrors` against a cluster; its output."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = mirrors.main(["--bootstrap-server", bootstrap_servers, *arguments])
    assert code == 0, out.getvalue() + err.getvalue()
    return out.getvalue()


def create_mirror(folder: pathlib.Path, destination: str, source: str, name: str) -> None:
    config = folder / f"{name}-{destination.rpartition(':')[2]}.properties"
    config.write_text(f"bootstrap.servers={source}\n")
    kafka_mirrors(destination, "--create", "--mirror", name, "--mirror-config", str(config))


def describe(bootstrap_servers: str, name: str) -> list[dict[str, Any]]:
    """Rows of `--describe --json`."""
    rows: list[dict[str, Any]] = json.loads(kafka_mirrors(bootstrap_servers, "--describe", "--mirror", name, "--json"))
    return rows


def wait_states(bootstrap_servers: str, name: str, state: str, *, partitions: int, lag: int | None = None, timeout_s: float = 40) -> None:
    """Until `partitions` rows are all in `state` (and have that lag)."""

    def reached() -> bool:
        rows = describe(bootstrap_servers, name)
        seen.clear()
        seen.extend(rows)
        return len(rows) == partitions and all(row["state"] == state and (lag is None or row["lag"] == lag) for row in rows)

    seen: list[dict[str, Any]] = []
    try:
        wait_for(reached, f"{partitions} partitions of {name} in {state}", timeout_s)
    except AssertionError as error:
        raise AssertionError(f"{error}: {seen}") from None


def log_bytes(data_dir: pathlib.Path, folder: str) -> bytes:
    """The concatenated `.log` files of one partition folder."""
    return b"".join(path.read_bytes() for path in sorted((data_dir / folder).glob("*.log")))


def assert_equal_logs(left: pathlib.Path, right: pathlib.Path, folders: Iterable[str], *, timeout_s: float = 30) -> None:
    """Both sides' logs become equal (they may still be in flight when asked) and are not empty."""
    for folder in folders:
        wait_for(lambda folder=folder: log_bytes(left, folder) == log_bytes(right, folder), f"equal logs of {folder}", timeout_s)
        assert log_bytes(left, folder), f"{folder} is empty on both sides"


def quiet(settings: dict[str, Any]) -> dict[str, Any]:
    return {"log_level": 0} | settings


def create_topic(bootstrap_servers: str, name: str, partitions: int = 1, **config: str) -> None:
    admin = AdminClient(quiet({"bootstrap.servers": bootstrap_servers}))
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(20)


def produce(
    bootstrap_servers: str, topic: str, first: int, count: int, *, codec: str = "none", partitions: int = 1, **settings: Any
) -> None:
    """`count` records with key and value of their number, all acknowledged."""
    errors: list[Any] = []
    producer = Producer(quiet({"bootstrap.servers": bootstrap_servers, "compression.type": codec, "linger.ms": 2, **settings}))
    for number in range(first, first + count):
        producer.produce(
            topic,
            key=f"k{number % 50}".encode(),
            value=f"v{number}".encode() * 5,
            partition=number % partitions,
            on_delivery=lambda error, _: errors.append(error) if error else None,
        )
        if number % 100 == 99:
            producer.flush(10)
    assert producer.flush(30) == 0 and not errors, errors[:3]


def produce_transactions(bootstrap_servers: str, topic: str) -> None:
    """Committed, aborted and again committed transactions."""
    for index, commit in enumerate((True, False, True)):
        producer = Producer(quiet({"bootstrap.servers": bootstrap_servers, "transactional.id": f"{topic}-{index}"}))
        producer.init_transactions(30)
        for round_number in range(3):
            producer.begin_transaction()
            for number in range(10):
                producer.produce(topic, key=f"t{index}-{round_number}-{number}".encode(), value=b"x" * 50)
            producer.flush(10)
            (producer.commit_transaction if commit else producer.abort_transaction)(30)
