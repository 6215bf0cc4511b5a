"""Named disasters of MirrorMaker, each an `async def (stage)` as in `sim.histories.replicas`. Nothing
else goes wrong, so that each is short.
"""

from __future__ import annotations

from functools import partial

from kmirror.common.topic_partition import TopicPartition
from kmirror.sim.events import Batch
from kmirror.sim.flow_checkers import check_flows
from kmirror.sim.flow_stage import FlowStage
from kmirror.sim.flow_world import SOURCE, TARGET, FlowWorld, LegacyWorld
from kmirror.sim.histories.mirror_makers import end_flows, end_legacy, open_flows, open_legacy
from kmirror.sim.run import HistoryFunction, Setting
from kmirror.sim.server import SimServer
from kmirror.sim.stage import ORDERS
from kmirror.sim.worker_process import WorkerProcess

EXACT = FlowWorld(exactly_once=True, lag_max=0)
OFFSETS = [TopicPartition(f"mm2-offsets.{SOURCE}.internal", number) for number in range(2)]
TRANSACTIONS = TopicPartition("__transaction_state", 0)
KILLED_AFTER_MS = (0, 4, 8)
STRAY_MS, SYNCED_MS = 100, 300
"""What a life before has sent arrives within the first."""
STALL_MS = 8_000
CUT_OFF_MS = 1_800
"""Longer than both kinds of worker wait between two commits."""


def _log(stage: FlowStage, partition: TopicPartition) -> list[Batch]:
    leader = stage.fleets[TARGET].leader(partition)
    return leader.watch.logs.get(partition, []) if leader is not None else []


def _stored(stage: FlowStage) -> int:
    """Returns how often source offsets were written, whether or not it counts."""
    return sum(not batch.is_control for partition in OFFSETS for batch in _log(stage, partition))


def _has_stored(stage: FlowStage, wanted: int) -> bool:
    return _stored(stage) >= wanted


async def _until_offsets_are_written(stage: FlowStage) -> None:
    """Waits until the worker has written source offsets, its offset syncs have arrived, and source
    offsets are written once more.
    """
    for pause_ms in (STRAY_MS, SYNCED_MS):
        await stage.sleep_ms(pause_ms)
        wanted = _stored(stage) + 1
        await stage.until("source offsets are written", partial(_has_stored, stage, wanted))


async def killed_in_a_transaction(stage: FlowStage) -> None:
    """The worker is killed several times just when it has written source offsets, or a few
    milliseconds later, before or while it commits them; at last it cannot reach the broker that
    would commit them.
    """
    worker, _ = await open_flows(stage, EXACT, 1)
    stage.crowds[SOURCE].start_producer(idempotent=True)
    for delay_ms in KILLED_AFTER_MS:
        worker.start()
        await _until_offsets_are_written(stage)
        await stage.sleep_ms(delay_ms)
        worker.kill()
    worker.start()
    await _until_offsets_are_written(stage)
    coordinator = stage.fleets[TARGET].leader(TRANSACTIONS)
    assert coordinator is not None, "nothing else goes wrong"
    await _cut_off(stage, worker, coordinator)
    await end_flows(stage, EXACT)


async def replaced_while_it_stands_still(stage: FlowStage) -> None:
    """A worker stands still in a transaction, another one takes its place, and then both run."""
    first, second = await open_flows(stage, EXACT, 1)
    stage.crowds[SOURCE].start_producer(idempotent=True)
    first.start()
    await _until_offsets_are_written(stage)
    first.stall(STALL_MS)
    second.start()
    await stage.sleep_ms(STALL_MS + 1_500)
    first.kill()
    await stage.settle()
    await end_flows(stage, EXACT)


async def there_and_back(stage: FlowStage) -> None:
    """Both clusters copy each other's topics, and nothing that came from a cluster comes back."""
    world = FlowWorld(both_ways=True)
    worker, _ = await open_flows(stage, world, 1)
    worker.start()
    for crowd in stage.crowds.values():
        crowd.start_producer(idempotent=True)
    await stage.sleep_ms(3_500)
    await stage.settle()
    await end_flows(stage, world)


async def cut_off(stage: FlowStage) -> None:
    """A worker reaches the brokers that store its source offsets, and not one that takes records; it
    is killed before those have arrived. A group reads along.
    """
    await _cut_off_flow(stage, FlowWorld(lag_max=0))


async def cut_off_filtered(stage: FlowStage) -> None:
    """... and drops records between those that have not arrived."""
    await _cut_off_flow(stage, FlowWorld(lag_max=0, filters=True))


async def _cut_off_flow(stage: FlowStage, world: FlowWorld) -> None:
    worker, _ = await open_flows(stage, world, 3)
    stage.crowds[SOURCE].marks_odd = world.filters
    stage.crowds[SOURCE].start_producer(idempotent=True)
    stage.crowds[SOURCE].start_member()
    worker.start()
    await stage.until("source offsets are written", lambda: _stored(stage) > 0)
    fleet = stage.fleets[TARGET]
    storing = [fleet.leader(partition) for partition in OFFSETS]
    await _cut_off(stage, worker, next(broker for broker in fleet.brokers.values() if broker not in storing))
    await end_flows(stage, world)


async def legacy_cut_off(stage: FlowStage) -> None:
    """The legacy MirrorMaker reaches its source, and not the broker that takes its records; it is
    killed before those have arrived.
    """
    world = LegacyWorld()
    (worker,) = await open_legacy(stage, world, 1)
    stage.crowds[SOURCE].start_producer(idempotent=True)
    worker.start()
    await stage.until("records are copied", lambda: bool(_log(stage, ORDERS)))
    leader = stage.fleets[TARGET].leader(ORDERS)
    assert leader is not None, f"{ORDERS} has records, and no leader"
    await _cut_off(stage, worker, leader)
    await end_legacy(stage, world)


async def _cut_off(stage: FlowStage, worker: WorkerProcess, broker: SimServer) -> None:
    """... until the worker was killed; then it starts again, and all is well."""
    stage.world.network.partition([worker.name], [broker.name])
    stage.tell(f"{worker.name} and {broker.name} are cut off from each other")
    await stage.sleep_ms(CUT_OFF_MS)
    worker.kill()
    stage.world.network.heal()
    worker.start()
    await stage.settle()


CALM = Setting(FlowStage, check_flows)
MIRROR_MAKER_DISASTERS: dict[str, tuple[HistoryFunction, Setting]] = {
    "mirror-maker-2-killed-in-a-transaction": (killed_in_a_transaction, CALM),
    "mirror-maker-2-replaced": (replaced_while_it_stands_still, CALM),
    "mirror-maker-2-there-and-back": (there_and_back, CALM),
    "mirror-maker-2-cut-off": (cut_off, CALM),
    "mirror-maker-2-cut-off-filtered": (cut_off_filtered, CALM),
    "mirror-maker-1-cut-off": (legacy_cut_off, CALM),
}
