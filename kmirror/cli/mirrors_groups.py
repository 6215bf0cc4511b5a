"""Finds groups that are beyond the end of a log, by committed or share-group start offset (C32).

A mirror copies offsets as they are, and the log follows when it can. So at a failover a group may
have committed an offset that was not mirrored. Its consumers get OFFSET_OUT_OF_RANGE, and
auto.offset.reset decides. A share group waits until the log has grown to its start offset; records
written below it are never delivered. So the operator is told which groups these are, before and
after the failover.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kmirror.admin.admin_client import AdminClient
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition

SHARE = "share"


class GroupBeyondEnd(NamedTuple):
    """A group that committed more than the log holds, or a share group that starts beyond it."""

    group: str
    topic_partition: TopicPartition
    committed_offset: int
    end_offset: int
    is_share: bool = False

    def __str__(self) -> str:
        where = f"offset {self.committed_offset} of {self.topic_partition}, beyond its end {self.end_offset}"
        return f"share group {self.group} begins at {where}" if self.is_share else f"group {self.group} has committed {where}"

    @property
    def consequence(self) -> str:
        """Says what happens to the group after a failover."""
        if self.is_share:
            return "records that are written below that offset are not delivered to the group"
        return "auto.offset.reset decides where its consumers continue"


async def groups_beyond(admin: AdminClient, ends: Mapping[TopicPartition, int]) -> list[GroupBeyondEnd]:
    """Returns the cluster's groups with a committed or start offset above the given end.

    Groups that we may not read are left out.
    """
    found = []
    for listing in await admin.list_groups():
        is_share = listing.type.lower() == SHARE
        try:
            offsets = await (_start_offsets if is_share else _committed_offsets)(admin, listing.group_id)
        except ApiException as error:
            if error.error in (Errors.GROUP_AUTHORIZATION_FAILED, Errors.GROUP_ID_NOT_FOUND):
                continue
            raise
        for name, offset in offsets.items():
            if name in ends and offset > ends[name]:
                found.append(GroupBeyondEnd(listing.group_id, name, offset, ends[name], is_share))
    return sorted(found)


async def _committed_offsets(admin: AdminClient, group: str) -> dict[TopicPartition, int]:
    offsets = await admin.list_consumer_group_offsets(group)
    return {name: committed.offset for name, committed in offsets.items() if committed is not None}


async def _start_offsets(admin: AdminClient, group: str) -> dict[TopicPartition, int]:
    offsets = await admin.list_share_group_offsets(group, skip_failed=True)  # another topic's partition may have no leader
    return {name: begins.start_offset for name, begins in offsets.items() if begins is not None}
