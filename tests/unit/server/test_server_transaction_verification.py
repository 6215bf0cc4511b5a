"""Verification of transactional writes (KIP-890): what is asked, how often, and what each kind of
client is told.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.brokers.broker_doubles import BrokerWorld, batch_of
from support.coordinators.coordinator_doubles import MemoryLog

from kmirror.common.errors import ApiException, Errors
from kmirror.common.metrics import MetricName
from kmirror.common.topic_partition import TRANSACTION_STATE_TOPIC_NAME, TopicPartition
from kmirror.network.client import DisconnectError, NetworkClient
from kmirror.server.add_partitions_to_txn_manager import AddPartitionsToTxnManager, TransactionSupportedOperation
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.request import CLOSE_CONNECTION
from kmirror.server.transaction_verification import verify_batches
from kmirror.server.transactions import Transactions
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kmirror.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kmirror.wire.primitives import ProtocolReadError

T = TopicPartition("t", 0)
OPERATION = TransactionSupportedOperation


class Coordinators:
    """Answers AddPartitionsToTxn with the errors that were put in, then with NONE."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.errors: list[Errors] = []
        self.of_all = Errors.NONE
        self.lost = self.garbled = False

    async def send(self, broker_id: int, message: Any) -> Any:
        self.asked.append(message)
        if self.lost:
            raise DisconnectError("gone")
        if self.garbled:
            raise ProtocolReadError("the response ends too early")
        results = []
        for transaction in message.transactions:
            error = self.errors.pop(0) if self.errors else Errors.NONE
            topics = [
                AddPartitionsToTxnTopicResult(topic.name, [AddPartitionsToTxnPartitionResult(number, error) for number in topic.partitions])
                for topic in transaction.topics
            ]
            results.append(AddPartitionsToTxnResult(transaction.transactional_id, topics))
        return AddPartitionsToTxnResponse(error_code=self.of_all, results_by_transaction=results)


def world_with(folder: Path, *, verifies: bool = True) -> tuple[BrokerWorld, Coordinators]:
    world = BrokerWorld(str(folder))
    coordinators = Coordinators()
    world.apis.add_partitions_to_txn = AddPartitionsToTxnManager(
        world.runtime,
        image=lambda: world.cache.image,
        brokers=coordinators,
        metrics=world.metrics,
        is_verification_enabled=lambda: verifies,
    )
    world.create_topic("t")
    return world, coordinators


def batch(*, epoch: int = 0, producer_id: int = 7) -> bytearray:
    return batch_of(b"a", producer_id=producer_id, producer_epoch=epoch, base_sequence=0, is_transactional=True)


async def send(world: BrokerWorld, version: int, *, transactional_id: str | None = "tx", data: bytearray | None = None) -> Any:
    topics = [TopicProduceData("t", partition_data=[PartitionProduceData(0, data or batch())])]
    response = await world.ask(ApiKeys.PRODUCE, ProduceRequest(transactional_id, -1, 1000, topics), version)
    return response.responses[0].partition_responses[0]


CASES = [
    (Errors.TRANSACTION_ABORTABLE, 10, Errors.INVALID_TXN_STATE),
    (Errors.TRANSACTION_ABORTABLE, 11, Errors.TRANSACTION_ABORTABLE),
    (Errors.PRODUCER_FENCED, 11, Errors.INVALID_PRODUCER_EPOCH),
    (Errors.PRODUCER_FENCED, 12, Errors.INVALID_PRODUCER_EPOCH),
    (Errors.INVALID_PRODUCER_ID_MAPPING, 12, Errors.INVALID_PRODUCER_ID_MAPPING),
    (Errors.COORDINATOR_LOAD_IN_PROGRESS, 12, Errors.NOT_ENOUGH_REPLICAS),
    (Errors.NOT_COORDINATOR, 9, Errors.NOT_ENOUGH_REPLICAS),
    (Errors.CONCURRENT_TRANSACTIONS, 11, Errors.NOT_ENOUGH_REPLICAS),
]


@pytest.mark.parametrize(("said", "version", "told"), CASES)
async def test_what_the_client_is_told(tmp_path: Path, said: Errors, version: int, told: Errors) -> None:
    world, coordinators = world_with(tmp_path)
    world.create_topic(TRANSACTION_STATE_TOPIC_NAME)
    coordinators.errors = [said]
    assert Errors.for_code((await send(world, version)).error_code) is told
    (asked,) = coordinators.asked[0].transactions
    assert asked.verify_only is (version < 12)
    assert world.partition("t").leader_log.log_end_offset == 0
    assert Errors.for_code((await send(world, version)).error_code) is Errors.NONE, "the next time it is in the transaction"
    assert Errors.for_code((await send(world, version)).error_code) is Errors.NONE, "a duplicate, and nobody is asked"
    assert len(coordinators.asked) == 2


