"""Source topics that are made anew under MirrorMaker 2, while writers go on writing.

    clients   plain and idempotent producers at A
    operator  deletes the topic at A and makes it again, one to three times, with its number of
              partitions; some of the new ones outgrow the old before the worker hears of it
    faults    those of both fleets, and of the network between all machines; nothing happens to the
              worker itself, so that its metrics have all that it has told
    end       writers stop, faults end, and the worker copies what it can

The rule is `silent`: of the source's last topic nothing may be missing at the target that the
worker has not counted as lost. A copy of all of it is not asked for: by default a task goes on at
its offset, as Apache's does.
"""

from __future__ import annotations

from collections.abc import Iterator

from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.system_ports import SeededRandom
from kmirror.sim.checkers import Violation
from kmirror.sim.events import History
from kmirror.sim.faults import FaultRates
from kmirror.sim.flow_events import LossesTold
from kmirror.sim.flow_stage import FlowStage
from kmirror.sim.flow_world import SOURCE, TARGET, FlowWorld
from kmirror.sim.histories.mirror_makers import MirrorMaker2, open_flows
from kmirror.sim.run import HistoryFunction, Setting
from kmirror.sim.stage import TOPIC

TOLD = {"both_ways": False, "identity": False, "replaced": False, "exactly_once": False, "workers": 1, "grows": False, "sink": False}


async def mirror_maker_2_source_made_anew(stage: FlowStage) -> None:
    """MirrorMaker 2 copies a topic that is deleted at the source and made anew."""
    world = FlowWorld.drawn(SeededRandom(f"{stage.world.loop.seed}/world"), **TOLD)
    stage.tell(f"the world: {world}")
    lives: list[MirrorMaker2] = []
    worker, *_ = await open_flows(stage, world, stage.between(1, 2), lives=lives)
    crowd = stage.crowds[SOURCE]
    crowd.start_producer(idempotent=False)
    crowd.start_producer(idempotent=True)
    worker.start()
    await stage.sleep_ms(stage.between(1_000, 6_000))
    stage.faults.active = True
    for _ in range(stage.between(1, 3)):
        await stage.sleep_ms(stage.between(500, 4_000))
        await stage.operator.delete_topic(SOURCE, TOPIC)
        await stage.sleep_ms(stage.between(0, 1_500))
        await stage.operator.create_topic(SOURCE, TOPIC, len(stage.partitions), replication_factor=3)
    await stage.sleep_ms(stage.between(500, 6_000))
    stage.faults.active = False
    await stage.settle()
    await stage.wait_until(lambda: not [row for row in _losses(stage, world, lives) if row.missing > row.told])
    for row in _losses(stage, world, lives):
        stage.history.add(row)
    await stage.end()


def _losses(stage: FlowStage, world: FlowWorld, lives: list[MirrorMaker2]) -> list[LossesTold]:
    found = []
    for partition in stage.partitions:
        remote = TopicPartition(world.remote(SOURCE, partition.topic), partition.partition)
        shown = stage.shown(SOURCE, partition, committed=world.committed)
        missing = shown - stage.shown(TARGET, remote, committed=True)
        told = sum(_counted(life, remote) for life in lives)
        found.append(LossesTold(stage.world.loop.now_us, partition, len(missing), told))
    return found


def _counted(life: MirrorMaker2, remote: TopicPartition) -> int:
    tags = {("topic", remote.topic), ("partition", str(remote.partition))}
    counts = (one.value() for name, one in life.maker.metrics if name.attribute == "records-lost" and tags <= set(name.tags))
    return int(next(counts, 0))


def check_losses_told(history: History) -> list[Violation]:
    """No record of the source's last topic is missing at the target without a count."""
    return list(_silent(history))


def _silent(history: History) -> Iterator[Violation]:
    for event in history.events:
        if isinstance(event, LossesTold) and event.missing > event.told:
            text = f"{event.missing} records of {event.partition} are not at the target, and {event.told} were told to be lost"
            yield Violation("silent", event.now_us, text)


_RATES = FaultRates.storm(node_pause=2, min_pause_ms=250, max_pause_ms=1_500)
MIRROR_MAKER_SOURCES: dict[str, tuple[HistoryFunction, Setting]] = {
    "mirror-maker-2-source-made-anew": (mirror_maker_2_source_made_anew, Setting(FlowStage, check_losses_told, _RATES)),
    "mirror-maker-2-source-made-anew-calm": (mirror_maker_2_source_made_anew, Setting(FlowStage, check_losses_told)),
}
