"""The parts of `kafka-reassign-partitions` that ask no cluster: files, proposals, and throttles.

A file names partitions with their new replicas and, for each replica, a log directory or "any". A
proposal deals the brokers out like cards, starting at a random one: the first replicas go round,
the others follow at a growing distance, and no rack gets a second replica of a partition while
another rack has none. For every partition that moves, its present replicas are throttled as
leaders, and the new ones as followers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kmirror.admin.reassignments import PartitionReassignment
from kmirror.admin.results import Node
from kmirror.cli.json_files import doubled, parse_object, rows, text_field, topic_partition
from kmirror.common.errors import KmirrorError
from kmirror.common.numbers import is_integer
from kmirror.common.topic_partition import TopicPartition

ANY_LOG_DIR = "any"
Assignment = dict[TopicPartition, list[int]]
Replica = tuple[TopicPartition, int]


class ReassignmentPlan(NamedTuple):
    """A reassignment file: replicas in the order of the file, and the named directories."""

    partitions: list[tuple[TopicPartition, list[int]]]
    log_dirs: dict[Replica, str]


class Move(NamedTuple):
    sources: frozenset[int]
    destinations: frozenset[int]


def parse_plan(text: str) -> ReassignmentPlan:
    """Parse the file; KmirrorError with Kafka's words for what is wrong."""
    value = _versioned(text)
    partitions: list[tuple[TopicPartition, list[int]]] = []
    log_dirs: dict[Replica, str] = {}
    for row in rows(value.get("partitions", []), "partitions"):
        name = topic_partition(row)
        if "replicas" not in row:
            raise KmirrorError("No such field exists: `replicas`")
        replicas = row["replicas"]
        if not isinstance(replicas, list) or not all(isinstance(broker, int) for broker in replicas):
            raise KmirrorError(f"Expected a list of broker ids in `replicas` of partition {name}")
        dirs = row.get("log_dirs", [ANY_LOG_DIR] * len(replicas))
        if not isinstance(dirs, list) or not all(isinstance(path, str) for path in dirs):
            raise KmirrorError(f"Expected a list of paths in `log_dirs` of partition {name}")
        if len(dirs) != len(replicas):
            shown = ", ".join(map(str, dirs))
            raise KmirrorError(f"Size of replicas list {replicas} is different from size of log dirs list [{shown}] for partition {name}")
        partitions.append((name, replicas))
        log_dirs |= {(name, broker): path for broker, path in zip(replicas, dirs, strict=True) if path != ANY_LOG_DIR}
    return ReassignmentPlan(partitions, log_dirs)


def check_plan(plan: ReassignmentPlan) -> None:
    """Raise KmirrorError for a plan that cannot be carried out."""
    if not plan.partitions:
        raise KmirrorError("Partition reassignment list cannot be empty")
    if any(not replicas for _, replicas in plan.partitions):
        raise KmirrorError("Partition replica list cannot be empty")
    twice = doubled(name for name, _ in plan.partitions)
    if twice:
        raise KmirrorError(f"Partition reassignment contains duplicate topic partitions: {','.join(map(str, twice))}")
    texts = [
        f"{name} contains multiple entries for {','.join(map(str, doubled(replicas)))}"
        for name, replicas in plan.partitions
        if doubled(replicas)
    ]
    if texts:
        raise KmirrorError(f"Partition replica lists may not contain duplicate entries: {'. '.join(texts)}")


def parse_generate(text: str, broker_list: str) -> tuple[list[int], list[str]]:
    """Returns the brokers and topics of --generate."""
    brokers = []
    for word in broker_list.split(","):
        if not is_integer(word):
            raise KmirrorError(f'For input string: "{word}"')
        brokers.append(int(word))
    if doubled(brokers):
        raise KmirrorError(f"Broker list contains duplicate entries: {doubled(brokers)}")
    value = _versioned(text)
    topics = [text_field(row, "topic") for row in rows(value.get("topics", []), "topics")]
    if doubled(topics):
        raise KmirrorError(f"List of topics to reassign contains duplicate entries: [{', '.join(doubled(topics))}]")
    return brokers, topics


