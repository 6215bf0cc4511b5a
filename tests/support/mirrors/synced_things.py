"""What the tests of metadata sync (E3) share: two partitions, a led one as the manager sees it, and
access rules.
"""

from __future__ import annotations

from kmirror.common.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from kmirror.common.topic_partition import TopicPartition
from kmirror.metadata.image import StandardAcl
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from support.mirrors.source_double import topic_id

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ALICE, BOB, APP = "User:alice", "User:bob", "User:app-7"


class LedPartition:
    """A led partition, as the manager sees it."""

    def __init__(self, topic: str, state: MirrorPartitionState = MirrorPartitionState.MIRRORING) -> None:
        self.id = type("Id", (), {"topic": topic, "topic_id": topic_id(topic)})
        self.status = type("Status", (), {"state": state})
        self.events: list[str] = []

    def on_source_deleted(self) -> None:
        self.events.append("deleted")

    def on_source_present(self) -> None:
        self.events.append("present")

    def on_refresh(self) -> None:
        self.events.append("refresh")

    def on_rejected(self, reason: str) -> None:
        self.events.append(f"rejected: {reason}")


def acl(
    kind: ResourceType = ResourceType.TOPIC,
    name: str = "orders",
    operation: AclOperation = AclOperation.READ,
    permission: AclPermissionType = AclPermissionType.ALLOW,
    principal: str = "User:alice",
    pattern: PatternType = PatternType.LITERAL,
) -> StandardAcl:
    return StandardAcl(kind, name, pattern, principal, "*", operation, permission)
