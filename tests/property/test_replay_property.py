"""Replay is a monoid, and agrees with storage: random logs, random cuts at batch boundaries, random
trees of merges.
"""

from __future__ import annotations

import pathlib
import pickle
import random

import pytest
from support.logs.golden_vectors import golden_cases, golden_dir
from support.logs.replay_stories import PARTITION, Story, random_slices, the_partition

from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.reader import PartitionFiles, read_partition
from kmirror.verify.replay.folder import replay_folder, replay_partition
from kmirror.verify.replay.partial import ReplayPartial, merge
from kmirror.verify.replay.plan import cuts_of
from kmirror.verify.replay.slice_replay import replay_slice

FILES = OsFileSystem()
LIFE = ("roll", "epoch", "epoch", "reset", "restart")
ROUGH = (*LIFE, "crash", "truncate")


def random_tree(chance: random.Random, parts: list[ReplayPartial]) -> ReplayPartial:
    """Neighbours are merged in any order; each has been through a pickle, as between machines, and
    there is nothing here and there.
    """
    parts = [pickle.loads(pickle.dumps(part)) for part in parts]
    for _ in range(3):
        parts.insert(chance.randrange(len(parts) + 1), ReplayPartial())
    while len(parts) > 1:
        at = chance.randrange(len(parts) - 1)
        parts[at : at + 2] = [merge(parts[at], parts[at + 1])]
    return parts[0]


def assert_any_tree_is_the_whole(partition: PartitionFiles, seed: int, *, trees: int = 3) -> None:
    whole = replay_partition(FILES, partition)
    for number in range(trees):
        chance = random.Random(1000 * seed + number)
        pieces = random_slices(chance, partition, cuts=(1, 6, 40)[number % 3])
        block_bytes = chance.choice((100, 1000, 1 << 20))
        parts = [replay_slice(FILES, piece, cuts=cuts_of([partition])[partition.path], block_bytes=block_bytes) for piece in pieces]
        assert random_tree(chance, parts) == whole


@pytest.mark.parametrize("seed", range(15))
def test_random_cuts_and_trees_are_the_whole(tmp_path: pathlib.Path, seed: int) -> None:
    story = Story(tmp_path, seed, others=ROUGH)
    story.tell(120)
    story.end()
    assert_any_tree_is_the_whole(the_partition(tmp_path), seed)


@pytest.mark.parametrize("seed", range(15))
def test_nothing_is_wrong_with_what_storage_wrote(tmp_path: pathlib.Path, seed: int) -> None:
    story = Story(tmp_path, seed, others=ROUGH if seed % 2 else LIFE)
    story.tell(150)
    producers = {
        producer: (entry.producer_epoch, entry.last_sequence, entry.last_data_offset, entry.last_timestamp, entry.coordinator_epoch, entry.current_txn_first_offset)
        for producer, entry in story.log.producer_state_manager.active_producers.items()
    }  # fmt: skip
    ends = (story.log.log_start_offset, story.log.log_end_offset)
    aborted = [each for segment in story.log.log_segments for each in segment.txn_index.all_aborted_txns()]
    unstable = story.log.producer_state_manager.first_undecided_offset
    story.end()
    tables = replay_folder(FILES, str(tmp_path))
    assert tables.findings == []
    (log,) = tables.logs
    assert (log.log_start_offset, log.log_end_offset, log.first_unstable_offset) == (*ends, unstable)
    found = {
        row.producer_id: tuple(
            -1 if value is None else value
            for value in (row.producer_epoch, row.last_sequence, row.last_offset, row.last_timestamp, row.coordinator_epoch)
        )
        + (row.first_open_offset,)
        for row in tables.producers
    }
    assert found == producers
    rows = [row for row in tables.transactions if row.state == "ABORTED"]
    assert [(row.producer_id, row.first_offset, row.last_offset, row.last_stable_offset) for row in rows] == [
        tuple(each) for each in aborted
    ]
    assert all(row.wrong == 0 for row in tables.indexes)


@pytest.mark.parametrize("seed", range(15))
def test_nothing_is_wrong_with_a_log_that_lost_its_beginning(tmp_path: pathlib.Path, seed: int) -> None:
    story = Story(tmp_path, seed, others=(*LIFE, "truncate", "retention", "delete_records"))
    story.tell(200)
    story.end()
    assert replay_folder(FILES, str(tmp_path)).findings == []
    assert_any_tree_is_the_whole(the_partition(tmp_path), seed, trees=2)


@pytest.mark.parametrize("seed", range(15))
def test_nothing_is_wrong_with_a_compacted_log(tmp_path: pathlib.Path, seed: int) -> None:
    story = Story(tmp_path, seed, others=(*LIFE, "clean", "clean", "wait"), policy="compact")
    story.tell(200)
    story.end()
    assert replay_folder(FILES, str(tmp_path)).findings == []
    assert_any_tree_is_the_whole(the_partition(tmp_path), seed, trees=2)


@pytest.mark.parametrize("case", golden_cases("03-", "05-", "06-", "07-", "20-"))
def test_random_cuts_and_trees_of_what_apache_wrote(case: str) -> None:
    for folder in sorted({path.parent for path in (golden_dir() / case).rglob("*.log") if path.is_file()}):
        partition = read_partition(FILES, str(folder), TopicPartition("any", 0))
        if partition.segments and partition.size < 1 << 20:
            assert_any_tree_is_the_whole(partition, len(case), trees=2)


@pytest.mark.parametrize("seed", range(8))
def test_what_recovery_makes_of_bare_segments_is_what_replay_says(tmp_path: pathlib.Path, seed: int) -> None:
    """Without any index or snapshot storage recovers all of them from the segments; replay has
    nothing to say against one.
    """
    story = Story(tmp_path, seed, others=ROUGH)
    story.tell(150)
    story.end()
    before = replay_folder(FILES, str(tmp_path))
    for suffix in ("index", "timeindex", "txnindex", "snapshot"):
        for path in (tmp_path / str(PARTITION)).glob(f"*.{suffix}"):
            path.unlink()
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (tmp_path / name).unlink()
    story.restart_after_a_loss()
    after = replay_folder(FILES, str(tmp_path))
    assert after.findings == []
    assert (after.producers, after.transactions, after.leader_epochs) == (before.producers, before.transactions, before.leader_epochs)
    assert all(row.entries == row.exact for row in after.indexes)
