"""Random requests, made from the schemas of `protocol/` by a seed.

A request is a walk over its schema: the fields that its version has get values from small pools by
the field's name, so that most requests name something that exists, or nearly does. Arrays have up
to three entries and often repeat one. What both brokers choose by their own clock, or what would
end the run, is left out, and `LEFT_OUT` says why.

Both brokers get the same requests in the same order, so both hold the same state.
"""

from __future__ import annotations

import random
from typing import Any

from schema_interpreter import default_of, includes, is_struct, load_schemas, struct_fields

from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.wire.api_keys import API_TABLE, ApiKeys

LEFT_OUT = {
    ApiKeys.API_VERSIONS: "features and versions of KIP-1279 differ by design; test_differential_topics has it",
    ApiKeys.SASL_HANDSHAKE: "the listener has no SASL; the security suites have it",
    ApiKeys.SASL_AUTHENTICATE: "the listener has no SASL; the security suites have it",
    ApiKeys.JOIN_GROUP: "members expire by each broker's clock; test_differential_groups has it",
    ApiKeys.SYNC_GROUP: "members expire by each broker's clock; test_differential_groups has it",
    ApiKeys.CONSUMER_GROUP_HEARTBEAT: "members expire by each broker's clock; test_differential_consumer_groups has it",
    ApiKeys.WRITE_TXN_MARKERS: "a marker has the time of each broker; test_differential_transactions has it",
    ApiKeys.UPDATE_FEATURES: "would change what the other requests may do; test_differential_controller has it",
    ApiKeys.DESCRIBE_QUORUM: "offsets of the metadata logs differ; test_differential_configs has it",
    ApiKeys.ADD_RAFT_VOTER: "would change the quorum; test_differential_controller has it",
    ApiKeys.REMOVE_RAFT_VOTER: "would change the quorum; test_differential_controller has it",
    ApiKeys.DESCRIBE_SHARE_GROUP_OFFSETS: "Kafka never answers for a partition that does not exist",
    ApiKeys.ALTER_SHARE_GROUP_OFFSETS: "Kafka makes the group although the topic does not exist, and its state then differs",
    ApiKeys.DELETE_SHARE_GROUP_OFFSETS: "needs what ALTER_SHARE_GROUP_OFFSETS made; test_differential_share_groups has them",
    ApiKeys.GET_TELEMETRY_SUBSCRIPTIONS: "needs a receiver of metrics",
    ApiKeys.PUSH_TELEMETRY: "needs a receiver of metrics",
}
SHARE_STATE = (
    ApiKeys.INITIALIZE_SHARE_GROUP_STATE,
    ApiKeys.READ_SHARE_GROUP_STATE,
    ApiKeys.WRITE_SHARE_GROUP_STATE,
    ApiKeys.DELETE_SHARE_GROUP_STATE,
    ApiKeys.READ_SHARE_GROUP_STATE_SUMMARY,
)
TIME = 1_750_000_000_000
LONG = "x" * 250
TOPICS = ("r1", "r3", "r5")
"""They exist from the start, with as many partitions, and some records in each."""
NAMES = (*TOPICS, *TOPICS, "r9", "made", "missing", "", "a b", ".", LONG)
GROUPS = ("g1", "g2", "g3", "missing", "")
CONFIGS = {
    "retention.ms": ("1000000000000", "-1", "-2", "abc", ""),
    "cleanup.policy": ("compact", "delete", "compact,delete", "", "nonsense"),
    "max.message.bytes": ("100000", "0", "-1", "1.5"),
    "segment.bytes": ("1048576", "1", "abc"),
    "compression.type": ("zstd", "producer", "nothing"),
    "min.insync.replicas": ("1", "0", "two"),
    "no.such.config": ("1", ""),
}
"""Topic configs that change nothing which another request could tell by a clock."""
INT_POOLS = {
    "Partition": (0, 0, 1, 2, 4, 5, -1),
    "PartitionIndex": (0, 0, 1, 2, 4, 5, -1),
    "PartitionIndexes": (0, 0, 1, 2, 5, -1),
    "PartitionIds": (0, 0, 1, 2, 5, -1),
    "Partitions": (0, 0, 1, 2, 5, -1),
    "Index": (0, 0, 1, 5, -1),
    "LeaderEpoch": (-1, 0, 1, 5, -2),
    "CurrentLeaderEpoch": (-1, -1, 0, 0, 1, -2),
    "LastFetchedEpoch": (-1, 0, 1, 5),
    "CommittedLeaderEpoch": (-1, 0, 1),
    "Timestamp": (-1, -2, -3, -4, -5, -6, -7, 0, TIME, TIME + 3, TIME * 2),
    "IsolationLevel": (0, 1, 2, -1),
    "ReplicaId": (-1, -1, -2, 1, 7),
    "Replicas": (1, 1, 1, 2, -1),
    "BrokerIds": (1, 1, 2, -1),
    "BrokerId": (0, 2, 99, -1),
    "Offset": (0, 1, 3, 6, -1, -2, 100),
    "FetchOffset": (0, 1, 3, 6, -1, 100),
    "CommittedOffset": (0, 5, -1, 1 << 40),
    "LogStartOffset": (-1, 0),
    "MaxWaitMs": (0, 1),
    "MinBytes": (0, 1),
    "MaxBytes": (1 << 20, 1 << 20, 100, 0),
    "PartitionMaxBytes": (1 << 20, 1 << 20, 50, 0),
    "SessionId": (0, 0, 0, 12345),
    "SessionEpoch": (-1, -1, 0, 1),
    "ResourceType": (2, 2, 2, 3, 4, 8, 16, 32, 0, 1, 99, -1),
    "ResourceTypeFilter": (0, 1, 2, 3, 4, 5, 6, 7, 99),
    "ResourcePatternType": (3, 3, 4, 0, 1, 2, 99),
    "PatternTypeFilter": (3, 4, 0, 1, 2, 99),
    "Operation": (1, 2, 3, 8, 0, 99),
    "PermissionType": (2, 3, 3, 0, 1, 99),
    "ConfigOperation": (0, 0, 1, 2, 3),
    "ElectionType": (0, 1, 2),
    "KeyType": (0, 0, 1, 2, 9),
    "Acks": (-1, 1, 2),
    "TimeoutMs": (30000,),
    "timeoutMs": (30000,),
    "ResponsePartitionLimit": (2000, 1, 0, -1),
    "NumPartitions": (1, 2, -1, 0, -2),
    "Count": (1, 2, 4, 6, 0, -1),
    "ReplicationFactor": (1, -1, 0, 2),
    "ProducerId": (-1, 0, 1, 4000, 5_000_000),
    "ProducerEpoch": (-1, 0, 1),
    "TransactionTimeoutMs": (0, -1, 60000, 900001),
    "GenerationIdOrMemberEpoch": (-1, 0, 5),
    "GenerationId": (-1, 0, 5),
    "RetentionTimeMs": (-1, 3600000),
    "MatchType": (0, 1, 2, 9),
    "Mechanism": (1, 2, 0, 3),
    "Iterations": (4096, 8192, 100, 20000),
    "CoordinatorType": (0, 1),
    "DurationFilter": (-1, 0, 1000),
    "ProducerIdFilters": (0, 1, 4000),
    "EndpointType": (1, 2, 3),
    "StateEpoch": (0, 1, -1),
    "StartOffset": (0, 3, -1),
    "MaxLifetimeMs": (-1, 60000),
    "RenewPeriodMs": (-1, 60000),
    "ExpiryTimePeriodMs": (-1, 60000),
}
STRING_POOLS = {
    "GroupId": GROUPS,
    "Groups": GROUPS,
    "GroupIds": GROUPS,
    "GroupsNames": GROUPS,
    "MemberId": ("", "nobody"),
    "GroupInstanceId": ("", "static"),
    "TransactionalId": ("t1", "t2", ""),
    "TransactionalIds": ("t1", "t2", "missing", ""),
    "TransactionalIdPattern": ("t.*", "", "("),
    "ResourceName": (*TOPICS, "g1", "1", "", "missing", "*", "kafka-cluster"),
    "ResourceNameFilter": (*TOPICS, "g1", "*", "", "kafka-cluster"),
    "Principal": ("User:a", "User:*", "a", ""),
    "PrincipalFilter": ("User:a", "User:*", "", "a"),
    "Host": ("*", "10.0.0.1", ""),
    "HostFilter": ("*", "10.0.0.1", ""),
    "EntityType": ("user", "client-id", "ip", "nonsense"),
    "EntityName": ("somebody", "10.0.0.1"),
    "Match": ("somebody", ""),
    "Key": ("producer_byte_rate", "consumer_byte_rate", "nonsense", ""),
    "CoordinatorKeys": GROUPS,
    "StatesFilter": ("Stable", "Empty", "nonsense", "empty"),
    "StateFilters": ("Ongoing", "Empty", "nonsense"),
    "TypesFilter": ("classic", "consumer", "share", "nonsense"),
    "Path": ("nowhere", "/nowhere"),
    "Metadata": ("", "note"),
    "CommittedMetadata": ("", "note"),
    "RackId": ("", "a"),
    "Rack": ("", "a"),
    "Reason": ("", "because"),
    "ProtocolType": ("", "consumer"),
    "ProtocolName": ("", "range"),
    "OwnerPrincipalType": ("User", "Group", ""),
    "OwnerPrincipalName": ("a", ""),
    "ClusterId": (None,),
}
UNIQUE = ("Transactions",)
"""Arrays that no sender fills with two entries of one transactional id: brokers send them."""
BATCHES = (
    bytes(build_batch([Record(0, TIME, b"k", b"v", []), Record(1, TIME + 1, None, b"w", [])])),
    bytes(build_batch([Record(0, TIME + 5, b"k", None, [("h", b"1")])])),
    b"",
    b"garbage that is no batch at all, but longer than a header of 61 bytes is",
)


