"""The histories of MirrorMaker: its workers copy from fleet A to fleet B under faults of all kinds.

    clients   plain, idempotent and transactional producers at A (some transactions are aborted,
              some producers are zombies), members of a group that commit at A; with both ways the
              same at B
    workers   one to three workers of MirrorMaker 2, or one or two processes of the legacy one, on
              machines of their own, in a group; they are killed, lose their power, stand still for 20 s, are restarted, have
              clocks that are off; with exactly-once support a stalled one may be replaced, and
              wakes up beside the other
    faults    those of both fleets, and of the network between all machines
    end       writers stop, faults end, the workers copy what is left and are ended

Then the rules of `flow_checkers` must hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kmirror.clients.consumer.consumer_types import ConsumerRecord
from kmirror.clients.kafka_producer import ProducerRecord
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.driver import MirrorMaker
from kmirror.mirrormaker.formats import Checkpoint, OffsetSync
from kmirror.mirrormaker.legacy.message_handler import DefaultMirrorMakerMessageHandler
from kmirror.mirrormaker.legacy.mirror_maker import MirrorMaker as LegacyMirrorMaker
from kmirror.mirrormaker.legacy.settings import MirrorMakerSettings, include_pattern
from kmirror.runtime.system_ports import SeededRandom
from kmirror.sim.events import Appended
from kmirror.sim.faults import FaultRates
from kmirror.sim.fleet_clients import is_odd
from kmirror.sim.flow_checkers import check_flows
from kmirror.sim.flow_events import Copied, FaultsEnded, FlowRead, key_values, went_with_topics
from kmirror.sim.flow_stage import FlowStage, Troubles
from kmirror.sim.flow_world import SOURCE, TARGET, FlowWorld, LegacyWorld, servers_of
from kmirror.sim.run import HistoryFunction, Setting
from kmirror.sim.runtime import SimRuntime
from kmirror.sim.stage import TOPIC
from kmirror.sim.worker_process import WorkerProcess

HEARTBEATS = "heartbeats"
OTHER_TOPIC = "more-orders"
"""Its name is before the story's topic's, so tasks get other partitions."""
LEGACY_COMMIT_MS = 700
FOLLOWED_MS = 6_000
"""Within this time offsets of the group have followed into a topic that was made anew."""


class MirrorMaker2:
    """One life of a worker of MirrorMaker 2."""

    def __init__(self, runtime: SimRuntime, properties: dict[str, str], workers_settings: Mapping[str, str]) -> None:
        self.maker = MirrorMaker(runtime, properties, transform=lambda props: {**props, **workers_settings})
        self._ended = runtime.create_future()

    async def run(self) -> None:
        self.maker.start()
        await self._ended

    async def stop(self) -> None:
        await self.maker.stop()


class MirrorMaker1:
    """One life of a process of the legacy MirrorMaker."""

    def __init__(self, runtime: SimRuntime, settings: MirrorMakerSettings) -> None:
        self._maker = LegacyMirrorMaker(runtime, settings)
        self._ended = runtime.create_future()

    async def run(self) -> None:
        await self._maker.run()
        self._ended.set_result(None)

    async def stop(self) -> None:
        self._maker.shut_down()
        await self._ended


class SamePartition:
    """A handler that keeps the partition of each record."""

    def handle(self, record: ConsumerRecord) -> list[ProducerRecord]:
        return [ProducerRecord(record.topic, record.value, key=record.key, partition=record.partition, timestamp=record.timestamp)]


async def mirror_maker_2(stage: FlowStage) -> None:
    """MirrorMaker 2 copies from one fleet to another, and is killed, stalled and replaced, under
    faults of all kinds.
    """
    await _mirror_maker_2(stage, FlowWorld.drawn(SeededRandom(f"{stage.world.loop.seed}/world")))


def flows_of(**told: Any) -> HistoryFunction:
    """Returns the story of `mirror-maker-2` in a world with these options."""

    async def play(stage: FlowStage) -> None:
        await _mirror_maker_2(stage, FlowWorld.drawn(SeededRandom(f"{stage.world.loop.seed}/world"), **told))

    play.__doc__ = f"The story of mirror-maker-2 with {FlowWorld(**told)}."
    return play


async def _mirror_maker_2(stage: FlowStage, world: FlowWorld) -> None:
    stage.tell(f"the world: {world}")
    if world.disks_break and not stage.rates.is_calm:
        stage.rates = stage.rates.with_disk_faults()
    sources = [source for source, _ in world.flows()]
    *workers, spare = await open_flows(stage, world, stage.between(1, 3))
    for source in sources:
        stage.crowds[source].marks_odd = world.filters
        _start_clients(stage, source)
    for worker in workers:
        worker.start()
    await stage.sleep_ms(stage.between(0, 4_000))
    stage.faults.active = True
    troubles = Troubles(stage, [] if world.deletes else workers, spare if world.replaced else None)
    for turn in range(stage.between(3, 6)):
        await stage.sleep_ms(stage.between(500, 3_000))
        if turn == 1 and world.grows:
            await _grow(stage, sources)
        if turn > 0 and world.deletes:
            await _delete(stage, world)
        if stage.chance(40):
            stage.crowds[SOURCE].start_transactions("pay")
        if stage.chance(30):
            stage.crowds[SOURCE].start_member()
    stage.faults.active = False
    await troubles.end()
    await stage.settle()
    await end_flows(stage, world)


async def mirror_maker_1(stage: FlowStage) -> None:
    """The legacy MirrorMaker copies from one fleet to another, and is killed and stalled, under
    faults of all kinds.
    """
    world = LegacyWorld.drawn(SeededRandom(f"{stage.world.loop.seed}/world"))
    stage.tell(f"the world: {world}")
    if world.disks_break and not stage.rates.is_calm:
        stage.rates = stage.rates.with_disk_faults()
    workers = await open_legacy(stage, world, stage.between(1, 3))
    _start_clients(stage, SOURCE)
    for worker in workers:
        worker.start()
    await stage.sleep_ms(stage.between(0, 4_000))
    stage.faults.active = True
    troubles = Troubles(stage, workers)
    for _ in range(stage.between(3, 6)):
        await stage.sleep_ms(stage.between(500, 3_000))
        if stage.chance(40):
            stage.crowds[SOURCE].start_transactions("pay")
    stage.faults.active = False
    await troubles.end()
    await stage.settle()
    await end_legacy(stage, world)


async def open_legacy(stage: FlowStage, world: LegacyWorld, partitions: int) -> list[WorkerProcess]:
    """Opens the stage; returns the processes, which do not run yet."""
    consumer, producer = world.properties(lambda cluster: servers_of(stage.fleets[cluster].bootstrap))

    def begin(runtime: SimRuntime) -> MirrorMaker1:
        settings = MirrorMakerSettings(
            consumer,
            producer,
            include_pattern(TOPIC),
            num_streams=world.streams,
            offset_commit_interval_ms=LEGACY_COMMIT_MS,
            message_handler=DefaultMirrorMakerMessageHandler() if world.one_partition else SamePartition(),
        )
        return MirrorMaker1(runtime, settings)

    workers = [stage.add_worker(f"mm{number}", begin) for number in range(1, world.processes + 1)]
    await stage.open(partitions, [SOURCE])
    await stage.operator.create_topic(TARGET, TOPIC, 1 if world.one_partition else partitions, replication_factor=3)
    return workers


async def end_legacy(stage: FlowStage, world: LegacyWorld) -> None:
    """As `end_flows`."""
    copied = tuple((partition, TopicPartition(TOPIC, 0) if world.one_partition else partition) for partition in stage.partitions)
    await stage.wait_until(lambda: _is_copied(stage, SOURCE, TARGET, copied, committed=world.committed))
    await stage.end()
    stage.history.add(FlowRead(stage.world.loop.now_us, SOURCE, TARGET, world.committed, exactly_once=False, copied=copied))


async def open_flows(
    stage: FlowStage, world: FlowWorld, partitions: int, *, lives: list[MirrorMaker2] | None = None
) -> list[WorkerProcess]:
    """Opens the stage; returns the workers, and one to spare, which do not run yet. Their lives are added to
    `lives`.
    """

    def begin(runtime: SimRuntime) -> MirrorMaker2:
        life = MirrorMaker2(runtime, properties, world.workers_settings())
        if lives is not None:
            lives.append(life)
        return life

    properties = world.properties(lambda cluster: servers_of(stage.fleets[cluster].bootstrap))
    names = [f"mm{number}" for number in range(1, world.workers + 2)]
    workers = [stage.add_worker(name, begin) for name in names]
    await stage.open(partitions, [source for source, _ in world.flows()])
    return workers


def _start_clients(stage: FlowStage, cluster: str) -> None:
    crowd = stage.crowds[cluster]
    crowd.start_producer(idempotent=False)
    crowd.start_producer(idempotent=True)
    crowd.start_transactions("pay")
    crowd.start_member()


async def _grow(stage: FlowStage, sources: list[str]) -> None:
    """Makes one more partition, or another topic, that is written to from then on."""
    is_new_topic = stage.chance(50)
    partition = TopicPartition(OTHER_TOPIC, 0) if is_new_topic else TopicPartition(TOPIC, len(stage.partitions))
    stage.partitions.append(partition)
    for cluster in sources:
        if is_new_topic:
            await stage.operator.create_topic(cluster, OTHER_TOPIC, replication_factor=3)
        else:
            await stage.operator.add_partitions(cluster, TOPIC, partition.partition + 1)
        stage.crowds[cluster].partitions.append(partition)
        stage.crowds[cluster].start_producer(idempotent=True)


async def _delete(stage: FlowStage, world: FlowWorld) -> None:
    """Deletes the target's topic, perhaps while the group stands somewhere behind."""
    for member in stage.crowds[SOURCE].members:
        member.consuming = stage.chance(50)
    if stage.chance(70):
        await stage.operator.delete_topic(TARGET, world.remote(SOURCE, TOPIC))


