"""A partition that does not move although nothing is wrong says whom it waits for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.mirrors.mirror_machine import MIRROR, WITH_MIRRORS, MirrorMachine
from support.mirrors.scripted_source import batch

from kmirror.common.errors import Errors
from kmirror.network.client import DisconnectError
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages import describe_producers, describe_transactions, list_transactions
from kmirror.wire.messages.config_record import ConfigRecord

TELLS_PRODUCERS = WITH_MIRRORS | {ApiKeys.DESCRIBE_PRODUCERS: 0, ApiKeys.LIST_TRANSACTIONS: 2, ApiKeys.DESCRIBE_TRANSACTIONS: 0}
BEGUN_MS = 1_700_000_000_000
BEGUN = "2023-11-14 22:13:20 UTC"


def row(machine: MirrorMachine, topic: str = "t") -> Any:
    return next(row for row in machine.mirror.describe(MIRROR) if row.topic == topic)


def lines(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if text in record.getMessage()]


def tell_transactions(machine: MirrorMachine, *, is_shown: bool = True, partitions: int = 1) -> None:
    """Has the source's coordinators and leaders tell of producer 9 and its transaction."""
    answer = machine.source.override

    def override(request: Any) -> Any:
        if isinstance(request, describe_producers.DescribeProducersRequest):
            producer = describe_producers.ProducerState(producer_id=9, last_timestamp=BEGUN_MS + 5_000, current_txn_start_offset=1)
            idle = describe_producers.ProducerState(producer_id=8, last_timestamp=BEGUN_MS)
            rows = [
                describe_producers.PartitionResponse(partition_index=index, active_producers=[idle, producer])
                for topic in request.topics
                for index in topic.partition_indexes
            ]
            return describe_producers.DescribeProducersResponse(topics=[describe_producers.TopicResponse(name="t", partitions=rows)])
        if isinstance(request, list_transactions.ListTransactionsRequest):
            assert request.producer_id_filters == [9]
            known = [list_transactions.TransactionState(transactional_id="orders-1", producer_id=9)] if is_shown else []
            return list_transactions.ListTransactionsResponse(transaction_states=known)
        if isinstance(request, describe_transactions.DescribeTransactionsRequest):
            state = describe_transactions.TransactionState(transactional_id="orders-1", transaction_start_time_ms=BEGUN_MS)
            return describe_transactions.DescribeTransactionsResponse(transaction_states=[state])
        assert answer is not None
        return answer(request)

    machine.source.override = override


async def with_open_transaction(machine: MirrorMachine) -> None:
    """One record, and behind it three of an open transaction."""
    await machine.mirroring(batch(0, b"a", epoch=1))
    machine.source.log("t").last_stable_offset = 1
    machine.at_source(batch(1, b"b", b"c", b"d", epoch=1))


async def test_an_open_transaction_at_the_source_was_a_lag_without_a_reason(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    machine = MirrorMachine(str(tmp_path), versions=TELLS_PRODUCERS)
    tell_transactions(machine)
    await with_open_transaction(machine)
    await machine.advance(2_000)
    assert row(machine).reason is None, "every transaction is open for a moment"
    await machine.advance(20_000)
    reason = row(machine).reason
    assert reason.startswith(f"a transaction is open at the source (of producer id 9, transactional.id orders-1, since {BEGUN})")
    assert reason.endswith("3 records from offset 1 on")
    assert (row(machine).lag, row(machine).state.name) == (3, "MIRRORING"), "the lag is known all the same"
    told = lines(caplog, "a transaction is open")
    assert len(told) == 1 and told[0].startswith("mirror m: t-0: ") and "orders-1" in told[0]
    machine.source.log("t").last_stable_offset = None
    machine.source.notify()
    await machine.advance(3_000)
    assert row(machine).reason is None and row(machine).lag == 0
    assert len(lines(caplog, "a transaction is open")) == 2 and "over for t-0" in lines(caplog, "a transaction is open")[1]
    await machine.close()


@pytest.mark.parametrize(
    ("versions", "is_shown", "text"),
    [
        (
            TELLS_PRODUCERS,
            False,
            "of producer id 9, whose transactional id is not shown to us; its last record is of 2023-11-14 22:13:25 UTC",
        ),
        (WITH_MIRRORS, True, "by which producer the source does not say: "),
    ],
    ids=["not shown", "too old"],
)
async def test_what_the_source_does_not_say_is_said_to_be_unknown(
    tmp_path: Path, versions: dict[ApiKeys, int], is_shown: bool, text: str
) -> None:
    machine = MirrorMachine(str(tmp_path), versions=versions)
    tell_transactions(machine, is_shown=is_shown)
    await with_open_transaction(machine)
    await machine.advance(20_000)
    assert text in row(machine).reason
    await machine.close()


async def test_a_coordinator_that_is_dead_does_not_keep_the_fetcher_from_fetching(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path), versions=TELLS_PRODUCERS)
    tell_transactions(machine)
    answer = machine.source.override

    def dead(request: Any) -> Any:
        is_about_transactions = isinstance(request, list_transactions.ListTransactionsRequest)
        return DisconnectError("no route") if is_about_transactions else answer(request)  # type: ignore[misc]

    machine.source.override = dead
    await with_open_transaction(machine)
    await machine.advance(20_000)
    assert "not shown to us" in row(machine).reason
    machine.source.log("t").last_stable_offset = None
    machine.source.notify()
    await machine.advance(1_000)
    assert machine.log().log_end_offset == 4
    await machine.close()


