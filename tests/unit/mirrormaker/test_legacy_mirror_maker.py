"""The rules of the legacy MirrorMaker's streams (KIP-3), on doubles of its clients."""

from __future__ import annotations

import asyncio
import logging

import pytest
from support.mirrors.mirror_maker_doubles import TOO_LARGE, Doubles, consumed

from kmirror.clients.consumer.consumer_types import (
    CommitFailedException,
    ConsumerRebalanceListener,
    RebalanceInProgressException,
    TopicMadeAnewError,
)
from kmirror.clients.kafka_producer import ProducerRecord
from kmirror.common.errors import ApiException, ConfigError, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.mirrormaker.legacy.mirror_maker import NUM_DROPPED_MESSAGES

PARTITION = TopicPartition("t", 0)


def sent(doubles: Doubles) -> list[bytes]:
    return [event[1] for event in doubles.events if event[0] == "send"]


def commits(doubles: Doubles) -> list[dict]:
    return [event[1] for event in doubles.events if event[0] == "commit"]


def test_records_are_sent_as_they_came_and_committed_behind_a_flush() -> None:
    doubles = Doubles(offset_commit_interval_ms=500)
    doubles.consumer.polls = [[consumed(0), consumed(1)], [consumed(2)]]
    assert doubles.play()
    assert doubles.names()[:5] == ["send", "send", "send", "flush", "commit"]
    assert doubles.names()[-3:] == ["flush", "close consumer", "close producer"]
    assert doubles.consumer.committed == {PARTITION: 3}
    assert doubles.producer.acknowledged[0] == ProducerRecord("t", b"v0", key=b"k", headers=[("h", b"x")], timestamp=77)
    assert doubles.producer.acknowledged[0].partition is None, "the target's partitioner chooses"


def test_a_record_without_a_timestamp_gets_the_producers() -> None:
    doubles = Doubles()
    doubles.consumer.polls = [[consumed(0, timestamp=-1)]]
    doubles.play()
    assert doubles.producer.acknowledged[0].timestamp is None


def test_nothing_is_committed_before_the_interval_is_over() -> None:
    doubles = Doubles(offset_commit_interval_ms=60_000)
    doubles.consumer.polls = [[consumed(0)]]

    async def look() -> None:
        assert doubles.names() == ["send"]

    doubles.play(59_000, then=look)
    assert commits(doubles) == [{PARTITION: 1}], "the end commits"


def test_what_the_target_has_not_acknowledged_is_never_committed() -> None:
    doubles = Doubles(offset_commit_interval_ms=100)
    doubles.producer.blocked = asyncio.Event()
    doubles.consumer.polls = [[consumed(0)]]

    async def look() -> None:
        assert commits(doubles) == []
        assert doubles.producer.acknowledged == []
        doubles.producer.blocked.set()

    doubles.play(then=look)
    first_commit = doubles.names().index("commit")
    assert doubles.names().index("flush") < first_commit and commits(doubles) == [{PARTITION: 1}]


def test_a_failed_send_stops_the_tool_and_nothing_is_committed() -> None:
    doubles = Doubles(offset_commit_interval_ms=100)
    doubles.producer.fails = lambda record: TOO_LARGE if record.value == b"v1" else None
    doubles.consumer.polls = [[consumed(0), consumed(1), consumed(2)], [consumed(3)]]
    assert not doubles.play()
    assert commits(doubles) == []
    assert ("close producer", "now") in doubles.events
    assert doubles.mirror_maker.metrics.get(NUM_DROPPED_MESSAGES).value() == 1


def test_a_record_that_the_producer_refuses_counts_as_a_failed_send() -> None:
    doubles = Doubles(offset_commit_interval_ms=100)
    doubles.producer.refuses = lambda record: TOO_LARGE if record.value == b"v1" else None
    doubles.consumer.polls = [[consumed(0), consumed(1), consumed(2)]]
    assert not doubles.play()
    assert commits(doubles) == [] and b"v2" not in sent(doubles)


def test_without_abort_a_failed_record_is_skipped_and_counted_and_the_run_continues(caplog: pytest.LogCaptureFixture) -> None:
    doubles = Doubles(offset_commit_interval_ms=100, abort_on_send_failure=False)
    doubles.producer.fails = lambda record: TOO_LARGE if record.value == b"v1" else None
    doubles.consumer.polls = [[consumed(0), consumed(1), consumed(2)], [consumed(3)]]
    assert doubles.play()
    assert [record.value for record in doubles.producer.acknowledged] == [b"v0", b"v2", b"v3"]
    assert doubles.consumer.committed == {PARTITION: 4}
    assert doubles.mirror_maker.metrics.get(NUM_DROPPED_MESSAGES).value() == 1
    assert "Error when sending message to topic t with key: 1 bytes, value: 2 bytes with error: MESSAGE_TOO_LARGE: too large" in caplog.text


