"""The ACL matrix: each API, called by users who have every permission but one, on Apache Kafka and
on kmirror.

A `Case` is a request and the permissions that Kafka checks for it, as words ("READ TOPIC a"). Its
variants are: all of them, each of them missing, none. Every variant is a user of its own, whose
rules are created before anything is asked. Both brokers get the same requests in the same order, so
what an answer hides or reveals must be the same. `outcome` keeps only what permissions can change
in an answer: error codes and texts, names, bit fields and the number of entries.

`tests/golden/acl_matrix.json` holds Apache Kafka 4.3's outcomes.
tests/interop/apache/test_acl_matrix.py asks it again (and writes the file when KMIRROR_RECORD is
set); tests/integration/test_acl_matrix.py asks kmirror.
"""

from __future__ import annotations

import json
import pathlib
import re
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, get_args, get_type_hints

from kmirror.common.acl import CLUSTER_NAME, AclOperation, ResourceType
from kmirror.common.errors import Errors
from kmirror.common.uuid import Uuid
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.framing import RequestHeader, encode_request
from kmirror.wire.messages.create_acls import AclCreation, CreateAclsRequest
from kmirror.wire.messages.default_principal_data import DefaultPrincipalData
from kmirror.wire.primitives import Writer

GOLDEN = pathlib.Path(__file__).parents[2] / "golden" / "acl_matrix.json"
TIME_MS = 1_750_000_000_000
PASSWORD = "secret"
CLOSED = "closed"


class Side(Protocol):
    """A broker that can be asked under any name."""

    topic_ids: dict[str, Uuid]

    def ask(self, user: str | None, api_key: ApiKeys, version: int, message: Any, *, controller: bool = False) -> Any:
        """The decoded answer, or CLOSED. `user` None is the super user."""
        ...


Fields = dict[str, Any]


class Case(NamedTuple):
    """`fields` make the request; a function of the side where it names an id.

    `controller`: sent to the controller's listener.
    """

    name: str
    api_key: ApiKeys
    version: int
    fields: Fields | Callable[[Side], Fields]
    needs: tuple[str, ...]
    controller: bool = False


class Variant(NamedTuple):
    case: Case
    label: str
    user: str
    rules: tuple[str, ...]


def variants() -> list[Variant]:
    """Returns all users of the matrix.

    What is refused comes first, since an allowed request may change something.
    """
    made: list[Variant] = []
    for number, case in enumerate(CASES):
        labelled = [("none", ())] if case.needs else []
        if len(case.needs) > 1:
            labelled += [(f"without {need}", tuple(n for n in case.needs if n != need)) for need in case.needs]
        labelled.append(("all", case.needs))
        made += [Variant(case, label, f"c{number}v{index}", rules) for index, (label, rules) in enumerate(labelled)]
    return made


def users() -> list[str]:
    return [variant.user for variant in variants()]


# --- asking
# ---------------------------------------------------------------------------------------------------------


def message_of(api_key: ApiKeys, fields: Fields) -> Any:
    """Builds an API's request from plain data; fields that are not named have their defaults."""
    return _built(API_TABLE[api_key].request, fields)


def _built(cls: Any, fields: Fields) -> Any:
    hints = get_type_hints(cls)
    return cls(**{name: _value(hints[name], value) for name, value in fields.items()})


def _value(hint: Any, value: Any) -> Any:
    """Returns `value` with its dicts converted into the structs that `hint` names."""
    if isinstance(value, dict):
        return _built(next(cls for cls in (hint, *get_args(hint)) if hasattr(cls, "__struct_fields__")), value)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        entry = next(args[0] for args in map(get_args, (hint, *get_args(hint))) if args and hasattr(args[0], "__struct_fields__"))
        return [_built(entry, item) for item in value]
    return value


def run(side: Side) -> dict[str, Any]:
    """Sets everything up and asks everything; returns the outcomes by case and variant."""
    set_up(side)
    outcomes: dict[str, Any] = {}
    for variant in variants():
        case = variant.case
        fields = case.fields(side) if callable(case.fields) else case.fields
        answer = side.ask(variant.user, case.api_key, case.version, message_of(case.api_key, fields), controller=case.controller)
        outcomes[f"{case.name} | {variant.label}"] = CLOSED if answer == CLOSED else outcome(answer, side)
    return outcomes


KEPT = {
    "error_code", "partition_error_code", "error_message", "name", "topic", "topic_name", "topic_id", "group_id", "transactional_id", "resource_name", "resource_type",
    "partition_index", "partition", "partition_id", "index", "key", "config_name", "cluster_authorized_operations", "topic_config_error_code",
    "topic_authorized_operations", "authorized_operations", "num_partitions", "replication_factor", "principal", "user", "principal_name",
    "endpoint_type", "transaction_state", "group_state", "feature", "response_data", "mirror_name", "path", "token_requester_principal_name",
}  # fmt: skip
DROPPED = {"node_endpoints", "configs", "synonyms", "brokers", "log_dirs", "nodes", "members", "api_keys", "current_voters", "observers"}
"""Long lists that say nothing about permissions, or that brokers fill differently."""
REQUEST = re.compile(r"Request .*( needs \w+ permission\.)")


def outcome(value: Any, side: Side) -> Any:
    """Returns what is kept of an answer: structures as dicts without zero fields, lists in the
    order of their text.
    """
    if hasattr(value, "__struct_fields__"):
        found = {}
        for name in value.__struct_fields__:
            field = getattr(value, name)
            if name == "configs":
                found["configs"] = len(field or ()) > 0
            elif name in DROPPED or name == "unknown_tagged_fields":
                continue
            elif isinstance(field, list) or hasattr(field, "__struct_fields__"):
                found[name] = outcome(field, side)
            elif name in KEPT:
                found[name] = _plain(name, field, side)
        return {name: entry for name, entry in found.items() if entry not in (None, "", 0, [], {})}
    if isinstance(value, list):
        return sorted((outcome(entry, side) for entry in value), key=lambda entry: json.dumps(entry, sort_keys=True))
    return value


