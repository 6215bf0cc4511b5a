"""Which topics `kafka-mirrors --wait` waits for, and what of a command that is done already counts:
without clusters.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kmirror.admin.results import MirrorDescription, MirrorPartitionDescription, TopicResults
from kmirror.cli import mirrors_actions
from kmirror.cli.mirrors import build_parser
from kmirror.cli.mirrors_actions import MirrorCommand
from kmirror.cli.mirrors_source import SourceEnd
from kmirror.cli.mirrors_wait import NotFinishedError
from kmirror.common.errors import ApiException, ConfigError, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run

HERE, THERE = "here", "there"


class Cluster:
    """Mirror `m` of `states`; a change gives the errors of `refused`, and what it took is in its
    new state at the next look.
    """

    def __init__(self, states: dict[str, str], refused: dict[str, Errors] | None = None, *, becomes: str = "") -> None:
        self.states, self.refused, self.becomes = dict(states), refused or {}, becomes

    async def describe_mirrors(self, names: Iterable[str] = (), options: Any = None) -> dict[str, MirrorDescription]:
        rows = [MirrorPartitionDescription(topic, 0, 5, 5, 0, state, -1) for topic, state in self.states.items()]
        return {"m": MirrorDescription("m", rows)}

    async def describe_topics(self, names: Iterable[str]) -> dict[str, Any]:
        return {name: SimpleNamespace(partitions=[SimpleNamespace(partition=0, leader=1)], topic_id=None) for name in names}

    async def describe_topic_configs(self, topics: Iterable[str]) -> dict[str, list[Any]]:
        return {name: [] for name in topics}

    async def list_topics(self) -> list[str]:
        return sorted({*self.states, *self.refused})

    async def _change(self, mirror: str, topics: Iterable[str]) -> TopicResults:
        result = TopicResults({name: ApiException(self.refused[name]) if name in self.refused else None for name in sorted(topics)})
        self.states |= dict.fromkeys(result.succeeded, self.becomes)
        return result

    pause_mirror_topics = resume_mirror_topics = add_topics_to_mirror = _change

    async def list_mirrors(self) -> list[Any]:
        return [SimpleNamespace(mirror_name="m", source_cluster_id=THERE, topic_count=0)]

    async def describe_cluster(self) -> Any:
        return SimpleNamespace(cluster_id=HERE, nodes=[])

    async def create_mirror(self, name: str, configs: dict[str, str]) -> None:
        self.states = {}


class Clients:
    """`source_error`: what the tool cannot do to reach the source."""

    def __init__(self, runtime: Runtime, options: argparse.Namespace, admin: Any, source_error: Exception | None) -> None:
        self.runtime, self.options, self.admin, self._source_error = runtime, options, admin, source_error

    async def source(self, mirror_name: str, *, timeout_ms: int | None = None) -> Any:
        if self._source_error is not None:
            raise self._source_error
        return self.admin

    async def check_chain(self, *_: object) -> None:
        """There is none."""


def run_tool(cluster: Cluster, action: str, *arguments: str, source_error: Exception | None = None, is_dry: bool = False) -> None:
    words = ["--bootstrap-server", "a:1", f"--{action}", "--mirror", "m", *arguments]
    options = build_parser().parse_args(words)

    async def main(runtime: Runtime) -> None:
        clients: Any = Clients(runtime, options, cluster, source_error)
        await getattr(MirrorCommand(clients), f"{'dry_run' if is_dry else 'do'}_{action}")()

    run(main)


WAIT = ("--topic", ".*", "--wait", "--timeout", "0")


def test_a_repeated_pause_waited_for_topics_that_are_removed(capsys: pytest.CaptureFixture[str]) -> None:
    gone = Cluster({"t": "STOPPED"}, {"t": Errors.MIRROR_TOPIC_BEING_REMOVED})
    run_tool(gone, "pause", *WAIT)
    going = Cluster({"t": "STOPPING", "u": "MIRRORING"}, {"t": Errors.MIRROR_TOPIC_BEING_REMOVED}, becomes="PAUSED")
    run_tool(going, "pause", *WAIT)
    assert capsys.readouterr().out == "Paused mirroring for 0 topic(s) in mirror m: []\nPaused mirroring for 1 topic(s) in mirror m: [u]\n"


def test_what_a_pause_before_took_is_waited_for() -> None:
    with pytest.raises(NotFinishedError, match="t-0 is PAUSING"):
        run_tool(Cluster({"t": "PAUSING"}, {"t": Errors.MIRROR_TOPIC_ALREADY_PAUSED}), "pause", *WAIT)


def test_a_resumed_topic_that_its_source_had_lost_was_not_waited_for() -> None:
    with pytest.raises(NotFinishedError, match="t-0 is STOPPED"):
        run_tool(Cluster({"t": "STOPPED"}, becomes="STOPPED"), "resume", *WAIT)
    run_tool(Cluster({"t": "STOPPED"}, becomes="MIRRORING"), "resume", *WAIT)


def test_add_waited_for_topics_that_are_paused_or_in_another_mirror(capsys: pytest.CaptureFixture[str]) -> None:
    other = Cluster({"t": "MIRRORING"}, {"t": Errors.TOPIC_ALREADY_IN_MIRROR, "other": Errors.TOPIC_ALREADY_IN_MIRROR})
    run_tool(other, "add", *WAIT)
    assert "Added 0 topic(s) to mirror m: []" in capsys.readouterr().out, "given again, it is done"
    with pytest.raises(KmirrorError, match=r"\[t\] .*paused: --resume"):
        run_tool(Cluster({"t": "PAUSED"}, {"t": Errors.TOPIC_ALREADY_IN_MIRROR}), "add", *WAIT)
    with pytest.raises(KmirrorError, match=r"\[t\] .*another mirror"):
        run_tool(Cluster({}, {"t": Errors.TOPIC_ALREADY_IN_MIRROR}), "add", *WAIT)
    with pytest.raises(NotFinishedError, match="u-0 is PREPARING"):
        run_tool(Cluster({"t": "MIRRORING", "u": "STOPPED"}, {"t": Errors.TOPIC_ALREADY_IN_MIRROR}, becomes="PREPARING"), "add", *WAIT)


class Unaware(Cluster):
    """Does not tell of the mirror at the first look, as the reference until it has heard from the
    source.
    """

    async def describe_mirrors(self, names: Iterable[str] = (), options: Any = None) -> dict[str, MirrorDescription]:
        if names and self.refused.pop("m", None) is not None:
            raise ApiException(Errors.UNKNOWN_MIRROR)
        return await super().describe_mirrors(names, options)


def test_add_waits_for_a_mirror_that_is_not_told_of_yet(capsys: pytest.CaptureFixture[str]) -> None:
    first = Unaware({"t": "STOPPED"}, {"m": Errors.UNKNOWN_MIRROR}, becomes="MIRRORING")
    run_tool(first, "add", "--topic", "t", "--wait", "--timeout", "1000")
    again = Unaware({"t": "MIRRORING"}, {"m": Errors.UNKNOWN_MIRROR, "t": Errors.TOPIC_ALREADY_IN_MIRROR})
    run_tool(again, "add", "--topic", "t", "--wait", "--timeout", "1000")
    assert capsys.readouterr().out == "Added 1 topic(s) to mirror m: [t]\nAdded 0 topic(s) to mirror m: []\n"


def test_a_drain_believed_a_cluster_that_is_not_the_source() -> None:
    """Its topics are missing there, or end elsewhere: both looked like no lag."""
    with pytest.raises(KmirrorError, match="cluster here is not the source of mirror m, there"):
        run_tool(Cluster({"t": "MIRRORING"}), "remove", *WAIT)


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_verbose_describe_told_the_ends_of_a_cluster_that_is_not_the_source(
    more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    run_tool(Cluster({"t": "MIRRORING"}), "describe", "--verbose", *more)
    captured = capsys.readouterr()
    assert (
        "Warning: mirror m: the source does not report its end offsets: cluster here is not the source of mirror m, there" in captured.err
    )
    shown = json.loads(captured.out)[0]["sourceLastStableOffset"] if more else captured.out.splitlines()[1].split()[7]
    assert shown in (None, "-")


def test_a_dry_run_of_a_failover_was_silent_on_a_source_that_cannot_be_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the mirror lacked nothing of it."""

    async def nothing(*_: object) -> list[Any]:
        return []

    monkeypatch.setattr(mirrors_actions.mirrors_dry_run, "failover_loss", nothing)
    run_tool(Cluster({"t": "MIRRORING"}), "remove", "--topic", "t", "--dry-run", source_error=KmirrorError("it is down"), is_dry=True)
    assert "it is not known how much the mirror lacks: the source does not report its end offsets: it is down" in capsys.readouterr().err


