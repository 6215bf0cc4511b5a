"""What the transaction coordinator's shard decides: ids, epochs, ends, fencing, timeouts, expiry,
restarts.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.coordinators.transaction_doubles import TIMEOUT_MS, ShardWorld

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.coordinator.transaction.transaction_coordinator_shard import ProducerResult, TransactionFilter
from kmirror.coordinator.transaction.transaction_log import read_transaction_record, transaction_record
from kmirror.coordinator.transaction.transaction_metadata import TransactionMetadata
from kmirror.coordinator.transaction.transaction_state import TransactionState

S = TransactionState
A, B = TopicPartition("a", 0), TopicPartition("b", 3)
PRODUCER = (1001, 0)


def begun(world: ShardWorld, *, version: int = 2) -> tuple[int, int]:
    """A producer with an open transaction in A; its id and epoch."""
    result = world.init()
    assert result.error is Errors.NONE
    producer = (result.producer_id, result.producer_epoch)
    assert world.add(producer, A, version=version) is Errors.NONE
    return producer


def at_epoch(world: ShardWorld, epoch: int, *, state: TransactionState = S.EMPTY, version: int = 2) -> None:
    """The id as a log says that it reached `epoch`."""
    metadata = TransactionMetadata(
        transactional_id="tx",
        producer_id=1001,
        previous_producer_id=1001,
        producer_epoch=epoch,
        timeout_ms=TIMEOUT_MS,
        state=state,
        partitions=(A,) if state is S.ONGOING else (),
        start_timestamp_ms=world.now_ms if state is S.ONGOING else -1,
        last_update_timestamp_ms=world.now_ms,
        client_transaction_version=version,
    )
    world.next_producer_id = 1001
    world.log.append(transaction_record(metadata, transaction_version=2))
    world.restart()


def test_a_transaction_of_version_2_bumps_the_epoch_at_its_end() -> None:
    world = ShardWorld()
    assert world.init() == ProducerResult(Errors.NONE, *PRODUCER)
    assert world.add(PRODUCER, A) is Errors.NONE
    assert world.add(PRODUCER, B, A) is Errors.NONE
    assert world.state().partitions == (A, B)
    assert world.end(PRODUCER, commit=True) == ProducerResult(Errors.NONE, 1001, 1)
    assert (world.state().state, world.state().producer_epoch, world.prepared) == (S.PREPARE_COMMIT, 1, ["tx"])
    assert world.end(PRODUCER, commit=True).error is Errors.CONCURRENT_TRANSACTIONS, "the same end again, while it is written"
    assert world.add((1001, 1), A) is Errors.CONCURRENT_TRANSACTIONS
    assert world.init().error is Errors.CONCURRENT_TRANSACTIONS
    assert world.complete() and not world.complete()
    assert world.end(PRODUCER, commit=True) == ProducerResult(Errors.NONE, 1001, 1), "the same end again, when it is done"
    assert world.end(PRODUCER, commit=False).error is Errors.INVALID_TXN_STATE
    assert world.add((1001, 0), A) is Errors.PRODUCER_FENCED
    assert world.add((1001, 1), A) is Errors.NONE


def test_a_transaction_of_version_1_keeps_the_epoch() -> None:
    world = ShardWorld(transaction_version=0)
    producer = begun(world, version=0)
    assert world.end(producer, commit=False, version=0) == ProducerResult(Errors.NONE, *producer)
    assert world.end(producer, commit=False, version=0).error is Errors.CONCURRENT_TRANSACTIONS
    assert world.end(producer, commit=True, version=0).error is Errors.CONCURRENT_TRANSACTIONS, "whichever end is asked for"
    assert world.complete()
    assert world.end(producer, commit=False, version=0).error is Errors.NONE
    assert world.end(producer, commit=True, version=0).error is Errors.INVALID_TXN_STATE
    assert world.add(producer, A, version=0) is Errors.NONE


@pytest.mark.parametrize("commit", [True, False])
def test_version_2_may_abort_what_was_never_begun_here_but_not_commit_it(commit: bool) -> None:
    """The producer's first batch may have been lost on its way, with the partition that it would
    have added.
    """
    world = ShardWorld()
    world.init()
    ended = world.end(PRODUCER, commit=commit)
    if commit:
        assert ended.error is Errors.INVALID_TXN_STATE
        return
    assert ended == ProducerResult(Errors.NONE, 1001, 1)
    assert (world.state().state, world.state().partitions, world.state().start_timestamp_ms) == (S.PREPARE_ABORT, (), world.now_ms)
    assert world.complete()
    assert world.end((1001, 1), commit=False) == ProducerResult(Errors.NONE, 1001, 2), "and again from CompleteAbort"


def test_version_2_ends_with_a_new_producer_id_when_the_epochs_are_used_up() -> None:
    world = ShardWorld()
    at_epoch(world, 32766, state=S.ONGOING)
    assert world.end((1001, 32766), commit=True) == ProducerResult(Errors.NONE, 1002, 0)
    prepared = world.state()
    assert (prepared.producer_id, prepared.producer_epoch, prepared.next_producer_id) == (1001, 32767, 1002), "the marker's epoch"
    world.restart()
    assert world.prepared == ["tx"], "the next coordinator knows what to complete"
    assert world.complete()
    done = world.state()
    assert (done.producer_id, done.producer_epoch, done.previous_producer_id) == (1002, 0, 1001)
    assert world.end((1001, 32766), commit=True) == ProducerResult(Errors.NONE, 1002, 0), "a retry across the change of the id"
    assert world.end((1001, 32766), commit=False).error is Errors.INVALID_TXN_STATE
    assert world.add((1002, 0), A) is Errors.NONE
    assert world.end((1001, 32766), commit=True).error is Errors.INVALID_PRODUCER_ID_MAPPING, "now it is another transaction"


def test_version_1_rotates_the_producer_id_with_the_next_init() -> None:
    world = ShardWorld(transaction_version=1)
    at_epoch(world, 32766)
    assert world.init(expected=(1001, 32766)) == ProducerResult(Errors.NONE, 1002, 0)
    assert world.init(expected=(1001, 32766)) == ProducerResult(Errors.NONE, 1002, 0), "the response was lost, the producer asks again"
    assert world.init() == ProducerResult(Errors.NONE, 1002, 1)
    assert world.init(expected=(1001, 32766)).error is Errors.PRODUCER_FENCED


def test_init_with_an_open_transaction_fences_it_and_asks_to_come_again() -> None:
    world = ShardWorld()
    producer = begun(world)
    assert world.init().error is Errors.CONCURRENT_TRANSACTIONS
    assert (world.state().state, world.state().producer_epoch) == (S.PREPARE_ABORT, 1)
    assert world.end(producer, commit=True).error is Errors.CONCURRENT_TRANSACTIONS
    assert world.add(producer, B) is Errors.CONCURRENT_TRANSACTIONS
    assert world.complete()
    assert world.end(producer, commit=True).error is Errors.INVALID_TXN_STATE, "one epoch behind looks like a retry, of another end"
    assert world.add(producer, B) is Errors.PRODUCER_FENCED
    assert world.init() == ProducerResult(Errors.NONE, 1001, 2)
    assert world.end(producer, commit=True).error is Errors.PRODUCER_FENCED


def test_init_of_a_producer_that_knows_its_epoch() -> None:
    world = ShardWorld()
    world.init()
    assert world.init(expected=(1001, 0)) == ProducerResult(Errors.NONE, 1001, 1)
    assert world.init(expected=(1001, 0)) == ProducerResult(Errors.NONE, 1001, 1), "the response was lost"
    assert world.init(expected=(1001, 1)) == ProducerResult(Errors.NONE, 1001, 2)
    assert world.init(expected=(1001, 0)).error is Errors.PRODUCER_FENCED
    assert world.init(expected=(999, 2)).error is Errors.PRODUCER_FENCED
    assert world.init() == ProducerResult(Errors.NONE, 1001, 3)
    assert world.init(expected=(1001, 2)).error is Errors.PRODUCER_FENCED, "a new instance has taken over"
    assert world.init("new", expected=(77, 5)).error is Errors.NONE, "an id that expired here"


def test_what_a_restart_forgets_is_the_epoch_before_only() -> None:
    world = ShardWorld()
    world.init()
    world.init(expected=(1001, 0))
    before = world.state()
    world.restart()
    assert world.state() == TransactionMetadata(
        **{name: getattr(before, name) for name in before.__struct_fields__} | {"last_producer_epoch": -1}
    )
    assert world.init(expected=(1001, 0)).error is Errors.PRODUCER_FENCED
    assert world.init(expected=(1001, 1)) == ProducerResult(Errors.NONE, 1001, 2)


def test_requests_of_others() -> None:
    world = ShardWorld()
    producer = begun(world)
    for asked in (world.add((5, 0), A), world.end((5, 0), commit=True).error, world.add(producer, A, name="nobody")):
        assert asked is Errors.INVALID_PRODUCER_ID_MAPPING
    assert world.end(producer, commit=True, name="nobody").error is Errors.INVALID_PRODUCER_ID_MAPPING
    assert world.end((producer[0], 7), commit=True).error is Errors.PRODUCER_FENCED
    assert world.end((producer[0], 7), commit=True, version=1).error is Errors.PRODUCER_FENCED
    written = len(world.log)
    assert world.add(producer, A) is Errors.NONE and len(world.log) == written, "what is in already is not written again"


def test_partitions_are_verified_in_the_open_transaction_only() -> None:
    world = ShardWorld()
    producer = begun(world)
    assert world.shard.verify_partitions("tx", *producer, [A, B]) == {A: Errors.NONE, B: Errors.TRANSACTION_ABORTABLE}
    assert world.shard.verify_partitions("tx", producer[0], 9, [A]) == {A: Errors.PRODUCER_FENCED}
    assert world.shard.verify_partitions("tx", 9, 0, [A]) == {A: Errors.INVALID_PRODUCER_ID_MAPPING}
    world.end(producer, commit=True)
    assert world.shard.verify_partitions("tx", producer[0], 1, [A]) == {A: Errors.CONCURRENT_TRANSACTIONS}
    world.complete()
    assert world.shard.verify_partitions("tx", producer[0], 1, [A]) == {A: Errors.TRANSACTION_ABORTABLE}


@pytest.mark.parametrize(("version", "epoch_after"), [(0, 1), (1, 1), (2, 1)])
def test_an_open_transaction_times_out_and_its_producer_is_fenced(version: int, epoch_after: int) -> None:
    world = ShardWorld(transaction_version=version)
    producer = begun(world, version=version)
    world.clock.now_ms += TIMEOUT_MS
    assert world.abort_timed_out() == 0, "at its timeout it is not over it"
    world.clock.now_ms += 1
    assert world.abort_timed_out() == 1
    assert (world.state().state, world.state().producer_epoch) == (S.PREPARE_ABORT, epoch_after)
    assert world.abort_timed_out() == 0
    assert world.add(producer, B, version=version) is Errors.CONCURRENT_TRANSACTIONS
    assert world.complete()
    assert world.add(producer, B, version=version) is Errors.PRODUCER_FENCED
    expected = Errors.PRODUCER_FENCED if version < 2 else Errors.INVALID_TXN_STATE
    assert world.end(producer, commit=True, version=version).error is expected


def test_fencing_at_the_last_epoch_of_version_2_gives_a_new_id() -> None:
    world = ShardWorld()
    at_epoch(world, 32766, state=S.ONGOING)
    world.clock.now_ms += TIMEOUT_MS + 1
    world.abort_timed_out()
    assert (world.state().producer_epoch, world.state().next_producer_id) == (32767, 1002)
    assert world.complete()
    assert world.init() == ProducerResult(Errors.NONE, 1002, 1)


def test_fencing_at_the_last_epoch_of_version_1_leaves_the_new_id_to_init() -> None:
    world = ShardWorld(transaction_version=1)
    at_epoch(world, 32766, state=S.ONGOING, version=0)
    assert world.init().error is Errors.CONCURRENT_TRANSACTIONS
    assert (world.state().producer_epoch, world.state().next_producer_id) == (32767, -1)
    assert world.complete()
    assert world.init() == ProducerResult(Errors.NONE, 1002, 0)


def test_a_two_phase_commit_is_never_timed_out() -> None:
    world = ShardWorld()
    result = world.init(timeout_ms=2_147_483_647)
    world.add((result.producer_id, 0), A)
    world.clock.now_ms += 2_147_483_648 * 2
    assert world.abort_timed_out() == 0


def test_a_transaction_that_went_on_is_not_the_one_that_timed_out() -> None:
    world = ShardWorld()
    producer = begun(world)
    world.clock.now_ms += TIMEOUT_MS + 1
    (timed_out,) = world.shard.timed_out(world.now_ms)
    world.end(producer, commit=True)
    result = world.shard.abort_timed_out(timed_out, new_producer_id=None, now_ms=world.now_ms)
    assert (result.records, result.response) == ([], False)


def test_unused_ids_expire_and_leave_a_tombstone() -> None:
    world = ShardWorld()
    begun(world)
    world.init("idle")
    expiration_ms = world.config.transactional_id_expiration_ms
    world.clock.now_ms += expiration_ms - 1
    world.remove_expired()
    assert world.shard.transaction("idle") is not None
    world.clock.now_ms += 1
    world.remove_expired()
    assert world.shard.transaction("idle") is None
    assert world.state().state is S.ONGOING, "an open transaction does not expire"
    assert world.log[-1].value is None and read_transaction_record(world.log[-1]) == ("idle", None)
    world.restart()
    assert world.shard.transaction("idle") is None


def test_a_deposed_coordinator_completes_nothing() -> None:
    world = ShardWorld()
    producer = begun(world)
    world.end(producer, commit=True)
    old = world.shard.pending_completion("tx", world.now_ms)
    assert old is not None and old.is_commit and old.coordinator_epoch == 0
    world.restart()
    assert world.prepared == ["tx"]
    assert world.shard.complete(old).records == []
    new = world.shard.pending_completion("tx", world.now_ms)
    assert new is not None and new.coordinator_epoch == 1
    assert world.apply(world.shard.complete(new))


def test_filters_of_list_transactions() -> None:
    world = ShardWorld()
    begun(world)
    world.clock.now_ms += 5_000
    world.init("other")

    def names(**wanted: Any) -> list[str]:
        return [found.transactional_id for found in world.shard.list_transactions(TransactionFilter(**wanted), world.now_ms)]

    assert names() == ["tx", "other"]
    assert names(states=frozenset({S.ONGOING})) == ["tx"]
    assert names(states=frozenset()) == [], "only unknown states were asked for"
    assert names(producer_ids=frozenset({1002})) == ["other"]
    assert names(duration_ms=4_999) == ["tx", "other"], "an id without a transaction began at -1, as in Kafka"
    assert names(duration_ms=5_000) == ["other"]
    assert names(matches_id=lambda name: name.startswith("o")) == ["other"]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_records_have_the_version_of_the_feature(version: int) -> None:
    world = ShardWorld(transaction_version=version)
    world.init()
    assert world.log[0].value is not None and world.log[0].value[:2] == min(version, 1).to_bytes(2, "big")


def test_transactions_of_version_2_need_the_feature() -> None:
    """A record of version 0 could not say that its transaction is one of version 2."""
    world = ShardWorld(transaction_version=0)
    world.init()
    with pytest.raises(ApiException) as caught:
        world.add(PRODUCER, A)
    assert caught.value.error is Errors.UNSUPPORTED_VERSION
    assert world.state().state is S.EMPTY and len(world.log) == 1
    assert world.add(PRODUCER, A, version=0) is Errors.NONE


def test_a_record_of_a_later_version_is_not_misread() -> None:
    world = ShardWorld()
    world.init()
    value = world.log[0].value
    assert value is not None
    world.log[0] = world.log[0]._replace(value=b"\0\2" + value[2:])
    with pytest.raises(Exception, match="Unknown version 2 of the value of transactional id 'tx'"):
        world.restart()
    world.log[0] = world.log[0]._replace(key=b"\0\1" + world.log[0].key[2:])
    world.restart()
    assert world.shard.transaction("tx") is None, "a key type of later versions is passed over"
