"""Metrics that clients push to the broker (Kafka's `ClientMetricsManager`, KIP-714).

A subscription is a client-metrics config resource. It says which metrics are wanted (prefixes, or
`*`), how often (`interval.ms`), and from which clients (`match`: regular expressions over the
client's id, software, address …, which must all match in full). A client asks for its subscription
(GetTelemetrySubscriptions). It gets a client instance id and a subscription id, which stands for
all matching subscriptions together, and it pushes (PushTelemetry) in every interval. The
subscription id is a checksum of what is asked for, so a client that pushes under an outdated id is
told to ask again.

A client that comes before its interval is over is throttled. Its first push after asking may come
at any time, and the last one (`terminating`) always. A client is forgotten when its connection
ends, after three intervals of silence (at least a minute), or when 16,384 newer clients are known.

Kafka hands pushes to a metrics reporter that is a `ClientTelemetry`, and does not advertise the two
APIs when there is none. Here `kmirror.telemetry.receiver.enable=true` switches on a receiver:
`ClientTelemetryReceiver` counts bytes and keeps each client's last payload.
"""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kmirror.common.crc32c import crc32c
from kmirror.common.errors import ApiException, Errors
from kmirror.common.metrics import MetricsRegistry, sensor_metric
from kmirror.common.ports import Clock, Random
from kmirror.common.sensors import Avg, CumulativeCount, Max, Rate, Sensor, WindowedCount
from kmirror.common.uuid import Uuid
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import RESOURCE_CLIENT_METRICS, MetadataImage
from kmirror.metadata.loader import LoaderManifest
from kmirror.metadata.resource_configs import CLIENT_METRICS_CONFIGS
from kmirror.runtime.api import Runtime
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.request import Request
from kmirror.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse
from kmirror.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

RECEIVER_CONFIG = "kmirror.telemetry.receiver.enable"
METRICS_TYPE = "client-metrics"
ALL_METRICS = "*"
DEFAULT_INTERVAL_MS = 300_000
MIN_EXPIRY_MS = 60_000
MAX_INSTANCES = 16_384
ACCEPTED_COMPRESSION_TYPES = (4, 3, 1, 2)
COMPRESSION_TYPES = range(5)
_RESERVED = (Uuid.ZERO, Uuid.METADATA_TOPIC_ID)
_log = logging.getLogger(__name__)


class ClientTelemetryReceiver:
    """Owns what clients have pushed: counts, and the last payload of each known client."""

    def __init__(self, metrics: MetricsRegistry) -> None:
        self.last_payloads: dict[Uuid, bytes] = {}
        self.received_bytes = 0
        metrics.gauge(sensor_metric(METRICS_TYPE, "received-bytes-total"), lambda: self.received_bytes)
        metrics.gauge(sensor_metric(METRICS_TYPE, "last-payload-bytes"), lambda: sum(map(len, self.last_payloads.values())))

    def export(self, client_instance_id: Uuid, payload: bytes) -> None:
        self.received_bytes += len(payload)
        self.last_payloads[client_instance_id] = payload

    def forget(self, client_instance_id: Uuid) -> None:
        self.last_payloads.pop(client_instance_id, None)


class ClientMetricsSubscription(NamedTuple):
    metrics: tuple[str, ...]
    interval_ms: int
    patterns: tuple[tuple[str, re.Pattern[str]], ...]

    def matches(self, attributes: Mapping[str, str]) -> bool:
        return all(pattern.fullmatch(attributes.get(name, "")) for name, pattern in self.patterns)


