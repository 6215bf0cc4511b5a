"""The state of one mirrored partition: what its coordinator has stored, as far as this leader
knows, and why the partition does not go on.

Only the methods here write it. Everything that changes the stored state also goes through here,
because a write must follow the newest known record: it carries that record's offset and this
leader's epoch (`StateWrite`). After a failed write nothing is known (`loaded` is False): the state
may still be stored, now or later. So it is loaded and looked at again.
"""

from __future__ import annotations

import logging

from kmirror.common.errors import ApiException, Errors
from kmirror.common.sentinels import NO_EPOCH
from kmirror.mirror.coordination.mirror_coordinator_shard import CLEAR_LAST_MIRROR_EPOCH, StateWrite, StoredState
from kmirror.mirror.coordination.mirror_partition_id import MirrorPartitionId
from kmirror.mirror.coordination.mirror_state_client import MirrorStateClient
from kmirror.mirror.coordination.state_offset_tag import NOT_TOLD
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.mirror.source.last_mirror_epoch import NotYetError
from kmirror.network.client import DisconnectError, RequestTimeoutError

FIRST_LOAD_BACKOFF_MS = 100
MAX_LOAD_BACKOFF_MS = 5_000
MAX_REFUSALS = 8

_log = logging.getLogger(__name__)
_S = MirrorPartitionState


