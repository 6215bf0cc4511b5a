"""The small files of a log directory, each of them empty, torn, garbage or of another version: what
the start makes of it.

The expectation is what Apache Kafka 4.3.0 did with such files (tried by hand, one directory and
two), but for what ends it by a mistake of its own: an empty or torn `partition.metadata` and a word
where a checkpoint has a number end its start with a stack trace; here such a file is its
directory's. Nothing that holds records is changed, and with the file whole again everything is
there.
"""

from __future__ import annotations

import pathlib

import pytest
from support.logs.log_scenes import producer_batch
from support.logs.storage_doubles import StorageWorld

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_manager import LogManager
from kmirror.storage.log_manager_config import LogManagerConfig

TOPIC_ID = Uuid(b"topic-id-16bytes")
PARTITIONS = [TopicPartition("t", number) for number in range(4)]
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "leader-epoch-checkpoint",
)
DAMAGES = ("empty", "torn", "garbage", "version", "word")
KINDS = (*CHECKPOINTS, "partition.metadata", ".kafka_cleanshutdown", "*.snapshot")


def damaged(kind: str, damage: str) -> bytes:
    if damage in ("empty", "garbage"):
        return b"" if damage == "empty" else b"\xff\xfe\0garbage"
    if kind == "partition.metadata":
        return {"torn": b"version: 0\ntopic_id: abc", "version": b"version: -1\ntopic_id: abc", "word": b"hello\n"}[damage]
    line = b"0" if kind == "leader-epoch-checkpoint" else b"t 0"
    return {"torn": b"0\n2\n" + line + b" 0\n", "version": b"7\n0\n", "word": b"0\n1\n" + line + b" abc\n"}[damage]


def goes_offline(kind: str, damage: str) -> bool:
    """A checkpoint without a byte has no entries; the marker and the snapshots of producers only
    save work.
    """
    return kind == "partition.metadata" or (kind in CHECKPOINTS and damage != "empty")


class Machine:
    """Four partitions with records over the directories, shut down."""

    def __init__(self, root: pathlib.Path, dirs: int) -> None:
        self.paths = [root / str(number) for number in range(dirs)]
        self.world = StorageWorld()
        self.told: list[str] = []
        manager = self.start()
        for partition in PARTITIONS:
            log = manager.get_or_create_log(partition, topic_id=TOPIC_ID, is_new=True)
            for sequence in range(3):
                log.append_as_leader(producer_batch(sequence), leader_epoch=sequence)
        for path in map(str, self.paths):
            manager.checkpoint_high_watermarks(path, {log.topic_partition: 3 for log in manager.logs_in_dir(path).values()})
        manager.shutdown()

    def start(self) -> LogManager:
        manager = LogManager(
            LogManagerConfig(tuple(map(str, self.paths)), transaction_verification_enabled=False),
            files=self.world.files,
            clock=self.world.clock,
            random=self.world.random,
            scheduler=self.world.scheduler,
            default_log_config=LogConfig(),
            topic_config=lambda topic: {},
            on_log_dir_failure=lambda log_dir, error: self.told.append(log_dir),
        )
        manager.startup()
        self.use_the_rest(manager)
        return manager

    @staticmethod
    def use_the_rest(manager: LogManager) -> None:
        """What is read behind the start: by the first leader or follower of a directory, and by the
        cleaner.
        """
        for path in manager.live_log_dirs:
            try:
                manager.read_high_watermarks(path)
            except ApiException as error:
                assert error.error is Errors.KAFKA_STORAGE_ERROR
        assert manager.cleaner is not None
        manager.cleaner.manager.all_cleaner_checkpoints()
        manager.handle_reported_failures()

    def logs(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for root in self.paths for path in sorted(root.rglob("*.log"))}


@pytest.mark.parametrize("dirs", [1, 2])
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_small_file_that_makes_no_sense_is_its_directorys(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, kind: str, damage: str, dirs: int
) -> None:
    machine = Machine(tmp_path, dirs)
    root = machine.paths[0]
    path = next(root.rglob(kind))
    before, whole = machine.logs(), path.read_bytes()
    path.write_bytes(damaged(kind, damage))
    manager = machine.start()
    offline = [str(root)] if goes_offline(kind, damage) else []
    assert manager.offline_log_dirs == offline and machine.told == offline
    assert {log.parent_dir for log in manager.all_logs()} == {str(each) for each in machine.paths} - set(offline)
    assert all(log.log_end_offset == 3 for log in manager.all_logs())
    if offline:
        assert f"{path}: at byte " in caplog.text and "restore the file or move it away, and start again" in caplog.text
        assert path.read_bytes() == damaged(kind, damage), "a file that nobody understands is left as it is"
        path.write_bytes(whole)
    manager.kill()
    assert machine.logs() == before
    machine.told.clear()
    again = machine.start()
    assert not again.offline_log_dirs and [log.log_end_offset for log in again.all_logs()] == [3] * len(PARTITIONS)
    assert all(log.latest_epoch == 2 for log in again.all_logs()) or kind == "leader-epoch-checkpoint"
    again.shutdown()


@pytest.mark.parametrize("damage", [damage for damage in DAMAGES if damage != "empty"])
def test_a_cleaner_checkpoint_that_makes_no_sense_does_not_say_that_nothing_was_cleaned(tmp_path: pathlib.Path, damage: str) -> None:
    """A cut asks how far the cleaner has been; "nowhere" would let it cut what only the cleaner
    made different (C36b).
    """
    machine = Machine(tmp_path, 1)
    manager = machine.start()
    machine.paths[0].joinpath("cleaner-offset-checkpoint").write_bytes(damaged("cleaner-offset-checkpoint", damage))
    with pytest.raises(ApiException) as caught:
        manager.cleaned_until(manager.all_logs()[0])
    assert caught.value.error is Errors.KAFKA_STORAGE_ERROR
    manager.handle_reported_failures()
    assert manager.offline_log_dirs == [str(machine.paths[0])]
