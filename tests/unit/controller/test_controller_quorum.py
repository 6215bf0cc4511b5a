"""The running controller over a real metadata log: epochs, restarts, snapshots, failures, and what
its listener answers.
"""

from __future__ import annotations

import asyncio
import errno
import pathlib
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from support.brokers.metadata_doubles import CLUSTER_ID, directory_of
from support.logs.failing_files import WRITES, FailingFiles
from support.waiting import REACHED_S

from kmirror.common.errors import ApiException, Errors
from kmirror.common.kafka_principal import KafkaPrincipal
from kmirror.common.uuid import Uuid
from kmirror.controller.controller_apis import ControllerApis
from kmirror.controller.controller_config import ControllerConfig
from kmirror.controller.controller_result import ControllerResult
from kmirror.controller.metadata_log import METADATA_LOG_FOLDER, SnapshotWriter
from kmirror.controller.quorum_controller import QuorumController
from kmirror.controller.request_context import ControllerRequestContext
from kmirror.metadata.authorizer.standard_authorizer import StandardAuthorizer
from kmirror.metadata.loader import MetadataLoader
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.metadata.registrations import Endpoint
from kmirror.metadata.snapshot import CHECKPOINT_SUFFIX, SnapshotId, decode_snapshot
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.framing import RequestHeader, encode_request, read_response
from kmirror.wire.messages import fetch as fe
from kmirror.wire.messages import fetch_snapshot as fs
from kmirror.wire.messages import incremental_alter_configs as iac
from kmirror.wire.messages.add_raft_voter import AddRaftVoterRequest
from kmirror.wire.messages.api_versions import ApiVersionsRequest
from kmirror.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from kmirror.wire.messages.broker_registration import BrokerRegistrationRequest, Feature
from kmirror.wire.messages.config_record import ConfigRecord
from kmirror.wire.messages.create_acls import AclCreation, CreateAclsRequest
from kmirror.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kmirror.wire.messages.default_principal_data import DefaultPrincipalData
from kmirror.wire.messages.describe_acls import DescribeAclsRequest
from kmirror.wire.messages.describe_cluster import DescribeClusterRequest
from kmirror.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from kmirror.wire.messages.envelope import EnvelopeRequest
from kmirror.wire.messages.no_op_record import NoOpRecord
from kmirror.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from kmirror.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kmirror.wire.messages.update_raft_voter import UpdateRaftVoterRequest
from kmirror.wire.primitives import Writer

BROKER = ControllerRequestContext(is_broker=True)


class Node:
    """One controller on one directory; `restart` gives it a new life on the same files."""

    def __init__(self, directory: pathlib.Path, **settings: Any) -> None:
        self.directory = directory
        self.settings = {"metadata_max_idle_interval_ms": 0} | settings
        self.runtime = AsyncioRuntime()
        self.files = FailingFiles(self.runtime.files)
        self.runtime.files = self.files

    async def start(self) -> None:
        config = ControllerConfig(
            node_id=1,
            cluster_id=CLUSTER_ID,
            metadata_log_dir=str(self.directory),
            listeners=(Endpoint("CONTROLLER", "localhost", 9093),),
            **self.settings,
        )
        self.controller = QuorumController(config, self.runtime)
        await self.controller.start()
        self.apis = ControllerApis(self.controller)

    async def restart(self, *, kill: bool = False) -> None:
        await (self.controller.kill() if kill else self.controller.stop())
        await self.start()

    async def ask(self, key: ApiKeys, request: Any, version: int = 0, context: ControllerRequestContext = BROKER) -> Any:
        return await self.apis.handle(RequestHeader(key, version, 7, "test"), request, context)

    async def snapshots_done(self) -> None:
        """Wait for the snapshot that is being written, and for what the pump removes after it."""
        while self.controller.snapshots.is_busy and self.controller.is_active:
            await asyncio.sleep(0.001)

    async def start_broker(self) -> int:
        features = [
            Feature(name=name, min_supported_version=levels.min, max_supported_version=levels.max)
            for name, levels in self.controller.features.supported().items()
        ]
        registration = BrokerRegistrationRequest(
            broker_id=1,
            cluster_id=CLUSTER_ID,
            incarnation_id=Uuid.random(self.runtime.random),
            log_dirs=[directory_of(1)],
            features=features,
        )
        epoch: int = (await self.ask(ApiKeys.BROKER_REGISTRATION, registration)).broker_epoch
        await self.ask(ApiKeys.BROKER_HEARTBEAT, BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch, current_metadata_offset=epoch))
        return epoch

    async def create_topic(self, name: str, context: ControllerRequestContext = BROKER) -> Errors:
        request = CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])
        return Errors((await self.ask(ApiKeys.CREATE_TOPICS, request, 7, context)).topics[0].error_code)

    async def fetch(self, offset: int, *, epoch: int = -1, last_epoch: int = -1, max_wait_ms: int = 0) -> fe.PartitionData:
        partition = fe.FetchPartition(
            partition=0, fetch_offset=offset, current_leader_epoch=epoch, last_fetched_epoch=last_epoch, partition_max_bytes=1 << 20
        )
        topic = fe.FetchTopic(topic_id=Uuid.METADATA_TOPIC_ID, partitions=[partition])
        request = fe.FetchRequest(
            cluster_id=CLUSTER_ID, replica_state=fe.ReplicaState(replica_id=5), max_wait_ms=max_wait_ms, topics=[topic]
        )
        answer = await self.ask(ApiKeys.FETCH, request, 17)
        assert answer.error_code == 0
        data: fe.PartitionData = answer.responses[0].partitions[0]
        return data