class RandomRequests:
    """The requests of one seed. `topic_ids` are asked for by name when a field wants an id."""

    def __init__(self, seed: int, apis: list[tuple[ApiKeys, int, int]]) -> None:
        self._random = random.Random(seed)
        self._schemas = load_schemas()
        self._apis = apis

    def next(self) -> tuple[ApiKeys, int, dict[str, Any]]:
        """An API, a version, and the request as the schema's dict; `<topic>` stands for an id."""
        api, lowest, highest = self._random.choice(self._apis)
        version = self._random.randint(lowest, highest)
        schema = self.schema(api)
        return api, version, self._struct(schema, schema["fields"], version, api)

    def schema(self, api: ApiKeys) -> Any:
        return self._schemas[f"{API_TABLE[api].name}Request"]

    def _struct(self, schema: Any, fields: Any, version: int, api: ApiKeys) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for field in fields:
            if self._is_left_at_default(field):
                made[field["name"]] = default_of(schema, field)
            elif includes(field["versions"], version):
                made[field["name"]] = self._value(schema, field, version, api, made)
        return made

    def _is_left_at_default(self, field: Any) -> bool:
        """A tag is left out two times of three; ReplicaState would make us a follower."""
        return "tag" in field and (field["name"] == "ReplicaState" or self._random.random() < 0.7)

    def _value(self, schema: Any, field: Any, version: int, api: ApiKeys, made: dict[str, Any]) -> Any:
        if includes(field.get("nullableVersions", "none"), version) and field["type"] != "records" and self._random.random() < 0.12:
            return None  # null records are never answered there (known_differences)
        if field["type"].startswith("[]"):
            return self._array(schema, {**field, "type": field["type"][2:], "nullableVersions": "none"}, version, api, made)
        if is_struct(field):
            return self._struct(schema, struct_fields(schema, field), version, api)
        return self._scalar(field, api, made)

    def _array(self, schema: Any, element: Any, version: int, api: ApiKeys, made: dict[str, Any]) -> list[Any]:
        entries = [self._value(schema, element, version, api, made) for _ in range(self._random.choice((0, 1, 1, 1, 2, 3)))]
        if entries and self._random.random() < 0.2 and element["name"] not in UNIQUE:
            entries.append(entries[0])
        return list({entry["TransactionalId"]: entry for entry in entries}.values()) if element["name"] in UNIQUE else entries

    def _scalar(self, field: Any, api: ApiKeys, made: dict[str, Any]) -> Any:
        kind, name = field["type"], field["name"]
        if kind == "string":
            return self._string(field, api, made)
        if kind == "uuid":
            return f"<{self._random.choice(NAMES)}>" if "opic" in name else bytes(16)
        if kind == "bool":
            return self._random.random() < 0.5
        if kind == "records":
            return self._random.choice(BATCHES)
        if kind == "bytes":
            return self._random.choice((b"", b"bytes"))
        if kind == "float64":
            return self._random.choice((1e9, 0.0, -1.0, 1.5e9))
        return self._random.choice(INT_POOLS.get(name, (0, 1, -1)))

    def _string(self, field: Any, api: ApiKeys, made: dict[str, Any]) -> str:
        name = field["name"]
        if name in ("ConfigurationKeys",) or (name == "Name" and api in CONFIG_APIS and field.get("entityType") != "topicName"):
            return self._random.choice(tuple(CONFIGS))
        if name == "Value" and made.get("Name") in CONFIGS:
            return self._random.choice(CONFIGS[made["Name"]])
        if name == "Name" and api in SCRAM_APIS:
            return self._random.choice(("somebody", "a", ""))
        pool = STRING_POOLS.get(name, NAMES)
        if name == "Key" and api is ApiKeys.FIND_COORDINATOR:
            pool = GROUPS
        return self._random.choice(pool)


CONFIG_APIS = (ApiKeys.ALTER_CONFIGS, ApiKeys.INCREMENTAL_ALTER_CONFIGS, ApiKeys.CREATE_TOPICS)
SCRAM_APIS = (ApiKeys.ALTER_USER_SCRAM_CREDENTIALS, ApiKeys.DESCRIBE_USER_SCRAM_CREDENTIALS)