async def test_a_quota_of_the_source_held_the_mirror_back_without_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a", epoch=1))
    machine.at_source(batch(1, b"b", epoch=1))
    machine.source.throttle_time_ms = 2_000
    await machine.advance(15_000)
    reason = row(machine).reason
    assert reason.startswith("a quota of the source throttles client id broker-1-fetcher-") and "the last time by 2000 ms" in reason
    assert row(machine).lag == -1, "an answer that was held back says nothing of the source's end"
    assert len(lines(caplog, "a quota of the source")) == 1
    await machine.advance(15_000)
    assert "if the next batch is larger than ten seconds of the quota" in row(machine).reason
    machine.source.throttle_time_ms = 0
    await machine.advance(15_000)
    assert (row(machine).reason, row(machine).lag) == (None, 0)
    assert len(lines(caplog, "a quota of the source")) == 2 and "over after" in lines(caplog, "a quota of the source")[1]
    await machine.close()


async def test_a_long_throttle_is_told_before_it_is_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a", epoch=1))
    machine.source.throttle_time_ms = 30_000
    await machine.advance(3_000)
    assert len(lines(caplog, "a quota of the source throttles")) == 1
    assert row(machine).reason is not None
    await machine.close()


async def test_our_own_throttle_is_named_with_its_rate(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    machine = MirrorMachine(str(tmp_path))
    quota = machine.replica_manager.quotas.mirror
    await machine.mirroring(batch(0, b"a", epoch=1))
    quota.update_throttled_replicas("t", "*", 1)
    quota.update_quota(100)
    for offset in range(1, 5):
        machine.at_source(batch(offset, b"x" * 2_000, epoch=1))
    await machine.advance(12_000)
    reason = row(machine).reason
    assert reason.startswith("it is throttled by mirror.replication.throttled.rate=100 bytes a second of this broker")
    assert "ahead of the rate, as one large batch is" in reason
    assert len(lines(caplog, "mirror.replication.throttled.rate")) == 1
    quota.update_quota((1 << 63) - 1)
    await machine.advance(20_000)
    assert (row(machine).reason, row(machine).lag) == (None, 0)
    assert len(lines(caplog, "mirror.replication.throttled.rate")) == 2
    await machine.close()


async def test_an_address_that_only_the_source_s_brokers_advertise_is_named(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path), source_brokers=2)
    machine.apply(ConfigRecord(resource_type=64, resource_name=MIRROR, name="bootstrap.servers", value="source-1:9092"))
    machine.source.create("t", leader=2)
    machine.source.down.add(machine.source.addresses[2])
    machine.topic("t")
    machine.name(MIRROR)
    await machine.advance(15_000)
    assert "source-2:9092" in row(machine).reason
    assert "this is the address that the source advertises for its broker 2" in row(machine).reason
    await machine.close()


async def test_a_topic_that_the_source_s_metadata_lacks_is_the_reason(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a", epoch=1))
    machine.source.log("t").error = Errors.UNKNOWN_TOPIC_OR_PARTITION
    del machine.source.topic_ids["t"]
    machine.source.notify()
    await machine.advance(2_500)
    assert "the source's metadata has no topic t: it is gone, or our user may not see it" in row(machine).reason
    await machine.close()
