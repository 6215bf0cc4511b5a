"""A broker's membership: it registers, sends heartbeats, is unfenced, and leaves in good order
(Kafka's `BrokerLifecycleManager`).

    NOT_RUNNING ── start ──> STARTING ── registered ──> RECOVERY ── caught up, unfenced ──> RUNNING
                                                            ── begin_controlled_shutdown ──> PENDING_CONTROLLED_SHUTDOWN ── told to go ──> SHUTTING_DOWN

Each incarnation of the process has its own id; the controller answers a registration with a broker
epoch, which every heartbeat carries. A heartbeat whose epoch is stale means that another
incarnation took our place: this one cannot go on.

A failed request is repeated after 50, 100, 200, and then every 400 ms, give or take a tenth.
Kafka's ExponentialBackoff begins at 100 ms and grows to broker.session.timeout.ms. But the usual
refusal (DUPLICATE_BROKER_REGISTRATION) lasts only until the session of our own earlier incarnation
ends, and a broker that restarts should be back a moment after that, not a session later.

A broker that cannot register within initial.broker.registration.timeout.ms gives up, and says why
(Kafka's RegistrationTimeoutEvent). What keeps it from the controller for longer than REASON_AFTER_MS
is a warning when that begins, when its reason changes and when it ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.exponential_backoff import ExponentialBackoff
from kmirror.common.lasting_conditions import LastingConditions
from kmirror.common.uuid import Uuid
from kmirror.metadata.features import supported_features
from kmirror.metadata.registrations import Endpoint
from kmirror.runtime.api import Runtime
from kmirror.runtime.supervision import Supervised
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.node_to_controller_channel import NodeToControllerChannel
from kmirror.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kmirror.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener

FIRST_RETRY_MS = 50
MAX_RETRY_MS = 400
RETRY_JITTER = 0.1
_RETRY_BACKOFF = ExponentialBackoff(FIRST_RETRY_MS, MAX_RETRY_MS, RETRY_JITTER)
FIRST_HEARTBEAT_RETRY_MS = 10
REASON_AFTER_MS = 5_000
REGISTRATION_TIMEOUT_MS = 60_000
_log = logging.getLogger(__name__)

_REGISTRATION, _HEARTBEATS = "registration", "heartbeats"
_WHAT_IT_MEANS = {
    Errors.CLUSTER_AUTHORIZATION_FAILED: "The user that this broker is at the controller has no right to ClusterAction on the cluster: "
    "super.users of the controller has to name it, or an ACL",
    Errors.DUPLICATE_BROKER_REGISTRATION: "A broker with this node.id is registered and alive, or was until now: its session has to end",
}

_STATE_CODES = {"NOT_RUNNING": 0, "STARTING": 1, "RECOVERY": 2, "RUNNING": 3, "PENDING_CONTROLLED_SHUTDOWN": 6, "SHUTTING_DOWN": 7}


class BrokerState(Enum):
    """The broker's state as it sees itself; the names are Kafka's."""

    NOT_RUNNING = "NOT_RUNNING"
    STARTING = "STARTING"
    RECOVERY = "RECOVERY"
    RUNNING = "RUNNING"
    PENDING_CONTROLLED_SHUTDOWN = "PENDING_CONTROLLED_SHUTDOWN"
    SHUTTING_DOWN = "SHUTTING_DOWN"

    @property
    def code(self) -> int:
        """The value of the metric `BrokerState`."""
        return _STATE_CODES[self.value]


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """What a broker registers. `features` maps names to (lowest, highest) supported levels."""

    broker_id: int
    cluster_id: str
    rack: str | None
    listeners: tuple[Endpoint, ...]
    features: dict[str, tuple[int, int]]
    log_dirs: tuple[Uuid, ...]
    previous_broker_epoch: int

    @classmethod
    def of(
        cls,
        config: KafkaConfig,
        cluster_id: str,
        *,
        bound_port: Callable[[str], int],
        log_dirs: Iterable[Uuid],
        previous_broker_epoch: int,
    ) -> BrokerIdentity:
        """Builds the identity from the broker's settings.

        A listener whose port is left open there advertises the port that it is bound to.
        """
        supported = supported_features(unstable=config.unstable_feature_versions_enable)
        return cls(
            broker_id=config.node_id,
            cluster_id=cluster_id,
            rack=config.get_string("broker.rack"),
            listeners=tuple(
                Endpoint(listener.name, listener.host, listener.port or bound_port(listener.name), listener.security_protocol_id)
                for listener in config.advertised_listeners
                if listener.name not in config.controller_listener_names
            ),
            features={name: (levels.min, levels.max) for name, levels in supported.items()},
            log_dirs=tuple(log_dirs),
            previous_broker_epoch=previous_broker_epoch,
        )


class BrokerLifecycleManager:
    """Owns the broker's state and epoch.

    `run` is its task. The other methods are questions, and requests of the broker that owns this.
    """

    def __init__(
        self,
        runtime: Runtime,
        channel: NodeToControllerChannel,
        identity: BrokerIdentity,
        *,
        heartbeat_interval_ms: int,
        metadata_offset: Callable[[], int],
        offline_log_dirs: Callable[[], Sequence[Uuid]],
        registration_timeout_ms: int = REGISTRATION_TIMEOUT_MS,
    ) -> None:
        self._runtime = runtime
        self._registration_timeout_ms = registration_timeout_ms
        self._conditions = LastingConditions(_log, runtime.clock.monotonic_ms, grace_ms=REASON_AFTER_MS)
        self._channel = channel
        self._identity = identity
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._metadata_offset = metadata_offset
        self._offline_log_dirs = offline_log_dirs
        self._incarnation_id = Uuid.random(runtime.random)
        self._wants_fence = True
        self._failures = 0
        self._heard_ms = runtime.clock.monotonic_ms()
        self.acknowledged_offline_log_dirs: tuple[Uuid, ...] = ()
        self._wake = asyncio.Event()
        self.state = BrokerState.NOT_RUNNING
        self.broker_epoch = -1
        self.registered: asyncio.Future[None] = runtime.create_future()
        self.unfenced: asyncio.Future[None] = runtime.create_future()
        self.may_shut_down: asyncio.Future[None] = runtime.create_future()

    async def run(self) -> None:
        """Registers the broker, then sends heartbeats until told to shut down."""
        self.state = BrokerState.STARTING
        timer = self._runtime.call_later_ms(self._registration_timeout_ms, self._give_up_registering)
        try:
            await self._register()
        finally:
            timer.cancel()
        if self.registered.done():
            return
        self._conditions.end(_REGISTRATION)
        self.state = BrokerState.RECOVERY
        self.registered.set_result(None)
        await Supervised(self._runtime, self._heartbeats, name="broker-lifecycle", may_return=True).run()

    async def _heartbeats(self) -> None:
        while not self.may_shut_down.done():
            delay_ms = await self._heartbeat()
            await self._sleep_or_wake(delay_ms)

    @property
    def unheard_ms(self) -> int:
        """For how long the controller has not taken a request of this broker."""
        return self._runtime.clock.monotonic_ms() - self._heard_ms

    def set_ready_to_unfence(self) -> None:
        """Says that the logs are loaded and the metadata is caught up."""
        self._wants_fence = False
        self._wake.set()

    def report_offline_log_dirs(self) -> None:
        """Tells the controller at once that a directory has failed."""
        self._wake.set()

    def begin_controlled_shutdown(self) -> None:
        """Asks to leave; `may_shut_down` is done when the controller has moved our leaderships
        away.
        """
        if self.state in (BrokerState.RUNNING, BrokerState.RECOVERY):
            self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
            self._wake.set()
        elif not self.may_shut_down.done():
            self.may_shut_down.set_result(None)

    @property
    def problem(self) -> str | None:
        """What keeps the broker from the controller now; None if nothing is known to."""
        return self._conditions.text(_REGISTRATION) or self._conditions.text(_HEARTBEATS)

    def _give_up_registering(self) -> None:
        reason = self._conditions.text(_REGISTRATION) or self._channel.problem or "the controller has not answered yet"
        self._registration_failed(
            KmirrorError(
                f"Shutting down because broker {self._identity.broker_id} was unable to register with the controller quorum within "
                f"{self._registration_timeout_ms} ms (initial.broker.registration.timeout.ms): {reason}"
            )
        )

    def _registration_failed(self, error: KmirrorError) -> None:
        if not self.registered.done():
            self.registered.set_exception(error)

    async def _register(self) -> None:
        identity = self._identity
        told: Errors | None = None
        while True:
            request = BrokerRegistrationRequest(
                broker_id=identity.broker_id,
                cluster_id=identity.cluster_id,
                incarnation_id=self._incarnation_id,
                listeners=[
                    Listener(name=endpoint.name, host=endpoint.host, port=endpoint.port, security_protocol=endpoint.security_protocol)
                    for endpoint in identity.listeners
                ],
                features=[
                    Feature(name=name, min_supported_version=low, max_supported_version=high)
                    for name, (low, high) in sorted(identity.features.items())
                ],
                rack=identity.rack,
                log_dirs=list(identity.log_dirs),
                previous_broker_epoch=identity.previous_broker_epoch,
            )
            try:
                response = await self._channel.send(request)
                if not response.error_code:
                    self.broker_epoch = response.broker_epoch
                    self._failures = 0
                    self._heard_ms = self._runtime.clock.monotonic_ms()
                    return
                error = Errors.for_code(response.error_code)
                if error in (Errors.INVALID_REGISTRATION, Errors.UNSUPPORTED_VERSION, Errors.INCONSISTENT_CLUSTER_ID):
                    raise ApiException(error, _refusal(identity, error))
                text = f"Unable to register broker {identity.broker_id} because the controller returned error {error.name}"
                if error is not told:
                    _log.info("%s", text)
                told = error
                self._conditions.tell(_REGISTRATION, _explained(text, error))
            except KmirrorError as failed:
                if isinstance(failed, ApiException) and failed.error in (
                    Errors.INVALID_REGISTRATION,
                    Errors.UNSUPPORTED_VERSION,
                    Errors.INCONSISTENT_CLUSTER_ID,
                ):
                    self._registration_failed(failed)
                    raise
                self._conditions.tell(_REGISTRATION, f"Unable to register broker {identity.broker_id}: {failed}")
            await self._runtime.sleep_ms(self._next_retry_ms())

    async def _heartbeat(self) -> int:
        """Sends one heartbeat; returns how long to wait for the next, in ms."""
        wants_shut_down = self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
        request = BrokerHeartbeatRequest(
            broker_id=self._identity.broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._metadata_offset(),
            want_fence=self._wants_fence,
            want_shut_down=wants_shut_down,
            offline_log_dirs=list(self._offline_log_dirs()),
        )
        try:
            response: BrokerHeartbeatResponse = await self._channel.send(request)
        except KmirrorError as error:
            return self._heartbeat_failed(str(error))
        if response.error_code:
            return self._heartbeat_failed(Errors.for_code(response.error_code).name)
        self._conditions.end(_HEARTBEATS)
        self._failures = 0
        self._heard_ms = self._runtime.clock.monotonic_ms()
        self.acknowledged_offline_log_dirs = tuple(request.offline_log_dirs)
        return self._take(response, wants_shut_down=wants_shut_down)

    def _heartbeat_failed(self, reason: str) -> int:
        self._conditions.tell(_HEARTBEATS, f"The heartbeats of broker {self._identity.broker_id} fail: {reason}")
        return self._next_retry_ms()

    def _next_retry_ms(self) -> int:
        """Returns how long to wait after one more failure in a row."""
        delay_ms = _RETRY_BACKOFF.backoff_ms(self._failures, self._runtime.random)
        self._failures += 1
        return round(delay_ms)

    def _take(self, response: BrokerHeartbeatResponse, *, wants_shut_down: bool) -> int:
        if wants_shut_down and response.should_shut_down:
            self.state = BrokerState.SHUTTING_DOWN
            if not self.may_shut_down.done():
                self.may_shut_down.set_result(None)
            return 0
        if self.state is BrokerState.RECOVERY and not self._wants_fence:
            if not response.is_fenced:
                self.state = BrokerState.RUNNING
                self.unfenced.set_result(None)
                return self._heartbeat_interval_ms
            return FIRST_HEARTBEAT_RETRY_MS
        return FIRST_HEARTBEAT_RETRY_MS if wants_shut_down else self._heartbeat_interval_ms

    async def _sleep_or_wake(self, delay_ms: int) -> None:
        if delay_ms <= 0:
            return
        timer = self._runtime.call_later_ms(delay_ms, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()
            self._wake.clear()


def _explained(text: str, error: Errors) -> str:
    return f"{text}. {_WHAT_IT_MEANS[error]}" if error in _WHAT_IT_MEANS else text


def _refusal(identity: BrokerIdentity, error: Errors) -> str:
    """Returns the text of a refused registration.

    The controller sends only a code, so for a refused feature the text lists the levels that this
    broker offered.
    """
    text = f"The controller refuses to register broker {identity.broker_id}: {error.name}"
    if error is not Errors.UNSUPPORTED_VERSION:
        return text
    offered = ", ".join(f"{name} {low}-{high}" for name, (low, high) in sorted(identity.features.items()))
    return f"{text}. A feature of the cluster is at a level that this broker does not support; it supports {offered}"
