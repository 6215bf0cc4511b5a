"""A worker's membership in the group of its flow (Connect's `WorkerGroupMember`, `WorkerCoordinator`).

    give up work ─ JoinGroup ─ (leader: assign) ─ SyncGroup ─ take work over ─ heartbeats ─┐
         └──────────────── somebody joins or leaves, or the leader has new tasks ──────────┘

The protocol is eager: a worker gives its work up before it joins, so no task runs twice. Heartbeats
go on meanwhile. A worker that was fenced, or has not heard of the coordinator for session.timeout.ms,
gives its work up at once: it may be another's by now.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from kmirror.clients.client_config import ClientConfig, common_config_def
from kmirror.clients.cluster_client import GROUP, ClusterClient
from kmirror.clients.consumer.classic_requests import AGAIN, GONE, NO_GENERATION, ClassicMemberIdentity, ClassicRequests
from kmirror.clients.consumer.signal import Signal
from kmirror.common.config import ConfigDef, ConfigType
from kmirror.common.errors import ApiException, ConfigError, Errors, KmirrorError
from kmirror.mirrormaker.herder.connect_protocol import PROTOCOL_TYPE, Assignment, ConnectProtocol, deserialize_assignment
from kmirror.runtime.api import Runtime, TaskScope
from kmirror.wire.messages.sync_group import SyncGroupRequestAssignment
from kmirror.wire.primitives import ProtocolReadError

LEAVE_TIMEOUT_MS: Final = 5_000
_log = logging.getLogger(__name__)
T = TypeVar("T")


def worker_group_config_def() -> ConfigDef:
    """Returns the keys of `DistributedConfig` that a membership reads. Times are ms."""
    definition = common_config_def()
    definition.define("group.id", ConfigType.STRING)
    definition.define("session.timeout.ms", ConfigType.INT, 10_000)
    definition.define("heartbeat.interval.ms", ConfigType.INT, 3_000)
    definition.define("rebalance.timeout.ms", ConfigType.INT, 60_000)
    return definition


class WorkerGroupConfig(ClientConfig):
    """ConfigError, in Kafka's words, for what is missing or wrong."""

    def __init__(self, props: Mapping[str, Any], runtime: Runtime) -> None:
        super().__init__(worker_group_config_def(), props, runtime)
        self.group_id: str = self.get_string("group.id") or ""
        self.session_timeout_ms = self.get_int("session.timeout.ms")
        self.heartbeat_interval_ms = self.get_int("heartbeat.interval.ms")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError("Heartbeat must be set lower than the session timeout")


class WorkerRebalanceListener(Protocol):
    """What a membership asks of its worker."""

    def metadata(self) -> bytes:
        """What the worker tells the leader."""

    async def before_join(self) -> None:
        """Gives up all work that another worker might get."""

    async def assign(self, member_id: str, members: Sequence[tuple[str, bytes]]) -> dict[str, bytes]:
        """The worker leads: returns the assignment of each member, of whom it gets id and metadata."""

    async def on_assigned(self, assignment: Assignment, generation: int, *, leads: bool) -> None:
        """Takes its work over."""

    async def on_lost(self) -> None:
        """Gives up all work: the group has gone on without the worker."""


