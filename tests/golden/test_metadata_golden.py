"""`__cluster_metadata` and formatted directories of Apache Kafka 4.3.0: read, replayed, and written
again to the same bytes.
"""

from __future__ import annotations

import pathlib

import pytest
from support.brokers.metadata_doubles import ScriptedClock
from support.logs.golden_vectors import COMMITTED, golden_dir, read_recording
from support.logs.storage_doubles import SeededRandom

from kmirror.common.uuid import Uuid
from kmirror.controller.quorum_state import read_quorum_state
from kmirror.controller.storage_tool import FormatOptions, format_node
from kmirror.metadata.features import METADATA_VERSION_NAMES
from kmirror.metadata.image import ConfigResource, MetadataImage, MetadataProvenance
from kmirror.metadata.loader import MetadataLoader, replay_all
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.metadata.snapshot import SnapshotId, build_data_batch, decode_snapshot, encode_snapshot
from kmirror.record.record_batch import RecordBatch, iter_batches
from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.meta_properties import read_meta_properties
from kmirror.wire.records import read_metadata_record, write_metadata_record

CASES = sorted(case for case in golden_dir().glob("09-metadata-*") if case.is_dir())
LOGS = [path for case in CASES for path in sorted(case.rglob("*.log"))]
SNAPSHOTS = [path for case in CASES for path in sorted(case.rglob("*.checkpoint"))]
FORMATTED = [case for case in CASES if case.name.endswith("-formatted")]


def short(path: pathlib.Path) -> str:
    return "/".join(path.relative_to(golden_dir()).parts)


def versioned_records(batch: RecordBatch) -> list[ApiMessageAndVersion]:
    """The records of a data batch with the version each was written in (the third byte: frame
    version, type, version).
    """
    return [ApiMessageAndVersion(read_metadata_record(record.value), record.value[2]) for record in batch.records()]


def loaded(path: pathlib.Path) -> MetadataLoader:
    loader = MetadataLoader()
    loader.handle_commit(path.read_bytes())
    return loader


@pytest.mark.parametrize("path", LOGS, ids=short)
def test_every_batch_of_a_metadata_log_is_encoded_to_the_same_bytes(path: pathlib.Path) -> None:
    batches = [batch for batch in iter_batches(path.read_bytes()) if not batch.is_control]
    assert batches
    for batch in batches:
        records = versioned_records(batch)
        again = build_data_batch(
            records, base_offset=batch.base_offset, leader_epoch=batch.partition_leader_epoch, time_ms=batch.max_timestamp
        )
        assert bytes(again) == bytes(batch.memory)


@pytest.mark.parametrize("path", SNAPSHOTS, ids=short)
def test_snapshots_are_encoded_to_the_same_bytes(path: pathlib.Path) -> None:
    data = path.read_bytes()
    snapshot = decode_snapshot(data, str(path))
    batches = list(iter_batches(data))
    records = [record for batch in batches if not batch.is_control for record in versioned_records(batch)]
    again = encode_snapshot(
        records,
        ScriptedClock(*(batch.max_timestamp for batch in batches)),
        last_contained_log_timestamp=snapshot.last_contained_log_timestamp,
        epoch=batches[0].partition_leader_epoch,
        kraft_version=snapshot.kraft_version,
        voters=snapshot.voters,
    )
    assert again == data


@pytest.mark.parametrize(
    "path", [path for path in SNAPSHOTS if (SnapshotId.parse(path.name) or SnapshotId(0, 0)).end_offset > 0], ids=short
)
def test_a_snapshot_says_what_the_log_before_it_says(path: pathlib.Path) -> None:
    """Our image of the log up to the snapshot's end equals our image of Kafka's snapshot, and
    writes the same records.
    """
    snapshot_id = SnapshotId.parse(path.name)
    assert snapshot_id is not None
    loader = MetadataLoader()
    for batch in iter_batches((path.parent / "00000000000000000000.log").read_bytes()):
        if batch.last_offset < snapshot_id.end_offset:
            loader.handle_commit(batch.memory)
    snapshot = decode_snapshot(path.read_bytes(), str(path))
    image = replay_all(snapshot.records, loader.image.provenance)
    assert image == loader.image
    assert sorted(repr(record.message) for record in image.records()) == sorted(repr(record) for record in snapshot.records)
    provenance = loader.image.provenance
    assert (provenance.last_contained_offset, provenance.last_contained_epoch) == (snapshot_id.end_offset - 1, snapshot_id.epoch)
    assert provenance.last_contained_log_time_ms == snapshot.last_contained_log_timestamp


