"""Share groups (KIP-932): copies the start offsets of the source's groups in the mirror's
partitions (SYN15).

    ListGroups of type share at every source broker; filter mirror.groups.include
    DescribeShareGroupOffsets at the broker that listed the group, for it is its coordinator: the start offset of each partition
    the difference to the start offsets here
    the state of the partitions concerned: only those in MIRRORING, asked last (C18, SYN18)
    AlterShareGroupOffsets at the group's coordinator here, which makes the group and its persisted state if need be

A partition whose start offset the source does not know yet is left alone. The state of records
after the start offset (delivered, acknowledged) is not copied: after a failover those records are
delivered again. A group with members here keeps what it has. A group id that another kind of group
uses here is refused with GROUP_ID_NOT_FOUND, which counts as a failure (SYN16). A source without
share groups (ListGroups before v5, or no API 90) is skipped without a failure, and so is one that
answers UNSUPPORTED_VERSION because its `share.version` is 0. While `share.version` is 0 here,
nothing is done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kmirror.common.errors import Errors
from kmirror.common.sentinels import NO_OFFSET
from kmirror.common.topic_partition import TopicPartition
from kmirror.metadata.features import SHARE_VERSION
from kmirror.metadata.image import MetadataImage
from kmirror.metadata.mirror_filters import included_groups
from kmirror.mirror.source.source_cluster import SourceCluster, SourceError, SourceNode
from kmirror.mirror.sync.destination_share_groups import DestinationShareGroups, StartOffsets, start_offsets
from kmirror.mirror.sync.group_differences import differing, offsets_at_source
from kmirror.mirror.sync.partition_states import PartitionStates
from kmirror.mirror.sync.sync_cycle import SyncCycle, SyncGauge
from kmirror.mirror.sync.writes_while_mirrored import WritesWhileMirrored
from kmirror.network.client import UnsupportedVersionError
from kmirror.runtime.api import Runtime
from kmirror.wire.messages import describe_share_group_offsets, list_groups

SHARE_GROUP_TYPE = "share"
FIRST_LIST_GROUPS_WITH_TYPES = 5
GROUPS_PER_REQUEST = 50


class ShareGroupSync:
    """The step that syncs share groups. It owns no state."""

    gauge = SyncGauge.GROUP_OFFSET

    def __init__(
        self, runtime: Runtime, groups: DestinationShareGroups, states: PartitionStates, image: Callable[[], MetadataImage]
    ) -> None:
        self._runtime = runtime
        self._groups = groups
        self._writes = WritesWhileMirrored(runtime, states, image, timeout_ms=groups.timeout_ms)
        self._image = image

    async def sync(self, cycle: SyncCycle) -> Sequence[str]:
        if self._image().features.level(SHARE_VERSION) < 1:
            return []
        failures: list[str] = []
        source = await offsets_at_source(self._runtime, cycle, self._image, lambda node: self._offsets_at(cycle, node, failures))
        if not source:
            return failures
        wanted = await differing(self._groups, source, _is_other, kind="share group", failures=failures)
        answered = await self._writes.write(cycle.mirror.name, wanted, self._groups.alter, failures)
        for group, errors in answered.items():
            failed = {error: tp for tp, error in errors.items() if error not in (Errors.NONE, Errors.NON_EMPTY_GROUP)}
            failures += [f"cannot set the start offset of share group {group} for {tp}: {error.name}" for error, tp in failed.items()]
        return failures

    def forget(self, mirror_name: str) -> None:
        """Nothing is remembered from one cycle to the next."""

    # --- the source
    # ---------------------------------------------------------------------------------------------------

    async def _offsets_at(self, cycle: SyncCycle, node: SourceNode, failures: list[str]) -> dict[str, StartOffsets]:
        included = included_groups(cycle.mirror.configs)
        source = cycle.source
        found: dict[str, StartOffsets] = {}
        try:
            groups = [group for group in await _list_share_groups(source, node) if included.takes(group)]
            for start in range(0, len(groups), GROUPS_PER_REQUEST):
                found |= await _describe(source, node, groups[start : start + GROUPS_PER_REQUEST], failures)
        except UnsupportedVersionError:
            return {}
        except SourceError as error:
            failures.append(str(error))
        return found


def _is_other(group: str, tp: TopicPartition, offset: int, known: Mapping[TopicPartition, int | None]) -> bool:
    """Whether the offset differs here; if the coordinator here does not say, it is left as
    it is.
    """
    return known.get(tp, NO_OFFSET) not in (offset, None)


async def _list_share_groups(source: SourceCluster, node: SourceNode) -> list[str]:
    """Share groups that this broker coordinates, sorted."""
    highest = list_groups.ListGroupsRequest.HIGHEST_VERSION
    if await source.api_version(node, list_groups.ListGroupsRequest.API_KEY, max_version=highest) < FIRST_LIST_GROUPS_WITH_TYPES:
        return []
    response = await source.send(node, list_groups.ListGroupsRequest(types_filter=[SHARE_GROUP_TYPE]))
    if response.error_code:
        error = Errors.for_code(response.error_code)
        raise SourceError(f"ListGroups at source broker {node.id}: {error.message}", error)
    return sorted(row.group_id for row in response.groups if row.group_type.lower() == SHARE_GROUP_TYPE)


async def _describe(source: SourceCluster, node: SourceNode, groups: list[str], failures: list[str]) -> dict[str, StartOffsets]:
    module = describe_share_group_offsets
    asked = [module.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None) for group in groups]
    response = await source.send(node, module.DescribeShareGroupOffsetsRequest(groups=asked))
    found: dict[str, StartOffsets] = {}
    for row in (row for row in response.groups if row.group_id in groups):
        offsets = start_offsets(row)
        if not isinstance(offsets, Errors):
            found[row.group_id] = {tp: offset for tp, offset in offsets.items() if offset is not None}
        elif offsets is not Errors.UNSUPPORTED_VERSION:
            failures.append(f"cannot read the offsets of source share group {row.group_id}: {offsets.name}")
    return found
