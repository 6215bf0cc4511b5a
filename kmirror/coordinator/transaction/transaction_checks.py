"""What a request of a producer may ask of a transaction in its present state, check by check. The shard
calls them in Kafka's order (`transaction_coordinator_shard`).
"""

from __future__ import annotations

from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.coordinator.transaction.transaction_metadata import EXHAUSTED_EPOCH, TransactionMetadata, is_epoch_exhausted
from kmirror.coordinator.transaction.transaction_state import TransactionEvent, TransactionState
from kmirror.record.record import NO_PRODUCER_EPOCH


class ProducerIdNeededError(KmirrorError):
    """The decision needs a new producer id; get one from the controller and decide again."""

    def __init__(self) -> None:
        super().__init__("a new producer id is needed")


def given(producer_id: int | None) -> int:
    if producer_id is None:
        raise ProducerIdNeededError
    return producer_id


def is_valid_producer(current: TransactionMetadata, producer_id: int, producer_epoch: int) -> bool:
    """Whether a producer may ask for a bump: nobody has an epoch yet, it is the known one, or it
    repeats a request from before an id rotation."""
    return (
        current.producer_epoch == NO_PRODUCER_EPOCH
        or producer_id == current.producer_id
        or (producer_id == current.previous_producer_id and is_epoch_exhausted(producer_epoch))
    )


def ensure_no_end_is_decided(current: TransactionMetadata) -> None:
    if current.state.is_prepared:
        raise ApiException(Errors.CONCURRENT_TRANSACTIONS)


def ensure_is_producer(current: TransactionMetadata, producer_id: int, producer_epoch: int) -> None:
    if current.producer_id != producer_id:
        raise ApiException(Errors.INVALID_PRODUCER_ID_MAPPING)
    if current.producer_epoch != producer_epoch:
        raise ApiException(Errors.PRODUCER_FENCED)


def end_v1(current: TransactionMetadata, producer_id: int, producer_epoch: int, *, commit: bool) -> TransactionEvent:
    ensure_is_producer(current, producer_id, producer_epoch)
    ensure_no_end_is_decided(current)
    return TransactionEvent.COMMIT_V1 if commit else TransactionEvent.ABORT_V1


def end_v2(current: TransactionMetadata, producer_id: int, producer_epoch: int, *, commit: bool) -> TransactionEvent:
    """In version 2 the epoch distinguishes a repeated end (one behind) from the next end (equal);
    both wait while an end is decided."""
    ensure_no_end_is_decided(current)
    is_overflow_retry = current.previous_producer_id == producer_id and producer_epoch == EXHAUSTED_EPOCH and current.producer_epoch == 0
    is_bump_retry = current.producer_epoch == producer_epoch + 1
    if current.producer_id != producer_id and not is_overflow_retry:
        raise ApiException(Errors.INVALID_PRODUCER_ID_MAPPING)
    is_current = current.producer_epoch == producer_epoch
    if current.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT):
        is_valid = is_bump_retry or is_overflow_retry or is_current
    else:
        is_valid = is_current
    if not is_valid:
        raise ApiException(Errors.PRODUCER_FENCED)
    if is_bump_retry or is_overflow_retry:
        return TransactionEvent.COMMIT_V2_AGAIN if commit else TransactionEvent.ABORT_V2_AGAIN
    return TransactionEvent.COMMIT_V2 if commit else TransactionEvent.ABORT_V2
