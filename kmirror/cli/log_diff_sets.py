"""The sets of logs that `kafka-log-diff` compares: what each side has to have, and has.

Partitions that were compared may all be equal while one is on neither side. Of folders the metadata
log and the checkpoints tell (`verify.replay.inventory`), of a running cluster its metadata and its
brokers (`live_inventory`). Where nothing tells, that is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from kmirror.cli.log_diff_inputs import LogInput
from kmirror.common.topic_partition import TopicPartition
from kmirror.verify.verdict import SetFacts

MAX_NAMED: Final = 5
Wants = Callable[[TopicPartition], bool]


def sets_of(left: LogInput, right: LogInput, compared: Iterable[TopicPartition], wants: Wants) -> list[SetFacts]:
    """Returns the facts of both sides; none if one of them is a single partition, which is no set.
    `compared` are the partitions that were, of those that `wants` accepts."""
    if left.is_single or right.is_single:
        return []
    done = set(compared)
    return [_facts("A", left, right, done, wants), _facts("B", right, left, done, wants)]


def _facts(title: str, side: LogInput, other: LogInput, compared: set[TopicPartition], wants: Wants) -> SetFacts:
    own, theirs = [name for name in side.names if wants(name)], set(other.names)
    findings, unseen = side.inventory()
    told = [
        f"{one.kind}: {one.log}: {one.text}" for one in findings if one.partition < 0 or wants(TopicPartition(one.topic, one.partition))
    ]
    left_out = [str(name) for name in own if name in theirs and name not in compared]
    if left_out:
        unseen = [f"{len(left_out)} partitions that both have ({_named(left_out)})", *unseen]
    return SetFacts(title, len(own), [str(name) for name in own if name not in theirs], told, unseen)


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:MAX_NAMED]) + (f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else "")


def set_lines(facts: Sequence[SetFacts]) -> list[str]:
    """`set of A: 12 partitions, 1 of them not in B (t-3); missing: ...; not looked at: ...`"""
    lines = []
    for one, other in zip(facts, "BA"):
        parts = [f"{one.partitions} partition{'' if one.partitions == 1 else 's'}"]
        if one.only_here:
            parts.append(f"{len(one.only_here)} of them not in {other} ({_named(one.only_here)})")
        parts.append(f"{len(one.findings)} found" if one.findings else "nothing known to be missing or nobody's")
        unseen = f"; not looked at: {', '.join(one.not_looked_at)}" if one.not_looked_at else ""
        lines.append(f"set of {one.side}: {', '.join(parts)}{unseen}")
        lines += [f"  {text}" for text in one.findings]
    return lines
