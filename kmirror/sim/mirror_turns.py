"""Turns that a story of the storm takes only in some worlds: mirroring is switched off and on,
`__mirror_state` grows, or the source refuses mirrors or loses its data (`sim.lost_sources`).

    switch off    the passive cluster's mirror is deleted, at times also the active one's former mirror; mirror.version is lowered to 0, clients
                  write there, it is raised, and the mirror is created again
    grow          an operator tries to add partitions and must get INVALID_PARTITIONS; then a controller of another version adds them
    refuse        the active cluster takes all permissions from mirrors, and gives them back

All rules must hold as always. In particular a refusal makes no partition fail: it only delays
mirroring until it ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from kmirror.admin.admin_client import NoBrokerError
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.ports import Random
from kmirror.common.topic_partition import MIRROR_STATE_TOPIC_NAME
from kmirror.sim.fleet_clients import LOST
from kmirror.sim.histories.states import grow, grow_underneath
from kmirror.sim.lost_sources import LostSource
from kmirror.sim.mirror_stage import MirrorStage
from kmirror.sim.mirror_world import ANEW, EMPTY, MirrorWorld
from kmirror.sim.stage import MIRROR
from kmirror.sim.story import Story

TRIES = 20
PAUSE_MS = 150
GROWN = (2, 3, 5)
MIN_REFUSED_MS, MAX_REFUSED_MS = 500, 6_000

Turn = Callable[[], Awaitable[None]]


class Turns:
    """The turns of one story. Nothing else draws from `random`."""

    def __init__(self, stage: MirrorStage, story: Story, random: Random) -> None:
        self._stage = stage
        self._story = story
        self._random = random
        self.lost_source = LostSource(stage, story, random)

    def among(self, happenings: Sequence[Turn], world: MirrorWorld) -> list[Turn]:
        """Returns the story's happenings with the turns of this world inserted at random places."""
        lost = self.lost_source
        turns: dict[Turn, bool] = {
            self._switch_off: world.switched_off,
            self._grow: world.states_grow,
            self._refuse: world.refusing,
            lost.comes_back_empty: world.source_lost == EMPTY,
            lost.is_made_anew: world.source_lost == ANEW,
        }
        found = list(happenings)
        for turn, is_had in turns.items():
            if is_had:
                found.insert(self._random.randrange(len(found) + 1), turn)
        return found

    def _between(self, low: int, high: int) -> int:
        return low + self._random.randrange(high - low + 1)

    async def _refuse(self) -> None:
        """Starts a refusal. The story goes on meanwhile."""
        cluster, now_us = self._story.active, self._stage.world.loop.now_us
        until_us = now_us + 1_000 * self._between(MIN_REFUSED_MS, MAX_REFUSED_MS)
        self._stage.refused_until_us[cluster] = until_us
        self._stage.tell(f"{cluster} refuses mirrors until {until_us / 1_000_000:.3f} s")

    async def _switch_off(self) -> None:
        stage, passive = self._stage, self._story.passive
        await stage.fail_over(passive)
        clusters = [passive, self._story.active] if self._random.randrange(2) else [passive]
        for cluster in clusters:
            fleet = stage.fleets[cluster]
            await stage.until(f"the controller of {cluster} serves", lambda: fleet.controller.is_serving)  # noqa: B023 - awaited here
            if MIRROR in fleet.image().configs.mirror_names():
                await stage.delete_mirror(cluster)
            await stage.operator.switch_off(cluster)
        if self._random.randrange(2):
            stage.crowds[passive].write(writing=True)
        await stage.sleep_ms(self._between(100, 1_500))
        stage.crowds[passive].write(writing=False)
        for cluster in clusters:
            await stage.operator.switch_on(cluster)
        await self._story.start_mirror()

    async def _grow(self) -> None:
        stage, story = self._stage, self._story
        cluster = story.active if self._random.randrange(3) == 0 else story.passive
        fleet, count = stage.fleets[cluster], GROWN[self._random.randrange(len(GROWN))]
        if not await self._until_it_is_there(cluster):
            return
        await self._try_to_grow(cluster, count)
        for _ in range(TRIES):
            await stage.until(f"the controller of {cluster} serves", lambda: fleet.controller.is_serving)
            topic = fleet.image().topics.topic(MIRROR_STATE_TOPIC_NAME)
            if topic is not None and topic.partitions[0].leader >= 0:
                stage.faults.hold(fleet.controller)
                await grow_underneath(stage, fleet, count)
                stage.faults.release(fleet.controller)
                return
            await stage.sleep_ms(PAUSE_MS)

    async def _until_it_is_there(self, cluster: str) -> bool:
        """Waits for `__mirror_state`. Returns False if the cluster never had a mirror."""
        fleet = self._stage.fleets[cluster]
        for _ in range(TRIES):
            if fleet.controller.is_serving and fleet.image().topics.topic(MIRROR_STATE_TOPIC_NAME) is not None:
                return True
            await self._stage.sleep_ms(PAUSE_MS)
        return False

    async def _try_to_grow(self, cluster: str, count: int) -> None:
        """Tries until there is an answer. Raises KmirrorError unless it is a refusal."""
        what = f"growing {MIRROR_STATE_TOPIC_NAME} of {cluster} to {count}"
        for _ in range(TRIES):
            try:
                await grow(self._stage, cluster, count)
            except ApiException as refused:
                if refused.error is Errors.INVALID_PARTITIONS:
                    self._stage.tell(f"{what} is refused")
                    return
            except (NoBrokerError, *LOST):
                pass
            else:
                raise KmirrorError(f"{what} is not refused")
            await self._stage.sleep_ms(PAUSE_MS)
