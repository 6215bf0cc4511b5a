"""Offsets of classic and consumer groups: what the source's groups committed for the mirror's
topics is committed here (SYN14).

    ListGroups at every source broker, whatever the groups' states (B37); filter mirror.groups.include
    OffsetFetch at the broker that listed the group, for it is its coordinator
    the difference to what is committed here
    the state of the partitions concerned: only those in MIRRORING (C18, SYN18), asked last, so that nothing committed after a
    failover is overwritten
    OffsetCommit at the group's coordinator here

Offsets and their metadata are copied as they are, even if they go down or lie beyond the end of the
mirrored log (SYN17, C32). The leader epoch is not copied, because consumers would look for a leader
of that epoch (C19). A group with members here keeps what it has: its coordinator refuses. A group
id that another kind of group uses here is refused with GROUP_ID_NOT_FOUND, which counts as a
failure (SYN16). Unchanged offsets are not committed again, except before the offsets of a group
without members would expire here. A consumer of either protocol that comes after a failover finds
the group without members and takes it over with its offsets.

Share groups have no committed offsets: `share_group_sync`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.metadata.image import MetadataImage
from kmirror.metadata.mirror_filters import included_groups
from kmirror.mirror.source.source_cluster import SourceError, SourceNode
from kmirror.mirror.source.source_metadata import CommittedOffset, GroupOffsets, fetch_group_offsets, list_group_types
from kmirror.mirror.sync.destination_groups import DestinationGroups
from kmirror.mirror.sync.group_differences import differing, offsets_at_source
from kmirror.mirror.sync.partition_states import PartitionStates
from kmirror.mirror.sync.sync_cycle import SyncCycle, SyncGauge
from kmirror.mirror.sync.writes_while_mirrored import WritesWhileMirrored
from kmirror.runtime.api import Runtime

SHARE_GROUP_TYPE = "share"
HAS_MEMBERS = (Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION, Errors.STALE_MEMBER_EPOCH, Errors.REBALANCE_IN_PROGRESS)


class GroupOffsetSync:
    """The step that syncs offsets of classic and consumer groups; owns when it last committed each.
    `retention_ms` is how long this cluster keeps the offsets of a group without members.
    """

    gauge = SyncGauge.GROUP_OFFSET

    def __init__(
        self,
        runtime: Runtime,
        groups: DestinationGroups,
        states: PartitionStates,
        image: Callable[[], MetadataImage],
        *,
        retention_ms: int,
    ) -> None:
        self._runtime = runtime
        self._groups = groups
        self._writes = WritesWhileMirrored(runtime, states, image, timeout_ms=groups.timeout_ms)
        self._image = image
        self._renewal_ms = retention_ms // 2
        self._committed_at_ms: dict[str, dict[tuple[str, TopicPartition], int]] = {}

    async def sync(self, cycle: SyncCycle) -> Sequence[str]:
        failures: list[str] = []
        name = cycle.mirror.name
        source = await offsets_at_source(self._runtime, cycle, self._image, lambda node: self._offsets_at(cycle, node, failures))
        self._forget_all_but(name, source)
        if not source:
            return failures

        def is_other(group: str, tp: TopicPartition, offset: CommittedOffset, known: Mapping[TopicPartition, CommittedOffset]) -> bool:
            return known.get(tp) != offset or self._is_due(name, group, tp)

        wanted = await differing(self._groups, source, is_other, kind="group", failures=failures)
        answered = await self._writes.write(name, wanted, self._groups.commit, failures)
        for group, errors in answered.items():
            failures += self._note(name, group, errors)
        return failures

    def _note(self, mirror_name: str, group: str, errors: Mapping[TopicPartition, Errors]) -> list[str]:
        now_ms = self._runtime.clock.time_ms()
        failures = {}
        for tp, error in errors.items():
            if error is Errors.NONE or error in HAS_MEMBERS:
                self._committed_at_ms.setdefault(mirror_name, {})[group, tp] = now_ms
            else:
                failures[error] = tp
        return [f"cannot commit the offset of group {group} for {tp}: {error.name}" for error, tp in failures.items()]

    def _forget_all_but(self, mirror_name: str, source: Mapping[str, GroupOffsets]) -> None:
        """Forgets when offsets were committed that the source no longer has."""
        known = self._committed_at_ms.get(mirror_name, {})
        self._committed_at_ms[mirror_name] = {(group, tp): at_ms for (group, tp), at_ms in known.items() if tp in source.get(group, {})}

    def forget(self, mirror_name: str) -> None:
        self._committed_at_ms.pop(mirror_name, None)

    # --- the source
    # ---------------------------------------------------------------------------------------------------

    async def _offsets_at(self, cycle: SyncCycle, node: SourceNode, failures: list[str]) -> dict[str, GroupOffsets]:
        included = included_groups(cycle.mirror.configs)
        source = cycle.source
        try:
            types = await list_group_types(source, node)
            groups = [group for group, kind in sorted(types.items()) if kind != SHARE_GROUP_TYPE and included.takes(group)]
            answers = await fetch_group_offsets(source, node, groups) if groups else {}
        except SourceError as error:
            failures.append(str(error))
            return {}
        failures += [
            f"cannot read the offsets of source group {group}: {offsets.name}"
            for group, offsets in answers.items()
            if isinstance(offsets, Errors)
        ]
        return {group: offsets for group, offsets in answers.items() if not isinstance(offsets, Errors)}

    # --- this cluster
    # -------------------------------------------------------------------------------------------------

    def _is_due(self, mirror_name: str, group: str, tp: TopicPartition) -> bool:
        """Whether an equal offset has to be committed again: its age is unknown, or half of its
        retention has passed.
        """
        committed_at_ms = self._committed_at_ms.get(mirror_name, {}).get((group, tp))
        return committed_at_ms is None or self._runtime.clock.time_ms() - committed_at_ms >= self._renewal_ms
