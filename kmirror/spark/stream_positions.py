"""The position of a stream, and what it means in a log that has changed since. No file is opened
here.

A position is (next offset, leader epoch of the record before it) of a partition, with the topic's
id if the folder has it. Spark keeps it in its checkpoint as JSON:

    {"orders": {"0": {"offset": 120, "leaderEpoch": 3, "topicId": "0PVJVbv8S4ShFqqnhmz3cw"}}}

`{"orders": {"0": 120}}`, as Spark's Kafka source writes it, is accepted too: a position whose epoch
is not known. A position has no byte position in any file, so segments may roll, be deleted and be
cleaned between two runs.

The end of a query's first micro-batch also keeps where it begins:

    {"orders": {"0": {"offset": 120, "leaderEpoch": 3, "start": {"offset": 0, "leaderEpoch": -1}}}}

Spark stores ends only. When it runs the first micro-batch again, it asks for the initial offsets
again, and "earliest", "latest" and timestamps would give others by then. Nobody gives a Python
source a place of its own in the checkpoint, where Spark's Kafka source keeps its initial offsets.

The leader epoch distinguishes a log that goes on from one that was truncated and written again
(KIP-101, KIP-320). With the position (P, E), the records before P are those that were read if the
log's epochs up to E reach to P or further, and the record before P is of epoch E.

    the log has                                  then
    another topic id                             it was deleted and created again: everything after
                                                 the position is lost
    a greater epoch that begins below P, or
    its end below P                              it was truncated to where E ends; what was read
                                                 after that is not part of it
    a smaller epoch before P, and no epoch E     it is another replica's, which never had E; where
                                                 they diverge is not known
    its first offset after P                     what lay before it was deleted unread
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from kmirror.common.errors import KmirrorError
from kmirror.common.sentinels import NO_EPOCH
from kmirror.common.topic_partition import TopicPartition
from kmirror.storage.leader_epoch_checkpoint_file import EpochEntry


class Position(NamedTuple):
    """The position in one partition."""

    offset: int
    """The next offset to read."""
    epoch: int = NO_EPOCH
    """The epoch of the last record before `offset`; NO_EPOCH if there was none, or if it is not
    known."""
    topic_id: str | None = None
    start: Position | None = None
    """Where the query's first micro-batch begins, in the position where it ends."""

    @property
    def alone(self) -> Position:
        """The position without `start`."""
        return self._replace(start=None)


def to_json(positions: Mapping[TopicPartition, Position]) -> dict[str, Any]:
    """Returns positions as JSON, sorted because Spark compares them as text."""
    made: dict[str, Any] = {}
    for name in sorted(positions):
        made.setdefault(name.topic, {})[str(name.partition)] = _fields(positions[name])
    return made


def _fields(one: Position) -> dict[str, Any]:
    fields: dict[str, Any] = {"offset": one.offset, "leaderEpoch": one.epoch}
    if one.topic_id is not None:
        fields["topicId"] = one.topic_id
    if one.start is not None:
        fields["start"] = _fields(one.start)
    return fields


