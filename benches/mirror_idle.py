"""What 100 mirrored partitions cost when nothing happens: cores of the destination's process, one
node each side, default waits.

The destination waits in one long poll of replica.fetch.wait.max.ms in an incremental session,
whatever the number of partitions; what is left is a node's own life (heartbeats, its metadata log)
and the mirror's refresh every 30 s, which the measured time holds twice.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from benches.harness import Context, Row, cpu_seconds
from benches.mirror_source import mirrored

PARTITIONS = 100
LIMIT_CORES = 0.01


def run(context: Context) -> Iterator[Row]:
    seconds = context.choose(5, 60)
    with mirrored(context.folder, "idle", PARTITIONS) as (source, destination):
        time.sleep(context.choose(1, 10))
        began = [cpu_seconds(process.pid) for process in (destination, source)]
        time.sleep(seconds)
        used = [(cpu_seconds(process.pid) - before) / seconds for process, before in zip((destination, source), began, strict=True)]
    yield Row(
        "mirror_idle", f"destination of {PARTITIONS} idle mirrored partitions", used[0], "cores", f"<= {LIMIT_CORES}", used[0] <= LIMIT_CORES,
        peer="its source", peer_value=used[1],
    )  # fmt: skip
