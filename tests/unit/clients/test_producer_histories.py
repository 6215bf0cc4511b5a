"""Random histories of `KafkaProducer`: errors, lost answers, leaders that move, brokers that die.

With idempotence, whatever happens: a partition's acknowledged records are there once, in the order
of the sends, at the offsets that the producer was told; what failed is there at most once. Of a
topic that is made anew, that holds for what the old one did not have.
"""

from __future__ import annotations

import random

import pytest
from support.clients.scripted_cluster import ScriptedCluster, ScriptedTopic
from support.clients.scripted_logs import APPEND_THEN_LOSE, LOSE, ScriptedLogs

from kmirror.clients.kafka_producer import KafkaProducer, ProducerRecord
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch

PARTITIONS = 3
FAULTS = [
    LOSE,
    APPEND_THEN_LOSE,
    Errors.NOT_ENOUGH_REPLICAS,
    Errors.NOT_LEADER_OR_FOLLOWER,
    Errors.UNKNOWN_TOPIC_OR_PARTITION,
    Errors.KAFKA_STORAGE_ERROR,
    Errors.INVALID_RECORD,
    Errors.MESSAGE_TOO_LARGE,
]
OF_CONTENT = (Errors.INVALID_RECORD, Errors.MESSAGE_TOO_LARGE)


class Told:
    """What became of a batch of a run, in the shape of a future."""

    def __init__(self) -> None:
        self.offset = -1
        self._error: Exception | None = None
        self._is_done = False

    def tell(self, offset: int, error: Exception | None) -> None:
        assert not self._is_done, "a batch has one outcome"
        self.offset, self._error, self._is_done = offset, error, True

    def done(self) -> bool:
        return self._is_done

    def error(self) -> Exception | None:
        return self._error

    def result(self) -> Told:
        return self