def test_a_dry_run_of_a_failover_was_silent_on_partitions_that_are_at_the_source_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ends(*_: object) -> tuple[dict[TopicPartition, SourceEnd], None]:
        return {TopicPartition("t", index): SourceEnd(50, 50) for index in (0, 2)}, None

    async def nothing(*_: object) -> list[Any]:
        return []

    monkeypatch.setattr(mirrors_actions, "source_ends_if_reachable", ends)
    monkeypatch.setattr(mirrors_actions.mirrors_dry_run, "failover_loss", nothing)
    run_tool(Cluster({"t": "MIRRORING"}), "remove", "--topic", "t", "--dry-run", is_dry=True)
    assert capsys.readouterr().err == "Warning: t-2 is not there, or has no leader: 50 offset(s) of the source may not be mirrored\n"


def test_a_created_mirror_whose_source_the_tool_cannot_reach_counted_as_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Key stores are on the brokers: where the tool runs they may be missing."""
    monkeypatch.setattr(mirrors_actions, "read_mirror_configs", lambda path: {})
    run_tool(Cluster({}), "create", "--mirror-config", str(tmp_path), source_error=ConfigError("no such key store"))
    captured = capsys.readouterr()
    assert captured.out == "Created mirror m\n" and "no such key store" in captured.err


def test_a_mirror_config_that_cannot_be_read_was_gone_around() -> None:
    """The topic was added with a warning, and whether it makes a ring was not looked at."""
    cluster = Cluster({}, becomes="MIRRORING")
    with pytest.raises(ConfigError, match="cannot read it"):
        run_tool(cluster, "add", "--topic", "t", "--mirror-config", "typo", source_error=ConfigError("cannot read it"))
    assert not cluster.states
    run_tool(cluster, "add", "--topic", "t", source_error=ConfigError("no password"))
    assert cluster.states == {"t": "MIRRORING"}


def test_topics_that_were_changed_beside_one_that_was_refused_were_not_named() -> None:
    """And what a state does not allow was a request that a client library had malformed."""
    cluster = Cluster({"a": "MIRRORING", "b": "PREPARING", "c": "MIRRORING"}, {"b": Errors.INVALID_REQUEST}, becomes="PAUSED")
    with pytest.raises(KmirrorError, match=r"^b: its state does not allow it, see --describe; done for \[a, c\]$"):
        run_tool(cluster, "pause", "--topic", ".*")
    with pytest.raises(KmirrorError, match="^b: its state does not allow it, see --describe$"):
        run_tool(Cluster({"b": "PREPARING"}, {"b": Errors.INVALID_REQUEST}), "pause", "--topic", "b")
