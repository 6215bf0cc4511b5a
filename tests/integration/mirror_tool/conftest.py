"""The clusters that the tests of `kafka-mirrors` share, and the tool as a function."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.mirrors.mirror_harness import FAST_MIRROR
from support.mirrors.mirror_pair import THREE_BROKERS, Pair, Run

from kmirror.cli import mirrors, mirrors_wait
from kmirror.embedded import EmbeddedCluster


@pytest.fixture(scope="package")
def pair() -> Iterator[Pair]:
    with (
        EmbeddedCluster(brokers=3, mirroring=True, config=THREE_BROKERS) as a,
        EmbeddedCluster(brokers=3, mirroring=True, config=THREE_BROKERS) as b,
    ):
        yield a, b


@pytest.fixture
def one_and_one() -> Iterator[Pair]:
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        yield a, b


@pytest.fixture(autouse=True)
def short_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting looks five times as often as for people."""
    monkeypatch.setattr(mirrors_wait, "POLL_INTERVAL_MS", 40)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def tool(cluster: EmbeddedCluster, *arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = mirrors.main(["--bootstrap-server", cluster.bootstrap_servers, *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return tool
