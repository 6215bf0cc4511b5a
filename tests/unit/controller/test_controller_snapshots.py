"""The running controller's snapshots, and what becomes of it when its disk fails or a record cannot be
written.
"""

from __future__ import annotations

import asyncio
import errno
import pathlib
import threading

import pytest
from support.brokers.controller_node import Node, records_of, scenario
from support.brokers.metadata_doubles import CLUSTER_ID
from support.logs.failing_files import WRITES
from support.waiting import REACHED_S

from kmirror.common.errors import ApiException, Errors
from kmirror.controller.controller_result import ControllerResult
from kmirror.controller.metadata_log import METADATA_LOG_FOLDER, SnapshotWriter
from kmirror.metadata.loader import MetadataLoader
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.metadata.snapshot import CHECKPOINT_SUFFIX, SnapshotId, decode_snapshot
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages import fetch_snapshot as fs
from kmirror.wire.messages import incremental_alter_configs as iac
from kmirror.wire.messages.config_record import ConfigRecord


def test_snapshots_replace_the_log(tmp_path: pathlib.Path) -> None:
    async def test(node: Node) -> None:
        await node.start_broker()
        for name in "abcdefgh":
            await node.create_topic(name)
        await node.restart()
        for name in "ijklmn":
            await node.create_topic(name)
        await node.snapshots_done()
        assert len(node.controller.log.snapshots) == 1, "only the newest one stays"
        assert node.controller.log.log_start_offset > 0
        image = node.controller.image
        first = await node.fetch(0)
        snapshot_id = SnapshotId(first.snapshot_id.end_offset, first.snapshot_id.epoch)
        assert [snapshot_id] == node.controller.log.snapshots
        data = await fetch_whole_snapshot(node, snapshot_id)
        snapshot = decode_snapshot(data, "snapshot")
        loader = MetadataLoader()
        loader.handle_load_snapshot(snapshot.records, image.provenance._replace(last_contained_offset=snapshot_id.end_offset - 1))
        while loader.next_offset < node.controller.high_watermark:
            loader.handle_commit(records_of(await node.fetch(loader.next_offset)))
        assert loader.image.topics == image.topics
        await node.restart()
        assert node.controller.image.topics == image.topics
        assert sorted(image.topics.by_name) == list("abcdefghijklmn")

    scenario(test, tmp_path, snapshot_max_new_record_bytes=500, metadata_max_retention_bytes=100, metadata_segment_bytes=400)


