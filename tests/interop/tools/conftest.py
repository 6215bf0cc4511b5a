"""Apache Kafka's tools in one JVM, and the cluster of ours that they and our tools are run against."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.peers import apache_tools
from support.peers.apache_tools import ApacheTools
from support.peers.tool_comparison import Runner

from kmirror.embedded import EmbeddedCluster

ACLS_ON = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users": "User:ANONYMOUS"}


@pytest.fixture(scope="package")
def apaches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheTools]:
    with apache_tools.apache_tools(tmp_path_factory.mktemp("jvm")) as running:
        yield running


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3, config=ACLS_ON) as running:
        yield running


@pytest.fixture
def runner(apaches: ApacheTools, cluster: EmbeddedCluster, tmp_path: Path) -> Runner:
    return Runner(apaches, cluster, tmp_path)