class ClientInstance:
    """What the broker knows about one client."""

    def __init__(self, attributes: Mapping[str, str], subscription_id: int, version: int, metrics: list[str], interval_ms: int) -> None:
        self.attributes = attributes
        self.subscription_id = subscription_id
        self.subscription_version = version
        self.metrics = metrics
        self.interval_ms = interval_ms
        self.is_terminating = False
        self.last_error = Errors.NONE
        self.expires_ms = 0
        self.connection_id = ""
        self._last_get_ms: int | None = None
        self._last_push_ms: int | None = None

    def may_get(self, now_ms: int) -> bool:
        """Whether an interval has passed since the last request; if so, remembers this one."""
        last_ms = max((time_ms for time_ms in (self._last_get_ms, self._last_push_ms) if time_ms is not None), default=None)
        accepted = last_ms is None or now_ms - last_ms >= self.interval_ms
        if accepted:
            self._last_get_ms = now_ms
        return accepted

    def may_push(self, now_ms: int) -> bool:
        """Whether this is the first push after asking, or an interval has passed since the last
        one.

        If so, remembers this push.
        """
        is_first = self._last_get_ms is not None and (self._last_push_ms is None or self._last_get_ms > self._last_push_ms)
        accepted = is_first or self._last_push_ms is None or now_ms - self._last_push_ms >= self.interval_ms
        if accepted:
            self._last_push_ms = now_ms
        return accepted


class ClientMetricsStats:
    """Owns the MBeans `kafka.server:type=client-metrics` of the broker and of each client."""

    def __init__(self, metrics: MetricsRegistry, clock: Clock, instance_count: Callable[[], int]) -> None:
        self._metrics = metrics
        self._clock = clock
        self._sensors: dict[tuple[str, Uuid | None], Sensor] = {}
        metrics.gauge(sensor_metric(METRICS_TYPE, "instance-count"), instance_count)
        self._sensors["unknown-subscription-request", None] = self._meter("unknown-subscription-request", ())

    def unknown_subscription(self) -> None:
        self._sensors["unknown-subscription-request", None].record()

    def throttled(self, instance_id: Uuid) -> None:
        self._of("throttle", instance_id).record()

    def exported(self, instance_id: Uuid, duration_ms: float) -> None:
        self._of("plugin-export", instance_id).record(duration_ms)

    def add(self, instance_id: Uuid) -> None:
        tags = (("client_instance_id", str(instance_id)),)
        for name in ("throttle", "plugin-export", "plugin-error"):
            if (name, instance_id) not in self._sensors:
                sensor = self._sensors[name, instance_id] = self._meter(name, tags)
                if name == "plugin-export":
                    sensor.add(sensor_metric(METRICS_TYPE, "plugin-export-time-avg", tags), Avg())
                    sensor.add(sensor_metric(METRICS_TYPE, "plugin-export-time-max", tags), Max())

    def remove(self, instance_id: Uuid) -> None:
        for name in ("throttle", "plugin-export", "plugin-error"):
            sensor = self._sensors.pop((name, instance_id), None)
            if sensor is not None:
                sensor.close()

    def _of(self, name: str, instance_id: Uuid) -> Sensor:
        return self._sensors[name, instance_id]

    def _meter(self, name: str, tags: tuple[tuple[str, str], ...]) -> Sensor:
        sensor = Sensor(self._metrics, self._clock)
        sensor.add(sensor_metric(METRICS_TYPE, f"{name}-rate", tags), Rate(WindowedCount()))
        sensor.add(sensor_metric(METRICS_TYPE, f"{name}-count", tags), CumulativeCount())
        return sensor


