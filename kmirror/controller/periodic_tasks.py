"""The controller's periodic work (Kafka's `PeriodicTaskControlManager`): fencing brokers whose
sessions have ended, NoOpRecords, preferred leaders, unclean elections, and expired tokens.

Each task waits for its interval and then requests write events like any client of the controller.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from kmirror.common.errors import ApiException
from kmirror.controller.broker_heartbeat_manager import BrokerHeartbeatManager
from kmirror.controller.cluster_control_manager import ClusterControlManager
from kmirror.controller.controller_config import ControllerConfig
from kmirror.controller.controller_result import ControllerResult
from kmirror.controller.delegation_token_control_manager import DelegationTokenControlManager
from kmirror.controller.replication_control_manager import ReplicationControlManager
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.runtime.api import Runtime, TaskScope
from kmirror.runtime.supervision import Supervised
from kmirror.wire.messages.no_op_record import NoOpRecord

T = TypeVar("T")
_SESSION_CHECKS = 8


class WriteEvents(Protocol):
    """The part of the controller that periodic work needs."""

    @property
    def is_active(self) -> bool: ...

    @property
    def appended_at_ms(self) -> int:
        """When records were last appended, by the monotonic clock."""

    async def write(self, name: str, decide: Callable[[], ControllerResult[T]]) -> T: ...


class PeriodicTasks:
    """Runs the periodic work as tasks of `tasks`, as long as the controller is active."""

    def __init__(
        self,
        config: ControllerConfig,
        runtime: Runtime,
        controller: WriteEvents,
        tasks: TaskScope,
        *,
        heartbeats: BrokerHeartbeatManager,
        cluster: ClusterControlManager,
        replication: ReplicationControlManager,
        delegation_tokens: DelegationTokenControlManager,
    ) -> None:
        self._config = config
        self._runtime = runtime
        self._controller = controller
        self._tasks = tasks
        self._heartbeats = heartbeats
        self._cluster = cluster
        self._replication = replication
        self._delegation_tokens = delegation_tokens
        self.timed_out_brokers = 0
        """How many brokers were fenced because their session had ended."""

    def start(self) -> None:
        self._repeat("session-checks", self._run_session_checks)
        self._repeat("periodic", self._run_periodic_work)
        if self._delegation_tokens.is_enabled:
            self._repeat("delegation-tokens", self._run_token_sweeps)

    def _repeat(self, name: str, rounds: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs `rounds` periodically as long as the controller is active; an error of one round
        does not prevent the next."""

        async def while_active() -> None:
            try:
                await rounds()
            except ApiException:
                if self._controller.is_active:
                    raise

        self._tasks.spawn(Supervised(self._runtime, while_active, name=f"controller/{name}", may_return=True).run(), name=name)

    async def _run_session_checks(self) -> None:
        while True:
            await self._runtime.sleep_ms(max(1, self._config.broker_session_timeout_ms // _SESSION_CHECKS))
            while self._heartbeats.stale_brokers(self._runtime.clock.monotonic_ms()):
                fenced_broker = await self._controller.write("fenceStaleBroker", self._cluster.fence_stale_broker)
                self.timed_out_brokers += fenced_broker >= 0

    async def _run_periodic_work(self) -> None:
        """Writes NoOpRecords while idle, gives partitions back to their preferred leaders, and runs
        unclean elections where they are allowed."""
        idle_ms, balance_ms = self._config.metadata_max_idle_interval_ms, self._config.leader_imbalance_check_interval_ms
        unclean_ms = self._config.unclean_election_interval_ms
        intervals = [interval for interval in (idle_ms, balance_ms, unclean_ms) if interval > 0]
        balanced_at_ms = elected_at_ms = self._runtime.clock.monotonic_ms()
        while intervals:
            await self._runtime.sleep_ms(min(intervals))
            now = self._runtime.clock.monotonic_ms()
            if idle_ms > 0 and now - self._controller.appended_at_ms >= idle_ms:
                await self._controller.write("noOp", lambda: ControllerResult([ApiMessageAndVersion(NoOpRecord(), 0)], None))
            if balance_ms > 0 and now - balanced_at_ms >= balance_ms:
                balanced_at_ms = now
                await self._controller.write("balanceLeaders", self._replication.elections.balance_leaders)
            if unclean_ms > 0 and now - elected_at_ms >= unclean_ms:
                elected_at_ms = now
                await self._controller.write("electUnclean", self._replication.elections.elect_unclean)

    async def _run_token_sweeps(self) -> None:
        while True:
            await self._runtime.sleep_ms(self._config.delegation_token_expiry_check_interval_ms)
            await self._controller.write("expireDelegationTokens", self._delegation_tokens.sweep_expired_tokens)
