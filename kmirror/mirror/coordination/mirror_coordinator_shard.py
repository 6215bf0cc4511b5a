"""The states of the mirror partitions that one partition of `__mirror_state` coordinates: no I/O,
rebuilt by replay, never waiting.

State per mirror: (topic, partition) -> state, and (topic, partition) -> last mirror epoch (LME).
Writes are checked against `VALID_TRANSITIONS`; a partition that fails the check gets
INVALID_REQUEST and nothing is written for it. A write of the state that is already stored writes
nothing, except with `rewrite`: a new leader appends PREPARING or STOPPING again before it acts, so
that a deposed coordinator's answer cannot be the newest (D3-28, D3-29).

A request may be carried out long after its sender gave up on it, when the partition has moved on:
FAILED for a partition that is STOPPED and being written to by then, or STOPPING for one that
mirrors again. So a write names the record that it follows (`state_offset_tag`: the last one that
changed the partition's state or epoch), and it is late if there has been another since. A late
write gets INVALID_REQUEST, unless everything it asks for is stored already: that is how a retry
finds what its first attempt stored.

Not every sender is a kmirror broker, and a leader that nobody has deposed yet may act on old
metadata. PREPARING may follow MIRRORING and STOPPED, and would send a partition that mirrors, or
has failed over, back to the beginning. So these two transitions need a reason in the metadata too:
`may_prepare` (D3-31, D3-4). The last mirror epoch of a STOPPED partition may only be lowered: one
that is too low is safe, while one that is too high would make the failback partner keep batches
that are not the source's (D3-29b).

A type-1 record carries the whole map of its mirror at this coordinator partition (C26), so the
shard builds it from its own state: only that mirror, only partitions that hash here (C25). -1 is
stored to replace an earlier value (D4 step 5) and when a topic is removed (D3-34). A removal names
a topic but not its id, and may arrive when a new topic has that name. So if the topic is in the
mirror, only its STOPPED partitions are forgotten: a topic in any other state could not have been
deleted (B30).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from kmirror.common.errors import Errors
from kmirror.common.sentinels import NO_LAST_MIRROR_EPOCH
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord, CoordinatorResult
from kmirror.mirror.coordination.mirror_records import (
    LastMirrorEpochs,
    PartitionStateRecord,
    last_mirror_epochs_record,
    partition_state_record,
    read_record,
    tombstones,
)
from kmirror.mirror.coordination.state_offset_tag import ANY_LEADER_EPOCH, NOT_TOLD, NOTHING_STORED
from kmirror.mirror.mirror_state_machine import MirrorPartitionState, is_valid_transition

CLEAR_LAST_MIRROR_EPOCH = -2
"""In a write, and on the wire between kmirror's brokers: store -1.

