"""The set of a cluster's logs: what metadata and brokers say together, and what a verdict about logs
says of those that it did not see.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.logs.log_folders import batches, write_log
from support.mirrors.mirror_harness import create_topic

from kmirror import EmbeddedCluster
from kmirror.admin.log_dirs import LogDirDescription, ReplicaInfo
from kmirror.admin.results import PartitionDescription, TopicDescription
from kmirror.cli.kmirror import main
from kmirror.cli.live_inventory import LiveSet, judged
from kmirror.cli.log_diff import main as log_diff
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid

HERE = ReplicaInfo(1, 0, is_future=False)


def topic(*replicas: list[int]) -> dict[str, TopicDescription]:
    rows = [PartitionDescription(number, brokers[0], 0, brokers, brokers) for number, brokers in enumerate(replicas)]
    return {"t": TopicDescription("t", Uuid(b"t" * 16), False, rows)}


def directory(path: str, *partitions: int, is_offline: bool = False, moving: tuple[int, ...] = ()) -> LogDirDescription:
    infos = {TopicPartition("t", number): HERE for number in partitions}
    infos |= {TopicPartition("t", number): ReplicaInfo(1, 0, is_future=True) for number in moving}
    return LogDirDescription(path, ApiException(Errors.KAFKA_STORAGE_ERROR, "gone") if is_offline else None, infos, -1, -1)


def kinds(found: LiveSet) -> list[tuple[str, str]]:
    return [(one.kind, one.log) for one in found.findings]


def test_each_replica_where_the_metadata_has_it() -> None:
    found = judged(topic([1, 2], [2]), {1: [directory("a", 0), directory("b")], 2: [directory("c", 0, 1)]})
    assert (kinds(found), found.unseen, found.partitions, found.replicas, found.brokers) == ([], [], 2, 3, 2)


def test_a_replica_that_no_directory_has_and_logs_that_are_nobodys() -> None:
    found = judged(topic([1, 2], [2]), {1: [directory("a", 1, 5)], 2: [directory("c", 0, 1), directory("d", 1)]})
    assert kinds(found) == [
        ("missing", "broker 1, t-0"),
        ("nobodys", "broker 1, t-1"),
        ("nobodys", "broker 1, t-5"),
        ("twice", "broker 2, t-1"),
    ]


def test_a_move_to_another_directory_is_no_second_log_and_does_not_replace_the_first() -> None:
    assert kinds(judged(topic([1]), {1: [directory("a", 0), directory("b", moving=(0,))]})) == []
    assert kinds(judged(topic([1]), {1: [directory("a"), directory("b", moving=(0,))]})) == [("missing", "broker 1, t-0")]


def test_what_was_not_seen_is_said_and_not_missing() -> None:
    found = judged(topic([1, 3], [2]), {1: [directory("a", is_offline=True)], 2: [directory("c", 1)], 3: "no answer"})
    assert kinds(found) == []
    assert found.unseen == [
        "1 replicas of broker 3, which did not say what it has (no answer)",
        "1 replicas of broker 1, which has a directory that is offline",
    ]


def test_a_running_cluster_says_which_logs_it_has(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with EmbeddedCluster() as cluster:
        create_topic(cluster.bootstrap_servers, "t", 3)
        live = f"bootstrap:{cluster.bootstrap_servers}"
        assert main(["verify-logs", live]) == 0
        told = capsys.readouterr().out
        assert "3 partitions, 3 replicas, 1 brokers asked: no replica is missing there, and none is nobody's" in told
        assert "not looked at: what is in the logs (give their directories)" in told
        assert main(["verify-logs", live, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["findings"] == []
        assert main(["verify-logs", live, "--deep"]) == 2
        assert "--deep is for directories" in capsys.readouterr().err
        write_log(tmp_path / "b" / "t-0")
        assert log_diff([live, str(tmp_path / "b")]) == 1
        told = capsys.readouterr().out
        assert "set of A: 3 partitions, 2 of them not in B (t-1, t-2), nothing known to be missing or nobody's\n" in told
        assert "set of B: 1 partition, nothing known to be missing or nobody's; not looked at: which partitions belong here" in told


def test_equal_logs_are_not_an_equal_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both sides lacked a partition that both checkpoints name: every log was equal."""
    for side in ("a", "b"):
        write_log(tmp_path / side / "t-0", *batches(3))
        (tmp_path / side / "replication-offset-checkpoint").write_text("0\n2\nt 0 15\nt 1 15\n")
    sides = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert log_diff(sides) == 1
    told = capsys.readouterr().out
    assert "set of A: 1 partition, 1 found; not looked at: which partitions belong here" in told
    assert f"missing: {tmp_path}/a/t-1: replication-offset-checkpoint" in told
    assert log_diff([*sides, "--json"]) == 1
    assert [len(one["findings"]) for one in json.loads(capsys.readouterr().out)["sets"]] == [1, 1]
    assert log_diff([*sides, "--partitions", "0"]) == 0
    assert " found" not in capsys.readouterr().out