def _plain(name: str, field: Any, side: Side) -> Any:
    if name.endswith("error_code"):
        return Errors.for_code(field).name if field else 0
    if isinstance(field, Uuid):
        names = {topic_id: topic for topic, topic_id in side.topic_ids.items()}
        return f"<id of {names[field]}>" if field in names else "<id>" if field else None
    if isinstance(field, str):
        for topic, topic_id in side.topic_ids.items():
            field = field.replace(str(topic_id), f"<id of {topic}>")
        return REQUEST.sub(r"Request <request>\1", field)
    return bytes(field).hex() if isinstance(field, bytes | memoryview) else field


# --- setting up
# -----------------------------------------------------------------------------------------------------

TOPICS = ("a", "b", "del-1", "del-2", "del-3", "del-4")


def set_up(side: Side) -> None:
    """Creates topics, groups, transactional ids, the coordinators' topics, and every user's rules.

    Returns when the broker knows all of it.
    """
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in TOPICS]
    created = side.ask(None, ApiKeys.CREATE_TOPICS, 7, message_of(ApiKeys.CREATE_TOPICS, {"topics": topics, "timeout_ms": 30000}))
    for topic in created.topics:
        assert topic.error_code == 0, topic
        side.topic_ids[topic.name] = topic.topic_id
    creations = [creation for variant in variants() for creation in map(acl_of, [variant.user] * len(variant.rules), variant.rules)]
    answer = side.ask(None, ApiKeys.CREATE_ACLS, 3, CreateAclsRequest(creations=creations))
    assert [row.error_code for row in answer.results] == [0] * len(creations), answer
    for key_type, key in ((0, "g"), (1, "tx")):
        _until(side, ApiKeys.FIND_COORDINATOR, 4, {"key_type": key_type, "coordinator_keys": [key]}, lambda r: r.coordinators[0].error_code)
    produced = {"acks": -1, "timeout_ms": 5000, "topic_data": [_records("a"), _records("b")]}
    _until(side, ApiKeys.PRODUCE, 12, produced, lambda r: any(p.error_code for t in r.responses for p in t.partition_responses))
    for transactional_id in (None, "tx0"):
        producer = {"transactional_id": transactional_id, "transaction_timeout_ms": 60000}
        _until(side, ApiKeys.INIT_PRODUCER_ID, 5, producer, lambda r: r.error_code)
    share_key = {"key_type": 2, "coordinator_keys": [f"g-share:{side.topic_ids['a']}:0"]}
    _until(side, ApiKeys.FIND_COORDINATOR, 6, share_key, lambda r: r.coordinators[0].error_code)
    shared = _alter_share("g-share", "a", "b")
    _until(side, ApiKeys.ALTER_SHARE_GROUP_OFFSETS, 0, shared, lambda r: any(p.error_code for t in r.responses for p in t.partitions))
    all_topics = {"groups": [{"group_id": "g-share", "topics": None}]}
    _until(side, ApiKeys.DESCRIBE_SHARE_GROUP_OFFSETS, 1, all_topics, lambda r: len(r.groups[0].topics) < 2)
    for group in ("g", "g2", "g-del"):
        _until(side, ApiKeys.OFFSET_COMMIT, 9, _commit(group), lambda r: any(p.error_code for t in r.topics for p in t.partitions))
    token = message_of(
        ApiKeys.CREATE_DELEGATION_TOKEN, {"owner_principal_type": None, "owner_principal_name": None, "max_lifetime_ms": 3600000}
    )
    assert side.ask("admin", ApiKeys.CREATE_DELEGATION_TOKEN, 3, token).error_code == 0
    wanted = {"resource_type_filter": 1, "pattern_type_filter": 1, "resource_name_filter": None, "principal_filter": None, "host_filter": None,
              "operation": 1, "permission_type": 1}  # fmt: skip
    _until(side, ApiKeys.DESCRIBE_ACLS, 3, wanted, lambda r: sum(len(x.acls) for x in r.resources) < len(creations))


def _until(side: Side, api_key: ApiKeys, version: int, fields: Fields, is_unfinished: Callable[[Any], Any]) -> Any:
    for _ in range(400):
        answer = side.ask(None, api_key, version, message_of(api_key, fields))
        if not is_unfinished(answer):
            return answer
    raise AssertionError(f"{api_key.name} never came right: {answer}")


def acl_of(user: str, rule: str) -> AclCreation:
    """ "READ TOPIC a" as a literal rule for one user; the cluster needs no name, "a*" is a prefix, "*" every name."""
    operation, resource_type, *name = rule.split(" ")
    resource = name[0] if name else CLUSTER_NAME
    is_prefix = len(resource) > 1 and resource.endswith("*")
    return AclCreation(
        resource_type=ResourceType[resource_type],
        resource_name=resource.rstrip("*") if is_prefix else resource,
        resource_pattern_type=4 if is_prefix else 3,
        principal=f"User:{user}",
        host="*",
        operation=AclOperation[operation],
        permission_type=3,
    )


def _batch(**options: Any) -> bytes:
    return bytes(build_batch([Record(0, TIME_MS, b"k", b"v")], **options))


def _records(topic: str) -> Fields:
    return {"name": topic, "partition_data": [{"index": 0, "records": _batch()}]}


def _commit(group: str, *topics: str) -> Fields:
    rows = [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 1}]} for topic in topics or ("a", "b")]
    return {"group_id": group, "topics": rows}


def _alter_share(group: str, *topics: str) -> Fields:
    return {"group_id": group, "topics": [{"topic_name": topic, "partitions": [{"partition_index": 0}]} for topic in topics]}


