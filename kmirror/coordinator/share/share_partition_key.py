"""The key of a share partition: a group's part of one topic partition (Kafka's
`SharePartitionKey`)."""

from __future__ import annotations

import re
from typing import NamedTuple

from kmirror.common.uuid import Uuid

_INTEGER = re.compile(r"[+-]?[0-9]{1,10}")


class SharePartitionKey(NamedTuple):
    """A group, a topic by its id, and a partition."""

    group_id: str
    topic_id: Uuid
    partition: int

    def __str__(self) -> str:
        """Returns the key for FindCoordinator's type 2; its hash decides where in
        `__share_group_state` the state is kept."""
        return f"{self.group_id}:{self.topic_id}:{self.partition}"

    @classmethod
    def parse(cls, key: str) -> SharePartitionKey:
        """Parses a key; raises ValueError unless it is `groupId:topicId:partition`. The group id
        may contain colons, and may not be blank."""
        parts = key.rsplit(":", 2)
        if len(parts) != 3:
            raise ValueError(f"Invalid key format: expected - groupId:topicId:partition, found - {key}")
        group_id, topic_id, partition = parts
        if not group_id.strip():
            raise ValueError("GroupId must not be empty")
        if not _INTEGER.fullmatch(partition):
            raise ValueError(f"Invalid partition: {partition}")
        return cls(group_id, Uuid.from_string(topic_id), int(partition))
