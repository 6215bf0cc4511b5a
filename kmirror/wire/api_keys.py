"""The registry of APIs: keys, versions, listeners and who may forward what.

Versions, listeners and instability come from the schemas (`messages/index.py`). Which APIs a broker
forwards to the controller, and which are only for nodes of the cluster, is not in a schema and is
listed here. Versions include what KIP-1279 adds; `wire.mirror_dialect` says what a broker without
mirroring advertises. Keys 4-7 and 97 are reserved for ever. A message module is imported when one
of its messages is first read.
"""

from __future__ import annotations

import functools
import importlib
from enum import IntEnum
from typing import Protocol, Self, cast

from msgspec import Struct

from kmirror.wire.messages.index import APIS
from kmirror.wire.primitives import Writer


class Message(Protocol):
    """The interface of every generated top-level message."""

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]: ...

    def write(self, out: Writer, version: int) -> None: ...


class ApiKeys(IntEnum):
    """The API keys of Kafka 4.3 and of KIP-1279, by Kafka's names."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    CREATE_MIRROR = 94
    ADD_TOPICS_TO_MIRROR = 95
    REMOVE_TOPICS_FROM_MIRROR = 96
    LIST_MIRRORS = 98
    DESCRIBE_MIRRORS = 99
    READ_MIRROR_STATES = 100
    WRITE_MIRROR_STATES = 101
    PAUSE_MIRROR_TOPICS = 102
    RESUME_MIRROR_TOPICS = 103
    DELETE_MIRROR = 104
    BUMP_LEADER_EPOCHS = 105


_CLUSTER_ACTIONS = frozenset(
    {
        ApiKeys.WRITE_TXN_MARKERS,
        ApiKeys.VOTE,
        ApiKeys.BEGIN_QUORUM_EPOCH,
        ApiKeys.END_QUORUM_EPOCH,
        ApiKeys.DESCRIBE_QUORUM,
        ApiKeys.ALTER_PARTITION,
        ApiKeys.UPDATE_FEATURES,
        ApiKeys.ENVELOPE,
        ApiKeys.BROKER_REGISTRATION,
        ApiKeys.BROKER_HEARTBEAT,
        ApiKeys.ALLOCATE_PRODUCER_IDS,
        ApiKeys.INITIALIZE_SHARE_GROUP_STATE,
        ApiKeys.READ_SHARE_GROUP_STATE,
        ApiKeys.WRITE_SHARE_GROUP_STATE,
        ApiKeys.DELETE_SHARE_GROUP_STATE,
        ApiKeys.READ_SHARE_GROUP_STATE_SUMMARY,
        ApiKeys.READ_MIRROR_STATES,
        ApiKeys.WRITE_MIRROR_STATES,
        ApiKeys.BUMP_LEADER_EPOCHS,
    }
)
_FORWARDABLE = frozenset(
    {
        ApiKeys.CREATE_TOPICS,
        ApiKeys.DELETE_TOPICS,
        ApiKeys.CREATE_ACLS,
        ApiKeys.DELETE_ACLS,
        ApiKeys.ALTER_CONFIGS,
        ApiKeys.CREATE_PARTITIONS,
        ApiKeys.CREATE_DELEGATION_TOKEN,
        ApiKeys.RENEW_DELEGATION_TOKEN,
        ApiKeys.EXPIRE_DELEGATION_TOKEN,
        ApiKeys.ELECT_LEADERS,
        ApiKeys.INCREMENTAL_ALTER_CONFIGS,
        ApiKeys.ALTER_PARTITION_REASSIGNMENTS,
        ApiKeys.LIST_PARTITION_REASSIGNMENTS,
        ApiKeys.ALTER_CLIENT_QUOTAS,
        ApiKeys.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKeys.DESCRIBE_QUORUM,
        ApiKeys.UPDATE_FEATURES,
        ApiKeys.UNREGISTER_BROKER,
        ApiKeys.ALLOCATE_PRODUCER_IDS,
        ApiKeys.ADD_RAFT_VOTER,
        ApiKeys.REMOVE_RAFT_VOTER,
        ApiKeys.CREATE_MIRROR,
        ApiKeys.ADD_TOPICS_TO_MIRROR,
        ApiKeys.REMOVE_TOPICS_FROM_MIRROR,
        ApiKeys.PAUSE_MIRROR_TOPICS,
        ApiKeys.RESUME_MIRROR_TOPICS,
        ApiKeys.DELETE_MIRROR,
        ApiKeys.BUMP_LEADER_EPOCHS,
    }
)


class ApiSpec(Struct, frozen=True, kw_only=True):
    """One API: what it carries on the wire, and where it is served."""

    key: ApiKeys
    name: str
    module: str
    lowest: int
    highest: int
    flexible_from: int | None
    listeners: tuple[str, ...]
    forwardable: bool
    cluster_action: bool
    latest_unstable: bool

    @property
    def request(self) -> type[Message]:
        return message_class(self.module, f"{self.name}Request")

    @property
    def response(self) -> type[Message]:
        return message_class(self.module, f"{self.name}Response")

    def is_flexible(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from

    def request_header_version(self, version: int) -> int:
        return 2 if self.is_flexible(version) else 1

    def response_header_version(self, version: int) -> int:
        """Returns the header version of a response. ApiVersions is always answered with header 0,
        so that clients of any age can read the answer."""
        return 1 if self.is_flexible(version) and self.key != ApiKeys.API_VERSIONS else 0


@functools.cache
def message_class(module: str, name: str) -> type[Message]:
    """Returns a generated message class; imports its module the first time."""
    return cast(type[Message], getattr(importlib.import_module(f"kmirror.wire.messages.{module}"), name))


API_TABLE: dict[ApiKeys, ApiSpec] = {
    ApiKeys(key): ApiSpec(
        key=ApiKeys(key),
        name=name,
        module=module,
        lowest=lowest,
        highest=highest,
        flexible_from=flexible_from,
        listeners=listeners,
        forwardable=key in _FORWARDABLE,
        cluster_action=key in _CLUSTER_ACTIONS,
        latest_unstable=latest_unstable,
    )
    for key, (name, module, lowest, highest, flexible_from, listeners, latest_unstable) in APIS.items()
}
