"""Writes the metrics registry as text for Prometheus and as JSON.

The series are those that Prometheus' JMX exporter makes of Kafka's MBeans without rules, so that
existing dashboards find them here. The domain, the value of `type` and the attribute form the name;
all other properties of the MBean are labels.

    kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=t   attribute OneMinuteRate
    kafka_server_BrokerTopicMetrics_OneMinuteRate{name="BytesInPerSec",topic="t"} 12.5

Attributes that are texts (versions, cluster ids) have no series, but JSON has them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Generator

from kmirror.common.metrics import MetricName, MetricsRegistry, Value

READINGS_PER_STEP = 400
LINES_PER_STEP = 4_000
PROMETHEUS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_]+")


def prometheus_steps(registry: MetricsRegistry) -> Generator[None, None, list[bytes]]:
    """Returns all numbers, grouped by series, in parts.

    It yields after as many readings as take a few milliseconds.
    """
    series: dict[str, list[str]] = {}
    for count, (name, metric) in enumerate(registry, 1):
        attributes = {name.attribute: metric.value()} if name.attribute else metric.attributes()
        labels = _labels(name)
        prefix = f"{_safe(name.group)}_{_safe(name.type)}_"
        for attribute, value in attributes.items():
            if not isinstance(value, str):
                series.setdefault(prefix + _safe(attribute), []).append(f"{labels} {_number(value)}")
        if count % READINGS_PER_STEP == 0:
            yield
    parts: list[bytes] = []
    for series_name, samples in series.items():
        parts.append(f"# TYPE {series_name} untyped\n".encode())
        for start in range(0, len(samples), LINES_PER_STEP):
            lines = [f"{series_name}{sample}\n" for sample in samples[start : start + LINES_PER_STEP]]
            parts.append("".join(lines).encode())
            if len(lines) == LINES_PER_STEP:
                yield
    return parts


def json_steps(registry: MetricsRegistry) -> Generator[None, None, list[bytes]]:
    """Returns `{mbean: {attribute: value}}` in parts; NaN and infinite values are null."""
    beans: dict[str, dict[str, Value | None]] = {}
    for count, (name, metric) in enumerate(registry, 1):
        attributes = {name.attribute: metric.value()} if name.attribute else metric.attributes()
        beans.setdefault(name.mbean, {}).update({attribute: _plain(value) for attribute, value in attributes.items()})
        if count % READINGS_PER_STEP == 0:
            yield
    parts, lines = [b"{"], list[str]()
    for count, (bean, shown) in enumerate(beans.items(), 1):
        lines.append(f"{', ' if count > 1 else ''}{json.dumps(bean)}: {json.dumps(shown)}")
        if count % READINGS_PER_STEP == 0:
            parts.append("".join(lines).encode())
            lines = []
            yield
    return [*parts, "".join(lines).encode(), b"}\n"]


def whole(steps: Generator[None, None, list[bytes]]) -> str:
    """Runs all steps at once; returns the text."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return b"".join(done.value).decode()


def _labels(name: MetricName) -> str:
    pairs = ([("name", name.name)] if name.name else []) + [(key, value) for key, value in name.tags if value]
    if not pairs:
        return ""
    return "{" + ",".join(f'{_safe(key)}="{_escaped(value)}"' for key, value in pairs) + "}"


def _safe(text: str) -> str:
    return _ILLEGAL.sub("_", text)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return str(value) if math.isfinite(value) else "+Inf" if value > 0 else "-Inf"


def _plain(value: Value) -> Value | None:
    return None if isinstance(value, float) and not math.isfinite(value) else value
