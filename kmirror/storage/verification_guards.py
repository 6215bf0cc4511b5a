"""Whether a transactional batch belongs to a transaction that its coordinator knows (KIP-890).

Before the first batch of a transaction, the leader asks the coordinator. When the batch is
appended, the guard that the leader got before it asked must still be the producer's. Otherwise the
transaction ended in between.
"""

from __future__ import annotations

from kmirror.common.errors import ApiException, Errors
from kmirror.storage.batch_header import BatchHeader
from kmirror.storage.producer_state_entry import ProducerStateEntry, VerificationGuard
from kmirror.storage.producer_state_manager import ProducerStateManager


class VerificationGuards:
    """Reads and creates the verification states in the producer state of one log, which owns
    them.
    """

    __slots__ = ("_producer_state_manager",)

    def __init__(self, producer_state_manager: ProducerStateManager) -> None:
        self._producer_state_manager = producer_state_manager

    def has_ongoing_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        entry = self._producer_state_manager.last_entry(producer_id)
        return entry is not None and entry.current_txn_first_offset is not None and entry.producer_epoch == producer_epoch

    def maybe_start(self, producer_id: int, sequence: int, epoch: int, *, supports_epoch_bump: bool = False) -> VerificationGuard | None:
        """The guard to append with once the coordinator has confirmed the transaction; None if it
        is ongoing here already. INVALID_PRODUCER_EPOCH for an epoch before the last one in this
        log: then the coordinator need not be asked.
        """
        _ensure_epoch_is_current(self._producer_state_manager.last_entry(producer_id), producer_id, epoch)
        if self.has_ongoing_transaction(producer_id, epoch):
            return None
        entry = self._producer_state_manager.maybe_create_verification_state_entry(
            producer_id, sequence=sequence, epoch=epoch, supports_epoch_bump=supports_epoch_bump
        )
        return entry.verification_guard

    def is_current(self, producer_id: int, verification_guard: VerificationGuard) -> bool:
        """False if the producer's transaction began or ended here after the guard was given."""
        entry = self._producer_state_manager.verification_state_entry(producer_id)
        return entry is not None and entry.verification_guard is verification_guard

    def check(self, header: BatchHeader, verification_guard: VerificationGuard | None) -> None:
        """INVALID_TXN_STATE for a transactional batch of a transaction that is neither ongoing here
        nor verified by `verification_guard`.
        """
        manager = self._producer_state_manager
        if header.is_control or not manager.config.transaction_verification_enabled:
            return
        if self.has_ongoing_transaction(header.producer_id, header.producer_epoch):
            return
        _ensure_epoch_is_current(manager.last_entry(header.producer_id), header.producer_id, header.producer_epoch)
        verification = manager.verification_state_entry(header.producer_id)
        if verification_guard is None or verification is None or verification.verification_guard is not verification_guard:
            raise ApiException(Errors.INVALID_TXN_STATE, "Record was not part of an ongoing transaction")


def _ensure_epoch_is_current(entry: ProducerStateEntry | None, producer_id: int, epoch: int) -> None:
    """INVALID_PRODUCER_EPOCH for an epoch before the producer's last one here."""
    if entry is not None and epoch < entry.producer_epoch:
        raise ApiException(
            Errors.INVALID_PRODUCER_EPOCH,
            f"Epoch of producer {producer_id} is {epoch}, which is smaller than the last seen epoch {entry.producer_epoch}",
        )
