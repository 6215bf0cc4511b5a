"""The campaigns' cluster, whose controller is killed and stalled: in a process of its own, and in
that of broker 1.
"""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable, Iterator

import pytest
from support.mirrors.mirror_harness import call
from support.waiting import REACHED_S

from kmirror.common.errors import KmirrorError
from kmirror.embedded_options import CONTROLLER_INDEX
from tools.campaigns import checks
from tools.campaigns.cluster import Cluster
from tools.campaigns.created import CreatedTopics

FAST_SESSION = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "100"}


@pytest.fixture(params=[False, True], ids=["a process of its own", "in broker 1"])
def cluster(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[Cluster]:
    with Cluster(2, folder=tmp_path / "cluster", combined=request.param, config=FAST_SESSION) as cluster:
        yield cluster


def created_topics(cluster: Cluster) -> CreatedTopics:
    return CreatedTopics(cluster.bootstrap_servers, prefix="t", replication_factor=1)


def test_a_killed_controller_comes_back_at_its_address_and_knows_what_it_acknowledged(cluster: Cluster) -> None:
    created, port = created_topics(cluster), cluster.controller.controller_port
    assert created.create() is None
    with created.meanwhile():
        time.sleep(0.2)
        cluster.kill_controller()
    assert not cluster.controller.is_running and created.create() is not None, "a topic was created without a controller"
    cluster.start_controller()
    assert cluster.controller.controller_port == port
    created.check(cluster.bootstrap_servers)
    assert checks.until(lambda: created.create() is None, REACHED_S), "nothing can be created any more"
    assert created.acknowledged >= 2


def test_a_stalled_controller_goes_on_when_its_limit_is_over(cluster: Cluster) -> None:
    began = time.monotonic()
    with cluster.stalled(cluster.controller, 1.0):
        assert checks.until(lambda: created_topics(cluster).create() is None, REACHED_S)
        assert time.monotonic() - began >= 1.0, "the controller did not stand still"
    assert not cluster.controller_ends(0.1)


def test_a_controller_that_ends_by_itself_is_seen(cluster: Cluster) -> None:
    assert cluster.controller.process is not None
    cluster.controller.process._process.terminate()
    assert cluster.controller_ends(REACHED_S)
    cluster.kill_controller()
    cluster.start_controller()


def test_a_topic_that_is_gone_or_made_anew_is_noticed(cluster: Cluster) -> None:
    created = created_topics(cluster)
    assert created.create_until_refused(2) is None
    created.check(cluster.bootstrap_servers)
    delete: Callable[[], object] = lambda: call(cluster.bootstrap_servers, lambda admin: admin.delete_topics(["t-0001"])).all()  # noqa: E731
    delete()
    with pytest.raises(AssertionError, match="1 are gone, 0 have another id"):
        created.check(cluster.bootstrap_servers, limit_s=1)
    again = created_topics(cluster)
    assert again.create() is None
    with pytest.raises(AssertionError, match="0 are gone, 1 have another id"):
        created.check(cluster.bootstrap_servers, limit_s=1)


def test_a_log_that_was_set_aside_is_noticed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t-0").mkdir()
    checks.no_strays([tmp_path])
    (tmp_path / "t-0.0123456789abcdef0123456789abcdef-stray").mkdir()
    with pytest.raises(AssertionError, match="1 logs were set aside"):
        checks.no_strays([tmp_path])


def test_a_controller_that_refuses_says_why(tmp_path: pathlib.Path) -> None:
    metadata = tmp_path / "metadata"
    with Cluster(1, folder=tmp_path / "cluster", node_config={CONTROLLER_INDEX: {"metadata.log.dir": str(metadata)}}) as cluster:
        cluster.kill_controller()
        file = metadata / "meta.properties"
        content = file.read_bytes()
        file.write_bytes(b"")
        with pytest.raises(KmirrorError, match="node ID not found in .*metadata"):
            cluster.start_controller()
        assert not cluster.controller.is_running
        file.write_bytes(content)
        cluster.start_controller()
