"""`kafka-mirrors --add --accept-truncation`: whose limit is lifted, and that none stays lifted by
mistake. Without clusters.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from kmirror.admin.admin_requests import NoBrokerError
from kmirror.admin.results import ConfigEntry, ConfigResourceType, MirrorDescription, MirrorPartitionDescription
from kmirror.cli import mirrors_actions
from kmirror.cli.mirrors import build_parser
from kmirror.cli.mirrors_truncation import with_truncation_accepted
from kmirror.cli.mirrors_wait import NotFinishedError
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run

LIMIT = "mirror.max.truncation.records"
STAYS = f"{LIMIT} of a stays -1 until the same command has finished"


class Cluster:
    """Topics with their limits; mirrors with the states of their topics' partitions.

    `refusing`: topics whose configs may not be altered.
    """

    def __init__(self, limits: dict[str, str | None], mirrors: dict[str, dict[str, list[str]]] | None = None) -> None:
        self.limits, self.mirrors = dict(limits), mirrors or {}
        self.refusing: set[str] = set()
        self.is_another_mirror_silent = False
        self.seen: dict[str, str | None] = {}

    async def describe_topics(self, names: Iterable[str]) -> dict[str, Any]:
        return {name: SimpleNamespace() for name in names if name in self.limits}

    async def describe_configs(self, kind: ConfigResourceType, name: str) -> list[ConfigEntry]:
        return [ConfigEntry(LIMIT, self.limits[name], 1, is_default=self.limits[name] is None)]

    async def incremental_alter_configs(self, kind: ConfigResourceType, name: str, changes: Any) -> None:
        if name in self.refusing:
            raise ApiException(Errors.TOPIC_AUTHORIZATION_FAILED)
        ((_, _, self.limits[name]),) = changes

    async def describe_mirrors(self, names: Iterable[str] = (), options: Any = None) -> dict[str, MirrorDescription]:
        if self.is_another_mirror_silent and not list(names):
            raise ApiException(Errors.COORDINATOR_NOT_AVAILABLE)
        return {
            mirror: MirrorDescription(
                mirror,
                [
                    MirrorPartitionDescription(topic, number, 5, 5, 0, state, -1)
                    for topic, states in topics.items()
                    for number, state in enumerate(states)
                ],
            )
            for mirror, topics in self.mirrors.items()
        }

    async def add(self) -> None:
        self.seen = dict(self.limits)


def accept(cluster: Cluster, *topics: str, error: BaseException | None = None) -> None:
    async def add() -> None:
        await cluster.add()
        if error is not None:
            raise error

    async def main(runtime: Runtime) -> None:
        await with_truncation_accepted(cluster, "m", topics, add)  # type: ignore[arg-type]

    run(main)


def test_the_limit_is_lifted_while_the_topic_is_added(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster({"a": None, "b": "7"})
    accept(cluster, "a", "b", "not-here-yet")
    assert cluster.seen == {"a": "-1", "b": "-1"}
    assert cluster.limits == {"a": None, "b": "7"} and capsys.readouterr().err == ""


def test_topics_that_are_mirrored_already_lost_their_limit_to_a_pattern() -> None:
    states = {"added": ["STOPPED"], "running": ["MIRRORING", "PAUSED"], "begun": ["MIRRORING", "PREPARING"], "interrupted": ["MIRRORING"]}
    mirrors = {"m": states, "another": {"theirs": ["MIRRORING"], "failed-there": ["FAILED"], "left": ["STOPPED"]}}
    topics = [*states, *mirrors["another"]]
    cluster = Cluster(dict.fromkeys(topics) | {"interrupted": "-1", "theirs": "-1"}, mirrors)
    accept(cluster, *topics)
    lifted = {topic for topic, limit in cluster.seen.items() if limit == "-1"}
    assert lifted == {"added", "begun", "interrupted", "left", "theirs"}
    assert cluster.limits == dict.fromkeys(topics) | {"theirs": "-1"}, "put back, and what is another mirror's was not touched"


def test_another_mirror_that_cannot_be_described_is_no_obstacle() -> None:
    cluster = Cluster({"a": None, "running": None}, {"m": {"running": ["MIRRORING"]}})
    cluster.is_another_mirror_silent = True
    accept(cluster, "a", "running")
    assert cluster.seen == {"a": "-1", "running": None} and cluster.limits == {"a": None, "running": None}


@pytest.mark.parametrize("error", [NotFinishedError("late"), NoBrokerError("away"), ApiException(Errors.REQUEST_TIMED_OUT)])
def test_what_the_same_command_goes_on_with_stays_and_is_told(error: KmirrorError, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster({"a": "7"})
    with pytest.raises(type(error)):
        accept(cluster, "a", error=error)
    assert cluster.limits == {"a": "-1"} and STAYS in capsys.readouterr().err


@pytest.mark.parametrize("error", [KmirrorError("a-0 FAILED"), ApiException(Errors.MIRROR_AUTHORIZATION_FAILED)])
def test_a_command_that_is_refused_left_the_topic_without_a_limit(error: KmirrorError, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster({"a": "7", "b": None})
    with pytest.raises(type(error)):
        accept(cluster, "a", "b", error=error)
    assert cluster.limits == {"a": "7", "b": None} and capsys.readouterr().err == ""


def test_a_limit_that_may_not_be_lifted_left_the_others_lifted(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster({"a": None, "b": None})
    cluster.refusing = {"b"}
    with pytest.raises(ApiException):
        accept(cluster, "a", "b")
    assert cluster.limits == {"a": None, "b": None} and cluster.seen == {} and capsys.readouterr().err == ""


def test_a_limit_that_cannot_be_put_back_is_named_and_the_others_are(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster({"a": None, "b": "7"})
    add = cluster.add

    async def add_and_refuse() -> None:
        await add()
        cluster.refusing = {"a"}

    cluster.add = add_and_refuse  # type: ignore[method-assign]
    with pytest.raises(ApiException):
        accept(cluster, "a", "b")
    assert cluster.limits == {"a": "-1", "b": "7"} and STAYS in capsys.readouterr().err


def test_a_limit_that_was_lifted_before_is_set_again_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    """By the same command, which was interrupted, or by hand: nobody knows."""
    cluster = Cluster({"a": "-1"})
    accept(cluster, "a")
    assert cluster.limits == {"a": None}
    assert f"{LIMIT} of a was -1 before and has been removed: the mirror's limit applies" in capsys.readouterr().err


def test_an_interrupted_command_says_that_it_goes_on(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(mirrors_actions, "run", interrupt)
    words = ["--bootstrap-server", "a:1", "--add", "--mirror", "m", "--topic", "t", "--accept-truncation"]
    with pytest.raises(KeyboardInterrupt):
        mirrors_actions.run_action("add", build_parser().parse_args(words))
    assert "the same command goes on where this one ended" in capsys.readouterr().err
