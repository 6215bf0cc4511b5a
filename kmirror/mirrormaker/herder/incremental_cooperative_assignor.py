"""What a leader gives to whom when members keep their work while they join (KIP-415, Connect's
`IncrementalCooperativeAssignor`): a pure function of what it remembers, what the members say they run,
what is configured, and the time.

    deleted      the leader gave it out, and it is configured no longer: taken away
    duplicated   two members say they run it: taken away from both, and given out the next time
    lost         given out, and nobody has it: its member may come back, so it waits
    created      configured, and never given out: goes to the members with the least work

A member that is gone leaves work behind that nobody gets for scheduled.rebalance.max.delay.ms; members
join again when that is over. Whoever came empty-handed in between gets it then, others only if there is
no such member. While the leader waits, no work is moved to make the members' shares equal.

To move work takes two rounds: work is taken away, its member joins again at once, and in the next round
nobody has it, so it is given out. A round that would take work away right after one that did waits
first, for a time that grows by a factor of 40 up to that delay: members that come one after another
would otherwise stop the same tasks over and over.

Connectors and tasks are balanced apart. What a leader remembers counts only if its last round was the
group's last round; a new leader remembers nothing, and takes what members say they run for all that was
given out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from kmirror.mirrormaker.herder.connect_protocol import ConnectorTaskId
from kmirror.mirrormaker.herder.java_hash_order import in_hash_order

Unit = str | ConnectorTaskId
"""A connector, by its name, or a task."""
Work = Mapping[str, Sequence[Unit]]
"""Of each member."""
NO_GENERATION: Final = -1
FIRST_BACKOFF_MS: Final = 1
BACKOFF_FACTOR: Final = 40


@dataclass(frozen=True)
class RebalanceMemory:
    """What a leader remembers of its last round. `scheduled_ms` is when the next one is due, 0 if none is;
    `candidates` are the members that came empty-handed while lost work waits.
    """

    generation: int = NO_GENERATION
    members: frozenset[str] = frozenset()
    given: frozenset[Unit] = frozenset()
    revoked: frozenset[Unit] = frozenset()
    candidates: tuple[str, ...] = ()
    scheduled_ms: int = 0
    delay_ms: int = 0
    revoked_last: bool = False
    successive_revocations: int = 0

    def without_delay(self) -> RebalanceMemory:
        return replace(self, candidates=(), scheduled_ms=0, delay_ms=0)


@dataclass(frozen=True)
class ClusterAssignment:
    """What is new for each member, what is taken away from it, and all that it runs from now on."""

    given: Work
    revoked: Work
    all: Work
    delay_ms: int = 0


@dataclass(frozen=True)
class Round:
    """The facts of one round. `last_generation` is that of the last round that this worker saw completed.
    `work` is what each member says it runs, in its order.
    """

    now_ms: int
    generation: int
    last_generation: int
    work: Work
    connectors: Collection[str]
    tasks: Collection[ConnectorTaskId]
    max_delay_ms: int


@dataclass
class _Draft:
    """What a round comes to. `loads` is by member, in Java's order at first."""

    memory: RebalanceMemory
    loads: dict[str, list[Unit]]
    revoked: dict[str, list[Unit]]
    to_give: list[Unit] = field(default_factory=list)

    def revoke(self, units: Work) -> None:
        for member, taken in units.items():
            gone = set(taken)
            self.loads[member] = [unit for unit in self.loads[member] if unit not in gone]
            self.revoked[member] += [unit for unit in taken if unit not in self.revoked[member]]