class History:
    def __init__(self, seed: int, **settings) -> None:
        self.dice = random.Random(seed)
        self.cluster = ScriptedCluster(3, seed=seed)
        self.topic = ScriptedTopic({number: number for number in range(PARTITIONS)}, topic_id=Uuid(b"1" * 16))
        self.cluster.topics["t"] = self.topic
        self.logs = ScriptedLogs(self.cluster)
        self.logs.fault = self.fault
        self.fault_rate = self.dice.choice([0.0, 0.05, 0.3])
        self.kinds = self.dice.sample(FAULTS, self.dice.randint(1, len(FAULTS)))
        self.sent: dict[int, list] = {number: [] for number in range(PARTITIONS)}
        self.settings = settings
        self.lives = 0
        """How often the topic may be made anew."""
        self.gone: set[bytes] = set()
        """What was written to former lives of the topic."""
        self.last_errors: tuple[Errors, ...] = ()
        """What a send may fail with besides, as its last error when its time was up."""

    def fault(self, node_id, partition, batch):
        """What is wrong with a batch itself does not change from one attempt to the next: a broker
        that has written it does not refuse it later.
        """
        content = random.Random(bytes(batch.memory[61:]))
        if content.random() < self.fault_rate / 2:
            kind = content.choice([None, *(kind for kind in self.kinds if kind in OF_CONTENT)])
            if kind is not None and (kind is not Errors.MESSAGE_TOO_LARGE or batch.record_count > 1):
                return kind
        if self.dice.random() >= self.fault_rate:
            return None
        return self.dice.choice([None, *(kind for kind in self.kinds if kind not in OF_CONTENT)])

    def move_a_leader(self) -> None:
        number = self.dice.randrange(PARTITIONS)
        self.topic.leaders[number] = self.dice.randrange(3)
        self.topic.epochs[number] = self.topic.epochs.get(number, 0) + 1

    def make_anew(self) -> None:
        self.lives -= 1
        self.topic = ScriptedTopic({number: number for number in range(PARTITIONS)}, topic_id=Uuid(b"%016d" % self.lives))
        self.cluster.topics["t"] = self.topic
        self.gone.update(value for log in self.logs.logs.values() for value in log.values)
        self.logs.logs.clear()

    async def play(self, steps: int) -> None:
        producer = KafkaProducer(self.cluster.runtime, self.cluster.props(0, 1, 2, **self.settings))
        counter = 0
        for _ in range(steps):
            number = self.dice.randrange(PARTITIONS)
            roll = self.dice.random()
            if roll < 0.02 and self.lives and self.dice.random() < 0.5:
                self.make_anew()
            elif roll < 0.02:
                self.move_a_leader()
            elif roll < 0.1:
                await self.cluster.runtime.sleep_ms(self.dice.choice([1, 20, 300]))
            elif roll < 0.2:
                runs = []
                for _ in range(self.dice.randint(1, 14)):
                    count = self.dice.randint(1, 20)
                    runs.append([b"%06d" % (counter + index) for index in range(count)])
                    counter += count
                told = [Told() for _ in runs]
                self.sent[number] += zip(runs, told, strict=True)
                batches = [
                    RecordBatch(build_batch([Record(index, 1000, None, value, []) for index, value in enumerate(run)])) for run in runs
                ]
                await producer.send_run(TopicPartition("t", number), batches, lambda index, *outcome, told=told: told[index].tell(*outcome))
            elif roll < 0.3:
                count = self.dice.randint(1, 20)
                values = [b"%06d" % (counter + index) for index in range(count)]
                records = [Record(index, 1000, None, value, []) for index, value in enumerate(values)]
                future = await producer.send_batch(TopicPartition("t", number), bytes(build_batch(records)))
                self.sent[number].append((values, future))
                counter += count
            else:
                future = await producer.send(ProducerRecord("t", b"%06d" % counter, partition=number))
                self.sent[number].append(([b"%06d" % counter], future))
                counter += 1
        await producer.flush()
        assert not producer._accumulator.incomplete
        assert producer._accumulator.pool.free == producer.config.buffer_memory
        await producer.close()

    def check(self) -> None:
        for number, sent in self.sent.items():
            log = self.logs.values("t", number)
            assert len(log) == len(set(log)), "a record was written twice"
            assert log == sorted(log), "records are out of order"
            for values, future in sent:
                assert future.done()
                error = future.error()
                if error is not None:
                    assert isinstance(error, ApiException)
                    assert error.error in (Errors.INVALID_RECORD, Errors.REQUEST_TIMED_OUT) or error.error in self.last_errors, error
                    continue
                offset = future.result().offset
                for index, value in enumerate(values):
                    assert value in log or value in self.gone, "an acknowledged record is missing"
                    if offset >= 0 and len(values) == 1 and value not in self.gone:
                        assert log[offset + index] == value

    def run(self, steps: int) -> None:
        self.cluster.run(self.play(steps))
        self.check()
        self.cluster.close()


@pytest.mark.parametrize("seed", [*range(40), 318, 591, 609, 638, 682])
def test_nothing_is_lost_twice_or_out_of_order(seed):
    History(seed, batch_size=400, request_timeout_ms=1_000, delivery_timeout_ms=900_000, linger_ms=seed % 3).run(300)


@pytest.mark.parametrize("seed", range(20))
def test_sends_that_expire_leave_the_rest_in_order(seed):
    history = History(seed, batch_size=400, request_timeout_ms=700, delivery_timeout_ms=1_500, linger_ms=0)
    history.fault_rate = 0.4
    history.last_errors = (
        *(kind for kind in FAULTS if isinstance(kind, Errors)),
        Errors.NETWORK_EXCEPTION,
        Errors.OUT_OF_ORDER_SEQUENCE_NUMBER,
    )
    history.run(300)


@pytest.mark.parametrize("seed", [*range(16), 175, 271, 527, 538])
def test_a_topic_that_is_made_anew_gets_everything_in_order(seed):
    history = History(seed, batch_size=400, request_timeout_ms=1_000, delivery_timeout_ms=900_000, linger_ms=seed % 3)
    history.lives, history.logs.take_any_first = 1000, True
    history.run(300)


@pytest.mark.parametrize("seed", range(10))
def test_without_idempotence_one_request_in_flight_keeps_the_order(seed):
    history = History(
        seed,
        batch_size=400,
        request_timeout_ms=1_000,
        enable_idempotence="false",
        max_in_flight_requests_per_connection=1,
    )
    history.kinds = [kind for kind in history.kinds if isinstance(kind, Errors)]  # after a lost answer, a record may be there twice
    history.run(200)
