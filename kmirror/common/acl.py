"""The vocabulary of ACLs, with Kafka's numbers. They go over the wire, into the metadata log and
into bit fields.

    who (principal, host) may or may not (permission) do what (operation) with which resources
    (type, pattern)

A pattern is a literal name (`*` alone matches every name) or a prefix. In filters ANY matches every
pattern, and MATCH matches every pattern that covers a name: the literal one, `*`, and its prefixes.
`metadata.authorizer` evaluates the rules.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, TypeVar

from kmirror.common.errors import ApiException, Errors
from kmirror.common.kafka_principal import KafkaPrincipal

E = TypeVar("E", bound=IntEnum)


class AclOperation(IntEnum):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
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
    TWO_PHASE_COMMIT = 15


class AclPermissionType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class PatternType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class ResourceType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7
    CLUSTER_MIRROR = 8


CLUSTER_NAME: Final = "kafka-cluster"
"""The only name of a resource of type CLUSTER."""

WILDCARD: Final = "*"
"""Every host, or, as a literal pattern, every name."""

WILDCARD_PRINCIPAL: Final = "User:*"

SUPPORTED_OPERATIONS: Final[dict[ResourceType, tuple[AclOperation, ...]]] = {
    ResourceType.TOPIC: (
        AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE, AclOperation.ALTER, AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE, AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.CLUSTER_ACTION, AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS, AclOperation.IDEMPOTENT_WRITE,
    ),
}  # fmt: skip
"""The operations that clients can be told of in the bit fields "authorized operations"."""

AUTHORIZATION_ERRORS: Final = {
    ResourceType.TOPIC: Errors.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: Errors.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: Errors.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: Errors.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceType.USER: Errors.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER_MIRROR: Errors.MIRROR_AUTHORIZATION_FAILED,
}
"""The error that a client gets when it lacks the permission, by resource type."""


def resource_type_name(resource_type: ResourceType) -> str:
    """`TransactionalId` for TRANSACTIONAL_ID: the name in Kafka's authorizer log."""
    return "".join(word.capitalize() for word in resource_type.name.split("_"))


def known(enum: type[E], code: int) -> E:
    """Returns the member with this number, or UNKNOWN (0) if there is none."""
    try:
        return enum(code)
    except ValueError:
        return enum(0)


def parse_kafka_principal(text: str) -> KafkaPrincipal:
    """Parses `type:name`; raises ApiException INVALID_REQUEST for anything else."""
    principal_type, colon, name = text.partition(":")
    if not colon:
        raise ApiException(Errors.INVALID_REQUEST, f"expected a string in format principalType:principalName but got {text}")
    return KafkaPrincipal(principal_type, name)
