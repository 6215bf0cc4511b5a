"""Ten thousand mirrored partitions: 1,000 topics of 10 partitions, one replica, between two
clusters of three brokers; the destination's in this process.

`__mirror_state` has 50 partitions on three replicas. The clock runs from CreateMirror and one
AddTopicsToMirror of all topics (the destination creates them, with the source's ids) until every
partition is MIRRORING at its leader; then records are produced into the first and the last topic
and must arrive. Memory is what the destination's process grew by from its start until then, a
mirrored partition; control writes are the records and batches of `__mirror_state`.
"""

from __future__ import annotations

import pathlib
import time
from collections.abc import Iterator

from benches.harness import Context, Row
from benches.mirrored_clusters import (
    RECORDS_A_BATCH,
    Shape,
    control_writes,
    create_and_add,
    fill,
    managers,
    two_clusters,
    wait_for_data,
    wait_for_state,
)

LIMIT_S = 60
ARRIVAL_LIMIT_S = 2


def resident_bytes() -> int:
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096


def run(context: Context) -> Iterator[Row]:
    shape = Shape(context.choose(100, 1000), 10, 1)
    with two_clusters(context.folder, shape) as (source, destination):
        before = resident_bytes()
        began, used = time.perf_counter(), time.process_time()
        create_and_add(source, destination, shape)
        added = time.perf_counter() - began
        wait_for_state(destination, "MIRRORING", shape)
        took, cpu = time.perf_counter() - began, time.process_time() - used
        wait_for_data(destination, shape)
        caught_up = time.perf_counter() - began
        memory = (resident_bytes() - before) / shape.partitions
        records, batches = control_writes(destination)
        sent = managers(destination, lambda manager: (manager.states.writes.request_count, manager.states.reads.request_count))
        time.sleep(3)
        fill(source, shape, only=[shape.names[0], shape.names[-1]])
        arrival = time.perf_counter()
        wait_for_data(destination, shape, records=2 * RECORDS_A_BATCH)
        arrived = time.perf_counter() - arrival
    writes, reads = (sum(row[index] for row in sent) for index in (0, 1))
    what = f"{shape.partitions} partitions, RF 1"
    yield Row("mirror_scale", f"{what}: all MIRRORING", took, "s", f"<= {LIMIT_S}", took <= LIMIT_S,
              note=f"{cpu:.1f} CPU-s of the destination; added after {added:.1f} s, caught up after {caught_up:.1f} s")  # fmt: skip
    yield Row("mirror_scale", f"{what}: a record arrives", arrived, "s", f"<= {ARRIVAL_LIMIT_S}", arrived <= ARRIVAL_LIMIT_S)
    yield Row("mirror_scale", f"{what}: memory a partition", memory / 1000, "KB", "", None, note="growth of the destination's process")
    yield Row("mirror_scale", f"{what}: control records", float(records), "records", "", None,
              note=f"in {batches} batches; {writes} write and {reads} read requests to coordinators")  # fmt: skip
