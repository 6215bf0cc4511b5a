"""Metrics of requests by API (Kafka's `RequestMetrics`, MBeans
`kafka.network:type=RequestMetrics`).

    RequestsPerSec{request,version}   ErrorsPerSec{request,error}   RequestBytes{request}
    TotalTimeMs  RequestQueueTimeMs  LocalTimeMs  RemoteTimeMs  ThrottleTimeMs  ResponseQueueTimeMs  ResponseSendTimeMs  {request}

Times are histograms in milliseconds, with fractions where Kafka rounds. The metrics of an API
Times are histograms in milliseconds, with fractions where Kafka rounds. The metrics of an API
appear with its first request; Kafka registers all of them at the start. A fetch counts as Fetch and
as FetchConsumer or FetchFollower. Every error code of a response counts, including NONE. There is
no response queue here, so its time is always 0. The requests of mirroring also have
MessageConversionsTimeMs and TemporaryMemoryBytes, as KIP-1279 says; since nothing is converted,
each request adds a 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args, get_origin

import msgspec

from kmirror.common.errors import Errors
from kmirror.common.histogram import Histogram, HistogramRows
from kmirror.common.metrics import Meter, MetricName, MetricsRegistry, Value
from kmirror.common.ports import Clock
from kmirror.server.request import NoMessage, Request
from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.mirror_dialect import MIRROR_API_KEYS

_GROUP, _TYPE = "kafka.network", "RequestMetrics"
_NS = 1_000_000.0
_NS_IN_SECOND = 1e9
MIRROR_API_NAMES = frozenset(API_TABLE[key].name for key in MIRROR_API_KEYS)
FETCH_CONSUMER, FETCH_FOLLOWER = "FetchConsumer", "FetchFollower"
ErrorCounter = Callable[[Any, dict[int, int]], None]


class RequestMetrics:
    """Owns the metrics of one API."""

    def __init__(self, registry: MetricsRegistry, api_name: str) -> None:
        self._registry = registry
        self._name = api_name
        self._versions: dict[int, Meter] = {}
        self._errors: dict[int, Meter] = {}
        self.total_time = self._histogram("TotalTimeMs")
        self.request_queue_time = self._histogram("RequestQueueTimeMs")
        self.local_time = self._histogram("LocalTimeMs")
        self.remote_time = self._histogram("RemoteTimeMs")
        self.throttle_time = self._histogram("ThrottleTimeMs")
        self.response_queue_time = self._histogram("ResponseQueueTimeMs")
        self.response_send_time = self._histogram("ResponseSendTimeMs")
        self.request_bytes = self._histogram("RequestBytes")
        conversions = ("MessageConversionsTimeMs", "TemporaryMemoryBytes") if api_name in MIRROR_API_NAMES else ()
        self._no_conversions = (0.0,) * len(conversions)
        self._rows = HistogramRows(
            (self.total_time, _NS),
            (self.request_queue_time, _NS),
            (self.local_time, _NS),
            (self.remote_time, _NS),
            (self.throttle_time, 1),
            (self.response_queue_time, 1),
            (self.response_send_time, _NS),
            (self.request_bytes, 1),
            *((self._histogram(name), 1) for name in conversions),
        )

    def _histogram(self, name: str) -> Histogram:
        return self._registry.histogram(MetricName(_GROUP, _TYPE, name, (("request", self._name),)))

    def request(self, version: int, now_ms: int) -> None:
        meter = self._versions.get(version)
        if meter is None:
            tags = (("request", self._name), ("version", str(version)))
            meter = self._versions[version] = self._registry.meter(MetricName(_GROUP, _TYPE, "RequestsPerSec", tags))
        meter.mark_at(now_ms)

    def errors(self, counts: dict[int, int], now_ms: int) -> None:
        for code, count in counts.items():
            meter = self._errors.get(code)
            if meter is None:
                tags = (("request", self._name), ("error", Errors(code).name))
                meter = self._errors[code] = self._registry.meter(MetricName(_GROUP, _TYPE, "ErrorsPerSec", tags))
            meter.mark_at(now_ms, count)

    def completed(self, row: tuple[float, ...]) -> None:
        """Adds a request: its times in nanoseconds (throttling in milliseconds) and its size.

        The values are in the order of the histograms.
        """
        self._rows.add(row + self._no_conversions)


class IdleMeter:
    """The share of time in which the loop did not work on requests, as a meter's attributes (1.0 is
    all of it).
    """

    def __init__(self, *busy: Meter) -> None:
        self._busy = busy

    def value(self) -> float:
        return max(0.0, 1.0 - sum(meter.one_minute_rate() for meter in self._busy) / _NS_IN_SECOND)

    def attributes(self) -> dict[str, Value]:
        attributes = [meter.attributes() for meter in self._busy]
        idle: dict[str, Value] = {
            name: max(0.0, 1.0 - sum(float(rates[name]) for rates in attributes) / _NS_IN_SECOND)
            for name in attributes[0]
            if name.endswith("Rate")
        }
        return {"Count": sum(meter.count for meter in self._busy), **idle}


class RequestChannelMetrics:
    """Owns the metrics of all APIs of a node, and of how busy its loop is with them."""

    def __init__(self, registry: MetricsRegistry, clock: Clock) -> None:
        self._registry = registry
        self._by_name: dict[str, RequestMetrics] = {}
        self._broker_busy, self._controller_busy = Meter(clock), Meter(clock)
        both = IdleMeter(self._broker_busy, self._controller_busy)
        meters = {"": both, "Broker": IdleMeter(self._broker_busy), "Controller": IdleMeter(self._controller_busy)}
        for prefix, meter in meters.items():
            registry.register(MetricName("kafka.server", "KafkaRequestHandlerPool", f"{prefix}RequestHandlerAvgIdlePercent"), meter)
        registry.gauge(MetricName(_GROUP, "Processor", "IdlePercent", (("networkProcessor", "0"),)), both.value)
        registry.gauge(MetricName(_GROUP, "SocketServer", "NetworkProcessorAvgIdlePercent"), both.value)

    def completed(self, request: Request, response: Any, *, throttle_time_ms: int, send_ns: int, is_for_controller: bool = False) -> None:
        """Counts a completed request; `response` is its message, or why there is none."""
        timing = request.timing
        if timing is None:
            return
        finished_ns, local_ns = timing.finished_ns, timing.local_ns
        queue_ns, total_ns = timing.started_ns - timing.arrived_ns, finished_ns - timing.arrived_ns
        remote_ns = total_ns - queue_ns - local_ns
        row = (total_ns + send_ns, queue_ns, local_ns, remote_ns, throttle_time_ms, 0, send_ns, request.size_in_bytes)
        now_ms = finished_ns // 1_000_000
        (self._controller_busy if is_for_controller else self._broker_busy).mark_at(now_ms, local_ns + send_ns)
        counts = {} if isinstance(response, NoMessage) else error_counts(response)
        for name in _names(request):
            metrics = self._by_name.get(name) or self.api(name)
            metrics.request(request.api_version, now_ms)
            metrics.errors(counts, now_ms)
            metrics.completed(row)

    def api(self, name: str) -> RequestMetrics:
        metrics = self._by_name.get(name)
        if metrics is None:
            metrics = self._by_name[name] = RequestMetrics(self._registry, name)
        return metrics


def _names(request: Request) -> tuple[str, ...]:
    name = API_TABLE[request.api_key].name
    if request.api_key is not ApiKeys.FETCH:
        return (name,)
    message = request.message
    is_follower = message.replica_id >= 0 or message.replica_state.replica_id >= 0
    return (FETCH_FOLLOWER if is_follower else FETCH_CONSUMER), name


def error_counts(response: Any) -> dict[int, int]:
    """Returns how often each error code occurs in a response, at any depth."""
    counts: dict[int, int] = {}
    count = _COUNTERS.get(type(response))
    if count is None:
        count = _COUNTERS[type(response)] = _counter_of(type(response))
    count(response, counts)
    return counts


_COUNTERS: dict[type, ErrorCounter] = {}


def _counter_of(struct: type) -> ErrorCounter:
    """Returns a function that counts the error codes of a message class, including those of the
    structs in its lists.
    """
    fields = msgspec.structs.fields(struct)
    has_error = any(field.name == "error_code" for field in fields)
    nested = [(field.name, _counter_of(item)) for field in fields if (item := _struct_in_list(field.type)) is not None]
    nested = [(name, count) for name, count in nested if count is not _count_nothing]
    if not has_error and not nested:
        return _count_nothing

    def count_errors(message: Any, counts: dict[int, int]) -> None:
        if has_error:
            counts[message.error_code] = counts.get(message.error_code, 0) + 1
        for name, count in nested:
            for item in getattr(message, name) or ():
                count(item, counts)

    return count_errors


def _count_nothing(message: Any, counts: dict[int, int]) -> None:
    return


def _struct_in_list(field_type: Any) -> type | None:
    """Returns the struct in a field of type `list[Struct]` (or `list[Struct] | None`), or None."""
    for option in (field_type, *get_args(field_type)):
        if get_origin(option) is list:
            item = get_args(option)[0]
            if isinstance(item, type) and issubclass(item, msgspec.Struct):
                return item
    return None
