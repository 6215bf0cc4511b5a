"""What a cluster's own topics say over time, and where the logs contradict it.

`read_timelines` reads one replica (the largest) of each partition of an internal topic in an input.
`follow_mirrors` steps through the mirror states in order, and `cross_checks` compares the end of
the rows with the tables of `close`:

    group_offsets             a committed offset lies within the log of its partition
    mirror_states             each step is one of the state machine's (KIP-1279); after STOPPED
                              there is a MIRROR_PID_RESET
    coordinator_transactions  what is open in a log is open at its coordinator (KIP-664's hanging
                              transactions)
    leaders                   each leader epoch in a log is one that a leader had

Logs that mirror another cluster have its epochs and its producers' transactions, so only group
offsets are checked there. What needs something that the input lacks (no metadata log and no
snapshot of it, no log of a partition) is not checked. With running brokers, nothing counts against
the logs that may be newer than what was read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kmirror.common.errors import CorruptFileError
from kmirror.common.ports import FileSystem
from kmirror.common.topic_partition import CLUSTER_METADATA_TOPIC_NAME, TopicPartition
from kmirror.storage.reader import PartitionFiles
from kmirror.verify.planner import Listing
from kmirror.verify.replay.cleaner_history import TopicCleaner, topic_cleaners
from kmirror.verify.replay.internal_records import (
    INTERNAL_TOPICS,
    AssignmentRow,
    BadRecord,
    CoordinatorTransactionRow,
    GroupRow,
    InternalRow,
    LastMirrorEpochRow,
    LeaderRow,
    MirrorStateRow,
    OffsetCommitRow,
    TopicRow,
    internal_rows,
)
from kmirror.verify.replay.log_view import COMPACTED_TOPICS, NEVER_DELETING_TOPICS
from kmirror.verify.slices import LogSlice

_SNAPSHOT_NAME: Final = re.compile(r"\d{20}-\d{10}\.checkpoint")
NO_STATE: Final = 16
"""UNKNOWN, which is never stored."""
MIRROR_STEPS: Final[dict[int, frozenset[int]]] = {
    NO_STATE: frozenset({0, 4, 5, 6}),
    0: frozenset({1, 4, 6}),
    1: frozenset({0, 2, 4, 6}),
    2: frozenset({3, 4, 6}),
    3: frozenset({1, 4, 6}),
    4: frozenset({5, 6}),
    5: frozenset({0, 6}),
    6: frozenset({4}),
}
"""The states that may follow each state: `mirror.mirror_state_machine.VALID_TRANSITIONS` by number
(a test keeps them equal, because this package is below that one and cannot import it)."""
STATE_NAMES: Final = ("PREPARING", "MIRRORING", "PAUSING", "PAUSED", "STOPPING", "STOPPED", "FAILED")


@dataclass(slots=True)
class Timelines:
    """Rows of every kind, in the order of their logs."""

    group_offsets: list[OffsetCommitRow] = field(default_factory=list)
    groups: list[GroupRow] = field(default_factory=list)
    mirror_states: list[MirrorStateRow] = field(default_factory=list)
    last_mirror_epochs: list[LastMirrorEpochRow] = field(default_factory=list)
    coordinator_transactions: list[CoordinatorTransactionRow] = field(default_factory=list)
    leaders: list[LeaderRow] = field(default_factory=list)
    topics: list[TopicRow] = field(default_factory=list)
    assignments: list[AssignmentRow] = field(default_factory=list)
    bad: list[BadRecord] = field(default_factory=list)
    has_whole_metadata: bool = False
    """Whether the input has a metadata log from its first record on."""
    knows_topics: bool = False
    """Whether the input has that, or a snapshot of what came before the part that is left."""
    snapshot_rows: int = 0
    """How many of `topics` come from that snapshot, so what was before them is not known."""
    logs: set[str] = field(default_factory=set)
    """The folders that were read."""
    torn: set[str] = field(default_factory=set)
    """The folders that could not be read to their end."""

    def add(self, row: InternalRow | BadRecord) -> None:
        kept: dict[type[Any], list[Any]] = {
            OffsetCommitRow: self.group_offsets,
            GroupRow: self.groups,
            MirrorStateRow: self.mirror_states,
            LastMirrorEpochRow: self.last_mirror_epochs,
            CoordinatorTransactionRow: self.coordinator_transactions,
            LeaderRow: self.leaders,
            TopicRow: self.topics,
            AssignmentRow: self.assignments,
            BadRecord: self.bad,
        }
        kept[type(row)].append(row)

    @property
    def cleaners(self) -> dict[str, TopicCleaner]:
        """What the metadata log says of the cleaner of each topic; empty if it does not know the
        topics."""
        return topic_cleaners(self.topics, self.assignments, self.snapshot_rows) if self.knows_topics else {}

    @property
    def compacted_topics(self) -> frozenset[str] | None:
        """Every topic that was compacted at any time of its life; None if that is not known."""
        if not self.knows_topics:
            return None
        named = {name for name, cleaner in self.cleaners.items() if cleaner.spans}
        return frozenset({*named, *COMPACTED_TOPICS})

    @property
    def only_compacted_topics(self) -> frozenset[str]:
        """Topics that surely never had `delete` in their cleanup.policy; fewer if the input lacks
        the beginning of the metadata log."""
        if not self.has_whole_metadata:
            return frozenset(NEVER_DELETING_TOPICS)
        values: dict[str, set[str | None]] = {}
        for row in self.topics:
            if row.event == "cleanup.policy" and row.name is not None:
                values.setdefault(row.name, set()).add(row.value)
        return frozenset({*(name for name, said in values.items() if said == {"compact"}), *NEVER_DELETING_TOPICS})

    @property
    def mirrored_topics(self) -> frozenset[str] | None:
        """Every topic that ever mirrored one of another cluster; None if that is not known."""
        if self.knows_topics:
            return frozenset(row.name for row in self.topics if row.event == "mirror.name" and row.name and row.value)
        return None

    def epochs_of_leaders(self) -> dict[tuple[str, int], set[int]]:
        """Returns (topic id, partition) -> every leader epoch that there was."""
        epochs: dict[tuple[str, int], set[int]] = {}
        latest: dict[tuple[str, int], int] = {}
        for row in self.leaders:
            key = (row.topic_id, row.led_partition)
            latest[key] = latest.get(key, -1) + 1 if row.leader_epoch is None else row.leader_epoch
            epochs.setdefault(key, set()).add(latest[key])
        return epochs


def read_timelines(files: FileSystem, listing: Listing, *, only: Iterable[str] = INTERNAL_TOPICS) -> Timelines:
    """Returns the rows of the internal topics in an input, in the order of each partition's log."""
    timelines = Timelines()
    wanted = set(only)
    best: dict[TopicPartition, PartitionFiles] = {}
    for partition in listing.partitions:
        name = partition.topic_partition
        if name.topic in wanted and (name not in best or partition.size > best[name].size):
            best[name] = partition
    for name, partition in sorted(best.items()):
        timelines.logs.add(partition.path)
        pieces: list[LogSlice] = []
        if name.topic == CLUSTER_METADATA_TOPIC_NAME:
            timelines.has_whole_metadata = bool(partition.segments) and partition.segments[0].base_offset == 0 < partition.size
        try:
            if name.topic == CLUSTER_METADATA_TOPIC_NAME:
                pieces = [] if timelines.has_whole_metadata else _newest_snapshot(files, partition)
                timelines.knows_topics = timelines.has_whole_metadata or bool(pieces)
            for piece in (*pieces, *listing.slices(files, partition)):
                for row in internal_rows(files, piece, partition.path):
                    timelines.add(row)
                if piece in pieces:
                    timelines.snapshot_rows = len(timelines.topics)
        except (CorruptFileError, OSError):
            timelines.torn.add(partition.path)  # structure names the byte
    unread = {*timelines.torn, *(row.place.log for row in timelines.bad)}
    if any(best[name].path in unread for name in best if name.topic == CLUSTER_METADATA_TOPIC_NAME):
        timelines.has_whole_metadata = timelines.knows_topics = False
    timelines.mirror_states = list(follow_mirrors(timelines.mirror_states, timelines.topics))
    return timelines


