"""The states of a transactional id, and what may happen in each (Kafka's `TransactionState`), as
one table.

                                      .──────── ADD_PARTITIONS ───────.
    (new) ── INIT_PRODUCER_ID ──> Empty                              Ongoing ── COMMIT ──> PrepareCommit ── MARKERS_WRITTEN ──> CompleteCommit
                                    ^                                   │
                                    │                                   ├──── ABORT ─────> PrepareAbort ─── MARKERS_WRITTEN ──> CompleteAbort
                                    │                                   └── FENCE ──> PrepareEpochFence ── ABORT_FENCED ──> PrepareAbort
                                    └── INIT_PRODUCER_ID ── CompleteCommit, CompleteAbort ── ADD_PARTITIONS ──> Ongoing

Empty and the two Complete states may expire: they become Dead, which is a tombstone in the log.
PrepareEpochFence lives only between two steps of one decision (a producer is fenced, then its
transaction aborted), so it is in no record.

A producer of protocol version 2 (KIP-890) gets a new epoch at the end of each transaction. So the
coordinator can tell a repeated end (`*_AGAIN`: requested with the previous epoch) from the next
one. An abort is possible even if no transaction has begun here, because its first Produce may have
been lost. A producer of version 1 keeps its epoch, so the same end again in a Complete state counts
as a repetition.

`TRANSITIONS[state, event]` is the next state, or the error of the request; `Errors.NONE` means that
it is already done, and the answer is success. None marks events of the coordinator itself that must
not happen in that state.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Final

from kmirror.common.errors import Errors, KmirrorError


class TransactionState(IntEnum):
    """Ids as in the log; `label` is the name that Kafka's tools print."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        return _LABELS[self]

    @property
    def is_prepared(self) -> bool:
        """Whether the end is decided and markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_expiration_allowed(self) -> bool:
        return self in (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)

    @classmethod
    def from_label(cls, label: str) -> TransactionState | None:
        return next((state for state in cls if state.label == label), None)

    @classmethod
    def from_id(cls, state_id: int) -> TransactionState:
        try:
            return cls(state_id)
        except ValueError as error:
            raise KmirrorError(f"Unknown transaction state id {state_id} from the transaction status message") from error


_LABELS: Final = {
    TransactionState.EMPTY: "Empty",
    TransactionState.ONGOING: "Ongoing",
    TransactionState.PREPARE_COMMIT: "PrepareCommit",
    TransactionState.PREPARE_ABORT: "PrepareAbort",
    TransactionState.COMPLETE_COMMIT: "CompleteCommit",
    TransactionState.COMPLETE_ABORT: "CompleteAbort",
    TransactionState.DEAD: "Dead",
    TransactionState.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}


class TransactionEvent(Enum):
    """What can happen to a transactional id. The number in COMMIT and ABORT events is the
    producer's protocol version."""

    INIT_PRODUCER_ID = "init producer id"
    ADD_PARTITIONS = "add partitions"
    COMMIT_V1 = "commit, version 1"
    ABORT_V1 = "abort, version 1"
    COMMIT_V2 = "commit, version 2"
    ABORT_V2 = "abort, version 2"
    COMMIT_V2_AGAIN = "commit again, version 2"
    ABORT_V2_AGAIN = "abort again, version 2"
    FENCE = "fence"
    ABORT_FENCED = "abort what was fenced"
    MARKERS_WRITTEN = "markers written"
    EXPIRE = "expire"


Outcome = TransactionState | Errors | None

_CONCURRENT: Final = Errors.CONCURRENT_TRANSACTIONS
_INVALID: Final = Errors.INVALID_TXN_STATE
_DONE: Final = Errors.NONE
_S = TransactionState
_E = TransactionEvent

# One row an event; the columns are the states in the order of their ids.
_ROWS: Final[dict[TransactionEvent, tuple[Outcome, ...]]] = {
    # Empty             Ongoing                 PrepareCommit       PrepareAbort
    # CompleteCommit    CompleteAbort     Dead  Fence
    _E.INIT_PRODUCER_ID: (_S.EMPTY, _S.PREPARE_EPOCH_FENCE, _CONCURRENT, _CONCURRENT, _S.EMPTY, _S.EMPTY, None, None),
    _E.ADD_PARTITIONS: (_S.ONGOING, _S.ONGOING, _CONCURRENT, _CONCURRENT, _S.ONGOING, _S.ONGOING, None, None),
    _E.COMMIT_V1: (_INVALID, _S.PREPARE_COMMIT, _CONCURRENT, _CONCURRENT, _DONE, _INVALID, None, None),
    _E.ABORT_V1: (_INVALID, _S.PREPARE_ABORT, _CONCURRENT, _CONCURRENT, _INVALID, _DONE, None, None),
    _E.COMMIT_V2: (_INVALID, _S.PREPARE_COMMIT, _CONCURRENT, _CONCURRENT, _INVALID, _INVALID, None, None),
    _E.ABORT_V2: (_S.PREPARE_ABORT, _S.PREPARE_ABORT, _CONCURRENT, _CONCURRENT, _S.PREPARE_ABORT, _S.PREPARE_ABORT, None, None),
    _E.COMMIT_V2_AGAIN: (_INVALID, _INVALID, _CONCURRENT, _CONCURRENT, _DONE, _INVALID, None, None),
    _E.ABORT_V2_AGAIN: (_INVALID, _INVALID, _CONCURRENT, _CONCURRENT, _INVALID, _DONE, None, None),
    _E.FENCE: (None, _S.PREPARE_EPOCH_FENCE, None, None, None, None, None, None),
    _E.ABORT_FENCED: (None, None, None, None, None, None, None, _S.PREPARE_ABORT),
    _E.MARKERS_WRITTEN: (None, None, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT, None, None, None, None),
    _E.EXPIRE: (_S.DEAD, None, None, None, _S.DEAD, _S.DEAD, None, None),
}

TRANSITIONS: Final[dict[tuple[TransactionState, TransactionEvent], Outcome]] = {
    (state, event): row[state] for event, row in _ROWS.items() for state in TransactionState
}
