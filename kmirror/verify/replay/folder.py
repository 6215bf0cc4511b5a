"""Replay of whole inputs: the tasks that read them, what a task returns, and the closing of each
partition. There is no Spark here; an engine runs the tasks.

    plan       a listing, with slices packed into tasks of about 64 MB (`verify.planner`)
    run_task   the partial of each slice, neighbours merged: a few hundred bytes per segment and
               producer are sent back
    close      a partition's parts in the order of the log, merged and compared with the files
               beside the segments
    again      the same for a log that changed meanwhile, if something was found
    timelines  the internal topics: read before the closing, because the metadata log names the
               compacted topics; compared with the logs after it

`replay_folder` does all of it in this process. A broker may be running on the folder. What it
appends after the listing is not read, a segment that retention removed since is no damage, and
checkpoints that may be newer than the listing are no evidence against it.
"""

from __future__ import annotations

import functools
import posixpath
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from kmirror.common.errors import KmirrorError
from kmirror.common.ports import FileSystem
from kmirror.common.topic_partition import CLUSTER_METADATA_TOPIC_NAME, TopicPartition
from kmirror.storage.meta_properties import META_PROPERTIES_FILE_NAME, read_meta_properties
from kmirror.storage.reader import PartitionFiles
from kmirror.verify.cleaner_facts import ANY_TIME
from kmirror.verify.planner import TASK_BYTES, Listing, list_input
from kmirror.verify.replay.again import replay_until_settled
from kmirror.verify.replay.claims import CHECKPOINTS, DataDirClaims, has_grown, read_data_dir_claims, read_partition_claims
from kmirror.verify.replay.close import PRODUCER_ID_EXPIRATION_MS, close_partition
from kmirror.verify.replay.close_compaction import close_compaction, is_compacted, key_scope
from kmirror.verify.replay.compaction import KeyCounts, KeyLog, KeyScope, count_keys
from kmirror.verify.replay.cross_checks import CrossChecks
from kmirror.verify.replay.findings import Finding
from kmirror.verify.replay.inventory import Inventory
from kmirror.verify.replay.kept import Identities, Known, identities_of, kept_counts, kept_rows, keys_identity, known_counts, known_segments
from kmirror.verify.replay.log_view import NEVER_DELETING_TOPICS
from kmirror.verify.replay.partial import ReplayPartial
from kmirror.verify.replay.plan import Part, ReplayPlan, cuts_of, merge_parts, plan_tasks, run_task
from kmirror.verify.replay.tables import ReplayTables
from kmirror.verify.replay.timelines import Timelines, read_timelines
from kmirror.verify.replay.uncleaned import uncleaned
from kmirror.verify.spilled_rows import Scratch


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """How to read, and what the bytes do not tell."""

    check_crc: bool = True
    unpack: bool = False
    """Whether the records of all batches are held against their headers (`record_check`)."""
    now_ms: int | None = None
    """The time that gives open transactions their age; None: the newest timestamp of the log."""
    producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS
    """The brokers' `producer.id.expiration.ms`."""
    compacted_topics: Collection[str] | None = None
    """All topics with `cleanup.policy=compact`; None if they are not known."""
    only_compacted_topics: Collection[str] = NEVER_DELETING_TOPICS
    """Topics that surely never had `delete` in their `cleanup.policy`."""
    read_keys: bool = True
    """Whether the keys of compacted topics are also read."""


DEFAULTS = ReplaySettings()


def replay_partition(
    files: FileSystem, partition: PartitionFiles, *, check_crc: bool = True, task_bytes: int = TASK_BYTES
) -> ReplayPartial:
    """Returns the partial of one partition, read in this process."""
    listing = Listing(partition.path, partition.path, [partition], True, {})
    return merge_parts(run_task(files, listing.slices(files, partition, task_bytes=task_bytes), cuts_of([partition]), check_crc=check_crc))


