"""ShareCoordinator: which shard answers, what a request as a whole gets, pruning, deleted topics."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from support.coordinators.coordinator_doubles import MemoryLog
from support.coordinators.share_doubles import TOPIC

from kmirror.common.errors import ApiException, Errors
from kmirror.common.metrics import MetricsRegistry
from kmirror.common.topic_partition import SHARE_GROUP_STATE_TOPIC_NAME, TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.coordinator.share.share_coordinator import ShareCoordinator
from kmirror.coordinator.share.share_coordinator_config import ShareCoordinatorConfig
from kmirror.coordinator.share.share_partition_key import SharePartitionKey
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import FeaturesImage, MetadataImage, MetadataProvenance, TopicImage, TopicsImage
from kmirror.metadata.registrations import PartitionRegistration
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run
from kmirror.wire.messages import delete_share_group_state, initialize_share_group_state, read_share_group_state_summary

STATE_TOPIC_ID = Uuid(b"\x07" * 16)
STATE = TopicPartition(SHARE_GROUP_STATE_TOPIC_NAME, 0)
Body = Callable[[ShareCoordinator, MemoryLog], Awaitable[None]]


def image(*topics: str, leader: int = 1, epoch: int = 1, state_topic_id: Uuid = STATE_TOPIC_ID) -> MetadataImage:
    """`t` has two partitions, the state topic one, which `leader` leads."""
    registration = PartitionRegistration(replicas=(1,), isr=(1,), leader=leader, leader_epoch=epoch)
    known = {
        "t": TopicImage("t", TOPIC, dict.fromkeys(range(2), registration)),
        SHARE_GROUP_STATE_TOPIC_NAME: TopicImage(SHARE_GROUP_STATE_TOPIC_NAME, state_topic_id, {0: registration}),
    }
    present = [known[name] for name in topics]
    return MetadataImage(
        provenance=MetadataProvenance(1, 0, 0),
        features=FeaturesImage({"share.version": 1}),
        topics=TopicsImage({topic.id: topic for topic in present}, {topic.name: topic for topic in present}),
    )


def scenario(body: Body, *, config: ShareCoordinatorConfig | None = None) -> None:
    async def main(runtime: Runtime) -> None:
        log = MemoryLog()
        coordinator = ShareCoordinator(
            runtime, config or ShareCoordinatorConfig(), log=log, broker_id=1, metrics=MetricsRegistry(runtime.clock)
        )
        await body(coordinator, log)
        await coordinator.shutdown()

    run(main)


async def update(coordinator: ShareCoordinator, new: MetadataImage, deleted: tuple[Uuid, ...] = ()) -> None:
    delta = MetadataDelta(new)
    delta.topics.deleted_ids.update(dict.fromkeys(deleted, "t"))
    coordinator.on_metadata_update(delta, new)
    for _ in range(10):
        await asyncio.sleep(0)


def initialize_request(
    *partitions: int, group_id: str = "g", topic_id: Uuid = TOPIC
) -> initialize_share_group_state.InitializeShareGroupStateRequest:
    module = initialize_share_group_state
    data = [module.PartitionData(number, state_epoch=1, start_offset=10 + number) for number in partitions]
    return module.InitializeShareGroupStateRequest(group_id, [module.InitializeStateData(topic_id, data)])


async def initialize(coordinator: ShareCoordinator, *partitions: int) -> list[tuple[int, int, str | None]]:
    response = await coordinator.initialize_state(initialize_request(*partitions))
    return [(entry.partition, entry.error_code, entry.error_message) for result in response.results for entry in result.partitions]


async def start_offsets(coordinator: ShareCoordinator, *partitions: int) -> list[int]:
    module = read_share_group_state_summary
    topics = [module.ReadStateSummaryData(TOPIC, [module.PartitionData(number) for number in partitions])]
    response = await coordinator.read_state_summary(module.ReadShareGroupStateSummaryRequest("g", topics))
    return [entry.start_offset for result in response.results for entry in result.partitions]


def test_states_are_kept_where_their_key_hashes_to_and_come_back_with_the_leadership() -> None:
    async def body(coordinator: ShareCoordinator, log: MemoryLog) -> None:
        key = SharePartitionKey("g", TOPIC, 0)
        with pytest.raises(ApiException) as unavailable:
            coordinator.partition_for(key)
        assert unavailable.value.error is Errors.NOT_COORDINATOR
        answer = await initialize(coordinator, 0)
        assert answer == [(0, Errors.NOT_COORDINATOR, "Unable to initialize share group state: This is not the correct coordinator.")]
        both = image("t", SHARE_GROUP_STATE_TOPIC_NAME)
        await update(coordinator, both)
        assert coordinator.partition_for(key) == STATE
        assert await initialize(coordinator, 1, 0, 5) == [
            (0, 0, None),
            (1, 0, None),
            (5, Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.UNKNOWN_TOPIC_OR_PARTITION.message),
        ]
        await update(coordinator, image("t", SHARE_GROUP_STATE_TOPIC_NAME, leader=2, epoch=2))
        assert [error for _, error, _ in await initialize(coordinator, 0)] == [Errors.NOT_COORDINATOR]
        await update(coordinator, image("t", SHARE_GROUP_STATE_TOPIC_NAME, epoch=3))
        assert await start_offsets(coordinator, 0, 1) == [10, 11]

    scenario(body)


def test_a_request_without_group_topics_or_partitions_gets_an_empty_answer() -> None:
    async def body(coordinator: ShareCoordinator, log: MemoryLog) -> None:
        await update(coordinator, image("t", SHARE_GROUP_STATE_TOPIC_NAME))
        for request in (
            initialize_request(0, group_id=""),
            initialize_request(),
            initialize_share_group_state.InitializeShareGroupStateRequest("g"),
        ):
            assert (await coordinator.initialize_state(request)).results == []
        module = delete_share_group_state
        assert (await coordinator.delete_state(module.DeleteShareGroupStateRequest("g", []))).results == []
        assert log.end == 0

    scenario(body)


def test_a_log_that_takes_nothing_is_told_as_a_coordinator_that_is_away() -> None:
    async def body(coordinator: ShareCoordinator, log: MemoryLog) -> None:
        await update(coordinator, image("t", SHARE_GROUP_STATE_TOPIC_NAME))
        log.refuse = Errors.NOT_ENOUGH_REPLICAS
        assert [error for _, error, _ in await initialize(coordinator, 0)] == [Errors.COORDINATOR_NOT_AVAILABLE]
        log.refuse = Errors.NOT_LEADER_OR_FOLLOWER
        assert [error for _, error, _ in await initialize(coordinator, 0)] == [Errors.NOT_COORDINATOR]

    scenario(body)


def test_pruning_raises_the_log_start_to_the_lowest_snapshot_that_counts() -> None:
    async def body(coordinator: ShareCoordinator, log: MemoryLog) -> None:
        await update(coordinator, image("t", SHARE_GROUP_STATE_TOPIC_NAME))
        await initialize(coordinator, 0)
        await initialize(coordinator, 1)
        await coordinator.prune(STATE)
        assert log.start == 0
        await initialize(coordinator, 0)
        await coordinator.prune(STATE)
        assert log.start == 1
        await coordinator.prune(TopicPartition(SHARE_GROUP_STATE_TOPIC_NAME, 3))

    scenario(body)


def test_the_rounds_run_while_share_groups_are_enabled() -> None:
    async def body(coordinator: ShareCoordinator, log: MemoryLog) -> None:
        coordinator.start()
        await update(coordinator, image("t", SHARE_GROUP_STATE_TOPIC_NAME))
        await initialize(coordinator, 0)
        deadline = 400
        while log.start == 0 and deadline:
            await asyncio.sleep(0.005)
            deadline -= 1
        assert log.start > 0, "the cold snapshot made the first one superfluous, and pruning took it away"
        assert await start_offsets(coordinator, 0) == [10]

    scenario(body, config=ShareCoordinatorConfig(prune_interval_ms=5, cold_partition_snapshot_interval_ms=5))


def test_states_of_deleted_topics_go_also_when_nobody_led_them_meanwhile() -> None:
    async def body(coordinator: ShareCoordinator, log: MemoryLog) -> None:
        both = image("t", SHARE_GROUP_STATE_TOPIC_NAME)
        await update(coordinator, both)
        await initialize(coordinator, 0)
        await update(coordinator, image(SHARE_GROUP_STATE_TOPIC_NAME), deleted=(TOPIC,))
        await update(coordinator, both)
        assert await start_offsets(coordinator, 0) == [-1]
        await initialize(coordinator, 0)
        await update(coordinator, image("t", SHARE_GROUP_STATE_TOPIC_NAME, leader=2, epoch=2))
        await update(coordinator, image(SHARE_GROUP_STATE_TOPIC_NAME, leader=2, epoch=2), deleted=(TOPIC,))
        await update(coordinator, image(SHARE_GROUP_STATE_TOPIC_NAME, epoch=3))
        await update(coordinator, image("t", SHARE_GROUP_STATE_TOPIC_NAME, epoch=3))
        assert await start_offsets(coordinator, 0) == [-1]

    scenario(body)


def test_a_state_topic_that_was_made_anew_is_loaded_anew() -> None:
    async def body(coordinator: ShareCoordinator, log: MemoryLog) -> None:
        await update(coordinator, image("t", SHARE_GROUP_STATE_TOPIC_NAME))
        await initialize(coordinator, 0)
        log.batches.clear()
        log.end = log.committed = 0
        await update(coordinator, image("t", SHARE_GROUP_STATE_TOPIC_NAME, state_topic_id=Uuid(b"\x08" * 16)))
        assert await start_offsets(coordinator, 0) == [-1]

    scenario(body)