@pytest.mark.parametrize("path", LOGS, ids=short)
def test_an_image_survives_its_own_snapshot(path: pathlib.Path) -> None:
    image = loaded(path).image
    assert replay_all([record.message for record in image.records()], image.provenance) == image
    for record in image.records():
        assert read_metadata_record(write_metadata_record(record.message, record.version)) == record.message


@pytest.mark.parametrize("path", LOGS, ids=short)
def test_a_snapshot_over_another_image_leaves_nothing_of_it(path: pathlib.Path) -> None:
    loader, other = loaded(path), loaded(LOGS[0] if path != LOGS[0] else LOGS[-1])
    other.handle_load_snapshot([record.message for record in loader.image.records()], loader.image.provenance)
    assert other.image == loader.image


of_the_committed = pytest.mark.skipif(not COMMITTED, reason="says what the operations of the repository's own recording made")


def operations_image(case: str) -> MetadataImage:
    return loaded(golden_dir() / case / "logs/__cluster_metadata-0/00000000000000000000.log").image


@of_the_committed
def test_the_image_is_what_the_operations_made_it() -> None:
    image = operations_image("09-metadata-dynamic-quorum")
    assert sorted(image.topics.by_name) == ["m1", "m2"]
    assert len(image.topics.by_name["m1"].partitions) == 3
    assert image.configs.topic("m1") == {"cleanup.policy": "compact,delete", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.3"}
    assert image.configs.topic("m2") == {"compression.type": "zstd"}, "m2 was deleted and made again"
    assert image.configs.broker(1) == {"log.cleaner.threads": "1"}
    assert image.configs.cluster_default() == {"message.max.bytes": "900000", "min.insync.replicas": "1"}
    assert image.configs.props(ConfigResource(32, "g1")) == {"consumer.session.timeout.ms": "50000"}
    assert image.configs.props(ConfigResource(16, "cm1"))["interval.ms"] == "60000"
    levels = {"metadata.version": 30, "group.version": 1, "share.version": 1, "streams.version": 1, "transaction.version": 2}
    assert image.features.finalized_levels == levels, "transaction.version went down and up, eligible.leader.replicas.version to 0"
    assert image.next_producer_id == 1000
    assert len(image.acls) == 5
    assert [user for _, user in image.scram] == ["bob"]
    assert len(image.client_quotas) == 4
    broker = image.cluster.brokers[1]
    assert (broker.epoch, broker.fenced, broker.in_controlled_shutdown) == (13, True, True)
    partition = image.topics.by_name["m1"].partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.isr) == (-1, 1, (1,)), (
        "a clean stop takes the leader away and keeps the ISR"
    )


@of_the_committed
def test_a_restart_raises_the_leader_epoch_by_two_and_the_stop_by_one() -> None:
    image = operations_image("09-metadata-dynamic-quorum-snapshots-restarted")
    assert image.topics.by_name["m1"].partitions[0].leader_epoch == 3
    assert image.topics.by_name["w1"].partitions[0].leader_epoch == 1


@pytest.mark.parametrize("case", [case for case in CASES if (case / "logs").is_dir()], ids=lambda case: case.name)
def test_quorum_state_is_written_to_the_same_bytes(case: pathlib.Path) -> None:
    path = case / "logs/__cluster_metadata-0/quorum-state"
    state = read_quorum_state(OsFileSystem(), str(path))
    assert state is not None
    assert state.to_json().encode() == path.read_bytes()