def records_of(data: fe.PartitionData) -> bytes:
    records: Any = data.records
    return bytes(records.to_bytes() if hasattr(records, "to_bytes") else records)


def scenario(test: Callable[[Node], Awaitable[None]], directory: pathlib.Path, **settings: Any) -> None:
    async def run() -> None:
        node = Node(directory, **settings)
        await node.start()
        try:
            await test(node)
        finally:
            await node.controller.kill()

    asyncio.run(run())


def test_a_first_start_begins_epoch_1_with_the_newest_metadata_version(tmp_path: pathlib.Path) -> None:
    async def test(node: Node) -> None:
        assert node.controller.epoch == 1
        assert node.controller.image.features.finalized_levels == {"metadata.version": 30}
        assert list(node.controller.image.cluster.controllers) == [1]
        assert node.controller.high_watermark == node.controller.state.log_end_offset
        state = (tmp_path / METADATA_LOG_FOLDER / "quorum-state").read_text()
        assert (
            state
            == '{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],"data_version":0}'
        )

    scenario(test, tmp_path)


@pytest.mark.parametrize("kill", [False, True], ids=["stop", "kill"])
def test_everything_survives_a_restart(tmp_path: pathlib.Path, kill: bool) -> None:
    async def test(node: Node) -> None:
        await node.start_broker()
        assert await node.create_topic("t") is Errors.NONE
        before = node.controller.image
        await node.restart(kill=kill)
        after = node.controller.image
        assert node.controller.epoch == 2
        assert after.topics == before.topics
        assert after.cluster.brokers == before.cluster.brokers
        assert after.features == before.features
        assert await node.create_topic("t") is Errors.TOPIC_ALREADY_EXISTS

    scenario(test, tmp_path)


def test_a_broker_builds_the_same_image_from_what_it_fetches(tmp_path: pathlib.Path) -> None:
    async def test(node: Node) -> None:
        await node.start_broker()
        for name in ("a", "b", "c"):
            await node.create_topic(name)
        loader = MetadataLoader()
        while loader.next_offset < node.controller.high_watermark:
            loader.handle_commit(records_of(await node.fetch(loader.next_offset)))
        assert loader.image == node.controller.image

    scenario(test, tmp_path)


def test_a_fetch_at_the_end_waits_for_the_next_record(tmp_path: pathlib.Path) -> None:
    async def test(node: Node) -> None:
        await node.start_broker()
        end = node.controller.high_watermark
        waiting = asyncio.ensure_future(node.fetch(end, max_wait_ms=60_000))
        await asyncio.sleep(0)
        assert not waiting.done()
        await node.create_topic("t")
        data = await waiting
        assert records_of(data)
        assert data.high_watermark > end
        assert records_of(await node.fetch(data.high_watermark)) == b""

    scenario(test, tmp_path)


def test_fetches_of_another_epoch_or_past(tmp_path: pathlib.Path) -> None:
    async def test(node: Node) -> None:
        await node.restart()
        assert (await node.fetch(0, epoch=1)).error_code == Errors.FENCED_LEADER_EPOCH
        ahead = await node.fetch(0, epoch=9)
        assert ahead.error_code == Errors.UNKNOWN_LEADER_EPOCH
        assert (ahead.current_leader.leader_id, ahead.current_leader.leader_epoch) == (1, 2)
        beyond = await node.fetch(500, last_epoch=2)
        assert (beyond.diverging_epoch.epoch, beyond.diverging_epoch.end_offset) == (2, node.controller.state.log_end_offset)
        first_epoch_end = beyond.diverging_epoch.end_offset - 2
        diverged = await node.fetch(first_epoch_end + 1, last_epoch=1)
        assert diverged.diverging_epoch.epoch == 1

    scenario(test, tmp_path)


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