def test_writes_waited_for_a_snapshot(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow disk under a snapshot held up every request to the controller, heartbeats too."""
    go_on = threading.Event()
    begun: list[SnapshotId] = []
    write = SnapshotWriter.write

    def slow_write(writer: SnapshotWriter) -> int:
        begun.append(writer.snapshot_id)
        assert go_on.wait(REACHED_S)
        return write(writer)

    monkeypatch.setattr(SnapshotWriter, "write", slow_write)

    async def test(node: Node) -> None:
        await node.start_broker()
        for name in "abcdefgh":
            assert await asyncio.wait_for(node.create_topic(name), 5) is Errors.NONE
        assert len(begun) == 1, "one snapshot at a time"
        assert not node.controller.log.snapshots, "it is not told of before it is stored"
        go_on.set()
        await node.snapshots_done()
        assert node.controller.log.snapshots == begun
        await node.create_topic("z")
        await node.snapshots_done()
        assert len(begun) == 2
        assert decode_snapshot(pathlib.Path(node.controller.log.snapshot_path(begun[0])).read_bytes(), "snapshot").records
        await node.restart()
        assert sorted(node.controller.image.topics.by_name) == [*"abcdefgh", "z"]

    scenario(test, tmp_path, snapshot_max_new_record_bytes=500)


@pytest.mark.parametrize("operation", ["write_bytes", "fsync", "rename"])
def test_a_snapshot_that_cannot_be_written_does_not_end_the_controller(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, operation: str
) -> None:
    """A full disk under a snapshot ended the only controller of its quorum; Kafka's tells and
    counts it, and goes on.
    """

    async def test(node: Node) -> None:
        fatal: list[str] = []
        node.controller.on_fatal = fatal.append
        await node.start_broker()
        await node.snapshots_done()
        before = list(node.controller.log.snapshots)
        node.files.fail(0, errno.ENOSPC, goes_on=True, operations=[operation], path_part=f"{CHECKPOINT_SUFFIX}.part")
        for name in "abcdefgh":
            assert await node.create_topic(name) is Errors.NONE
        await node.snapshots_done()
        assert node.files.failures > 0 and node.controller.is_active and not fatal
        assert node.controller.fault_count == node.files.failures and node.controller.log.snapshots == before
        assert "Encountered error while writing snapshot 000" in caplog.text and "No space left on device" in caplog.text
        assert not list(tmp_path.glob("**/*.part")), "what was written of it takes room"
        node.files.fail(None)
        for name in "ijklmnop":
            assert await node.create_topic(name) is Errors.NONE
        await node.snapshots_done()
        assert node.controller.log.snapshots[-1:] != before[-1:], "the next one is due as ever"
        await node.restart()
        assert sorted(node.controller.image.topics.by_name) == [*"abcdefghijklmnop"]

    scenario(test, tmp_path, snapshot_max_new_record_bytes=500)


@pytest.mark.parametrize("error_number", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_at_any_write_ends_the_controller_in_one_word_and_loses_nothing(
    tmp_path: pathlib.Path, error_number: int
) -> None:
    """Kafka halts where `__cluster_metadata` cannot be appended to.

    What was acknowledged is there when the disk is whole again.
    """

    async def until_it_fails(node: Node, number: int) -> tuple[list[str], bool]:
        """The topics that were acknowledged, and whether anything failed."""
        fatal: list[str] = []
        node.controller.on_fatal = fatal.append
        await node.start_broker()
        node.files.fail(number, error_number, goes_on=True, operations=[*WRITES, "writev"])
        made = [name for name in "abcdefgh" if await node.create_topic(name) is Errors.NONE]
        await node.snapshots_done()
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # the pump's end is told in the next turn
        if len(made) < 8:
            assert not node.controller.is_active and len(fatal) == 1, (number, node.files.failed, fatal)
            assert fatal[0].startswith(f"Shutdown controller: Metadata log directory {node.directory} has failed: "), fatal
        else:
            assert node.controller.is_active or fatal, number
        return made, node.files.failures > 0

    async def sweep() -> None:
        number, ended, failed = error_number % 2, 0, True
        while failed:
            node = Node(tmp_path / str(number), snapshot_max_new_record_bytes=700, metadata_segment_bytes=400)
            node.directory.mkdir()
            await node.start()
            made, failed = await until_it_fails(node, number)
            ended += len(made) < 8
            node.files.fail(None)
            await node.restart(kill=True)
            found = node.controller.image.topics.by_name
            assert set(made) <= set(found) and node.controller.is_active, (number, made, list(found))
            await node.controller.kill()
            number += 2
        assert ended > 5, "most writes are the log's"

    asyncio.run(sweep())


async def fetch_whole_snapshot(node: Node, snapshot_id: SnapshotId) -> bytes:
    data = b""
    while True:
        wanted = fs.FetchSnapshotRequestPartitionSnapshot(
            current_leader_epoch=node.controller.epoch, position=len(data), snapshot_id=fs.FetchSnapshotRequestSnapshotId(*snapshot_id)
        )
        topic = fs.FetchSnapshotRequestTopicSnapshot(name="__cluster_metadata", partitions=[wanted])
        request = fs.FetchSnapshotRequest(cluster_id=CLUSTER_ID, replica_id=5, max_bytes=100, topics=[topic])
        part = (await node.ask(ApiKeys.FETCH_SNAPSHOT, request)).topics[0].partitions[0]
        assert part.error_code == 0
        data += bytes(part.unaligned_records)
        if len(data) >= part.size:
            return data


def test_an_unknown_snapshot(tmp_path: pathlib.Path) -> None:
    async def test(node: Node) -> None:
        wanted = fs.FetchSnapshotRequestPartitionSnapshot(current_leader_epoch=1, snapshot_id=fs.FetchSnapshotRequestSnapshotId(99, 1))
        topic = fs.FetchSnapshotRequestTopicSnapshot(name="__cluster_metadata", partitions=[wanted])
        answer = await node.ask(ApiKeys.FETCH_SNAPSHOT, fs.FetchSnapshotRequest(topics=[topic]))
        assert answer.topics[0].partitions[0].error_code == Errors.SNAPSHOT_NOT_FOUND
        stranger = await node.ask(ApiKeys.FETCH_SNAPSHOT, fs.FetchSnapshotRequest(cluster_id="other", topics=[topic]))
        assert stranger.error_code == Errors.INCONSISTENT_CLUSTER_ID

    scenario(test, tmp_path)


def test_a_failed_flush_fails_the_controller_for_good(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(node: Node) -> None:
        await node.start_broker()

        def broken() -> int:
            raise OSError(5, "disk gone")

        monkeypatch.setattr(node.controller.log, "flush", broken)
        monkeypatch.setattr(node.runtime, "report_failure", lambda message, error: None)
        record = ApiMessageAndVersion(ConfigRecord(resource_type=2, resource_name="x", name="y", value="z"), 0)
        with pytest.raises(ApiException, match="disk gone") as error:
            await node.controller.write("test", lambda: ControllerResult([record], "done"))
        assert error.value.error is Errors.NOT_CONTROLLER
        assert not node.controller.is_active
        assert await node.create_topic("t") is Errors.NOT_CONTROLLER

    scenario(test, tmp_path)


def test_a_value_too_long_for_a_record_is_refused_and_the_controller_lives(tmp_path: pathlib.Path) -> None:
    """Appending to a list twice made a config value that no record can carry: the controller failed
    for good.
    """

    async def test(node: Node) -> None:
        await node.start_broker()
        assert await node.create_topic("t") is Errors.NONE
        codes = []
        for operation in (0, 2):
            value = ",".join(f"{1_000_000 * (operation + 1) + number}:1" for number in range(3000))
            change = iac.AlterableConfig("follower.replication.throttled.replicas", operation, value)
            request = iac.IncrementalAlterConfigsRequest([iac.AlterConfigsResource(2, "t", [change])])
            result = (await node.ask(ApiKeys.INCREMENTAL_ALTER_CONFIGS, request, 1)).responses[0]
            codes.append((result.error_code, result.error_message))
        text = "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes."
        assert codes == [(0, None), (Errors.INVALID_CONFIG, text)]
        assert await node.create_topic("u") is Errors.NONE

    scenario(test, tmp_path)


def test_a_record_that_cannot_be_written_fails_its_request_only(tmp_path: pathlib.Path) -> None:
    async def test(node: Node) -> None:
        before = node.controller.state.log_end_offset
        record = ApiMessageAndVersion(ConfigRecord(resource_type=4, resource_name="", name="x", value="v" * 40_000), 0)
        with pytest.raises(ApiException) as error:
            await node.controller.write("tooLong", lambda: ControllerResult([record], None))
        assert error.value.error is Errors.UNKNOWN_SERVER_ERROR
        assert node.controller.state.log_end_offset == before
        await node.start_broker()
        assert await node.create_topic("t") is Errors.NONE

    scenario(test, tmp_path)


def test_the_metadata_log_is_readable_by_its_owner_alone_through_snapshots_and_lives(tmp_path: pathlib.Path) -> None:
    """It holds the logins of mirrors at their sources, and the credentials of users."""

    async def run(node: Node) -> None:
        await node.start_broker()
        for number in range(12):
            assert await node.create_topic(f"t{number}") is Errors.NONE
        await node.snapshots_done()
        await node.restart()
        await node.restart(kill=True)
        folder = tmp_path / METADATA_LOG_FOLDER
        names = [path.name for path in folder.iterdir()]
        assert any(name.endswith(".checkpoint") for name in names) and sum(name.endswith(".log") for name in names) > 1, names
        assert {path.name: oct(path.stat().st_mode & 0o777) for path in folder.iterdir()} == dict.fromkeys(names, "0o600")

    scenario(run, tmp_path, metadata_segment_bytes=1024, snapshot_max_new_record_bytes=1000)
