"""The internal topics of a data dir over time, and what they and the logs contradict each other in."""

from __future__ import annotations

from pathlib import Path

import pytest

from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord
from kmirror.coordinator.group.group_records import OffsetAndMetadata, offset_commit_key, offset_commit_record
from kmirror.coordinator.transaction.transaction_log import transaction_record
from kmirror.coordinator.transaction.transaction_metadata import TransactionMetadata
from kmirror.coordinator.transaction.transaction_state import TransactionState
from kmirror.mirror.coordination.mirror_records import last_mirror_epochs_record, partition_state_record, tombstones
from kmirror.mirror.mirror_state_machine import VALID_TRANSITIONS, MirrorPartitionState
from kmirror.record.builder import build_batch
from kmirror.record.control_record import ControlRecordType, build_end_transaction_marker, build_mirror_pid_reset
from kmirror.record.record import Record
from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.partition_metadata_file import encode_partition_metadata
from kmirror.verify.replay.folder import replay_folder
from kmirror.verify.replay.tables import ReplayTables
from kmirror.verify.replay.timelines import MIRROR_STEPS, STATE_NAMES
from kmirror.wire.messages.config_record import ConfigRecord
from kmirror.wire.messages.partition_change_record import PartitionChangeRecord
from kmirror.wire.messages.partition_record import PartitionRecord
from kmirror.wire.messages.remove_topic_record import RemoveTopicRecord
from kmirror.wire.messages.topic_record import TopicRecord
from kmirror.wire.records import write_metadata_record

FILES = OsFileSystem()
TIME = 1_750_000_000_000
TOPIC_ID = Uuid(b"topic-id-of-data")
_S = MirrorPartitionState