class MirrorPartitionStatus:
    """Owns the known state, last mirror epoch and reason of one partition; the driver,
    DescribeMirrors and the metrics read them.
    """

    __slots__ = (
        "_id",
        "_is_reason_unknown",
        "_leader_epoch",
        "_led_before_by",
        "_load_backoff_ms",
        "_refusals",
        "_states",
        "has_mirrored",
        "is_prepared_again",
        "last_mirror_epoch",
        "loaded",
        "reason",
        "state",
        "stored_offset",
    )

    def __init__(self, states: MirrorStateClient, partition_id: MirrorPartitionId, *, leader_epoch: int, led_before_by: int) -> None:
        """`led_before_by`: another broker that led the partition until now; -1 where none is known."""
        self.state = _S.UNKNOWN
        self.loaded = False
        self.last_mirror_epoch = NO_EPOCH
        self.reason: str | None = None
        self.has_mirrored = False
        """Whether the partition was MIRRORING since it was last PREPARING: only then are its epochs
        the source's (F6). A new leader in STOPPING learns this from a local coordinator; a remote
        one only returns the epoch that was stored with STOPPING (`enter`).
        """
        self.is_prepared_again = False
        """Whether the partition is PREPARING now because of an unclean election here while it was
        MIRRORING (D3-31).
        """
        self.stored_offset = NOT_TOLD
        """The offset of the record that the next write must follow."""
        self._id = partition_id
        self._states = states
        self._leader_epoch = leader_epoch
        self._led_before_by = led_before_by
        self._is_reason_unknown = False
        self._load_backoff_ms = FIRST_LOAD_BACKOFF_MS
        self._refusals = 0

    # --- what this leader knows
    # ---------------------------------------------------------------------------------------

    def note_leader_epoch(self, leader_epoch: int) -> bool:
        """Notes the epoch in which this broker leads. Returns whether it has changed."""
        is_new = leader_epoch != self._leader_epoch
        if is_new:
            self._leader_epoch = leader_epoch
            self._refusals = 0
        return is_new

    def forget(self) -> None:
        """Forgets the state, which another leader may have changed: it has to be loaded before
        anything is done.
        """
        self.loaded = False

    def set_reason(self, reason: str | None) -> None:
        self.reason = reason

    def set_reason_of_failure(self, reason: str | None) -> None:
        """Sets the reason if the partition was loaded as FAILED and the coordinator did not know
        why.
        """
        if self.state is _S.FAILED and self._is_reason_unknown:
            self.reason, self._is_reason_unknown = reason, False

    def prepare_again(self) -> None:
        self.is_prepared_again = True

    # --- reading
    # ------------------------------------------------------------------------------------------------------

    async def load(self, *, is_gained: bool) -> int:
        """Loads the state from the coordinator.

        Returns when the next step is due: 0 at once, n after n ms; `loaded` says whether it was
        answered. `is_gained`: this leader has not acted yet on the state that it found.
        """
        leader_epoch = self._leader_epoch
        try:
            stored = await self._states.read_one(self._id)
        except (ApiException, DisconnectError, RequestTimeoutError, OSError) as error:
            self.reason = f"the mirror coordinator did not answer: {error}"
            delay_ms = self._load_backoff_ms
            self._load_backoff_ms = min(2 * delay_ms, MAX_LOAD_BACKOFF_MS)
            return delay_ms
        self._load_backoff_ms = FIRST_LOAD_BACKOFF_MS
        if self._leader_epoch != leader_epoch:
            return 0  # somebody else may have led after the question: what was answered may have passed
        self._adopt(stored, is_gained=is_gained)
        return self._delay_after_refusal_ms()

    def _adopt(self, stored: StoredState, *, is_gained: bool) -> None:
        self.state = stored.state
        self.last_mirror_epoch = stored.last_mirror_epoch
        self.stored_offset = stored.offset
        is_own_stop = stored.state is _S.STOPPING and self.has_mirrored and not is_gained
        self.has_mirrored = stored.has_mirrored or is_own_stop or stored.state in (_S.MIRRORING, _S.PAUSING, _S.PAUSED)
        self.loaded = True
        self.reason = self._loaded_failure(stored.reason) if stored.state is _S.FAILED else None

    def _loaded_failure(self, stored: str | None) -> str:
        """Why a partition that was loaded as FAILED is so; each leader logs it once.

        No record has room for the reason: only the coordinator's memory has it.
        """
        who = f"broker {self._led_before_by}" if self._led_before_by >= 0 else "the broker that led the partition then"
        reason = stored or f"this broker does not know the reason; the log of {who} has it"
        if self.reason is None or stored is not None:
            _log.error("mirror %s, %s is FAILED: %s", self._id.mirror_name, self._id.topic_partition, reason)
        self._is_reason_unknown = stored is None
        return reason

    def _delay_after_refusal_ms(self) -> int:
        """The delay before the next step: 0 after the first refusal, since the loaded state
        explains it.

        After further refusals, we wait for the coordinator to read the metadata that we act on
        (D3-4). Nothing says when it has done so, so we ask soon, and then at growing intervals.
        """
        return min(FIRST_LOAD_BACKOFF_MS << (self._refusals - 2), MAX_LOAD_BACKOFF_MS) if self._refusals > 1 else 0

    # --- writing
    # ------------------------------------------------------------------------------------------------------

    async def enter(self, state: MirrorPartitionState, *, reason: str | None = None, last_mirror_epoch: int = NO_EPOCH) -> None:
        """Commits the next state, and adopts it.

        If the partition has mirrored, the last mirror epoch is written together with STOPPING (and
        with PREPARING after MIRRORING, D3-31). It tells the next leader that the partition has
        mirrored, which ReadMirrorStates does not say (D4 step 4). It is written even if one was
        already stored when this leader began, because the removal of an earlier topic of the name
        may have reset it since. When the cut makes it lower, it is stored again (D4 step 5).
        """
        write = StateWrite(self._id.topic, self._id.partition, state, reason=reason)
        if last_mirror_epoch == NO_EPOCH:
            await self._write(write)
        else:
            await self._write_with_epoch(write, last_mirror_epoch)
        self.state = state
        self.reason = reason
        self.is_prepared_again = self.is_prepared_again and state is _S.PREPARING
        if state in (_S.PREPARING, _S.MIRRORING):
            self.has_mirrored = state is _S.MIRRORING

    async def rewrite(self) -> None:
        """Append the state again as a new record (D3-28, D3-29)."""
        await self._write(StateWrite(self._id.topic, self._id.partition, self.state, rewrite=True))

    async def store_last_mirror_epoch(self, epoch: int) -> None:
        """Stores the last mirror epoch; NO_EPOCH clears it (D4 step 5)."""
        stored = CLEAR_LAST_MIRROR_EPOCH if epoch == NO_EPOCH else epoch
        await self._write(StateWrite(self._id.topic, self._id.partition, last_mirror_epoch=stored))
        self.last_mirror_epoch = epoch

    async def _write_with_epoch(self, write: StateWrite, epoch: int) -> None:
        """Writes the state with the epoch, or the state alone if the epochs' record has no room
        (C26).
        """
        try:
            await self._write(write._replace(last_mirror_epoch=epoch))
            self.last_mirror_epoch = epoch
        except ApiException as error:
            if error.error is not Errors.RECORD_LIST_TOO_LARGE:
                raise
            await self._write(write)

    async def _write(self, write: StateWrite) -> None:
        """Commits a write at the coordinator.

        INVALID_REQUEST means that it knows another state. A disk that fails there is not this
        partition's disk.
        """
        try:
            known = write._replace(follows=self.stored_offset, leader_epoch=self._leader_epoch)
            offset = await self._states.write_one(self._id, known)
        except BaseException as error:
            self.loaded = False
            code = error.error if isinstance(error, ApiException) else None
            if code is Errors.INVALID_REQUEST:
                self._refusals = min(self._refusals + 1, MAX_REFUSALS)
            if code is Errors.KAFKA_STORAGE_ERROR or isinstance(error, OSError):
                raise NotYetError(f"the mirror coordinator cannot write the state: {error}") from error
            raise
        self.stored_offset = offset
        self._refusals = 0