def test_a_topic_made_anew_stops_the_tool_where_that_is_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    """The legacy tool went on at the former topic's offset, whatever its users wanted."""
    doubles = Doubles(consumer_properties={"kmirror.recreated.topic.policy": "stop"})
    anew = TopicMadeAnewError(PARTITION, Uuid(b"n" * 16), Uuid(b"f" * 16))
    doubles.consumer.polls = [[consumed(0), consumed(1)], anew]
    assert doubles.consumer.refuses and "kmirror.recreated.topic.policy" not in doubles.consumer.properties
    assert not doubles.play(), "the exit code is 255"
    assert doubles.consumer.committed == {PARTITION: 2}, "what was copied of the former topic is committed, and no more"
    assert f"t-0 was made anew at the source (topic id {Uuid(b'n' * 16)}, before {Uuid(b'f' * 16)})" in caplog.text
    assert "kmirror.recreated.topic.policy=stop: nothing of it is copied" in caplog.text
    assert not Doubles().consumer.refuses and not Doubles(consumer_properties={"kmirror.recreated.topic.policy": "offset"}).consumer.refuses
    with pytest.raises(ConfigError, match="String must be one of: offset, stop"):
        Doubles(consumer_properties={"kmirror.recreated.topic.policy": "beginning"})


class Splitting:
    """Drops odd offsets and doubles the others."""

    def handle(self, record):
        return [] if record.offset % 2 else [ProducerRecord("u", record.value), ProducerRecord("u", record.value)]


def test_offsets_are_committed_past_records_that_a_handler_drops() -> None:
    doubles = Doubles(message_handler=Splitting())
    doubles.consumer.polls = [[consumed(0), consumed(1), consumed(2), consumed(3)]]
    assert doubles.play()
    assert sent(doubles) == [b"v0", b"v0", b"v2", b"v2"]
    assert doubles.consumer.committed == {PARTITION: 4}


@pytest.mark.parametrize(("handler", "asked"), [({}, ["t", "u", "v"]), ({"message_handler": Splitting()}, [])])
def test_all_topics_of_a_poll_are_asked_for_together_and_once(handler: dict, asked: list[str]) -> None:
    """Hundreds of topics that the target has to make would otherwise be waited for one after the other."""
    doubles = Doubles(**handler)
    doubles.consumer.polls = [[consumed(0), consumed(0, topic="u")], [consumed(1), consumed(0, topic="v")]]
    assert doubles.play()
    assert sorted(doubles.producer.asked) == asked
    assert len(sent(doubles)) >= 3, "whatever becomes of the questions"


