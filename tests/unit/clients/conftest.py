"""The cluster of most tests of the clients; a file with another one has a `cluster` of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.clients.scripted_cluster import ScriptedCluster, ScriptedTopic
from support.clients.scripted_logs import ScriptedLogs

from kmirror.common.uuid import Uuid


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    """Three scripted brokers; each leads one of the three partitions of topic t."""
    cluster = ScriptedCluster(3)
    cluster.topics["t"] = ScriptedTopic({0: 0, 1: 1, 2: 2}, topic_id=Uuid(b"1" * 16))
    cluster.logs = ScriptedLogs(cluster)
    yield cluster
    cluster.close()
