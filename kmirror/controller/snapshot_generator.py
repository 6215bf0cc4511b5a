"""Snapshots of the metadata image (Kafka's `SnapshotGenerator`).

A snapshot is due after `metadata.log.max.record.bytes.between.snapshots` of new records, or after
`metadata.log.max.snapshot.interval.ms` if there are any. A worker writes it into its own file while
the controller's pump goes on. Only one is written at a time. The pump then removes what the snapshot
makes superfluous, because only the pump knows when no worker holds the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kmirror.common.errors import disk_error_advice, disk_error_text
from kmirror.controller.controller_config import ControllerConfig
from kmirror.controller.metadata_log import MetadataLog, SnapshotWriter
from kmirror.metadata.image import MetadataImage
from kmirror.runtime.api import Runtime, TaskScope

_log = logging.getLogger(__name__)


class SnapshotGenerator:
    """Writes snapshots as tasks of `tasks`; calls `on_written` when the pump may clean up."""

    def __init__(self, config: ControllerConfig, runtime: Runtime, tasks: TaskScope, *, on_written: Callable[[], None]) -> None:
        self._config = config
        self._runtime = runtime
        self._tasks = tasks
        self._on_written = on_written
        self._new_bytes = 0
        self._done: asyncio.Future[None] | None = None
        self._clean_is_due = False
        self.generated_at_ms = 0
        """When the latest snapshot was begun (or the controller), by the monotonic clock."""
        self.size_bytes = 0
        """The size of the latest snapshot."""
        self.error_count = 0
        """How many snapshots could not be written."""

    @property
    def is_busy(self) -> bool:
        """Whether a snapshot is being written, or the data that it makes superfluous is not yet
        removed."""
        return self._done is not None or self._clean_is_due

    def note_appended(self, size_bytes: int) -> None:
        """Counts new records of the log."""
        self._new_bytes += size_bytes

    def maybe_generate(self, log: MetadataLog, image: MetadataImage) -> None:
        """Begins a snapshot if one is due and none is being written. The pump calls it, when the
        whole image is flushed."""
        interval = self._config.snapshot_max_interval_ms
        now = self._runtime.clock.monotonic_ms()
        due = self._new_bytes >= self._config.snapshot_max_new_record_bytes or (
            interval > 0 and self._new_bytes > 0 and now - self.generated_at_ms >= interval
        )
        if due and self._done is None:
            self._new_bytes, self.generated_at_ms = 0, now
            self._done = self._runtime.create_future()
            self._tasks.spawn(self._generate(log, log.snapshot_writer(image), self._done), name="snapshot")

    async def finish(self) -> None:
        """Waits for the snapshot that is being written, if any."""
        if self._done is not None:
            await self._done

    def clean_up(self, log: MetadataLog) -> None:
        """Deletes what the retention no longer needs beside a new snapshot. The pump calls it, when
        no worker holds the log."""
        if self._clean_is_due:
            self._clean_is_due = False
            log.maybe_clean()

    async def _generate(self, log: MetadataLog, writer: SnapshotWriter, done: asyncio.Future[None]) -> None:
        """A disk that has no room for a snapshot may have room for the log, which needs less. So an
        error is logged and counted, as in Kafka (MetadataErrorCount), and the next snapshot is due
        as usual. A disk that has failed ends the controller at its next append."""
        try:
            self.size_bytes = await self._runtime.run_blocking(writer.write)
        except OSError as error:
            self.error_count += 1
            name, text = writer.snapshot_id.file_name, disk_error_text(error)
            _log.error(
                "Encountered error while writing snapshot %s: %s. The log keeps all its records; %s", name, text, disk_error_advice(error)
            )
            await self._drop_part(writer)
            return
        finally:
            self._done = None
            done.set_result(None)
        log.add_snapshot(writer)
        self._clean_is_due = True
        self._on_written()

    async def _drop_part(self, writer: SnapshotWriter) -> None:
        try:
            await self._runtime.run_blocking(writer.drop_part)
        except OSError as error:
            _log.warning("The unfinished snapshot %s stays until the next start: %s", writer.snapshot_id.file_name, disk_error_text(error))