def test_the_controller_lists_rules_for_those_who_may(tmp_path: pathlib.Path) -> None:
    async def test(node: Node) -> None:
        any_rule = DescribeAclsRequest(1, None, 1, None, None, 1, 1)
        refused = await node.ask(ApiKeys.DESCRIBE_ACLS, any_rule, 3)
        assert (refused.error_code, refused.error_message) == (Errors.SECURITY_DISABLED, "No Authorizer is configured on the broker")
        authorizer = StandardAuthorizer(super_users=["User:root"])
        authorizer.complete_initial_load()
        node.apis = ControllerApis(node.controller, authorizer)
        root = ControllerRequestContext(principal=KafkaPrincipal("User", "root"))
        creations = [AclCreation(2, topic, 3, "User:a", "*", operation, 3) for topic in "tu" for operation in (3, 4)]
        await node.ask(ApiKeys.CREATE_ACLS, CreateAclsRequest(creations), 3, root)
        listed = await node.ask(ApiKeys.DESCRIBE_ACLS, any_rule, 3, root)
        assert [(each.resource_name, [acl.operation for acl in each.acls]) for each in listed.resources] == [("t", [3, 4]), ("u", [3, 4])]
        mallory = ControllerRequestContext(principal=KafkaPrincipal("User", "mallory"))
        refused = await node.ask(ApiKeys.DESCRIBE_ACLS, any_rule, 3, mallory)
        assert refused.error_code == Errors.CLUSTER_AUTHORIZATION_FAILED and refused.resources == []

    scenario(test, tmp_path)


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


def test_events_that_wait_together_are_decided_one_after_the_other(tmp_path: pathlib.Path) -> None:
    async def test(node: Node) -> None:
        await node.start_broker()
        first, second = asyncio.ensure_future(node.create_topic("t")), asyncio.ensure_future(node.create_topic("t"))
        assert [await first, await second] == [Errors.NONE, Errors.TOPIC_ALREADY_EXISTS]

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


