"""Each owner of a task that shall not end, with a task that does: it is reported, and what it looks
after goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support.brokers.broker_doubles import BrokerWorld

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicIdPartition
from kmirror.common.uuid import Uuid
from kmirror.coordinator.common.broker_queues import BrokerQueues
from kmirror.mirror.partition.step_loop import PAUSE_AFTER_FAILURE_MS, StepLoop
from kmirror.mirror.request_batcher import RequestBatcher, UnansweredError
from kmirror.replica.alter_partition import AlterPartitionItem, AlterPartitionManager
from kmirror.runtime.api import TaskScope
from kmirror.runtime.log_scheduler import RuntimeLogScheduler
from kmirror.server.assignments_manager import AssignmentsManager
from kmirror.sim.loop import SimLoop
from kmirror.sim.runtime import SimRuntime, SimWorld
from kmirror.wire.messages import alter_partition as isr
from kmirror.wire.messages import assign_replicas_to_dirs as dirs
from kmirror.wire.primitives import ProtocolReadError


class Scene:
    def __init__(self) -> None:
        self.world = SimWorld(SimLoop(1))
        self.runtime: SimRuntime = self.world.node("a").boot()
        self.scope = TaskScope(self.runtime, "owner")

    def run_ms(self, ms: int) -> None:
        self.world.loop.run_for_us(ms * 1000)

    def failures(self) -> list[str]:
        told, self.world.loop.failures[:] = [failure.message for failure in self.world.loop.failures], []
        return told


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    assert scene.failures() == []
    scene.world.close()


def test_a_step_of_a_mirror_partition_that_failed_was_its_last_until_somebody_woke_it(scene: Scene) -> None:
    made_ms: list[int] = []

    async def step() -> int | None:
        made_ms.append(scene.runtime.clock.monotonic_ms())
        if len(made_ms) == 1:
            raise KeyError("mistake")
        if len(made_ms) == 2:
            await cancelled
        return None

    cancelled: asyncio.Future[None] = scene.runtime.create_future()
    cancelled.cancel()
    StepLoop(scene.runtime, scene.scope, step, name="t-0").wake()
    scene.run_ms(10_000)
    assert made_ms == [0, PAUSE_AFTER_FAILURE_MS, 2 * PAUSE_AFTER_FAILURE_MS]
    assert scene.failures() == ["a step of t-0 failed"] * 2


def test_what_waited_in_the_lane_of_a_request_that_failed_was_never_sent(scene: Scene) -> None:
    sent: list[list[int]] = []
    answers: dict[int, int | None] = {}

    async def send(key: str, items: list[int]) -> Sequence[int | Exception]:
        sent.append(items)
        await scene.runtime.sleep_ms(10)
        return 1 // 0 if len(sent) == 1 else [-1] if len(sent) == 2 else items  # type: ignore[return-value]

    batcher: RequestBatcher[str, int, int] = RequestBatcher(scene.runtime, "states", send, max_in_flight=1, max_items=2)

    async def ask(item: int) -> None:
        try:
            answers[item] = await batcher.submit("key", item)
        except UnansweredError:
            answers[item] = None

    for item in range(5):
        scene.scope.spawn(ask(item), name=str(item))
        scene.run_ms(1)
    scene.run_ms(1_000)
    assert sent == [[0], [1, 2], [3, 4]]
    assert answers == {0: None, 1: -1, 2: None, 3: 3, 4: 4}
    assert scene.failures() == ["states: a request failed"] * 2


def test_what_was_queued_for_a_broker_after_a_mistake_waited_for_ever(scene: Scene) -> None:
    """Markers among them: their transactions did not end any more."""
    sent: list[tuple[int, list[str]]] = []
    answers: dict[str, str] = {}

    async def send(broker_id: int, items: list[str]) -> list[str]:
        sent.append((broker_id, items))
        await scene.runtime.sleep_ms(10)
        return 1 // 0 if len(sent) == 1 else [item.upper() for item in items]  # type: ignore[return-value]

    queues: BrokerQueues[str, str] = BrokerQueues(scene.runtime, "markers", send, key_of=lambda item: item)

    async def ask(item: str) -> None:
        answers[item] = await queues.enqueue(7, item)

    for item in "abc":
        scene.scope.spawn(ask(item), name=item)
        scene.run_ms(5)
    scene.run_ms(1_000)
    assert answers == {"a": "A", "b": "B", "c": "C"}
    assert sent == [(7, ["a"]), (7, ["a", "b", "c"])]
    assert scene.failures() == ["task markers/to-7 ended unexpectedly and begins again in 100 ms"]


def test_an_isr_that_nobody_proposed_again(scene: Scene) -> None:
    """The answer could not be read, or a listener made a mistake: the other proposals waited until
    somebody made a new one.
    """
    asked = 0
    answered: list[int] = []

    async def send(request: isr.AlterPartitionRequest) -> isr.AlterPartitionResponse:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise ProtocolReadError("no answer that can be read")
        rows = [isr.AlterPartitionResponsePartitionData(partition_index=row.partition_index) for row in request.topics[0].partitions]
        return isr.AlterPartitionResponse(
            topics=[isr.AlterPartitionResponseTopicData(topic_id=request.topics[0].topic_id, partitions=rows)]
        )

    def on_answer(item: AlterPartitionItem, error: Errors, answer: object) -> None:
        if item.partition_index == 0:
            raise KeyError("mistake")
        answered.append(item.partition_index)

    manager = AlterPartitionManager(scene.runtime, 1, send, lambda broker_id: 1)
    for number in range(3):
        manager.submit(AlterPartitionItem(Uuid(b"topic-id-16bytes"), number, 0, 0, ((1, 1),), on_answer))
    scene.run_ms(1_000)
    assert answered == [1, 2]
    assert scene.failures() == ["task alter-partition ended unexpectedly and begins again in 100 ms"]


def test_a_directory_that_the_controller_was_never_told_of(scene: Scene) -> None:
    asked = 0
    accepted: list[bool] = []

    async def send(request: dirs.AssignReplicasToDirsRequest) -> dirs.AssignReplicasToDirsResponse:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise ProtocolReadError("no answer that can be read")
        if asked == 2:
            raise KeyError("mistake")
        row = dirs.AssignReplicasToDirsResponsePartitionData(partition_index=0)
        topic = dirs.AssignReplicasToDirsResponseTopicData(topic_id=ID, partitions=[row])
        return dirs.AssignReplicasToDirsResponse(directories=[dirs.AssignReplicasToDirsResponseDirectoryData(id=DIRECTORY, topics=[topic])])

    manager = AssignmentsManager(scene.runtime, 1, send, lambda: 1)
    manager.on_assignment(TopicIdPartition(ID, "t", 0), DIRECTORY, lambda: accepted.append(True))
    scene.run_ms(2_000)
    assert (accepted, manager.pending_count) == ([True], 0)
    assert scene.failures() == ["task replicas-to-dirs-assignments ended unexpectedly and begins again in 100 ms"]


ID, DIRECTORY = Uuid(b"topic-id-16bytes"), Uuid(b"directory-16byte")


def test_one_mistake_ended_the_shrinking_of_all_isrs(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = BrokerWorld(str(tmp_path))
    broker.create_topic("t", replicas=(1,))
    partition = broker.partition("t")
    rounds: list[int] = []

    def shrink() -> None:
        rounds.append(scene.runtime.clock.monotonic_ms())
        if len(rounds) == 1:
            raise ApiException(Errors.UNKNOWN_SERVER_ERROR, "mistake")

    monkeypatch.setattr(partition, "maybe_shrink_isr", shrink)
    monkeypatch.setattr(broker.replica_manager, "runtime", scene.runtime)
    monkeypatch.setattr(broker.replica_manager._checkpoints, "_runtime", scene.runtime)
    broker.replica_manager.start()
    scene.run_ms(3 * broker.config.replica_config().replica_lag_time_max_ms)
    assert len(rounds) == 5
    assert scene.failures() == ["task isr-expiration ended unexpectedly and begins again in 100 ms"]


def test_a_scheduled_piece_that_fails_is_told_by_its_name(scene: Scene) -> None:
    scheduler = RuntimeLogScheduler(scene.runtime)
    ran: list[str] = []
    scheduler.schedule_once("flush-log", lambda: ran.append(str(1 // 0)), 10)
    scheduler.schedule_once("flush-other-log", lambda: ran.append("other"), 10)
    scene.run_ms(100)
    assert ran == ["other"] and scene.failures() == ["scheduled task flush-log failed"]
