"""Handles log directories that fail while a broker runs.

The partitions of such a directory go offline here at once. The controller elects other leaders when
a heartbeat has told it. It has to learn this in time (`log.dir.failure.timeout.ms`), because until
then clients are sent to a leader that has no log. A broker whose last directory failed, or that
cannot tell the controller, ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kmirror.common.uuid import Uuid
from kmirror.runtime.api import Runtime
from kmirror.server.kafka_config import KafkaConfig

if TYPE_CHECKING:
    from kmirror.replica.replica_manager import ReplicaManager
    from kmirror.server.broker_lifecycle_manager import BrokerLifecycleManager


class OfflineLogDirs:
    """Owns the list of the broker's log directories from which it tells the failed ones.

    Call `watch` before the logs are loaded, and set `lifecycle` as soon as the broker registers.
    """

    def __init__(self, runtime: Runtime, config: KafkaConfig, *, on_fatal: Callable[[str], None], is_closed: Callable[[], bool]) -> None:
        self._runtime = runtime
        self._config = config
        self._on_fatal = on_fatal
        self._is_closed = is_closed
        self._replica_manager: ReplicaManager | None = None
        self._all: list[Uuid] = []
        self.is_loading = False
        self.lifecycle: BrokerLifecycleManager | None = None

    def watch(self, replica_manager: ReplicaManager) -> None:
        self._replica_manager = replica_manager
        self._all = list(replica_manager.log_manager.directory_ids())

    def directory_ids(self) -> list[Uuid]:
        """Returns the ids of the directories that have failed since the start."""
        assert self._replica_manager is not None, "log directories were asked for before there were any"
        live = self._replica_manager.log_manager.directory_ids()
        return [directory_id for directory_id in self._all if directory_id not in live]

    def on_failure(self, log_dir: str, error: OSError) -> None:
        """Handles a failure, on the loop.

        While the logs are loaded the log manager calls this from a worker.
        """
        if self.is_loading:
            self._runtime.call_later_ms(0, lambda: self._handle(log_dir))
        else:
            self._handle(log_dir)

    def _handle(self, log_dir: str) -> None:
        assert self._replica_manager is not None, "a log directory failed before the replica manager was there"
        self._replica_manager.handle_log_dir_failure(log_dir)
        if not self._replica_manager.log_manager.live_log_dirs:
            self._on_fatal(f"Shutdown broker because all log dirs in {', '.join(self._config.log_dirs)} have failed")
        elif self.lifecycle is not None:
            self.lifecycle.report_offline_log_dirs()
            self._runtime.call_later_ms(self._config.get_int("log.dir.failure.timeout.ms"), self._check_they_are_known)

    def _check_they_are_known(self) -> None:
        assert self.lifecycle is not None, "a failure of a log dir was timed before the broker registered"
        known = self.lifecycle.acknowledged_offline_log_dirs
        unknown = [str(directory_id) for directory_id in self.directory_ids() if directory_id not in known]
        if unknown and not self._is_closed():
            self._on_fatal(f"Unable to tell the controller in time that the log dirs {', '.join(unknown)} have failed")
