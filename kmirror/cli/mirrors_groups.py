"""Groups whose committed offset lies beyond the end of a log (C32).

A mirror copies offsets as they are, and the log follows when it can: at a failover a group may have committed what was not mirrored.
Its consumers get OFFSET_OUT_OF_RANGE, and auto.offset.reset decides. So the operator is told which groups, before and after.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kmirror.admin.admin_client import AdminClient
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition

SHARE = "share"


class GroupBeyondEnd(NamedTuple):
    """A group that committed more than the log holds."""

    group: str
    topic_partition: TopicPartition
    committed_offset: int
    end_offset: int

    def __str__(self) -> str:
        return (
            f"group {self.group} has committed offset {self.committed_offset} of {self.topic_partition}, beyond its end {self.end_offset}"
        )


async def groups_beyond(admin: AdminClient, ends: Mapping[TopicPartition, int]) -> list[GroupBeyondEnd]:
    """Groups of a cluster with a committed offset above the given end; those that may not be read are left out."""
    found = []
    for listing in await admin.list_groups():
        if listing.type.lower() == SHARE:
            continue
        try:
            offsets = await admin.list_consumer_group_offsets(listing.group_id)
        except ApiException as error:
            if error.error in (Errors.GROUP_AUTHORIZATION_FAILED, Errors.GROUP_ID_NOT_FOUND):
                continue
            raise
        for name, committed in offsets.items():
            if committed is not None and name in ends and committed.offset > ends[name]:
                found.append(GroupBeyondEnd(listing.group_id, name, committed.offset, ends[name]))
    return sorted(found)
