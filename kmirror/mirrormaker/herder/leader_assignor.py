"""What the leader of a group gives each member, whatever protocol the group runs (Connect's `EagerAssignor`
and `IncrementalCooperativeAssignor`).

Only the leader writes what a connector's tasks are. A member that runs a connector tells it over HTTP, so
connectors go to all members where each has such an interface, and stay with the leader otherwise. Under
the eager protocol they stay with it in any case: a leader that stays one keeps them running while the
group is assigned anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from kmirror.mirrormaker.herder.connect_protocol import NOT_USED, Assignment, ConnectorTaskId, ConnectProtocol, WorkerState
from kmirror.mirrormaker.herder.incremental_cooperative_assignor import (
    ClusterAssignment,
    RebalanceMemory,
    Round,
    Unit,
    assign,
    assign_around_leader,
)

AnyUnit = TypeVar("AnyUnit")


@dataclass(frozen=True)
class GroupRound:
    """`generation` is the one that begins, `last_generation` the last one that this worker saw completed."""

    protocol: ConnectProtocol
    leader: str
    generation: int
    last_generation: int
    members: Mapping[str, WorkerState]


class LeaderAssignor:
    """Remembers what it gave under a cooperative protocol. `owners` is who runs what: a member's URL."""

    def __init__(self, url: str, max_delay_ms: int) -> None:
        self.owners: dict[Unit, str] = {}
        self._url = url
        self._max_delay_ms = max_delay_ms
        self._memory = RebalanceMemory()

    def assign(
        self, group: GroupRound, offset: int, connectors: Iterable[str], tasks: Iterable[ConnectorTaskId], now_ms: int
    ) -> dict[str, Assignment]:
        """`offset` is the end of the topic of configs that connectors and tasks are taken from."""
        if group.protocol.is_cooperative:
            given, found = self._cooperatively(group, offset, [*connectors], [*tasks], now_ms)
        else:
            found = assign_eagerly(group.leader, self._url, offset, group.members, connectors, tasks)
            given = {member: [*one.connectors, *one.tasks] for member, one in found.items()}
        self.owners = {unit: group.members[member].url for member, units in given.items() for unit in units}
        return found

    def _cooperatively(
        self, group: GroupRound, offset: int, connectors: list[str], tasks: list[ConnectorTaskId], now_ms: int
    ) -> tuple[dict[str, list[Unit]], dict[str, Assignment]]:
        work = {member: _work_of(state.assignment) for member, state in group.members.items()}
        facts = Round(now_ms, group.generation, group.last_generation, work, connectors, tasks, self._max_delay_ms)
        if all(state.url not in ("", NOT_USED) for state in group.members.values()):
            self._memory, given = assign(self._memory, facts)
        else:
            self._memory, given = assign_around_leader(self._memory, facts, group.leader)
        told = {member: _told(Assignment(group.leader, self._url, offset), given, member) for member in group.members}
        return {member: list(units) for member, units in given.all.items()}, told


def assign_eagerly(
    leader: str, url: str, offset: int, members: Iterable[str], connectors: Iterable[str], tasks: Iterable[ConnectorTaskId]
) -> dict[str, Assignment]:
    """Returns each member's work: tasks go round robin over the members, connectors to the leader
    (Kafka's `EagerAssignor` deals connectors, too).
    """
    every = sorted(members)
    dealt: dict[str, list[ConnectorTaskId]] = {member: [] for member in every}
    others_first = [member for member in every if member != leader] + [leader]
    for number, task in enumerate(sorted(tasks)):
        dealt[others_first[number % len(others_first)]].append(task)
    return {member: Assignment(leader, url, offset, sorted(connectors) if member == leader else [], dealt[member]) for member in every}


def held_after(held: Assignment | None, told: Assignment) -> Assignment:
    """Returns all that a member has under a cooperative protocol, once it was told what changes."""
    if held is None:
        held = Assignment("", "", 0)
    return Assignment(
        told.leader,
        told.leader_url,
        told.offset,
        _joined(told.connectors, held.connectors, told.revoked_connectors),
        _joined(told.tasks, held.tasks, told.revoked_tasks),
        told.error,
        delay_ms=told.delay_ms,
    )


def _joined(new: Iterable[AnyUnit], held: Iterable[AnyUnit], revoked: Collection[AnyUnit]) -> list[AnyUnit]:
    return list(dict.fromkeys((*new, *(unit for unit in held if unit not in revoked))))


def _work_of(assignment: Assignment | None) -> list[Unit]:
    return [] if assignment is None else [*assignment.connectors, *assignment.tasks]


def _told(empty: Assignment, given: ClusterAssignment, member: str) -> Assignment:
    return Assignment(
        empty.leader,
        empty.leader_url,
        empty.offset,
        [unit for unit in given.given[member] if isinstance(unit, str)],
        [unit for unit in given.given[member] if isinstance(unit, ConnectorTaskId)],
        revoked_connectors=[unit for unit in given.revoked[member] if isinstance(unit, str)],
        revoked_tasks=[unit for unit in given.revoked[member] if isinstance(unit, ConnectorTaskId)],
        delay_ms=given.delay_ms,
    )
