"""Which logs have to be in a cluster's data dirs, by the metadata log and the checkpoints."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.logs.inventory_cluster import DIRECTORIES, FILES, TOPIC, Cluster
from support.logs.log_folders import TIME

from kmirror.cli.kmirror import main
from kmirror.common.uuid import Uuid
from kmirror.storage.meta_properties import MetaProperties, write_meta_properties
from kmirror.wire.messages.no_op_record import NoOpRecord
from kmirror.wire.messages.partition_change_record import PartitionChangeRecord
from kmirror.wire.messages.remove_topic_record import RemoveTopicRecord


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path / "cluster")


class Said:
    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        capsys.readouterr()
        self.code = main(["verify-logs", str(folder)])
        self.text = capsys.readouterr().out
        self.kinds = [line.split(":")[0].strip() for line in self.text.splitlines() if line.strip().startswith("inventory")]

    @property
    def unseen(self) -> str:
        return self.text.rpartition("not looked at: ")[2]


def test_a_replica_in_the_directory_that_the_metadata_names_is_where_it_has_to_be(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.assign(0, 1, 2, directories="bc")
    cluster.log("b", "t-0")
    cluster.log("c", "t-0")
    said = Said(cluster.folder, capsys)
    assert (said.code, said.kinds) == (0, []), said.text
    shutil.rmtree(cluster.folder / "b" / "t-0")
    said = Said(cluster.folder, capsys)
    assert (said.code, said.kinds) == (
        1,
        ["inventory missing"],
    ) and "each sound, but not the set of them" in said.text
    shutil.rmtree(cluster.folder / "b")
    said = Said(cluster.folder, capsys)
    assert (said.code, said.kinds) == (
        0,
        [],
    ) and "1 replicas in log directories that are not in the input" in said.unseen


def test_replicas_of_brokers_that_are_not_in_the_input_are_not_judged(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.assign(0, 1, 7)
    cluster.log("a", "t-0")
    said = Said(cluster.folder, capsys)
    assert (said.code, said.kinds) == (
        0,
        [],
    ) and "1 replicas of brokers that are not in the input (7)" in said.unseen


def test_a_data_dir_that_lost_everything_is_still_one(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.assign(0, 2)
    assert Said(cluster.folder, capsys).kinds == ["inventory missing"], "nothing of broker 2 is left but meta.properties"


def test_a_partition_that_two_checkpoints_name_is_missing_also_without_the_metadata_log(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(cluster.folder / "a" / "__cluster_metadata-0")
    cluster.log("b", "t-0")
    for file in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        cluster.checkpoint("b", "t-0", "t-1", file=file)
    said = Said(cluster.folder, capsys)
    assert said.kinds == ["inventory missing"] and "which partitions belong here (the input has no __cluster_metadata" in said.unseen
    cluster.log("a", "t-1")
    assert Said(cluster.folder, capsys).kinds == [], "it was moved to another directory of its broker"


@pytest.mark.parametrize("aside", ["delete", "stray", "future"])
def test_what_a_broker_set_aside_is_counted_and_not_missed(cluster: Cluster, capsys: pytest.CaptureFixture[str], aside: str) -> None:
    cluster.assign(0, 1)
    cluster.log("b", f"t-0.0123456789abcdef0123456789abcdef-{aside}")
    cluster.checkpoint("b", "t-0")
    said = Said(cluster.folder, capsys)
    assert said.kinds == [] and f"folders set aside: 1 -{aside}" in said.unseen


def test_logs_of_a_removed_topic_of_no_replica_and_of_no_partition_are_nobody_s(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.assign(0, 1)
    cluster.log("a", "t-0")
    cluster.log("c", "t-0")
    cluster.log("b", "t-5")
    said = Said(cluster.folder, capsys)
    assert said.kinds == ["inventory nobodys"] * 2
    assert "broker 2 is no replica" in said.text and "has no partition 5 of t" in said.text
    cluster.note(RemoveTopicRecord(topic_id=TOPIC))
    cluster.checkpoint("b", "t-9")
    said = Said(cluster.folder, capsys)
    assert said.kinds == ["inventory nobodys"] * 3, "what a stale checkpoint names of a removed topic is no loss"


def test_a_running_broker_that_is_about_to_follow_the_metadata_is_not_blamed(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    for name in DIRECTORIES:
        (cluster.folder / name / ".kafka_cleanshutdown").unlink()
    cluster.assign(0, 1)
    cluster.assign(1, 1, at=1_000)
    cluster.log("a", "t-0")
    cluster.log("c", "t-0")
    cluster.note(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, replicas=[1]), at=1_000)
    assert Said(cluster.folder, capsys).kinds == []
    cluster.note(NoOpRecord(), at=100_000)
    assert sorted(Said(cluster.folder, capsys).kinds) == ["inventory missing", "inventory nobodys"]


def test_a_log_that_lies_twice_a_folder_that_is_none_and_an_empty_one(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.assign(0, 1)
    cluster.log("a", "t-0")
    cluster.log("b", "t-0")
    for name in ("backup", "t-1", "remote-log-index-cache"):
        (cluster.folder / "b" / name).mkdir()
    said = Said(cluster.folder, capsys)
    assert sorted(said.kinds) == ["inventory empty", "inventory name", "inventory twice"]


def test_another_topic_s_id_is_found_with_and_without_the_metadata_log(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        cluster.assign(number, 1)
        cluster.log("a", f"t-{number}", topic_id=Uuid(b"o" * 16) if number == 1 else TOPIC)
    said = Said(cluster.folder, capsys)
    assert said.kinds == ["inventory topic_id"] and "the metadata log says" in said.text
    shutil.rmtree(cluster.folder / "a" / "__cluster_metadata-0")
    said = Said(cluster.folder, capsys)
    assert said.kinds == ["inventory topic_id"] and "other partitions say" in said.text


def test_a_part_of_the_logs_is_no_set(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.assign(0, 1)
    cluster.log("a", "t-0")
    assert main(["verify-logs", str(cluster.folder), "--topics", "t"]) == 0
    assert "which partitions belong here, and internal topics against the logs (only some" in capsys.readouterr().out


def test_directories_that_claim_the_same_ids_are_told(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    """A data dir and its copy, given at once, were two sound data dirs."""
    cluster.assign(0, 1)
    cluster.log("a", "t-0")
    shutil.copytree(cluster.folder / "a", cluster.folder / "d")
    said = Said(cluster.folder, capsys)
    assert sorted(said.kinds) == ["inventory directory_id", "inventory node_id", "inventory twice"], said.text
    write_meta_properties(FILES, str(cluster.folder / "d"), MetaProperties("x", 1, Uuid(b"d" * 16)), time_ms=TIME)
    assert sorted(Said(cluster.folder, capsys).kinds) == ["inventory node_id", "inventory twice"]


def test_a_directory_of_another_cluster_is_named(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.assign(0, 1)
    cluster.log("a", "t-0")
    cluster.log("c", "t-0")
    write_meta_properties(FILES, str(cluster.folder / "c"), MetaProperties("y", 2, DIRECTORIES["c"]), time_ms=TIME)
    said = Said(cluster.folder, capsys)
    assert "whether data dirs of 2 clusters belong together" in said.unseen and "cluster y has c" in said.unseen
    (cluster.folder / "b" / "meta.properties").unlink()
    cluster.log("b", "t-3")
    assert "whose 1 data dirs without meta.properties are" in Said(cluster.folder, capsys).unseen
