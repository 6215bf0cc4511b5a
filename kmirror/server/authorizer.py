"""The authorizer seam: who may do what. Without one (`authorizer.class.name` empty) everything is allowed, as in Kafka.

Numbers are Kafka's (`AclOperation`, `ResourceType`), because they go over the wire in ACLs and in the authorized-operations
bit fields of Metadata and DescribeCluster.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol

from kmirror.common.kafka_principal import KafkaPrincipal


class AclOperation(IntEnum):
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class ResourceType(IntEnum):
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7
    CLUSTER_MIRROR = 8


CLUSTER_NAME = "kafka-cluster"

_SUPPORTED_OPERATIONS = {
    ResourceType.TOPIC: (3, 4, 5, 6, 7, 8, 10, 11),
    ResourceType.GROUP: (3, 6, 8, 10, 11),
    ResourceType.CLUSTER: (5, 7, 8, 9, 10, 11, 12),
}


class Authorizer(Protocol):
    def authorize(
        self, principal: KafkaPrincipal, client_address: str, operation: AclOperation, resource_type: ResourceType, resource_name: str
    ) -> bool: ...


def authorized_operations(
    authorizer: Authorizer | None, principal: KafkaPrincipal, client_address: str, resource_type: ResourceType, resource_name: str
) -> int:
    """The bit field of Metadata and DescribeCluster: bit n is set when operation n is allowed."""
    bits = 0
    for code in _SUPPORTED_OPERATIONS[resource_type]:
        operation = AclOperation(code)
        if authorizer is None or authorizer.authorize(principal, client_address, operation, resource_type, resource_name):
            bits |= 1 << code
    return bits
