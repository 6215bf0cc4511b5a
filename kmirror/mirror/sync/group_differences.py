"""What copying offsets has in common for both kinds of groups: the source's offsets for this
mirror's partitions, and where this cluster's differ.

Each kind (`group_offset_sync`, `share_group_sync`) decides how to ask a source broker for its
groups, when two offsets count as different, and what a refusal means.
`WritesWhileMirrored` writes the groups.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.metadata.image import MetadataImage
from kmirror.mirror.source.source_cluster import SourceNode
from kmirror.mirror.sync.sync_cycle import SyncCycle
from kmirror.runtime.api import Runtime, run_together

V = TypeVar("V")
K = TypeVar("K")
K_co = TypeVar("K_co", covariant=True)


class KnownGroups(Protocol[K_co]):
    """Groups of this cluster, wherever their coordinators are."""

    async def prepare(self) -> None: ...

    async def offsets(self, groups: Iterable[str]) -> Mapping[str, Mapping[TopicPartition, K_co] | Errors]: ...


async def offsets_at_source(
    runtime: Runtime,
    cycle: SyncCycle,
    image: Callable[[], MetadataImage],
    ask: Callable[[SourceNode], Coroutine[Any, Any, Mapping[str, Mapping[TopicPartition, V]]]],
) -> dict[str, dict[TopicPartition, V]]:
    """What `ask` returns for all brokers of the source, without the partitions that this mirror
    does not have here.
    """
    answers = await run_together(runtime, "group-offsets", [ask(node) for node in cycle.source.nodes()])
    topics, here = set(cycle.topics), image().topics
    found: dict[str, dict[TopicPartition, V]] = {}
    for answer in answers:
        for group, offsets in answer.items():
            ours = {
                tp: offset for tp, offset in offsets.items() if tp.topic in topics and here.partition(tp.topic, tp.partition) is not None
            }
            if ours:
                found[group] = ours
    return found


async def differing(
    groups: KnownGroups[K],
    source: Mapping[str, Mapping[TopicPartition, V]],
    is_other: Callable[[str, TopicPartition, V, Mapping[TopicPartition, K]], bool],
    *,
    kind: str,
    failures: list[str],
) -> dict[str, dict[TopicPartition, V]]:
    """The offsets of `source` that differ here; `is_other` is given what the group has here. Groups
    whose coordinator does not answer are added to `failures`, as groups of the `kind`.
    """
    await groups.prepare()
    local = await groups.offsets(sorted(source))
    wanted: dict[str, dict[TopicPartition, V]] = {}
    for group, offsets in sorted(source.items()):
        known = local.get(group, Errors.COORDINATOR_NOT_AVAILABLE)
        if isinstance(known, Errors):
            failures.append(f"cannot read the local offsets of {kind} {group}: {known.name}")
            continue
        changed = {tp: offset for tp, offset in offsets.items() if is_other(group, tp, offset, known)}
        if changed:
            wanted[group] = changed
    return wanted
