"""MBean names with `*` in the place of what differs from one cluster to another, so that lists of
two brokers can be compared.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable

FACTS = pathlib.Path(__file__).parents[2] / "conformance" / "kafka_4_3_mbeans.txt"
VARIABLE = [
    "request", "version", "error", "topic", "partition", "listener", "networkProcessor", "processor", "user", "client-id", "broker",
    "logDirectory", "BrokerId", "id", "clientSoftwareName", "clientSoftwareVersion", "broker-id", "fetcherId", "client_instance_id",
]  # fmt: skip
_TAG = re.compile(rf",({'|'.join(VARIABLE)})=(\"[^\"]*\"|[^,]*)")
TEXTS = {"EventType", "RateUnit", "LatencyUnit"}
"""Attributes that say how to read the others."""


def normalised(name: str) -> str:
    domain, _, properties = name.partition(":")
    return f"{domain}:" + _TAG.sub(r",\1=*", f",{properties}")[1:]


def merged(beans: Iterable[tuple[str, Iterable[str]]]) -> dict[str, set[str]]:
    """Attributes by normalised name."""
    result: dict[str, set[str]] = {}
    for name, attributes in beans:
        result.setdefault(normalised(name), set()).update(set(attributes) - TEXTS)
    return result


def facts() -> dict[str, set[str]]:
    """What an Apache Kafka 4.3 broker registers, by the recorded list."""
    lines = [line for line in FACTS.read_text().splitlines() if line and not line.startswith("#")]
    return {name: set(attributes.split()) for name, _, attributes in (line.partition("\t") for line in lines)}
