"""A group reads a mirror while it mirrors, with clients that remember leader epochs as Java's do
(`epoch_memory`, C19).

The source's leader changes until its epoch is above the destination's, before the first record and
again while the group reads. The member is replaced, the destination's leader changes, and the
destination takes over. After each of these the group must get to the end of the log. A client that
heard of an epoch which no metadata has gets nowhere, which is a violation of "progress".
"""

from __future__ import annotations

from kmirror.common.errors import KmirrorError
from kmirror.sim.fleet_events import OffsetCommitted
from kmirror.sim.mirror_checkers import check_mirrors
from kmirror.sim.mirror_stage import MirrorStage
from kmirror.sim.run import HistoryFunction, Setting
from kmirror.sim.stage import ORDERS

EPOCHS_AHEAD = 3


async def java_group_reads_a_mirror(stage: MirrorStage) -> None:
    """A group with clients like Java's reads B, whose batches have epochs above B's own (C19).

    It reads on with another member, and from another leader.
    """
    await stage.open(replication_factor=3)
    for _ in range(EPOCHS_AHEAD):
        await _change_leader(stage, "a")
    await stage.write("a", batches=2)
    await stage.mirror("a", "b")
    group = stage.crowds["b"]
    group.start_member()
    await _until_read(stage, "from the log's start")
    await _change_leader(stage, "a")
    await stage.write("a", batches=2)
    await _until_read(stage, "with another epoch at A")
    await group.dismiss_members()
    await stage.write("a", batches=1)
    group.start_member()
    await _until_read(stage, "by another member")
    await _change_leader(stage, "b")
    await stage.write("a", batches=2)
    await _until_read(stage, "from another leader")
    if _epoch(stage, "a") <= _epoch(stage, "b"):
        raise KmirrorError("the source's leader epoch is not above the mirror's")
    await stage.fail_over("b")
    await stage.write("b", batches=2)
    await _until_read(stage, "after the failover")
    await stage.settle()
    await stage.end()


def _epoch(stage: MirrorStage, cluster: str) -> int:
    return stage.fleets[cluster].registrations()[ORDERS].leader_epoch


async def _change_leader(stage: MirrorStage, cluster: str) -> None:
    first = stage.leader(cluster, ORDERS)
    if first is None:
        raise KmirrorError(f"{ORDERS} has no leader at {cluster}")
    first.crash()
    await stage.until(f"{cluster} has another leader", lambda: stage.leader(cluster, ORDERS) not in (None, first))
    first.start()
    await stage.until("every replica is in sync", stage.is_whole)


async def _until_read(stage: MirrorStage, how: str) -> None:
    """Waits until B has all of A's records that it shall have, and the group has committed the end
    of B's log.
    """

    def is_read() -> bool:
        source, log = stage.log("a", ORDERS), stage.log("b", ORDERS)
        if not source or not log or len(log) < len(source):
            return False
        end = log[-1].last_offset + 1
        return any(isinstance(event, OffsetCommitted) and event.cluster == "b" and event.offset == end for event in stage.history.events)

    await stage.until(f"the group reads B to its end {how}", is_read)


READER_HISTORIES: dict[str, tuple[HistoryFunction, Setting]] = {
    "java_group_reads_a_mirror": (java_group_reads_a_mirror, Setting(MirrorStage, check_mirrors)),
}
