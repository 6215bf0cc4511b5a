"""`kafka-mirrors --verify`: is each mirrored log a prefix of its source's, while both clusters run?

What the source has before the mirror's log start counts as missing (`verify.front`), whatever
deleted it here: a failback would delete it at the source, too. What only the mirror has there is
told. Every verdict names the offsets of both sides.

Whole batches are fetched unchanged from both clusters, from the higher log start offset to the end
of the mirror's part of its log, and compared byte by byte (`verify.log_diff`): offsets, leader
epochs, CRCs, producers, timestamps and all other contents. The mirror's part ends at its high
watermark. For a STOPPED partition it ends where the mirror's own leader epochs begin, after the
last mirror epoch. In a compacted topic, what only one side's cleaner has removed or rewritten does
not count (FEA2b), but only if a cleaner may remove it: it is a difference if one side lacks the
newest record of a key, or the marker of a transaction that still has batches there
(`verify.compaction_evidence`). Only the source's cleanup.policy makes a topic compacted. A `--sample` does not read that far, and attributes every hole to
the cleaner; nor does it count records before a log start.

The mirror is asked for its end before the source, so records that arrive in between are not
differences. A partition that cannot be read to its end, because retention deleted it meanwhile or a
broker went away, is compared again. `--from` begins later; `--sample` compares only n places of
each partition.

Exit code 0: every log is a prefix. 1: one is not; the first difference is named. 2: one could not
be read, or is FAILED.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

import msgspec

from kmirror.admin.admin_client import EARLIEST_TIMESTAMP, AdminClient
from kmirror.admin.results import ConfigResourceType, MirrorDescription, MirrorPartitionDescription
from kmirror.cli.mirrors_clients import MirrorClients
from kmirror.cli.mirrors_fronts import deletion_of
from kmirror.cli.mirrors_leaderless import is_leaderless, topics_without_leader, with_leaderless
from kmirror.cli.mirrors_source import another_cluster
from kmirror.cli.mirrors_tables import in_order
from kmirror.cli.mirrors_topics import of_topics, warn
from kmirror.cli.mirrors_verify_sample import BelievedHoles, Range, sample_of
from kmirror.cli.mirrors_verify_text import WHERE, verdict_line
from kmirror.cli.mirrors_wait import FAILED, STOPPED, Progress, progress_bar
from kmirror.cli.user_errors import exit_code
from kmirror.common.errors import ApiException, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.verify.cleaner_facts import CleanerFacts
from kmirror.verify.compaction_evidence import CompactionEvidence
from kmirror.verify.fetched_log import FetchedLog
from kmirror.verify.front import Deletion, front_range, scan_front, why_gone, with_front
from kmirror.verify.log_diff import DiffSettings, diff_logs
from kmirror.verify.verdict import (
    DifferenceKind,
    Front,
    LogDiffReport,
    PartitionVerdict,
    Status,
    error_verdict,
    make_report,
    to_json,
)

FETCH_SIZE_BYTES: Final = 4 << 20
PREPARING: Final = "PREPARING"
MAX_RETRIES: Final = 10
RETRY_PAUSE_MS: Final = 300
HIGH_WATERMARK_TRIES: Final = 10
HIGH_WATERMARK_PAUSE_MS: Final = 200
SETTINGS: Final = DiffSettings(allow_lag=True, max_differences=1_000)
"""For a topic whose source has no cleaner: nothing excuses a hole."""
UNKNOWN_POLICY_SETTINGS: Final = DiffSettings(ignored=frozenset({DifferenceKind.COMPACTED}), allow_lag=True, max_differences=1_000)
COMPACTED_SETTINGS: Final = DiffSettings(ignored=frozenset({DifferenceKind.COMPACTED}), max_differences=1_000)
"""Without `allow_lag`: the mirror is already past a record that it lacks at the end of its part."""

NOT_COMPARED = 2
T = TypeVar("T")


def run_verify(options: argparse.Namespace) -> int:
    """Returns the exit code.

    An error that does not concern a single partition is one line on stderr and exit code 2.
    """

    def verify() -> int:
        with asyncio.Runner() as runner:
            runtime = AsyncioRuntime(loop=runner.get_loop(), worker_count=1)
            try:
                return _verify(MirrorClients(runtime, options), runner.run)
            finally:
                runtime.close()

    return exit_code(verify, failed="kafka-mirrors: ", failure_code=2)


class Ask:
    """Runs the loop until a question is answered, because `verify` is synchronous."""

    def __init__(self, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._run = run

    def __call__(self, question: Coroutine[Any, Any, T]) -> T:
        answer: T = self._run(question)
        return answer


def _verify(clients: MirrorClients, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> int:
    ask = Ask(run)
    options = clients.options
    try:
        mirrors = list(ask(clients.admin.describe_mirrors([options.mirror] if options.mirror else [])).values())
        problems = ask(topics_without_leader(clients.admin, mirrors))
        for problem in problems:
            warn(problem)
        mirrors = ask(with_leaderless(clients.admin, mirrors))
        if options.topic:
            mirrors = of_topics(mirrors, options.topic)
        rows = in_order(mirrors)
        verdicts: list[PartitionVerdict] = []
        state = RunState()
        with progress_bar("verifying") as progress:
            for done, (mirror_name, row) in enumerate(rows):
                checker = PartitionChecker(ask, clients, mirror_name, row, state)
                verdicts.append(checker.verdict(_partition_progress(progress, done, len(rows), f"{row.topic}-{row.partition}")))
        verdicts += [found for mirror in mirrors for found in ask(not_reported(clients, mirror))]
    finally:
        clients.close()
    report = make_report("source", "mirror", "live", verdicts)
    lines = "\n".join(map(verdict_line, report.partitions)) or "No mirror partitions found: nothing was compared"
    print(to_json_text(report) if options.json else lines)
    is_incomplete = bool(problems) or not verdicts
    return NOT_COMPARED if is_incomplete and not report.exit_code else report.exit_code


async def not_reported(clients: MirrorClients, mirror: MirrorDescription) -> list[PartitionVerdict]:
    """Returns a verdict for each partition of a mirrored topic that only the source has.

    A topic that was failed over does not grow with its source any more. If the source cannot be
    asked, the verdicts on the other partitions say so.
    """
    topics = {row.topic for row in mirror.partitions if row.state != STOPPED}
    known = {TopicPartition(row.topic, row.partition) for row in mirror.partitions}
    if not topics:
        return []
    try:
        source = await clients.source(mirror.mirror_name)
        if await another_cluster(clients.admin, source, mirror.mirror_name) is not None:
            return []
        described = await source.describe_topics(topics)
        names = [TopicPartition(topic, index) for topic, found in described.items() for index in range(len(found.partitions))]
        wanted = [name for name in names if name not in known]
        ends = await source.list_offsets(wanted) if wanted else {}
    except KmirrorError:
        return []
    text = "no broker of the mirror reports it, and the source's log ends at"
    return [error_verdict(name.topic, name.partition, f"{text} {ends[name]}") for name in wanted]


def _partition_progress(progress: Progress, done: int, total: int, name: str) -> Callable[[int], None]:
    return lambda size: progress(done, total, f"{name}, {size >> 20} MiB")


class RunState:
    """What the partitions of one run share.

    It remembers which topics a cluster has and compacts, so each is asked for once. It also limits
    how often unreadable partitions are retried in all, so that a cluster that is down does not cost
    its time for each partition.
    """

    def __init__(self) -> None:
        self.retries_left = MAX_RETRIES
        self._configs: dict[tuple[AdminClient, str], dict[str, str] | None] = {}
        self._other_clusters: dict[str, str | None] = {}
        self._partitions: dict[tuple[AdminClient, str], int] = {}

    async def another_cluster(self, admin: AdminClient, source: AdminClient, mirror_name: str) -> str | None:
        """Returns why the source is another cluster than the mirror's (B36), or None.

        What another cluster has is not a difference of the mirror.
        """
        if mirror_name not in self._other_clusters:
            self._other_clusters[mirror_name] = await another_cluster(admin, source, mirror_name)
        return self._other_clusters[mirror_name]

    async def has(self, admin: AdminClient, name: TopicPartition) -> bool:
        """Whether the cluster has the partition.

        Asking for the offsets of a missing partition would take a whole request timeout, because it
        might be a new one.
        """
        topic = name.topic
        if (admin, topic) not in self._partitions:
            described = await admin.describe_topics([topic])
            self._partitions[admin, topic] = len(described[topic].partitions) if topic in described else 0
        return name.partition < self._partitions[admin, topic]

    async def configs(self, admin: AdminClient, topic: str) -> dict[str, str] | None:
        """Returns a topic's configs in effect; None if they may not be seen."""
        if (admin, topic) not in self._configs:
            try:
                entries = await admin.describe_configs(ConfigResourceType.TOPIC, topic)
                found = {entry.name: entry.value or "" for entry in entries}
            except ApiException:
                found = None
            self._configs[admin, topic] = found
        return self._configs[admin, topic]

    async def deletion(self, admin: AdminClient, topic: str) -> Deletion:
        """Returns what a cluster deletes the topic's records by, as far as it may be seen."""
        return deletion_of(await self.configs(admin, topic))


