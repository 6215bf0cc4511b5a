"""All logs of a broker, in one or more log directories (Kafka's `LogManager`).

Owner of every `UnifiedLog`: it loads them at start (recovering those of a directory without clean-shutdown marker),
makes and deletes them, runs retention, flushes, writes the recovery-point and log-start checkpoints, and closes
everything in an order that makes the marker mean what it says: logs flushed and closed, checkpoints, marker.

Everything is synchronous and belongs to one loop, the scheduled tasks too. What may take long is handed out in steps
(`load_steps`, `shutdown_steps`), each of which may run on a worker while the loop waits for it.

A partition that may not be loaded is never set aside silently. A folder with data but without `partition.metadata` is
*refused*: it stays as it is, an error is logged, and `get_or_create_log` answers KAFKA_STORAGE_ERROR with the reason. (Kafka
renames it to `-stray` and begins an empty log; `stray_on_missing_partition_metadata` does the same.)
Folders named `-stray` are left alone, unopened; `-future` ones are loaded and kept for `replica.alter_log_dirs` to follow on, unless they are strays.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from kmirror.common.errors import ApiException, Errors, disk_error_advice, disk_error_text
from kmirror.common.ports import Clock, FileSystem, Random
from kmirror.common.topic_partition import MIRROR_STATE_TOPIC_NAME, TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.storage.clean_shutdown_file import CleanShutdownFile
from kmirror.storage.log_cleaner import LogCleaner
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_dirs import LogDir, LogDirs
from kmirror.storage.log_file_names import (
    log_delete_dir_name,
    log_dir_name,
    log_future_dir_name,
)
from kmirror.storage.log_manager_config import LogManagerConfig
from kmirror.storage.log_manager_loading import BlockingStep, LogManagerLoading
from kmirror.storage.log_manager_steps import LogClosing
from kmirror.storage.log_manager_tasks import LogManagerTasks
from kmirror.storage.log_state import LogCut
from kmirror.storage.meta_properties import DIRECTORY_ID_LOST, DIRECTORY_ID_MIGRATING, DIRECTORY_ID_UNASSIGNED
from kmirror.storage.ports import LogDirFailures, LogPorts, LogScheduler
from kmirror.storage.producer_state_manager import ProducerStateManagerConfig
from kmirror.storage.segment_files import storage_error
from kmirror.storage.unified_log import UnifiedLog

_LOGGER: Final = logging.getLogger(__name__)
_NO_DIRECTORY: Final = (DIRECTORY_ID_MIGRATING, DIRECTORY_ID_UNASSIGNED, DIRECTORY_ID_LOST)


class LogManager:
    """Kafka's `LogManager`; errors are ApiException with Kafka's code, or KmirrorError at start."""

    def __init__(
        self,
        config: LogManagerConfig,
        *,
        files: FileSystem,
        clock: Clock,
        random: Random,
        scheduler: LogScheduler,
        default_log_config: LogConfig,
        topic_config: Callable[[str], Mapping[str, str]],
        on_log_dir_failure: Callable[[str, OSError], None] | None = None,
        on_flush: Callable[[int], None] | None = None,
    ) -> None:
        """Creates missing log dirs, locks them and reads their directory ids.

        `topic_config` gives a topic's own (overriding) configs. `on_log_dir_failure` is told after a dir was taken offline.
        """
        self.config = config
        self.default_log_config = default_log_config
        self.files = files
        self.refused: dict[TopicPartition, str] = {}
        self._topic_config = topic_config
        self._on_log_dir_failure = on_log_dir_failure
        self._reported_failures: list[tuple[str, OSError]] = []
        self._ports = LogPorts(files, clock, random, scheduler, LogDirFailures(self._report_log_dir_failure), on_flush)
        self._dirs = LogDirs(files, config.log_dirs)
        self._current_logs: dict[TopicPartition, UnifiedLog] = {}
        self._future_logs: dict[TopicPartition, UnifiedLog] = {}
        self._preferred_log_dirs: dict[TopicPartition, str] = {}
        self.on_future_log_cut: Callable[[TopicPartition, int], None] | None = None
        """Told where a future log ends that was cut because the current one is being cut."""
        self.cleaner: LogCleaner | None = None
        if config.cleaner.enable:
            self.cleaner = LogCleaner(config.cleaner, self._ports, log_dirs=list(self._dirs.live), logs=self._current_logs)
        self.tasks = LogManagerTasks(self, self._ports)
        self._loading = LogManagerLoading(self, self._ports, self._dirs, current_logs=self._current_logs, future_logs=self._future_logs)

    # directories

    @property
    def live_log_dirs(self) -> list[str]:
        return list(self._dirs.live)

    @property
    def offline_log_dirs(self) -> list[str]:
        return self._dirs.offline_paths

    @property
    def failed_log_dirs(self) -> list[str]:
        """Those that no log is served from any more: the offline ones, and those whose failure was reported and that `handle_reported_failures`
        is still to take offline."""
        failures, live = self._ports.log_dir_failures, self._dirs.live
        return [path for path in self._dirs.paths if path not in live or failures.has_offline_log_dir(path)]

    def has_offline_log_dirs(self) -> bool:
        return bool(self._dirs.offline_paths)

    def is_log_dir_online(self, log_dir: str) -> bool:
        if log_dir not in self._dirs.paths:
            raise ApiException(Errors.LOG_DIR_NOT_FOUND, f"Log dir {log_dir} is not found in the config.")
        return log_dir in self._dirs.live

    def directory_id(self, log_dir: str) -> Uuid | None:
        found = self._dirs.live.get(log_dir)
        return found.directory_id if found else None

    def directory_path(self, directory_id: Uuid) -> str | None:
        return next((path for path, log_dir in self._dirs.live.items() if log_dir.directory_id == directory_id), None)

    def directory_ids(self) -> list[Uuid]:
        """Of the live log dirs, in their order; for BrokerRegistration and BrokerHeartbeat."""
        return [log_dir.directory_id for log_dir in self._dirs.live.values() if log_dir.directory_id is not None]

    def read_broker_epoch_from_clean_shutdown_files(self) -> int | None:
        """The epoch for PreviousBrokerEpoch, before `startup` removes the markers. None unless all log dirs have the same one."""
        if self.has_offline_log_dirs():
            return None
        epochs = [CleanShutdownFile(self._ports.files, path).read() for path in self._dirs.live]
        return epochs[0] if all(epoch == epochs[0] for epoch in epochs) else None

    def handle_log_dir_failure(self, log_dir: str, error: OSError) -> None:
        """Stop serving what lies in `log_dir`; its logs are closed without another write."""
        if self._dirs.take_offline(log_dir, error) is None:
            return
        _LOGGER.error(
            "stopping to serve logs in dir %s: %s; nothing in it was thrown away, %s and start again",
            log_dir,
            disk_error_text(error),
            disk_error_advice(error),
        )
        if self.cleaner is not None:
            self.cleaner.manager.handle_log_dir_failure(log_dir)
        for logs in (self._current_logs, self._future_logs):
            for topic_partition, log in list(logs.items()):
                if log.parent_dir == log_dir:
                    del logs[topic_partition]
                    log.close_handlers()
        if self._on_log_dir_failure is not None:
            self._on_log_dir_failure(log_dir, error)

    def _report_log_dir_failure(self, log_dir: str, message: str, error: OSError) -> None:
        """Called from deep inside of a log, perhaps on a worker: the log refuses to go on at once, the rest comes later, on the loop."""
        _LOGGER.error("%s", message)
        self._reported_failures.append((log_dir, error))

    def handle_reported_failures(self) -> None:
        """Take the directories offline that failed since this last ran; a task does so every second."""
        while self._reported_failures:
            self.handle_log_dir_failure(*self._reported_failures.pop(0))

    # start

    def startup(self, is_stray: Callable[[UnifiedLog], bool] = lambda log: False) -> None:
        """Load (and where needed recover) every log of the live dirs, then schedule the periodic tasks."""
        for step in self.load_steps(is_stray):
            step()
        self.start_tasks()

    def load_steps(self, is_stray: Callable[[UnifiedLog], bool] = lambda log: False) -> Iterator[BlockingStep]:
        """`startup` without the tasks: each step opens one log and may run on a worker; take the next one when it is done."""
        return self._loading.load_steps(is_stray)

    def set_strays_aside(self, is_stray: Callable[[UnifiedLog], bool]) -> None:
        """Rename the loaded logs that are strays by now: what they were checked against when they were loaded may be older."""
        self._loading.set_strays_aside(is_stray)

    def note_failure(self, log_dir: str, error: OSError) -> None:
        """A directory failed under a worker; `handle_reported_failures` takes it offline."""
        self._reported_failures.append((log_dir, error))

    def start_tasks(self) -> None:
        self.tasks.start()

    def open_log(
        self,
        directory: str,
        config: LogConfig,
        *,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        clean: bool = True,
        topic_id: Uuid | None = None,
    ) -> UnifiedLog:
        """A log in `directory`, with this manager's settings."""
        log = UnifiedLog.open(
            directory,
            config,
            self._ports,
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            last_shutdown_clean=clean,
            topic_id=topic_id,
            producer_state_config=ProducerStateManagerConfig(
                self.config.producer_id_expiration_ms, self.config.transaction_verification_enabled
            ),
            max_transaction_timeout_ms=self.config.max_transaction_timeout_ms,
            defer_files=self.config.defer_files,
        )
        log.truncation_guard = functools.partial(self._truncation_guard, log)
        return log

    def log_config(self, topic: str) -> LogConfig:
        """The configs of a topic's logs: its own over the broker's defaults."""
        return self._over_defaults(topic, self._topic_config(topic))

    def _over_defaults(self, topic: str, overrides: Mapping[str, str]) -> LogConfig:
        """A default that suits clients' records must not keep states of mirrors out: `__mirror_state` takes what Kafka's default does at least."""
        config = LogConfig.from_props(overrides, defaults=self.default_log_config) if overrides else self.default_log_config
        if topic == MIRROR_STATE_TOPIC_NAME and config.max_message_size < LogConfig().max_message_size:
            config = replace(config, max_message_size=LogConfig().max_message_size)
        return config

    # shutdown

    def shutdown(self, broker_epoch: int = -1) -> None:
        """Flush and close every log, write checkpoints, write the clean-shutdown marker of each dir, unlock."""
        for step in self.shutdown_steps(broker_epoch):
            step()

    def shutdown_steps(self, broker_epoch: int = -1) -> Iterator[BlockingStep]:
        """`shutdown` in steps that may run on a worker, one log each; no job of the cleaner may be running."""
        self.tasks.stop()
        self.handle_reported_failures()
        for log_dir in list(self._dirs.live.values()):
            closing = [LogClosing(log) for log in self._logs_of(log_dir.path)]
            for close in closing:
                yield close.run
            self.handle_reported_failures()
            if all(close.succeeded for close in closing):
                self.tasks.checkpoint_recovery_offsets_in(log_dir.path)
                self.tasks.checkpoint_log_start_offsets_in(log_dir.path)
                if log_dir.path in self._dirs.live and (log_dir.had_clean_shutdown or log_dir.is_loaded):
                    self._mark_clean_shutdown(log_dir.path, broker_epoch)
        self._dirs.unlock()

    def _mark_clean_shutdown(self, log_dir: str, broker_epoch: int) -> None:
        """The marker is an optimisation of the next start: where it cannot be written, the logs are looked through then."""
        try:
            CleanShutdownFile(self._ports.files, log_dir).write(broker_epoch)
        except OSError as error:
            _LOGGER.warning("cannot mark %s as cleanly shut down: %s", log_dir, error)

    def kill(self) -> None:
        """Close the files as they are and unlock, as the end of the process would: no flush, no checkpoint, no marker."""
        self.tasks.stop()
        for log in self.all_logs():
            log.close_handlers()
        self._dirs.unlock()

    # logs

    def get_log(self, topic_partition: TopicPartition) -> UnifiedLog | None:
        return self._current_logs.get(topic_partition)

    def future_log(self, topic_partition: TopicPartition) -> UnifiedLog | None:
        """The log that is to take the place of the current one, while it is moved to another directory."""
        return self._future_logs.get(topic_partition)

    def all_logs(self) -> list[UnifiedLog]:
        return [*self._current_logs.values(), *self._future_logs.values()]

    def current_logs(self) -> list[UnifiedLog]:
        return list(self._current_logs.values())

    def logs_by_topic(self, topic: str, partitions: Iterable[int]) -> list[UnifiedLog]:
        """What is here of these partitions, future logs too: found by name, since a broker has many more logs than a topic."""
        wanted = [TopicPartition(topic, number) for number in partitions]
        return [logs[key] for logs in (self._current_logs, self._future_logs) for key in wanted if key in logs]

    def logs_in_dir(self, log_dir: str) -> dict[TopicPartition, UnifiedLog]:
        return {log.topic_partition: log for log in self._logs_of(log_dir)}

    def _logs_of(self, log_dir: str) -> list[UnifiedLog]:
        return [log for log in self.all_logs() if log.parent_dir == log_dir]

    def log_dir(self, path: str) -> LogDir | None:
        return self._dirs.live.get(path)

    def get_or_create_log(
        self,
        topic_partition: TopicPartition,
        *,
        topic_id: Uuid | None,
        is_new: bool = False,
        target_directory_id: Uuid | None = None,
    ) -> UnifiedLog:
        """KAFKA_STORAGE_ERROR where it may lie in an offline dir or was refused, INCONSISTENT_TOPIC_ID where it is another topic's."""
        log = self._current_logs.get(topic_partition)
        if log is None:
            log = self._create_log(topic_partition, topic_id, is_new=is_new, target_directory_id=target_directory_id)
        if log.topic_id is None and topic_id is not None:
            log.assign_topic_id(topic_id)
        if topic_id is not None and log.topic_id != topic_id:
            raise ApiException(
                Errors.INCONSISTENT_TOPIC_ID,
                f"Tried to assign topic ID {topic_id} to log for topic partition {topic_partition},"
                f"but log already contained topic ID {log.topic_id}",
            )
        return log

    def _create_log(
        self, topic_partition: TopicPartition, topic_id: Uuid | None, *, is_new: bool, target_directory_id: Uuid | None
    ) -> UnifiedLog:
        if topic_partition in self.refused:
            raise ApiException(Errors.KAFKA_STORAGE_ERROR, self.refused[topic_partition])
        if not is_new and self.has_offline_log_dirs():
            offline = ",".join(self.offline_log_dirs)
            raise ApiException(
                Errors.KAFKA_STORAGE_ERROR, f"Can not create log for {topic_partition} because log directories {offline} are offline"
            )
        config = self.log_config(topic_partition.topic)
        preferred = self._preferred_log_dirs.pop(topic_partition, None)
        preferred_dirs = [preferred] if preferred in self._dirs.live else []
        for path in [*preferred_dirs, *self._candidate_dirs(target_directory_id)]:
            try:
                log = self.open_log(f"{path}/{log_dir_name(topic_partition)}", config, topic_id=topic_id)
            except OSError as error:
                self._ports.log_dir_failures.maybe_add_offline_log_dir(
                    path, f"Error while creating log for {topic_partition} in dir {path}", error
                )
                continue
            self._current_logs[topic_partition] = log
            if log.is_deferred:
                self.tasks.add_idle_log(log)
            _LOGGER.info("created log for partition %s in %s", topic_partition, log.directory)
            return log
        raise ApiException(
            Errors.KAFKA_STORAGE_ERROR, f"No log directories available for {topic_partition}. Tried {', '.join(self._dirs.paths)}"
        )

    def _candidate_dirs(self, target_directory_id: Uuid | None) -> list[str]:
        """The directory that the controller chose, else the ones with the fewest logs first."""
        if target_directory_id is not None and target_directory_id not in _NO_DIRECTORY:
            path = self.directory_path(target_directory_id)
            if path is not None:
                return [path]
        return sorted(self._dirs.live, key=lambda path: len(self._logs_of(path))) if len(self._dirs.live) > 1 else list(self._dirs.live)

    # moving between directories

    def prefer_log_dir(self, topic_partition: TopicPartition, log_dir: str) -> None:
        """The directory for a log that there is not yet."""
        self._preferred_log_dirs[topic_partition] = log_dir

    def create_future_log(self, topic_partition: TopicPartition, log_dir: str, *, topic_id: Uuid | None) -> UnifiedLog:
        """An empty log beside the current one, in `log_dir`; KAFKA_STORAGE_ERROR while any directory is offline."""
        if self.has_offline_log_dirs():
            offline = ",".join(self.offline_log_dirs)
            raise ApiException(
                Errors.KAFKA_STORAGE_ERROR, f"Can not create log for {topic_partition} because log directories {offline} are offline"
            )
        directory = f"{log_dir}/{log_future_dir_name(topic_partition, self._ports.random)}"
        try:
            log = self.open_log(directory, self.log_config(topic_partition.topic), topic_id=topic_id)
        except OSError as error:
            message = f"Error while creating the future log of {topic_partition} in dir {log_dir}"
            raise storage_error(log_dir, self._ports, message, error) from error
        self._future_logs[topic_partition] = log
        _LOGGER.info("created future log for partition %s in %s", topic_partition, log.directory)
        return log

    def replace_current_with_future_log(self, topic_partition: TopicPartition) -> None:
        """The future log becomes the current one; the old one is deleted later. KAFKA_STORAGE_ERROR where one of them is offline.

        The new log gets its name first: whatever happens in between, the data is there under its name once or twice, never not.
        """
        source, future = self._current_logs.get(topic_partition), self._future_logs.get(topic_partition)
        if future is None:
            raise ApiException(Errors.KAFKA_STORAGE_ERROR, f"The future replica for {topic_partition} is offline")
        if source is not None:
            future.maybe_update_high_watermark(source.high_watermark)
        future.rename_dir(log_dir_name(topic_partition))
        del self._future_logs[topic_partition]
        self._current_logs[topic_partition] = future
        if source is not None:
            self._try_to_set_aside(source)
        for path in dict.fromkeys([future.parent_dir, *([] if source is None else [source.parent_dir])]):
            if self.cleaner is not None:
                self.cleaner.manager.remove_from_checkpoints(path)
            self.tasks.checkpoint_recovery_offsets_in(path)
            self.tasks.checkpoint_log_start_offsets_in(path)
        _LOGGER.info("the current replica of %s is replaced with the future replica in %s", topic_partition, future.directory)

    def delete_future_log(self, topic_partition: TopicPartition) -> None:
        """Give a move up."""
        log = self._future_logs.pop(topic_partition)
        self._set_aside(log, is_stray=False)
        self.tasks.checkpoint_recovery_offsets_in(log.parent_dir)
        self.tasks.checkpoint_log_start_offsets_in(log.parent_dir)

    # truncation

    @contextmanager
    def _truncation_guard(self, log: UnifiedLog, cut: LogCut) -> Iterator[None]:
        """Around every cut of a log: the cleaner is kept away, and the checkpoints that spoke of what is gone are rewritten. A future log is
        cut first: it must never have a batch that the current log does not have, and in a crash in between it is only shorter.

        A recovery point above the log end must not stay on disk: what is appended next would count as flushed. It is written only where
        there was one: a failback cuts each partition, and the file has a line for each of them.
        """
        recovery_point = log.recovery_point
        is_current = self._current_logs.get(log.topic_partition) is log
        stops_cleaner = is_current and cut.reaches_sealed_segments
        if is_current:
            self._cut_future_log(log.topic_partition, cut)
        if stops_cleaner:
            self.abort_and_pause_cleaning(log.topic_partition)
        try:
            yield
            if stops_cleaner:
                self._maybe_truncate_cleaner_checkpoint(log)
        finally:
            if stops_cleaner:
                self.resume_cleaning(log.topic_partition)
        if recovery_point > log.log_end_offset:
            self.tasks.checkpoint_recovery_offsets_in(log.parent_dir)

    def _cut_future_log(self, topic_partition: TopicPartition, cut: LogCut) -> None:
        """As the current log is about to be cut. A future log that cannot be cut is given up: it must not be swapped in any more."""
        future = self._future_logs.get(topic_partition)
        if future is None:
            return
        try:
            if cut.is_full:
                future.truncate_fully_and_start_at(cut.target_offset)
            else:
                future.truncate_to(cut.target_offset)
        except ApiException as error:
            _LOGGER.error("giving up the move of %s: its future log cannot be cut with the current one: %s", topic_partition, error.message)
            del self._future_logs[topic_partition]
            self._try_to_set_aside(future)
            return
        if self.on_future_log_cut is not None:
            self.on_future_log_cut(topic_partition, future.log_end_offset)

    def abort_and_pause_cleaning(self, topic_partition: TopicPartition) -> None:
        if self.cleaner is not None:
            self.cleaner.abort_and_pause_cleaning(topic_partition)

    def resume_cleaning(self, topic_partition: TopicPartition) -> None:
        if self.cleaner is not None:
            self.cleaner.resume_cleaning([topic_partition])

    def cleaned_until(self, log: UnifiedLog) -> int:
        """Where the part of a log ends that our cleaner has been through: what a cut below it leaves has lost what the cut records replaced."""
        if self.cleaner is None or log.is_future:
            return 0
        return self.cleaner.manager.cleaned_until(log.parent_dir, log.topic_partition)

    def _maybe_truncate_cleaner_checkpoint(self, log: UnifiedLog) -> None:
        if self.cleaner is not None:
            self.cleaner.manager.maybe_truncate_checkpoint(log.parent_dir, log.topic_partition, log.active_segment.base_offset)

    # deletion

    def async_delete(
        self,
        topic_partitions: Iterable[TopicPartition],
        *,
        is_stray: bool = False,
        on_error: Callable[[TopicPartition, Exception], None] | None = None,
    ) -> None:
        """Rename to `-delete` (removed after file.delete.delay.ms) or `-stray` (kept), sync and rewrite the checkpoints once per dir."""
        affected: list[str] = []
        for topic_partition in topic_partitions:
            log = self._current_logs.pop(topic_partition, None)
            if log is None:
                continue
            affected.append(log.parent_dir)
            if self.cleaner is not None:
                self.cleaner.abort_cleaning(topic_partition)
            try:
                self._set_aside(log, is_stray=is_stray, synced=False)
            except (OSError, ApiException) as error:
                if on_error is None:
                    raise
                on_error(topic_partition, error)
        for path in dict.fromkeys(affected):
            self.tasks.sync_renames_in(path)
            if self.cleaner is not None:
                self.cleaner.manager.remove_from_checkpoints(path)
            self.tasks.checkpoint_recovery_offsets_in(path)
            self.tasks.checkpoint_log_start_offsets_in(path)

    def _try_to_set_aside(self, log: UnifiedLog) -> None:
        """A disk that fails under a log whose place another one has taken already is reported, and of no consequence to that one."""
        try:
            self._set_aside(log, is_stray=False)
        except ApiException as error:
            _LOGGER.error("cannot set %s aside: %s", log.directory, error.message)

    def _set_aside(self, log: UnifiedLog, *, is_stray: bool, synced: bool = True) -> None:
        if is_stray:
            self._loading.rename_stray(log)
            return
        log.rename_dir(log_delete_dir_name(log.topic_partition, self._ports.random), synced=synced)
        self.tasks.add_log_to_be_deleted(log)
        _LOGGER.info("log for partition %s is renamed to %s and is scheduled for deletion", log.topic_partition, log.directory)

    # configs

    def update_topic_config(self, topic: str, overrides: Mapping[str, str], partitions: Iterable[int]) -> None:
        """A topic's own configs changed: the logs of its partitions get them."""
        config = self._over_defaults(topic, overrides)
        for log in self.logs_by_topic(topic, partitions):
            self._update_config(log, config)

    def reconfigure(self, config: LogManagerConfig) -> None:
        """Settings that may change while logs are open: the cleaner's, and how producers are remembered and verified."""
        self.config = config
        if self.cleaner is not None:
            self.cleaner.reconfigure(config.cleaner)
        producers = ProducerStateManagerConfig(config.producer_id_expiration_ms, config.transaction_verification_enabled)
        for log in self.all_logs():
            log.producer_state_manager.config = producers

    def reconfigure_default_log_config(self, default_log_config: LogConfig) -> None:
        """The broker's defaults changed: every log gets its topic's configs over the new ones."""
        self.default_log_config = default_log_config
        for log in self.all_logs():
            self._update_config(log, self.log_config(log.topic_partition.topic))

    def _update_config(self, log: UnifiedLog, config: LogConfig) -> None:
        old_config = log.update_config(config)
        if old_config.compact and not config.compact and self.cleaner is not None:
            self.cleaner.abort_cleaning(log.topic_partition)

    # checkpoints and tasks by name

    def checkpoint_log_recovery_offsets(self) -> None:
        self.tasks.checkpoint_log_recovery_offsets()

    def checkpoint_log_start_offsets(self) -> None:
        self.tasks.checkpoint_log_start_offsets()

    def read_high_watermarks(self, log_dir: str) -> dict[TopicPartition, int]:
        """replication-offset-checkpoint of a live dir. KAFKA_STORAGE_ERROR where it cannot be read, or makes no sense; the dir is offline then."""
        found = self._dirs.live.get(log_dir)
        if found is None:
            return {}
        try:
            return found.high_watermarks.read()
        except OSError as error:
            raise storage_error(log_dir, self._ports, f"Error while reading {found.high_watermarks.path}", error) from error

    def checkpoint_high_watermarks(self, log_dir: str, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write replication-offset-checkpoint; may run on a worker."""
        found = self._dirs.live.get(log_dir)
        if found is not None:
            try:
                found.high_watermarks.write(high_watermarks)
            except OSError as error:
                self._ports.log_dir_failures.maybe_add_offline_log_dir(log_dir, f"Error while writing {found.high_watermarks.path}", error)

    def cleanup_logs(self) -> int:
        """Retention on the logs that are not compacted; the number of segments deleted."""
        return self.tasks.cleanup_logs()

    def flush_dirty_logs(self) -> None:
        self.tasks.flush_dirty_logs()

    def delete_logs(self) -> int:
        """Remove the folder of a log that was deleted at least file.delete.delay.ms ago; ms until the next one is due."""
        return self.tasks.delete_logs()
