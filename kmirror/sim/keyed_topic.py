"""A compacted topic beside the storm's story, mirrored from A to B by a mirror of its own that
pauses again and again.

Its tombstones live for a fifth of a second, its segments for less, and the pauses are longer. So
when B goes on, the cleaner has removed B's last batches at A, and perhaps tombstones that B has. In
half of the stories B cleans seldom, and still has the values that those tombstones deleted.

In the end each key has on every replica a value that the rule "keys" allows (`sim.fleet_keys`),
except for tombstones that a replica of A or B never saw. That a tombstone which a replica saw keeps
its effect is shown by the named histories. The topic is written at A only, whichever cluster is
active.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from kmirror.common.ports import Random
from kmirror.metadata.mirror_names import MIRROR_NAME_CONFIG
from kmirror.sim.fleet_keys import COMPACTED, KEYED, KeyedWriter, last_offset, read_keys
from kmirror.sim.mirror_requests import way_back
from kmirror.sim.mirror_stage import MirrorStage

MIRROR_OF_KEYS = "k"
ENOUGH_COPIES = COMPACTED | {"min.insync.replicas": "2"}
SELDOM_MS = 600_000
SELDOM_PERCENT = 50
LOOK_PAUSE_MS = 100
CLEANED_MS = 1_500


class KeyedTopic:
    """Of one story; `random` is its own."""

    def __init__(self, stage: MirrorStage, random: Random) -> None:
        self._stage = stage
        self._random = random
        self._writer: KeyedWriter | None = None
        self._pausing: asyncio.Task[None] | None = None
        self._is_ending = False

    def config_of_b(self) -> Mapping[str, str]:
        """How often B cleans."""
        return {"log.cleaner.backoff.ms": str(SELDOM_MS)} if self._random.randrange(100) < SELDOM_PERCENT else {}

    async def open(self) -> None:
        """Before faults happen."""
        stage = self._stage
        await stage.operator.create_topic("a", KEYED.topic, 1, ENOUGH_COPIES, replication_factor=3)
        await stage.operator.create_mirror("b", MIRROR_OF_KEYS, source="a")
        await stage.operator.add("b", MIRROR_OF_KEYS, KEYED.topic)
        self._writer = KeyedWriter(stage.crowds["a"].client("keyed"), stage.history)
        stage.clients.spawn(self._writer.run(), name="keyed-writer")
        self._pausing = stage.world.loop.create_task(self._pause_again_and_again(), name="pauses")

    async def _pause_again_and_again(self) -> None:
        operator = self._stage.operator
        while not self._is_ending:
            await self._stage.sleep_ms(500 + self._random.randrange(2_000))
            await operator.pause("b", MIRROR_OF_KEYS, KEYED.topic)
            await self._stage.sleep_ms(300 + self._random.randrange(3_000))
            await operator.resume("b", MIRROR_OF_KEYS, KEYED.topic)

    async def end(self) -> None:
        """No more writes, and no more pauses, not even one that was given up and is carried out
        late.
        """
        assert self._writer is not None and self._pausing is not None
        self._is_ending = True
        await self._pausing
        self._writer.writing = False

    async def read(self) -> None:
        """When everything has healed: B has all of A, cleaners have had their time, and what lives
        now counts.
        """
        stage = self._stage
        while (back := way_back(MIRROR_OF_KEYS, self._association())) is not None:
            if back == "resume":
                await stage.operator.resume("b", MIRROR_OF_KEYS, KEYED.topic)
            await stage.sleep_ms(LOOK_PAUSE_MS)
        await stage.until(f"B has all of {KEYED}", self._is_level)
        await stage.sleep_ms(CLEANED_MS)
        for fleet in stage.fleets.values():
            servers = [fleet.broker_named(replica) for replica in fleet.registrations()[KEYED].isr]
            read_keys(stage.history, stage.world.loop.now_us, servers, written_to="a", may_lack_tombstones=True)

    def _association(self) -> str | None:
        fleet = self._stage.fleets["b"]
        return fleet.image().configs.topic(KEYED.topic).get(MIRROR_NAME_CONFIG, "") if fleet.controller.is_serving else None

    def _is_level(self) -> bool:
        """On every replica: those that are in sync have the same end."""
        fleets = self._stage.fleets.values()
        if not all(fleet.controller.is_serving for fleet in fleets):
            return False
        servers = [fleet.broker_named(replica) for fleet in fleets for replica in fleet.registrations()[KEYED].isr]
        return len({last_offset(server) for server in servers}) == 1
