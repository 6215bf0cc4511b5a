"""Runs one comparison: pairs the partitions of A and B, compares the pairs, shows the report.

local    pairs one after the other; large folders in a process per core, biggest pair first
spark    the same functions on the executors, large pairs in many tasks
         (`kmirror.spark.log_diff`); folders only

Both engines give the same verdicts, so the reports differ only in `engine`.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

import msgspec

from kmirror.cli.engines import chosen_engine
from kmirror.cli.large_inputs import COMPARE_FEWER, POOL_THRESHOLD_BYTES, process_pool, progress_when_large, result_of
from kmirror.cli.log_diff_again import until_settled
from kmirror.cli.log_diff_inputs import FolderInput, LogInput, is_hadoop, is_remote, open_input
from kmirror.cli.log_diff_sets import Asked, Wants, sets_of, unlogged_mirrors
from kmirror.cli.log_diff_text import report_text
from kmirror.cli.partition_numbers import parse_partition_numbers
from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import GROUP_METADATA_TOPIC_NAME, TopicPartition
from kmirror.verify.cluster_prints import plan_logs
from kmirror.verify.compared_log import ComparedLog, DirectoryLog
from kmirror.verify.data_dir_logs import choose_partitions, one_sided_verdict
from kmirror.verify.diff_tables import PrintedLog
from kmirror.verify.log_diff import DiffSettings, Progress, diff_logs, no_progress
from kmirror.verify.mirror_rules import MirroredPartition, diff_mirrored, mirrored_partitions
from kmirror.verify.verdict import DifferenceKind, LogDiffReport, PartitionVerdict, make_report, to_json, with_sets

MAX_UNSEEN = 5


class Pair(NamedTuple):
    """Two logs to compare. One of them is None if only one input has the partition."""

    name: TopicPartition
    left: ComparedLog | None
    right: ComparedLog | None

    @property
    def size_bytes(self) -> int:
        return sum(log.size_bytes for log in (self.left, self.right) if log is not None)


def settings_of(options: argparse.Namespace) -> DiffSettings:
    kinds = [name.strip() for name in options.ignore.split(",") if name.strip()]
    known = [kind.value for kind in DifferenceKind]
    for name in kinds:
        if name not in known:
            raise KmirrorError(f"--ignore: '{name}' is not a kind of difference; the kinds are {', '.join(known)}")
    if options.max_differences < 0:
        raise KmirrorError("--max-differences must be 0 or a larger number")
    return DiffSettings(frozenset(map(DifferenceKind, kinds)), options.allow_lag, options.max_differences, tempfile.TemporaryFile)


def run_log_diff(options: argparse.Namespace) -> int:
    """Compare, print the report, and return the exit code."""
    began = time.monotonic()
    settings = settings_of(options)
    if options.deep and options.output is None:
        raise KmirrorError("--deep can only be used with --output; without --output all bytes are compared anyway")
    if options.full and options.output is None:
        raise KmirrorError("--full can only be used with --output; without --output all bytes are read anyway")
    if options.topics is not None:
        try:
            re.compile(options.topics)
        except re.error as error:
            raise KmirrorError(f"--topics: '{options.topics}' is not a regular expression: {error}") from error
    if (options.engine == "spark" or options.master is not None) and any(is_hadoop(name) for name in (options.left, options.right)):
        from kmirror.spark.session import spark_session

        spark_session("kafka-log-diff", master=options.master)  # the session's settings are needed to list the folders
    left = open_input(options.left, include_internal=options.include_internal)
    try:
        right = open_input(options.right, include_internal=options.include_internal)
        try:
            report = _compare(options, settings, left, right)
        finally:
            right.close()
    finally:
        left.close()
    if options.report is not None or options.output is not None:
        from kmirror.cli.html_page import Provenance
        from kmirror.cli.log_diff_html import report_html
        from kmirror.cli.log_diff_output import write_pages

        made = Provenance.of(["kafka-log-diff", *options.given], began)
        write_pages(options.report, options.output, lambda: report_html(report, made))
    print(to_json(report).decode() if options.json else report_text(report, sys.stdout.isatty()))
    return report.exit_code


class Group(NamedTuple):
    """Logs that are compared in pairs."""

    replicas_of: str | None
    """A or B if both logs of each pair are from that side."""
    pairs: list[tuple[ComparedLog, ComparedLog]]
    locations: tuple[str, str]
    """By which the left and the right logs' inputs are opened."""
    settings: DiffSettings
    mirrored: Mapping[TopicPartition, MirroredPartition] = {}
    """Partitions that are compared by the mirror's rules."""

    @property
    def sides(self) -> tuple[str, str]:
        return (self.replicas_of, self.replicas_of) if self.replicas_of else ("A", "B")

    @property
    def folders(self) -> list[tuple[DirectoryLog, DirectoryLog]]:
        return [(one, other) for one, other in self.pairs if isinstance(one, DirectoryLog) and isinstance(other, DirectoryLog)]

    def compare(self, pair: tuple[ComparedLog, ComparedLog]) -> PartitionVerdict:
        return _diff_pair(*pair, self.settings, self.mirrored.get(pair[0].topic_partition))

    def named(self, verdicts: list[PartitionVerdict]) -> list[PartitionVerdict]:
        return [msgspec.structs.replace(one, replicas_of=self.replicas_of) for one in verdicts] if self.replicas_of else verdicts


