"""Share groups at a failover: where one begins is synced while its topic is mirrored (SYN15), and is the destination's own afterwards (C18)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from kmirror.admin.admin_client import NoBrokerError
from kmirror.common.errors import ApiException, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.metadata.features import SHARE_VERSION
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.sim.fleet_clients import LOST
from kmirror.sim.mirror_checkers import check_mirrors
from kmirror.sim.mirror_stage import FEATURES, TOPIC, MirrorStage
from kmirror.sim.run import HistoryFunction, Setting

SHARE_GROUP = "workers"
ORDERS = TopicPartition(TOPIC, 0)
TRY_PAUSE_MS = 200
TWO_CYCLES_MS = 4_000


async def share_group_at_failover(stage: MirrorStage) -> None:
    """SYN15, C18: an admin moves a share group at A, also back; B follows until it takes over, and then no more, whichever broker of B dies."""
    await stage.open(replication_factor=3, features=FEATURES | {SHARE_VERSION: 1})
    await stage.write("a", batches=6)
    await stage.mirror("a", "b")
    for start in (stage.between(4, 6), stage.between(1, 3)):
        await _alter(stage, "a", start)
        await _insist(stage, f"group {SHARE_GROUP} begins at {start} at b", lambda: _begins_at(stage, "b", start))  # noqa: B023 - awaited here
    await stage.fail_over("b")
    first = list(stage.fleets["b"].brokers.values())[stage.between(0, 2)]
    first.crash()
    await _alter(stage, "a", 5)
    await stage.sleep_ms(TWO_CYCLES_MS)
    first.start()
    await stage.until("every replica is in sync", stage.is_whole)
    await _insist(stage, f"group {SHARE_GROUP} still begins at {start} at b", lambda: _begins_at(stage, "b", start))
    if stage.state("b", ORDERS) is not State.STOPPED:
        raise KmirrorError(f"{ORDERS} is not STOPPED at b")
    await stage.settle()
    await stage.end()


async def _alter(stage: MirrorStage, cluster: str, start: int) -> None:
    async def alter() -> bool:
        offsets: Mapping[TopicPartition, int] = {ORDERS: start}
        errors = await stage.operator.admin(cluster).alter_share_group_offsets(SHARE_GROUP, offsets)
        return errors[ORDERS] is None

    await _insist(stage, f"group {SHARE_GROUP} is to begin at {start} at {cluster}", alter)


async def _begins_at(stage: MirrorStage, cluster: str, start: int) -> bool:
    found = (await stage.operator.admin(cluster).list_share_group_offsets(SHARE_GROUP, [ORDERS])).get(ORDERS)
    return found is not None and found.start_offset == start


async def _insist(stage: MirrorStage, what: str, attempt: Callable[[], Awaitable[bool]]) -> None:
    """Until it is so; KmirrorError when it does not come to be."""
    stage.operator.tell(what)
    deadline_us = stage.world.loop.now_us + stage.patience_ms * 1000
    problem = "no"
    while stage.world.loop.now_us <= deadline_us:
        try:
            if await attempt():
                return
        except (ApiException, NoBrokerError, *LOST) as error:
            problem = str(error)
        await stage.sleep_ms(TRY_PAUSE_MS)
    raise KmirrorError(f"{what}: {problem}")


SHARE_GROUP_HISTORIES: dict[str, tuple[HistoryFunction, Setting]] = {
    "share_group_at_failover": (share_group_at_failover, Setting(MirrorStage, check_mirrors)),
}
