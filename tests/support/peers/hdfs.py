"""A small HDFS: a name node and a data node in a JVM of their own (Hadoop's MiniDFSCluster, jars
from tools/kafka_jars.py).
"""

from __future__ import annotations

import importlib.util
import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support.peers.peers import KAFKA_JARS, java, require
from tools.kafka_jars import HADOOP_VERSION


class Hdfs:
    """`uri` is that of its root; `java` the JVM, for what a test does to it."""

    def __init__(self, java: Any, cluster: Any) -> None:
        self.java = java
        self._cluster = cluster
        self.uri = str(cluster.getURI())

    def put(self, source: pathlib.Path, path: str) -> str:
        """A local file or folder, at that path; its URI."""
        name = self.java.org.apache.hadoop.fs.Path
        self._cluster.getFileSystem().copyFromLocalFile(name(f"file:{source}"), name(path))
        return self.uri + path


@contextmanager
def hdfs(folder: pathlib.Path) -> Iterator[Hdfs]:
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    jars = KAFKA_JARS.parent / f"hadoop-{HADOOP_VERSION}"
    require((jars / ".complete").exists(), "Hadoop's jars are not resolved: run tools/kafka_jars.py --all (needs Maven)")
    pyspark = importlib.util.find_spec("pyspark")
    assert pyspark is not None and pyspark.origin is not None, "pyspark is installed"
    py4j = next((pathlib.Path(pyspark.origin).parent / "jars").glob("py4j-*.jar"))
    port, secret = launch_gateway(
        jarpath=str(py4j), classpath=f"{jars}/*", java_path=java(), die_on_exit=True, enable_auth=True, cwd=folder, javaopts=["-Xmx512m"]
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=secret))
    configuration = gateway.jvm.org.apache.hadoop.conf.Configuration()
    configuration.set("hdfs.minidfs.basedir", str(folder / "hdfs"))
    configuration.set("dfs.replication", "1")
    cluster = getattr(gateway.jvm.org.apache.hadoop.hdfs, "MiniDFSCluster$Builder")(configuration).numDataNodes(1).build()
    try:
        cluster.waitActive()
        yield Hdfs(gateway.jvm, cluster)
    finally:
        cluster.shutdown()
        gateway.shutdown()
