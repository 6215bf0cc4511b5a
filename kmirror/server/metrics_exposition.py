"""The registry as text for Prometheus and as JSON.

The series are those that Prometheus' JMX exporter makes of Kafka's MBeans without rules, so that what was built for those finds
them here: domain, the value of `type` and the attribute are the name, all other properties of the MBean are labels.

    kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=t   attribute OneMinuteRate
    kafka_server_BrokerTopicMetrics_OneMinuteRate{name="BytesInPerSec",topic="t"} 12.5

Attributes that are texts (versions, cluster ids) have no series; JSON has them.
"""

from __future__ import annotations

import json
import math
import re

from kmirror.common.metrics import MetricName, MetricsRegistry, Value

PROMETHEUS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_]+")


def prometheus_text(registry: MetricsRegistry) -> str:
    """All numbers, grouped by series."""
    series: dict[str, list[str]] = {}
    for name, metric in registry:
        attributes = {name.attribute: metric.value()} if name.attribute else metric.attributes()
        labels = _labels(name)
        prefix = f"{_safe(name.group)}_{_safe(name.type)}_"
        for attribute, value in attributes.items():
            if not isinstance(value, str):
                series.setdefault(prefix + _safe(attribute), []).append(f"{labels} {_number(value)}")
    lines: list[str] = []
    for series_name, samples in series.items():
        lines.append(f"# TYPE {series_name} untyped")
        lines += [f"{series_name}{sample}" for sample in samples]
    return "\n".join(lines) + "\n"


def json_text(registry: MetricsRegistry) -> str:
    """`{mbean: {attribute: value}}`; what is not a number is null."""
    beans = {bean: {name: _plain(value) for name, value in attributes.items()} for bean, attributes in registry.mbeans().items()}
    return json.dumps(beans)


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