def _compare(options: argparse.Namespace, settings: DiffSettings, left: LogInput, right: LogInput) -> LogDiffReport:
    pairs = _pairs(options, left, right)
    engine = _engine(options, left, right, sum(pair.size_bytes for pair in pairs))
    if engine == "spark" and isinstance(left, FolderInput) and isinstance(right, FolderInput):
        left, right = left.as_tasks_see_it(), right.as_tasks_see_it()
        pairs = _pairs(options, left, right)
    groups = [] if options.no_replicas else _replica_groups(pairs, left, right, settings)
    mirrored: Mapping[TopicPartition, MirroredPartition] = {}
    if options.mirror:
        mirrored = _mirrored(left, right)
        _tell_unseen(unlogged_mirrors(right, _asked(options, settings, mirrored)))
        pairs = [pair for pair in pairs if pair.name in mirrored and pair.right is not None]
        if not pairs:
            raise KmirrorError(f"nothing to compare: {right.name} mirrors no partition that was asked for")
    verdicts = [one_sided_verdict(pair.left, only_left=True) for pair in pairs if pair.left is not None and pair.right is None]
    verdicts += [one_sided_verdict(pair.right, only_left=False) for pair in pairs if pair.right is not None and pair.left is None]
    printed: list[PrintedLog] = []
    both = [(pair.left, pair.right) for pair in pairs if pair.left is not None and pair.right is not None]
    groups.insert(0, Group(None, both, (_location(left), _location(right)), settings, mirrored))
    if options.output is not None:
        found, printed = _by_prints(options, engine, groups)
    elif engine == "spark":
        found = [_on_spark(group, options.master) for group in groups]
    else:
        found = [_locally(group) for group in groups]
    for group, of_group in zip(groups, found):
        verdicts += group.named(until_settled(group.pairs, of_group, group.compare))
    report = make_report(left.name, right.name, engine, _with_groups(verdicts, left, right, settings))
    compared = [one.topic_partition for one, _ in both]
    report = with_sets(report, sets_of(left, right, compared, _asked(options, settings, mirrored)))
    if options.output is not None:
        from kmirror.cli.log_diff_output import write_tables

        write_tables(options.output, report.partitions, printed)
    return report


def _location(side: LogInput) -> str:
    return side.location if isinstance(side, FolderInput) else side.name


