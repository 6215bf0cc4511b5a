"""Broker CPU seconds per GB of records that librdkafka produces (acks=all) and fetches: ours
against Apache Kafka 4.3.

Both brokers run at the same time and are loaded in turn; each has been warmed up (Kafka halves its
CPU per GB by then). No roofline of its own: the peer is what must not be beaten by more than it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack

from benches import foreign, load
from benches.data import RECORD_BYTES
from benches.harness import Context, Row, cpu_seconds, median, median_ratio, run_command

CASES = (("lz4", 1), ("lz4", 10), ("none", 1), ("none", 10))
_ACTIONS = ("produce", "fetch")


class Loaded:
    """One broker and what it used, by (action, codec, partitions)."""

    def __init__(self, broker: foreign.Broker) -> None:
        self.broker = broker
        self.used: dict[tuple[str, str, int], list[float]] = {}

    def load(self, action: str, topic: str, codec: str, partitions: int, records: int) -> None:
        began = cpu_seconds(self.broker.pid)
        program = "produce" if action == "produce" else "consume"
        arguments = [program, self.broker.bootstrap_servers, topic, str(partitions), str(records), codec]
        run_command([sys.executable, "-m", "benches.load", *arguments])
        used = cpu_seconds(self.broker.pid) - began
        self.used.setdefault((action, codec, partitions), []).append(used / (records * RECORD_BYTES / 1e9))

    def round(self, name: str, codec: str, partitions: int, records: int) -> Iterator[None]:
        load.create_topic(self.broker.bootstrap_servers, name, partitions)
        for action in _ACTIONS:
            self.load(action, name, codec, partitions, records)
            yield
        load.delete_topic(self.broker.bootstrap_servers, name)


def run(context: Context) -> Iterator[Row]:
    records, rounds = context.choose(10_000, 150_000), context.choose(1, 3)
    missing = foreign.missing_kafka()
    with ExitStack() as stack:
        ours = Loaded(stack.enter_context(foreign.kmirror(context.folder / "ours")))
        loaded = [ours]
        if missing is None:
            loaded.append(Loaded(stack.enter_context(foreign.apache_kafka(context.folder / "apache"))))
        for each in loaded:
            for _ in each.round("warm-up", "lz4", 2, 2 * records):
                pass
            each.used.clear()
        for codec, partitions in CASES:
            for number in range(rounds):
                steps = [each.round(f"t-{codec}-{partitions}-{number}", codec, partitions, records) for each in loaded]
                for _ in range(len(_ACTIONS) + 1):
                    for step in steps:
                        next(step, None)
        for action in _ACTIONS:
            for codec, partitions in CASES:
                used = [each.used[action, codec, partitions] for each in loaded]
                peer_value = median(used[1]) if missing is None else None
                ratio = median_ratio(used[0], used[1]) if missing is None else 0.0
                yield Row(
                    "produce_fetch", f"{action} {codec}, {partitions} partitions", median(used[0]), "CPU-s/GB", "<= Apache Kafka's",
                    missing is None and ratio <= 1, peer=missing or foreign.KAFKA, peer_value=peer_value, note=f"{ratio:.2f} of Kafka's" if ratio else "",
                )  # fmt: skip