def close_parts(
    files: FileSystem,
    partition: PartitionFiles,
    parts: Iterable[Part],
    data_dir: DataDirClaims,
    settings: ReplaySettings = DEFAULTS,
    identities: Identities | None = None,
) -> ReplayTables:
    """Returns the tables of a partition. For the next run they keep the partials of segments that
    have an identity."""
    partial = merge_parts(parts)
    claims = read_partition_claims(files, partition, data_dir)
    tables = close_partition(
        partial,
        claims,
        now_ms=settings.now_ms,
        producer_id_expiration_ms=settings.producer_id_expiration_ms,
        compacted_topics=settings.compacted_topics,
    )
    tables.kept += kept_rows(partition, partial, identities or {})
    return tables


def data_dirs_of(files: FileSystem, listing: Listing) -> dict[str, DataDirClaims]:
    """Returns what the data dirs of an input claim, by path."""
    return {folder: read_data_dir_claims(files, folder) for folder in listing.data_dir_files}


def check_data_dirs(tables: ReplayTables, data_dirs: Mapping[str, DataDirClaims]) -> None:
    """Adds findings for checkpoints that cannot be read: each once, with the first log of its data
    dir."""
    for path, claims in data_dirs.items():
        row = next((row for row in tables.logs if posixpath.dirname(row.log) == path), None)
        if row is None or not claims.errors:
            continue
        for name, error in claims.errors.items():
            finding = Finding(row.log, row.topic, row.partition, "checkpoints", "corrupt", f"{path}/{name}", None, None, None, None, error)
            tables.findings.append(finding)
        tables.logs[tables.logs.index(row)] = replace(row, findings=row.findings + len(claims.errors))


def clusters_of(files: FileSystem, listing: Listing) -> list[Listing]:
    """Returns the data dirs of each cluster as a separate input, by `meta.properties`. Those that
    name no cluster form one input together."""
    clusters: dict[str | None, set[str]] = {}
    for folder, names in listing.data_dir_files.items():
        cluster_id = None
        if META_PROPERTIES_FILE_NAME in names:
            try:
                found = read_meta_properties(files, folder)
                cluster_id = None if found is None else found.cluster_id
            except (KmirrorError, OSError):
                pass  # a broker would not start there, but its logs can be read
        clusters.setdefault(cluster_id, set()).add(folder)
    if len(clusters) < 2:
        return [listing]
    return [
        replace(
            listing,
            partitions=[partition for partition in listing.partitions if posixpath.dirname(partition.path) in folders],
            data_dir_files={folder: names for folder, names in listing.data_dir_files.items() if folder in folders},
        )
        for folders in clusters.values()
    ]


def known_from_metadata(timelines: Timelines, settings: ReplaySettings) -> ReplaySettings:
    """Returns the settings with the compacted topics that the metadata log names, unless the caller
    named them."""
    settings = replace(settings, only_compacted_topics=timelines.only_compacted_topics)
    if settings.compacted_topics is not None or timelines.compacted_topics is None:
        return settings
    return replace(settings, compacted_topics=timelines.compacted_topics)


def cross_check(
    files: FileSystem, listing: Listing, timelines: Timelines, tables: ReplayTables, data_dirs: Mapping[str, DataDirClaims]
) -> None:
    """Adds the rows of the internal topics to the tables, and findings where they and the logs
    contradict each other."""
    partitions = {partition.path: partition for partition in listing.partitions}

    def at_rest(log: str) -> bool:
        data_dir = data_dirs.get(posixpath.dirname(log))
        return data_dir is not None and data_dir.at_rest

    @functools.cache
    def topic_id(log: str) -> str | None:
        try:
            found = partitions[log].topic_id(files)
        except (KmirrorError, OSError):
            return None
        return None if found is None else str(found)

    CrossChecks(timelines, tables, topic_ids=topic_id, at_rest=at_rest, has_grown=lambda log: has_grown(files, partitions[log])).run()


class Engine(Protocol):
    """Where tasks run."""

    def replay(self, files: FileSystem, plan: ReplayPlan, settings: ReplaySettings) -> Iterable[ReplayTables]:
        """Returns the tables of each of the plan's partitions, in their order."""
        ...

    def count_keys(self, files: FileSystem, logs: Sequence[KeyLog]) -> Iterable[KeyCounts]:
        """Returns what the keys of each log say, in their order."""
        ...


