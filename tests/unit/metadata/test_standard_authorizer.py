"""StandardAuthorizer: order of rules, what implies what, hosts, the log, the first load,
configuration. The random half is in tests/property.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

import pytest
from support.logs.storage_doubles import ManualClock

from kmirror.common.acl import AclOperation, PatternType, ResourceType
from kmirror.common.errors import ApiException, ConfigError, Errors
from kmirror.common.kafka_principal import KafkaPrincipal
from kmirror.common.metrics import MetricsRegistry
from kmirror.common.uuid import Uuid
from kmirror.metadata.authorizer.acl_filter import AclBindingFilter
from kmirror.metadata.authorizer.auth_helper import AuthHelper
from kmirror.metadata.authorizer.authorizer import Action
from kmirror.metadata.authorizer.standard_authorizer import TRACE, StandardAuthorizer
from kmirror.metadata.image import StandardAcl
from kmirror.server.authorizer import create_authorizer
from kmirror.server.kafka_config import KafkaConfig
from kmirror.wire.api_keys import ApiKeys

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
LITERAL, PREFIXED, DENY, ALLOW = 3, 4, 2, 3
AUDIT = "kafka.authorizer.logger"


class Context(NamedTuple):
    principal: KafkaPrincipal = KafkaPrincipal("User", "alice")
    client_address: str = "10.0.0.1"
    api_key: ApiKeys = ApiKeys.CREATE_TOPICS


ALICE = Context()


def acl(
    name: str,
    operation: AclOperation,
    *,
    permission: int = ALLOW,
    pattern: int = LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    resource_type: ResourceType = TOPIC,
) -> StandardAcl:
    return StandardAcl(resource_type, name, pattern, principal, host, operation, permission)


def authorizer(*acls: StandardAcl, **options: object) -> StandardAuthorizer:
    made = StandardAuthorizer(**options)  # type: ignore[arg-type]
    made.load_snapshot({Uuid(number.to_bytes(8, "big") * 2): entry for number, entry in enumerate(acls, 1)})
    made.complete_initial_load()
    return made


def may(made: StandardAuthorizer, operation: AclOperation, name: str = "foo", context: Context = ALICE) -> bool:
    return made.authorize(context, Action(operation, TOPIC, name))


def test_a_deny_rule_beats_every_allow_rule() -> None:
    made = authorizer(
        acl("foo", AclOperation.READ), acl("*", AclOperation.ALL), acl("f", AclOperation.READ, permission=DENY, pattern=PREFIXED)
    )
    assert not may(made, AclOperation.READ)
    assert may(made, AclOperation.WRITE)
    assert may(made, AclOperation.READ, "bar")


@pytest.mark.parametrize("operation", [AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER])
def test_these_operations_allow_describing_but_denying_them_does_not_deny_it(operation: AclOperation) -> None:
    assert may(authorizer(acl("foo", operation)), AclOperation.DESCRIBE)
    assert not may(authorizer(acl("foo", operation)), AclOperation.DESCRIBE_CONFIGS)
    denied = authorizer(acl("foo", operation, permission=DENY), acl("foo", AclOperation.DESCRIBE))
    assert may(denied, AclOperation.DESCRIBE) and not may(denied, operation)


def test_altering_configs_allows_describing_them() -> None:
    made = authorizer(acl("foo", AclOperation.ALTER_CONFIGS))
    assert may(made, AclOperation.DESCRIBE_CONFIGS) and not may(made, AclOperation.DESCRIBE)


def test_hosts_and_principals() -> None:
    made = authorizer(acl("foo", AclOperation.READ, host="10.0.0.1"), acl("bar", AclOperation.READ, principal="User:*"))
    assert may(made, AclOperation.READ)
    assert not may(made, AclOperation.READ, context=Context(client_address="10.0.0.2"))
    bob = Context(KafkaPrincipal("User", "bob"))
    assert not may(made, AclOperation.READ, context=bob)
    assert may(made, AclOperation.READ, "bar", bob)
    assert may(made, AclOperation.READ, "bar", Context(KafkaPrincipal("Group", "alice"))), "User:* is everybody, of whatever type"


def test_without_rules_for_a_resource_the_default_holds_with_any_rule_it_does_not() -> None:
    made = authorizer(acl("foo", AclOperation.READ, principal="User:bob"), allow_everyone_if_no_acl_found=True)
    assert may(made, AclOperation.READ, "bar")
    assert not may(made, AclOperation.READ, "foo")
    assert not may(authorizer(), AclOperation.READ)


def test_before_the_first_load_only_super_users_are_answered() -> None:
    made = StandardAuthorizer(super_users=["User:root"])
    assert may(made, AclOperation.READ, context=Context(KafkaPrincipal("User", "root")))
    with pytest.raises(ApiException, match="not ready"):
        may(made, AclOperation.READ)
    made.complete_initial_load()
    assert not may(made, AclOperation.READ)


def test_super_users_are_whole_principals_whatever_their_token() -> None:
    made = authorizer(acl("*", AclOperation.ALL, permission=DENY, principal="User:*"), super_users=["User:root"])
    assert may(made, AclOperation.READ, context=Context(KafkaPrincipal("User", "root", token_authenticated=True)))
    assert not may(made, AclOperation.READ, context=Context(KafkaPrincipal("Group", "root")))


def test_ten_thousand_rules_of_others_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    others = [acl(f"t{number}", AclOperation.ALL, principal=f"User:u{number}") for number in range(5_000)]
    others += [acl("foo", AclOperation.ALL, principal=f"User:u{number}") for number in range(5_000)]
    made = authorizer(*others, acl("fo", AclOperation.READ, pattern=PREFIXED))
    looked_at: list[StandardAcl] = []
    import kmirror.metadata.authorizer.standard_authorizer as module

    covers = module._covers

    def count(rule: StandardAcl, address: str, operation: AclOperation) -> bool:
        looked_at.append(rule)
        return covers(rule, address, operation)

    monkeypatch.setattr(module, "_covers", count)
    assert may(made, AclOperation.READ)
    assert len(looked_at) == 1


def test_the_log_says_it_as_kafka_does(caplog: pytest.LogCaptureFixture) -> None:
    made = authorizer(acl("foo", AclOperation.READ, pattern=PREFIXED), super_users=["User:root"])
    with caplog.at_level(TRACE, AUDIT):
        may(made, AclOperation.WRITE, "foobar")
        may(made, AclOperation.READ, "foobar")
        may(made, AclOperation.READ, "bar")
        made.authorize(ALICE, Action(AclOperation.CREATE, CLUSTER, "kafka-cluster", log_if_denied=False))
        AuthHelper(made).authorized_operations(Context(KafkaPrincipal("User", "root")), GROUP, "g")
    lines = [(record.levelno, record.getMessage()) for record in caplog.records if record.name == AUDIT]
    start = "Principal = User:alice is {} operation = {} from host = 10.0.0.1 on resource = {} for request = CreateTopics with resourceRefCount = 1"
    rule = "StandardAcl(resourceType=TOPIC, resourceName=foo, patternType=PREFIXED, principal=User:alice, host=*, operation=READ, permissionType=ALLOW)"
    assert lines[:4] == [
        (logging.INFO, start.format("Denied", "WRITE", "Topic:LITERAL:foobar") + " based on rule DefaultDeny"),
        (logging.DEBUG, start.format("Allowed", "READ", "Topic:LITERAL:foobar") + f" based on rule MatchingAcl(acl={rule})"),
        (logging.INFO, start.format("Denied", "READ", "Topic:LITERAL:bar") + " based on rule DefaultDeny"),
        (TRACE, start.format("Denied", "CREATE", "Cluster:LITERAL:kafka-cluster") + " based on rule DefaultDeny"),
    ]
    assert {level for level, _ in lines[4:]} == {TRACE}
    assert lines[4][1].endswith("based on rule SuperUser")


def test_bit_fields_hold_the_operations_that_are_allowed() -> None:
    helper = AuthHelper(authorizer(acl("foo", AclOperation.WRITE), acl("foo", AclOperation.ALTER_CONFIGS)))
    expected = 1 << AclOperation.WRITE | 1 << AclOperation.DESCRIBE | 1 << AclOperation.ALTER_CONFIGS | 1 << AclOperation.DESCRIBE_CONFIGS
    assert helper.authorized_operations(ALICE, TOPIC, "foo") == expected
    assert AuthHelper(None).authorized_operations(ALICE, GROUP, "g") == 0b1101_0100_1000


def test_cluster_operations_are_refused_with_the_request_and_who_asked() -> None:
    with pytest.raises(ApiException) as refused:
        AuthHelper(authorizer()).authorize_cluster_operation(ALICE, AclOperation.ALTER)
    assert refused.value.error is Errors.CLUSTER_AUTHORIZATION_FAILED
    assert refused.value.message == "Request CreateTopics of User:alice from 10.0.0.1 needs ALTER permission."


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (AclBindingFilter(), {"foo", "f", "*", "g"}),
        (AclBindingFilter(resource_type=GROUP), {"g"}),
        (AclBindingFilter(resource_name="foo"), {"foo"}),
        (AclBindingFilter(resource_name="foo", pattern_type=PatternType.MATCH), {"foo", "f", "*"}),
        (AclBindingFilter(resource_name="f", pattern_type=PatternType.LITERAL), set()),
        (AclBindingFilter(resource_name="f", pattern_type=PatternType.PREFIXED), {"f"}),
        (AclBindingFilter(principal="User:bob"), {"*"}),
        (AclBindingFilter(host="10.0.0.9"), {"g"}),
        (AclBindingFilter(operation=AclOperation.READ), {"foo"}),
        (AclBindingFilter(operation=AclOperation.ALL), {"*"}),
    ],
)
def test_filters(wanted: AclBindingFilter, names: set[str]) -> None:
    acls = [
        acl("foo", AclOperation.READ),
        acl("f", AclOperation.WRITE, pattern=PREFIXED),
        acl("*", AclOperation.ALL, principal="User:bob"),
        acl("g", AclOperation.DELETE, resource_type=GROUP, host="10.0.0.9"),
    ]
    assert {entry.resource_name for entry in acls if wanted.matches(entry)} == names


def config(**props: str) -> KafkaConfig:
    base = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": "1@localhost:9093",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "advertised.listeners": "PLAINTEXT://localhost:9092",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": "d",
    }
    return KafkaConfig.from_props(base | {name.replace("_", "."): value for name, value in props.items()})


STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def test_configuration() -> None:
    assert create_authorizer(config(), MetricsRegistry(ManualClock()), "broker") is None
    made_of = config(authorizer_class_name=STANDARD, super_users="User:a; User:CN=b,O=c ;", allow_everyone_if_no_acl_found="TRUE")
    made = create_authorizer(made_of, MetricsRegistry(ManualClock()), "broker")
    assert made is not None and made_of.unknown == []
    made.complete_initial_load()
    assert may(made, AclOperation.READ), "allow.everyone.if.no.acl.found"
    made.load_snapshot({Uuid.ZERO: acl("foo", AclOperation.READ, principal="User:x")})
    assert not may(made, AclOperation.READ)
    assert may(made, AclOperation.READ, context=Context(KafkaPrincipal("User", "CN=b,O=c")))


@pytest.mark.parametrize(
    ("props", "text"),
    [
        ({"authorizer_class_name": "com.example.Mine"}, "com.example.Mine"),
        ({"authorizer_class_name": STANDARD, "super_users": "root"}, "principalType:principalName but got root"),
    ],
)
def test_wrong_configuration_is_a_config_error(props: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        create_authorizer(config(**props), MetricsRegistry(ManualClock()), "broker")


def test_early_start_listeners_have_to_exist() -> None:
    config(early_start_listeners="CONTROLLER")
    with pytest.raises(ConfigError, match="early.start.listeners contains listener NOPE"):
        config(early_start_listeners="NOPE")


def test_verdicts_are_counted_under_the_names_of_kafkas_plugins() -> None:
    clock = ManualClock()
    registry = MetricsRegistry(clock)
    made = StandardAuthorizer(super_users=["User:root"]).with_metrics(registry, "broker")
    made.complete_initial_load()
    made.add_acl(Uuid(b"\x01" * 16), StandardAcl(2, "t", 3, "User:a", "*", 3, 3))
    for name in ("root", "root", "a", "b"):
        made.authorize(Context(KafkaPrincipal("User", name)), Action(AclOperation.READ, ResourceType.TOPIC, "t"))
    clock.now_ms += 30_000
    bean = "kafka.server:type=plugins,config=authorizer.class.name,class=StandardAuthorizer,role=broker"
    assert registry.mbeans()[bean] == {
        "acls-total-count": 1,
        "authorization-request-rate-per-minute": 4 * 60_000 / 30_000,
        "authorization-allowed-rate-per-minute": 3 * 60_000 / 30_000,
        "authorization-denied-rate-per-minute": 1 * 60_000 / 30_000,
    }
