"""What a node serves over HTTP when `kmirror.http.listener=host:port` is set (a setting of ours;
Kafka has JMX instead).

    /metrics         all metrics for Prometheus                /health/live    200 while the loop turns
    /metrics.json    all metrics by MBean                      /health/ready   200 when the node serves, else 503 with the reasons
    /health          both as JSON; its status is that of ready

A broker is ready when it is registered and not fenced, has read the metadata up to the high
watermark it knows, and has no log directory offline. A controller is ready when it is active.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator

from kmirror.common.errors import ConfigError
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
    """Owns a node's HTTP server. `reasons` returns why the node is not ready; empty if it is."""

    def __init__(self, runtime: Runtime, listener: str, metrics: MetricsRegistry, reasons: Callable[[], list[str]]) -> None:
        host, port = parse_http_listener(listener)
        self._metrics = metrics
        self._reasons = reasons
        self._server = HttpServer(
            runtime,
            host,
            port,
            {
                "/metrics": lambda: _in_steps(PROMETHEUS_CONTENT_TYPE, prometheus_steps(metrics)),
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
        reasons = self._reasons()
        return _json(503 if reasons else 200, {"ready": not reasons, "reasons": reasons})

    def _health(self) -> HttpResponse:
        reasons = self._reasons()
        return _json(503 if reasons else 200, {"live": True, "ready": not reasons, "reasons": reasons})


def _in_steps(content_type: str, steps: Generator[None, None, list[bytes]]) -> Steps:
    body = yield from steps
    return HttpResponse(200, content_type, body)


def _json(status: int, value: dict[str, object]) -> HttpResponse:
    return HttpResponse(status, _JSON, [json.dumps(value).encode() + b"\n"])