class ThisProcess:
    """The engine that needs nothing else. `scratch` makes the file for rows of keys that do not fit
    into memory."""

    def __init__(self, scratch: Scratch | None = None) -> None:
        self._scratch = scratch

    def replay(self, files: FileSystem, plan: ReplayPlan, settings: ReplaySettings) -> Iterable[ReplayTables]:
        parts = (
            part for task in plan.tasks for part in run_task(files, task, plan.cuts, check_crc=settings.check_crc, unpack=settings.unpack)
        )
        return close_all(files, plan, parts, settings)

    def count_keys(self, files: FileSystem, logs: Sequence[KeyLog]) -> Iterable[KeyCounts]:
        return (count_keys(files, log, self._scratch) for log in logs)


def close_all(files: FileSystem, plan: ReplayPlan, parts: Iterable[Part], settings: ReplaySettings) -> Iterator[ReplayTables]:
    """Yields the tables of each partition; `parts` are all parts, in any order."""
    found: dict[str, list[Part]] = {}
    for part in parts:
        found.setdefault(part.folder, []).append(part)
    for partition in plan.partitions:
        yield close_parts(
            files, partition, found.pop(partition.path, []), plan.claims_of(partition), settings, plan.identities.get(partition.path)
        )


def replay_folder(files: FileSystem, folder: str, settings: ReplaySettings = DEFAULTS) -> ReplayTables:
    """Returns the tables of all partitions in `folder`: a partition's folder, a broker's log.dir or
    a folder of log.dirs. KmirrorError if it is none of these."""
    tables = ReplayTables()
    for cluster in clusters_of(files, list_input(files, folder)):
        tables.extend(replay_cluster(files, cluster, settings))
    return tables


def replay_cluster(
    files: FileSystem,
    listing: Listing,
    settings: ReplaySettings = DEFAULTS,
    *,
    engine: Engine | None = None,
    wants: Callable[[TopicPartition], bool] = lambda _: True,
    known: Known | None = None,
    pause: Callable[[], None] = lambda: None,
    unseen: list[str] | None = None,
) -> ReplayTables:
    """Returns the tables of the wanted partitions. Contradictions with the internal topics, and
    logs that are missing or nobody's (`inventory`), are looked for only if all partitions are
    wanted. What of that was not looked at is added to `unseen`.

    `known` is what an earlier run kept; with None, nothing is kept for a later one. `pause` is
    called before logs are read again that changed meanwhile.
    """
    data_dirs = data_dirs_of(files, listing)
    timelines = read_timelines(files, listing)
    is_told = settings.compacted_topics is not None
    settings = known_from_metadata(timelines, settings)
    partitions = [partition for partition in listing.partitions if wants(partition.topic_partition)]
    plan = ReplayPlan(listing.location, partitions, data_dirs, [])
    if known is not None:
        identities = {one.path: identities_of(files, one, plan.claims_of(one), settings.check_crc, settings.unpack) for one in partitions}
        unchanged = {one.path: known_segments(one, identities[one.path], known) for one in partitions}
        plan = replace(plan, tasks=plan_tasks(files, listing, wants=wants, known=unchanged), identities=identities)
    else:
        plan = replace(plan, tasks=plan_tasks(files, listing, wants=wants))
    engine = engine or ThisProcess()
    runs = engine
    plan, closed = replay_until_settled(files, plan, lambda part: runs.replay(files, part, settings), pause)
    if not is_told:
        _look_for_uncleaned(files, listing, timelines, closed, unseen)
    if settings.read_keys:
        _look_at_keys(files, engine, listing, plan, closed, settings, known)
    tables = ReplayTables()
    for one in closed:
        tables.extend(one)
    check_data_dirs(tables, data_dirs)
    if len(partitions) == len(listing.partitions):
        cross_check(files, listing, timelines, tables, data_dirs)
        _check_inventory(files, listing, timelines, tables, data_dirs, unseen)
    elif unseen is not None:
        unseen.append("which partitions belong here, and internal topics against the logs (only some partitions were asked for)")
    return tables


