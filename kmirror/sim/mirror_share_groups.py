"""Share groups at a failover: a group's start offset is synced while its topic is mirrored (SYN15),
and belongs to the destination afterwards (C18).

This is a history of its own, with known numbers, and a part of the storm (`MovedShareGroup`). In
the storm an admin moves the group at the active cluster now and then, and

    at a failover   the new active cluster has a start offset that somebody once asked for, or none
    in the end      the passive cluster has the active one's start offset; after the last failover
                    it keeps it, wherever the group is moved to at the old active cluster

What does not hold is a violation of "progress". The group has no members, since share fetching is
not simulated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kmirror.admin.admin_client import NoBrokerError
from kmirror.common.errors import ApiException, KmirrorError
from kmirror.common.ports import Random
from kmirror.common.topic_partition import TopicPartition
from kmirror.metadata.features import SHARE_VERSION
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.sim.fleet_clients import LOST
from kmirror.sim.mirror_checkers import check_mirrors
from kmirror.sim.mirror_stage import FEATURES, MirrorStage
from kmirror.sim.run import HistoryFunction, Setting
from kmirror.sim.stage import ORDERS

SHARE_GROUP = "workers"
TRY_PAUSE_MS = 200
TWO_CYCLES_MS = 4_000
HIGHEST_START = 9
WITH_SHARE_GROUPS: dict[str, Any] = {
    "features": FEATURES | {SHARE_VERSION: 1},
    "config": {"share.coordinator.state.topic.num.partitions": "1"},
}
"""For `MirrorStage.open`."""


async def share_group_at_failover(stage: MirrorStage) -> None:
    """An admin moves a share group's start offset at A, forwards and back (SYN15, C18).

    B follows until it takes over, and no longer after that, whichever broker of B dies.
    """
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


Starts = Mapping[TopicPartition, int | None]


class MovedShareGroup:
    """The share group of a storm. It owns where the group was ever moved to and what was synced
    last; `random` draws the start offsets.
    """

    def __init__(self, stage: MirrorStage, random: Random) -> None:
        self._stage = stage
        self._random = random
        self._moved_to: dict[TopicPartition, set[int]] = {}
        self._synced: Starts = {}

    async def move(self, cluster: str) -> None:
        """Moves the start offset of each partition at `cluster`."""
        starts = {partition: self._random.randrange(HIGHEST_START + 1) for partition in self._stage.partitions}
        for partition, start in starts.items():
            self._moved_to.setdefault(partition, set()).add(start)

        async def alter() -> bool:
            errors = await self._stage.operator.admin(cluster).alter_share_group_offsets(SHARE_GROUP, starts)
            return all(errors.get(partition, KmirrorError("no answer")) is None for partition in starts)

        await _insist(self._stage, f"group {SHARE_GROUP} is to begin at {sorted(starts.values())} at {cluster}", alter)

    async def until_synced(self, source: str, destination: str) -> None:
        """Waits until the group begins at the destination where it does at the source."""

        async def look() -> bool:
            theirs, ours = await self._starts(source), await self._starts(destination)
            self._synced = ours
            return theirs == ours and None not in ours.values()

        await _insist(self._stage, f"group {SHARE_GROUP} begins at {destination} where it does at {source}", look)

    async def ensure_was_moved_to(self, cluster: str) -> None:
        """Raises KmirrorError for a start offset that nobody ever asked for."""

        async def look() -> bool:
            for partition, start in (await self._starts(cluster)).items():
                if start is not None and start not in self._moved_to.get(partition, ()):
                    raise KmirrorError(f"group {SHARE_GROUP} begins {partition} at {start} at {cluster}, where nobody ever moved it")
            return True

        await _insist(self._stage, f"group {SHARE_GROUP} begins at {cluster} where it was moved to", look)

    async def ensure_unmoved(self, cluster: str) -> None:
        """Raises KmirrorError unless the group begins where it did when it was synced last."""

        async def look() -> bool:
            starts = await self._starts(cluster)
            if starts != self._synced:
                raise KmirrorError(f"group {SHARE_GROUP} began at {self._synced} at {cluster}, which took over, and begins at {starts} now")
            return True

        await _insist(self._stage, f"group {SHARE_GROUP} still begins at {cluster} where it did", look)

    async def _starts(self, cluster: str) -> Starts:
        found = await self._stage.operator.admin(cluster).list_share_group_offsets(SHARE_GROUP, self._stage.partitions)
        return {partition: None if state is None else state.start_offset for partition, state in found.items()}


async def _insist(stage: MirrorStage, what: str, attempt: Callable[[], Awaitable[bool]]) -> None:
    """Tries until the attempt succeeds; KmirrorError if it never does."""
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
