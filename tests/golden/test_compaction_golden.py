"""The compaction table over logs that Apache Kafka's cleaner went through twice, with the
checkpoint that it wrote.
"""

from __future__ import annotations

import json

import pytest
from support.logs.golden_vectors import golden_cases, golden_dir, read_recording

from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.reader import read_partition
from kmirror.verify.planner import Listing
from kmirror.verify.replay.claims import DataDirClaims, read_data_dir_claims, read_partition_claims
from kmirror.verify.replay.close import close_partition
from kmirror.verify.replay.close_compaction import close_compaction, key_scope
from kmirror.verify.replay.compaction import KeyLog, count_keys
from kmirror.verify.replay.folder import replay_partition
from kmirror.verify.replay.tables import ReplayTables

FILES = OsFileSystem()
CASES = golden_cases("05-")


def looked_at(case: str, stage: str, checkpoint: str) -> ReplayTables:
    """The log as of a stage (before, after1, after2) with the checkpoint as of another.

    Nothing is left out, as for a topic that never deletes.
    """
    folder = golden_dir() / case
    name = TopicPartition(json.loads(read_recording(folder, "produce.json"))["topic"], 0)
    said = read_data_dir_claims(FILES, str(folder / f"top.{checkpoint}"))
    cleaned = {"cleaner": said.offsets["cleaner"]} if checkpoint != "before" else {}
    data_dir = DataDirClaims(said.path, cleaned, at_rest=True).of(name)
    (path,) = {segment.parent for segment in (folder / stage).rglob("*.log") if segment.is_file()}
    partition = read_partition(FILES, str(path), name)
    tables = close_partition(
        replay_partition(FILES, partition), read_partition_claims(FILES, partition, data_dir), compacted_topics=(name.topic,)
    )
    scope = key_scope(tables, data_dir, never_deletes=True, now_ms=None)
    assert scope is not None
    listing = Listing(str(path), str(path), [partition], True, {})
    close_compaction(tables, count_keys(FILES, KeyLog(list(listing.slices(FILES, partition)), 0, scope), None), scope, data_dir)
    return tables


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("stage", ["before", "after1", "after2"])
def test_what_apache_cleaned_is_clean(case: str, stage: str) -> None:
    tables = looked_at(case, stage, stage)
    assert [finding for finding in tables.findings if finding.table == "compaction"] == []
    (row,) = tables.compaction
    assert (row.cleaned_offset is None) == (stage == "before") and row.keys


@pytest.mark.parametrize("case", CASES)
def test_what_apache_had_not_cleaned_yet_is_not(case: str) -> None:
    """The log of before under the checkpoint of after: what the pass removed stands below it."""
    found = [finding for finding in looked_at(case, "before", "after1").findings if finding.table == "compaction"]
    assert found and {finding.kind for finding in found} == {"superseded"}


@pytest.mark.parametrize("case", [case for case in CASES if "delete" not in case])
def test_what_is_removable_is_what_apache_removed(case: str) -> None:
    """Below the offset to which its pass came: superseded records and data of aborted transactions,
    nothing else.
    """
    before = looked_at(case, "before", "before").compaction[0]
    after = looked_at(case, "after1", "after1").compaction[0]
    assert after.cleaned_offset == before.first_uncleanable_offset
    assert before.records - after.records == before.removable_records + (before.aborted_records - after.aborted_records) > 0
    assert (before.keys, before.live_keys) == (after.keys, after.live_keys)
