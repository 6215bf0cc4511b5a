"""What tells that MirrorMaker 2 works, how far it is behind, and how its work is divided."""

import json
import math
import re
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from scene import LIMIT_S, check, clusters, copied, mirror_maker, table, texts, until

from kmirror.mirrormaker.connect_offsets import parse_key, parse_value
from kmirror.mirrormaker.formats import Heartbeat

FILE = Path(__file__).with_name("mm2.properties")


def fetch(path: str) -> dict[str, dict[str, float]]:
    """What is served there; /health answers 503 while something does not run, with the reasons."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=LIMIT_S) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return json.load(error)


def measured() -> list[tuple[str, str, float, float]]:
    """Topic, partition, how many records B has acknowledged, and how long that took for the last ones."""
    rows = []
    for name, metrics in sorted(fetch("/metrics.json").items()):
        tags = dict(tag.split("=") for tag in name.partition(":")[2].split(","))
        if tags.get("topic") == "A.orders":
            rows.append((tags["topic"], tags["partition"], metrics["record-count"], metrics["replication-latency-ms"]))
    return rows


def partitions_of_tasks() -> list[str]:
    """How many each task has, as the log said last."""
    return sorted(re.findall(r"copies ([0-9]+) partitions", program.log)[-2:])


def heartbeat_age_ms() -> float:
    """How long ago A sent the newest heartbeat that has come to B; infinite before the first has come."""
    beats = [Heartbeat.deserialize_record(record.key, record.value) for record in b.read("A.heartbeats")]
    return int(time.time() * 1000) - max((beat.timestamp for beat in beats), default=-math.inf)


def stored_offsets() -> dict[int, int]:
    """The last offset of each partition of orders whose copy is stored as done."""
    found = {}
    for record in b.read("mm2-offsets.A.internal"):
        key = json.loads(parse_key(record.key))
        if key[1].get("topic") == "orders":
            found[key[1]["partition"]] = parse_value(record.value)
    return found


with clusters("A", "B") as (a, b):
    a.make("orders", partitions=4)
    a.produce("orders", texts("order", 200), partitions=4)
    with mirror_maker(FILE, [a, b]) as program:
        copied(a, "orders", b, "A.orders")
        port = int(until("the port is known", lambda: re.search(r"served on port (\d+)", program.log))[1])
        shares = until("both tasks have their partitions", lambda: (found := partitions_of_tasks()) == ["2", "3"] and found)
        health = until("everything runs", lambda: (found := fetch("/health"))["ready"] and found)
        told = {name: health[name] for name in ("ready", "reasons", "warnings", "not_looked_at")}
        print(f"/health: {json.dumps(told)}")
        print(f"looked at {len(health['looked_at'])} parts, such as {health['looked_at'][1]}")

        rows = until("B has acknowledged all records", lambda: (found := measured()) and sum(row[2] for row in found) == 200 and found)
        shown = [(*row[:3], f"~{row[3]} ms") for row in rows]
        table(("topic", "partition", "record-count", "replication-latency-ms"), *shown)
        print(f"tasks copy {' and '.join(shares)} partitions")

        until("heartbeats of A arrive", lambda: b.count("A.heartbeats"))
        print(f"\nthe newest heartbeat from A is ~{heartbeat_age_ms()} ms old")
        a.embedded.stop_node()
        until("it becomes older", lambda: heartbeat_age_ms() > 3000)
        print("A is away: the newest heartbeat from A is older than 3 s")
        a.embedded.start_node()
        returned = time.time()
        until("heartbeats of A arrive again", lambda: heartbeat_age_ms() < 1000 * (time.time() - returned))
        print(f"A is back: ~{heartbeat_age_ms()} ms")

    a.produce("orders", texts("order", 40, first=201), partitions=4)
    print("\nMirrorMaker 2 is stopped, and A goes on")
    ends = {record.partition: record.offset + 1 for record in a.read("orders")}
    stored = stored_offsets()
    table(
        ("partition", "end at A", "copied up to", "behind"), *((at, end, stored[at] + 1, end - stored[at] - 1) for at, end in ends.items())
    )
    check(sum(ends.values()) - sum(stored.values()) - len(ends) == 40, "the new records are what is missing")