def from_json(given: Any) -> dict[TopicPartition, Position]:
    """Parses a position. KmirrorError if it is neither ours nor one of Spark's Kafka source."""
    try:
        return {
            TopicPartition(topic, int(partition)): _position(fields)
            for topic, by_partition in given.items()
            for partition, fields in by_partition.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        text = str(given)
        raise KmirrorError(
            f"the checkpoint is of another source: {text[:200]} is no position in logs, which is like "
            '{"topic": {"0": {"offset": 23, "leaderEpoch": 1}}}'
        ) from error


def _position(fields: Any) -> Position:
    if isinstance(fields, int):
        return Position(fields)
    topic_id, start = fields.get("topicId"), fields.get("start")
    return Position(
        int(fields["offset"]),
        int(fields["leaderEpoch"]),
        None if topic_id is None else str(topic_id),
        None if start is None else _position(start),
    )


def with_starts(ends: Mapping[TopicPartition, Position], initial: Mapping[TopicPartition, Position]) -> dict[TopicPartition, Position]:
    """Returns the ends of the first micro-batch with where it begins: at the initial offsets, and at
    offset 0 of a partition that is younger than these."""
    return {name: end._replace(start=initial.get(name, Position(0, topic_id=end.topic_id))) for name, end in ends.items()}


def begins_of(begins: Mapping[TopicPartition, Position], ends: Mapping[TopicPartition, Position]) -> dict[TopicPartition, Position]:
    """Returns where a micro-batch begins: what its ends keep wins over what Spark says."""
    kept = {name: end.start for name, end in ends.items() if end.start is not None and begins.get(name) != end}
    return {**{name: begin.alone for name, begin in begins.items()}, **kept}


class Epochs(Protocol):
    """The leader epochs of a log."""

    is_exact: bool
    """False if cleaning can have hidden an epoch."""

    def before(self, offset: int) -> int:
        """Returns the epoch of the last record before `offset`, NO_EPOCH if there is none."""
        ...

    def end_of(self, epoch: int, offset: int) -> int:
        """Returns where the records of epochs up to `epoch` end: the log's end if no later epoch
        begins below `offset`."""
        ...


class CheckpointEpochs:
    """The epochs of `leader-epoch-checkpoint`, as far as the log reaches."""

    is_exact = True

    def __init__(self, entries: Iterable[EpochEntry], log_end: int) -> None:
        self._entries = sorted(entries)
        self._starts = [entry.start_offset for entry in self._entries]
        self._log_end = log_end

    def before(self, offset: int) -> int:
        row = bisect_left(self._starts, offset) - 1
        return self._entries[row].epoch if row >= 0 else NO_EPOCH

    def end_of(self, epoch: int, offset: int) -> int:
        row = bisect_right(self._entries, (epoch, 1 << 63))
        return min(self._starts[row], self._log_end) if row < len(self._starts) else self._log_end


@dataclass(frozen=True)
class LogState:
    """What a partition's log has at one moment."""

    log_start: int
    log_end: int
    visible_end: int
    """What lies below it may be handed out."""
    epochs: Epochs
    topic_id: str | None = None

    def position(self, offset: int) -> Position:
        return Position(offset, self.epochs.before(offset), self.topic_id)

    @cached_property
    def visible_position(self) -> Position:
        """The position of a reader that has read everything that may be handed out."""
        return self.position(self.visible_end)


class Resumed(NamedTuple):
    """Where reading goes on, and what is lost (None: nothing)."""

    offset: int
    loss: str | None = None


def resume(name: TopicPartition, position: Position, log: LogState) -> Resumed:
    """Returns where reading resumes from a position in the log as it is now, and what is lost."""
    offset, epoch, topic_id, _ = position
    if topic_id is not None and log.topic_id is not None and topic_id != log.topic_id:
        loss = (
            f"{name} was deleted and made anew: offset {offset} (leader epoch {epoch}) of topic id {topic_id} was next, "
            f"now the topic id is {log.topic_id} with offsets from {log.log_start} to {log.log_end}"
        )
        return Resumed(log.log_start, loss)
    cut = _cut(name, position, log)
    if cut is not None:
        return Resumed(max(cut.offset, log.log_start), cut.loss)
    if offset < log.log_start:
        loss = (
            f"offsets {offset} to {log.log_start - 1} of {name} were deleted before they were read: the log begins at offset {log.log_start} "
            f"(leader epoch {log.epochs.before(log.log_start + 1)}), and offset {offset} was next (leader epoch {epoch})"
        )
        return Resumed(log.log_start, loss)
    return Resumed(offset)


def added(name: TopicPartition, log: LogState) -> Resumed:
    """Returns where reading begins in a partition that is new to the stream: at its first record.
    Something is lost if that is not offset 0."""
    if log.log_start == 0:
        return Resumed(0)
    return Resumed(log.log_start, f"{name} is new here and begins at offset {log.log_start} instead of 0")


def _cut(name: TopicPartition, position: Position, log: LogState) -> Resumed | None:
    """Returns where the log diverges from what was read before a position; None if it does not."""
    offset, epoch = position.offset, position.epoch
    end = log.log_end if epoch == NO_EPOCH else log.epochs.end_of(epoch, offset)
    if end < offset:
        later = log.epochs.before(end + 1)
        what = f"leader epoch {later} begins there" if later > epoch and end < log.log_end else "the log ends there"
        loss = (
            f"{name} was truncated: offset {offset} was next, behind leader epoch {epoch}, "
            f"but epoch {epoch} ends at offset {end} and {what}; offsets {end} to {offset - 1} were read and are no part of the log"
        )
        return Resumed(end, loss)
    there = log.epochs.before(offset)
    if log.epochs.is_exact and NO_EPOCH < there < epoch:
        loss = (
            f"{name} was truncated: offset {offset} was next, behind leader epoch {epoch}, which the log does not know; "
            f"it has leader epoch {there} there"
        )
        return Resumed(offset, loss)
    return None


class Range(NamedTuple):
    """Offsets from `low` up to but not including `end`, and what is lost of those that were
    planned."""

    low: int
    end: int
    losses: list[str]


def range_between(name: TopicPartition, start: Position | None, end: Position, log: LogState) -> Range:
    """Returns what a micro-batch from `start` (None: the partition was not there yet) to `end` has
    in the log as it is now. It stays the same as long as the log keeps it."""
    if end.topic_id is not None and log.topic_id is not None and end.topic_id != log.topic_id:
        return Range(0, 0, [f"{name} was deleted and made anew: the topic id was {end.topic_id}, now it is {log.topic_id}"])
    begin = added(name, log) if start is None else resume(name, start, log)
    losses = [] if begin.loss is None else [begin.loss]
    last = end.offset
    if begin.offset < last and (cut := _cut(name, end, log)) is not None:
        last = min(last, cut.offset)
        losses += [] if cut.loss is None else [cut.loss]
    return Range(begin.offset, last, losses) if begin.offset < last else Range(begin.offset, begin.offset, losses)


def spread(budget: int, needs: Sequence[int]) -> list[int]:
    """Distributes `budget` fairly (max-min): each gets at most what it needs, and gets less than
    another only if it needs less."""
    shares = [0] * len(needs)
    left = budget
    order = sorted(range(len(needs)), key=lambda row: needs[row])
    for served, row in enumerate(order):
        shares[row] = min(needs[row], -(-left // (len(order) - served)))
        left -= shares[row]
    return shares