async def end_flows(stage: FlowStage, world: FlowWorld) -> None:
    """Waits until all is copied, ends the workers, and reads what is to be judged."""
    copied = {
        flow: {partition: TopicPartition(world.remote(flow[0], partition.topic), partition.partition) for partition in stage.partitions}
        for flow in world.flows()
    }
    await stage.wait_until(
        lambda: all(
            _is_copied(stage, *flow, of_flow.items(), committed=world.committed, filters=world.filters) for flow, of_flow in copied.items()
        )
    )
    await stage.wait_until(lambda: all(_beats(stage, target) for _, target in world.flows()))
    if world.deletes:
        await stage.sleep_ms(FOLLOWED_MS)
    for (source, target), of_flow in copied.items():
        await stage.read_group(source, target, {own: copy for own, copy in of_flow.items() if own.topic == TOPIC})
    await stage.end()
    for (source, target), of_flow in copied.items():
        stage.history.add(
            FlowRead(
                stage.world.loop.now_us,
                source,
                target,
                world.committed,
                world.exactly_once,
                tuple(of_flow.items()),
                tuple(_syncs(stage, *world.syncs_topic(source, target))),
                tuple(_checkpoints(stage, target, f"{source}.checkpoints.internal")),
                HEARTBEATS,
                world.filters,
            )
        )