def _look_for_uncleaned(
    files: FileSystem, listing: Listing, timelines: Timelines, closed: Sequence[ReplayTables], unseen: list[str] | None
) -> None:
    """Adds findings about holes in compacted logs that no cleaner can have made."""
    partitions = {partition.path: partition for partition in listing.partitions}

    def seen_ms(log: str) -> int:
        return last_seen_ms(files, listing, partitions[log])

    for tables in closed:
        for found in uncleaned([tables], timelines.cleaners, seen_ms):
            if isinstance(found, Finding):
                tables.findings.append(found)
                tables.logs[:] = [replace(row, findings=row.findings + (row.log == found.log)) for row in tables.logs]
            elif unseen is not None:
                unseen.append(found)


def last_seen_ms(files: FileSystem, listing: Listing, partition: PartitionFiles) -> int:
    """Returns the newest time of the files that a broker writes beside and in a log: no pass of the
    cleaner whose work the log shows was later."""
    data_dir = posixpath.dirname(partition.path)
    paths = [f"{data_dir}/{name}" for name in CHECKPOINTS.values() if name in listing.data_dir_files.get(data_dir, ())]
    paths += [segment.path() for segment in partition.segments]
    times = []
    for path in paths:
        with suppress(OSError, KmirrorError):  # a running broker removed it
            times.append(files.mtime_ms(path))
    return max(times, default=ANY_TIME)


def _check_inventory(
    files: FileSystem,
    listing: Listing,
    timelines: Timelines,
    tables: ReplayTables,
    data_dirs: Mapping[str, DataDirClaims],
    unseen: list[str] | None,
) -> None:
    """Adds findings about the set of logs; those of a log that was read count with it."""
    times = [row.max_timestamp for row in tables.logs if row.topic == CLUSTER_METADATA_TOPIC_NAME]
    newest_ms = max((when for when in times if when is not None), default=-1)
    inventory = Inventory(files, listing, timelines, data_dirs, newest_ms=newest_ms)
    found = inventory.findings()
    tables.findings += found
    counts = Counter(finding.log for finding in found)
    tables.logs = [replace(row, findings=row.findings + counts[row.log]) for row in tables.logs]
    if unseen is not None:
        unseen += inventory.unseen


def _look_at_keys(
    files: FileSystem,
    engine: Engine,
    listing: Listing,
    plan: ReplayPlan,
    closed: Sequence[ReplayTables],
    settings: ReplaySettings,
    known: Known | None,
) -> None:
    """Adds the compaction of the compacted logs to their tables. The keys of a log that has not
    changed at all are not read again."""
    chosen: list[tuple[PartitionFiles, ReplayTables, KeyScope, str]] = []
    logs: list[KeyLog] = []
    counted: dict[str, KeyCounts] = {}
    for partition, tables in zip(plan.partitions, closed):
        name, data_dir = partition.topic_partition, plan.claims_of(partition)
        if not is_compacted(name, data_dir, settings.compacted_topics):
            continue
        never_deletes = name.topic in settings.only_compacted_topics
        scope = key_scope(tables, data_dir, never_deletes=never_deletes, now_ms=settings.now_ms)
        if scope is None:
            continue
        identity = keys_identity(plan.identities.get(partition.path, {}).items(), scope)
        chosen.append((partition, tables, scope, identity))
        before = known_counts(partition.path, identity, known or {})
        if before is not None:
            counted[partition.path] = before
        else:
            logs.append(KeyLog(list(listing.slices(files, partition)), tables.logs[0].records, scope))
    read = iter(engine.count_keys(files, logs))
    for partition, tables, scope, identity in chosen:
        counts = counted[partition.path] if partition.path in counted else next(read)
        close_compaction(tables, counts, scope, plan.claims_of(partition))
        if known is not None and counts.problem is None:
            tables.kept.append(kept_counts(partition, identity, counts))
