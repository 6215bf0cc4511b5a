"""Random histories of a Connect group under a cooperative protocol: members come, go and come back,
miss an assignment, run what others run; connectors come, go and change their tasks; time passes.

`GroupHistory` plays one with our assignor. Each round is also a question for Apache's, with our answer.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from kmirror.mirrormaker.herder.connect_protocol import ConnectorTaskId
from kmirror.mirrormaker.herder.incremental_cooperative_assignor import ClusterAssignment, RebalanceMemory, Round, Unit, assign

DELAYS_MS = (0, 1, 2, 3_000, 60_000, 300_000, 2**31 - 1)


class GroupHistory:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.max_delay_ms = self.chance.choice(DELAYS_MS)
        self.now_ms = 1_000_000
        self.generation = self.last_generation = self.chance.choice((0, 5))
        self.memory = RebalanceMemory(generation=self.generation) if self.chance.random() < 0.3 else RebalanceMemory()
        self.work: dict[str, list[Unit]] = {}
        self.connectors: dict[str, int] = {}
        self._gone: list[tuple[str, list[Unit]]] = []
        self._named = 0
        for _ in range(self.chance.randint(1, 4)):
            self._join()
        for _ in range(self.chance.randint(0, 3)):
            self._configure()

    def rounds(self, count: int) -> Iterator[tuple[tuple[object, ...], str]]:
        """Yields each round as a question, and our answer."""
        for _ in range(count):
            for _ in range(self.chance.choice((0, 0, 1, 1, 2, 4))):
                self._happens()
            yield self._round()

    def facts(self) -> Round:
        tasks = [ConnectorTaskId(name, number) for name, count in self.connectors.items() for number in range(count)]
        work = {member: list(units) for member, units in self.work.items()}
        return Round(self.now_ms, self.generation, self.last_generation, work, list(self.connectors), tasks, self.max_delay_ms)

    def _round(self) -> tuple[tuple[object, ...], str]:
        self.generation += self.chance.choice((1, 1, 1, 1, 2))
        facts = self.facts()
        members = ";".join(f"{member}={','.join(map(str, units))}" for member, units in facts.work.items())
        configured = ",".join(f"{name}:{count}" for name, count in self.connectors.items())
        question = ("round", self.now_ms, self.last_generation, self.generation, members, configured)
        self.memory, given = assign(self.memory, facts)
        if self.chance.random() < 0.9:
            self.take(given)
            self.last_generation = self.generation
        return question, told(given)

    def take(self, given: ClusterAssignment) -> None:
        for member, units in self.work.items():
            if self.chance.random() < 0.95:  # others missed it
                revoked = set(given.revoked[member])
                self.work[member] = [*given.given[member], *(unit for unit in units if unit not in revoked)]

    def _happens(self) -> None:
        what = self.chance.choice(
            (self._join, self._leave, self._leave, self._return, self._configure, self._remove, self._pass, self._pass, self._copy)
        )
        what()

    def _join(self) -> None:
        self._named += 1
        self.work[f"connect-{self.chance.randrange(10**6)}-{self._named}"] = []

    def _leave(self) -> None:
        if len(self.work) > 1:
            member = self.chance.choice(list(self.work))
            self._gone.append((member, self.work.pop(member)))

    def _return(self) -> None:
        """A member comes back, with or without what it had; under its name, or another one."""
        if self._gone:
            member, units = self._gone.pop(self.chance.randrange(len(self._gone)))
            name = member if self.chance.random() < 0.7 else f"{member}x"
            self.work[name] = units if self.chance.random() < 0.6 else []

    def _configure(self) -> None:
        self.connectors[self.chance.choice("abcdef")] = self.chance.choice((0, 1, 1, 2, 3, 5, 8))

    def _remove(self) -> None:
        if self.connectors:
            del self.connectors[self.chance.choice(list(self.connectors))]

    def _pass(self) -> None:
        self.now_ms += self.chance.choice((1, 39, 40, 41, 1_600, 2_999, 3_000, 60_000, 299_999, 300_000, 2**31))

    def _copy(self) -> None:
        """A member runs what another one runs."""
        units = [unit for others in self.work.values() for unit in others]
        if units and self.chance.random() < 0.3:
            member = self.chance.choice(list(self.work))
            self.work[member] = list(dict.fromkeys([*self.work[member], self.chance.choice(units)]))


def told(given: ClusterAssignment) -> str:
    members = (
        f"{member}={_joined(given.given[member])}/{_joined(_in_order(given.revoked[member]))}/{_joined(_in_order(given.all[member]))}"
        for member in sorted(given.given)
    )
    return " ".join((str(given.delay_ms), *members))


def _in_order(units: Sequence[Unit]) -> list[Unit]:
    return sorted(units, key=lambda unit: (unit, -1) if isinstance(unit, str) else tuple(unit))


def _joined(units: Sequence[Unit]) -> str:
    """Connectors first."""
    return ",".join(str(unit) for unit in sorted(units, key=lambda unit: not isinstance(unit, str)))
