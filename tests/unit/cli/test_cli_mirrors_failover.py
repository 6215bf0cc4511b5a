"""`kafka-mirrors --remove` when the destination answers only in part: the failover is what must
work.
"""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from kmirror.admin.admin_requests import NoBrokerError
from kmirror.admin.results import MirrorDescription, MirrorPartitionDescription, RemoveTopicsFromMirrorResult
from kmirror.cli.mirrors import build_parser
from kmirror.cli.mirrors_actions import MirrorCommand
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run

HANGS = ApiException(Errors.NETWORK_EXCEPTION, "broker 2 did not describe its partitions: no answer within 15000 ms")


class Destination:
    """Describes what it is given, or fails; keeps what is removed."""

    def __init__(self, described: list[MirrorPartitionDescription] | Exception) -> None:
        self.described = described
        self.removed: list[str] = []
        self.timeout_ms = 0

    async def describe_mirrors(self, names: list[str], options: Any = None) -> dict[str, MirrorDescription]:
        self.timeout_ms = options.timeout_ms
        if isinstance(self.described, Exception):
            raise self.described
        return {"m": MirrorDescription("m", self.described)}

    async def remove_topics_from_mirror(self, mirror: str, topics: set[str]) -> RemoveTopicsFromMirrorResult:
        self.removed = sorted(topics)
        return RemoveTopicsFromMirrorResult(dict.fromkeys(self.removed))

    async def list_groups(self) -> list[Any]:
        raise NoBrokerError("the coordinator is gone")


class Clients:
    def __init__(self, runtime: Runtime, options: argparse.Namespace, admin: Any) -> None:
        self.runtime, self.options, self.admin = runtime, options, admin


def remove(admin: Destination, topic: str) -> None:
    options = build_parser().parse_args(["--bootstrap-server", "a:1", "--remove", "--mirror", "m", "--topic", topic])
    clients: Any = None

    async def main(runtime: Runtime) -> None:
        nonlocal clients
        clients = Clients(runtime, options, admin)
        await MirrorCommand(clients).do_remove()

    run(main)


def row(topic: str) -> MirrorPartitionDescription:
    return MirrorPartitionDescription(topic, 0, 5, 5, 0, "MIRRORING", -1)


def test_a_pattern_is_matched_against_the_mirrors_topics(capsys: pytest.CaptureFixture[str]) -> None:
    admin = Destination([row("a"), row("b"), row("ab")])
    remove(admin, "a.*")
    captured = capsys.readouterr()
    assert admin.removed == ["a", "ab"] and captured.out == "Removed 2 topic(s) from mirror m: [a, ab]\n"
    assert captured.err == "Warning: could not check whether groups have read further: the coordinator is gone\n", "said after, not instead"
    assert admin.timeout_ms == 15_000


@pytest.mark.parametrize("error", [HANGS, NoBrokerError("no broker could be reached")])
def test_a_named_topic_is_removed_though_a_broker_hangs(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    admin = Destination(error)
    remove(admin, "orders")
    captured = capsys.readouterr()
    assert admin.removed == ["orders"] and captured.out == "Removed 1 topic(s) from mirror m: [orders]\n"
    assert "topic 'orders' is removed without a check" in captured.err


def test_a_pattern_cannot_be_matched_while_a_broker_hangs() -> None:
    with pytest.raises(KmirrorError, match="a topic can still be removed if --topic is its full name"):
        remove(Destination(HANGS), ".*")


def test_an_error_that_will_not_pass_is_not_gone_around() -> None:
    admin = Destination(ApiException(Errors.UNKNOWN_MIRROR))
    with pytest.raises(ApiException):
        remove(admin, "orders")
    assert admin.removed == []
