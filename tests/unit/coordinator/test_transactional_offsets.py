"""Offsets committed in a transaction: pending until its marker, gone with an abort, the same after
the log is read again.
"""

from __future__ import annotations

import pytest
from support.coordinators.group_doubles import ShardHarness

from kmirror.common.errors import ApiException, Errors
from kmirror.coordinator.group.group_records import OffsetAndMetadata, offset_commit_record, offset_commit_tombstone
from kmirror.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic


class Shard(ShardHarness):
    """A shard with one offset to look at."""

    def commit(self, offset: int, producer_id: int = -1) -> None:
        self.append(offset_commit_record("g", "t", 0, OffsetAndMetadata(offset, -1, "", 1)), producer_id)

    @property
    def committed(self) -> int | None:
        found = self.shard.offsets.offset("g", "t", 0)
        return None if found is None else found.offset

    @property
    def is_open(self) -> bool:
        return self.shard.offsets.has_open_transaction("g", "t", 0)


def test_a_transactional_offset_counts_from_its_commit_marker_on() -> None:
    log = Shard()
    log.commit(5)
    log.commit(9, producer_id=7)
    assert (log.committed, log.is_open) == (5, True)
    log.end_transaction(7, committed=True)
    assert (log.committed, log.is_open) == (9, False)


def test_an_aborted_transactional_offset_never_counts() -> None:
    log = Shard()
    log.commit(9, producer_id=7)
    log.end_transaction(7, committed=False)
    assert (log.committed, log.is_open) == (None, False)


def test_a_transaction_that_ends_late_does_not_undo_a_newer_commit() -> None:
    log = Shard()
    log.commit(3, producer_id=7)
    log.commit(8)
    log.end_transaction(7, committed=True)
    assert log.committed == 8


def test_two_producers_keep_the_offset_unstable_until_both_have_ended() -> None:
    log = Shard()
    log.commit(3, producer_id=7)
    log.commit(4, producer_id=8)
    log.end_transaction(7, committed=True)
    assert (log.committed, log.is_open) == (3, True)
    log.end_transaction(8, committed=False)
    assert (log.committed, log.is_open) == (3, False)


def test_a_tombstone_drops_what_is_pending() -> None:
    log = Shard()
    log.commit(3, producer_id=7)
    log.append(offset_commit_tombstone("g", "t", 0))
    assert not log.is_open
    log.end_transaction(7, committed=True)
    assert log.committed is None


def test_deleting_a_group_deletes_its_pending_offsets_too() -> None:
    log = Shard()
    log.commit(3, producer_id=7)
    result = log.shard.delete_groups(["g"])
    for record in result.records:
        log.append(record)
    log.end_transaction(7, committed=True)
    assert log.committed is None


def test_a_transactional_commit_of_an_unknown_generation_is_refused_and_a_simple_one_is_not() -> None:
    log = Shard()
    topics = [TxnOffsetCommitRequestTopic(name="t", partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)])]
    with pytest.raises(ApiException) as raised:
        log.shard.offsets.commit_transactional(TxnOffsetCommitRequest(group_id="g", generation_id=3, member_id="m", topics=topics), 1)
    assert raised.value.error is Errors.ILLEGAL_GENERATION
    result = log.shard.offsets.commit_transactional(TxnOffsetCommitRequest(group_id="g", topics=topics), 1)
    assert len(result.records) == 1 and result.atomic