def _with_groups(verdicts: list[PartitionVerdict], left: LogInput, right: LogInput, settings: DiffSettings) -> list[PartitionVerdict]:
    """Returns the verdicts with the groups that are beyond their side's logs.

    Only a side that has `__consumer_offsets` is checked.
    """
    from kmirror.verify.group_rules import GroupsOfSide, read_commits, with_groups

    sides = []
    for title, side in (("A", left), ("B", right)):
        if isinstance(side, FolderInput) and any(name.topic == GROUP_METADATA_TOPIC_NAME for name in side.logs):
            commits = read_commits(side.files, side.path, [log.partition for log in side.all_logs])
            sides.append(GroupsOfSide(title, commits, side.has_grown))
    return with_groups(verdicts, sides, settings.ignored, settings.max_differences) if sides else verdicts


def _tell_unseen(unseen: Sequence[TopicPartition]) -> None:
    """Names on stderr what B mirrors, but has no log of here: another broker has it, or none."""
    if unseen:
        more = f" and {len(unseen) - MAX_UNSEEN} more" if len(unseen) > MAX_UNSEEN else ""
        names = ", ".join(map(str, unseen[:MAX_UNSEEN]))
        print(f"kafka-log-diff: not compared: {names}{more}: B mirrors them, but no log of them was given for B", file=sys.stderr)


def _mirrored(left: LogInput, right: LogInput) -> Mapping[TopicPartition, MirroredPartition]:
    """Returns the partitions that B mirrors, as B says."""
    if not isinstance(left, FolderInput) or not isinstance(right, FolderInput) or right.is_single:
        raise KmirrorError(
            "--mirror compares data dirs, because it reads B's __mirror_state; use `kafka-mirrors --verify` for live clusters"
        )
    return mirrored_partitions(right.files, right.path)


def _replica_groups(pairs: list[Pair], left: LogInput, right: LogInput, settings: DiffSettings) -> list[Group]:
    """Returns groups that compare each side's other replicas with the chosen one.

    The other replicas may lag and may have uncommitted records, and their cleaners run at other
    times.
    """
    ignored = settings.ignored | {DifferenceKind.BEYOND_HIGH_WATERMARK, DifferenceKind.COMPACTED}
    lenient = replace(settings, ignored=ignored, allow_lag=True)
    groups = []
    for title, side in (("A", left), ("B", right)):
        if isinstance(side, FolderInput):
            names = [pair.name for pair in pairs if (pair.left if title == "A" else pair.right) is not None]
            copies: list[tuple[ComparedLog, ComparedLog]] = [
                (side.logs[name], other) for name in names for other in side.replicas.get(name, [])
            ]
            if copies:
                groups.append(Group(title, copies, (side.location, side.location), lenient))
    return groups


def _by_prints(options: argparse.Namespace, engine: str, groups: list[Group]) -> tuple[list[list[PartitionVerdict]], list[PrintedLog]]:
    """Returns the verdicts of each group, and the prints to write to --output."""
    from kmirror.cli.log_diff_output import read_known
    from kmirror.cli.log_diff_prints import LocalPrintEngine, SparkPrintEngine, diff_by_prints, print_logs

    locations: dict[str, str] = {}
    logs: dict[tuple[str, str], tuple[str, DirectoryLog]] = {}
    for group in groups:
        locations |= dict(zip(group.sides, group.locations))
        for pair in group.folders:
            logs |= {(side, log.name): (side, log) for side, log in zip(group.sides, pair)}
    known = {} if options.full else read_known(options.output)
    planned = plan_logs(list(logs.values()), locations, known, is_deep=options.deep)
    planned.sort(key=attrgetter("side"))
    runs = SparkPrintEngine(options.master) if engine == "spark" else LocalPrintEngine()
    with progress_when_large(sum(one.size_bytes for one in planned), "comparing") as progress:
        printed = print_logs(runs, planned, progress, is_deep=options.deep)
    verdicts = [diff_by_prints(runs, group, printed) for group in groups]
    return verdicts, [one for one in printed.values() if not isinstance(one, str)]


