"""The sets of logs that `kafka-log-diff` compares: what each side has to have, and has.

Partitions that were compared may all be equal while one is on neither side. Of folders the metadata
log and the checkpoints tell (`verify.replay.inventory`), of a running cluster its metadata and its
brokers (`live_inventory`). Where nothing tells, that is said.

What means that not all was compared that should be is a difference (`set-incomplete`):

    missing, empty           a log that has to be there is not
    twice                    a broker has two logs of one partition, and starts with neither
    topic_id                 what was compared is another topic's
    name                     a folder that no broker takes for a log: one may have been renamed
    directory_id, node_id    a data dir is the copy of another, or of two nodes with one id
    nobodys                  if the other side's log was compared with it and is somebody's

Other logs that are nobody's are a warning, and so is whatever is wrong with logs that nobody asked
for: of other topics, of partitions that B does not mirror (`--mirror`), of a second replica
(`--no-replicas`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kmirror.cli.log_diff_inputs import LogInput
from kmirror.common.topic_partition import TopicPartition
from kmirror.verify.replay.findings import Finding
from kmirror.verify.verdict import DifferenceKind, SetFacts

MAX_NAMED: Final = 5
NOBODYS: Final = "nobodys"
OF_ONE_REPLICA: Final = ("missing", "empty")
Wants = Callable[[TopicPartition], bool]


@dataclass(frozen=True)
class Asked:
    """What was asked for. `is_all` is False if topics or partitions were chosen, `mirrored` is what
    B mirrors (None without `--mirror`)."""

    wants: Wants
    is_all: bool
    with_replicas: bool
    ignored: frozenset[DifferenceKind]
    mirrored: frozenset[TopicPartition] | None = None

    def concerns(self, finding: Finding, side: LogInput) -> bool:
        """Whether it is about something that should be compared."""
        if finding.partition < 0:
            return self.is_all
        name = TopicPartition(finding.topic, finding.partition)
        if self.mirrored is not None and name not in self.mirrored:
            return False
        return self.wants(name) and (self.with_replicas or finding.kind not in OF_ONE_REPLICA or name not in side.names)


def sets_of(left: LogInput, right: LogInput, compared: Iterable[TopicPartition], asked: Asked) -> list[SetFacts]:
    """Returns the facts of both sides; none if one of them is a single partition, which is no set.
    `compared` are the partitions that were, of those that were `asked` for."""
    if left.is_single or right.is_single:
        return []
    done = set(compared)
    sides = (left, right)
    inventories = [side.inventory() for side in sides]
    nobodys = [_compared_and_nobodys(side, found, done) for side, (found, _) in zip(sides, inventories)]
    odd = nobodys[0] ^ nobodys[1]
    unlogged = unlogged_mirrors(right, asked)
    return [
        _facts("A", left, right, done, asked, inventories[0], odd, []),
        _facts("B", right, left, done, asked, inventories[1], odd, unlogged),
    ]


def _compared_and_nobodys(side: LogInput, findings: Iterable[Finding], compared: set[TopicPartition]) -> set[TopicPartition]:
    """Returns the partitions of which a log was compared that is nobody's."""
    named = ((TopicPartition(one.topic, one.partition), one) for one in findings if one.kind == NOBODYS)
    return {name for name, one in named if name in compared and side.is_chosen(name, one.log)}


def unlogged_mirrors(right: LogInput, asked: Asked) -> list[TopicPartition]:
    """Returns what B mirrors, but has no log of here: another broker has it, or none."""
    return sorted(name for name in (asked.mirrored or ()) if asked.wants(name) and name not in right.names)


def _facts(
    title: str,
    side: LogInput,
    other: LogInput,
    compared: set[TopicPartition],
    asked: Asked,
    inventory: tuple[list[Finding], list[str]],
    odd: Collection[TopicPartition],
    unlogged: Sequence[TopicPartition],
) -> SetFacts:
    own, theirs = [name for name in side.names if asked.wants(name)], set(other.names)
    found, unseen = inventory
    findings: list[str] = []
    warnings: list[str] = []
    for one in found:
        name = TopicPartition(one.topic, one.partition)
        if one.partition >= 0 and not asked.wants(name):
            continue
        counts = asked.concerns(one, side) and (one.kind != NOBODYS or (name in odd and side.is_chosen(name, one.log)))
        (findings if counts else warnings).append(f"{one.kind}: {one.log}: {one.text}")
    known = {(one.topic, one.partition) for one in found if one.kind in OF_ONE_REPLICA}
    findings += [f"missing: {name}: {side.name} mirrors it, and no log of it was given" for name in unlogged if name not in known]
    left_out = [str(name) for name in own if name in theirs and name not in compared]
    if left_out:
        unseen = [f"{len(left_out)} partitions that both have ({_named(left_out)})", *unseen]
    kind = DifferenceKind.SET_INCOMPLETE
    ignored = {kind.value: len(findings)} if findings and kind in asked.ignored else {}
    only_here = [str(name) for name in own if name not in theirs]
    return SetFacts(title, len(own), only_here, findings, unseen, warnings, ignored)


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:MAX_NAMED]) + (f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else "")


def set_lines(facts: Sequence[SetFacts]) -> list[str]:
    """`set of A: 12 partitions, 1 of them not in B (t-3), 1 found, 1 warning; not looked at: ...`"""
    lines = []
    for one, other in zip(facts, "BA"):
        parts = [f"{one.partitions} partition{'' if one.partitions == 1 else 's'}"]
        if one.only_here:
            parts.append(f"{len(one.only_here)} of them not in {other} ({_named(one.only_here)})")
        if one.findings:
            parts.append(f"{len(one.findings)} found")
        if one.warnings:
            parts.append(f"{len(one.warnings)} warning{'' if len(one.warnings) == 1 else 's'}")
        if not one.findings and not one.warnings:
            parts.append("nothing known to be missing or nobody's")
        unseen = f"; not looked at: {', '.join(one.not_looked_at)}" if one.not_looked_at else ""
        lines.append(f"set of {one.side}: {', '.join(parts)}{unseen}")
        lines += [f"  {text}" for text in one.findings]
        lines += [f"  warning, {text}" for text in one.warnings]
    return lines
