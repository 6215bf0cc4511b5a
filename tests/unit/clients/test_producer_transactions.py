"""Transactions of `KafkaProducer` in both versions, against a scripted coordinator."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from support.clients.scripted_cluster import NO_ANSWER
from support.clients.transaction_scene import TransactionScene

from kmirror.clients.consumer.consumer_types import CommitFailedException
from kmirror.clients.kafka_producer import ConsumerGroupMetadata, IllegalStateError, OffsetAndMetadata, ProducerRecord
from kmirror.clients.transaction_manager import TransactionManager
from kmirror.clients.transaction_states import State
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.wire.api_keys import ApiKeys


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def scene(request):
    scene = TransactionScene(request.param)
    yield scene
    scene.cluster.close()


async def write(producer, *values, partition=0):
    return [await producer.send(ProducerRecord("t", value, partition=partition)) for value in values]


async def transaction(producer, *values, partition=0, commits=True):
    await producer.begin_transaction()
    sent = await write(producer, *values, partition=partition)
    await (producer.commit_transaction() if commits else producer.abort_transaction())
    return sent


def test_commit_after_commit(scene):
    producer = scene.producer()

    async def story():
        await producer.init_transactions()
        for number in range(3):
            await transaction(producer, b"%d" % number)

    scene.run(story())
    assert scene.logs.values("t") == [b"0", b"1", b"2"]
    batches = scene.logs.log("t").batches
    assert all(batch.is_transactional for batch in batches)
    if scene.version == 1:
        assert scene.coordinator.calls == ["init"] + ["add", "commit"] * 3
        assert [(batch.producer_epoch, batch.base_sequence) for batch in batches] == [(0, 0), (0, 1), (0, 2)]
    else:
        assert scene.coordinator.calls == ["init"] + ["commit"] * 3
        assert [(batch.producer_epoch, batch.base_sequence) for batch in batches] == [(0, 0), (1, 0), (2, 0)]
    scene.run(producer.close())


def test_an_empty_transaction_asks_nobody(scene):
    producer = scene.producer()

    async def story():
        await producer.init_transactions()
        await transaction(producer)
        await transaction(producer, commits=False)

    scene.run(story())
    assert scene.coordinator.calls == ["init"]
    scene.run(producer.close())


def test_an_abort_drops_what_was_not_sent(scene):
    producer = scene.producer(linger_ms=10_000)

    async def story():
        await producer.init_transactions()
        return (await transaction(producer, b"x", commits=False))[0]

    sent = scene.run(story())
    assert sent.done() and "Failing batch since transaction was aborted" in str(sent.error())
    assert scene.logs.values("t") == []
    scene.run(transaction(producer, b"y"))
    assert scene.logs.values("t") == [b"y"]
    scene.run(producer.close())


def test_a_failed_send_must_be_aborted_and_then_the_producer_goes_on(scene):
    producer = scene.producer()
    scene.logs.fault = lambda node_id, partition, batch: Errors.INVALID_RECORD

    async def story():
        await producer.init_transactions()
        with pytest.raises(ApiException, match="Cannot execute transactional method because we are in an error state"):
            await transaction(producer, b"x")
        with pytest.raises(ApiException, match="in an error state"):
            await write(producer, b"y")
        await producer.abort_transaction()
        scene.logs.fault = lambda node_id, partition, batch: None
        await transaction(producer, b"z")

    scene.run(story())
    assert scene.logs.values("t") == [b"z"]
    assert scene.logs.log("t").batches[0].producer_epoch == 1
    assert ("bump" in scene.coordinator.calls) is (scene.version == 1)
    scene.run(producer.close())


@pytest.mark.parametrize("error", [Errors.INVALID_PRODUCER_EPOCH, Errors.PRODUCER_FENCED])
def test_a_fenced_producer_is_over(scene, error):
    producer = scene.producer()
    scene.coordinator.fail(ApiKeys.END_TXN, error)

    async def story():
        await producer.init_transactions()
        with pytest.raises(ApiException) as failure:
            await transaction(producer, b"x")
        assert failure.value.error in (Errors.INVALID_PRODUCER_EPOCH, Errors.PRODUCER_FENCED)
        for call in (producer.begin_transaction, producer.abort_transaction, producer.commit_transaction):
            with pytest.raises(ApiException) as failure:
                await call()
            assert failure.value.error is Errors.PRODUCER_FENCED
            assert failure.value.message.startswith("Producer with transactionalId 'tx' and (producerId=")
            assert failure.value.message.endswith(", epoch=0) has been fenced by another producer with the same transactionalId")

    scene.run(story())
    scene.run(producer.close())


def test_what_passes_is_retried(scene):
    producer = scene.producer()
    scene.coordinator.fail(ApiKeys.INIT_PRODUCER_ID, Errors.CONCURRENT_TRANSACTIONS, Errors.NOT_COORDINATOR)
    scene.coordinator.fail(ApiKeys.ADD_PARTITIONS_TO_TXN, Errors.CONCURRENT_TRANSACTIONS, Errors.COORDINATOR_LOAD_IN_PROGRESS)
    scene.coordinator.fail(ApiKeys.END_TXN, Errors.COORDINATOR_NOT_AVAILABLE)

    async def story():
        await producer.init_transactions()
        await transaction(producer, b"x")

    scene.run(story())
    assert scene.logs.values("t") == [b"x"]
    assert len(scene.cluster.asked(ApiKeys.FIND_COORDINATOR)) == 3
    scene.run(producer.close())


@pytest.mark.parametrize("error", [Errors.TOPIC_AUTHORIZATION_FAILED, Errors.TRANSACTION_ABORTABLE, Errors.UNKNOWN_PRODUCER_ID])
def test_partitions_that_cannot_be_added_fail_the_transaction(error):
    scene = TransactionScene(1)
    producer = scene.producer()
    scene.coordinator.fail(ApiKeys.ADD_PARTITIONS_TO_TXN, error)

    async def story():
        await producer.init_transactions()
        with pytest.raises(ApiException) as failure:
            await transaction(producer, b"x")
        assert failure.value.error is error
        await producer.abort_transaction()
        await transaction(producer, b"y")

    scene.run(story())
    assert scene.logs.values("t") == [b"y"]
    scene.run(producer.close())
    scene.cluster.close()


def test_offsets_are_a_part_of_the_transaction(scene):
    producer = scene.producer()
    scene.coordinator.fail(ApiKeys.TXN_OFFSET_COMMIT, Errors.COORDINATOR_LOAD_IN_PROGRESS)

    async def story():
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({TopicPartition("src", 2): OffsetAndMetadata(7)}, ConsumerGroupMetadata("g"))
        await producer.commit_transaction()

    scene.run(story())
    assert scene.coordinator.offsets == [("g", "src", 2, 7)]
    assert scene.coordinator.calls == ["init", *(["add-offsets"] if scene.version == 1 else []), "offsets", "offsets", "commit"]
    scene.run(producer.close())


@pytest.mark.parametrize(
    "error, kind, text",
    [
        (Errors.ILLEGAL_GENERATION, CommitFailedException, "due to consumer group metadata mismatch: Specified group generation id"),
        (Errors.GROUP_AUTHORIZATION_FAILED, ApiException, "GROUP_AUTHORIZATION_FAILED"),
    ],
)
def test_a_stale_member_can_only_abort(scene, error, kind, text):
    producer = scene.producer()
    scene.coordinator.fail(ApiKeys.TXN_OFFSET_COMMIT, error)
    group = ConsumerGroupMetadata("g", 3, "member")

    async def story():
        await producer.init_transactions()
        await producer.begin_transaction()
        with pytest.raises(kind, match=text):
            await producer.send_offsets_to_transaction({TopicPartition("src", 2): OffsetAndMetadata(7)}, group)
        with pytest.raises(kind, match="in an error state"):
            await producer.commit_transaction()
        await producer.abort_transaction()

    scene.run(story())
    assert scene.coordinator.calls[-1] == "abort"
    scene.run(producer.close())


def test_calls_in_the_wrong_state_are_refused(scene):
    producer = scene.producer()

    async def story():
        with pytest.raises(IllegalStateError, match="from state UNINITIALIZED to state IN_TRANSACTION"):
            await producer.begin_transaction()
        with pytest.raises(IllegalStateError, match="before completing a call to initTransactions"):
            await write(producer, b"x")
        await producer.init_transactions()
        with pytest.raises(IllegalStateError, match="while in state  READY"):
            await write(producer, b"x")
        with pytest.raises(IllegalStateError, match="from state READY to state COMMITTING_TRANSACTION"):
            await producer.commit_transaction()
        await producer.begin_transaction()
        with pytest.raises(IllegalStateError, match="TransactionalId tx: Invalid transition attempted from state IN_TRANSACTION to"):
            await producer.begin_transaction()

    scene.run(story())
    scene.run(producer.close())


def test_a_call_that_timed_out_may_be_made_again_and_no_other(scene):
    producer = scene.producer(max_block_ms=500, request_timeout_ms=2_000)
    end = scene.cluster.handlers[ApiKeys.END_TXN]
    scene.cluster.handlers[ApiKeys.END_TXN] = lambda node_id, request: NO_ANSWER

    async def story():
        await producer.init_transactions()
        with pytest.raises(ApiException, match=r"Timeout expired after 500ms while awaiting EndTxn\(true\)"):
            await transaction(producer, b"x")
        with pytest.raises(IllegalStateError, match="because the previous call to `commitTransaction` timed out and must be retried"):
            await producer.abort_transaction()
        scene.cluster.handlers[ApiKeys.END_TXN] = end
        for _ in range(10):
            try:
                await producer.commit_transaction()
                break
            except ApiException as error:
                assert error.error is Errors.REQUEST_TIMED_OUT
        await transaction(producer, b"y")

    scene.run(story())
    assert scene.logs.values("t") == [b"x", b"y"]
    scene.run(producer.close())


def test_closing_aborts_an_open_transaction(scene):
    producer = scene.producer()

    async def story():
        await producer.init_transactions()
        await producer.begin_transaction()
        sent = await write(producer, b"x")
        await sent[0]
        await producer.close()

    scene.run(story())
    assert scene.coordinator.calls[-1] == "abort"


def test_an_expired_batch_of_unknown_outcome_can_only_be_aborted(scene):
    producer = scene.producer(delivery_timeout_ms=2_000, request_timeout_ms=1_000, linger_ms=0)
    scene.run(producer.init_transactions())
    answer = scene.cluster.handlers[ApiKeys.PRODUCE]
    scene.cluster.handlers[ApiKeys.PRODUCE] = lambda node_id, request: NO_ANSWER

    async def story():
        with pytest.raises(ApiException, match="can no longer retry them. It is safe to abort"):
            await transaction(producer, b"x")
        scene.cluster.handlers[ApiKeys.PRODUCE] = answer
        await producer.abort_transaction()
        await transaction(producer, b"y")

    scene.run(story())
    assert scene.logs.values("t") == [b"y"]
    scene.run(producer.close())


def test_a_batch_that_came_too_early_is_not_repeated_if_only_an_abort_is_left():
    """Of a topic that was made anew, and knows no sequence: the first batch fails the transaction, and the
    one behind it was repeated for delivery.timeout.ms. So long a commit did not end.
    """
    manager, error = TransactionManager("tx"), Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    for state in (State.INITIALIZING, State.READY, State.IN_TRANSACTION):
        manager.transition_to(state)
    early = SimpleNamespace(partition=TopicPartition("t", 0), sequence_was_reset=False, was_next=False, is_doubtful=True)
    assert manager.can_retry(early, error, -1), "it may be the next when it comes again"
    manager.must_abort(ApiException(error))
    assert not manager.can_retry(early, error, -1)
    assert manager.can_retry(early, Errors.NOT_LEADER_OR_FOLLOWER, -1), "whether it was written is not known"