def _versioned(text: str) -> dict[str, Any]:
    value = parse_object(text, "The input string is not a valid JSON")
    if value.get("version", 1) != 1:
        raise KmirrorError(f"Not supported version field value {value['version']}")
    return value


def reassignment_json(assignment: Assignment, log_dirs: Mapping[Replica, str] | None = None) -> str:
    """Returns a file for `--reassignment-json-file`, on one line; unknown directories are "any"."""
    known = log_dirs or {}
    partitions = [
        {
            "topic": name.topic,
            "partition": name.partition,
            "replicas": assignment[name],
            "log_dirs": [known.get((name, broker), ANY_LOG_DIR) for broker in assignment[name]],
        }
        for name in sorted(assignment)
    ]
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"))


def propose(current: Assignment, brokers: list[Node], randrange: Callable[[int], int]) -> Assignment:
    """Returns new replicas for the partitions of `current`.

    A topic gets the replication factor of its first partition.
    """
    ordered = alternate_racks(brokers)
    racks = {node.id: node.rack for node in brokers}
    proposal: Assignment = {}
    topics: dict[str, list[TopicPartition]] = {}
    for name in sorted(current):
        topics.setdefault(name.topic, []).append(name)
    for names in topics.values():
        factor = len(current[names[0]])
        if not ordered:
            raise KmirrorError("All brokers are currently fenced, or have all their log directories cordoned.")
        if factor > len(ordered):
            raise KmirrorError(
                f"The target replication factor of {factor} cannot be reached because only {len(ordered)} broker(s) are registered "
                "or some brokers have all their log directories cordoned."
            )
        start, shift = randrange(len(ordered)), randrange(len(ordered))
        for index, name in enumerate(names):
            proposal[name] = _deal(ordered, racks, start + index, shift + index // len(ordered), factor)
    return proposal


def _deal(ordered: list[int], racks: Mapping[int, str | None], start: int, shift: int, factor: int) -> list[int]:
    count = len(ordered)
    first = ordered[start % count]
    others = [ordered[(start + 1 + (shift + step) % (count - 1)) % count] for step in range(count - 1)] if count > 1 else []
    replicas = [first]
    while len(replicas) < factor:
        left = [broker for broker in others if broker not in replicas]
        used = {racks[broker] for broker in replicas}
        fresh = [broker for broker in left if racks[broker] is None or racks[broker] not in used]
        replicas.append((fresh or left)[0])
    return replicas


def alternate_racks(brokers: list[Node]) -> list[int]:
    """Returns the brokers by id, one of each rack in turn."""
    by_rack: dict[str, list[int]] = {}
    for node in sorted(brokers, key=lambda node: node.id):
        by_rack.setdefault(node.rack or "", []).append(node.id)
    ordered: list[int] = []
    lists = [by_rack[rack] for rack in sorted(by_rack)]
    while any(lists):
        ordered += [rack.pop(0) for rack in lists if rack]
    return ordered


def proposed_moves(
    ongoing: Mapping[TopicPartition, PartitionReassignment], proposed: Assignment, current: Assignment
) -> dict[TopicPartition, Move]:
    """Returns every partition that moves or is to move, with sources and destinations."""
    moves = {
        name: Move(frozenset(row.replicas) - frozenset(row.adding_replicas), frozenset(row.adding_replicas))
        for name, row in ongoing.items()
    }
    for name, replicas in proposed.items():
        sources = moves[name].sources if name in moves else frozenset(current[name])
        moves[name] = Move(sources, frozenset(replicas) - sources)
    return moves


def throttled_replicas(moves: Mapping[TopicPartition, Move]) -> dict[str, tuple[str, str]]:
    """Returns the values of leader and follower replication.throttled.replicas, by topic.

    A value is `partition:broker,...`.
    """

    def joined(topic: str, pick: Callable[[Move], Iterable[int]]) -> str:
        pairs = {f"{name.partition}:{broker}" for name, move in moves.items() if name.topic == topic for broker in pick(move)}
        return ",".join(sorted(pairs))

    topics = sorted({name.topic for name in moves})
    return {topic: (joined(topic, lambda move: move.sources), joined(topic, lambda move: move.destinations)) for topic in topics}
