"""A failover of 1,000 partitions: from RemoveTopicsFromMirror to all STOPPED, on a destination of
three brokers.

100 topics of 10 partitions with ten records each are mirrored between two clusters of three
brokers, the destination's in this process; one request removes all of them. Measured with one
replica and with three at the destination (then every step waits for the followers, too). The clock
runs from the request until the last partition is STOPPED at its leader: state record, epoch bump,
truncation, last mirror epoch, reset and the STOPPED record of all of them, each on its replicas.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from benches.harness import Context, Row
from benches.mirrored_clusters import (
    Shape,
    control_writes,
    create_and_add,
    managers,
    remove_all,
    two_clusters,
    wait_for_data,
    wait_for_state,
)
from kmirror.mirror.request_batcher import RequestBatcher

LIMIT_S = 5


def run(context: Context) -> Iterator[Row]:
    for replication_factor in (1, 3):
        shape = Shape(context.choose(10, 100), 10, replication_factor)
        yield from measure(context, shape)


def measure(context: Context, shape: Shape) -> Iterator[Row]:
    with two_clusters(context.folder / f"rf-{shape.replication_factor}", shape) as (source, destination):
        create_and_add(source, destination, shape)
        wait_for_state(destination, "MIRRORING", shape)
        wait_for_data(destination, shape)
        time.sleep(1)
        before = control_writes(destination)
        requests = managers(destination, lambda manager: _requests(manager.states.writes, manager.bumper.requests))
        began, used = time.perf_counter(), time.process_time()
        remove_all(destination, shape)
        wait_for_state(destination, "STOPPED", shape)
        took, cpu = time.perf_counter() - began, time.process_time() - used
        records, batches = (after - earlier for after, earlier in zip(control_writes(destination), before, strict=True))
        sent = managers(destination, lambda manager: _requests(manager.states.writes, manager.bumper.requests))
    writes, bumps = (sum(row[index] for row in sent) - sum(row[index] for row in requests) for index in (0, 1))
    what = f"{shape.partitions} partitions, RF {shape.replication_factor}"
    note = (
        f"{cpu:.1f} CPU-s of the destination; {records} state records in {batches} batches, {writes} state requests, {bumps} bump requests"
    )
    yield Row("mirror_failover", f"{what}: all STOPPED", took, "s", f"<= {LIMIT_S}", took <= LIMIT_S, note=note)


def _requests(*batchers: RequestBatcher[Any, Any, Any]) -> tuple[int, ...]:
    return tuple(batcher.request_count for batcher in batchers)