def _newest_snapshot(files: FileSystem, partition: PartitionFiles) -> list[LogSlice]:
    """Returns the newest `.checkpoint` of a metadata log, as a slice of batches; an empty list if
    there is none."""
    names = [name for name in partition.other_files if _SNAPSHOT_NAME.fullmatch(name)]
    if not names:
        return []
    path = f"{partition.path}/{max(names)}"
    size = files.size(path)
    return [LogSlice(partition.path, path, *partition.topic_partition, 0, 0, size, size, False)]


def follow_mirrors(rows: Iterable[MirrorStateRow], topics: Iterable[TopicRow] = ()) -> Iterator[MirrorStateRow]:
    """Yields each row with the state before it, and whether the step is legal. A topic that was
    deleted in between begins anew."""
    removed = removals(topics)
    last: dict[tuple[str, str, int], MirrorStateRow] = {}
    for row in rows:
        if row.mirrored_topic is None or row.mirrored_partition is None or row.state is None:
            for key in [key for key in last if key[0] == row.mirror]:
                del last[key]
            yield row
            continue
        key = (row.mirror, row.mirrored_topic, row.mirrored_partition)
        before = last.get(key)
        if before is not None and any(
            before.record_timestamp <= when <= row.record_timestamp for when in removed.get(row.mirrored_topic, ())
        ):
            before = None
        previous = NO_STATE if before is None or before.state is None else before.state
        is_legal = row.state == previous or row.state in MIRROR_STEPS.get(previous, frozenset())
        row = replace(row, previous_state=None if previous == NO_STATE else previous, is_legal=is_legal)
        last[key] = row
        yield row


def removals(topics: Iterable[TopicRow]) -> dict[str, list[int]]:
    """Returns when topics were deleted, by name."""
    names: dict[str, str] = {}
    removed: dict[str, list[int]] = {}
    for row in topics:
        if row.event == "created" and row.name is not None and row.topic_id is not None:
            names[row.topic_id] = row.name
        elif row.event == "removed" and row.topic_id in names:
            removed.setdefault(names[row.topic_id], []).append(row.record_timestamp)
    return removed


def state_name(state: int | None) -> str:
    return "none" if state is None else STATE_NAMES[state] if 0 <= state < len(STATE_NAMES) else str(state)
