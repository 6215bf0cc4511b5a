"""What the metadata syncs ask of a source: access rules, groups and their offsets. Topic configs are
in `source_configs`.

Each in the highest version that both sides speak, over the mirror's metadata connections.
OffsetFetch stays below version 10, which names topics by id: a topic of ours may have another id
than the source's where the source has no ids.

Errors: `SourceError` if there is no usable answer; errors in part of an answer are returned beside
the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kmirror.common.acl import AclOperation, AclPermissionType, PatternType, ResourceType, known
from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.metadata.image import StandardAcl
from kmirror.mirror.source.source_cluster import SourceCluster, SourceError, SourceNode
from kmirror.wire.messages import describe_acls, list_groups, offset_fetch

GROUPS_PER_REQUEST = 50
SEVERAL_GROUPS_VERSION = 8
LAST_VERSION_WITH_NAMES = 9


class CommittedOffset(NamedTuple):
    """What a group committed for a partition."""

    offset: int
    metadata: str


GroupOffsets = dict[TopicPartition, CommittedOffset]


async def describe_all_acls(source: SourceCluster) -> set[StandardAcl]:
    """Every rule of the source, except those with enum values that we do not know."""
    request = describe_acls.DescribeAclsRequest(
        resource_type_filter=ResourceType.ANY,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=AclOperation.ANY,
        permission_type=AclPermissionType.ANY,
    )
    response = await source.ask_any(request)
    if response.error_code:
        error = Errors.for_code(response.error_code)
        raise SourceError(f"DescribeAcls: {response.error_message or error.message}", error)
    rules = set()
    for resource in response.resources:
        for row in resource.acls:
            acl = StandardAcl(
                known(ResourceType, resource.resource_type),
                resource.resource_name,
                known(PatternType, resource.pattern_type),
                row.principal,
                row.host,
                known(AclOperation, row.operation),
                known(AclPermissionType, row.permission_type),
            )
            if all((acl.resource_type, acl.pattern_type, acl.operation, acl.permission_type)):
                rules.add(acl)
    return rules


async def list_group_types(source: SourceCluster, node: SourceNode) -> dict[str, str]:
    """Groups that this broker coordinates, in whatever state (B37): id -> type in lower case, ""
    before ListGroups v5.
    """
    response = await source.send(node, list_groups.ListGroupsRequest())
    if response.error_code:
        error = Errors.for_code(response.error_code)
        raise SourceError(f"ListGroups at source broker {node.id}: {error.message}", error)
    return {row.group_id: row.group_type.lower() for row in response.groups}


async def fetch_group_offsets(source: SourceCluster, node: SourceNode, groups: Sequence[str]) -> Mapping[str, GroupOffsets | Errors]:
    """All offsets that groups committed, from their coordinator, or the group's error. The result
    has only these groups, whatever the answer has.
    """
    version = await source.api_version(node, offset_fetch.OffsetFetchRequest.API_KEY, max_version=LAST_VERSION_WITH_NAMES)
    found: dict[str, GroupOffsets | Errors] = {}
    if version < SEVERAL_GROUPS_VERSION:
        for group in groups:
            single = await source.send(node, offset_fetch.OffsetFetchRequest(group_id=group, topics=None), version=version)
            found[group] = _offsets(single)
        return found
    for ids in _chunks(groups, GROUPS_PER_REQUEST):
        request = offset_fetch.OffsetFetchRequest(
            groups=[offset_fetch.OffsetFetchRequestGroup(group_id=group, topics=None) for group in ids]
        )
        response = await source.send(node, request, version=version)
        answers = {row.group_id: _offsets(row) for row in response.groups}
        found.update({group: answers.get(group, Errors.GROUP_ID_NOT_FOUND) for group in ids})
    return found


def _offsets(answer: offset_fetch.OffsetFetchResponse | offset_fetch.OffsetFetchResponseGroup) -> GroupOffsets | Errors:
    if answer.error_code:
        return Errors.for_code(answer.error_code)
    offsets: GroupOffsets = {}
    for topic in answer.topics:
        for row in topic.partitions:
            if not row.error_code and row.committed_offset >= 0:
                offsets[TopicPartition(topic.name, row.partition_index)] = CommittedOffset(row.committed_offset, row.metadata or "")
    return offsets


def _chunks(items: Sequence[str], size: int) -> list[Sequence[str]]:
    return [items[start : start + size] for start in range(0, len(items), size)]
