"""Takes batches from the accumulator to the brokers (Kafka's `Sender`): a supervised task that
wakes, decides what can leave, and writes it.

A request goes to one leader, with one batch of each partition that is ready. It is written when it
is made, so requests reach a broker in the order in which their batches got their sequences. A broker
to which nothing can be written now (no connection yet, no room, a login that is due) is prepared in
a task of its own; its batches stay in their queues meanwhile. A broker has at most
max.in.flight.requests.per.connection requests at a time.

What comes back settles each batch (`produce_outcomes`). What can leave then leaves at once, without
a turn of the task in between, and what leaves at once to one broker leaves in one write.

Bursts. With a backlog of batches from elsewhere, each as large as it will ever be, a request for each
answer costs a turn, a write and a wake-up of the broker for each 16 KB. So the next requests wait
until most of those in flight are answered, and leave together; the rest keeps the broker busy
meanwhile (BUSY_SHARE). The connection may leave those answers in the socket until all are there.

Order. With sequences, the broker and the manager keep it. Without them, and with one request in
flight, a partition's batch that is to be sent again stands first in its queue. With more requests in
flight and no sequences, a retry may change the order, as in Kafka.

A broker that throttles us (KIP-219) gets no request until the time is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from kmirror.clients.cluster_client import ClusterClient, LeaderAndEpoch, Node
from kmirror.clients.produce_outcomes import ProduceOutcomes
from kmirror.clients.produce_requests import ProduceInFlight, ProduceRequests
from kmirror.clients.producer_batch import ProducerBatch
from kmirror.clients.producer_config import ProducerConfig
from kmirror.clients.record_accumulator import NEVER_MS, RecordAccumulator, timeout_of
from kmirror.clients.sender_metrics import SenderMetrics
from kmirror.clients.transaction_manager import TransactionManager
from kmirror.clients.transaction_states import State
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.sentinels import NO_OFFSET
from kmirror.common.topic_partition import TopicPartition
from kmirror.network.client_connection import ClientConnection
from kmirror.runtime.api import Runtime, TaskScope

PRODUCE_CONNECTION: Final = "produce"
BUSY_SHARE: Final = 4
"""With a backlog, a fourth of the requests that may be in flight keeps the broker busy until the next
ones leave."""
_log = logging.getLogger(__name__)


class Sender:
    """`add_partitions` and `initialize` are coroutines that the sender starts when the manager
    needs them; they tell the manager how they went and raise nothing.
    """

    def __init__(
        self,
        runtime: Runtime,
        config: ProducerConfig,
        cluster: ClusterClient,
        accumulator: RecordAccumulator,
        manager: TransactionManager | None,
        scope: TaskScope,
        *,
        start_work: Callable[[], None],
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._cluster = cluster
        self._accumulator = accumulator
        self._manager = manager
        self._scope = scope
        self._start_work = start_work
        self._woken = asyncio.Event()
        self._in_flight: dict[int, int] = {}
        self._on_wire: dict[ProduceInFlight, None] = {}
        self._last: dict[int, ProduceInFlight] = {}
        self.metrics = SenderMetrics(runtime.clock)
        self._has_news = False
        """Whether an answer said more than that everything was written."""
        self._finding_leaders = False
        self._made_anew = len(cluster.metadata.made_anew)
        """How many of the topics that were made anew the manager knows of."""
        self._muted: dict[TopicPartition, None] = {}
        self._keeps_order = config.max_in_flight == 1
        self._preparing: dict[int, None] = {}
        self._failed_attempts: dict[int, int] = {}
        self._armed_ms = NEVER_MS
        self._requests = ProduceRequests(config, cluster, manager)
        self._outcomes = ProduceOutcomes(runtime.clock, config, cluster, accumulator, manager, self.metrics)

    def wake(self) -> None:
        self._woken.set()

    async def run(self) -> None:
        """Runs until it is cancelled."""
        while True:
            self._woken.clear()
            next_ms = self._armed_ms = self.run_once()
            timer = None
            if next_ms < NEVER_MS:
                timer = self._runtime.call_later_ms(max(0, next_ms - self._runtime.clock.monotonic_ms()), self._woken.set)
            try:
                await self._woken.wait()
            finally:
                if timer is not None:
                    timer.cancel()

    def run_once(self) -> int:
        """Starts everything that can be done now; returns when to look again. While the producer's tasks
        are being ended, one after the other, nothing is started any more.
        """
        if self._scope.closed:
            return NEVER_MS
        now_ms = self._runtime.clock.monotonic_ms()
        manager = self._manager
        if now_ms >= self._next_expiry():
            self._expire(now_ms)
        if manager is not None:
            self._tell_news(manager, now_ms)
        if manager is not None and not manager.is_quiet:
            manager.resolve()
            if manager.has_fatal_error:
                self.abort_queued(manager.last_error or ApiException(Errors.UNKNOWN_SERVER_ERROR), also_sent=True)
                return self._next_expiry()
            if manager.state is State.ABORTING_TRANSACTION:
                self.abort_queued(ApiException(Errors.OPERATION_NOT_ATTEMPTED, "Failing batch since transaction was aborted"))
            elif manager.state is State.ABORTABLE_ERROR:
                error = manager.last_error or ApiException(Errors.UNKNOWN_SERVER_ERROR)
                self.abort_queued(error)
            self._start_work()
        while True:
            ready = self._accumulator.ready(now_ms, self._cluster.metadata.leader, self._may_send)
            if ready.unknown:
                self._find_leaders(ready.unknown)
            if not self._send_ready(ready.partitions, now_ms):
                break
        next_ms = ready.next_ms
        for until_ms in self._outcomes.throttled_until_ms.values():
            if until_ms > now_ms:
                next_ms = min(next_ms, until_ms)
        return min(next_ms, self._next_expiry())

    def _tell_news(self, manager: TransactionManager, now_ms: int) -> None:
        manager.now_ms = now_ms
        made_anew = self._cluster.metadata.made_anew
        if len(made_anew) > self._made_anew:
            for topic in made_anew[self._made_anew :]:
                manager.made_anew(topic)
            self._made_anew = len(made_anew)

    def _may_send(self, partition: TopicPartition) -> bool:
        if partition in self._muted:
            return False
        return self._manager is None or self._manager.may_send_to(partition)

    def _send_ready(self, partitions: dict[int, tuple[LeaderAndEpoch, list[TopicPartition]]], now_ms: int) -> bool:
        """Writes to each broker what it may have in flight; returns whether more may follow at
        once.
        """
        may_go_on = False
        for node_id, (leader, ready) in partitions.items():
            room = self._config.max_in_flight - self._in_flight.get(node_id, 0)
            if room <= 0 or self._outcomes.throttled_until_ms.get(node_id, 0) > now_ms:
                continue
            connection = self._cluster.connection_for_posts(leader.leader, connection_key=PRODUCE_CONNECTION)
            if connection is None:
                self._prepare(leader.leader, ready)
                continue
            sent = self._send(leader, connection, ready, room)
            may_go_on = may_go_on or 0 < sent < room
        return may_go_on

    # Brokers that nothing can be written to

    def _prepare(self, node: Node, waiting: list[TopicPartition]) -> None:
        if node.id not in self._preparing:
            self._preparing[node.id] = None
            self._scope.spawn(self._until_prepared(node, waiting), name=f"prepare-{node.id}")

    async def _until_prepared(self, node: Node, waiting: list[TopicPartition]) -> None:
        """Waits until requests can be written to a broker. If it cannot be reached, its partitions
        may have another leader.
        """
        try:
            await self._cluster.prepare(node, connection_key=PRODUCE_CONNECTION)
            self._failed_attempts.pop(node.id, None)
        except ApiException:
            failures = self._failed_attempts[node.id] = self._failed_attempts.get(node.id, 0) + 1
            for partition in waiting:
                leader = self._cluster.metadata.leader(partition)
                if leader is not None and leader.leader.id == node.id:
                    self._cluster.forget_leader(partition)
            await self._runtime.sleep_ms(self._cluster.backoff_ms(failures - 1))
        except KmirrorError as error:  # the login was refused
            gone = set(waiting)
            for batch in self._accumulator.take_queued(lambda batch: batch.partition in gone):
                self._outcomes.fail(batch, error, has_definite_outcome=not batch.in_retry)
        finally:
            del self._preparing[node.id]
            self.wake()

    # Requests

    def _send(self, leader: LeaderAndEpoch, connection: ClientConnection, ready: list[TopicPartition], room: int) -> int:
        """Writes at most `room` requests; several only of batches from elsewhere, whose queues need
        not be looked at again in between. Returns how many.
        """
        accumulator, take = self._accumulator, _anything if self._manager is None else self._manager.take
        requests: list[ProduceInFlight] = []
        taken: list[list[ProducerBatch]] = []
        count = 0
        node_id = leader.leader.id
        try:
            while count < room:
                batches = accumulator.drain(node_id, ready, take, only_whole=count > 0)
                if not batches:
                    break
                count += 1
                taken.append(batches)
                request = self._request(leader, connection, batches)
                if request is not None:
                    requests.append(request)
        finally:
            if taken:
                self.metrics.sent(taken, self._runtime.clock.monotonic_ms())
            if requests:
                if connection.after_answers is None:
                    connection.after_answers = partial(self._after_answers, node_id)
                connection.post(requests, timeout_ms=self._config.request_timeout_ms)
                self._last[node_id] = requests[-1]
        return count

    def _request(self, leader: LeaderAndEpoch, connection: ClientConnection, batches: list[ProducerBatch]) -> ProduceInFlight | None:
        """Makes one request. None if there is nothing to wait for: batches that cannot be encoded, or
        that this broker's versions do not allow, are settled, and so is what no answer comes to.
        """
        node = leader.leader
        for batch in batches:
            batch.on_wire = True
            batch.attempted_leader_epoch = leader.epoch
            if self._keeps_order:
                self._muted[batch.partition] = None
        self._in_flight[node.id] = self._in_flight.get(node.id, 0) + 1
        request = ProduceInFlight(node, connection, batches, self._ended)
        self._on_wire[request] = None
        try:
            self._requests.encode(request)
        except Exception as error:  # noqa: BLE001 - its records hear of it; others must not suffer
            self._over(request, refusal=error)
            return None
        if self._config.acks == 0:
            connection.post_one_way(request)
            self._over(request)
            return None
        return request

    # Answers

    def _ended(self, request: ProduceInFlight, frame: memoryview | None, error: Exception | None) -> None:
        """The broker has answered. Or the connection was lost, or the answer did not come in
        time.
        """
        if frame is None:
            self._over(request, refusal=error)
            self.wake()
            return
        plainly = self._over(request, frame=frame)
        read_ms, sent_ms = request.connection.last_active_ms, request.deadline_ms - self._config.request_timeout_ms
        self.metrics.answered(request.node.id, read_ms, read_ms - sent_ms, self._outcomes.throttle_ms)
        if not plainly:
            self._has_news = True

    def _after_answers(self, node_id: int) -> None:
        """All answers of a broker that have come are handled."""
        if self._has_news or not self._waits_for_more(node_id):
            self._has_news = False
            self._go_on()
            self._waits_for_more(node_id)

    def _waits_for_more(self, node_id: int) -> bool:
        """Whether the next requests to a broker leave only after further answers; see the module's
        docstring.
        """
        most, last = self._config.max_in_flight, self._last[node_id]
        if self._in_flight[node_id] <= most // BUSY_SHARE:
            return False
        if self._accumulator.whole_behind(last.batches[0].partition) < most:
            return False
        last.connection.rest_until(most // BUSY_SHARE)
        return True

    def _over(self, request: ProduceInFlight, *, frame: memoryview | None = None, refusal: Exception | None = None) -> bool:
        """A request has come to its end. Without an answer and an error, none was expected. Returns
        whether an answer says that everything was written, and nothing else.
        """
        plainly = False
        try:
            if frame is not None:
                plainly = self._outcomes.settle(request, frame)
            elif refusal is not None:
                self._outcomes.settle_unanswered(request.batches, refusal)
            else:
                for batch in request.batches:
                    self._accumulator.complete(batch, NO_OFFSET)
        except Exception as error:  # noqa: BLE001 - the connection calls this, and must not end by it
            self._runtime.report_failure(f"settling a request of the producer to node {request.node.id}", error)
            for batch in request.batches:
                self._outcomes.fail(batch, error, has_definite_outcome=False)
        finally:
            self._in_flight[request.node.id] -= 1
            del self._on_wire[request]
            for batch in request.batches:
                batch.on_wire = False
            if self._keeps_order:
                for batch in request.batches:
                    self._muted.pop(batch.partition, None)
        return plainly

    def _go_on(self) -> None:
        """Sends what can be sent now. The task takes over if that fails, or if it has to look again
        earlier than it thinks.
        """
        try:
            next_ms = self.run_once()
        except Exception as error:  # noqa: BLE001 - the task meets it again, and its owner reports it
            _log.debug("the sender's turn after an answer failed: %s", error)
            next_ms = 0
        if next_ms < self._armed_ms:
            self.wake()

    def _expire(self, now_ms: int) -> None:
        late = self._accumulator.expired(now_ms)
        limit_ms = now_ms - self._config.delivery_timeout_ms
        late += [batch for request in self._on_wire for batch in request.batches if not batch.is_done and batch.created_ms <= limit_ms]
        for batch in late:
            was_sent = batch.in_retry or batch.on_wire
            if self._manager is not None and was_sent and batch.has_sequence:
                self._manager.outcome_unknown(batch)
            self._outcomes.fail(batch, timeout_of(batch, now_ms), has_definite_outcome=False)

    def _next_expiry(self) -> int:
        oldest_ms = self._accumulator.oldest_created_ms
        return NEVER_MS if oldest_ms is None else oldest_ms + self._config.delivery_timeout_ms

    def abort_queued(self, error: Exception, *, also_sent: bool = False) -> None:
        """Fails queued batches; those that were sent before only with `also_sent`."""
        for batch in self._accumulator.take_queued(lambda batch: also_sent or not batch.has_sequence):
            self._accumulator.fail(batch, error)

    def abort_all(self, error: Exception) -> None:
        """Fails everything that is not done, on the wire or not."""
        self._accumulator.queues.clear()
        for batch in list(self._accumulator.incomplete):
            self._accumulator.fail(batch, error)

    # Leaders

    def _find_leaders(self, partitions: dict[TopicPartition, None]) -> None:
        if not self._finding_leaders:
            self._finding_leaders = True
            self._scope.spawn(self._refresh(sorted({partition.topic for partition in partitions})), name="find-leaders")

    async def _refresh(self, topics: list[str]) -> None:
        try:
            await self._cluster.request_update(topics)
        except ApiException:
            pass  # the batches wait until their time is up; the next pass asks again
        except KmirrorError as error:  # the login was refused
            for batch in self._accumulator.take_queued(lambda batch: batch.partition.topic in topics):
                self._outcomes.fail(batch, error, has_definite_outcome=not batch.in_retry)
        finally:
            self._finding_leaders = False
        for topic in topics:
            self._fail_topic(topic, self._cluster.topic_error(topic))
        self.wake()

    def _fail_topic(self, topic: str, error: Errors) -> None:
        """Fails what waits for a topic that we may not use, or whose name is not allowed."""
        if error is Errors.NONE or error.retriable:
            return
        text = f"Not authorized to access topics: [{topic}]" if error is Errors.TOPIC_AUTHORIZATION_FAILED else None
        for batch in self._accumulator.take_queued(lambda batch: batch.partition.topic == topic and not batch.on_wire):
            self._outcomes.fail(batch, ApiException(error, text), has_definite_outcome=not batch.in_retry)


def _anything(batch: ProducerBatch) -> bool:
    return True