def assign(memory: RebalanceMemory, facts: Round) -> tuple[RebalanceMemory, ClusterAssignment]:
    configured: set[Unit] = {*facts.connectors, *facts.tasks}
    counts = Counter(unit for units in facts.work.values() for unit in dict.fromkeys(units))
    active = set(counts)
    given = _given_before(memory, facts, active)
    deleted = given - configured
    lost = given - active - deleted
    created = configured - given - active

    loads = {member: list(dict.fromkeys(facts.work[member])) for member in in_hash_order(facts.work)}
    current = {member: [unit for unit in units if unit not in deleted] for member, units in loads.items()}
    draft = _Draft(replace(memory, revoked=frozenset()), loads, {member: [] for member in loads})
    duplicated = {unit for unit, count in counts.items() if count > 1}
    draft.revoke({member: [unit for unit in units if unit in deleted or unit in duplicated] for member, units in loads.items()})
    _handle_lost(draft, facts, _in_order(lost))
    if draft.memory.delay_ms:
        draft.memory = replace(draft.memory, revoked_last=False)
    else:
        _balance(draft, facts)
    _give_out(draft.loads, [*_in_order(created), *draft.to_give])

    runs = {unit for units in draft.loads.values() for unit in units}
    taken = frozenset(unit for units in draft.revoked.values() for unit in units)
    remembered = replace(
        draft.memory,
        generation=facts.generation,
        members=frozenset(facts.work),
        given=frozenset((runs - taken) | lost),
        revoked=taken,
    )
    new = {member: _without(units, current[member]) for member, units in draft.loads.items()}
    left = {member: _without(units, draft.revoked[member]) for member, units in draft.loads.items()}
    return remembered, ClusterAssignment(new, draft.revoked, left, remembered.delay_ms)


def assign_around_leader(memory: RebalanceMemory, facts: Round, leader: str) -> tuple[RebalanceMemory, ClusterAssignment]:
    """The same for tasks; connectors are the leader's, for members that have no way to tell it what their
    connectors' tasks are. A connector that another member runs is taken away first.
    """
    tasks = {member: [unit for unit in units if isinstance(unit, ConnectorTaskId)] for member, units in facts.work.items()}
    memory, dealt = assign(memory, replace(facts, work=tasks, connectors=()))
    running = {member: [unit for unit in dict.fromkeys(units) if isinstance(unit, str)] for member, units in facts.work.items()}
    elsewhere = {unit for member, units in running.items() if member != leader for unit in units}
    wanted: list[Unit] = [name for name in sorted(facts.connectors) if name not in elsewhere]
    revoked: dict[str, list[Unit]] = {
        member: [unit for unit in units if member != leader or unit in elsewhere or unit not in facts.connectors]
        for member, units in running.items()
    }

    def joined(connectors: Work, dealt: Work) -> Work:
        return {member: [*connectors.get(member, ()), *dealt[member]] for member in facts.work}

    given = joined({leader: _without(wanted, running[leader])}, dealt.given)
    return memory, ClusterAssignment(given, joined(revoked, dealt.revoked), joined({leader: wanted}, dealt.all), dealt.delay_ms)


def _given_before(memory: RebalanceMemory, facts: Round, active: set[Unit]) -> set[Unit]:
    """What the leader knows was given out. What it took away and somebody still runs was not taken away."""
    if memory.revoked & active:
        return set(active)
    return set(memory.given) if memory.generation == facts.last_generation else set()


def _handle_lost(draft: _Draft, facts: Round, lost: Sequence[Unit]) -> None:
    memory = draft.memory
    if not lost and not memory.revoked_last:
        draft.memory = memory.without_delay()
        return
    nobody_left = memory.scheduled_ms <= 0 and memory.members <= facts.work.keys()
    if nobody_left or facts.max_delay_ms == 0:  # the last assignment did not arrive, or nobody is waited for
        draft.to_give += lost
        return
    if 0 < memory.scheduled_ms <= facts.now_ms:
        candidates = [member for member in memory.candidates if member in draft.loads]
        if candidates:
            _deal(draft.loads, candidates, lost)
        else:
            draft.to_give += lost
        draft.memory = replace(memory.without_delay(), revoked_last=False)
        return
    came = in_hash_order(member for member, units in draft.loads.items() if not units)
    left_ms = memory.scheduled_ms - facts.now_ms
    delay_ms = min(left_ms, facts.max_delay_ms) if left_ms > 0 else facts.max_delay_ms
    draft.memory = replace(
        memory,
        candidates=tuple(dict.fromkeys((*memory.candidates, *came))),
        scheduled_ms=facts.now_ms + delay_ms,
        delay_ms=delay_ms,
    )


