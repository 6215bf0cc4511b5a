"""`__transaction_state` as Apache Kafka wrote it: read, written again, and decided again from the
events behind it.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from support.logs.golden_vectors import golden_dir
from support.logs.storage_doubles import ManualClock

from kmirror.common.topic_partition import TopicPartition
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord, CoordinatorResult, ShardContext
from kmirror.coordinator.transaction.transaction_coordinator_shard import ProducerResult, TransactionConfig, TransactionCoordinatorShard
from kmirror.coordinator.transaction.transaction_log import read_transaction_record, transaction_record
from kmirror.coordinator.transaction.transaction_metadata import TransactionMetadata
from kmirror.coordinator.transaction.transaction_state import TransactionState
from kmirror.record.record_batch import iter_batches

CASE = golden_dir() / "03-txn-coordinator-topics" / "logs"
PARTITIONS = [0, 1, 2]
TRANSACTION_VERSION = 2


class NoTimer:
    """Nothing expires while a log is decided again."""

    def schedule(self, key: str, delay_ms: int, operation: object) -> None: ...

    def cancel(self, key: str) -> None: ...

    def is_scheduled(self, key: str) -> bool:
        return False


def records_of(folder: pathlib.Path) -> Iterator[CoordinatorRecord]:
    for batch in iter_batches((folder / "00000000000000000000.log").read_bytes()):
        assert batch.record_count == 1, "Kafka writes a batch for each change"
        for record in batch.records():
            assert record.key is not None and record.value is not None
            yield CoordinatorRecord(bytes(record.key), bytes(record.value))


@pytest.mark.parametrize("partition", PARTITIONS)
def test_records_are_read_and_written_byte_for_byte(partition: int) -> None:
    seen: set[TransactionState] = set()
    for record in records_of(CASE / f"__transaction_state-{partition}"):
        found = read_transaction_record(record)
        assert found is not None and found[1] is not None
        seen.add(found[1].state)
        assert transaction_record(found[1], transaction_version=TRANSACTION_VERSION) == record
    assert {TransactionState.EMPTY, TransactionState.ONGOING} < seen


@pytest.mark.parametrize("partition", PARTITIONS)
def test_the_same_requests_decide_the_same_bytes(partition: int) -> None:
    """Each record tells which request it answers and when; our shard, asked the same, must write
    the same record.
    """
    prepared: list[str] = []
    shard = TransactionCoordinatorShard(
        TransactionConfig(),
        ShardContext(TopicPartition("__transaction_state", partition), 0, NoTimer()),
        clock=ManualClock(0),
        transaction_version=lambda: TRANSACTION_VERSION,
        on_prepared=lambda _, transactional_id: prepared.append(transactional_id),
    )
    shard.on_loaded(0)
    count = 0
    for record in records_of(CASE / f"__transaction_state-{partition}"):
        found = read_transaction_record(record)
        assert found is not None and found[1] is not None
        decided = decide(shard, found[1])
        assert decided == [record], f"record {count}: {found[1]}"
        shard.replay(count, record, producer_id=-1, producer_epoch=-1)
        count += 1
    assert count > 20 and prepared, "the log has whole transactions"


def decide(shard: TransactionCoordinatorShard, then: TransactionMetadata) -> list[CoordinatorRecord]:
    before = shard.transaction(then.transactional_id)
    now_ms = then.last_update_timestamp_ms
    if then.state is TransactionState.EMPTY:
        initialized = shard.init_producer_id(
            then.transactional_id, timeout_ms=then.timeout_ms, expected=None, new_producer_id=then.producer_id, now_ms=now_ms
        )
        return initialized.records
    assert before is not None
    if then.state is TransactionState.ONGOING:
        added = [each for each in then.partitions if each not in before.partitions]
        return shard.add_partitions(
            then.transactional_id,
            then.producer_id,
            then.producer_epoch,
            added,
            client_transaction_version=then.client_transaction_version,
            now_ms=now_ms,
        ).records
    if then.state.is_prepared:
        ended: CoordinatorResult[ProducerResult] = shard.end_transaction(
            then.transactional_id,
            before.producer_id,
            before.producer_epoch,
            commit=then.state is TransactionState.PREPARE_COMMIT,
            client_transaction_version=then.client_transaction_version,
            new_producer_id=None,
            now_ms=now_ms,
        )
        return ended.records
    pending = shard.pending_completion(then.transactional_id, now_ms)
    assert pending is not None
    return shard.complete(pending).records
