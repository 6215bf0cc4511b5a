"""What Kafka 4.3 made of damaged and of killed partitions at start, and we make of them: every file
byte for byte.

`before/` is put into a data dir with the recorded checkpoints (and the clean-shutdown marker for
clean starts), loaded at the recorded time, and made leader, which costs one leader epoch. Then the
folder must equal `after.running/` while open, and `after/` after a clean shutdown.
"""

from __future__ import annotations

import json
import pathlib
import re
import shutil
from datetime import UTC, datetime

import pytest
from support.logs.golden_vectors import golden_cases, golden_dir, read_recording
from support.logs.storage_doubles import StorageWorld

from kmirror.common.errors import ApiException, CorruptFileError, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_manager import LogManager
from kmirror.storage.log_manager_config import LogManagerConfig
from kmirror.storage.offset_checkpoint_file import OffsetCheckpointFile
from kmirror.storage.unified_log import UnifiedLog

CASES = [case for case in golden_cases("11-") if (golden_dir() / case / "before").is_dir()]
WITHOUT_METADATA = [case for case in CASES if not (golden_dir() / case / "before" / "partition.metadata").exists()]
RECOVERED = [case for case in CASES if (golden_dir() / case / "after").is_dir() and case not in WITHOUT_METADATA]
REFUSED = [case for case in CASES if (golden_dir() / case / "after.failed-start").is_dir()]
BROKEN_SMALL_FILE = "epoch-file"
"""Cases whose file takes the log directory offline; where it is the only one, that ends a broker's
start.
"""