The wire's -1 means "do not change" (RS9).
"""

STOPPED = MirrorPartitionState.STOPPED
GOES_BACK_FROM = (MirrorPartitionState.MIRRORING, STOPPED)

PartitionKey = tuple[str, int]


@dataclass(frozen=True, slots=True)
class StoredState:
    """What is stored for a partition: UNKNOWN and -1 when nothing is."""

    state: MirrorPartitionState = MirrorPartitionState.UNKNOWN
    last_mirror_epoch: int = NO_LAST_MIRROR_EPOCH
    has_mirrored: bool = False
    """Whether a MIRRORING record followed the last PREPARING one; not on the wire."""
    offset: int = field(default=NOT_TOLD, compare=False)
    """The offset of the last record that changed any of this."""
    reason: str | None = field(default=None, compare=False)
    """Why it is FAILED, if its leader told this coordinator: no record has room for it."""


class StateWrite(NamedTuple):
    """One partition of a write.

    State UNKNOWN: leave the state. Epoch -1: leave the epoch; -2: store -1. `follows`: the offset
    of the newest record that the sender knows of; `leader_epoch`: the epoch in which the sender
    leads the partition (the coordinator compares it with metadata); `reason`: why the state is
    FAILED.
    """

    topic: str
    partition: int
    state: MirrorPartitionState = MirrorPartitionState.UNKNOWN
    last_mirror_epoch: int = NO_LAST_MIRROR_EPOCH
    rewrite: bool = False
    follows: int = NOT_TOLD
    leader_epoch: int = ANY_LEADER_EPOCH
    reason: str | None = None


class _MirrorState:
    __slots__ = ("epochs", "has_mirrored", "offsets", "reasons", "states")

    def __init__(self) -> None:
        self.states: dict[PartitionKey, MirrorPartitionState] = {}
        self.has_mirrored: dict[PartitionKey, bool] = {}
        self.epochs: dict[PartitionKey, int] = {}
        self.offsets: dict[PartitionKey, int] = {}
        self.reasons: dict[PartitionKey, str] = {}


class MirrorCoordinatorShard:
    """The `CoordinatorShard` of one `__mirror_state` partition: owns the states and epochs of all
    mirrors there.
    """

    def __init__(self) -> None:
        self._mirrors: dict[str, _MirrorState] = {}

    def read(self, mirror_name: str, keys: Iterable[PartitionKey]) -> dict[PartitionKey, StoredState]:
        """What is stored for each of `keys`."""
        mirror = self._mirrors.get(mirror_name)
        if mirror is None:
            return {key: StoredState(offset=NOTHING_STORED) for key in keys}
        return {
            key: StoredState(
                mirror.states.get(key, MirrorPartitionState.UNKNOWN),
                mirror.epochs.get(key, NO_LAST_MIRROR_EPOCH),
                mirror.has_mirrored.get(key, False),
                mirror.offsets.get(key, NOTHING_STORED),
                mirror.reasons.get(key),
            )
            for key in keys
        }

    def mirror_names(self) -> list[str]:
        """The mirrors with anything stored here, sorted."""
        return sorted(self._mirrors)

    def topics(self, mirror_name: str) -> list[str]:
        """The mirror's topics with a stored state, sorted."""
        mirror = self._mirrors.get(mirror_name) or _MirrorState()
        return sorted({topic for topic, _ in mirror.states})

    def is_all_stopped(self, mirror_name: str) -> bool:
        """Whether every stored state of the mirror is STOPPED."""
        mirror = self._mirrors.get(mirror_name)
        return mirror is None or all(state is STOPPED for state in mirror.states.values())

    def write(
        self,
        mirror_name: str,
        writes: Iterable[StateWrite],
        removed_topics: Iterable[str] = (),
        *,
        may_prepare: Callable[[str, MirrorPartitionState], bool] = lambda topic, current: True,
        is_in_mirror: Callable[[str], bool] = lambda topic: False,
        offsets: dict[PartitionKey, int] | None = None,
    ) -> CoordinatorResult[dict[PartitionKey, Errors]]:
        """Decide a WriteMirrorStates: the records, and one error per partition.

        Topics are removed after the writes, and their states in the same step, so a topic that is
        created again meanwhile keeps its own. `may_prepare`: whether metadata has a reason for a
        topic's partition to go back to PREPARING from MIRRORING or STOPPED; `is_in_mirror`: whether
        a topic to be removed is in the mirror (again). For each partition that was written,
        `offsets` receives the offset that its next write must follow.
        """
        mirror = self._mirrors.get(mirror_name) or _MirrorState()
        epochs = dict(mirror.epochs)
        records: list[CoordinatorRecord] = []
        errors: dict[PartitionKey, Errors] = {}
        reasons: dict[PartitionKey, str] = {}
        for write in writes:
            key = (write.topic, write.partition)
            current = mirror.states.get(key, MirrorPartitionState.UNKNOWN)
            is_late = write.follows not in (NOT_TOLD, mirror.offsets.get(key, NOTHING_STORED))
            is_refused = not _is_done(write, current, epochs) if is_late else not _may_write(write, current, epochs, may_prepare)
            errors[key] = Errors.INVALID_REQUEST if is_refused else Errors.NONE
            if not is_refused and write.state is MirrorPartitionState.FAILED and write.reason is not None:
                reasons[key] = write.reason
            if is_refused or is_late:
                continue
            _apply_epoch(epochs, key, write.last_mirror_epoch)
            if write.state is not MirrorPartitionState.UNKNOWN and (write.state is not current or write.rewrite):
                records.append(partition_state_record(mirror_name, write.topic, write.partition, write.state))
        removed = self._removed(mirror, removed_topics, is_in_mirror)
        for key in removed & epochs.keys():
            epochs[key] = NO_LAST_MIRROR_EPOCH
        if epochs != mirror.epochs:
            records.insert(0, last_mirror_epochs_record(mirror_name, epochs))
        return CoordinatorResult(records, errors, on_appended=partial(self._on_written, mirror_name, removed, errors, offsets, reasons))

    def delete_mirror(self, mirror_name: str) -> CoordinatorResult[None]:
        """Tombstones for both keys, if anything of the mirror is stored here (D3-33)."""
        return CoordinatorResult(tombstones(mirror_name) if mirror_name in self._mirrors else [], None)

    @staticmethod
    def _removed(mirror: _MirrorState, topics: Iterable[str], is_in_mirror: Callable[[str], bool]) -> Set[PartitionKey]:
        """The partitions of deleted topics whose states are forgotten."""
        is_there = {topic: is_in_mirror(topic) for topic in topics}
        return {
            key
            for key in mirror.states.keys() | mirror.epochs.keys()
            if key[0] in is_there and not (is_there[key[0]] and mirror.states.get(key, STOPPED) is not STOPPED)
        }

    def _on_written(
        self,
        mirror_name: str,
        removed: Set[PartitionKey],
        errors: Mapping[PartitionKey, Errors],
        offsets: dict[PartitionKey, int] | None,
        reasons: Mapping[PartitionKey, str],
    ) -> None:
        """Forgets the states of topics that were deleted; epochs of -1 supersede their records
        (D3-34).
        """
        mirror = self._mirrors.get(mirror_name) or _MirrorState()
        mirror.reasons.update(reasons)
        for key in removed:
            for kept in (mirror.states, mirror.has_mirrored, mirror.offsets, mirror.reasons):
                kept.pop(key, None)
        if offsets is not None:
            offsets.update((key, mirror.offsets.get(key, NOTHING_STORED)) for key, error in errors.items() if error is Errors.NONE)

    def replay(self, offset: int, record: CoordinatorRecord, *, producer_id: int = -1, producer_epoch: int = -1) -> None:
        decoded = read_record(record)
        if isinstance(decoded, LastMirrorEpochs):
            self._replay_epochs(offset, decoded)
        elif isinstance(decoded, PartitionStateRecord):
            mirror = self._mirrors.setdefault(decoded.mirror_name, _MirrorState())
            key = (decoded.topic, decoded.partition)
            mirror.states[key], mirror.offsets[key] = decoded.state, offset
            mirror.reasons.pop(key, None)
            if decoded.state in (MirrorPartitionState.PREPARING, MirrorPartitionState.MIRRORING):
                mirror.has_mirrored[key] = decoded.state is MirrorPartitionState.MIRRORING
        elif decoded.mirror_name in self._mirrors:
            mirror = self._mirrors[decoded.mirror_name]
            for kept in (mirror.states, mirror.has_mirrored, mirror.offsets, mirror.reasons):
                kept.clear()
            self._drop_if_empty(decoded.mirror_name)

    def replay_end_transaction_marker(self, *, producer_id: int, producer_epoch: int, committed: bool) -> None:
        """`__mirror_state` takes no transactions, so a marker there means nothing."""

    def on_loaded(self, now_ms: int) -> None:
        """Starts nothing: the leaders of the partitions ask."""

    def on_unloaded(self) -> None:
        self._mirrors.clear()

    def _replay_epochs(self, offset: int, decoded: LastMirrorEpochs) -> None:
        if decoded.epochs is None:
            if decoded.mirror_name in self._mirrors:
                self._mirrors[decoded.mirror_name].epochs.clear()
                self._drop_if_empty(decoded.mirror_name)
            return
        mirror = self._mirrors.setdefault(decoded.mirror_name, _MirrorState())
        mirror.offsets.update((key, offset) for key, epoch in decoded.epochs.items() if mirror.epochs.get(key) != epoch)
        mirror.epochs.update(decoded.epochs)

    def _drop_if_empty(self, mirror_name: str) -> None:
        mirror = self._mirrors[mirror_name]
        if not mirror.states and not mirror.epochs:
            del self._mirrors[mirror_name]


