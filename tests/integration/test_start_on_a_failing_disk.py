"""A whole node (broker and controller) is started on a disk of which any call may fail, and loses
nothing by it.

A node with topics and records in two log directories is killed, and its data copied. On each copy a
start meets an error of the disk at one call, or from there on; then the node starts on the same
data without a fault. It either refuses, in one line that names what failed and says what to do, or
serves with the directory offline. Afterwards all topics, and the `.log` files byte for byte, are
there.
"""

from __future__ import annotations

import asyncio
import errno
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from support.logs.failing_files import FailingFiles
from support.peers.peers import free_port

from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.controller.metadata_log import METADATA_LOG_FOLDER
from kmirror.controller.storage_tool import FormatOptions, format_node
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.runtime.os_files import VolatileOsFileSystem
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.kafka_server import KafkaServer
from kmirror.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAg"
PARTITIONS = 4
ERRORS = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EACCES, errno.EROFS)
SAMPLES = 12


def settings(root: Path) -> KafkaConfig:
    controller = free_port()
    return KafkaConfig.from_props(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{controller}",
            "log.dirs": f"{root}/a,{root}/b",
            "log.segment.bytes": "1048576",
            "broker.session.timeout.ms": "500",
            "broker.heartbeat.interval.ms": "100",
        }
    )


def with_node(root: Path, files: Any, use: Callable[[KafkaServer], Coroutine[Any, Any, None]]) -> None:
    """Start a node, use it, kill it."""

    async def main() -> None:
        runtime = AsyncioRuntime(files=files)
        server = KafkaServer(settings(root), runtime)
        try:
            await asyncio.wait_for(server.start(), 60)
            await use(server)
        finally:
            await server.kill()
            runtime.close()

    asyncio.run(main())


async def fill(server: KafkaServer) -> None:
    assert server.broker is not None
    topic = CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=1)
    await server.broker.apis.controller.send(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
    manager = server.broker.log_manager
    while len(manager.current_logs()) < PARTITIONS:
        await asyncio.sleep(0.01)
    for number in range(PARTITIONS):
        log = manager.get_log(TopicPartition("t", number))
        assert log is not None
        for _ in range(3):
            log.append_as_leader(build_batch([Record(0, 1_750_000_000_000, b"k", b"v" * 500, [])]), leader_epoch=0)
        log.roll()
        log.append_as_leader(build_batch([Record(0, 1_750_000_000_000, b"k", b"w" * 500, [])]), leader_epoch=0)
        for segment in log.log_segments:
            segment.offset_index.write_pending()


def data_logs(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.glob("*/t-*/*.log"))}


async def nothing_is_lost(server: KafkaServer) -> None:
    assert server.broker is not None
    manager = server.broker.log_manager
    topic = server.broker.metadata_cache.image.topics.topic("t")
    assert topic is not None and len(topic.partitions) == PARTITIONS
    assert manager.offline_log_dirs == [] and len(manager.current_logs()) == PARTITIONS
    assert [log.log_end_offset for log in manager.current_logs()] == [4] * PARTITIONS


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("filled")
    runtime_config = settings(root)

    async def format_it() -> None:
        format_node(runtime_config, FormatOptions(cluster_id=CLUSTER_ID), AsyncioRuntime(files=VolatileOsFileSystem()))

    asyncio.run(format_it())
    with_node(root, VolatileOsFileSystem(), fill)
    assert len(data_logs(root)) == 2 * PARTITIONS
    return root


def copy_of(root: Path, where: Path) -> Path:
    shutil.rmtree(where, ignore_errors=True)
    shutil.copytree(root, where)
    return where


def calls_of_a_start(filled: Path, where: Path) -> int:
    files = FailingFiles(VolatileOsFileSystem())
    with_node(copy_of(filled, where), files, nothing_is_lost)
    return files.calls


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_start_on_a_failing_disk_loses_nothing(filled: Path, tmp_path: Path, goes_on: bool) -> None:
    calls = calls_of_a_start(filled, tmp_path / "node")
    before = data_logs(filled)
    refusals = 0
    for sample in range(SAMPLES):
        number = (2 * sample + goes_on) * calls // (2 * SAMPLES)
        error_number = ERRORS[sample % len(ERRORS)]
        root = copy_of(filled, tmp_path / "node")
        files = FailingFiles(VolatileOsFileSystem())
        files.fail(number, error_number, goes_on=goes_on, path_part=str(root))

        async def look(server: KafkaServer) -> None:
            assert server.broker is not None
            offline = server.broker.log_manager.offline_log_dirs
            assert all(any(f" {path}" in failed for failed in files.failed) for path in offline), (offline, files.failed)

        try:
            with_node(root, files, look)
        except (KmirrorError, OSError) as error:
            refusals += 1
            assert files.failures and "\n" not in str(error), error
        files.fail(None)
        assert {name: data for name, data in data_logs(root).items() if name in before} == before, files.failed[:3]
        assert not [path.name for path in root.glob("*/*stray*")]
        with_node(root, VolatileOsFileSystem(), nothing_is_lost)
        assert data_logs(root) == before
    assert refusals, "the metadata log's failures end a start"


def test_a_stop_does_not_wait_for_a_controller_that_has_failed(filled: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The broker of the same node asked it for its leave until the time for that was up, and the
    exit code was that of a good end.
    """
    files = FailingFiles(VolatileOsFileSystem())
    root = copy_of(filled, tmp_path / "node")

    async def stop(server: KafkaServer) -> None:
        files.fail(0, errno.ENOSPC, goes_on=True, path_part=METADATA_LOG_FOLDER, operations=("pwrite",))
        await server.stop()
        assert "No space left on device" in server.fatal.result()

    with_node(root, files, stop)
    assert "did not agree to the shutdown" not in caplog.text
    with_node(root, VolatileOsFileSystem(), nothing_is_lost)
