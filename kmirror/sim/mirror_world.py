"""What the world of a seed is like, beside its story: what its brokers' disks do, and how their logs move between them.

Drawn apart from the story (`SeededRandom` of its own), so that a world without any of this has the story that it always had.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kmirror.common.ports import Random
from kmirror.sim.faults import FaultRates

TWO_LOG_DIRS_PERCENT = 20
DISK_FAULTS_PERCENT = 20
OLD_SOURCE_PERCENT = 10
SLOW_MOVES = {"replica.alter.log.dirs.io.max.bytes.per.second": "10000"}
"""Else a move lasts a few milliseconds, and nothing else happens meanwhile."""
DISK_RATES = {"disk_fails": 3, "disk_fills": 3, "disk_lies": 2, "disk_lost": 2}


@dataclass(frozen=True, slots=True)
class MirrorWorld:
    """`log_dirs` of each broker, between which replicas move where there are two; whether disks break; as what A answers mirrors. (Not as 2.1: it
    tells no topic ids, so that B's topic has another one, and failback finds a stranger.)"""

    log_dirs: int = 1
    disks_break: bool = False
    dialect: str | None = None

    @classmethod
    def drawn(cls, random: Random) -> MirrorWorld:
        def chance(percent: int) -> bool:
            return random.randrange(100) < percent

        return cls(
            log_dirs=2 if chance(TWO_LOG_DIRS_PERCENT) else 1,
            disks_break=chance(DISK_FAULTS_PERCENT),
            dialect=("2.8", "3.9")[random.randrange(2)] if chance(OLD_SOURCE_PERCENT) else None,
        )

    @property
    def config(self) -> dict[str, str]:
        """Of every broker."""
        return SLOW_MOVES if self.log_dirs > 1 else {}

    def rates(self, rates: FaultRates) -> FaultRates:
        """Those of a storm in this world."""
        return replace(rates, **DISK_RATES) if self.disks_break and rates.crash else rates

    def __str__(self) -> str:
        found = [f"{self.log_dirs} log directories a broker"] if self.log_dirs > 1 else []
        found += ["disks break"] if self.disks_break else []
        found += [f"A speaks as Kafka {self.dialect} to mirrors"] if self.dialect is not None else []
        return ", ".join(found) or "nothing out of the ordinary"