class PartitionChecker:
    """Compares one partition."""

    def __init__(self, ask: Ask, clients: MirrorClients, mirror_name: str, row: MirrorPartitionDescription, state: RunState) -> None:
        self._ask = ask
        self._clients = clients
        self._mirror_name = mirror_name
        self._row = row
        self._state = state
        self._name = TopicPartition(row.topic, row.partition)

    def verdict(self, progress: Callable[[int], None]) -> PartitionVerdict:
        """Returns the verdict; never raises for what the clusters answer about this partition.

        A FAILED partition is an error even if its contents are equal: it is no longer a mirror.
        """
        found = self._verdict(progress)
        if self._row.state != FAILED or found.status is not Status.EQUAL:
            return found
        why = self._row.reason or "the log of its leader has the reason"
        return msgspec.structs.replace(found, status=Status.ERROR, error=f"it is {FAILED}: {why}; what it has is equal")

    def _verdict(self, progress: Callable[[int], None]) -> PartitionVerdict:
        while True:
            try:
                found = self._compare(progress)
            except KmirrorError as error:
                found = error_verdict(self._name.topic, self._name.partition, str(error))
            if found.status is not Status.ERROR or self._row.state == PREPARING or is_leaderless(self._row) or not self._state.retries_left:
                return found
            self._state.retries_left -= 1
            self._ask(self._clients.runtime.sleep_ms(RETRY_PAUSE_MS))

    def _compare(self, progress: Callable[[int], None]) -> PartitionVerdict:
        ask, name = self._ask, self._name
        if self._row.state == PREPARING:
            raise KmirrorError(f"it is {PREPARING}: what differs from the source is about to be cut")
        if is_leaderless(self._row):
            raise KmirrorError(self._row.reason or "")
        source, admin = ask(self._clients.source(self._mirror_name)), self._clients.admin
        problem = ask(self._state.another_cluster(admin, source, self._mirror_name))
        if problem is not None:
            raise KmirrorError(problem)
        if not ask(self._state.has(source, name)):
            raise KmirrorError("the source does not have it")
        end = ask(self._mirrored_end(admin))
        mirror_start = ask(log_start(admin, name))
        source_start = ask(log_start(source, name))
        source_end = ask(self._source_end(source, end if mirror_start < end else 0))
        start = max(mirror_start, source_start)
        configs = ask(self._state.configs(source, name.topic))
        policy = None if configs is None else configs.get("cleanup.policy")
        is_compacted = policy is not None and "compact" in policy
        settings = UNKNOWN_POLICY_SETTINGS if policy is None else SETTINGS
        offset = getattr(self._clients.options, "from")
        begins_later = False
        if offset is not None:
            wanted = offset if offset >= 0 else end + offset
            begins_later = wanted >= mirror_start
            start = max(start, wanted)
        sample = self._clients.options.sample
        ranges = sample_of(start, end, sample) if sample is not None else [Range(start, end)]
        verdicts = []
        size = 0

        def count(bytes_compared: int) -> None:
            nonlocal size
            size += bytes_compared
            progress(size)

        for part in ranges:
            believes_holes = is_compacted and sample is not None
            left = self._log(source, "source", part.start, min(part.end, source_end))
            right = self._log(admin, "mirror", part.start, part.end)
            if believes_holes:
                found = diff_logs(left, right, COMPACTED_SETTINGS, count, BelievedHoles(left, source_end, end))
            elif is_compacted:
                found = diff_logs(left, right, COMPACTED_SETTINGS, count, self._evidence(left, source, end))
            else:
                found = diff_logs(left, right, settings, count)
            verdicts.append(found)
            if verdicts[-1].status is not Status.EQUAL:
                break
        found = merged(verdicts)
        if len(ranges) > 1:
            found = msgspec.structs.replace(found, offsets_compared=sum(part.end - part.start for part in ranges))
        whole = with_both_ranges(found, (source_start, source_end), (mirror_start, end))
        is_counted = offset is None and sample is None
        front = self._front(source, (source_start, source_end), (mirror_start, end), is_counted=is_counted)
        return with_front(whole, front, WHERE, counts=not begins_later)

    def _front(self, source: AdminClient, there: tuple[int, int], here: tuple[int, int], *, is_counted: bool) -> Front | None:
        """Returns what only one side has before the other's log start."""
        ask, topic, admin = self._ask, self._name.topic, self._clients.admin
        if self._row.state == STOPPED and self._row.last_mirror_epoch < 0:
            return None  # nothing was mirrored
        found = front_range(there[0], here[0], here[1])
        if found is None:
            return None
        if not is_counted:
            return Front(found.only_in_left, found.start, found.end - 1, None, "not read, because of --from or --sample")
        has, title, bounds = (source, "source", there) if found.only_in_left else (admin, "mirror", here)
        scan = scan_front(self._log(has, title, *bounds), found)
        lacks, where = (admin, " at the mirror") if found.only_in_left else (source, " at the source")
        deletion = ask(self._state.deletion(lacks, topic))
        why = why_gone(scan, deletion, where, self._clients.runtime.clock.time_ms())
        return Front(found.only_in_left, found.start, found.end - 1, scan.record_count, why)

    async def _source_end(self, source: AdminClient, mirrored: int) -> int:
        """Returns the source's high watermark.

        A newly elected leader may for a moment know a lower one than was mirrored, so it gets time
        to catch up.
        """
        for _ in range(HIGH_WATERMARK_TRIES):
            end = (await source.list_offsets([self._name]))[self._name]
            if end >= mirrored:
                break
            await self._clients.runtime.sleep_ms(HIGH_WATERMARK_PAUSE_MS)
        return end

    async def _mirrored_end(self, admin: AdminClient) -> int:
        """Returns where the mirror's part of the log ends."""
        end = (await admin.list_offsets([self._name]))[self._name]
        if self._row.state != STOPPED:
            return end
        if self._row.last_mirror_epoch < 0:
            return await log_start(admin, self._name)
        own = await admin.end_offset_of_epoch(self._name, self._row.last_mirror_epoch)
        return end if own < 0 else min(own, end)

    def _evidence(self, left: FetchedLog, source: AdminClient, mirrored_end: int) -> CompactionEvidence:
        """Returns evidence that reads both logs to their ends, as they are when it is needed."""

        def to_the_end(admin: AdminClient, title: str) -> Callable[[int], FetchedLog]:
            def opened(start: int) -> FetchedLog:
                start = max(start, self._ask(log_start(admin, self._name)))
                end = self._ask(admin.list_offsets([self._name]))[self._name]
                return self._log(admin, title, start, end)

            return opened

        source_log, mirror_log = to_the_end(source, "source"), to_the_end(self._clients.admin, "mirror")
        return CompactionEvidence(left, source_log, mirror_log, mirrored_end=mirrored_end)

    def _log(self, admin: AdminClient, title: str, start: int, end: int) -> FetchedLog:
        """Returns a log in which holes are missing records, unless `_evidence` excuses them."""
        name = self._name
        return FetchedLog(
            title,
            name,
            lambda offset: self._ask(admin.fetch_records(name, offset, max_bytes=FETCH_SIZE_BYTES)),
            log_start_offset=start,
            high_watermark=end,
            cleaner=CleanerFacts(is_compacted=False),
        )


async def log_start(admin: AdminClient, name: TopicPartition) -> int:
    return (await admin.list_offsets([name], timestamp=EARLIEST_TIMESTAMP))[name]


def merged(verdicts: list[PartitionVerdict]) -> PartitionVerdict:
    """Returns one verdict for a partition's samples.

    It is the last one, since only that may be unequal, with the bytes of all samples.
    """
    first, last = verdicts[0], verdicts[-1]
    compared = sum(verdict.bytes_compared for verdict in verdicts)
    return msgspec.structs.replace(last, start_offset=first.start_offset, bytes_compared=compared)


def with_both_ranges(verdict: PartitionVerdict, source: tuple[int, int], mirror: tuple[int, int]) -> PartitionVerdict:
    """Returns the verdict with where each side begins and ends, not only what was compared."""
    if verdict.left is None or verdict.right is None:
        return verdict
    left, right = (
        msgspec.structs.replace(log, log_start_offset=begin, log_end_offset=end)
        for log, (begin, end) in ((verdict.left, source), (verdict.right, mirror))
    )
    return msgspec.structs.replace(verdict, left=left, right=right)


def to_json_text(report: LogDiffReport) -> str:
    return json.dumps(json.loads(to_json(report)), indent=2)