def _share_state(**data: Any) -> Callable[[Side], Fields]:
    """A request about the state of a share partition of `a`, as brokers send it."""
    return lambda side: {"group_id": "g-state", "topics": [{"topic_id": side.topic_ids["a"], "partitions": [{"partition": 0, **data}]}]}


def sasl_plain_frames(user: str) -> Iterator[tuple[ApiKeys, int, Any]]:
    """Returns the two requests by which a connection logs in as `user`."""
    yield ApiKeys.SASL_HANDSHAKE, 1, message_of(ApiKeys.SASL_HANDSHAKE, {"mechanism": "PLAIN"})
    token = b"\0" + user.encode() + b"\0" + PASSWORD.encode()
    yield ApiKeys.SASL_AUTHENTICATE, 2, message_of(ApiKeys.SASL_AUTHENTICATE, {"auth_bytes": token})


# --- the matrix
# -----------------------------------------------------------------------------------------------------

BROKER = "1"
K = ApiKeys


def _fetch(*, replica_id: int = -1) -> Fields:
    topics = [{"topic": name, "partitions": [{"partition": 0, "partition_max_bytes": 1000}]} for name in ("a", "b", "gone")]
    return {"replica_id": replica_id, "max_wait_ms": 0, "min_bytes": 0, "session_epoch": -1, "topics": topics}


def _fetch_by_id(side: Side) -> Fields:
    ids = [side.topic_ids["a"], side.topic_ids["b"], Uuid(b"0123456789abcdef")]
    topics = [{"topic_id": topic_id, "partitions": [{"partition": 0, "partition_max_bytes": 1000}]} for topic_id in ids]
    return {"max_wait_ms": 0, "min_bytes": 0, "session_epoch": -1, "topics": topics}


def _produce(*, transactional_id: str | None = None) -> Fields:
    return {
        "transactional_id": transactional_id,
        "acks": -1,
        "timeout_ms": 5000,
        "topic_data": [_records(name) for name in ("a", "b", "gone")],
    }


def _produce_by_id(side: Side) -> Fields:
    ids = [side.topic_ids["a"], Uuid(b"0123456789abcdef")]
    return {
        "acks": -1,
        "timeout_ms": 5000,
        "topic_data": [{"topic_id": i, "partition_data": [{"index": 0, "records": _batch()}]} for i in ids],
    }


