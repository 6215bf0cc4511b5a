"""A metadata record with the version that it is written in (Kafka's `ApiMessageAndVersion`)."""

from __future__ import annotations

from typing import Any, NamedTuple


class ApiMessageAndVersion(NamedTuple):
    """One record of `__cluster_metadata`: the generated message and the version of its schema."""

    message: Any
    version: int