class WorkerGroupMember:
    """Owns the client of the group. `run` is a member until it is cancelled."""

    def __init__(self, runtime: Runtime, config: WorkerGroupConfig, listener: WorkerRebalanceListener, heard: Callable[[], object]) -> None:
        self._runtime = runtime
        self._config = config
        self._listener = listener
        self._heard = heard
        self._cluster = ClusterClient(runtime, config)
        self._identity = ClassicMemberIdentity()
        self._requests = ClassicRequests(
            self._cluster,
            config,
            self._identity,
            protocol_type=PROTOCOL_TYPE,
            group_id=config.group_id,
            rebalance_timeout_ms=config.get_int("rebalance.timeout.ms"),
            on_refused=self._refuse,
        )
        self._wake = Signal(runtime)
        self._must_join = True
        self._heard_ms = runtime.clock.monotonic_ms()
        self._failures = 0
        self._refusal: KmirrorError | None = None

    @property
    def member_id(self) -> str:
        return self._identity.id

    def rejoin(self, reason: str) -> None:
        """Has the group assigned anew."""
        self._identity.rejoin_reason = reason
        self._must_join = True
        self._wake.fire()

    async def run(self) -> None:
        """ApiException or another KmirrorError if the coordinator refuses for good."""
        while True:
            await self._beside_heartbeats(self._listener.before_join())
            while self._must_join:
                await self._join()
            await self._stay()

    async def close(self) -> None:
        """Leaves the group, so that others get the work at once."""
        member_id, self._identity.id, self._identity.generation = self._identity.id, "", NO_GENERATION
        try:
            if member_id:
                await self._requests.leave(member_id, timeout_ms=LEAVE_TIMEOUT_MS, reason="the worker is being shut down")
        finally:
            await self._cluster.close()

    # Joining

    async def _join(self) -> None:
        self._heard()
        error, response = await self._requests.join(lambda: [(ConnectProtocol.EAGER.group_protocol, self._listener.metadata())])
        if error is Errors.MEMBER_ID_REQUIRED:
            self._identity.id = response.member_id
            return
        if error is not Errors.NONE:
            await self._failed(error)
            return
        self._answered()
        identity = self._identity
        identity.id, identity.generation, identity.protocol_name = response.member_id, response.generation_id, response.protocol_name or ""
        self._must_join = False
        leads = response.leader == identity.id
        members = [(member.member_id, bytes(member.metadata)) for member in response.members]
        assigned = await self._beside_heartbeats(self._listener.assign(identity.id, members)) if leads else {}
        rows = [SyncGroupRequestAssignment(member_id=member, assignment=data) for member, data in assigned.items()]
        error, response = await self._requests.sync(identity.generation, rows)
        if error is not Errors.NONE:
            self._must_join = True
            await self._failed(error)
            return
        self._answered()
        try:
            assignment = deserialize_assignment(bytes(response.assignment))
        except ProtocolReadError as wrong:
            raise ApiException(Errors.INCONSISTENT_GROUP_PROTOCOL, f"the assignment of group {self._config.group_id}: {wrong}") from wrong
        await self._beside_heartbeats(self._listener.on_assigned(assignment, identity.generation, leads=leads))

    async def _failed(self, error: Errors) -> None:
        """JoinGroup or SyncGroup was refused: pauses if trying again helps, raises if it does not."""
        if error in GONE:
            self._forget(error)
            await self._listener.on_lost()
        elif error is not Errors.REBALANCE_IN_PROGRESS:
            if error not in AGAIN:
                raise self._refusal or self._requests.told(error)
            await self._runtime.sleep_ms(self._cluster.backoff_ms(self._failures))
            self._failures += 1

    def _forget(self, error: Errors) -> None:
        self._identity.generation = NO_GENERATION
        if error is Errors.UNKNOWN_MEMBER_ID:
            self._identity.id = ""
        self._must_join = True

    def _refuse(self, error: KmirrorError) -> None:
        self._refusal = error  # the login was refused

    def _answered(self) -> None:
        self._heard_ms = self._runtime.clock.monotonic_ms()
        self._failures = 0
        self._heard()

    # Heartbeats

    async def _stay(self) -> None:
        """Sends heartbeats until the group must be joined again."""
        while not self._must_join:
            await self._wake.wait(self._config.heartbeat_interval_ms)
            if not self._must_join:
                await self._heartbeat()

    async def _heartbeat(self) -> None:
        error = await self._requests.heartbeat()
        if error is Errors.NONE:
            self._answered()
        elif error is Errors.REBALANCE_IN_PROGRESS:
            self._answered()
            self._identity.rejoin_reason = "group is already rebalancing"
            self._must_join = True
        elif error in GONE:
            _log.warning("[%s] The group has gone on without this worker (%s); it joins again", self._config.group_id, error.name)
            self._forget(error)
            await self._listener.on_lost()
        elif error not in AGAIN:
            raise self._refusal or self._requests.told(error)
        elif self._runtime.clock.monotonic_ms() - self._heard_ms >= self._config.session_timeout_ms:
            _log.warning(
                "[%s] The coordinator was unreachable for %d ms; this worker gives its work up",
                self._config.group_id,
                self._config.session_timeout_ms,
            )
            self._cluster.forget_coordinator(self._config.group_id, GROUP)
            self._must_join = True
            await self._listener.on_lost()

    async def _beside_heartbeats(self, work: Awaitable[T]) -> T:
        """Work that may take longer than a session; a failed heartbeat shows in the next request."""
        scope = TaskScope(self._runtime, f"worker-group-{self._config.group_id}")
        scope.spawn(self._beat(), name="heartbeats")
        try:
            return await work
        finally:
            await scope.cancel()

    async def _beat(self) -> None:
        while True:
            await self._runtime.sleep_ms(self._config.heartbeat_interval_ms)
            if self._identity.id and self._identity.generation != NO_GENERATION:
                await self._requests.heartbeat()
                self._heard()
