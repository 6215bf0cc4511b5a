"""Where a consumer reads one assigned partition from, and whether it may (Kafka's `FetchState`,
`FetchPosition` and `TopicPartitionState`).

A partition's fetch state, and what may follow. Every other step is ignored, as in Kafka: an answer
that comes too late does not undo a seek.

    INITIALIZING      no position yet: what is committed is asked next
    FETCHING          has a position, is fetched
    AWAIT_RESET       the position follows from `auto.offset.reset`, or from seek_to_beginning/end
    AWAIT_VALIDATION  has a position whose leader changed: the log may have been cut (KIP-320)

    from \\ to          FETCHING  AWAIT_RESET  AWAIT_VALIDATION
    INITIALIZING         yes        yes           yes
    FETCHING             yes        yes           yes
    AWAIT_RESET          yes        yes           no
    AWAIT_VALIDATION     yes        yes           yes

A position knows the epoch of the last consumed record (`offset_epoch`) and the leader and epoch
under which it was last known to be right. If Metadata names another leader or epoch, and both
epochs are known, the leader is asked where `offset_epoch` ends in its log (OffsetForLeaderEpoch):

    end >= position              the position is right
    end < position               the log was cut: go on at `end`, or raise without a reset policy
    the leader knows no epoch    reset, or raise without a reset policy
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from kmirror.clients.consumer.auto_offset_reset_strategy import AutoOffsetResetStrategy
from kmirror.common.sentinels import NO_EPOCH
from kmirror.common.uuid import Uuid


class FetchState(Enum):
    """See the module's docstring."""

    INITIALIZING = "INITIALIZING"
    FETCHING = "FETCHING"
    AWAIT_RESET = "AWAIT_RESET"
    AWAIT_VALIDATION = "AWAIT_VALIDATION"


VALID_TRANSITIONS: Final = {
    FetchState.INITIALIZING: (FetchState.FETCHING, FetchState.AWAIT_RESET, FetchState.AWAIT_VALIDATION),
    FetchState.FETCHING: (FetchState.FETCHING, FetchState.AWAIT_RESET, FetchState.AWAIT_VALIDATION),
    FetchState.AWAIT_RESET: (FetchState.FETCHING, FetchState.AWAIT_RESET),
    FetchState.AWAIT_VALIDATION: (FetchState.FETCHING, FetchState.AWAIT_RESET, FetchState.AWAIT_VALIDATION),
}
HAS_POSITION: Final = (FetchState.FETCHING, FetchState.AWAIT_VALIDATION)


class KnownLeader(NamedTuple):
    """A leader's node id and epoch; -1 where they are not known."""

    node_id: int = -1
    epoch: int = NO_EPOCH


NO_LEADER: Final = KnownLeader()


@dataclass(frozen=True, slots=True)
class FetchPosition:
    """The next offset to read; the epoch of the record before it; the leader under which this was
    last checked."""

    offset: int
    offset_epoch: int = NO_EPOCH
    leader: KnownLeader = NO_LEADER


@dataclass(slots=True)
class PartitionState:
    """One assigned partition. Offsets are None until a response told them."""

    fetch_state: FetchState = FetchState.INITIALIZING
    position: FetchPosition | None = None
    high_watermark: int | None = None
    log_start_offset: int | None = None
    last_stable_offset: int | None = None
    paused: bool = False
    pending_revocation: bool = False
    pending_on_assigned_callback: bool = False
    position_asked: bool = False
    reset_strategy: AutoOffsetResetStrategy | None = None
    next_retry_ms: int = 0
    preferred_read_replica: int | None = None
    topic_id: Uuid = Uuid.ZERO
    """Of the topic that answered last; a topic that is made anew has another one."""
    preferred_read_replica_expires_ms: int = 0

    @property
    def has_valid_position(self) -> bool:
        return self.fetch_state is FetchState.FETCHING

    @property
    def is_fetchable(self) -> bool:
        return not (self.paused or self.pending_revocation or self.pending_on_assigned_callback) and self.has_valid_position

    def go(self, state: FetchState, position: FetchPosition | None = None) -> bool:
        """Takes a step if the table allows it; returns whether it did."""
        if state not in VALID_TRANSITIONS[self.fetch_state]:
            return False
        assert state not in HAS_POSITION or position is not None, f"{state} needs a position"
        self.fetch_state, self.position, self.next_retry_ms = state, position, 0
        return True

    def validate(self, position: FetchPosition) -> None:
        """Takes the position, and has it checked if the epochs are known that this needs."""
        checks = position.offset_epoch != NO_EPOCH and position.leader.epoch != NO_EPOCH
        self.go(FetchState.AWAIT_VALIDATION if checks else FetchState.FETCHING, position)
