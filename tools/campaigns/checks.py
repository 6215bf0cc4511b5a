"""The promises, each as a check that raises AssertionError with what it found."""

from __future__ import annotations

import contextlib
import io
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ConsumedPartition
from confluent_kafka.admin import AdminClient
from support.mirrors.mirror_harness import call, describe

from kmirror.cli import log_diff, mirrors
from kmirror.common.topic_partition import TopicPartition
from tools.campaigns.load import QUIET, Place

ISR_LIMIT_S = 60
MIRRORED_LIMIT_S = 300
READ_LIMIT_S = 300
COMPACTION = "compacted,control-only"
"""What the cleaners of two replicas may do at different times."""


def until(condition: Callable[[], object], limit_s: float) -> object:
    """Returns the first truthy value of `condition`, or the last value.

    An error that a broker answers for now counts as no value.
    """
    deadline = time.monotonic() + limit_s
    while True:
        value: object = None
        with contextlib.suppress(KafkaException, AssertionError, KeyError):
            value = condition()
        if value or time.monotonic() > deadline:
            return value
        time.sleep(0.3)


def everybody_in_sync(bootstrap_servers: str, *, limit_s: float = ISR_LIMIT_S) -> None:
    """Every partition has a leader, and all of its replicas are in the ISR, within a minute."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers} | QUIET)
    lacking: list[str] = ["no broker answered"]

    def whole() -> bool:
        topics = admin.list_topics(timeout=10).topics.values()
        lacking[:] = [
            f"{topic.topic}-{partition.id} has {sorted(partition.isrs)} of {sorted(partition.replicas)} and leader {partition.leader}"
            for topic in topics
            for partition in topic.partitions.values()
            if len(partition.isrs) < len(partition.replicas) or partition.leader < 0
        ]
        return not lacking

    assert until(whole, limit_s), f"after {limit_s:.0f} s {len(lacking)} partitions lack replicas: {'; '.join(lacking[:5])}"


def everything_mirrored(destination: str, mirror: str, partitions: int, *, limit_s: float = MIRRORED_LIMIT_S) -> None:
    """Every partition is MIRRORING without lag."""
    rows: list[dict[str, Any]] = []

    def level() -> bool:
        rows[:] = describe(destination, mirror)
        return len(rows) == partitions and all(row["state"] == "MIRRORING" and row["lag"] == 0 for row in rows)

    if not until(level, limit_s):
        late = [row for row in rows if row["state"] != "MIRRORING" or row["lag"] != 0]
        raise AssertionError(f"after {limit_s:.0f} s {len(rows)} of {partitions} partitions are described, not level: {late[:5]}")


def described(servers: str, mirror: str, partitions: int) -> None:
    """The mirror has as many partitions as it had."""
    assert until(lambda: len(describe(servers, mirror)) == partitions, ISR_LIMIT_S), (
        f"after {ISR_LIMIT_S} s mirror {mirror} does not have its {partitions} partitions"
    )


def mirror_verifies(destination: str, mirror: str) -> None:
    """`kafka-mirrors --verify` finds the mirror a prefix of its source."""
    with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.redirect_stderr(output):
        code = mirrors.main(["--bootstrap-server", destination, "--verify", "--mirror", mirror])
    assert code == 0, f"--verify exits with {code}: {output.getvalue()[-1500:]}"


def replicas_equal(log_dirs: Sequence[Path], *, only_common: bool = False) -> None:
    """The data directories of stopped brokers have the same partitions, with the same bytes.

    With `only_common` a directory may lack some partitions.
    """
    for other in log_dirs[1:]:
        with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.redirect_stderr(output):
            log_diff.main([str(log_dirs[0]), str(other), "--ignore", COMPACTION, "--json"])
        text = output.getvalue()
        assert text.lstrip().startswith("{"), f"{log_dirs[0]} and {other} cannot be compared: {text[-500:]}"
        different = [row for row in json.loads(text)["partitions"] if row["status"] != "equal" and not _is_open(row)]
        if only_common:
            different = [row for row in different if row["left"] and row["right"]]
        assert not different, f"{log_dirs[0]} and {other} differ: {json.dumps(different)[:1500]}"


def _is_open(row: Mapping[str, Any]) -> bool:
    """Whether a compacted log has only holes of which nothing tells whether a cleaner made them: one
    that was copied after a disk was lost has those of the log that it was copied from, in its newest
    segment, too. The values of its keys are compared by `same_last_values`."""
    return row["topic"].endswith("-compact") and set(row["difference_counts"]) == {"not-decided"} and row["error"] is None


def goes_on_mirroring(servers: str, mirror: str, source: str, partitions: Mapping[str, int], *, limit_s: float = ISR_LIMIT_S) -> None:
    """The mirror soon has what the source has now, whoever leads its partitions then."""
    wanted = [TopicPartition(topic, number) for topic, count in partitions.items() for number in range(count)]
    ends = call(source, lambda admin: admin.list_offsets(wanted, isolation_level=1))
    late: dict[str, tuple[int, int]] = {}

    def came() -> bool:
        here = {(row["topic"], row["partition"]): row["destinationOffset"] for row in describe(servers, mirror)}
        late.clear()
        late.update({f"{one.topic}-{one.partition}": (here.get((one.topic, one.partition), -1), end) for one, end in ends.items()
                     if (here.get((one.topic, one.partition)) or -1) < end})  # fmt: skip
        return not late

    assert until(came, limit_s), f"after {limit_s:.0f} s these partitions do not have what the source had (here, there): {late}"


def read_all(
    bootstrap_servers: str, topic: str, partitions: int, *, isolation: str
) -> tuple[dict[Place, tuple[bytes, bytes]], dict[int, int]]:
    """Returns every record of a topic by its place, and where each partition begins.

    A record is (key, value), with empty bytes for null.
    """
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "campaign", "enable.auto.commit": False, "isolation.level": isolation}
        | {"enable.partition.eof": True, "auto.offset.reset": "earliest", "check.crcs": True}
        | QUIET
    )
    found: dict[Place, tuple[bytes, bytes]] = {}
    try:
        starts = {number: consumer.get_watermark_offsets(ConsumedPartition(topic, number), timeout=30)[0] for number in range(partitions)}
        consumer.assign([ConsumedPartition(topic, number, starts[number]) for number in range(partitions)])
        ended: set[int] = set()
        deadline = time.monotonic() + READ_LIMIT_S
        while len(ended) < partitions and time.monotonic() < deadline:
            for message in consumer.consume(1000, timeout=1):
                if message.error() is None:
                    found[topic, message.partition(), message.offset()] = (message.key() or b"", message.value() or b"")
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
        assert len(ended) == partitions, f"{topic} was not read to its end in {READ_LIMIT_S} s"
    finally:
        consumer.close()
    return found, starts


def nothing_missing(bootstrap_servers: str, topic: str, partitions: int, acknowledged: Mapping[Place, bytes]) -> None:
    """Every acknowledged record of a topic without compaction is at its place, unless retention has
    removed it.
    """
    found, starts = read_all(bootstrap_servers, topic, partitions, isolation="read_committed")
    wanted = {place: value for place, value in acknowledged.items() if place[0] == topic and place[2] >= starts[place[1]]}
    missing = sorted(place for place, value in wanted.items() if found.get(place, (b"", None))[1] != value)
    assert not missing, f"{len(missing)} of {len(wanted)} acknowledged records of {topic} are gone or different: {missing[:5]}"


def same_last_values(source: str, destination: str, topic: str, partitions: int) -> None:
    """Readers of either cluster end with the same value of each key of a compacted topic."""
    known = [last_values(read_all(servers, topic, partitions, isolation="read_committed")[0]) for servers in (source, destination)]
    differing = sorted(name for name in known[0].keys() | known[1].keys() if known[0].get(name) != known[1].get(name))
    assert not differing, f"{len(differing)} keys of {topic} differ, of {len(known[0])}: {differing[:5]}"


def last_values(records: Mapping[Place, tuple[bytes, bytes]]) -> dict[tuple[int, bytes], bytes]:
    """Returns the value of each key of each partition, without keys that were deleted last."""
    values: dict[tuple[int, bytes], bytes] = {}
    for (_, partition, _), (key, value) in sorted(records.items()):
        values[partition, key] = value
    return {name: value for name, value in values.items() if value}


def strays(log_dirs: Iterable[Path]) -> set[str]:
    """Returns the logs that a broker set aside because the controller does not know them."""
    return {path.name for log_dir in log_dirs for path in log_dir.glob("*-stray*")}


def no_strays(log_dirs: Iterable[Path]) -> None:
    found = strays(log_dirs)
    assert not found, f"{len(found)} logs were set aside: {sorted(found)[:5]}"
