"""The offsets of one log that are not its end: log start, high watermark, first unstable offset
(fields of Kafka's `UnifiedLog`).

In order: log start <= last stable offset <= high watermark <= log end. When one of them changes,
the others, the recovery point, the producers and the leader epochs that depend on it change in the
same step.

A `LogOffsetMetadata` may lack its segment and position (`message_offset_only`), because a follower
learns a high watermark as a number. The `fetch_` methods, named as in Kafka, look the position up
and keep it.
"""

from __future__ import annotations

import logging

from kmirror.common.errors import ApiException, CorruptFileError, Errors
from kmirror.storage.leader_epoch_file_cache import LeaderEpochFileCache
from kmirror.storage.local_log import LocalLog
from kmirror.storage.log_io import LogIo
from kmirror.storage.log_offset_metadata import LogOffsetMetadata, LogStartOffsetIncrementReason
from kmirror.storage.producer_state_manager import ProducerStateManager

log = logging.getLogger(__name__)


class LogOffsets:
    """Owner of the log start, the high watermark and the first unstable offset."""

    __slots__ = (
        "_io",
        "_leader_epoch_cache",
        "_local_log",
        "_producer_state_manager",
        "first_unstable_offset_metadata",
        "high_watermark_metadata",
        "log_start_offset",
    )

    def __init__(
        self,
        local_log: LocalLog,
        leader_epoch_cache: LeaderEpochFileCache,
        producer_state_manager: ProducerStateManager,
        io: LogIo,
        *,
        log_start_offset: int,
    ) -> None:
        self._local_log = local_log
        self._leader_epoch_cache = leader_epoch_cache
        self._producer_state_manager = producer_state_manager
        self._io = io
        self.log_start_offset = log_start_offset
        self.high_watermark_metadata = LogOffsetMetadata(log_start_offset)
        """Perhaps without its position."""
        self.first_unstable_offset_metadata: LogOffsetMetadata | None = None
        """May lack its position; None while no transaction is undecided."""
        self._update_log_start_offset(log_start_offset)
        self.maybe_increment_first_unstable_offset()

    @property
    def high_watermark(self) -> int:
        return self.high_watermark_metadata.message_offset

    def fetch_high_watermark_metadata(self) -> LogOffsetMetadata:
        """With its position, looked up when that is not known."""
        if self.high_watermark_metadata.message_offset_only:
            self._set_high_watermark(self.maybe_convert_to_offset_metadata(self.high_watermark))
        return self.high_watermark_metadata

    @property
    def last_stable_offset(self) -> int:
        unstable = self.first_unstable_offset_metadata
        high_watermark = self.high_watermark_metadata.message_offset
        return high_watermark if unstable is None or unstable.message_offset >= high_watermark else unstable.message_offset

    def fetch_last_stable_offset_metadata(self) -> LogOffsetMetadata:
        """With its position, looked up when that is not known."""
        unstable = self.first_unstable_offset_metadata
        if unstable is None or unstable.message_offset >= self.high_watermark:
            return self.fetch_high_watermark_metadata()
        if unstable.message_offset_only:
            unstable = self.first_unstable_offset_metadata = self.maybe_convert_to_offset_metadata(unstable.message_offset)
        return unstable

    def update_high_watermark(self, high_watermark: int | LogOffsetMetadata, *, is_cut: bool = False) -> int:
        """Sets the high watermark, clamped to [log start, log end]; returns the new value."""
        wanted = high_watermark if isinstance(high_watermark, LogOffsetMetadata) else LogOffsetMetadata(high_watermark)
        if wanted.message_offset < self.log_start_offset:
            wanted = LogOffsetMetadata(self.log_start_offset)
        elif wanted.message_offset >= self._local_log.log_end_offset:
            wanted = self._local_log.next_offset_metadata
        self._set_high_watermark(wanted, is_cut=is_cut)
        return wanted.message_offset

    def maybe_increment_high_watermark(self, new_high_watermark: LogOffsetMetadata) -> LogOffsetMetadata | None:
        """For leaders: raises the high watermark. Returns the old one if it moved (or only its
        segment changed).
        """
        if new_high_watermark.message_offset > self._local_log.log_end_offset:
            raise ValueError(
                f"High watermark {new_high_watermark} update exceeds current log end offset {self._local_log.next_offset_metadata}"
            )
        old = self.fetch_high_watermark_metadata()
        moved = old.message_offset < new_high_watermark.message_offset
        if moved or (old.message_offset == new_high_watermark.message_offset and old.on_older_segment(new_high_watermark)):
            self._set_high_watermark(new_high_watermark)
            return old
        return None

    def maybe_update_high_watermark(self, high_watermark: int) -> int | None:
        """For followers: sets the high watermark. Returns the new one if it changed."""
        old = self.high_watermark
        new = self.update_high_watermark(high_watermark)
        return None if new == old else new

    def _set_high_watermark(self, metadata: LogOffsetMetadata, *, is_cut: bool = False) -> None:
        """`is_cut`: the log is being truncated, and whoever does that has told it."""
        assert metadata.message_offset >= 0, ("negative high watermark", metadata, self._local_log.topic_partition)
        if metadata.message_offset < self.high_watermark:
            level = logging.INFO if is_cut else logging.WARNING
            before = self.high_watermark_metadata
            log.log(level, "%s: non-monotonic update of high watermark from %s to %s", self._local_log.name, before, metadata)
        self.high_watermark_metadata = metadata
        self._producer_state_manager.on_high_watermark_updated(metadata.message_offset)
        self.maybe_increment_first_unstable_offset()

    def update_high_watermark_with_log_end_offset(self) -> None:
        if self.high_watermark_metadata.message_offset >= self._local_log.log_end_offset:
            self._set_high_watermark(self._local_log.next_offset_metadata)

    def maybe_increment_first_unstable_offset(self) -> None:
        unstable = self._producer_state_manager.first_unstable_offset
        if unstable is not None and (unstable.message_offset_only or unstable.message_offset < self.log_start_offset):
            unstable = self.maybe_convert_to_offset_metadata(max(unstable.message_offset, self.log_start_offset))
        self.first_unstable_offset_metadata = unstable

    def maybe_convert_to_offset_metadata(self, offset: int) -> LogOffsetMetadata:
        """`offset` with its segment and position, or the bare offset if the log does not hold
        it.
        """
        try:
            return self._local_log.convert_to_offset_metadata(offset)
        except ApiException as error:
            if error.error is not Errors.OFFSET_OUT_OF_RANGE:
                raise
            return LogOffsetMetadata(offset)
        except (OSError, CorruptFileError) as error:
            raise self._io.error_of(f"Error while looking up offset {offset} of {self._local_log.topic_partition}", error) from error

    def maybe_increment_log_start_offset(self, new_log_start_offset: int, reason: LogStartOffsetIncrementReason) -> bool:
        """Raises the log start; OFFSET_OUT_OF_RANGE above the high watermark. True if it moved.

        The log manager checkpoints it later. Segments below it are deleted by the next retention
        run.
        """
        with self._io.guarded(
            f"Exception while increasing log start offset for {self._local_log.topic_partition} to {new_log_start_offset}"
        ):
            if new_log_start_offset > self.high_watermark:
                raise ApiException(
                    Errors.OFFSET_OUT_OF_RANGE,
                    f"Cannot increment the log start offset to {new_log_start_offset} of partition {self._local_log.topic_partition} "
                    f"since it is larger than the high watermark {self.high_watermark}",
                )
            if new_log_start_offset <= self.log_start_offset:
                return False
            self._update_log_start_offset(new_log_start_offset)
            log.info("%s: incremented log start offset to %d due to %s", self._local_log.name, new_log_start_offset, reason.value)
            self._leader_epoch_cache.truncate_from_start_async_flush(new_log_start_offset)
            self._producer_state_manager.on_log_start_offset_incremented(new_log_start_offset)
            self.maybe_increment_first_unstable_offset()
            return True

    def below_log_start(self, offset: int) -> ApiException:
        """The error of a read of `offset`."""
        return ApiException(
            Errors.OFFSET_OUT_OF_RANGE,
            f"Received request for offset {offset} for partition {self._local_log.topic_partition}, "
            f"but we only have log segments starting from offset: {self.log_start_offset}.",
        )

    def _update_log_start_offset(self, offset: int) -> None:
        self.log_start_offset = offset
        if self.high_watermark < offset:
            self.update_high_watermark(offset)
        if self._local_log.recovery_point < offset:
            self._local_log.update_recovery_point(offset)