async def test_no_coordinator_and_no_answer_are_retried_by_clients(tmp_path: Path) -> None:
    world, coordinators = world_with(tmp_path)
    answer = await send(world, 12)
    assert (Errors.for_code(answer.error_code), answer.error_message) == (
        Errors.NOT_ENOUGH_REPLICAS,
        "Unable to verify the partition has been added to the transaction. Underlying error: COORDINATOR_NOT_AVAILABLE",
    )
    world.create_topic(TRANSACTION_STATE_TOPIC_NAME)
    coordinators.lost = True
    assert "NETWORK_EXCEPTION" in (await send(world, 12)).error_message
    coordinators.lost, coordinators.of_all = False, Errors.CLUSTER_AUTHORIZATION_FAILED
    answer = await send(world, 12)
    assert (Errors.for_code(answer.error_code), answer.error_message) == (
        Errors.INVALID_TXN_STATE,
        "Partition was not added to the transaction",
    )


async def test_an_answer_that_cannot_be_read_is_no_answer_and_the_next_question_is_asked(tmp_path: Path) -> None:
    world, coordinators = world_with(tmp_path)
    world.create_topic(TRANSACTION_STATE_TOPIC_NAME)
    coordinators.garbled = True
    assert "NETWORK_EXCEPTION" in (await send(world, 12)).error_message
    coordinators.garbled = False
    assert Errors.for_code((await send(world, 12)).error_code) is Errors.NONE
    times = world.metrics.histogram(MetricName("kafka.server", "AddPartitionsToTxnManager", "VerificationTimeMs"))
    assert times.attributes()["Count"] == len(coordinators.asked) == 2, "each question counts once"


async def test_without_verification_only_version_2_asks(tmp_path: Path) -> None:
    world, coordinators = world_with(tmp_path, verifies=False)
    world.create_topic(TRANSACTION_STATE_TOPIC_NAME)
    await send(world, 11)
    assert coordinators.asked == []
    await send(world, 12, data=batch(producer_id=8))
    assert len(coordinators.asked) == 1


async def test_what_is_refused_before_anybody_is_asked(tmp_path: Path) -> None:
    world, coordinators = world_with(tmp_path)
    refused = await send(world, 12, transactional_id=None)
    assert Errors.for_code(refused.error_code) is Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    mixed = {T: batch(), TopicPartition("u", 0): batch(producer_id=8)}
    with pytest.raises(ApiException) as caught:
        await verify_batches(world.apis, "tx", mixed, OPERATION.ADD_PARTITION)
    assert caught.value.error is Errors.INVALID_PRODUCER_ID_MAPPING
    assert coordinators.asked == []


async def test_verification_is_switched_on_while_the_broker_runs(tmp_path: Path) -> None:
    """The setting of the start went on to hold, so guards were given without asking anybody."""
    world = BrokerWorld(str(tmp_path), props={"transaction.partition.verification.enable": "false"})
    transactions = Transactions(
        world.runtime,
        world.config,
        log=MemoryLog(),
        image=lambda: world.cache.image,
        generate_producer_id=world.apis.producer_ids.generate,
        marker_client=NetworkClient(world.runtime, "markers"),
        verification_client=NetworkClient(world.runtime, "verification"),
        metrics=world.metrics,
    )
    verify = transactions.add_partitions_to_txn.add_or_verify
    assert await verify("tx", 7, 0, [T], OPERATION.GENERIC_ERROR_SUPPORTED) == {}
    transactions.reconfigure(KafkaConfig.from_props({**world.config.props, "transaction.partition.verification.enable": "true"}))
    assert await verify("tx", 7, 0, [T], OPERATION.GENERIC_ERROR_SUPPORTED) == {T: Errors.COORDINATOR_NOT_AVAILABLE}
    await transactions.shutdown()


async def test_a_request_of_two_producers_is_answered_and_does_not_lose_its_connection(tmp_path: Path) -> None:
    world, coordinators = world_with(tmp_path)
    world.create_topic("u")
    for acks in (-1, 0):
        topics = [
            TopicProduceData(name, partition_data=[PartitionProduceData(0, batch(producer_id=producer_id))])
            for name, producer_id in (("t", 7), ("u", 8))
        ]
        response = await world.ask(ApiKeys.PRODUCE, ProduceRequest("tx", acks, 1000, topics), 12)
        if acks == 0:
            assert response is CLOSE_CONNECTION, "nobody would read an answer"
            continue
        rows = [(topic.name, row) for topic in response.responses for row in topic.partition_responses]
        assert [(name, Errors.for_code(row.error_code)) for name, row in rows] == [
            ("t", Errors.INVALID_PRODUCER_ID_MAPPING),
            ("u", Errors.INVALID_PRODUCER_ID_MAPPING),
        ]
        assert rows[0][1].error_message == "Transactional records contained more than one producer ID" and rows[0][1].base_offset == -1
    assert coordinators.asked == []
