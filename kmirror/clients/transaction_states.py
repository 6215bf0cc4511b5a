"""Where a producer's transaction stands, and which states each state may follow (Kafka's
`TransactionManager.State`).

    UNINITIALIZED ── init ──> INITIALIZING ──> READY ── begin ──> IN_TRANSACTION
    IN_TRANSACTION ── commit ──> COMMITTING ──> READY             a failed send: ABORTABLE_ERROR
    IN_TRANSACTION, ABORTABLE_ERROR ── abort ──> ABORTING ──> READY
    any ──> FATAL_ERROR, which is never left: every call fails with its cause

An idempotent producer without transactions only goes from UNINITIALIZED over INITIALIZING to READY.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class State(Enum):
    UNINITIALIZED = "UNINITIALIZED"
    INITIALIZING = "INITIALIZING"
    READY = "READY"
    IN_TRANSACTION = "IN_TRANSACTION"
    COMMITTING_TRANSACTION = "COMMITTING_TRANSACTION"
    ABORTING_TRANSACTION = "ABORTING_TRANSACTION"
    ABORTABLE_ERROR = "ABORTABLE_ERROR"
    FATAL_ERROR = "FATAL_ERROR"


SOURCES: Final = {
    State.UNINITIALIZED: (State.READY, State.ABORTABLE_ERROR),
    State.INITIALIZING: (State.UNINITIALIZED, State.COMMITTING_TRANSACTION, State.ABORTING_TRANSACTION),
    State.READY: (State.INITIALIZING, State.COMMITTING_TRANSACTION, State.ABORTING_TRANSACTION),
    State.IN_TRANSACTION: (State.READY,),
    State.COMMITTING_TRANSACTION: (State.IN_TRANSACTION,),
    State.ABORTING_TRANSACTION: (State.IN_TRANSACTION, State.ABORTABLE_ERROR),
    State.ABORTABLE_ERROR: (State.IN_TRANSACTION, State.COMMITTING_TRANSACTION, State.ABORTABLE_ERROR, State.INITIALIZING),
    State.FATAL_ERROR: tuple(State),
}
"""Which states a state may follow."""