class Poisoned:
    def __init__(self, result=None) -> None:
        self.result = result

    async def handle(self, record):
        if record.offset == 2:
            if self.result is None:
                raise ZeroDivisionError("poison")
            return self.result
        return [ProducerRecord("t", record.value)]


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (None, "the message handler failed at t-0, offset 2: ZeroDivisionError: poison"),
        ([b"bytes"], "it returned a bytes among its records"),
        (7, "offset 2: TypeError"),
    ],
)
def test_a_poison_record_stops_the_tool_and_what_was_before_it_is_committed(
    result: object, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    doubles = Doubles(message_handler=Poisoned(result), num_streams=2)
    doubles.consumers[0].polls = [[consumed(0), consumed(1), consumed(2), consumed(3)]]
    doubles.consumers[1].polls = [[consumed(10)]]
    assert not doubles.play()
    assert doubles.consumers[0].committed == {PARTITION: 2}
    assert doubles.consumers[1].committed == {PARTITION: 11}, "the other stream ends cleanly"
    assert all(consumer.closed for consumer in doubles.consumers) and ("close producer", "in order") in doubles.events
    assert len([line for line in caplog.messages if reason in line]) == 1
    assert doubles.mirror_maker.health().all_reasons and "Traceback" not in caplog.text


def test_a_stream_that_is_cancelled_by_somebody_else_stops_the_tool(caplog: pytest.LogCaptureFixture) -> None:
    doubles = Doubles(num_streams=2)

    async def cancelled(consumer):
        raise asyncio.CancelledError

    doubles.consumers[0].polls = [cancelled]
    doubles.consumers[1].polls = [[consumed(0)]]
    assert not doubles.play()
    assert "cancelled by somebody else" in caplog.text
    assert doubles.consumers[1].committed == {PARTITION: 1}


class Listener(ConsumerRebalanceListener):
    def __init__(self, events: list) -> None:
        self.events = events

    async def on_partitions_revoked(self, partitions) -> None:
        self.events.append(("listener revoked", partitions))

    async def on_partitions_assigned(self, partitions) -> None:
        self.events.append(("listener assigned", partitions))


def test_before_partitions_are_given_up_flush_then_commit_then_the_users_listener(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    events: list = []
    doubles = Doubles(rebalance_listener=Listener(events))
    doubles.events = events

    async def assign(consumer):
        await consumer.listener.on_partitions_assigned([PARTITION])

    async def revoke(consumer):
        await consumer.listener.on_partitions_revoked([PARTITION])

    doubles.consumer.polls = [assign, [consumed(0)], revoke]
    assert doubles.play()
    assert events[:5] == [
        ("listener assigned", [PARTITION]),
        ("send", b"v0"),
        ("flush",),
        ("commit", {PARTITION: 1}),
        ("listener revoked", [PARTITION]),
    ]
    assert "[mirrormaker-thread-0] Adding newly assigned partitions: t-0" in caplog.messages
    assert "[mirrormaker-thread-0] Revoke previously assigned partitions: t-0" in caplog.messages


def test_the_offsets_of_lost_partitions_are_not_committed() -> None:
    events: list = []
    doubles = Doubles(rebalance_listener=Listener(events))

    async def lose(consumer):
        await consumer.listener.on_partitions_lost([PARTITION])

    doubles.consumer.polls = [[consumed(0)], lose]
    assert doubles.play()
    assert commits(doubles) == [] and events == []


@pytest.mark.parametrize("error", [CommitFailedException(), RebalanceInProgressException("rebalance")])
def test_what_was_not_committed_of_partitions_that_were_given_up_is_never_committed_later(error: Exception) -> None:
    """Their next owner may be further by then, and the commit would take the group back."""
    doubles = Doubles(offset_commit_interval_ms=500)

    async def revoke_in_vain(consumer):
        consumer.commit_errors = [error]
        await consumer.listener.on_partitions_revoked([PARTITION])

    doubles.consumer.polls = [[consumed(0), consumed(0, partition=1)], revoke_in_vain]
    assert doubles.play()
    assert commits(doubles) == [{TopicPartition("t", 1): 1}]


def test_a_commit_that_times_out_is_tried_again_and_drops_topics_that_are_gone(caplog: pytest.LogCaptureFixture) -> None:
    doubles = Doubles()
    doubles.consumer.polls = [[consumed(0), consumed(5, topic="gone")]]
    doubles.consumer.commit_errors = [ApiException(Errors.REQUEST_TIMED_OUT), ApiException(Errors.COORDINATOR_NOT_AVAILABLE)]
    assert doubles.play()
    assert commits(doubles) == [{PARTITION: 1}]
    assert "Last successful offset commit timestamp=-1, retry count=2" in caplog.text


@pytest.mark.parametrize("error", [CommitFailedException(), RebalanceInProgressException("rebalance")])
def test_a_commit_that_the_group_refuses_is_no_reason_to_stop(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    doubles = Doubles(offset_commit_interval_ms=100)
    doubles.consumer.polls = [[consumed(0)]]
    doubles.consumer.commit_errors = [error]
    assert doubles.play()
    assert commits(doubles) == [{PARTITION: 1}], "the next commit has it"
    assert [record.levelno for record in caplog.records if "commit" in record.message and record.levelno >= logging.WARNING] == [30]


def test_a_commit_that_is_not_allowed_stops_the_tool() -> None:
    doubles = Doubles(offset_commit_interval_ms=100)
    doubles.consumer.polls = [[consumed(0)]]
    doubles.consumer.commit_errors = [ApiException(Errors.GROUP_AUTHORIZATION_FAILED)] * 2
    assert not doubles.play()
    assert doubles.consumer.closed


def test_a_stream_that_cannot_read_stops_the_tool() -> None:
    doubles = Doubles()
    doubles.consumer.polls = [[consumed(0)], ApiException(Errors.TOPIC_AUTHORIZATION_FAILED)]
    assert not doubles.play()
    assert doubles.consumer.committed == {PARTITION: 1}


def test_a_forced_end_waits_for_nobody_and_commits_nothing() -> None:
    doubles = Doubles(offset_commit_interval_ms=100)
    doubles.producer.blocked = asyncio.Event()
    doubles.consumer.polls = [[consumed(0)]]

    async def force() -> None:
        doubles.mirror_maker.shut_down()
        await doubles.runtime.sleep_ms(1_000)
        await doubles.mirror_maker.force_end()

    assert not doubles.play(then=force)
    assert commits(doubles) == [] and ("close producer", "now") in doubles.events


def test_a_synchronous_producer_waits_for_each_record_and_stops_at_a_failure() -> None:
    doubles = Doubles(producer_properties={"producer.type": "sync"})
    doubles.producer.fails = lambda record: TOO_LARGE if record.value == b"v1" else None
    doubles.consumer.polls = [[consumed(0), consumed(1), consumed(2)]]
    assert not doubles.play()
    assert sent(doubles) == [b"v0", b"v1"]
    assert doubles.consumer.committed == {PARTITION: 1}, "the record before it was acknowledged"


def test_each_stream_has_a_consumer_of_its_own_and_all_share_one_producer() -> None:
    doubles = Doubles(num_streams=3)
    for number, consumer in enumerate(doubles.consumers):
        consumer.polls = [[consumed(number)]]
    assert doubles.play()
    assert [consumer.properties["client.id"] for consumer in doubles.consumers] == ["g-0", "g-1", "g-2"]
    assert sorted(sent(doubles)) == [b"v0", b"v1", b"v2"]
    snapshot = doubles.mirror_maker.metrics.mbeans()
    assert snapshot["kafka.tools:type=MirrorMaker,name=MirrorMaker-numDroppedMessages"] == {"Value": 0}
    assert snapshot["kmirror:type=MirrorMaker,name=NumAcknowledgedMessages"] == {"Value": 3}
