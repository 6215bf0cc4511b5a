"""How far a replay is: a folder with a small JSON file for each partition.

A file is written whole and renamed, so it is never half there. What it says is always slightly old,
because more batches have been sent since. So it does not claim what the destination has; it says
how to ask. A producer's sequence counts its records, and the destination knows the last sequence of
each producer (DescribeProducers, KIP-664). What it has beyond `LaneState.sequence` are the next
records that the recording has for that producer. Therefore

- a producer's id and epoch are in the file before its first batch is sent,
- a transaction's end is in the file before the coordinator is asked for it (`ending`), and its
  outcome afterwards.

A transaction survives a restart as long as its timeout lasts. One that the coordinator ended
meanwhile is in `redo`, and is sent again as a whole in another transaction. So read_committed
consumers get every record once and in order, unless a transaction had to be sent again: then its
first records come after those of others. Only readers of uncommitted records see the aborted
attempt.

Between two runs the recording may have changed, too. A run that goes on is held against it: the
topic's id, where the log begins (what retention deleted before it was replayed, also of a
transaction that is to be sent again) and where it ends.

Asking needs READ on the topics and DESCRIBE on the transactional ids, besides what a producer needs
(WRITE on both).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition

VERSION: Final = 1
SUFFIX: Final = ".replay.json"


class LaneState(msgspec.Struct):
    """A producer at the destination that writes into one partition.

    There is one without transactions, and one for each transaction that is open at the same time.
    """

    transactional_id: str | None
    producer_id: int = -1
    epoch: int = -1
    sequence: int = 0
    """The sequence after that of the last record known to be written."""
    source_producer_id: int | None = None
    """The recorded producer whose transaction is open; None if none is open."""
    first_offset: int = -1
    """The recorded offset where the open transaction began."""
    ending: str | None = None
    """`commit` or `abort` while the coordinator is being asked for it."""

    @property
    def is_open(self) -> bool:
        return self.source_producer_id is not None

    def close(self, *, forget: bool = False) -> None:
        """Note that the transaction has ended. `forget`: forget the producer, too."""
        self.source_producer_id, self.first_offset, self.ending = None, -1, None
        if forget:
            self.producer_id, self.epoch, self.sequence = -1, -1, 0


class OpenTransaction(msgspec.Struct, frozen=True):
    """A recorded transaction of which the destination has nothing that counts."""

    producer_id: int
    first_offset: int


class ReplayedPartition(msgspec.Struct):
    """The progress of one partition."""

    version: int
    cluster_id: str
    topic_id: str
    """The destination's topic id."""
    source: str
    target: str
    replay_id: str
    """Makes the transactional ids of this replay unique."""
    next_offset: int
    """The destination has everything recorded below this, except `redo` and what is left out."""
    lanes: list[LaneState]
    redo: list[OpenTransaction]
    is_settled: bool = False
    """Whether it is certain that the destination has nothing beyond `next_offset`."""
    records: int = 0
    """Records that all runs together have sent."""
    size: int = 0
    """Bytes that all runs together have sent."""
    source_topic_id: str | None = None
    """The recorded topic's id; None if the recording does not say, or an older kmirror wrote this."""


class StateFile:
    """The file of one partition. KmirrorError for one that is damaged, or of another replay."""

    def __init__(self, folder: str, source: TopicPartition) -> None:
        self.path = Path(folder) / f"{source}{SUFFIX}"

    def read(self, expected: ReplayedPartition) -> ReplayedPartition | None:
        """Returns None without the file.

        Otherwise the file must be about the clusters, topics and partitions that `expected` names.
        """
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            state = msgspec.json.decode(data, type=ReplayedPartition)
        except msgspec.MsgspecError as error:
            raise KmirrorError(f"{self.path} is not a progress file of kmirror replay: {error}") from error
        for name in ("version", "cluster_id", "source", "target", "topic_id"):
            was, now = getattr(state, name), getattr(expected, name)
            if was != now:
                advice = "the topic was deleted and created again" if name == "topic_id" else "it belongs to another replay"
                raise KmirrorError(f"{self.path} has {name} {was}, and now it is {now}: {advice}; give another --state or delete the file")
        was_id, now_id = state.source_topic_id, expected.source_topic_id
        if was_id is not None and now_id is not None and was_id != now_id:
            raise KmirrorError(
                f"{self.path} is of the recorded topic with id {was_id}, and {state.source} now has id {now_id}: the topic was deleted and "
                "created again; give another --state or delete the file"
            )
        return state

    def write(self, state: ReplayedPartition) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_name(f"{self.path.name}.{os.getpid()}.tmp")
        new.write_bytes(msgspec.json.encode(state))
        os.replace(new, self.path)
