"""Named histories of sources that are old, that refuse, or that are not what they were: a partition
that comes back empty, a topic that is another one.

Each is an `async def (stage)` as in `sim.histories.replicas`. A history states with `expect` what
the checkers cannot see. A copy for disaster recovery does not follow a source that has lost its
log, unless an operator says so.
"""

from __future__ import annotations

from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.sim.events import Removed
from kmirror.sim.histories.replicas import ALONE, end_history, leader_of, let_another_lead
from kmirror.sim.mirror_checkers import check_mirrors
from kmirror.sim.mirror_stage import MirrorStage
from kmirror.sim.old_dialects import DIALECTS, refuse
from kmirror.sim.run import HistoryFunction, Setting
from kmirror.sim.stage import ORDERS, TOPIC, expect

BATCHES = 12


def _values(stage: MirrorStage, cluster: str) -> set[bytes]:
    return {value for batch in stage.log(cluster, ORDERS) or () for value in batch.values}


async def source_comes_back_empty(stage: MirrorStage) -> None:
    """The only replica of A's topic loses its disk, and A leads on with an empty log.

    B keeps what it has.
    """
    stage.history.min_in_sync_replicas = 1
    await stage.open(replication_factor=1, configs=ALONE)
    await stage.write("a", batches=BATCHES)
    await stage.mirror("a", "b")
    await stage.until("B has all of A", lambda: stage.equal("a", "b", ORDERS))
    await stage.until("every replica is in sync", stage.is_whole)
    kept = _values(stage, "b")
    server = leader_of(stage, "a", ORDERS)
    server.crash()
    server.replace_disk(server.volumes[0].path)
    server.mend_disks()
    server.start()
    await server.wait_started()
    await stage.until("A's topic has a leader", lambda: stage.leader("a", ORDERS) is not None)
    if stage.chance(50):
        await stage.write("a", batches=1)
    await stage.sleep_ms(stage.between(2_000, 8_000))
    await stage.until_state("b", State.FAILED)
    missing = kept - _values(stage, "b")
    expect(not missing, f"B keeps what A has lost, not without {len(missing)} of {len(kept)} records")


async def old_source(stage: MirrorStage) -> None:
    """The source is as old as Kafka 2.1, 2.8 or 3.9, and its leader changes (UPG8).

    B follows it, also after a leader that was cut off.
    """
    dialect = sorted(DIALECTS)[stage.between(0, len(DIALECTS) - 1)]
    stage.tell(f"A speaks as Kafka {dialect} to mirrors")
    await stage.open(replication_factor=3, dialect=dialect)
    await stage.write("a", batches=3)
    await stage.mirror("a", "b")
    for _ in range(2):
        await let_another_lead(stage, "a")
        await stage.write("a", batches=2)
    await let_another_lead(stage, "b")
    await stage.write("a", batches=1)
    await end_history(stage, "a", "b")


async def old_source_topic_made_anew(stage: MirrorStage) -> None:
    """A source without topic ids deletes its topic and makes it anew.

    Both happen between two refreshes of the mirror, and B keeps what it has.
    """
    await stage.open(replication_factor=3, dialect="2.1", config={"mirror.metadata.refresh.interval.ms": "20000"})
    await stage.write("a", batches=BATCHES)
    await stage.mirror("a", "b")
    await stage.until("B has all of A", lambda: stage.equal("a", "b", ORDERS))
    await stage.until("every replica is in sync", stage.is_whole)
    kept = _values(stage, "b")
    await stage.requests.delete_topic("a")
    await stage.operator.create_topic("a", TOPIC, replication_factor=3)
    await stage.write("a", batches=stage.between(1, 2))
    await stage.sleep_ms(stage.between(2_000, 25_000))
    await stage.until_state("b", State.FAILED)
    missing = kept - _values(stage, "b")
    expect(not missing, f"B keeps what was in the topic that A has no more, not without {len(missing)} of {len(kept)} records")


async def source_refuses_for_a_while(stage: MirrorStage) -> None:
    """A refuses B's mirror for longer than two refreshes.

    B loses nothing by the refusal, nor on its way out of FAILED.
    """
    await stage.open(replication_factor=3)
    await stage.write("a", batches=3)
    await stage.mirror("a", "b")
    await stage.until("B has all of A", lambda: stage.equal("a", "b", ORDERS))
    until_us = stage.world.loop.now_us + 1_000 * stage.between(1_000, 9_000)
    for server in stage.fleets["a"].brokers.values():
        assert server.server is not None and server.server.broker is not None, server.name
        refuse(server.server.broker.apis, lambda: stage.world.loop.now_us < until_us)
    stage.tell(f"A refuses mirrors until {until_us / 1_000_000:.3f} s")
    began = len(stage.history.events)
    await stage.write("a", batches=2)
    await stage.sleep_ms(300)
    expect(not stage.equal("a", "b", ORDERS), "B gets nothing while it is refused")
    await stage.until("A refuses nobody any more", lambda: stage.world.loop.now_us >= until_us)
    await stage.sleep_ms(2_000)
    if stage.state("b", ORDERS) is State.FAILED:
        await stage.fail_over("b")
        await stage.mirror("a", "b")
    await end_history(stage, "a", "b")
    removed = [event for event in stage.history.events[began:] if isinstance(event, Removed) and stage.history.cluster_of(event.log) == "b"]
    lost = [batch for event in removed for batch in event.batches if batch.values]
    expect(not lost, f"B copies nothing again, not {lost[0] if lost else ''}")


CALM = Setting(MirrorStage, check_mirrors)
SOURCE_HISTORIES: dict[str, tuple[HistoryFunction, Setting]] = {
    "source_comes_back_empty": (source_comes_back_empty, CALM),
    "source_refuses_for_a_while": (source_refuses_for_a_while, CALM),
    "old_source": (old_source, CALM),
    "old_source_topic_made_anew": (old_source_topic_made_anew, CALM),
}