class ClientMetricsManager:
    """Owns subscriptions and clients. A `MetadataPublisher`."""

    name = "ClientMetricsManager"

    def __init__(
        self, receiver: ClientTelemetryReceiver, *, max_bytes: int, clock: Clock, random: Random, metrics: MetricsRegistry
    ) -> None:
        self.receiver = receiver
        self._max_bytes = max_bytes
        self._clock = clock
        self._random = random
        self._subscriptions: dict[str, ClientMetricsSubscription] = {}
        self._version = 0
        self._instances: OrderedDict[Uuid, ClientInstance] = OrderedDict()
        self._by_connection: dict[str, Uuid] = {}
        self._stats = ClientMetricsStats(metrics, clock, lambda: len(self._instances))

    # --- subscriptions
    # ----------------------------------------------------------------------------------------------

    def on_metadata_update(self, delta: MetadataDelta, image: MetadataImage, manifest: LoaderManifest) -> None:
        for resource in delta.configs.changed:
            if resource.type == RESOURCE_CLIENT_METRICS:
                self.update_subscription(resource.name, image.configs.props(resource))

    def update_subscription(self, name: str, props: Mapping[str, str]) -> None:
        """Sets a subscription; one without settings is removed."""
        if not props:
            self._version += self._subscriptions.pop(name, None) is not None
            return
        values = CLIENT_METRICS_CONFIGS.parse(props)
        pairs = [pattern.partition("=") for pattern in values["match"]]
        patterns = tuple((key.strip(), re.compile(regex.strip())) for key, _, regex in pairs)
        self._subscriptions[name] = ClientMetricsSubscription(tuple(values["metrics"]), values["interval.ms"], patterns)
        self._version += 1

    # --- requests
    # ---------------------------------------------------------------------------------------------------

    def get_subscriptions(self, request: Request) -> GetTelemetrySubscriptionsResponse:
        message: GetTelemetrySubscriptionsRequest = request.message
        now_ms = self._clock.monotonic_ms()
        instance_id = message.client_instance_id if message.client_instance_id else self._new_id()
        instance = self._instance(instance_id, request, now_ms)
        asks_again = instance.last_error in (Errors.UNKNOWN_SUBSCRIPTION_ID, Errors.UNSUPPORTED_COMPRESSION_TYPE)
        if not instance.may_get(now_ms) and not asks_again:
            self._stats.throttled(instance_id)
            text = f"Request from the client [{message.client_instance_id}] arrived before the next push interval time"
            raise ApiException(Errors.THROTTLING_QUOTA_EXCEEDED, text)
        instance.last_error = Errors.NONE
        return GetTelemetrySubscriptionsResponse(
            client_instance_id=instance_id,
            subscription_id=instance.subscription_id,
            accepted_compression_types=list(ACCEPTED_COMPRESSION_TYPES),
            push_interval_ms=instance.interval_ms,
            telemetry_max_bytes=self._max_bytes,
            delta_temporality=True,
            requested_metrics=list(instance.metrics),
        )

    def push(self, request: Request) -> PushTelemetryResponse:
        message: PushTelemetryRequest = request.message
        instance_id = message.client_instance_id
        if instance_id in _RESERVED:
            raise ApiException(Errors.INVALID_REQUEST, f"Invalid request from the client [{instance_id}], invalid client instance id")
        now_ms = self._clock.monotonic_ms()
        instance = self._instance(instance_id, request, now_ms)
        try:
            self._check_push(message, instance, now_ms)
        except ApiException as error:
            instance.last_error = error.error
            raise
        finally:
            instance.is_terminating = message.terminating
        if message.metrics:
            started_ns = self._clock.monotonic_ns()
            self.receiver.export(instance_id, bytes(message.metrics))
            self._stats.exported(instance_id, (self._clock.monotonic_ns() - started_ns) / 1_000_000)
        instance.last_error = Errors.NONE
        return PushTelemetryResponse()

    def _check_push(self, message: PushTelemetryRequest, instance: ClientInstance, now_ms: int) -> None:
        client = message.client_instance_id
        if instance.is_terminating:
            text = f"Client [{client}] sent the previous request with state terminating to TRUE, can not acceptany requests after that"
            raise ApiException(Errors.INVALID_REQUEST, text)
        if not instance.may_push(now_ms) and not message.terminating:
            self._stats.throttled(client)
            text = f"Request from the client [{client}] arrived before the next push interval time"
            raise ApiException(Errors.THROTTLING_QUOTA_EXCEEDED, text)
        if message.subscription_id != instance.subscription_id:
            self._stats.unknown_subscription()
            raise ApiException(Errors.UNKNOWN_SUBSCRIPTION_ID, f"Unknown client subscription id for the client [{client}]")
        if message.compression_type not in COMPRESSION_TYPES:
            text = f"Unknown compression type [{message.compression_type}] is received in telemetry request from [{client}]"
            raise ApiException(Errors.UNSUPPORTED_COMPRESSION_TYPE, text)
        if len(message.metrics) > self._max_bytes:
            text = f"Telemetry request from [{client}] is larger than the maximum allowed size [{self._max_bytes}]"
            raise ApiException(Errors.TELEMETRY_TOO_LARGE, text)

    # --- clients
    # ----------------------------------------------------------------------------------------------------

    def on_disconnect(self, connection_id: str) -> None:
        """Forgets the client of a connection that has ended."""
        instance_id = self._by_connection.pop(connection_id, None)
        if instance_id is not None:
            self._forget(instance_id)

    def _instance(self, instance_id: Uuid, request: Request, now_ms: int) -> ClientInstance:
        """Returns the client under the present subscriptions; it is kept for three more
        intervals.
        """
        self._expire(now_ms)
        instance = self._instances.get(instance_id)
        if instance is None or instance.subscription_version < self._version:
            attributes = _attributes(instance_id, request) if instance is None else instance.attributes
            instance = self._instances[instance_id] = self._subscribed(instance_id, attributes)
            instance.connection_id = request.connection_id
            self._by_connection[request.connection_id] = instance_id
            self._stats.add(instance_id)
        self._instances.move_to_end(instance_id)
        instance.expires_ms = now_ms + max(MIN_EXPIRY_MS, 3 * instance.interval_ms)
        if len(self._instances) > MAX_INSTANCES:
            self._forget(next(iter(self._instances)))
        return instance

    def _expire(self, now_ms: int) -> None:
        """Forgets clients that were silent for too long, beginning with the longest silence."""
        while self._instances:
            oldest = next(iter(self._instances))
            if self._instances[oldest].expires_ms > now_ms:
                return
            self._forget(oldest)

    def _forget(self, instance_id: Uuid) -> None:
        instance = self._instances.pop(instance_id, None)
        if instance is not None:
            self._stats.remove(instance_id)
            self.receiver.forget(instance_id)
            self._by_connection.pop(instance.connection_id, None)

    def _subscribed(self, instance_id: Uuid, attributes: Mapping[str, str]) -> ClientInstance:
        matching = [subscription for subscription in self._subscriptions.values() if subscription.matches(attributes)]
        metrics = sorted({metric for subscription in matching for metric in subscription.metrics})
        if ALL_METRICS in metrics:
            metrics = [ALL_METRICS]
        interval_ms = min([DEFAULT_INTERVAL_MS, *(subscription.interval_ms for subscription in matching)])
        checksum = crc32c(f"[{', '.join(metrics)}]{interval_ms}".encode()) ^ int.from_bytes(instance_id.raw[8:12], "big")
        subscription_id = checksum - (1 << 32) if checksum >= 1 << 31 else checksum
        return ClientInstance(attributes, subscription_id, self._version, metrics, interval_ms)

    def _new_id(self) -> Uuid:
        while True:
            instance_id = Uuid.random(self._random)
            if instance_id not in self._instances:
                return instance_id


def _attributes(instance_id: Uuid, request: Request) -> dict[str, str]:
    """Returns the attributes that `match` patterns look at."""
    attributes = {
        "client_instance_id": str(instance_id),
        "client_software_name": request.client_information.software_name,
        "client_software_version": request.client_information.software_version,
        "client_source_address": request.client_address,
        "client_source_port": _port(request.connection_id),
    }
    if request.client_id is not None:
        attributes["client_id"] = request.client_id
    return attributes


def _port(connection_id: str) -> str:
    """Returns the client's port from `local:port-client:port-processor-index`."""
    parts = connection_id.rsplit("-", 2)
    return parts[0].rpartition(":")[2] if len(parts) == 3 else ""


def client_metrics_manager(runtime: Runtime, config: KafkaConfig, metrics: MetricsRegistry) -> ClientMetricsManager | None:
    """Returns None on a broker that takes no telemetry."""
    if not config.get_bool(RECEIVER_CONFIG):
        return None
    return ClientMetricsManager(
        ClientTelemetryReceiver(metrics),
        max_bytes=config.get_int("telemetry.max.bytes"),
        clock=runtime.clock,
        random=runtime.random,
        metrics=metrics,
    )
