"""What MirrorMaker 2 has copied of a campaign's load: seen as it arrives, compared record for record at
the end.

    Arrivals      reads the target for the whole campaign: which records are there, and since when
    same_records  what committed readers of both clusters see, partition by partition
    no_skips      a group that moves to a translated offset finds a copy of all that it has not read

A record is known by the number in its value (`Load`). Arrivals waits for records, and not for the end of
a partition: under load a reader may never be told that it stands at the end.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException
from confluent_kafka import TopicPartition as ConsumedPartition

from tools.campaigns.checks import read_all, until
from tools.campaigns.load import QUIET, Place

Partition = tuple[str, int]
Logs = Mapping[Partition, Sequence[tuple[int, bytes]]]
"""By partition of the source: offsets and values, in order."""


def number_of(value: bytes) -> int:
    """Returns the number of a record of `Load`."""
    return int(value.split(b"-", 2)[1])


class Arrivals:
    """Runs from the first line on; `arrived_s` says when a record was first there for committed readers
    (monotonic).
    """

    def __init__(self, bootstrap_servers: str, topics: Iterable[str], partitions: int) -> None:
        settings = {"bootstrap.servers": bootstrap_servers, "group.id": "arrivals", "isolation.level": "read_committed"}
        self._consumer = Consumer(settings | {"enable.auto.commit": False, "fetch.wait.max.ms": 50} | QUIET)
        self._consumer.assign([ConsumedPartition(topic, number, OFFSET_BEGINNING) for topic in topics for number in range(partitions)])
        self.arrived_s: dict[int, float] = {}
        self.again = 0
        """Records that came once more."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()
        self._consumer.close()

    def _read(self) -> None:
        while not self._ended.is_set():
            try:
                messages = self._consumer.consume(500, timeout=0.2)
            except KafkaException:
                continue  # a cluster that is away for a while
            now_s = time.monotonic()
            for message in messages:
                if message.error() is None:
                    self._note(number_of(message.value()), now_s)

    def _note(self, number: int, now_s: float) -> None:
        if number in self.arrived_s:
            self.again += 1
        self.arrived_s.setdefault(number, now_s)

    def wait_for(self, acknowledged: Mapping[Place, bytes], limit_s: float) -> None:
        """AssertionError if one of these records is not there in time."""
        missing = {number_of(value): place for place, value in acknowledged.items()}

        def all_there() -> bool:
            for number in [number for number in missing if number in self.arrived_s]:
                del missing[number]
            return not missing

        assert until(all_there, limit_s), f"after {limit_s:.0f} s {len(missing)} records are not there: {sorted(missing.values())[:5]}"


def stood_still(
    acknowledged: Mapping[Place, bytes], when_s: Mapping[Place, float], arrived_s: Mapping[int, float]
) -> dict[Partition, float]:
    """Returns, by partition of the source, how long the record waited that waited longest, from its
    acknowledgement at the source until committed readers of the target had it.
    """
    longest: dict[Partition, float] = {}
    for place, value in acknowledged.items():
        partition = place[:2]
        waited_s = arrived_s[number_of(value)] - when_s[place]
        longest[partition] = max(longest.get(partition, 0.0), waited_s)
    return longest


def committed_logs(bootstrap_servers: str, topics: Mapping[str, str], partitions: int) -> dict[Partition, list[tuple[int, bytes]]]:
    """What committed readers see; `topics` maps names at this cluster to those of the source."""
    logs: dict[Partition, list[tuple[int, bytes]]] = {}
    for topic, of_source in topics.items():
        records, _ = read_all(bootstrap_servers, topic, partitions, isolation="read_committed")
        for number in range(partitions):
            logs[of_source, number] = [(place[2], value) for place, (_, value) in sorted(records.items()) if place[1] == number]
    return logs


def same_records(source: Logs, target: Logs, *, exactly_once: bool) -> int:
    """Every record is there, in order: as often as at the source, or at least once. Returns how many of
    the target's are there again.
    """
    again = 0
    for partition, written in source.items():
        wanted, found = [value for _, value in written], [value for _, value in target[partition]]
        counts = Counter(found)
        again += sum(counts.values()) - len(counts)
        lost = [number_of(value) for value in wanted if value not in counts]
        assert not lost, f"{partition}: {len(lost)} of {len(wanted)} records are lost, such as {lost[:5]}"
        if exactly_once:
            doubled = [number_of(value) for value, count in counts.items() if count > 1]
            assert not doubled, f"{partition}: {len(doubled)} records are there twice, such as {doubled[:5]}"
        first = list(dict.fromkeys(found))
        places = [place for place, (one, other) in enumerate(zip(wanted, first, strict=False)) if one != other]
        assert not places, (
            f"{partition}: the order differs at {places[0]}: {number_of(wanted[places[0]])} and {number_of(first[places[0]])}"
        )
        assert len(first) == len(wanted), f"{partition}: {len(first)} different records instead of {len(wanted)}"
    return again


class Translated(NamedTuple):
    """A group that stands at `upstream` of a partition of the source goes on at `downstream`."""

    partition: Partition
    upstream: int
    downstream: int


def skips(source: Logs, target: Logs, translated: Iterable[Translated]) -> list[str]:
    """Returns what groups would miss that move: a line for each translation whose reader finds no copy of
    a record that it has not read.
    """
    needed: dict[Partition, list[int]] = {}
    for partition, written in source.items():
        last = {value: offset for offset, value in target[partition]}
        least: list[int] = []
        for _, value in reversed(written):
            least.append(min(last[value], least[-1]) if least else last[value])
        needed[partition] = least[::-1]
    found = []
    for one in dict.fromkeys(translated):
        written = source[one.partition]
        index = bisect_left(written, (one.upstream, b""))
        if index < len(written) and needed[one.partition][index] < one.downstream:
            found.append(f"{one}: a record that was not read is last at {needed[one.partition][index]}")
    return found