def _is_copied(stage: FlowStage, source: str, target: str, copied: Iterable[Copied], *, committed: bool, filters: bool = False) -> bool:
    """Whether the target has all that the source shows, as far as the logs of leaders say now."""
    gone = went_with_topics(stage.history, target)

    def wanted(partition: TopicPartition) -> set[bytes]:
        return {value for value in stage.shown(source, partition, committed=committed) if not (filters and is_odd(value))}

    return all(wanted(partition) - gone.get(remote, set()) <= stage.shown(target, remote, committed=True) for partition, remote in copied)


def _beats(stage: FlowStage, cluster: str) -> bool:
    """Whether the cluster got a heartbeat after the faults had ended."""
    for event in reversed(stage.history.events):
        if isinstance(event, FaultsEnded):
            return False
        if isinstance(event, Appended) and event.log.partition.topic == HEARTBEATS and stage.history.cluster_of(event.log) == cluster:
            return True
    return False


def _syncs(stage: FlowStage, cluster: str, topic: str) -> list[OffsetSync]:
    return [OffsetSync.deserialize_record(key, value) for key, value in _records(stage, cluster, topic)]


def _checkpoints(stage: FlowStage, cluster: str, topic: str) -> list[Checkpoint]:
    return [Checkpoint.deserialize_record(key, value) for key, value in _records(stage, cluster, topic)]


def _records(stage: FlowStage, cluster: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    partition = TopicPartition(topic, 0)
    leader = stage.fleets[cluster].leader(partition)
    return list(key_values(leader, partition)) if leader is not None else []


STORM = Setting(FlowStage, check_flows, FaultRates.storm(node_pause=2, min_pause_ms=250, max_pause_ms=1_500))
CALM = Setting(FlowStage, check_flows)
MIRROR_MAKER_HISTORIES: dict[str, tuple[HistoryFunction, Setting]] = {
    "mirror-maker-2": (mirror_maker_2, STORM),
    "mirror-maker-2-calm": (mirror_maker_2, CALM),
    "mirror-maker-2-exactly-once": (flows_of(exactly_once=True, replaced=True), STORM),
    "mirror-maker-2-sessioned": (flows_of(protocol="sessioned", exactly_once=True, workers=3), STORM),
    "mirror-maker-2-both-ways": (flows_of(both_ways=True), STORM),
    "mirror-maker-2-filtered": (flows_of(filters=True), STORM),
    "mirror-maker-2-made-anew": (flows_of(deletes=True, replaced=False, both_ways=False, identity=False), STORM),
    "mirror-maker-1": (mirror_maker_1, STORM),
}
