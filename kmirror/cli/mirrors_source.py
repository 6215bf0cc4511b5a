"""What a mirror lacks of its source: in offsets, as the KIP counts, and in time.

DescribeMirrors takes SourceOffset and Lag from the high watermark of the destination's last fetch
(B51). An open transaction therefore keeps that lag above 0 although nothing more can be mirrored,
and while a source cannot be reached the last value stays. This module asks the source itself.
`last_stable_offset` is what the mirror can reach now. `time_lag_ms` is the age of the oldest record
that the source has and the mirror lacks, by the record's timestamp and this machine's clock; 0 when
it lacks none. It is the period of time that would be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kmirror.admin.admin_client import EARLIEST_TIMESTAMP, READ_COMMITTED, AdminClient
from kmirror.admin.admin_requests import NoBrokerError
from kmirror.admin.results import MirrorDescription, MirrorPartitionDescription
from kmirror.cli.mirrors_clients import SHORT_TIMEOUT_MS, MirrorClients
from kmirror.cli.user_errors import one_line
from kmirror.common.errors import ApiException, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.record_batch import iter_batches

FETCH_SIZE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class SourceEnd:
    """Where one partition ends and begins at the source, and the mirror's lag in time."""

    high_watermark: int
    last_stable_offset: int
    time_lag_ms: int | None = None
    log_start_offset: int | None = None

    def missing(self, destination_offset: int) -> int:
        """Returns how many offsets the mirror lacks."""
        return max(0, self.high_watermark - destination_offset)


SourceEnds = Mapping[tuple[str, TopicPartition], SourceEnd]
"""Source ends by mirror name and partition."""


async def source_ends(
    source: AdminClient, rows: Iterable[MirrorPartitionDescription], *, now_ms: int | None = None
) -> dict[TopicPartition, SourceEnd]:
    """Returns the source's ends of all partitions of the mirrored topics that it still has.

    Partitions without a row are included. With `now_ms` the lag in time is included.
    """
    ends = {TopicPartition(row.topic, row.partition): row.destination_offset for row in rows}
    described = await source.describe_topics({name.topic for name in ends})
    wanted = [TopicPartition(topic, index) for topic, found in described.items() for index in range(len(found.partitions))]
    if not wanted:
        return {}
    stable = await source.list_offsets(wanted, isolation_level=READ_COMMITTED)
    latest = await source.list_offsets(wanted)
    starts = await source.list_offsets(wanted, timestamp=EARLIEST_TIMESTAMP)
    found = {}
    for name in sorted(wanted):
        lag_ms = None
        if now_ms is not None and ends.get(name, -1) >= 0:
            lag_ms = await _time_lag_ms(source, name, ends[name], latest[name], now_ms)
        found[name] = SourceEnd(latest[name], stable[name], lag_ms, starts[name])
    return found


async def _time_lag_ms(source: AdminClient, name: TopicPartition, offset: int, high_watermark: int, now_ms: int) -> int | None:
    """Returns None when the source cannot tell: the records are deleted there, or moved away."""
    if offset >= high_watermark:
        return 0
    try:
        data = await source.fetch_records(name, offset, max_bytes=FETCH_SIZE_BYTES)
    except ApiException:
        return None
    for batch in iter_batches(data):
        for record in batch.records():
            if record.offset >= offset:
                return max(0, now_ms - record.timestamp)
    return None


def unseen(ends: Iterable[TopicPartition], rows: Iterable[MirrorPartitionDescription]) -> list[TopicPartition]:
    """Returns the source's partitions that no broker of the mirror reports.

    Either the topic has grown and its mirror has not yet, or the partition has no leader.
    """
    seen = {TopicPartition(row.topic, row.partition) for row in rows}
    return sorted(name for name in ends if name not in seen)


async def check_source_cluster(admin: AdminClient, source: AdminClient, mirror_name: str) -> None:
    """Raise KmirrorError if the mirror's servers lead to another cluster than it began with."""
    problem = await another_cluster(admin, source, mirror_name)
    if problem is not None:
        raise KmirrorError(f"{problem}: it will not catch up; change bootstrap.servers back, or fail over without waiting")


async def another_cluster(admin: AdminClient, source: AdminClient, mirror_name: str) -> str | None:
    """Returns a problem if the mirror's servers lead to another cluster than it began with (B36).

    Nothing is mirrored from there, and what that cluster has says nothing about what the mirror
    lacks. A source that does not answer may still be the right one.
    """
    known = next((mirror.source_cluster_id for mirror in await admin.list_mirrors() if mirror.mirror_name == mirror_name), "")
    try:
        found = (await source.describe_cluster()).cluster_id
    except (ApiException, NoBrokerError):
        return None
    return f"cluster {found} is not the source of mirror {mirror_name}, {known}" if known and known != found else None


async def source_ends_if_reachable(
    admin: AdminClient, source: AdminClient, mirror_name: str, rows: Iterable[MirrorPartitionDescription], *, now_ms: int | None = None
) -> tuple[dict[TopicPartition, SourceEnd], str | None]:
    """Returns the source's ends, or nothing and the reason why."""
    try:
        problem = await another_cluster(admin, source, mirror_name)
        if problem is not None:
            return {}, problem
        return await source_ends(source, rows, now_ms=now_ms), None
    except KmirrorError as error:
        return {}, one_line(error)


async def verbose_ends(clients: MirrorClients, mirrors: Iterable[MirrorDescription], tell: Callable[[str], None]) -> SourceEnds:
    """Returns the ends of each mirror's source.

    A source that cannot be asked is left out, and `tell` is told why.
    """
    found: dict[tuple[str, TopicPartition], SourceEnd] = {}
    for mirror in mirrors:
        try:
            source = await clients.source(mirror.mirror_name, timeout_ms=SHORT_TIMEOUT_MS)
        except KmirrorError as error:
            tell(f"mirror {mirror.mirror_name}: {one_line(error)}")
            continue
        now_ms = clients.runtime.clock.time_ms()
        ends, problem = await source_ends_if_reachable(clients.admin, source, mirror.mirror_name, mirror.partitions, now_ms=now_ms)
        if problem is not None:
            tell(f"mirror {mirror.mirror_name}: the source does not report its end offsets: {problem}")
        found |= {(mirror.mirror_name, name): end for name, end in ends.items()}
    return found