class DataDir:
    """Logs written batch by batch; every record has its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.logs: dict[str, list[bytes]] = {}
        self.ends: dict[str, int] = {}
        self.epochs: dict[str, dict[int, int]] = {}
        self.time = TIME

    def add(self, log: str, value: bytes | None, *, key: bytes | None = None, producer_id: int = -1, epoch: int = 0) -> int:
        offset = self.ends.get(log, 0)
        self.time += 1000
        self.epochs.setdefault(log, {}).setdefault(epoch, offset)
        is_transactional = producer_id >= 0
        data = build_batch(
            [Record(offset, self.time, key, value, [])],
            base_offset=offset,
            partition_leader_epoch=epoch,
            producer_id=producer_id,
            producer_epoch=0 if is_transactional else -1,
            base_sequence=offset if is_transactional else -1,
            is_transactional=is_transactional,
        )
        return self._put(log, bytes(data))

    def record(self, log: str, record: CoordinatorRecord, *, producer_id: int = -1) -> int:
        return self.add(log, record.value, key=record.key, producer_id=producer_id)

    def metadata(self, *records: object) -> None:
        for record in records:
            self.add("__cluster_metadata-0", write_metadata_record(record, 0))  # type: ignore[arg-type]

    def end_transaction(self, log: str, producer_id: int, kind: ControlRecordType) -> None:
        offset = self.ends.get(log, 0)
        marker = build_end_transaction_marker(
            kind,
            coordinator_epoch=0,
            producer_id=producer_id,
            producer_epoch=0,
            timestamp=self.time,
            base_offset=offset,
            partition_leader_epoch=0,
        )
        self._put(log, bytes(marker))

    def _put(self, log: str, data: bytes) -> int:
        offset = self.ends.get(log, 0)
        self.logs.setdefault(log, []).append(data)
        self.ends[log] = offset + 1
        return offset

    def replay(self) -> ReplayTables:
        for log, parts in self.logs.items():
            path = self.folder / log
            path.mkdir(parents=True, exist_ok=True)
            (path / f"{0:020d}.log").write_bytes(b"".join(parts))
            lines = [f"{epoch} {start}\n" for epoch, start in self.epochs[log].items()]
            (path / "leader-epoch-checkpoint").write_text(f"0\n{len(lines)}\n{''.join(lines)}")
        (self.folder / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
        tables = replay_folder(FILES, str(self.folder))
        told = [finding for finding in tables.findings if finding.table != "transactions" or finding.kind == "hanging"]
        tables.findings = [finding for finding in told if finding.table != "inventory"]  # the metadata lacks most topics
        return tables


@pytest.fixture
def data_dir(tmp_path: Path) -> DataDir:
    return DataDir(tmp_path)


def commit(offset: int, *, partition: int = 0) -> CoordinatorRecord:
    return offset_commit_record("g", "data", partition, OffsetAndMetadata(offset, 0, "", TIME))


# groups
def test_a_group_beyond_the_log_is_found(data_dir: DataDir) -> None:
    for _ in range(5):
        data_dir.add("data-0", b"x")
    data_dir.record("__consumer_offsets-0", commit(2))
    last = data_dir.record("__consumer_offsets-0", commit(5))
    assert data_dir.replay().findings == []
    data_dir.record("__consumer_offsets-0", commit(4, partition=7))  # of a partition that is not here
    last = data_dir.record("__consumer_offsets-0", commit(6))
    tables = data_dir.replay()
    (finding,) = tables.findings
    assert (finding.table, finding.kind, finding.first_offset) == ("group_offsets", "beyond_end", last)
    assert "group g has committed 6 of data-0, and the log ends at 5" in finding.text
    assert [row.committed_offset for row in tables.group_offsets] == [2, 5, 4, 6]
    assert [row.findings for row in tables.logs if row.topic == "__consumer_offsets"] == [1]


def test_a_commit_that_was_deleted_is_beyond_nothing(data_dir: DataDir) -> None:
    data_dir.add("data-0", b"x")
    data_dir.record("__consumer_offsets-0", commit(6))
    data_dir.record("__consumer_offsets-0", CoordinatorRecord(offset_commit_key("g", "data", 0), None))
    tables = data_dir.replay()
    assert tables.findings == []
    assert [row.committed_offset for row in tables.group_offsets] == [6, None]


def test_a_transactional_commit_counts_when_it_was_committed(data_dir: DataDir) -> None:
    data_dir.add("data-0", b"x")
    data_dir.record("__consumer_offsets-0", commit(7), producer_id=11)
    data_dir.end_transaction("__consumer_offsets-0", 11, ControlRecordType.ABORT)
    data_dir.record("__consumer_offsets-0", commit(8), producer_id=12)
    tables = data_dir.replay()
    assert tables.findings == []
    assert [row.state for row in tables.group_offsets] == ["ABORTED", "ONGOING"]
    data_dir.end_transaction("__consumer_offsets-0", 12, ControlRecordType.COMMIT)
    tables = data_dir.replay()
    assert [row.state for row in tables.group_offsets] == ["ABORTED", "COMMITTED"]
    assert [finding.kind for finding in tables.findings] == ["beyond_end"]


def test_a_record_that_cannot_be_decoded_is_a_finding(data_dir: DataDir) -> None:
    data_dir.record("__consumer_offsets-0", commit(1))
    offset = data_dir.add("__consumer_offsets-0", b"\0\x63", key=offset_commit_key("g", "data", 0))
    (finding,) = data_dir.replay().findings
    assert (finding.table, finding.kind, finding.first_offset) == ("records", "corrupt", offset)
    assert "OffsetCommitValue of version 99" in finding.text


# mirrors
def test_the_steps_are_those_of_the_state_machine() -> None:
    assert {int(state): frozenset(map(int, following)) for state, following in VALID_TRANSITIONS.items()} == MIRROR_STEPS
    assert [state.name for state in _S if state is not _S.UNKNOWN] == list(STATE_NAMES)


def state(state: MirrorPartitionState) -> CoordinatorRecord:
    return partition_state_record("m", "data", 0, state)


def test_a_step_that_the_state_machine_has_not_is_found(data_dir: DataDir) -> None:
    log = "__mirror_state-3"
    for each in (_S.PREPARING, _S.PREPARING, _S.MIRRORING, _S.STOPPING, _S.STOPPED):
        data_dir.record(log, state(each))
    data_dir.record(log, last_mirror_epochs_record("m", {("data", 0): 4}))
    assert data_dir.replay().findings == []
    offset = data_dir.record(log, state(_S.MIRRORING))
    tables = data_dir.replay()
    (finding,) = tables.findings
    assert (finding.table, finding.kind, finding.first_offset) == ("mirror_states", "step", offset)
    assert "data-0 of mirror m goes from STOPPED to MIRRORING" in finding.text
    assert [row.previous_state for row in tables.mirror_states] == [None, 0, 0, 1, 4, 5]
    assert [(row.mirrored_topic, row.epoch) for row in tables.last_mirror_epochs] == [("data", 4)]


def test_a_mirror_that_was_deleted_begins_anew(data_dir: DataDir) -> None:
    log = "__mirror_state-3"
    data_dir.record(log, state(_S.STOPPED))
    for record in tombstones("m"):
        data_dir.record(log, record)
    data_dir.record(log, state(_S.PREPARING))
    assert data_dir.replay().findings == []


def test_a_topic_that_was_deleted_begins_anew(data_dir: DataDir) -> None:
    log = "__mirror_state-3"
    data_dir.metadata(TopicRecord(name="data", topic_id=TOPIC_ID))
    for each in (_S.PREPARING, _S.MIRRORING, _S.PAUSING, _S.PAUSED):
        data_dir.record(log, state(each))
    data_dir.metadata(RemoveTopicRecord(topic_id=TOPIC_ID))
    data_dir.record(log, state(_S.PREPARING))
    assert data_dir.replay().findings == []


@pytest.mark.parametrize("has_reset", [True, False])
def test_a_reset_that_is_not_there_is_found(data_dir: DataDir, has_reset: bool) -> None:
    with_topic(data_dir)
    data_dir.add("data-0", b"x")
    if has_reset:
        reset = build_mirror_pid_reset("A" * 22, timestamp=TIME, base_offset=data_dir.ends["data-0"], partition_leader_epoch=0)
        data_dir._put("data-0", bytes(reset))
    for each in (_S.PREPARING, _S.MIRRORING, _S.STOPPING):
        data_dir.record("__mirror_state-3", state(each))
    assert data_dir.replay().findings == []
    data_dir.record("__mirror_state-3", state(_S.STOPPED))
    findings = data_dir.replay().findings
    assert [(finding.topic, finding.table, finding.kind) for finding in findings] == (
        [] if has_reset else [("data", "mirror_states", "reset_missing")]
    )
    data_dir.metadata(RemoveTopicRecord(topic_id=TOPIC_ID))  # what is there now is another topic of the name
    assert data_dir.replay().findings == []


# the controller
def with_topic(data_dir: DataDir, *records: object) -> None:
    data_dir.metadata(
        TopicRecord(name="data", topic_id=TOPIC_ID),
        PartitionRecord(partition_id=0, topic_id=TOPIC_ID, replicas=[1], isr=[1], leader=1, leader_epoch=0, partition_epoch=0),
        PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=-1),
        PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=1),
        PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[1]),
        *records,
    )
    path = data_dir.folder / "data-0"
    path.mkdir()
    (path / "partition.metadata").write_bytes(encode_partition_metadata(TOPIC_ID))


def test_a_leader_epoch_that_no_leader_had_is_found(data_dir: DataDir) -> None:
    with_topic(data_dir)
    for epoch in (0, 2):
        data_dir.add("data-0", b"x", epoch=epoch)
    tables = data_dir.replay()
    assert tables.findings == []
    assert [row.leader_epoch for row in tables.leaders] == [0, None, None]
    data_dir.add("data-0", b"x", epoch=3)
    (finding,) = data_dir.replay().findings
    assert (finding.table, finding.kind, finding.first_offset) == ("leaders", "epoch", 2)
    assert "leader epoch 3, which no leader had; the metadata log knows 0 to 2" in finding.text


def test_a_mirror_has_the_epochs_of_its_source(data_dir: DataDir) -> None:
    with_topic(data_dir, ConfigRecord(resource_type=2, resource_name="data", name="mirror.name", value="m"))
    data_dir.add("data-0", b"x", epoch=33)
    assert data_dir.replay().findings == []


@pytest.mark.parametrize("policy", ["compact", "compact,delete", "delete", None])
def test_the_metadata_log_says_which_logs_may_have_gaps(data_dir: DataDir, policy: str | None) -> None:
    with_topic(data_dir, *([ConfigRecord(resource_type=2, resource_name="data", name="cleanup.policy", value=policy)] if policy else []))
    for _ in range(3):
        data_dir.add("data-0", b"x")
    data_dir.logs["data-0"].pop(1)
    (data_dir.folder / "data-0" / f"{3:020d}.log").touch()
    findings = data_dir.replay().findings
    assert [finding.kind for finding in findings] == ([] if "compact" in (policy or "") else ["gap"])


def test_a_snapshot_stands_for_the_metadata_log_in_front_of_it(data_dir: DataDir) -> None:
    with_topic(data_dir)
    for epoch in (1, 2, 3):
        data_dir.add("data-0", b"x", epoch=epoch)
    data_dir.logs["data-0"].pop(1)
    folder = data_dir.folder / "__cluster_metadata-0"
    folder.mkdir()
    snapshot = data_dir.logs.pop("__cluster_metadata-0")
    (folder / f"{100:020d}.log").write_bytes(b"")
    (folder / f"{100:020d}-{1:010d}.checkpoint").write_bytes(b"".join(snapshot))
    findings = [(finding.table, finding.kind) for finding in data_dir.replay().findings]
    assert findings == [("structure", "gap"), ("leaders", "epoch")]


# transactions
def transaction(state: TransactionState, *partitions: TopicPartition) -> CoordinatorRecord:
    metadata = TransactionMetadata(
        transactional_id="id",
        producer_id=11,
        producer_epoch=0,
        state=state,
        timeout_ms=1000,
        last_update_timestamp_ms=TIME,
        partitions=partitions,
    )
    return transaction_record(metadata, transaction_version=0)


DATA = TopicPartition("data", 0)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (transaction(TransactionState.ONGOING, DATA), None),
        (transaction(TransactionState.PREPARE_ABORT, DATA), None),
        (transaction(TransactionState.COMPLETE_COMMIT), "its transactional id id is in none"),
        (transaction(TransactionState.ONGOING, TopicPartition("other", 0)), "that of id has no part in this partition"),
        (None, "no transactional id has that producer"),
    ],
)
def test_a_transaction_that_hangs_is_found(data_dir: DataDir, record: CoordinatorRecord | None, reason: str | None) -> None:
    with_topic(data_dir)
    data_dir.record("__transaction_state-1", transaction(TransactionState.EMPTY) if record is not None else tombstone())
    first = data_dir.add("data-0", b"x", producer_id=11)
    if record is not None:
        data_dir.record("__transaction_state-1", record)
    findings = data_dir.replay().findings
    assert [(finding.kind, finding.first_offset) for finding in findings] == ([] if reason is None else [("hanging", first)])
    assert reason is None or reason in findings[0].text


def tombstone() -> CoordinatorRecord:
    return CoordinatorRecord(transaction(TransactionState.EMPTY).key, None)


def test_each_cluster_in_a_folder_has_its_own_topics(tmp_path: Path) -> None:
    """The same names in two clusters: the groups of one say nothing about the logs of the other."""
    for name, end in (("north", 9), ("south", 2)):
        cluster = DataDir(tmp_path / name)
        for _ in range(end):
            cluster.add("data-0", b"x")
        cluster.record("__consumer_offsets-0", commit(end))
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "meta.properties").write_text(
            f"#\n#now\nversion=1\ncluster.id={name}\nnode.id=1\ndirectory.id={Uuid(name.encode().ljust(16))}\n"
        )
        assert cluster.replay().findings == []
    tables = replay_folder(FILES, str(tmp_path))
    assert [finding for finding in tables.findings if finding.table == "group_offsets"] == []
    assert len({row.log for row in tables.group_offsets}) == 2
