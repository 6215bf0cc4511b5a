"""Flows that keep names and lead back to where they begin are warned of (CY4)."""

from __future__ import annotations

import logging
import re

import pytest

from kmirror.mirrormaker.driver import MirrorMaker
from kmirror.runtime.asyncio_runtime import AsyncioRuntime

IDENTITY = {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}
ALIASES = ("A", "B", "C")


def warnings(caplog: pytest.LogCaptureFixture, settings: dict[str, str], **more: str) -> list[str]:
    """What is said of a file, up to the reason; `A_B="orders"` enables a flow with these topics."""
    flows = {f"{name.replace('_', '->')}.enabled": "true" for name in more}
    topics = {f"{name.replace('_', '->')}.topics": value for name, value in more.items()}
    servers = {f"{alias}.bootstrap.servers": "127.0.0.1:1" for alias in ALIASES}
    caplog.clear()
    with caplog.at_level(logging.WARNING, "kmirror.mirrormaker.driver"):
        MirrorMaker(AsyncioRuntime(), {"clusters": ", ".join(ALIASES), **servers, **settings, **flows, **topics}, targets=["A"])
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("flows", "expected"),
    [
        ({"A_B": "orders", "B_A": "orders"}, ["A->B, B->A .*: orders is copied"]),
        ({"A_B": "orders, pay.*", "B_A": "payments"}, ["A->B, B->A .*: payments is copied"]),
        ({"A_B": "x|y", "B_A": "y|z"}, ["A->B, B->A .*: y is copied"]),
        ({"A_B": ".*", "B_A": "p.*"}, ["A->B, B->A .*: a topic that all of them take is copied"]),
        ({"A_B": "orders", "B_C": "orders", "C_A": "orders"}, ["A->B, B->C, C->A .*: orders is copied"]),
        ({"A_B": "orders", "B_A": "parcels"}, []),
        ({"A_B": "orders", "B_C": "orders", "C_A": "parcels"}, []),
        ({"B_A": "orders", "C_A": "orders"}, []),
    ],
)
@pytest.mark.item("CY4")
async def test_topics_that_would_be_echoed_are_named(flows: dict[str, str], expected: list[str], caplog: pytest.LogCaptureFixture) -> None:
    found = warnings(caplog, IDENTITY, **flows)
    assert len(found) == len(expected)
    assert all(re.match(pattern, line) for pattern, line in zip(expected, found, strict=True)), found


@pytest.mark.item("CY4")
async def test_nothing_is_said_where_one_policy_on_the_way_renames(caplog: pytest.LogCaptureFixture) -> None:
    assert warnings(caplog, {}, A_B="orders", B_A="orders") == []
    one = {f"A->B.{name}": value for name, value in IDENTITY.items()}
    assert warnings(caplog, one, A_B="orders", B_A="orders") == []


async def test_an_excluded_topic_is_not_echoed(caplog: pytest.LogCaptureFixture) -> None:
    assert warnings(caplog, IDENTITY | {"B->A.topics.exclude": "orders"}, A_B="orders", B_A="orders") == []
