"""A worker's membership in the group of its flow (Connect's `WorkerGroupMember`, `WorkerCoordinator`).

    prepare ─ JoinGroup ─ (leader: assign) ─ SyncGroup ─ take work over ─ heartbeats ─┐
       └────── somebody joins or leaves, the leader has new tasks, a delay is over ───┘

The coordinator chooses the protocol that all members offer and like best (`connect_protocol`). Under the
eager one a worker gives its work up before it joins, so no task runs twice; under the others it keeps
what it is not told to stop. Heartbeats go on meanwhile. A worker that was fenced, or has not heard of the
coordinator for session.timeout.ms, stops its work at once: it may be another's by now.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol, TypeVar

from kmirror.clients.client_config import ClientConfig, common_config_def
from kmirror.clients.cluster_client import GROUP, ClusterClient
from kmirror.clients.consumer.classic_requests import AGAIN, GONE, NO_GENERATION, ClassicMemberIdentity, ClassicRequests
from kmirror.clients.consumer.signal import Signal
from kmirror.common.addresses import address_text
from kmirror.common.config import ConfigDef, ConfigType, between
from kmirror.common.errors import ApiException, ConfigError, Errors, KmirrorError
from kmirror.mirrormaker.herder.connect_protocol import (
    PROTOCOL_TYPE,
    Assignment,
    ConnectProtocol,
    connect_protocol,
    deserialize_assignment,
    deserialize_metadata,
    of_group_protocol,
)
from kmirror.mirrormaker.herder.leader_assignor import GroupRound
from kmirror.mirrormaker.herder.rebalance_metrics import Rebalances
from kmirror.mirrormaker.herder.session_keys import SessionConfig
from kmirror.runtime.api import Runtime, TaskScope
from kmirror.wire.messages.sync_group import SyncGroupRequestAssignment
from kmirror.wire.primitives import ProtocolReadError

LEAVE_TIMEOUT_MS: Final = 5_000
DEFAULT_MAX_DELAY_MS: Final = 0
"""Kafka's is five minutes, for which what a dead worker copied would stand still."""
_log = logging.getLogger(__name__)
T = TypeVar("T")
S = TypeVar("S")


def worker_group_config_def() -> ConfigDef:
    """Returns the keys of `DistributedConfig` that a membership reads. Times are ms."""
    definition = common_config_def()
    definition.define("group.id", ConfigType.STRING)
    definition.define("session.timeout.ms", ConfigType.INT, 10_000)
    definition.define("heartbeat.interval.ms", ConfigType.INT, 3_000)
    definition.define("rebalance.timeout.ms", ConfigType.INT, 60_000)
    definition.define("connect.protocol", ConfigType.STRING, ConnectProtocol.SESSIONED.name.lower(), validator=_is_protocol)
    definition.define("scheduled.rebalance.max.delay.ms", ConfigType.INT, DEFAULT_MAX_DELAY_MS, validator=between(0, 2**31 - 1))
    return definition


def _is_protocol(_: str, text: str) -> None:
    connect_protocol(text)


class WorkerGroupConfig(ClientConfig):
    """ConfigError, in Kafka's words, for what is missing or wrong."""

    def __init__(self, props: Mapping[str, Any], runtime: Runtime) -> None:
        super().__init__(worker_group_config_def(), props, runtime)
        self.group_id: str = self.get_string("group.id") or ""
        self.protocol = connect_protocol(self.get_string("connect.protocol") or "")
        self.session = SessionConfig(props)
        self.max_delay_ms = self.get_int("scheduled.rebalance.max.delay.ms")
        self.session_timeout_ms = self.get_int("session.timeout.ms")
        self.heartbeat_interval_ms = self.get_int("heartbeat.interval.ms")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError("Heartbeat must be set lower than the session timeout")


class WorkerRebalanceListener(Protocol):
    """What a membership asks of its worker."""

    def metadata(self, protocol: ConnectProtocol) -> bytes:
        """What the worker tells the leader, if the group runs this protocol."""

    async def before_join(self) -> None:
        """Gives up all work that another worker might get."""

    async def assign(self, group: GroupRound) -> dict[str, bytes]:
        """The worker leads: returns the assignment of each member."""

    async def on_assigned(self, assignment: Assignment, generation: int, *, leads: bool) -> None:
        """Takes its work over, and gives up what it is told to."""

    async def on_lost(self) -> None:
        """Stops all work: the group may have gone on without the worker."""


