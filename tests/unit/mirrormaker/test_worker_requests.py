"""What workers of a group ask of their leader, and what it answers (RE3)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from kmirror.common.errors import KmirrorError
from kmirror.mirrormaker.herder.connect_protocol import NOT_USED
from kmirror.mirrormaker.herder.leader_requests import LeaderRequests
from kmirror.mirrormaker.herder.request_signatures import Sign


class Asked:
    def __init__(self) -> None:
        self.requests: list[tuple[str, str, Any]] = []

    async def __call__(self, url: str, method: str, body: Any, *, sign: Sign) -> None:
        assert sign is no_signature
        self.requests.append((url, method, body))


def no_signature(body: bytes) -> Mapping[str, str]:
    return {}


def test_re3_a_flow_of_the_dedicated_mode_is_a_part_of_the_path() -> None:
    asked = Asked()
    leader = LeaderRequests(asked, ("A", "B & C"))
    asyncio.run(leader.put_task_configs("http://host:1/", "Mirror/Source", [{"task.index": "0"}], no_signature))
    asyncio.run(leader.fence("http://host:1", "Mirror/Source", no_signature))
    assert asked.requests == [
        ("http://host:1/A/B%20%26%20C/connectors/Mirror%2FSource/tasks", "POST", [{"task.index": "0"}]),
        ("http://host:1/A/B%20%26%20C/connectors/Mirror%2FSource/fence", "PUT", None),
    ]


def test_re3_a_connect_cluster_has_no_such_part() -> None:
    asked = Asked()
    asyncio.run(LeaderRequests(asked).fence("https://host:1/", "c", no_signature))
    assert asked.requests == [("https://host:1/connectors/c/fence", "PUT", None)]


@pytest.mark.parametrize("url", ["", NOT_USED])
def test_re3_a_leader_without_the_interface_is_named(url: str) -> None:
    asked = Asked()
    with pytest.raises(KmirrorError, match="dedicated.mode.enable.internal.rest"):
        asyncio.run(LeaderRequests(asked, ("A", "B")).fence(url, "c", no_signature))
    assert asked.requests == []