def _is_done(write: StateWrite, current: MirrorPartitionState, epochs: Mapping[PartitionKey, int]) -> bool:
    """Whether what the write asks for is stored already."""
    stored = epochs.get((write.topic, write.partition), NO_LAST_MIRROR_EPOCH)
    wanted = {NO_LAST_MIRROR_EPOCH: stored, CLEAR_LAST_MIRROR_EPOCH: NO_LAST_MIRROR_EPOCH}.get(
        write.last_mirror_epoch, write.last_mirror_epoch
    )
    return write.state in (current, MirrorPartitionState.UNKNOWN) and wanted == stored


def _may_write(
    write: StateWrite,
    current: MirrorPartitionState,
    epochs: Mapping[PartitionKey, int],
    may_prepare: Callable[[str, MirrorPartitionState], bool],
) -> bool:
    if write.state is not MirrorPartitionState.UNKNOWN and not is_valid_transition(current, write.state):
        return False
    if write.state is MirrorPartitionState.PREPARING and current in GOES_BACK_FROM and not may_prepare(write.topic, current):
        return False
    return current is not STOPPED or write.last_mirror_epoch <= epochs.get((write.topic, write.partition), NO_LAST_MIRROR_EPOCH)


def _apply_epoch(epochs: dict[PartitionKey, int], key: PartitionKey, last_mirror_epoch: int) -> None:
    if last_mirror_epoch == CLEAR_LAST_MIRROR_EPOCH:
        if key in epochs:
            epochs[key] = NO_LAST_MIRROR_EPOCH
    elif last_mirror_epoch != NO_LAST_MIRROR_EPOCH:
        epochs[key] = last_mirror_epoch
