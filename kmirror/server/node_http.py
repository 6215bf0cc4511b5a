"""What a node serves over HTTP when `kmirror.http.listener=host:port` is set (a setting of ours;
Kafka has JMX instead).

    /metrics         all metrics for Prometheus                /health/live    200 while the loop turns
    /metrics.json    all metrics by MBean                      /health/ready   200 when the node serves, else 503 with the reasons
    /health          both as JSON; its status is that of ready
    /health/mirrors  of a broker: 200 when each mirror's partitions that it leads are well, else 503
    /metrics/mbeans  the series of /metrics under the names that Prometheus' JMX exporter makes, mirrors' names in them

A broker is ready when it is registered and not fenced, hears of the controller, has read the
metadata up to the high watermark it knows, and has no log directory offline. A controller is ready
when it is active. A mirror whose source is gone keeps no broker from being ready, but it is not
well itself. Each page names what it looked at, and what it did not look at.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping

from kmirror.common.errors import ConfigError
from kmirror.common.health import Health
from kmirror.common.metrics import MetricsRegistry
from kmirror.runtime.api import Runtime
from kmirror.server.http_server import HttpResponse, HttpServer, Steps
from kmirror.server.metrics_exposition import PROMETHEUS_CONTENT_TYPE, json_steps, prometheus_steps

HTTP_LISTENER_CONFIG = "kmirror.http.listener"
_JSON = "application/json"


def parse_http_listener(text: str) -> tuple[str, int]:
    """`host:port`; an empty host is every interface. ConfigError otherwise."""
    host, separator, port = text.strip().rpartition(":")
    if not separator or not port.isdigit() or int(port) > 65_535:
        raise ConfigError(f"Invalid value {text} for configuration {HTTP_LISTENER_CONFIG}: Value must be of the form host:port")
    return host.strip("[]"), int(port)


class NodeHttp:
    """Owns a node's HTTP server. `health` is the node's own, `mirrors` that of each mirror by name."""

    def __init__(
        self,
        runtime: Runtime,
        listener: str,
        metrics: MetricsRegistry,
        health: Callable[[], Health],
        mirrors: Callable[[], Mapping[str, Health]] | None = None,
    ) -> None:
        host, port = parse_http_listener(listener)
        self._metrics = metrics
        self._health_of_node = health
        self._mirrors = mirrors
        self._server = HttpServer(
            runtime,
            host,
            port,
            {
                **({} if mirrors is None else {"/health/mirrors": self._mirrors_page}),
                "/metrics": lambda: _in_steps(PROMETHEUS_CONTENT_TYPE, prometheus_steps(metrics)),
                "/metrics/mbeans": lambda: _in_steps(PROMETHEUS_CONTENT_TYPE, prometheus_steps(metrics, spelled_as_mbeans=True)),
                "/metrics.json": lambda: _in_steps(_JSON, json_steps(metrics)),
                "/health": self._health,
                "/health/live": lambda: _json(200, {"live": True}),
                "/health/ready": self._ready,
            },
        )

    @property
    def port(self) -> int:
        return self._server.port

    async def start(self) -> None:
        await self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def _ready(self) -> HttpResponse:
        health = self._health_of_node()
        return _json(_status(health.is_ready), health.as_json())

    def _health(self) -> HttpResponse:
        health = self._health_of_node()
        mirrors = {} if self._mirrors is None else {"mirrors": _by_mirror(self._mirrors())}
        return _json(_status(health.is_ready), {"live": True, **health.as_json(), **mirrors})

    def _mirrors_page(self) -> HttpResponse:
        assert self._mirrors is not None, "the path is only served with mirrors"
        mirrors = self._mirrors()
        are_well = all(health.is_ready for health in mirrors.values())
        return _json(_status(are_well), {"ready": are_well, "mirrors": _by_mirror(mirrors)})


def _by_mirror(mirrors: Mapping[str, Health]) -> dict[str, object]:
    return {name: health.as_json() for name, health in mirrors.items()}


def _status(is_ready: bool) -> int:
    return 200 if is_ready else 503


def _in_steps(content_type: str, steps: Generator[None, None, list[bytes]]) -> Steps:
    body = yield from steps
    return HttpResponse(200, content_type, body)


def _json(status: int, value: dict[str, object]) -> HttpResponse:
    return HttpResponse(status, _JSON, [json.dumps(value).encode() + b"\n"])
