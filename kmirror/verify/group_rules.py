"""Checks groups against logs: what a cluster's groups have committed must lie within that cluster's
logs, at the destination of a mirror as at the source.

A group beyond the end of its log gets OFFSET_OUT_OF_RANGE there, or waits for records that it will
never get: synced group offsets ran ahead of the mirror, or a failover cut the log below them.
`replay.timelines` reads the commits from `__consumer_offsets`; transactional commits count if their
transactions were committed. The log ends where the longest replica of that side does. If a broker
has appended to a log since the input was listed, newer commits are no problem.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from kmirror.common.ports import FileSystem
from kmirror.common.topic_partition import GROUP_METADATA_TOPIC_NAME, TopicPartition
from kmirror.storage.reader import PartitionFiles
from kmirror.verify.planner import Listing
from kmirror.verify.replay.claims import DataDirClaims
from kmirror.verify.replay.cross_checks import last_commits, with_outcomes
from kmirror.verify.replay.folder import close_parts
from kmirror.verify.replay.internal_records import OffsetCommitRow
from kmirror.verify.replay.plan import cuts_of, run_task
from kmirror.verify.replay.timelines import read_timelines
from kmirror.verify.verdict import Difference, DifferenceKind, LogFacts, PartitionVerdict, Status

Commits = Mapping[TopicPartition, Sequence[OffsetCommitRow]]
"""The last commit of each group, by the partition that it concerns."""


class GroupsOfSide(NamedTuple):
    """The groups of A or B, and what must be known of its logs."""

    side: str
    commits: Commits
    has_grown: Callable[[str], bool]
    """Whether a broker has appended to the log in this folder since it was listed."""


def read_commits(files: FileSystem, location: str, partitions: Collection[PartitionFiles]) -> Commits:
    """Returns the commits in a cluster's replicas of `__consumer_offsets`. Replicas that cannot be
    read are left out (`kmirror verify-logs` names the byte)."""
    offsets = [partition for partition in partitions if partition.topic_partition.topic == GROUP_METADATA_TOPIC_NAME]
    listing = Listing(location, location, offsets, False, {})
    timelines = read_timelines(files, listing, only=(GROUP_METADATA_TOPIC_NAME,))
    transactional = {row.log for row in timelines.group_offsets if row.producer_id is not None}
    transactions = []
    for partition in offsets:
        if partition.path in transactional:
            parts = run_task(files, listing.slices(files, partition), cuts_of(listing.partitions))
            transactions += close_parts(files, partition, parts, DataDirClaims()).transactions
    found: dict[TopicPartition, list[OffsetCommitRow]] = {}
    for (_, topic, partition_number), row in last_commits(with_outcomes(timelines.group_offsets, transactions)).items():
        if row.committed_offset is not None and row.log not in timelines.torn:
            found.setdefault(TopicPartition(topic, partition_number), []).append(row)
    return found


def with_groups(
    verdicts: Iterable[PartitionVerdict], sides: Sequence[GroupsOfSide], ignored: Collection[DifferenceKind], max_differences: int
) -> list[PartitionVerdict]:
    """Returns the verdicts. Those of A against B also report what groups have committed beyond the
    end of a log."""
    verdicts = list(verdicts)
    logs: dict[tuple[str, str, int], list[LogFacts]] = {}
    for verdict in verdicts:
        for side, log in ((verdict.replicas_of or "A", verdict.left), (verdict.replicas_of or "B", verdict.right)):
            if log is not None:
                logs.setdefault((side, verdict.topic, verdict.partition), []).append(log)
    made = []
    for verdict in verdicts:
        problems: list[Difference] = []
        if verdict.replicas_of is None and verdict.error is None:
            for one in sides:
                longest = max(logs.get((one.side, verdict.topic, verdict.partition), ()), key=lambda log: log.log_end_offset, default=None)
                if longest is not None:
                    problems += _beyond_end(verdict, one, longest)
        made.append(_with_problems(verdict, problems, ignored, max_differences) if problems else verdict)
    return made


def _beyond_end(verdict: PartitionVerdict, groups: GroupsOfSide, log: LogFacts) -> list[Difference]:
    end = log.log_end_offset
    name = TopicPartition(verdict.topic, verdict.partition)
    rows = [row for row in groups.commits.get(name, ()) if row.committed_offset is not None and row.committed_offset > end]
    if not rows or groups.has_grown(log.name):
        return []
    return [
        Difference(
            DifferenceKind.GROUP_BEYOND_END,
            verdict.topic,
            verdict.partition,
            end,
            (row.committed_offset or 0) - 1,
            [],
            [],
            f"group {row.group} of {groups.side} has committed {row.committed_offset} (offset {row.record_offset} of {row.log}), "
            f"and its log ends at {end}",
        )
        for row in rows
    ]


def _with_problems(
    verdict: PartitionVerdict, problems: list[Difference], ignored: Collection[DifferenceKind], max_differences: int
) -> PartitionVerdict:
    kind = DifferenceKind.GROUP_BEYOND_END
    if kind in ignored:
        return msgspec.structs.replace(verdict, ignored_counts={**verdict.ignored_counts, kind.value: len(problems)})
    return msgspec.structs.replace(
        verdict,
        status=Status.DIFFERENT,
        difference_counts={**verdict.difference_counts, kind.value: len(problems)},
        differences=[*verdict.differences, *problems][: max(max_differences, len(verdict.differences))],
    )