def _pairs(options: argparse.Namespace, left: LogInput, right: LogInput) -> list[Pair]:
    if left.is_single and right.is_single:
        (one,), (other,) = left.names, right.names
        return [Pair(one, left.log(one), right.log(other))]
    include_internal = options.include_internal or left.is_single or right.is_single
    numbers = parse_partition_numbers(options.partitions)
    wanted = [
        choose_partitions(side.names, topics=options.topics, partitions=numbers, include_internal=include_internal)
        for side in (left, right)
    ]
    if left.is_single or right.is_single:
        single = set(wanted[0] if left.is_single else wanted[1])
        wanted = [[name for name in names if name in single] for names in wanted]
    ours, theirs = set(wanted[0]), set(wanted[1])
    names = sorted(ours | theirs)
    if not names:
        raise KmirrorError(f"there is nothing to compare: neither {left.name} nor {right.name} has any of the requested partitions")
    return [Pair(name, left.log(name) if name in ours else None, right.log(name) if name in theirs else None) for name in names]


def _asked(options: argparse.Namespace, settings: DiffSettings, mirrored: Iterable[TopicPartition]) -> Asked:
    return Asked(
        _wants(options),
        is_all=options.topics is None and options.partitions is None,
        with_replicas=not options.no_replicas,
        ignored=settings.ignored,
        mirrored=frozenset(mirrored) if options.mirror else None,
    )


def _wants(options: argparse.Namespace) -> Wants:
    numbers = parse_partition_numbers(options.partitions)

    def wants(name: TopicPartition) -> bool:
        asked_for = choose_partitions([name], topics=options.topics, partitions=numbers, include_internal=options.include_internal)
        return bool(asked_for)

    return wants


def _engine(options: argparse.Namespace, left: LogInput, right: LogInput, size_bytes: int) -> str:
    folders = isinstance(left, FolderInput) and isinstance(right, FolderInput)
    engine = chosen_engine(
        options.engine,
        options.master,
        is_remote=is_remote(left.name) or is_remote(right.name),
        size_bytes=size_bytes,
        not_on_spark=None if folders else "--engine spark compares folders only; use --engine local for a live cluster",
    )
    if options.output is not None and not folders:
        raise KmirrorError("--output can only be used with folders, not with a live cluster")
    return engine


def _on_spark(group: Group, master: str | None) -> list[PartitionVerdict]:
    from kmirror.spark.log_diff import diff_on_spark
    from kmirror.spark.session import spark_session

    with progress_when_large(sum(one.size_bytes + other.size_bytes for one, other in group.folders), "comparing") as progress:
        spark = spark_session("kafka-log-diff", master=master)
        return diff_on_spark(spark, group.folders, *group.locations, group.settings, progress, group.mirrored)


def _locally(group: Group) -> list[PartitionVerdict]:
    pairs, folders = group.pairs, group.folders
    size_bytes = sum(one.size_bytes + other.size_bytes for one, other in pairs)
    with progress_when_large(size_bytes, "comparing") as progress:
        if len(folders) == len(pairs) > 1 and size_bytes > POOL_THRESHOLD_BYTES and (os.cpu_count() or 1) > 1:
            return list(_on_pool(group, progress))
        return [_diff_pair(one, other, group.settings, group.mirrored.get(one.topic_partition), progress) for one, other in pairs]


def _diff_pair(
    left: ComparedLog, right: ComparedLog, settings: DiffSettings, mirrored: MirroredPartition | None, progress: Progress = no_progress
) -> PartitionVerdict:
    if mirrored is not None and isinstance(left, DirectoryLog) and isinstance(right, DirectoryLog):
        return diff_mirrored(left, right, mirrored, settings, progress)
    return diff_logs(left, right, settings, progress)


def _on_pool(group: Group, progress: Progress) -> Iterable[PartitionVerdict]:
    """Compare the biggest pairs first, so that no big one is left over at the end."""
    from concurrent.futures import as_completed

    ordered = sorted(group.folders, key=lambda pair: -(pair[0].size_bytes + pair[1].size_bytes))
    with process_pool(len(ordered)) as pool:
        waiting = {
            pool.submit(_diff_pair, one, other, group.settings, group.mirrored.get(one.topic_partition)): one.size_bytes + other.size_bytes
            for one, other in ordered
        }
        for done in as_completed(waiting):
            progress(waiting[done])
            yield result_of(done, "compared partitions", COMPARE_FEWER)
