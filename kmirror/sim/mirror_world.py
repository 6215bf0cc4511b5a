"""What the world of a seed is like, beside its story: what its brokers' disks do, how their logs
move between them, and what happens to mirrors that few operators live to see.

Drawn apart from the story (`SeededRandom` of its own), so that a world without any of this has the
story that it always had. What takes a turn of the story, or goes on beside it, is in
`sim.mirror_turns`, `sim.lost_sources` and `sim.keyed_topic`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kmirror.common.ports import Random
from kmirror.sim.faults import FaultRates
from kmirror.sim.fleet_keys import CLEANING

TWO_LOG_DIRS_PERCENT = 20
DISK_FAULTS_PERCENT = 20
OLD_SOURCE_PERCENT = 10
KEYED_PERCENT = 4
SWITCHED_OFF_PERCENT = 6
STATES_GROW_PERCENT = 6
SOURCE_LOST_PERCENT = 8
REFUSING_PERCENT = 6
SLOW_MOVES = {"replica.alter.log.dirs.io.max.bytes.per.second": "10000"}
"""Else a move lasts a few milliseconds, and nothing else happens meanwhile."""
EMPTY, ANEW = "comes back empty", "is made anew"
LOSSES = (EMPTY, ANEW)


@dataclass(frozen=True, slots=True)
class MirrorWorld:
    """What one seed's world is like.

    `log_dirs`: log directories of each broker; with two, replicas move between them. `disks_break`:
    whether disks fail. `dialect`: the Kafka version as which A answers mirrors. (Never 2.1: it
    tells no topic ids, so B's topic would have another id, and the failback would find a stranger.)

    `keyed`: a compacted topic beside the story's is mirrored from A to B, and its mirror pauses for
    longer than tombstones live. `switched_off`: mirror.version is lowered to 0 in the middle, and
    raised again. `states_grow`: `__mirror_state` gets more partitions than it was created with.
    `source_lost`: how the current source loses its log; the mirror does not follow unless its
    operator says so. `refusing`: the source lets no mirror read for a while.
    """

    log_dirs: int = 1
    disks_break: bool = False
    dialect: str | None = None
    keyed: bool = False
    switched_off: bool = False
    states_grow: bool = False
    source_lost: str | None = None
    refusing: bool = False

    @classmethod
    def drawn(cls, random: Random, **told: Any) -> MirrorWorld:
        """Draws a world by the seed, except what is `told`.

        The compacted topic's mirror may not be deleted, and its logs are read where they lie, so
        its world neither switches mirroring off nor moves replicas.
        """

        def chance(percent: int) -> bool:
            return random.randrange(100) < percent

        world = cls(
            log_dirs=2 if chance(TWO_LOG_DIRS_PERCENT) else 1,
            disks_break=chance(DISK_FAULTS_PERCENT),
            dialect=("2.8", "3.9")[random.randrange(2)] if chance(OLD_SOURCE_PERCENT) else None,
            keyed=chance(KEYED_PERCENT),
            switched_off=chance(SWITCHED_OFF_PERCENT),
            states_grow=chance(STATES_GROW_PERCENT),
            source_lost=LOSSES[random.randrange(2)] if chance(SOURCE_LOST_PERCENT) else None,
            refusing=chance(REFUSING_PERCENT),
        )
        world = replace(world, **told)
        if world.switched_off and "switched_off" in told:
            world = replace(world, keyed=False)
        if world.keyed:
            world = replace(world, switched_off=False, log_dirs=1)
        return replace(world, log_dirs=1) if world.source_lost == EMPTY else world

    @property
    def config(self) -> Mapping[str, str]:
        """Of every broker."""
        return (SLOW_MOVES if self.log_dirs > 1 else {}) | (CLEANING if self.keyed else {})

    def rates(self, rates: FaultRates) -> FaultRates:
        """Those of a storm in this world."""
        return rates.with_disk_faults() if self.disks_break and not rates.is_calm else rates

    def __str__(self) -> str:
        found = [f"{self.log_dirs} log directories a broker"] if self.log_dirs > 1 else []
        found += ["disks break"] if self.disks_break else []
        found += [f"A speaks as Kafka {self.dialect} to mirrors"] if self.dialect is not None else []
        found += ["a compacted topic whose mirror pauses for longer than tombstones live"] if self.keyed else []
        found += ["mirroring is switched off and on again"] if self.switched_off else []
        found += ["__mirror_state grows"] if self.states_grow else []
        found += [f"the source's log {self.source_lost}"] if self.source_lost == EMPTY else []
        found += [f"the source's topic {self.source_lost}"] if self.source_lost == ANEW else []
        found += ["the source refuses mirrors for a while"] if self.refusing else []
        return ", ".join(found) or "nothing out of the ordinary"