class GoldenNode:
    """The node that a formatted case was made for."""

    def __init__(self, case: pathlib.Path, target: pathlib.Path) -> None:
        lines = (line.partition("=") for line in (case / "broker.properties").read_text().splitlines())
        self._props = {key: value for key, _, value in lines}
        self.node_id = int(self._props["node.id"])
        self.is_controller = True
        self.log_dirs = (str(target),)
        self.metadata_log_dir = str(target)
        self.unstable_feature_versions_enable = False

    @property
    def quorum_voters(self) -> dict[int, tuple[str, int]]:
        return {self.node_id: ("127.0.0.1", 0)} if "controller.quorum.voters" in self._props else {}

    @property
    def controller_listeners(self) -> list[GoldenListener]:
        text = next(entry for entry in self._props["listeners"].split(",") if entry.startswith("CONTROLLER"))
        return [GoldenListener("CONTROLLER", "127.0.0.1", int(text.rpartition(":")[2]))]


class GoldenListener:
    def __init__(self, name: str, host: str, port: int) -> None:
        self.name, self.host, self.port = name, host, port


class GoldenPorts:
    def __init__(self, clock: ScriptedClock) -> None:
        self.files, self.clock, self.random = OsFileSystem(), clock, SeededRandom(1)


def format_options(case: pathlib.Path, target: pathlib.Path) -> FormatOptions:
    words = read_recording(case, "operations.txt").decode().replace('"c2FsdHNhbHQ="', "'c2FsdHNhbHQ='").replace("'", '"').split()
    properties = read_meta_properties(OsFileSystem(), str(case / "data"))
    assert properties is not None and properties.directory_id is not None
    return FormatOptions(
        cluster_id=words[words.index("-t") + 1],
        standalone="--standalone" in words,
        release_version=words[words.index("--release-version") + 1] if "--release-version" in words else None,
        add_scram=[words[words.index("--add-scram") + 1]] if "--add-scram" in words else [],
        directory_ids={str(target): properties.directory_id},
    )


def batch_times(path: pathlib.Path) -> list[int]:
    return [batch.max_timestamp for batch in iter_batches(path.read_bytes())]


@pytest.mark.parametrize("case", FORMATTED, ids=lambda case: case.name)
def test_format_writes_the_same_directory(case: pathlib.Path, tmp_path: pathlib.Path) -> None:
    target = tmp_path / "data"
    times = batch_times(case / "data/bootstrap.checkpoint")
    zero = case / "data/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
    if zero.exists():
        times += [decode_snapshot(zero.read_bytes(), str(zero)).last_contained_log_timestamp, *batch_times(zero)]
    times.append(0)
    lines = format_node(GoldenNode(case, target), format_options(case, target), GoldenPorts(ScriptedClock(*times)))
    kind = "dynamic metadata voter directory" if zero.exists() else "metadata directory"
    written = decode_snapshot((case / "data/bootstrap.checkpoint").read_bytes(), "bootstrap.checkpoint").records
    level = next(record.feature_level for record in written if getattr(record, "name", None) == "metadata.version")
    release = METADATA_VERSION_NAMES[level]
    assert lines[1:] == [f"Formatting {kind} {target} with metadata.version {release}."]
    names = sorted(str(path.relative_to(case / "data")) for path in (case / "data").rglob("*") if path.is_file())
    assert sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()) == names
    for name in names:
        ours, theirs = (target / name).read_bytes(), (case / "data" / name).read_bytes()
        if name == "meta.properties":
            ours, theirs = ours.split(b"\n", 2)[2], theirs.split(b"\n", 2)[2]
        assert ours == theirs, name


def test_provenance_of_an_empty_image() -> None:
    assert MetadataImage.EMPTY.is_empty()
    assert MetadataImage.EMPTY.provenance == MetadataProvenance(-1, -1, -1)
    assert Uuid.ZERO not in MetadataImage.EMPTY.topics.by_id
