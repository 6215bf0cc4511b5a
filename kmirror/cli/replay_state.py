"""How far a replay is, in a folder with a small JSON file for each partition; written whole and renamed, so that none is ever half there.

What a file says is always a little old: batches were sent since. So it does not claim what the destination has, it says how to ask. A producer's
sequence counts its records, and the destination knows the last sequence of each producer (DescribeProducers, KIP-664): what it has beyond
`LaneState.sequence` are the records that the recording has next for that producer. Therefore

- a producer's id and epoch are in the file before its first batch is sent,
- a transaction's end is in the file before the coordinator is asked for it (`ending`), and its outcome behind it.

A transaction lives on over a restart while its timeout lasts; one that the coordinator ended meanwhile is in `redo`, and is sent again as a whole
in another transaction. So consumers that read committed records get every record once, and in order, unless a transaction had to be sent again: then
its first records lie behind those of others. Only readers of uncommitted records see the aborted attempt.

Asking needs READ on the topics and DESCRIBE on the transactional ids, beside what a producer needs (WRITE on both).
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
    """A producer at the destination that writes into one partition: the one without transactions, or one for each transaction open at a time."""

    transactional_id: str | None
    producer_id: int = -1
    epoch: int = -1
    sequence: int = 0
    """Of the record behind the last one that is known to be written."""
    source_producer_id: int | None = None
    """Whose transaction is open; None: none is."""
    first_offset: int = -1
    """Where that began in the recording."""
    ending: str | None = None
    """`commit` or `abort`: the coordinator is being asked for it."""

    @property
    def is_open(self) -> bool:
        return self.source_producer_id is not None

    def close(self, *, forget: bool = False) -> None:
        """The transaction has ended. `forget`: nor is the producer known any more."""
        self.source_producer_id, self.first_offset, self.ending = None, -1, None
        if forget:
            self.producer_id, self.epoch, self.sequence = -1, -1, 0


class OpenTransaction(msgspec.Struct, frozen=True):
    """A recorded transaction of which nothing that counts is at the destination."""

    producer_id: int
    first_offset: int


class PartitionState(msgspec.Struct):
    """One partition."""

    version: int
    cluster_id: str
    topic_id: str
    """The destination's."""
    source: str
    target: str
    replay_id: str
    """Makes the transactional ids of this replay its own."""
    next_offset: int
    """All that the recording has below is at the destination, but for `redo` and what was to be left out."""
    lanes: list[LaneState]
    redo: list[OpenTransaction]
    is_settled: bool = False
    """Whether nothing beyond `next_offset` can be there."""
    records: int = 0
    """Sent by all runs together."""
    size: int = 0
    """Their bytes."""


class StateFile:
    """The file of one partition. KmirrorError for one that is damaged, or of another replay."""

    def __init__(self, folder: str, source: TopicPartition) -> None:
        self.path = Path(folder) / f"{source}{SUFFIX}"

    def read(self, expected: PartitionState) -> PartitionState | None:
        """None without the file; else it must be about the clusters, topics and partitions that `expected` names."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            state = msgspec.json.decode(data, type=PartitionState)
        except msgspec.MsgspecError as error:
            raise KmirrorError(f"{self.path} is no progress file of kmirror replay: {error}") from error
        for name in ("version", "cluster_id", "source", "target", "topic_id"):
            was, now = getattr(state, name), getattr(expected, name)
            if was != now:
                advice = "the topic was deleted and created again" if name == "topic_id" else "it belongs to another replay"
                raise KmirrorError(f"{self.path} has {name} {was}, and now it is {now}: {advice}; give another --state or delete the file")
        return state

    def write(self, state: PartitionState) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_name(f"{self.path.name}.{os.getpid()}.tmp")
        new.write_bytes(msgspec.json.encode(state))
        os.replace(new, self.path)
