"""Writes the metrics registry as text for Prometheus and as JSON.

The series are those that Prometheus' JMX exporter makes of Kafka's MBeans without rules, so that
existing dashboards find them here. The domain, the value of `type` and the attribute form the name;
all other properties of the MBean are labels.

    kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=t   attribute OneMinuteRate
    kafka_server_BrokerTopicMetrics_OneMinuteRate{name="BytesInPerSec",topic="t"} 12.5

KIP-1279 writes the mirror's name into the `type` of one family of MBeans and into client ids. A
query cannot sum over such names. So `/metrics` has a label `mirror` wherever an MBean names one, and
that family has one name for all mirrors:

    kafka.server:type=mirror-broker-1-fetcher-0-mirror-dr-metrics,broker-id=2,fetcher-id=0
    kafka_server_mirror_fetcher_metrics_request_total{mirror="dr",broker_id="2",fetcher_id="0"} 7

`/metrics/mbeans` has the names that the exporter makes, without that label. Each series has a HELP
and a TYPE: what only grows is a counter. Attributes that are texts (versions, cluster ids) have no
series, but JSON has them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Generator
from typing import Final

from kmirror.common.metrics import MetricName, MetricsRegistry, Value

READINGS_PER_STEP = 400
LINES_PER_STEP = 4_000
PROMETHEUS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_]+")
_FETCHER_TYPE: Final = re.compile(r"mirror-broker-\d+-fetcher-\d+-mirror-(?P<mirror>.+)-metrics")
_FETCHER_CLIENT_ID: Final = re.compile(r"MirrorFetcherThread-\d+-\d+-(?P<mirror>.+)")
_FETCHERS: Final = "mirror-fetcher-metrics"
"""The type of the fetchers' connections, whatever mirror they are of."""
MIRROR_LABEL: Final = "mirror"
HELP: Final = {
    ("kmirror", "Mirror"): "Of the partitions of a mirror that this broker leads: PartitionCount by state, FailingPartitionCount, and "
    "UnknownLagCount, of how many nobody knows the lag now.",
    ("kmirror", "MirrorPartition"): "Of a partition that this broker leads: State (1), Lag in records (absent while it is not known), and "
    "LagAgeMs, how long ago the source was heard (absent if it never was).",
    ("kafka.server", "FetcherLagMetrics"): "The last known lag of a partition that is being mirrored, in records, and its age; -1 was never known.",
    ("kafka.server.mirror", "MirrorFetcherManager"): "Over the partitions in MIRRORING that this broker leads. MaxLag is the greatest last "
    "known lag, MaxLagAgeMs the oldest age of one.",
}  # fmt: skip
"""What the MBeans of a type say, where their names do not."""
Series = dict[str, tuple[MetricName, str, list[str]]]


def prometheus_steps(registry: MetricsRegistry, *, spelled_as_mbeans: bool = False) -> Generator[None, None, list[bytes]]:
    """Returns all numbers, grouped by series, in parts.

    It yields after as many readings as take a few milliseconds.
    """
    series: Series = {}
    for count, (name, metric) in enumerate(registry, 1):
        attributes = {name.attribute: metric.value()} if name.attribute else metric.attributes()
        shown = name if spelled_as_mbeans else with_mirror(name)
        labels = _labels(shown)
        prefix = f"{_safe(shown.group)}_{_safe(shown.type)}_"
        for attribute, value in attributes.items():
            if not isinstance(value, str):
                *_, samples = series.setdefault(prefix + _safe(attribute), (shown, attribute, []))
                samples.append(f"{labels} {_number(value)}")
        if count % READINGS_PER_STEP == 0:
            yield
    parts: list[bytes] = []
    for series_name, (name, attribute, samples) in series.items():
        parts.append(f"# HELP {series_name} {_help(name, attribute)}\n# TYPE {series_name} {_type(attribute)}\n".encode())
        for start in range(0, len(samples), LINES_PER_STEP):
            lines = [f"{series_name}{sample}\n" for sample in samples[start : start + LINES_PER_STEP]]
            parts.append("".join(lines).encode())
            if len(lines) == LINES_PER_STEP:
                yield
    return parts


def with_mirror(name: MetricName) -> MetricName:
    """Returns the name with the mirror that it speaks of as its first tag; the same name if it
    speaks of none, or has the tag.
    """
    tags = dict(name.tags)
    if MIRROR_LABEL in tags:
        return name
    found = _FETCHER_TYPE.fullmatch(name.type)
    if found is not None:
        return name._replace(type=_FETCHERS, tags=((MIRROR_LABEL, found["mirror"]), *name.tags))
    found = _FETCHER_CLIENT_ID.fullmatch(tags.get("clientId", ""))
    return name if found is None else name._replace(tags=((MIRROR_LABEL, found["mirror"]), *name.tags))


def _help(name: MetricName, attribute: str) -> str:
    text = HELP.get((name.group, name.type)) or f"Attribute {attribute} of the MBeans {name.group}:type={name.type}."
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _type(attribute: str) -> str:
    """Counters are Yammer's Count and the totals of Kafka's sensors."""
    return "counter" if attribute == "Count" or attribute.endswith("-total") else "gauge"


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
