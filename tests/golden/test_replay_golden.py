"""Replay of every log directory that Apache Kafka wrote: what it wrote beside its segments is what
the segments say. Damaged ones are named.
"""

from __future__ import annotations

import pathlib

import pytest
from support.logs.golden_vectors import golden_cases, golden_dir

from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.reader import read_partition
from kmirror.verify.replay.claims import DataDirClaims, read_partition_claims
from kmirror.verify.replay.close import close_partition
from kmirror.verify.replay.folder import replay_folder, replay_partition
from kmirror.verify.replay.tables import ReplayTables

FILES = OsFileSystem()
SOUND_AS_THEY_ARE = {
    "index-zeroed": "a look-up in zeros begins at the segment's first batch",
    "leader-epoch-0": "epoch 0 is the epoch",
    "no-index-files": "an index that is not there says nothing",
    "no-partition-metadata": "nothing of the log",
    "no-snapshots": "nor does a snapshot",
    "no-timeindex-files": "nor a time index",
    "nothing-wrong": "nothing",
    "nothing-wrong-rp0": "nothing",
}
"""Damage of the 11 cases that contradicts nothing in the log."""


def folders(case: str) -> list[pathlib.Path]:
    return sorted({path.parent for path in (golden_dir() / case).rglob("*.log") if path.is_file()})


def replayed(case: str, folder: pathlib.Path) -> ReplayTables:
    partition = read_partition(FILES, str(folder), TopicPartition("t", 0))
    is_compacted = case.startswith(("05-", "08-", "03-txn-coordinator"))
    was_running = "running" in folder.parts[-1] or "running" in folder.parts[-2] or "kill9" in case
    claims = read_partition_claims(FILES, partition, DataDirClaims(at_rest=not was_running))
    return close_partition(replay_partition(FILES, partition), claims, compacted_topics=("t",) if is_compacted else ())


@pytest.mark.parametrize("case", [case for case in golden_cases() if not case.startswith("11-")])
def test_nothing_is_wrong_with_what_apache_wrote(case: str) -> None:
    for folder in folders(case):
        assert replayed(case, folder).findings == [], folder


@pytest.mark.parametrize("case", golden_cases("11-damage-unclean", "11-damage-clean"))
def test_damage_is_found_before_apache_mended_it(case: str) -> None:
    damage = case.removeprefix("11-damage-").removeprefix("unclean-start-").removeprefix("clean-start-")
    (folder,) = [folder for folder in folders(case) if folder.name == "before"]
    findings = replayed(case, folder).findings
    assert bool(findings) == (damage not in SOUND_AS_THEY_ARE), findings
    if damage.startswith("crc"):
        assert "crc" in {finding.kind for finding in findings}
    if damage.startswith("tail-cut"):
        assert {"beyond_end", "torn"} & {finding.kind for finding in findings}


RECOVERED = ("tail", "trailing", "crc-last", "active", "length", "rp0", "nothing-wrong", "snapshot", "kill9-cut")


@pytest.mark.parametrize(
    "case", [case for case in golden_cases("11-damage-unclean", "11-sigkill") if any(part in case for part in RECOVERED)]
)
def test_nothing_is_wrong_where_apache_recovered_the_last_segment(case: str) -> None:
    """What lies below the recovery point Apache leaves as it is, so damage there stays."""
    for folder in folders(case):
        if folder.name == "after":
            assert replayed(case, folder).findings == []


@pytest.mark.parametrize("case", golden_cases("03-txn-coordinator-topics", "08-", "09-"))
def test_every_record_of_apache_s_own_topics_is_read(case: str) -> None:
    for folder in sorted((golden_dir() / case).glob("logs*")):
        tables = replay_folder(FILES, str(folder))
        assert tables.findings == []
        if case.startswith("03-"):
            assert {row.state for row in tables.coordinator_transactions} >= {1, 4, 5}
            assert {row.state for row in tables.group_offsets} >= {"COMMITTED", "ABORTED"}
        elif case == "08-consumer-offsets":
            assert {row.kind for row in tables.groups} == {"classic", "consumer", "share"}
            assert any(row.committed_offset is None for row in tables.group_offsets)
        elif case.startswith("09-") and not case.endswith("-formatted"):
            assert tables.leaders and {"created", "removed", "cleanup.policy"} <= {row.event for row in tables.topics}