def _balance(draft: _Draft, facts: Round) -> None:
    """Takes away what members have above their share, unless the round before did so, too."""
    memory, excess = draft.memory, _excess(draft.loads, facts)
    if not excess:
        if memory.revoked_last:
            draft.memory = replace(memory, revoked_last=False, successive_revocations=0)
        return
    if not memory.revoked_last:
        draft.memory = replace(memory, revoked_last=True)
        draft.revoke(excess)
        return
    successive = memory.successive_revocations + 1
    delay_ms = backoff_ms(successive, facts.max_delay_ms)
    draft.memory = replace(memory, successive_revocations=successive, delay_ms=delay_ms)
    if delay_ms:
        draft.memory = replace(draft.memory, scheduled_ms=facts.now_ms + delay_ms)
    else:
        draft.revoke(excess)


def _excess(loads: Work, facts: Round) -> dict[str, list[Unit]]:
    """What each member has above its share, of those that have any."""
    if not any(loads.values()) or not (facts.connectors or facts.tasks):
        return {}
    connectors = {member: [unit for unit in units if isinstance(unit, str)] for member, units in loads.items()}
    tasks = {member: [unit for unit in units if not isinstance(unit, str)] for member, units in loads.items()}
    found: dict[str, list[Unit]] = {}
    for shares in (_above_share(connectors, len(facts.connectors)), _above_share(tasks, len(facts.tasks))):
        for member, units in shares.items():
            found.setdefault(member, []).extend(units)
    return found


def _above_share(loads: Work, total: int) -> dict[str, list[Unit]]:
    """A share is the total by the members, and what is left over lets the first few keep one more."""
    share, extras = divmod(total, len(loads))
    sizes = Counter(map(len, loads.values()))
    if sizes[share + 1] == extras and sizes[share] + sizes[share + 1] == len(loads):
        return {}
    found: dict[str, list[Unit]] = {}
    for member, units in loads.items():
        if len(units) <= share:
            continue
        keeps = share + (extras > 0)
        extras = max(extras - 1, 0)
        if len(units) > keeps:
            found[member] = list(units[: len(units) - keeps])
    return found


def _give_out(loads: dict[str, list[Unit]], units: Sequence[Unit]) -> None:
    """Connectors, then tasks, each to the members that have fewest of them."""
    for kind in (str, ConnectorTaskId):
        waiting = [unit for unit in units if isinstance(unit, kind)]
        sizes = {member: sum(isinstance(unit, kind) for unit in has) for member, has in loads.items()}
        order = sorted(loads, key=lambda member: (sizes[member], member))
        while waiting:
            least = sizes[order[0]]
            level = next((index for index, member in enumerate(order) if sizes[member] > least), len(order))
            for member, unit in zip(order[:level], waiting):
                loads[member].append(unit)
                sizes[member] += 1
            waiting = waiting[level:]


def _deal(loads: dict[str, list[Unit]], members: Sequence[str], units: Sequence[Unit]) -> None:
    """Round robin, connectors and tasks each from the first member on."""
    for kind in (str, ConnectorTaskId):
        for index, unit in enumerate(one for one in units if isinstance(one, kind)):
            loads[members[index % len(members)]].append(unit)


def backoff_ms(attempts: int, longest_ms: int) -> int:
    """Kafka's `ExponentialBackoff` without chance."""
    first_ms = min(FIRST_BACKOFF_MS, longest_ms)
    if longest_ms <= FIRST_BACKOFF_MS:
        return first_ms
    exponent = min(attempts, math.log(longest_ms) / math.log(BACKOFF_FACTOR))
    return min(int(first_ms * math.pow(BACKOFF_FACTOR, exponent)), longest_ms)


def _in_order(units: Iterable[Unit]) -> list[Unit]:
    """Connectors by name, then tasks by connector and number."""
    found = list(units)
    connectors = sorted(unit for unit in found if isinstance(unit, str))
    return [*connectors, *sorted(unit for unit in found if not isinstance(unit, str))]


def _without(units: Sequence[Unit], others: Iterable[Unit]) -> list[Unit]:
    gone = set(others)
    return [unit for unit in units if unit not in gone]
