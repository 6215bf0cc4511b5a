"""What mirroring needs at a source under the mirror's principal (ACL1 to ACL10), and in its own
cluster for the sync (E4, ACL28 to ACL34, ACL36).

The first half asks request by request, with exactly the permission in the KIP's table and without
it. The destination's own requests are those of brokers: CLUSTER_ACTION is enough (B19), but only
from the broker itself, never when a request is forwarded for a client. The second half is a mirror
with just those permissions at a source with an authorizer; each permission is taken away and given
back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka import TopicPartition as GroupPartition
from confluent_kafka.admin import AdminClient as ConfluentAdmin
from support.brokers.acl_matrix import acl_of, message_of
from support.brokers.kmirror_side import AUTHORIZED, KmirrorSide
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    call,
    create_mirror,
    create_topic,
    log_bytes,
    partitions_of,
    produce,
    remove,
    wait_for,
    wait_state,
)
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.admin.acls import AclBinding, AclBindingFilter
from kmirror.admin.admin_client import AdminClient, parse_bootstrap_servers
from kmirror.admin.results import ConfigOperation, ConfigResourceType
from kmirror.common.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from kmirror.common.errors import Errors
from kmirror.embedded_security import Security
from kmirror.network.client_security import ClientSecurity
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.create_acls import CreateAclsRequest

K = ApiKeys
T = TypeVar("T")
TOPIC, GROUP = Errors.TOPIC_AUTHORIZATION_FAILED, Errors.GROUP_AUTHORIZATION_FAILED
CLUSTER, MIRROR = Errors.CLUSTER_AUTHORIZATION_FAILED, Errors.MIRROR_AUTHORIZATION_FAILED
AUTHORIZATION_ERRORS = {TOPIC, GROUP, CLUSTER, MIRROR}


class Row(NamedTuple):
    """A request and the permissions that it needs; `error` is what it gets without `needs`, with
    `beside`.
    """

    number: str
    api_key: ApiKeys
    version: int
    fields: dict[str, Any]
    needs: str
    error: Errors
    beside: tuple[str, ...] = ()
    controller: bool = True
    """Whether the controller answers it."""


def fields_of(**fields: Any) -> list[dict[str, Any]]:
    return [fields]


FETCHED = fields_of(topic="t", partitions=[{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}])
LISTED = fields_of(name="t", partitions=[{"partition_index": 0, "timestamp": -1}])
EPOCHS = fields_of(topic="t", partitions=[{"partition": 0, "leader_epoch": 0}])
RULE = {"resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "principal": "User:x", "host": "*", "operation": 3,
        "permission_type": 3}  # fmt: skip
FILTER = {"resource_type_filter": 2, "resource_name_filter": "t", "pattern_type_filter": 3, "principal_filter": "User:x", "host_filter": "*",
          "operation": 3, "permission_type": 3}  # fmt: skip
ANY_RULE = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None, "host_filter": None,
            "operation": 1, "permission_type": 1}  # fmt: skip
COMMITTED = {
    "group_id": "g", "generation_id_or_member_epoch": -1,
    "topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 1}]}],
}  # fmt: skip
ALTERED = {
    "resources": [
        {
            "resource_type": 64,
            "resource_name": "m",
            "configs": [{"name": "mirror.groups.include", "config_operation": 0, "value": "x"}],
        }
    ]
}
SOURCE_ROWS = [
    Row("ACL1", K.FETCH, 12, {"replica_id": -1, "max_wait_ms": 0, "max_bytes": 1000, "topics": FETCHED}, "READ TOPIC t", TOPIC),
    Row("ACL2", K.METADATA, 12, {"topics": [{"name": "t"}], "allow_auto_topic_creation": False}, "DESCRIBE TOPIC t", TOPIC),
    Row("ACL3", K.DESCRIBE_CONFIGS, 4, {"resources": [{"resource_type": 2, "resource_name": "t", "configuration_keys": None}]},
        "DESCRIBE_CONFIGS TOPIC t", TOPIC),
    Row("ACL5", K.OFFSET_FETCH, 8, {"groups": [{"group_id": "g", "topics": None}]}, "DESCRIBE GROUP g", GROUP),
    Row("ACL6", K.DESCRIBE_ACLS, 3, ANY_RULE, "DESCRIBE CLUSTER", CLUSTER),
    Row("ACL9", K.LIST_OFFSETS, 6, {"topics": LISTED}, "DESCRIBE TOPIC t", TOPIC),
    Row("ACL10", K.OFFSET_FOR_LEADER_EPOCH, 4, {"topics": EPOCHS}, "DESCRIBE TOPIC t", TOPIC),
]  # fmt: skip
SYNC_ROWS = [
    Row("ACL28", K.CREATE_TOPICS, 7, {"topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1}], "validate_only": True},
        "CREATE TOPIC new", TOPIC),
    Row("ACL29", K.CREATE_PARTITIONS, 3, {"topics": [{"name": "t", "count": 9, "assignments": None}], "validate_only": True},
        "ALTER TOPIC t", TOPIC),
    Row("ACL30", K.INCREMENTAL_ALTER_CONFIGS, 1, ALTERED, "ALTER_CONFIGS CLUSTER_MIRROR m", MIRROR),
    Row("ACL31", K.OFFSET_COMMIT, 8, COMMITTED, "READ TOPIC t", TOPIC, ("READ GROUP g",), controller=False),
    Row("ACL32", K.OFFSET_COMMIT, 8, COMMITTED, "READ GROUP g", GROUP, ("READ TOPIC t",), controller=False),
    Row("ACL33", K.CREATE_ACLS, 3, {"creations": [RULE]}, "ALTER CLUSTER", CLUSTER),
    Row("ACL34", K.DELETE_ACLS, 3, {"filters": [FILTER]}, "ALTER CLUSTER", CLUSTER),
]  # fmt: skip
ROWS = SOURCE_ROWS + SYNC_ROWS


@pytest.fixture(scope="module")
def side() -> Iterator[KmirrorSide]:
    """A cluster with topic t, a mirror m, a commit of group g, and users that are named after the
    rows.
    """
    with EmbeddedCluster(mirroring=True, config=AUTHORIZED) as cluster:
        made = KmirrorSide(cluster)
        create_topic(cluster.bootstrap_servers, "t")
        create_topic(cluster.bootstrap_servers, "mirrored")
        create_mirror(cluster.bootstrap_servers, "m", "127.0.0.1:1")
        add(cluster.bootstrap_servers, "m", "mirrored")
        rules = [acl_of("broker", "CLUSTER_ACTION CLUSTER"), acl_of("reader", "READ TOPIC mirrored"), acl_of("sees", "DESCRIBE GROUP g")]
        for row in ROWS:
            rules += [acl_of(f"has-{row.number}", rule) for rule in (row.needs, *row.beside)]
            rules += [acl_of(f"lacks-{row.number}", rule) for rule in row.beside]
        answer = made.ask(None, K.CREATE_ACLS, 3, CreateAclsRequest(creations=rules))
        assert {row.error_code for row in answer.results} == {0}
        made.ask(None, K.FIND_COORDINATOR, 3, message_of(K.FIND_COORDINATOR, {"key": "g"}))
        wait_for("group g", lambda: not errors_of(made.ask(None, K.OFFSET_COMMIT, 8, message_of(K.OFFSET_COMMIT, COMMITTED))))
        yield made


def errors_of(value: Any) -> set[Errors]:
    """All error codes anywhere in an answer."""
    found = {Errors.for_code(value.error_code)} if getattr(value, "error_code", 0) else set()
    for name in getattr(value, "__struct_fields__", ()):
        for entry in getattr(value, name) if isinstance(getattr(value, name), list) else ():
            found |= errors_of(entry)
    return found


def ask(side: KmirrorSide, user: str, row: Row, *, controller: bool = False) -> set[Errors]:
    return errors_of(side.ask(user, row.api_key, row.version, message_of(row.api_key, row.fields), controller=controller))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.number)
def test_the_permission_of_the_table_is_needed_and_is_enough(side: KmirrorSide, row: Row) -> None:
    wait_for("the rules", lambda: not ask(side, f"has-{row.number}", row) & AUTHORIZATION_ERRORS)
    assert ask(side, f"lacks-{row.number}", row) == {row.error}


def test_acl4_groups_that_may_not_be_described_are_not_listed(side: KmirrorSide) -> None:
    def listed(user: str) -> list[str]:
        return [row.group_id for row in side.ask(user, K.LIST_GROUPS, 4, message_of(K.LIST_GROUPS, {})).groups]

    assert (listed("sees"), listed("nobody"), listed("has-ACL6")) == (["g"], [], ["g"])


def test_acl8_versions_are_told_to_anybody(side: KmirrorSide) -> None:
    answer = side.ask(
        "nobody", K.API_VERSIONS, 3, message_of(K.API_VERSIONS, {"client_software_name": "x", "client_software_version": "1"})
    )
    assert answer.error_code == 0 and answer.api_keys


@pytest.mark.parametrize("row", SYNC_ROWS, ids=lambda row: row.number)
def test_b19_a_brokers_own_request_needs_cluster_action_alone(side: KmirrorSide, row: Row) -> None:
    assert not ask(side, "broker", row, controller=row.controller) & AUTHORIZATION_ERRORS
    if row.controller:
        assert ask(side, "broker", row) == {row.error}, "a request that is forwarded is its client's"


def test_a_request_without_time_leaves_out_no_topic(side: KmirrorSide) -> None:
    """What is refused was taken out of the request, and the answer had no row for it."""
    topics = [{"name": name, "count": 9, "assignments": None} for name in ("t", "mirrored")]
    request = message_of(K.CREATE_PARTITIONS, {"topics": topics, "timeout_ms": 0, "validate_only": True})
    answer = side.ask("has-ACL29", K.CREATE_PARTITIONS, 3, request)
    assert sorted((row.name, Errors.for_code(row.error_code)) for row in answer.results) == [
        ("mirrored", Errors.REQUEST_TIMED_OUT),
        ("t", Errors.REQUEST_TIMED_OUT),
    ]


def test_acl36_consumers_of_mirror_topics_need_what_they_need_of_any_topic(side: KmirrorSide) -> None:
    def asked(user: str, api_key: ApiKeys, version: int, fields: dict[str, Any]) -> set[Errors]:
        return errors_of(side.ask(user, api_key, version, message_of(api_key, fields)))

    fetched = [{"topic": "mirrored", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]}]
    listed = [{"name": "mirrored", "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    for user, expected in (("reader", set()), ("nobody", {TOPIC})):
        assert asked(user, K.FETCH, 12, {"replica_id": -1, "max_wait_ms": 0, "max_bytes": 1000, "topics": fetched}) == expected
        assert asked(user, K.LIST_OFFSETS, 6, {"topics": listed}) == expected


# --- a mirror with these permissions


class Secured(NamedTuple):
    """A source that lets in who logs in, and its mirror m at the destination; the source's admin
    may do everything.
    """

    source: EmbeddedCluster
    destination: EmbeddedCluster

    def ask(self, operation: Callable[[AdminClient], Awaitable[T]]) -> T:
        """At the source, as its admin."""
        security = ClientSecurity.from_props(self.source.client_properties("admin", style="java"))

        async def main(runtime: Runtime) -> T:
            servers = parse_bootstrap_servers(self.source.bootstrap_servers)
            async with AdminClient(runtime, servers, security=security, timeout_ms=10_000) as admin:
                return await operation(admin)

        return run(main)

    def grant(self, rule: AclBinding) -> None:
        self.ask(lambda admin: admin.create_acls([rule]))

    def take(self, rule: AclBinding) -> None:
        exact = AclBindingFilter(
            rule.resource_type, rule.name, rule.pattern_type, rule.principal, rule.host, rule.operation, rule.permission_type
        )
        self.ask(lambda admin: admin.delete_acls([exact]))

    def errors(self) -> dict[str, int]:
        def read(server: Any) -> dict[str, int]:
            errors = server.broker.mirror.metadata_manager.errors
            return {name: getattr(errors, name) for name in ("metadata_refresh", "topic_config", "group_offset", "acl")}

        return self.destination.call(read)

    def wait_for_errors(self, *gauges: str) -> None:
        """Until these gauges, and no others, have grown by two."""
        before = self.errors()
        wait_for(f"{gauges} to grow", lambda: all(self.errors()[name] >= before[name] + 2 for name in gauges))
        grown = {name for name, count in self.errors().items() if count > before[name]}
        assert grown == set(gauges)

    def wait_for_a_clean_cycle(self) -> None:
        wait_for("cycles without an error", self._is_clean)

    def _is_clean(self) -> bool:
        before = self.errors()
        for value in ("1111", "2222"):
            self.config(value)
            wait_for("a cycle", lambda value=value: self.synced_config() == value)
        return self.errors() == before

    def config(self, value: str) -> None:
        """Set retention.ms at the source."""
        change = [("retention.ms", ConfigOperation.SET, value)]
        self.ask(lambda admin: admin.incremental_alter_configs(ConfigResourceType.TOPIC, "t", change))

    def synced_config(self) -> str | None:
        entries = call(self.destination.bootstrap_servers, lambda admin: admin.describe_configs(ConfigResourceType.TOPIC, "t"))
        return next(entry.value for entry in entries if entry.name == "retention.ms")

    def commit(self, offset: int) -> None:
        """Commit for group g at the source."""
        client = ConfluentAdmin(self.source.client_properties("admin"))
        wanted = ConsumerGroupTopicPartitions("g", [GroupPartition("t", 0, offset)])
        client.alter_consumer_group_offsets([wanted])["g"].result(REACHED_S)

    def synced_offset(self) -> int:
        client = ConfluentAdmin({"bootstrap.servers": self.destination.bootstrap_servers})
        found = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions("g")])["g"].result(REACHED_S).topic_partitions
        return next((each.offset for each in found), -1)


def binding(resource_type: ResourceType, name: str, operation: AclOperation, user: str = "mirror") -> AclBinding:
    return AclBinding(resource_type, name, PatternType.LITERAL, f"User:{user}", "*", operation, AclPermissionType.ALLOW)


READ_T = binding(ResourceType.TOPIC, "t", AclOperation.READ)
DESCRIBE_T = binding(ResourceType.TOPIC, "t", AclOperation.DESCRIBE)
CONFIGS_OF_T = binding(ResourceType.TOPIC, "t", AclOperation.DESCRIBE_CONFIGS)
DESCRIBE_G = binding(ResourceType.GROUP, "g", AclOperation.DESCRIBE)
DESCRIBE_CLUSTER = binding(ResourceType.CLUSTER, "kafka-cluster", AclOperation.DESCRIBE)
RIGHTS = (READ_T, DESCRIBE_T, CONFIGS_OF_T, DESCRIBE_G, DESCRIBE_CLUSTER, binding(ResourceType.CLUSTER_MIRROR, "m", AclOperation.DESCRIBE))


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    security = Security.sasl_plaintext({"admin": "admin-secret", "mirror": "mirror-secret"})
    with (
        EmbeddedCluster(
            mirroring=True, security=security, config=FAST_MIRROR | AUTHORIZED | {"super.users": "User:broker;User:admin"}
        ) as source,
        EmbeddedCluster(mirroring=True, config=FAST_MIRROR | AUTHORIZED) as destination,
    ):
        made = Secured(source, destination)
        producer = Producer(source.client_properties("admin"))
        for number in range(20):
            producer.produce("t", f"{number}".encode())
        assert producer.flush(REACHED_S) == 0
        for right in RIGHTS:
            made.grant(right)
        configs = source.client_properties("mirror", style="java")
        call(destination.bootstrap_servers, lambda admin: admin.create_mirror("m", configs))
        add(destination.bootstrap_servers, "m", "t")
        wait_for("equal logs", lambda: log_bytes(source.log_dir(), "t-0") == log_bytes(destination.log_dir(), "t-0") != b"")
        yield made


def test_acl1_to_acl10_a_mirror_needs_nothing_beyond_the_table(secured: Secured) -> None:
    """acl_1, 2, 3, 4, 5, 6, 8, 9, 10 together: topics, configs, offsets and rules are synced,
    without an error.
    """
    secured.config("777000")
    secured.commit(7)
    secured.grant(binding(ResourceType.TOPIC, "app", AclOperation.WRITE, user="alice"))
    wait_for("the config", lambda: secured.synced_config() == "777000")
    wait_for("the offset", lambda: secured.synced_offset() == 7)
    wanted = binding(ResourceType.TOPIC, "app", AclOperation.WRITE, user="alice")
    wait_for("the rule", lambda: wanted in call(secured.destination.bootstrap_servers, lambda admin: admin.describe_acls()))
    secured.wait_for_a_clean_cycle()


def test_acl3_without_describe_configs_topic_configs_stay_and_are_counted(secured: Secured) -> None:
    secured.take(CONFIGS_OF_T)
    secured.wait_for_errors("topic_config")
    secured.config("888000")
    secured.wait_for_errors("topic_config")
    assert secured.synced_config() != "888000"
    secured.grant(CONFIGS_OF_T)
    wait_for("the config", lambda: secured.synced_config() == "888000")


def test_acl4_acl5_without_describe_on_the_group_its_offsets_stay(secured: Secured) -> None:
    """Who may describe the cluster is told of every group, and refused their offsets; who may not
    is told of those that may be described.
    """
    secured.commit(8)
    wait_for("the offset", lambda: secured.synced_offset() == 8)
    secured.take(DESCRIBE_G)
    secured.wait_for_errors("group_offset")
    secured.commit(9)
    secured.wait_for_errors("group_offset")
    secured.take(DESCRIBE_CLUSTER)
    secured.wait_for_errors("acl")
    assert secured.synced_offset() == 8
    secured.grant(DESCRIBE_CLUSTER)
    secured.grant(DESCRIBE_G)
    wait_for("the offset", lambda: secured.synced_offset() == 9)


def test_acl6_without_describe_on_the_cluster_rules_stay_and_are_counted(secured: Secured) -> None:
    late = binding(ResourceType.TOPIC, "late", AclOperation.WRITE, user="alice")
    secured.take(DESCRIBE_CLUSTER)
    secured.wait_for_errors("acl")
    secured.grant(late)
    secured.wait_for_errors("acl")
    assert late not in call(secured.destination.bootstrap_servers, lambda admin: admin.describe_acls())
    secured.grant(DESCRIBE_CLUSTER)
    wait_for("the rule", lambda: late in call(secured.destination.bootstrap_servers, lambda admin: admin.describe_acls()))


def test_acl1_acl2_without_read_or_describe_the_topic_waits_and_is_not_taken_for_deleted(secured: Secured) -> None:
    """It says why, and fails for nobody: what it has stays as it is until the rules are back."""

    def is_refused() -> bool:
        return all(row.reason is not None for row in partitions_of(secured.destination.bootstrap_servers, "m"))

    secured.take(READ_T)
    wait_for("the reason", is_refused)
    secured.wait_for_a_clean_cycle()
    secured.take(DESCRIBE_T)
    secured.take(CONFIGS_OF_T)
    wait_for("MetadataRefreshError", lambda: secured.errors()["metadata_refresh"] > 0)
    assert is_refused()
    wait_state(secured.destination.bootstrap_servers, "m", "MIRRORING")
    for right in (READ_T, DESCRIBE_T, CONFIGS_OF_T):
        secured.grant(right)
    wait_for("nothing to be said any more", lambda: not is_refused())
    remove(secured.destination.bootstrap_servers, "m", "t")
    wait_state(secured.destination.bootstrap_servers, "m", "STOPPED")
    assert produce(secured.destination.bootstrap_servers, "t", ["ours"]) == []