def test_a_mistake_over_one_event_ended_the_controller_for_good(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(node: Node) -> None:
        await node.start_broker()
        told: list[str] = []
        monkeypatch.setattr(node.runtime, "report_failure", lambda message, error: told.append(message))
        with pytest.raises(ApiException) as error:
            await node.controller.write("test", lambda: 1 // 0)  # type: ignore[arg-type, return-value]
        assert error.value.error is Errors.UNKNOWN_SERVER_ERROR
        assert told == ["the controller failed to process test"] and node.controller.fault_count == 1
        assert await node.create_topic("t") is Errors.NONE

    scenario(test, tmp_path)


def test_a_periodic_event_that_is_refused_comes_again(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(node: Node) -> None:
        told: list[str] = []
        monkeypatch.setattr(node.runtime, "report_failure", lambda message, error: told.append(message))
        elect = node.controller.replication.elections.elect_unclean
        again = asyncio.Event()

        def once() -> ControllerResult[None]:
            if not told:
                raise ApiException(Errors.UNKNOWN_SERVER_ERROR, "mistake")
            again.set()
            return elect()

        monkeypatch.setattr(node.controller.replication.elections, "elect_unclean", once)
        await asyncio.wait_for(again.wait(), REACHED_S)
        assert told == ["task controller/periodic ended unexpectedly and begins again in 100 ms"]
        assert node.controller.is_active

    scenario(test, tmp_path, unclean_election_interval_ms=10)


def test_the_owner_of_a_controller_that_failed_is_told(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(node: Node) -> None:
        await node.start_broker()
        failures: list[str] = []
        node.controller.on_fatal = failures.append
        monkeypatch.setattr(node.runtime, "report_failure", lambda message, error: None)
        monkeypatch.setattr(node.controller.loader, "handle_records", lambda *arguments: 1 // 0)
        with pytest.raises(ApiException) as error:
            await node.controller.write("test", lambda: ControllerResult([ApiMessageAndVersion(NoOpRecord(), 0)], None))
        assert error.value.error is Errors.NOT_CONTROLLER
        await asyncio.sleep(0)
        assert (
            failures == ["Shutdown controller: it failed: ZeroDivisionError('integer division or modulo by zero')"]
            and not node.controller.is_active
        )

    scenario(test, tmp_path)


def test_noops_while_idle(tmp_path: pathlib.Path) -> None:
    async def test(node: Node) -> None:
        end = node.controller.high_watermark
        await node.fetch(end, max_wait_ms=5_000)
        assert node.controller.high_watermark > end
        assert node.controller.image.topics.by_name == {}

    scenario(test, tmp_path, metadata_max_idle_interval_ms=20)


def envelope(key: ApiKeys, version: int, request: Any, *, principal: bytes | None = None) -> EnvelopeRequest:
    parts = encode_request(RequestHeader(key, version, 42, "client"), request)
    frame = b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]
    out = Writer()
    DefaultPrincipalData(type="User", name="alice").write(out, 0)
    serialized = b"\0\0" + out.to_bytes() if principal is None else principal
    return EnvelopeRequest(request_data=frame[4:], request_principal=serialized, client_host_address=bytes([10, 0, 0, 1]))


def test_a_forwarded_request_is_answered_in_its_own_version(tmp_path: pathlib.Path) -> None:
    async def test(node: Node) -> None:
        await node.start_broker()
        request = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
        answer = await node.ask(ApiKeys.ENVELOPE, envelope(ApiKeys.CREATE_TOPICS, 5, request))
        assert answer.error_code == 0
        correlation_id, response = read_response(ApiKeys.CREATE_TOPICS, 5, memoryview(answer.response_data))
        assert correlation_id == 42
        assert (response.topics[0].name, response.topics[0].error_code) == ("t", 0)

    scenario(test, tmp_path)


def test_envelopes_that_cannot_be_opened(tmp_path: pathlib.Path) -> None:
    async def test(node: Node) -> None:
        request = CreateTopicsRequest()
        for wrapped, code in [
            (EnvelopeRequest(request_data=b"\x00"), Errors.INVALID_REQUEST),
            (envelope(ApiKeys.BROKER_HEARTBEAT, 0, BrokerHeartbeatRequest()), Errors.INVALID_REQUEST),
            (envelope(ApiKeys.CREATE_TOPICS, 5, request, principal=b"\0"), Errors.PRINCIPAL_DESERIALIZATION_FAILURE),
            (envelope(ApiKeys.CREATE_TOPICS, 5, request, principal=b"\0\x09\0"), Errors.PRINCIPAL_DESERIALIZATION_FAILURE),
        ]:
            assert (await node.ask(ApiKeys.ENVELOPE, wrapped)).error_code == code

    scenario(test, tmp_path)


def test_what_the_listener_serves(tmp_path: pathlib.Path) -> None:
    async def served(node: Node) -> set[int]:
        return {entry.api_key for entry in (await node.ask(ApiKeys.API_VERSIONS, ApiVersionsRequest(), 4)).api_keys}

    async def plain(node: Node) -> None:
        keys = await served(node)
        assert {ApiKeys.FETCH, ApiKeys.BROKER_REGISTRATION, ApiKeys.ENVELOPE} <= keys
        assert ApiKeys.CREATE_MIRROR not in keys
        assert ApiKeys.PRODUCE not in keys
        refused = await node.ask(ApiKeys.CREATE_MIRROR, None)
        assert refused.error_code == Errors.UNSUPPORTED_VERSION

    async def mirroring(node: Node) -> None:
        assert {ApiKeys.CREATE_MIRROR, ApiKeys.BUMP_LEADER_EPOCHS} <= await served(node)

    scenario(plain, tmp_path / "plain")
    scenario(mirroring, tmp_path / "mirroring", unstable_api_versions_enable=True)


def test_quorum_and_cluster_described(tmp_path: pathlib.Path) -> None:
    async def test(node: Node) -> None:
        await node.fetch(0)
        topics = [DescribeQuorumRequestTopicData(topic_name="__cluster_metadata", partitions=[DescribeQuorumRequestPartitionData()])]
        answer = await node.ask(ApiKeys.DESCRIBE_QUORUM, DescribeQuorumRequest(topics=topics), 2)
        partition = answer.topics[0].partitions[0]
        assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (1, 1, node.controller.high_watermark)
        assert [replica.replica_id for replica in partition.current_voters] == [1]
        assert [replica.replica_id for replica in partition.observers] == [5]
        controllers = await node.ask(ApiKeys.DESCRIBE_CLUSTER, DescribeClusterRequest(endpoint_type=2), 1)
        assert [(b.broker_id, b.port) for b in controllers.brokers] == [(1, 9093)]
        brokers = await node.ask(ApiKeys.DESCRIBE_CLUSTER, DescribeClusterRequest(endpoint_type=1), 1)
        assert brokers.error_code == Errors.MISMATCHED_ENDPOINT_TYPE

    scenario(test, tmp_path)


def test_a_static_quorum_becomes_a_dynamic_one(tmp_path: pathlib.Path) -> None:
    """kraft.version 1: the log names its voter from there on, and a restart finds it (KIP-853)."""
    directory_id = Uuid(b"d" * 16)

    async def test(node: Node) -> None:
        update = FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=1)
        response = await node.ask(ApiKeys.UPDATE_FEATURES, UpdateFeaturesRequest(feature_updates=[update]), 2)
        assert (response.error_code, response.error_message) == (0, None)
        for restarted in (False, True):
            if restarted:
                await node.restart()
            assert node.controller.log.kraft_version == 1
            voters = node.controller.log.voters
            assert voters is not None
            assert [(voter.voter_id, voter.voter_directory_id) for voter in voters.voters] == [(1, directory_id)]
            versions = await node.ask(ApiKeys.API_VERSIONS, ApiVersionsRequest(), 4)
            finalized = {feature.name: feature.max_version_level for feature in versions.finalized_features}
            assert finalized["kraft.version"] == 1
            assert '"data_version":1' in (tmp_path / METADATA_LOG_FOLDER / "quorum-state").read_text()

    scenario(test, tmp_path, directory_id=str(directory_id))


def test_the_one_voter_stays_the_one_voter(tmp_path: pathlib.Path) -> None:
    directory_id, other = Uuid(b"d" * 16), Uuid(b"e" * 16)

    async def add(node: Node, **fields: Any) -> tuple[int, str | None]:
        request = AddRaftVoterRequest(**({"cluster_id": CLUSTER_ID, "voter_id": 5, "voter_directory_id": other} | fields))
        response = await node.ask(ApiKeys.ADD_RAFT_VOTER, request)
        return response.error_code, response.error_message

    async def remove(node: Node, voter_id: int, voter_directory_id: Uuid) -> tuple[int, str | None]:
        request = RemoveRaftVoterRequest(cluster_id=CLUSTER_ID, voter_id=voter_id, voter_directory_id=voter_directory_id)
        response = await node.ask(ApiKeys.REMOVE_RAFT_VOTER, request)
        return response.error_code, response.error_message

    async def test(node: Node) -> None:
        static = "voter because the kraft.version feature is 0"
        assert await add(node) == (Errors.UNSUPPORTED_VERSION, f"Cluster doesn't support adding {static}")
        assert await remove(node, 5, other) == (Errors.UNSUPPORTED_VERSION, f"Cluster doesn't support removing {static}")
        text = f'The given id "x" doesn\'t match the cluster id "{CLUSTER_ID}"'
        assert await add(node, cluster_id="x") == (Errors.INCONSISTENT_CLUSTER_ID, text)
        assert await remove(node, 1, Uuid.ZERO) == (Errors.INVALID_REQUEST, "Remove voter request didn't include a valid voter")
        update = FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=1)
        await node.ask(ApiKeys.UPDATE_FEATURES, UpdateFeaturesRequest(feature_updates=[update]), 2)
        us = f"ReplicaKey(id=1, directoryId={directory_id})"
        them = f"ReplicaKey(id=5, directoryId={other})"
        assert await remove(node, 5, other) == (Errors.VOTER_NOT_FOUND, f"Cannot remove voter {them} from the set of voters [{us}]")
        assert (await add(node, voter_id=1))[0] == Errors.DUPLICATE_VOTER
        assert (await add(node))[0] == Errors.INVALID_REQUEST
        changed = UpdateRaftVoterRequest(cluster_id=CLUSTER_ID, current_leader_epoch=node.controller.epoch, voter_id=5)
        answer = await node.ask(ApiKeys.UPDATE_RAFT_VOTER, changed)
        assert (answer.error_code, answer.current_leader.leader_id, answer.current_leader.port) == (Errors.VOTER_NOT_FOUND, 1, 9093)
        changed.voter_id = 1
        assert (await node.ask(ApiKeys.UPDATE_RAFT_VOTER, changed)).error_code == 0

    scenario(test, tmp_path, directory_id=str(directory_id))


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