class Case:
    """A recorded case in a data dir of its own."""

    def __init__(self, name: str, data_dir: pathlib.Path) -> None:
        self.folder = golden_dir() / name
        self.topic_partition = self._recorded_partition(name)
        self.data_dir = data_dir
        shutil.copytree(self.folder / "before", data_dir / str(self.topic_partition), copy_function=shutil.copy)
        for path in [*(self.folder / "top.before").iterdir(), data_dir / str(self.topic_partition)]:
            if path.is_file():
                shutil.copy(path, data_dir)
        for path in data_dir.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        if "-clean-start-" in name and "-unclean-start-" not in name:
            (data_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
        self.world = StorageWorld(self._recorded_time_ms())
        self.log_config = LogConfig.from_props(json.loads((self.folder / "topic_config.json").read_text()))

    def _recorded_partition(self, name: str) -> TopicPartition:
        """The one that the broker's log tells about, else the one that the name of the case stands
        for.
        """
        text = read_recording(self.folder, "recovery.log.txt").decode()
        found = re.search(r"\[LogLoader partition=(\S+)-(\d+), dir=", text) or re.search(r"new partition (\S+)-(\d+) with topic ID", text)
        if found:
            return TopicPartition(found[1], int(found[2]))
        return TopicPartition(
            name.removeprefix("11-sigkill-").replace("11-damage-unclean-start-", "u-").replace("11-damage-clean-start-", "c-"), 0
        )

    def _recorded_time_ms(self) -> int:
        lines = read_recording(self.folder, "recovery.log.txt").decode().splitlines()
        text = next((line for line in lines if "LogLoader" in line), lines[-1])
        found = re.match(r"\[([^\],]*),(\d+)\]", text) or re.search(r"\[([^\],]*),(\d+)\]", "\n".join(lines))
        assert found, lines[:2]
        return int(datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()) * 1000 + int(found[2])

    def manager(self, *, stray_on_missing_partition_metadata: bool = False) -> LogManager:
        config = LogManagerConfig((str(self.data_dir),), stray_on_missing_partition_metadata=stray_on_missing_partition_metadata)
        return LogManager(
            config,
            files=self.world.files,
            clock=self.world.clock,
            random=self.world.random,
            scheduler=self.world.scheduler,
            default_log_config=self.log_config,
            topic_config=lambda topic: {},
        )

    def become_leader(self, log: UnifiedLog) -> None:
        """As the broker does after loading: the checkpointed high watermark, the next leader epoch,
        and as a lone replica the log end.
        """
        log.update_high_watermark(
            OffsetCheckpointFile(self.world.files, f"{self.data_dir}/replication-offset-checkpoint").read().get(self.topic_partition, 0)
        )
        epoch = int((self.folder / "after" / "leader-epoch-checkpoint").read_text().split("\n")[-2].split()[0])
        log.maybe_assign_epoch_start_offset(epoch, log.log_end_offset)
        log.update_high_watermark(log.log_end_offset)
        self.world.scheduler.run_due()

    def files(self) -> dict[str, bytes]:
        return contents(self.data_dir / str(self.topic_partition))


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def assert_same_files(actual: dict[str, bytes], expected: dict[str, bytes]) -> None:
    assert list(actual) == list(expected)
    assert [name for name in actual if actual[name] != expected[name]] == []


@pytest.mark.parametrize("name", RECOVERED)
def test_recovered_as_kafka_did(name: str, tmp_path: pathlib.Path) -> None:
    case = Case(name, tmp_path)
    manager = case.manager()
    manager.startup()
    log = manager.get_log(case.topic_partition)
    assert log is not None
    case.become_leader(log)
    for segment in log.log_segments:  # Kafka's indexes are memory mapped: what is in them is in the file
        segment.offset_index.write_pending()
        segment.time_index.write_pending()
    assert_same_files(case.files(), contents(case.folder / "after.running"))
    log_end_offset = log.log_end_offset
    manager.shutdown(broker_epoch=7)
    assert_same_files(case.files(), contents(case.folder / "after"))
    recovery_points = OffsetCheckpointFile(case.world.files, f"{tmp_path}/recovery-point-offset-checkpoint").read()
    expected = OffsetCheckpointFile(case.world.files, str(case.folder / "top.after" / "recovery-point-offset-checkpoint")).read()
    assert recovery_points == {case.topic_partition: log_end_offset}
    assert expected[case.topic_partition] == log_end_offset
    assert (tmp_path / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("name", [case for case in RECOVERED if not case.startswith("11-damage-clean-start")])
def test_recovering_twice_changes_nothing(name: str, tmp_path: pathlib.Path) -> None:
    """A crash right after a recovery: the second one finds what the first one left."""
    case = Case(name, tmp_path)
    manager = case.manager()
    manager.startup()
    log = manager.get_log(case.topic_partition)
    assert log is not None
    first_end_offset = log.log_end_offset
    manager.handle_log_dir_failure(str(tmp_path), OSError(5, "the plug was pulled"))
    again = case.manager()
    again.startup()
    log = again.get_log(case.topic_partition)
    assert log is not None
    assert log.log_end_offset == first_end_offset
    again.shutdown()


@pytest.mark.parametrize("name", [name for name in REFUSED if BROKEN_SMALL_FILE not in name])
def test_refused_with_file_and_position(name: str, tmp_path: pathlib.Path) -> None:
    """Kafka does not start on these; neither do we, and nothing that holds data is touched."""
    case = Case(name, tmp_path)
    before = {file: data for file, data in case.files().items() if file.endswith(".log")}
    with pytest.raises(CorruptFileError) as caught:
        case.manager().startup()
    assert caught.value.path.startswith(str(tmp_path / str(case.topic_partition)))
    assert caught.value.position >= 0
    assert f"{caught.value.path}: at byte {caught.value.position}: " in str(caught.value)
    assert {file: data for file, data in case.files().items() if file.endswith(".log")} == before


@pytest.mark.parametrize("name", [name for name in REFUSED if BROKEN_SMALL_FILE in name])
def test_the_only_directory_goes_offline(name: str, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    """Kafka does not start on these; nor does a broker of ours without a directory.

    Nothing that holds data is touched.
    """
    case = Case(name, tmp_path)
    before = {file: data for file, data in case.files().items() if file.endswith(".log")}
    manager = case.manager()
    manager.startup()
    assert [str(path) for path in manager.offline_log_dirs] == [str(tmp_path)]
    assert manager.get_log(case.topic_partition) is None
    assert re.search(rf"{re.escape(str(tmp_path / str(case.topic_partition)))}/[a-z-]+: at byte [0-9]+: ", caplog.text)
    assert {file: data for file, data in case.files().items() if file.endswith(".log")} == before


@pytest.mark.parametrize("name", WITHOUT_METADATA)
def test_a_partition_without_its_metadata_is_refused_and_left_as_it_is(name: str, tmp_path: pathlib.Path) -> None:
    case = Case(name, tmp_path)
    before = case.files()
    manager = case.manager()
    manager.startup()
    assert manager.get_log(case.topic_partition) is None
    with pytest.raises(ApiException, match=r"partition\.metadata is missing") as caught:
        manager.get_or_create_log(case.topic_partition, topic_id=Uuid(b"x" * 16), is_new=True)
    assert caught.value.error is Errors.KAFKA_STORAGE_ERROR
    manager.shutdown()
    assert case.files() == before


@pytest.mark.parametrize("name", WITHOUT_METADATA)
def test_a_partition_without_its_metadata_is_set_aside_where_that_is_configured(name: str, tmp_path: pathlib.Path) -> None:
    case = Case(name, tmp_path)
    before = case.files()
    manager = case.manager(stray_on_missing_partition_metadata=True)
    manager.startup()
    strays = [path for path in tmp_path.iterdir() if path.name.endswith("-stray")]
    assert len(strays) == 1
    assert contents(strays[0])["00000000000000000000.log"] == before["00000000000000000000.log"]
    log = manager.get_or_create_log(case.topic_partition, topic_id=Uuid(b"x" * 16), is_new=True)
    case.become_leader(log)
    manager.shutdown()
    expected = contents(case.folder / "after")
    metadata = case.files()["partition.metadata"]
    assert metadata == b"version: 0\ntopic_id: eHh4eHh4eHh4eHh4eHh4eA"
    assert_same_files(case.files(), {**expected, "partition.metadata": metadata})
