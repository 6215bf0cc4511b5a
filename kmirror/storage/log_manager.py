"""All logs of a broker, in one or more log directories (Kafka's `LogManager`).

It loads the logs at start (recovering those of a directory without a clean-shutdown marker),
creates and deletes them, and closes everything in an order that makes the marker reliable: logs
flushed and closed, then checkpoints, then the marker. Its parts:

    BrokerLogs             which logs there are             LogDirs                 the directories, their locks and ids
    LogFactory             opening and making them          LogManagerLoading       finding them at start
    LogRemoval             renaming and removing them       FutureLogs              moving them to another directory
    LogCheckpoints         the offset checkpoints           LogCuts                 what goes with a truncation
    LogManagerTasks        what is done from time to time   LogDirFailureHandler    what happens when a disk fails
    LogSettings            their configs                    LogCleaner              compaction

Everything is synchronous and belongs to one loop, scheduled tasks included. Work that may take long
is handed out in steps (`load_steps`, `shutdown_steps`). Each step may run on a worker while the
loop waits for it.

A partition that may not be loaded is never set aside silently. A folder with data but without
`partition.metadata` is *refused*: it stays as it is, an error is logged, and `get_or_create_log`
answers KAFKA_STORAGE_ERROR with the reason. (Kafka renames it to `-stray` and begins an empty log;
`stray_on_missing_partition_metadata` does the same.) Folders named `-stray` are not opened. Folders
named `-future` are loaded, so that `replica.alter_log_dirs` can go on with the move, unless they
are strays.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import Clock, FileSystem, Random
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.storage.broker_logs import BrokerLogs
from kmirror.storage.clean_shutdown_file import CleanShutdownFile
from kmirror.storage.future_logs import FutureLogs
from kmirror.storage.log_checkpoints import LogCheckpoints
from kmirror.storage.log_cleaner import LogCleaner
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_cuts import LogCuts
from kmirror.storage.log_dir_failure_handler import LogDirFailureHandler
from kmirror.storage.log_dirs import LogDirs
from kmirror.storage.log_factory import LogFactory
from kmirror.storage.log_manager_config import LogManagerConfig
from kmirror.storage.log_manager_loading import BlockingStep, LogManagerLoading
from kmirror.storage.log_manager_steps import LogClosing
from kmirror.storage.log_manager_tasks import LogManagerTasks
from kmirror.storage.log_removal import LogRemoval
from kmirror.storage.log_settings import LogSettings
from kmirror.storage.ports import LogPorts, LogScheduler
from kmirror.storage.unified_log import UnifiedLog

_LOGGER: Final = logging.getLogger(__name__)


class LogManager:
    """Kafka's `LogManager`: the face of the parts above, which own the state. Errors are
    ApiException with Kafka's code, or KmirrorError at start.
    """

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

        `topic_config` returns a topic's own (overriding) configs. `on_log_dir_failure` is called
        after a dir was taken offline.
        """
        self._dirs = dirs = LogDirs(files, config.log_dirs)
        self._logs = logs = BrokerLogs()
        self.failures = failures = LogDirFailureHandler(dirs, logs, on_log_dir_failure)
        self._ports = ports = LogPorts(files, clock, random, scheduler, failures.channel, on_flush)
        self.settings = settings = LogSettings(config, default_log_config, topic_config)
        self.cleaner: LogCleaner | None = None
        if config.cleaner.enable:
            self.cleaner = LogCleaner(config.cleaner, ports, log_dirs=list(dirs.live), logs=logs.current)
        failures.cleaner = self.cleaner
        self.checkpoints = LogCheckpoints(dirs, logs, ports)
        self.removal = LogRemoval(settings, ports, logs, self.checkpoints, self.cleaner)
        self.future_logs = FutureLogs(logs, self.removal, self.checkpoints, self.cleaner)
        cuts = LogCuts(logs, self.future_logs, self.checkpoints, self.cleaner)
        self.factory = LogFactory(settings, ports, dirs, logs, guard=cuts.guard)
        self.tasks = LogManagerTasks(settings, ports, logs, checkpoints=self.checkpoints, removal=self.removal, failures=failures)
        self._loading = LogManagerLoading(
            files, dirs, logs, settings=settings, factory=self.factory, removal=self.removal, failures=failures
        )

    # directories

    @property
    def live_log_dirs(self) -> list[str]:
        return list(self._dirs.live)

    @property
    def offline_log_dirs(self) -> list[str]:
        return self._dirs.offline_paths

    @property
    def failed_log_dirs(self) -> list[str]:
        """The directories that no log is served from any more: the offline ones, and those that are
        about to be taken offline.
        """
        return self.failures.failed_paths

    def is_log_dir_online(self, log_dir: str) -> bool:
        if log_dir not in self._dirs.paths:
            raise ApiException(Errors.LOG_DIR_NOT_FOUND, f"Log dir {log_dir} is not found in the config.")
        return log_dir in self._dirs.live

    def directory_id(self, log_dir: str) -> Uuid | None:
        return self._dirs.id_of(log_dir)

    def directory_path(self, directory_id: Uuid) -> str | None:
        return self._dirs.path_of(directory_id)

    def directory_ids(self) -> list[Uuid]:
        """The ids of the live log dirs, in their order, for BrokerRegistration and
        BrokerHeartbeat.
        """
        return [log_dir.directory_id for log_dir in self._dirs.live.values() if log_dir.directory_id is not None]

    def read_broker_epoch_from_clean_shutdown_files(self) -> int | None:
        """The epoch for PreviousBrokerEpoch; call this before `startup` removes the markers.

        None unless all log dirs have the same one.
        """
        if self._dirs.offline_paths:
            return None
        epochs = [CleanShutdownFile(self._ports.files, path).read() for path in self._dirs.live]
        return epochs[0] if all(epoch == epochs[0] for epoch in epochs) else None

    def handle_log_dir_failure(self, log_dir: str, error: OSError) -> None:
        """Stops serving the logs in `log_dir`; they are closed without another write."""
        self.failures.handle(log_dir, error)

    def handle_reported_failures(self) -> None:
        """Takes the directories offline that failed since the last call; a task calls this every
        second.
        """
        self.failures.handle_reported()

    # start

    def startup(self, is_stray: Callable[[UnifiedLog], bool] = lambda log: False) -> None:
        """Loads (and if needed recovers) every log of the live dirs, then schedules the periodic
        tasks.
        """
        for step in self.load_steps(is_stray):
            step()
        self.start_tasks()

    def load_steps(self, is_stray: Callable[[UnifiedLog], bool] = lambda log: False) -> Iterator[BlockingStep]:
        """`startup` without the tasks. Each step opens one log and may run on a worker; take the
        next one when it is done.
        """
        return self._loading.load_steps(is_stray)

    def set_strays_aside(self, is_stray: Callable[[UnifiedLog], bool]) -> None:
        """Renames the loaded logs that are strays by now; at loading they may have been checked
        against older metadata.
        """
        self._loading.set_strays_aside(is_stray)

    def start_tasks(self) -> None:
        self.tasks.start()

    # shutdown

    def shutdown(self, broker_epoch: int = -1) -> None:
        """Flushes and closes every log, writes the checkpoints and the clean-shutdown marker of
        each dir, and unlocks the dirs.
        """
        for step in self.shutdown_steps(broker_epoch):
            step()

    def shutdown_steps(self, broker_epoch: int = -1) -> Iterator[BlockingStep]:
        """`shutdown` in steps that may run on a worker, one for each log. No cleaner job may be
        running.
        """
        self.tasks.stop()
        self.failures.handle_reported()
        for log_dir in list(self._dirs.live.values()):
            closing = [LogClosing(log) for log in self._logs.in_dir(log_dir.path)]
            for close in closing:
                yield close.run
            self.failures.handle_reported()
            if all(close.succeeded for close in closing):
                self.checkpoints.write_in(log_dir.path)
                if log_dir.path in self._dirs.live and (log_dir.had_clean_shutdown or log_dir.is_loaded):
                    self._mark_clean_shutdown(log_dir.path, broker_epoch)
        self.removal.close_handlers()
        self._dirs.unlock()

    def _mark_clean_shutdown(self, log_dir: str, broker_epoch: int) -> None:
        """Writes the marker. It only speeds up the next start: without it, the logs are recovered
        then.
        """
        try:
            CleanShutdownFile(self._ports.files, log_dir).write(broker_epoch)
        except OSError as error:
            _LOGGER.warning("cannot mark directory %s as cleanly shut down: %s", log_dir, error)

    def kill(self) -> None:
        """Closes the files as they are and unlocks the dirs, as the end of the process would: no
        flush, no checkpoint, no marker.
        """
        self.tasks.stop()
        for log in self._logs.all():
            log.close_handlers()
        self.removal.close_handlers()
        self._dirs.unlock()

    # logs

    @property
    def refused(self) -> Mapping[TopicPartition, str]:
        """Partitions whose folder holds data that may not be loaded, and why."""
        return self._logs.refused

    def get_log(self, topic_partition: TopicPartition) -> UnifiedLog | None:
        return self._logs.current.get(topic_partition)

    def future_log(self, topic_partition: TopicPartition) -> UnifiedLog | None:
        """The log that will replace the current one, which is being moved to another directory."""
        return self._logs.future.get(topic_partition)

    def all_logs(self) -> list[UnifiedLog]:
        """The current ones, then the future ones."""
        return self._logs.all()

    def current_logs(self) -> list[UnifiedLog]:
        return list(self._logs.current.values())

    def logs_by_topic(self, topic: str, partitions: Iterable[int]) -> list[UnifiedLog]:
        """The logs of these partitions, future ones included."""
        return self._logs.of_topic(topic, partitions)

    def logs_in_dir(self, log_dir: str) -> dict[TopicPartition, UnifiedLog]:
        return {log.topic_partition: log for log in self._logs.in_dir(log_dir)}

    def get_or_create_log(
        self,
        topic_partition: TopicPartition,
        *,
        topic_id: Uuid | None,
        is_new: bool = False,
        target_directory_id: Uuid | None = None,
    ) -> UnifiedLog:
        """The current log, created if there is none.

        KAFKA_STORAGE_ERROR if it may lie in an offline dir or was refused, INCONSISTENT_TOPIC_ID if
        it is another topic's.
        """
        log = self._logs.current.get(topic_partition)
        if log is None:
            log = self.factory.create(topic_partition, topic_id, is_new=is_new, target_directory_id=target_directory_id)
            self.tasks.add(log)
        if log.topic_id is None and topic_id is not None:
            log.assign_topic_id(topic_id)
        if topic_id is not None and log.topic_id != topic_id:
            raise ApiException(
                Errors.INCONSISTENT_TOPIC_ID,
                f"Tried to assign topic ID {topic_id} to log for topic partition {topic_partition},"
                f"but log already contained topic ID {log.topic_id}",
            )
        return log

    def async_delete(
        self,
        topic_partitions: Iterable[TopicPartition],
        *,
        is_stray: bool = False,
        on_error: Callable[[TopicPartition, Exception], None] | None = None,
    ) -> None:
        """Renames logs to `-delete` (removed after file.delete.delay.ms) or `-stray` (kept). Syncs
        each dir and rewrites its checkpoints once.
        """
        self.removal.async_delete(topic_partitions, is_stray=is_stray, on_error=on_error)

    # moving between directories

    def prefer_log_dir(self, topic_partition: TopicPartition, log_dir: str) -> None:
        """Chooses the directory for a log that does not exist yet."""
        self.factory.prefer_log_dir(topic_partition, log_dir)

    def create_future_log(self, topic_partition: TopicPartition, log_dir: str, *, topic_id: Uuid | None) -> UnifiedLog:
        """Creates an empty log beside the current one, in `log_dir`; KAFKA_STORAGE_ERROR while any
        directory is offline.
        """
        log = self.factory.create_future(topic_partition, log_dir, topic_id=topic_id)
        self.tasks.add(log)
        return log

    def replace_current_with_future_log(self, topic_partition: TopicPartition) -> None:
        """Makes the future log the current one; the old one is deleted later.

        KAFKA_STORAGE_ERROR if one of them is offline.
        """
        self.future_logs.replace_current(topic_partition)

    def delete_future_log(self, topic_partition: TopicPartition) -> None:
        """Gives up a move and removes its future log."""
        self.future_logs.delete(topic_partition)

    # cleaner

    def abort_and_pause_cleaning(self, topic_partition: TopicPartition) -> None:
        if self.cleaner is not None:
            self.cleaner.abort_and_pause_cleaning(topic_partition)

    def resume_cleaning(self, topic_partition: TopicPartition) -> None:
        if self.cleaner is not None:
            self.cleaner.resume_cleaning([topic_partition])

    def cleaned_until(self, log: UnifiedLog) -> int:
        """The end of the part of a log that our cleaner has been through. A cut below it leaves a
        log that lacks the records which the cut ones had replaced.
        """
        if self.cleaner is None or log.is_future:
            return 0
        return self.cleaner.manager.cleaned_until(log.parent_dir, log.topic_partition)

    # configs

    def update_topic_config(self, topic: str, overrides: Mapping[str, str], partitions: Iterable[int]) -> None:
        """Applies a topic's changed configs to the logs of its partitions."""
        config = self.settings.over_defaults(topic, overrides)
        for log in self._logs.of_topic(topic, partitions):
            self._update_config(log, config)

    def reconfigure(self, config: LogManagerConfig) -> None:
        """Applies the settings that may change while logs are open: the cleaner's, and how
        producers are remembered and verified.
        """
        self.settings.config = config
        if self.cleaner is not None:
            self.cleaner.reconfigure(config.cleaner)
        producers = self.settings.producer_state_config
        for log in self._logs.all():
            log.producer_state_manager.config = producers

    def reconfigure_default_log_config(self, default_log_config: LogConfig) -> None:
        """Applies changed broker defaults: every log gets its topic's configs over the new ones."""
        self.settings.default_log_config = default_log_config
        for log in self._logs.all():
            self._update_config(log, self.settings.log_config(log.topic_partition.topic))

    def _update_config(self, log: UnifiedLog, config: LogConfig) -> None:
        did_compact = log.cleaning_config.compact
        log.update_config(config)
        if did_compact and not log.cleaning_config.compact and self.cleaner is not None:
            self.cleaner.abort_cleaning(log.topic_partition)

    # high watermarks

    def read_high_watermarks(self, log_dir: str) -> dict[TopicPartition, int]:
        """Reads replication-offset-checkpoint of a live dir.

        KAFKA_STORAGE_ERROR if it cannot be read or makes no sense; the dir is offline then.
        """
        return self.checkpoints.read_high_watermarks(log_dir)

    def checkpoint_high_watermarks(self, log_dir: str, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Writes replication-offset-checkpoint; may run on a worker."""
        self.checkpoints.write_high_watermarks(log_dir, high_watermarks)