class WorkerGroupMember:
    """Owns the client of the group. `run` is a member until it is cancelled."""

    def __init__(
        self,
        runtime: Runtime,
        config: WorkerGroupConfig,
        listener: WorkerRebalanceListener,
        heard: Callable[[], object],
        rebalances: Rebalances,
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._listener = listener
        self._heard = heard
        self._rebalances = rebalances
        self._cluster = ClusterClient(runtime, config)
        self._servers = ",".join(address_text(host, port) for host, port in config.bootstrap_servers)
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
        self.protocol = config.protocol
        """The one that the group runs, as far as this worker knows."""
        self._last_generation = NO_GENERATION
        self._must_join = True
        self._rejoin_at_ms: int | None = None
        self._heard_ms = runtime.clock.monotonic_ms()
        self._failures = 0
        self.trouble: str | None = None
        """Why the coordinator did not take the last request; None if it did."""
        self._refusal: KmirrorError | None = None

    @property
    def member_id(self) -> str:
        return self._identity.id

    def rejoin(self, reason: str) -> None:
        """Has the group assigned anew."""
        self._identity.rejoin_reason = reason
        self._must_join = True
        self._wake.fire()

    def rejoin_in(self, delay_ms: int) -> None:
        """Has the group assigned anew then, unless it is before."""
        self._rejoin_at_ms = self._runtime.clock.monotonic_ms() + delay_ms

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
        error, response = await self._requests.join(self._protocols)
        if error is Errors.MEMBER_ID_REQUIRED:
            self._identity.id = response.member_id
            return
        if error is not Errors.NONE:
            await self._failed(error)
            return
        self._answered()
        identity = self._identity
        identity.id, identity.generation, identity.protocol_name = response.member_id, response.generation_id, response.protocol_name or ""
        self._must_join, self._rejoin_at_ms = False, None
        leads = response.leader == identity.id
        protocol = _understood(of_group_protocol, identity.protocol_name, self._config.group_id)
        assigned = {}
        if leads:
            members = {
                member.member_id: _understood(deserialize_metadata, bytes(member.metadata), self._config.group_id)
                for member in response.members
            }
            group = GroupRound(protocol, identity.id, identity.generation, self._last_generation, members)
            assigned = await self._beside_heartbeats(self._listener.assign(group))
        rows = [SyncGroupRequestAssignment(member_id=member, assignment=data) for member, data in assigned.items()]
        error, response = await self._requests.sync(identity.generation, rows)
        if error is not Errors.NONE:
            self._must_join = True
            await self._failed(error)
            return
        self._answered()
        assignment = _understood(deserialize_assignment, bytes(response.assignment), self._config.group_id)
        self._last_generation = identity.generation
        self._runs(protocol)
        with self._rebalances.assigned(protocol.name.lower(), assignment.leader_url, identity.generation):
            await self._beside_heartbeats(self._listener.on_assigned(assignment, identity.generation, leads=leads))

    def _runs(self, protocol: ConnectProtocol) -> None:
        if protocol is not self.protocol:
            signed = "are signed" if protocol is ConnectProtocol.SESSIONED else "are not signed"
            _log.warning(
                "[%s] The protocol of the group has changed from '%s' to '%s': requests between workers %s",
                self._config.group_id, self.protocol.name.lower(), protocol.name.lower(), signed,
            )  # fmt: skip
        self.protocol = protocol

    def _protocols(self) -> list[tuple[str, bytes]]:
        return [(one.group_protocol, self._listener.metadata(one)) for one in self._config.protocol.offered]

    async def _failed(self, error: Errors) -> None:
        """JoinGroup or SyncGroup was refused: pauses if trying again helps, raises if it does not."""
        self.trouble = self._said(error)
        if error in GONE:
            self._forget(error)
            await self._listener.on_lost()
        elif error is not Errors.REBALANCE_IN_PROGRESS:
            if error not in AGAIN:
                raise self._refusal or self._requests.told(error)
            if self.protocol.is_cooperative and self._is_cut_off():
                await self._listener.on_lost()
            await self._runtime.sleep_ms(self._cluster.backoff_ms(self._failures))
            self._failures += 1

    @property
    def silence(self) -> str | None:
        """Says that a heartbeat has waited for its answer for a session: a broker that hangs refuses nothing."""
        unheard_ms = self._runtime.clock.monotonic_ms() - self._heard_ms
        if unheard_ms < self._config.session_timeout_ms:
            return None
        return f"its coordinator at {self._servers} has not answered for {unheard_ms // 1000} s"

    def _said(self, error: Errors) -> str:
        unheard_s = (self._runtime.clock.monotonic_ms() - self._heard_ms) // 1000
        return f"its coordinator at {self._servers} has not answered for {unheard_s} s, last error {error.name}"

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
        self.trouble = None
        self._heard()

    # Heartbeats

    async def _stay(self) -> None:
        """Sends heartbeats until the group must be joined again."""
        while not self._must_join:
            await self._wake.wait(self._pause_ms())
            if self._rejoin_at_ms is not None and self._runtime.clock.monotonic_ms() >= self._rejoin_at_ms:
                self.rejoin("the delay of the last rebalance is over")
            elif not self._must_join:
                await self._heartbeat()

    def _pause_ms(self) -> int:
        interval_ms = self._config.heartbeat_interval_ms
        if self._rejoin_at_ms is None:
            return interval_ms
        return max(1, min(interval_ms, self._rejoin_at_ms - self._runtime.clock.monotonic_ms()))

    async def _heartbeat(self) -> None:
        error = await self._requests.heartbeat()
        if error is Errors.NONE:
            self._answered()
            return
        self.trouble = self._said(error)
        if error is Errors.REBALANCE_IN_PROGRESS:
            self._answered()
            self._identity.rejoin_reason = "group is already rebalancing"
            self._must_join = True
        elif error in GONE:
            _log.warning("[%s] The group has gone on without this worker (%s); it joins again", self._config.group_id, error.name)
            self._forget(error)
            await self._listener.on_lost()
        elif error not in AGAIN:
            raise self._refusal or self._requests.told(error)
        elif self._is_cut_off():
            _log.warning(
                "[%s] The coordinator was unreachable for %d ms; this worker gives its work up",
                self._config.group_id,
                self._config.session_timeout_ms,
            )
            self._cluster.forget_coordinator(self._config.group_id, GROUP)
            self._must_join = True
            await self._listener.on_lost()

    def _is_cut_off(self) -> bool:
        return self._runtime.clock.monotonic_ms() - self._heard_ms >= self._config.session_timeout_ms

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


def _understood(read: Callable[[S], T], data: S, group_id: str) -> T:
    """ApiException for what another member, or the coordinator, should not have sent."""
    try:
        return read(data)
    except ProtocolReadError as wrong:
        raise ApiException(Errors.INCONSISTENT_GROUP_PROTOCOL, f"what group {group_id} says: {wrong}") from wrong