def _join(group: str) -> Fields:
    return {"group_id": group, "session_timeout_ms": 30000, "rebalance_timeout_ms": 30000, "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}]}  # fmt: skip


def _configs(resource_type: int, name: str) -> Fields:
    return {"resources": [{"resource_type": resource_type, "resource_name": name, "configuration_keys": None}]}


def _incremental(resource_type: int, name: str, key: str, value: str) -> Fields:
    configs = [{"name": key, "config_operation": 0, "value": value}]
    return {"resources": [{"resource_type": resource_type, "resource_name": name, "configs": configs}]}


def _legacy(resource_type: int, name: str, key: str, value: str) -> Fields:
    return {"resources": [{"resource_type": resource_type, "resource_name": name, "configs": [{"name": key, "value": value}]}]}


def _offset_fetch(*topics: str) -> Fields:
    rows = [{"name": name, "partition_indexes": [0]} for name in topics] or None
    return {"groups": [{"group_id": "g", "topics": rows}, {"group_id": "g2", "topics": rows}]}


def _txn_offset_commit() -> Fields:
    return {
        "transactional_id": "tx",
        "group_id": "g",
        "producer_id": 99,
        "producer_epoch": 0,
        "topics": _commit("g", "a", "b", "gone")["topics"],
    }


def _described_topics(side: Side) -> Fields:
    return {"topics": [{"topic_id": side.topic_ids["a"], "name": None}, {"topic_id": side.topic_ids["b"], "name": None}]}


def _named(*names: str, **more: Any) -> Fields:
    return {"topics": [{"name": name} for name in names], **more}


def _deleted_by_id(side: Side) -> Fields:
    return {
        "topics": [{"name": None, "topic_id": side.topic_ids["del-2"]}, {"name": None, "topic_id": Uuid(b"0123456789abcdef")}],
        "timeout_ms": 5000,
    }


def _created(*names: str) -> Fields:
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
    return {"topics": topics, "timeout_ms": 5000, "validate_only": True}


def _new_acl(name: str) -> Fields:
    return {"creations": [{"resource_type": 2, "resource_name": name, "resource_pattern_type": 3, "principal": "User:z", "host": "*",
                           "operation": 3, "permission_type": 3}]}  # fmt: skip


def _rule(**fields: Any) -> Fields:
    return _new_acl("z")["creations"][0] | {"principal": "User:y"} | fields


def _acl_filter(name: str | None) -> Fields:
    return {"resource_type_filter": 2, "pattern_type_filter": 3, "resource_name_filter": name, "principal_filter": "User:z",
            "host_filter": None, "operation": 1, "permission_type": 1}  # fmt: skip


def _heartbeat_of_consumer(**more: Any) -> Fields:
    return {
        "group_id": "g848",
        "member_id": "AAAAAAAAAAAAAAAAAAAAAg",
        "member_epoch": 0,
        "rebalance_timeout_ms": 30000,
        "topic_partitions": [],
        **more,
    }


def _add_partitions() -> Fields:
    return {"v3_and_below_transactional_id": "tx", "v3_and_below_producer_id": 99, "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": [{"name": name, "partitions": [0]} for name in ("a", "b", "gone")]}  # fmt: skip


def _verify_partitions() -> Fields:
    rows = [
        {
            "transactional_id": "tx",
            "producer_id": 99,
            "producer_epoch": 0,
            "verify_only": True,
            "topics": [{"name": "a", "partitions": [0]}],
        }
    ]
    return {"transactions": rows}


def _scram(name: str) -> Fields:
    return {"upsertions": [{"name": name, "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"0" * 32}]}


def _quota(user: str) -> Fields:
    entry = {"entity": [{"entity_type": "user", "entity_name": user}], "ops": [{"key": "producer_byte_rate", "value": 1e6}]}
    return {"entries": [entry], "validate_only": True}


def _envelope() -> Fields:
    """CreateTopics of somebody who may create topics, carried by a user of the matrix."""
    header = RequestHeader(K.CREATE_TOPICS, 7, 1, "c")
    inner = b"".join(bytes(part) for part in encode_request(header, message_of(K.CREATE_TOPICS, _created("e"))))[4:]
    out = Writer()
    DefaultPrincipalData(type="User", name="nobody").write(out, 0)
    return {"request_data": inner, "request_principal": struct.pack(">h", 0) + out.to_bytes(), "client_host_address": b"\x7f\0\0\1"}


def _isr_of_nobody(side: Side) -> Fields:
    return {"broker_id": 77, "topics": [{"topic_id": side.topic_ids["a"], "partitions": []}]}


CASES: list[Case] = [
    # data
    Case("Produce", K.PRODUCE, 12, _produce(), ("WRITE TOPIC a", "WRITE TOPIC b", "WRITE TOPIC gone")),
    Case("Produce by id", K.PRODUCE, 13, _produce_by_id, ("WRITE TOPIC a",)),
    Case("Produce with a prefix", K.PRODUCE, 12, _produce(), ("WRITE TOPIC g*", "WRITE TOPIC a*")),
    Case("Produce with every topic", K.PRODUCE, 12, _produce(), ("ALL TOPIC *",)),
    Case("Fetch", K.FETCH, 12, _fetch(), ("READ TOPIC a", "READ TOPIC b", "READ TOPIC gone")),
    Case("Fetch by id", K.FETCH, 13, _fetch_by_id, ("READ TOPIC a", "READ TOPIC b")),
    Case("Fetch of a follower", K.FETCH, 12, _fetch(replica_id=7), ("CLUSTER_ACTION CLUSTER",)),
    Case("ListOffsets", K.LIST_OFFSETS, 8, {"replica_id": -1, "topics": [{"name": n, "partitions": [{"timestamp": -1}]} for n in ("a", "b", "gone")]},
         ("DESCRIBE TOPIC a", "DESCRIBE TOPIC b", "DESCRIBE TOPIC gone")),
    Case("OffsetForLeaderEpoch", K.OFFSET_FOR_LEADER_EPOCH, 4, {"topics": [{"topic": n, "partitions": [{"partition": 0}]} for n in ("a", "b")]},
         ("DESCRIBE TOPIC a", "DESCRIBE TOPIC b")),
    Case("OffsetForLeaderEpoch of a follower", K.OFFSET_FOR_LEADER_EPOCH, 4, {"replica_id": 7, "topics": [{"topic": "a", "partitions": [{}]}]},
         ("CLUSTER_ACTION CLUSTER",)),
    Case("DeleteRecords", K.DELETE_RECORDS, 2, {"topics": [{"name": n, "partitions": [{"offset": 0}]} for n in ("a", "b", "gone")], "timeout_ms": 5000},
         ("DELETE TOPIC a", "DELETE TOPIC b", "DELETE TOPIC gone")),
    Case("DescribeProducers", K.DESCRIBE_PRODUCERS, 0, {"topics": [{"name": n, "partition_indexes": [0]} for n in ("a", "b", "gone")]},
         ("READ TOPIC a", "READ TOPIC b", "READ TOPIC gone")),
    # what there is
    Case("Metadata", K.METADATA, 12, _named("a", "b", "gone", allow_auto_topic_creation=False, include_topic_authorized_operations=True),
         ("DESCRIBE TOPIC a", "READ TOPIC b", "DESCRIBE TOPIC gone")),
    Case("Metadata by id", K.METADATA, 12, _described_topics, ("DESCRIBE TOPIC a", "DESCRIBE TOPIC b")),
    Case("Metadata of the cluster", K.METADATA, 10, _named("a", include_cluster_authorized_operations=True, allow_auto_topic_creation=False),
         ("DESCRIBE CLUSTER", "ALTER_CONFIGS CLUSTER", "DESCRIBE TOPIC a")),
    Case("Metadata of all topics", K.METADATA, 12, {"topics": None, "include_topic_authorized_operations": True}, ("DESCRIBE TOPIC a", "ALTER TOPIC b")),
    Case("Metadata that may create", K.METADATA, 12, _named("new-1"), ("DESCRIBE TOPIC new-1", "CREATE TOPIC new-1")),
    Case("Metadata that may create anything", K.METADATA, 12, _named("new-2"), ("DESCRIBE TOPIC new-2", "CREATE CLUSTER")),
    Case("DescribeTopicPartitions", K.DESCRIBE_TOPIC_PARTITIONS, 0, _named("a", "b", "gone"),
         ("DESCRIBE TOPIC a", "WRITE TOPIC b", "DESCRIBE TOPIC gone")),
    Case("DescribeTopicPartitions of all", K.DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": []}, ("DESCRIBE TOPIC a", "DELETE TOPIC b")),
    Case("DescribeCluster", K.DESCRIBE_CLUSTER, 1, {"include_cluster_authorized_operations": True}, ("DESCRIBE CLUSTER", "ALTER CLUSTER")),
    Case("ApiVersions", K.API_VERSIONS, 0, {}, ()),
    Case("FindCoordinator of groups", K.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["g", "g2"]}, ("DESCRIBE GROUP g", "READ GROUP g2")),
    Case("FindCoordinator of transactions", K.FIND_COORDINATOR, 4, {"key_type": 1, "coordinator_keys": ["tx"]}, ("DESCRIBE TRANSACTIONAL_ID tx",)),
    Case("FindCoordinator, old", K.FIND_COORDINATOR, 3, {"key_type": 0, "key": "g"}, ("DESCRIBE GROUP g",)),
    # groups
    Case("JoinGroup", K.JOIN_GROUP, 9, _join("g-join"), ("READ GROUP g-join",)),
    Case("SyncGroup", K.SYNC_GROUP, 5, {"group_id": "g", "member_id": "m", "protocol_type": "consumer", "protocol_name": "range"}, ("READ GROUP g",)),
    Case("Heartbeat", K.HEARTBEAT, 4, {"group_id": "g", "member_id": "m"}, ("READ GROUP g",)),
    Case("LeaveGroup", K.LEAVE_GROUP, 5, {"group_id": "g", "members": [{"member_id": "m"}]}, ("READ GROUP g",)),
    Case("OffsetCommit", K.OFFSET_COMMIT, 9, _commit("g", "a", "b", "gone"), ("READ GROUP g", "READ TOPIC a", "READ TOPIC b", "READ TOPIC gone")),
    Case("OffsetFetch", K.OFFSET_FETCH, 9, _offset_fetch("a", "b", "gone"),
         ("DESCRIBE GROUP g", "READ GROUP g2", "DESCRIBE TOPIC a", "READ TOPIC b", "DESCRIBE TOPIC gone")),
    Case("OffsetFetch of all", K.OFFSET_FETCH, 9, _offset_fetch(), ("DESCRIBE GROUP g", "DESCRIBE GROUP g2", "DESCRIBE TOPIC a")),
    Case("OffsetFetch, old", K.OFFSET_FETCH, 5, {"group_id": "g", "topics": [{"name": "a", "partition_indexes": [0]}]},
         ("DESCRIBE GROUP g", "DESCRIBE TOPIC a")),
    Case("OffsetDelete", K.OFFSET_DELETE, 0, {"group_id": "g-del", "topics": [{"name": n, "partitions": [{}]} for n in ("a", "b")]},
         ("DELETE GROUP g-del", "READ TOPIC a", "READ TOPIC b")),
    Case("DescribeGroups", K.DESCRIBE_GROUPS, 5, {"groups": ["g", "g2", "g-gone"], "include_authorized_operations": True},
         ("DESCRIBE GROUP g", "DELETE GROUP g2", "DESCRIBE GROUP g-gone")),
    Case("ListGroups", K.LIST_GROUPS, 5, {}, ("DESCRIBE GROUP g", "READ GROUP g2")),
    Case("ListGroups of the cluster", K.LIST_GROUPS, 4, {}, ("DESCRIBE CLUSTER",)),
    Case("DeleteGroups", K.DELETE_GROUPS, 2, {"groups_names": ["g-gone", "g-gone2"]}, ("DELETE GROUP g-gone", "DELETE GROUP g-gone2")),
    Case("ConsumerGroupHeartbeat", K.CONSUMER_GROUP_HEARTBEAT, 1, _heartbeat_of_consumer(subscribed_topic_names=["a", "b"]),
         ("READ GROUP g848", "DESCRIBE TOPIC a", "READ TOPIC b")),
    Case("ConsumerGroupDescribe", K.CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": ["g848", "g-gone"], "include_authorized_operations": True},
         ("DESCRIBE GROUP g848", "DESCRIBE GROUP g-gone", "DESCRIBE TOPIC a", "DESCRIBE TOPIC b")),
    # share groups
    Case("FindCoordinator of share partitions", K.FIND_COORDINATOR, 6,
         lambda side: {"key_type": 2, "coordinator_keys": [f"g-share:{side.topic_ids['a']}:0"]}, ("CLUSTER_ACTION CLUSTER",)),
    Case("ShareGroupDescribe", K.SHARE_GROUP_DESCRIBE, 1, {"group_ids": ["g-share", "g-gone"], "include_authorized_operations": True},
         ("DESCRIBE GROUP g-share", "DESCRIBE GROUP g-gone")),
    Case("DescribeShareGroupOffsets", K.DESCRIBE_SHARE_GROUP_OFFSETS, 1,
         {"groups": [{"group_id": "g-share", "topics": [{"topic_name": n, "partitions": [0]} for n in ("a", "b", "gone")]}]},
         ("DESCRIBE GROUP g-share", "DESCRIBE TOPIC a", "DESCRIBE TOPIC b")),
    Case("DescribeShareGroupOffsets of all topics", K.DESCRIBE_SHARE_GROUP_OFFSETS, 1, {"groups": [{"group_id": "g-share", "topics": None}]},
         ("DESCRIBE GROUP g-share", "DESCRIBE TOPIC a", "DESCRIBE TOPIC b")),
    Case("AlterShareGroupOffsets", K.ALTER_SHARE_GROUP_OFFSETS, 0, _alter_share("g-share2", "a", "b", "gone"),
         ("READ GROUP g-share2", "READ TOPIC a", "READ TOPIC b", "READ TOPIC gone")),
    Case("DeleteShareGroupOffsets", K.DELETE_SHARE_GROUP_OFFSETS, 0, {"group_id": "g-share", "topics": [{"topic_name": n} for n in ("a", "b", "gone")]},
         ("DELETE GROUP g-share", "READ TOPIC a", "READ TOPIC b")),
    Case("InitializeShareGroupState", K.INITIALIZE_SHARE_GROUP_STATE, 0, _share_state(state_epoch=1), ("CLUSTER_ACTION CLUSTER",)),
    Case("WriteShareGroupState", K.WRITE_SHARE_GROUP_STATE, 1, _share_state(state_epoch=1), ("CLUSTER_ACTION CLUSTER",)),
    Case("ReadShareGroupState", K.READ_SHARE_GROUP_STATE, 0, _share_state(), ("CLUSTER_ACTION CLUSTER",)),
    Case("ReadShareGroupStateSummary", K.READ_SHARE_GROUP_STATE_SUMMARY, 1, _share_state(), ("CLUSTER_ACTION CLUSTER",)),
    Case("DeleteShareGroupState", K.DELETE_SHARE_GROUP_STATE, 0, _share_state(), ("CLUSTER_ACTION CLUSTER",)),
    # transactions
    Case("InitProducerId", K.INIT_PRODUCER_ID, 5, {"transactional_id": None, "transaction_timeout_ms": 60000}, ("IDEMPOTENT_WRITE CLUSTER",)),
    Case("InitProducerId of somebody who may write somewhere", K.INIT_PRODUCER_ID, 5, {"transactional_id": None, "transaction_timeout_ms": 60000},
         ("WRITE TOPIC whatever",)),
    Case("InitProducerId of a transaction", K.INIT_PRODUCER_ID, 5, {"transactional_id": "tx", "transaction_timeout_ms": 60000},
         ("WRITE TRANSACTIONAL_ID tx",)),
    Case("AddPartitionsToTxn", K.ADD_PARTITIONS_TO_TXN, 3, _add_partitions(),
         ("WRITE TRANSACTIONAL_ID tx", "WRITE TOPIC a", "WRITE TOPIC b", "WRITE TOPIC gone")),
    Case("AddPartitionsToTxn of a broker", K.ADD_PARTITIONS_TO_TXN, 5, _verify_partitions(), ("CLUSTER_ACTION CLUSTER",)),
    Case("AddOffsetsToTxn", K.ADD_OFFSETS_TO_TXN, 4, {"transactional_id": "tx", "producer_id": 99, "group_id": "g"},
         ("WRITE TRANSACTIONAL_ID tx", "READ GROUP g")),
    Case("EndTxn", K.END_TXN, 4, {"transactional_id": "tx", "producer_id": 99}, ("WRITE TRANSACTIONAL_ID tx",)),
    Case("TxnOffsetCommit", K.TXN_OFFSET_COMMIT, 4, _txn_offset_commit(),
         ("WRITE TRANSACTIONAL_ID tx", "READ GROUP g", "READ TOPIC a", "READ TOPIC b", "READ TOPIC gone")),
    Case("WriteTxnMarkers", K.WRITE_TXN_MARKERS, 1, {"markers": [{"producer_id": 99, "topics": [{"name": "gone", "partition_indexes": [0]}]}]},
         ("CLUSTER_ACTION CLUSTER",)),
    Case("WriteTxnMarkers of an admin", K.WRITE_TXN_MARKERS, 1, {"markers": [{"producer_id": 99, "topics": [{"name": "gone", "partition_indexes": [0]}]}]},
         ("ALTER CLUSTER",)),
    Case("Produce in a transaction", K.PRODUCE, 11,
         {"transactional_id": "tx", "acks": -1, "timeout_ms": 5000,
          "topic_data": [{"name": "a", "partition_data": [{"index": 0, "records": _batch(producer_id=99, producer_epoch=0, base_sequence=0, is_transactional=True)}]}]},
         ("WRITE TRANSACTIONAL_ID tx", "WRITE TOPIC a")),
    Case("DescribeTransactions", K.DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": ["tx", "tx-gone"]},
         ("DESCRIBE TRANSACTIONAL_ID tx", "WRITE TRANSACTIONAL_ID tx-gone")),
    Case("ListTransactions", K.LIST_TRANSACTIONS, 1, {}, ("DESCRIBE TRANSACTIONAL_ID tx",)),
    # topics
    Case("CreateTopics", K.CREATE_TOPICS, 7, _created("n-1", "n-2", "n-1x", "n-1x"), ("CREATE TOPIC n-1", "CREATE TOPIC n-2", "DESCRIBE_CONFIGS TOPIC n-1")),
    Case("CreateTopics of all", K.CREATE_TOPICS, 7, _created("n-1", "a", "__cluster_metadata"), ("CREATE CLUSTER", "ALTER_CONFIGS TOPIC n-1")),
    Case("CreatePartitions", K.CREATE_PARTITIONS, 3,
         {"topics": [{"name": n, "count": 2, "assignments": None} for n in ("a", "b", "gone")], "validate_only": True, "timeout_ms": 5000},
         ("ALTER TOPIC a", "ALTER TOPIC b", "ALTER TOPIC gone")),
    Case("DeleteTopics", K.DELETE_TOPICS, 6, {"topics": [{"name": "del-1"}, {"name": "gone"}], "timeout_ms": 5000},
         ("DELETE TOPIC del-1", "DELETE TOPIC gone", "DESCRIBE TOPIC gone")),
    Case("DeleteTopics that are seen", K.DELETE_TOPICS, 6, {"topics": [{"name": "del-3"}, {"name": "gone"}], "timeout_ms": 5000},
         ("DESCRIBE TOPIC del-3", "DESCRIBE TOPIC gone")),
    Case("DeleteTopics by id", K.DELETE_TOPICS, 6, _deleted_by_id, ("DESCRIBE TOPIC del-2", "DELETE TOPIC del-2")),
    Case("DeleteTopics, old", K.DELETE_TOPICS, 5, {"topic_names": ["del-4"], "timeout_ms": 5000}, ("DELETE TOPIC del-4",)),
    Case("DeleteTopics of all", K.DELETE_TOPICS, 6, {"topics": [{"name": "gone"}], "timeout_ms": 5000}, ("DELETE CLUSTER",)),
    Case("ElectLeaders", K.ELECT_LEADERS, 2, {"topic_partitions": [{"topic": "a", "partitions": [0]}]}, ("ALTER CLUSTER",)),
    Case("AlterPartitionReassignments", K.ALTER_PARTITION_REASSIGNMENTS, 0, {"topics": [{"name": "a", "partitions": [{"replicas": None}]}]},
         ("ALTER CLUSTER",)),
    Case("ListPartitionReassignments", K.LIST_PARTITION_REASSIGNMENTS, 0, {"topics": None}, ("DESCRIBE CLUSTER",)),
    Case("AlterReplicaLogDirs", K.ALTER_REPLICA_LOG_DIRS, 2, {"dirs": [{"path": "/none", "topics": [{"name": "a", "partitions": [0]}]}]}, ("ALTER CLUSTER",)),
    Case("DescribeLogDirs", K.DESCRIBE_LOG_DIRS, 4, {"topics": []}, ("DESCRIBE CLUSTER",)),
    # configs
    Case("DescribeConfigs of topics", K.DESCRIBE_CONFIGS, 4,
         {"resources": [{"resource_type": 2, "resource_name": n, "configuration_keys": None} for n in ("a", "b", "gone")]},
         ("DESCRIBE_CONFIGS TOPIC a", "ALTER_CONFIGS TOPIC b", "DESCRIBE_CONFIGS TOPIC gone")),
    Case("DescribeConfigs of a broker", K.DESCRIBE_CONFIGS, 4, _configs(4, BROKER), ("DESCRIBE_CONFIGS CLUSTER",)),
    Case("DescribeConfigs of loggers", K.DESCRIBE_CONFIGS, 4, _configs(8, BROKER), ("ALTER_CONFIGS CLUSTER",)),
    Case("DescribeConfigs of client metrics", K.DESCRIBE_CONFIGS, 4, _configs(16, "cm"), ("DESCRIBE_CONFIGS CLUSTER",)),
    Case("DescribeConfigs of a group", K.DESCRIBE_CONFIGS, 4, _configs(32, "g"), ("DESCRIBE_CONFIGS GROUP g",)),
    Case("IncrementalAlterConfigs of a topic", K.INCREMENTAL_ALTER_CONFIGS, 1, _incremental(2, "a", "retention.ms", "1000000000"), ("ALTER_CONFIGS TOPIC a",)),
    Case("IncrementalAlterConfigs of no topic", K.INCREMENTAL_ALTER_CONFIGS, 1, _incremental(2, "gone", "retention.ms", "1"), ("ALTER_CONFIGS TOPIC gone",)),
    Case("IncrementalAlterConfigs of the brokers", K.INCREMENTAL_ALTER_CONFIGS, 1, _incremental(4, "", "log.cleaner.backoff.ms", "15000"),
         ("ALTER_CONFIGS CLUSTER",)),
    Case("IncrementalAlterConfigs of client metrics", K.INCREMENTAL_ALTER_CONFIGS, 1, _incremental(16, "cm", "interval.ms", "5000"), ("ALTER_CONFIGS CLUSTER",)),
    Case("IncrementalAlterConfigs of a group", K.INCREMENTAL_ALTER_CONFIGS, 1, _incremental(32, "g", "consumer.session.timeout.ms", "50000"),
         ("ALTER_CONFIGS GROUP g",)),
    Case("IncrementalAlterConfigs of loggers", K.INCREMENTAL_ALTER_CONFIGS, 1, _incremental(8, BROKER, "kafka.nothing", "INFO"), ("ALTER_CONFIGS CLUSTER",)),
    Case("AlterConfigs of a topic", K.ALTER_CONFIGS, 2, _legacy(2, "a", "retention.ms", "1000000000"), ("ALTER_CONFIGS TOPIC a",)),
    Case("AlterConfigs of the brokers", K.ALTER_CONFIGS, 2, _legacy(4, "", "log.cleaner.backoff.ms", "15000"), ("ALTER_CONFIGS CLUSTER",)),
    Case("ListConfigResources", K.LIST_CONFIG_RESOURCES, 1, {"resource_types": [16]}, ("DESCRIBE_CONFIGS CLUSTER",)),
    Case("ListConfigResources, old", K.LIST_CONFIG_RESOURCES, 0, {}, ("DESCRIBE_CONFIGS CLUSTER",)),
    Case("DescribeClientQuotas", K.DESCRIBE_CLIENT_QUOTAS, 1, {"components": []}, ("DESCRIBE_CONFIGS CLUSTER",)),
    Case("AlterClientQuotas", K.ALTER_CLIENT_QUOTAS, 1, _quota("q"), ("ALTER_CONFIGS CLUSTER",)),
    Case("DescribeUserScramCredentials", K.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": [{"name": "nobody"}]}, ("DESCRIBE CLUSTER",)),
    Case("AlterUserScramCredentials", K.ALTER_USER_SCRAM_CREDENTIALS, 0, _scram("sc"), ("ALTER CLUSTER",)),
    # security
    Case("DescribeAcls", K.DESCRIBE_ACLS, 3, _acl_filter(None), ("DESCRIBE CLUSTER",)),
    Case("CreateAcls", K.CREATE_ACLS, 3, _new_acl("z"), ("ALTER CLUSTER",)),
    Case("DeleteAcls", K.DELETE_ACLS, 3, {"filters": [_acl_filter("z"), _acl_filter("zz")]}, ("ALTER CLUSTER",)),
    Case("CreateAcls that cannot be", K.CREATE_ACLS, 3, {"creations": [
        _rule(resource_type=4, resource_name="my-cluster"), _rule(resource_name=""), _rule(resource_type=99), _rule(operation=99),
        _rule(permission_type=9), _rule(resource_pattern_type=9), _rule(principal="nobody"), _rule(principal=""), _rule(host=""),
        _rule(resource_type=4, resource_name="kafka-cluster", resource_pattern_type=4), _rule(operation=12), _rule(resource_name="z" * 300)]},
        ("ALTER CLUSTER",)),
    Case("CreateAcls of any type", K.CREATE_ACLS, 3, {"creations": [_rule(resource_type=1), _rule()]}, ("ALTER CLUSTER",)),
    Case("CreateAcls of any operation", K.CREATE_ACLS, 3, {"creations": [_rule(operation=1), _rule()]}, ("ALTER CLUSTER",)),
    Case("CreateAcls of any permission", K.CREATE_ACLS, 3, {"creations": [_rule(permission_type=1), _rule()]}, ("ALTER CLUSTER",)),
    Case("CreateAcls that match", K.CREATE_ACLS, 3, {"creations": [_rule(resource_pattern_type=2), _rule()]}, ("ALTER CLUSTER",)),
    Case("CreateAcls of any pattern", K.CREATE_ACLS, 3, {"creations": [_rule(resource_pattern_type=1), _rule()]}, ("ALTER CLUSTER",)),
    Case("CreateAcls of an unknown type", K.CREATE_ACLS, 3, {"creations": [_rule(resource_type=0)]}, ("ALTER CLUSTER",)),
    Case("DescribeAcls of an unknown type", K.DESCRIBE_ACLS, 3, _acl_filter("z") | {"resource_type_filter": 0}, ("DESCRIBE CLUSTER",)),
    Case("DescribeAcls of type 99", K.DESCRIBE_ACLS, 3, _acl_filter("z") | {"resource_type_filter": 99}, ("DESCRIBE CLUSTER",)),
    Case("DescribeAcls by pattern 99", K.DESCRIBE_ACLS, 3, _acl_filter(None) | {"pattern_type_filter": 99}, ("DESCRIBE CLUSTER",)),
    Case("DescribeAcls without a name that match", K.DESCRIBE_ACLS, 3, _acl_filter(None) | {"pattern_type_filter": 2}, ("DESCRIBE CLUSTER",)),
    Case("DeleteAcls of an unknown operation", K.DELETE_ACLS, 3, {"filters": [_acl_filter("z") | {"operation": 0}]}, ("ALTER CLUSTER",)),
    Case("DeleteAcls of operation 99", K.DELETE_ACLS, 3, {"filters": [_acl_filter("z") | {"operation": 99}, _acl_filter("z")]}, ("ALTER CLUSTER",)),
    Case("DescribeDelegationToken", K.DESCRIBE_DELEGATION_TOKEN, 3, {"owners": [{"principal_type": "User", "principal_name": "admin"}]},
         ("DESCRIBE_TOKENS USER User:admin",)),
    Case("DescribeDelegationToken of all", K.DESCRIBE_DELEGATION_TOKEN, 3, {"owners": None}, ("DESCRIBE DELEGATION_TOKEN *",)),
    Case("CreateDelegationToken for somebody else", K.CREATE_DELEGATION_TOKEN, 3,
         {"owner_principal_type": "User", "owner_principal_name": "other", "max_lifetime_ms": 3600000}, ("CREATE_TOKENS USER User:other",)),
    Case("ExpireDelegationToken", K.EXPIRE_DELEGATION_TOKEN, 2, {"hmac": b"no such token", "expiry_time_period_ms": 1000}, ()),
    Case("RenewDelegationToken", K.RENEW_DELEGATION_TOKEN, 2, {"hmac": b"no such token", "renew_period_ms": 1000}, ()),
    # the cluster
    Case("DescribeQuorum", K.DESCRIBE_QUORUM, 2, {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{}]}]}, ("DESCRIBE CLUSTER",)),
    Case("UpdateFeatures", K.UPDATE_FEATURES, 2,
         {"feature_updates": [{"feature": "no.such.version", "max_version_level": 1}], "validate_only": True}, ("ALTER CLUSTER",)),
    Case("AddRaftVoter", K.ADD_RAFT_VOTER, 0, {"cluster_id": None, "voter_id": 77, "timeout_ms": 1000}, ("ALTER CLUSTER",)),
    Case("RemoveRaftVoter", K.REMOVE_RAFT_VOTER, 0, {"cluster_id": None, "voter_id": 77}, ("ALTER CLUSTER",)),
    Case("UnregisterBroker", K.UNREGISTER_BROKER, 0, {"broker_id": 77}, ("ALTER CLUSTER",)),
    # the controller's own listener
    Case("controller: CreateTopics", K.CREATE_TOPICS, 7, _created("n-1", "n-2"), ("CREATE TOPIC n-1", "CREATE TOPIC n-2"), True),
    Case("controller: DescribeCluster", K.DESCRIBE_CLUSTER, 1, {"endpoint_type": 2}, ("ALTER CLUSTER",), True),
    Case("controller: DescribeQuorum", K.DESCRIBE_QUORUM, 2, {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{}]}]},
         ("DESCRIBE CLUSTER",), True),
    Case("controller: BrokerHeartbeat", K.BROKER_HEARTBEAT, 1, {"broker_id": 77}, ("CLUSTER_ACTION CLUSTER",), True),
    Case("controller: AlterPartition", K.ALTER_PARTITION, 3, _isr_of_nobody, ("CLUSTER_ACTION CLUSTER",), True),
    Case("controller: AllocateProducerIds", K.ALLOCATE_PRODUCER_IDS, 0, {"broker_id": 77}, ("CLUSTER_ACTION CLUSTER",), True),
    Case("controller: IncrementalAlterConfigs", K.INCREMENTAL_ALTER_CONFIGS, 1, _incremental(2, "a", "retention.ms", "1000000000"),
         ("ALTER_CONFIGS TOPIC a",), True),
    Case("controller: Envelope", K.ENVELOPE, 0, _envelope(), ("CLUSTER_ACTION CLUSTER",), True),
]  # fmt: skip
