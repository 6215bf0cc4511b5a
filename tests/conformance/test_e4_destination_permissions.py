"""What each request of mirroring needs on the destination, and what a grant has to look like (E4,
ACL7, ACL11 to ACL27, ACL35).

Requests are handed to the broker (or the controller) under a principal's name. Each row is asked by
users who have the permission by a literal, a prefixed and a `*` rule. It is also asked by users who
have nothing, everything except the permission, the permission for another name, or the permission
together with a denial.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from support.brokers.acl_matrix import acl_of, message_of
from support.brokers.kmirror_side import AUTHORIZED, KmirrorSide

from kmirror import EmbeddedCluster
from kmirror.common.acl import AclOperation
from kmirror.common.errors import Errors
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.create_acls import AclCreation, CreateAclsRequest

K = ApiKeys
MIRROR, CLUSTER, TOPIC = Errors.MIRROR_AUTHORIZATION_FAILED, Errors.CLUSTER_AUTHORIZATION_FAILED, Errors.TOPIC_AUTHORIZATION_FAILED
ON_MIRRORS = ("CREATE", "ALTER", "DESCRIBE", "DELETE", "ALTER_CONFIGS", "DESCRIBE_CONFIGS")
IMPLIED = {"DESCRIBE": {"ALTER", "DELETE", "READ"}, "DESCRIBE_CONFIGS": {"ALTER_CONFIGS"}}
"""What holding one of the others gives as well, as for every resource of Kafka."""


class Row(NamedTuple):
    """A request, the operation that it needs, on what, and the error without it."""

    number: str
    api_key: ApiKeys
    version: int
    fields: dict[str, Any]
    operation: str
    resource: str
    error: Errors
    beside: tuple[str, ...] = ()
    """What else the user has."""
    forwarded: bool = False


def topics_of(mirror: str) -> dict[str, Any]:
    return {"mirror_name": mirror, "topics": [{"topic_name": "t"}]}


ALTERED = {
    "resources": [{"resource_type": 64, "resource_name": "m", "configs": [{"name": "nonsense", "config_operation": 0, "value": "x"}]}]
}
DESCRIBED = {"resources": [{"resource_type": 64, "resource_name": "m", "configuration_keys": None}]}
KEY = {"key_type": 3, "coordinator_keys": ["m:AAAAAAAAAAAAAAAAAAAAAQ:0"]}
ON_M = "CLUSTER_MIRROR m"
TOPIC_REQUESTS = (
    (12, K.ADD_TOPICS_TO_MIRROR),
    (14, K.REMOVE_TOPICS_FROM_MIRROR),
    (16, K.PAUSE_MIRROR_TOPICS),
    (18, K.RESUME_MIRROR_TOPICS),
)
ROWS = [
    Row("ACL11", K.CREATE_MIRROR, 0, {"mirror_name": "m"}, "CREATE", ON_M, MIRROR, forwarded=True),
    *(Row(f"ACL{n}", key, 0, topics_of("m"), "ALTER", ON_M, MIRROR, ("READ TOPIC t",), forwarded=True) for n, key in TOPIC_REQUESTS),
    *(
        Row(f"ACL{n + 1}-ERR29", key, 0, topics_of("m"), "READ", "TOPIC t", TOPIC, (f"ALTER {ON_M}",), forwarded=True)
        for n, key in TOPIC_REQUESTS
    ),
    Row("ACL20", K.DELETE_MIRROR, 0, {"mirror_name": "gone"}, "ALTER", "CLUSTER_MIRROR gone", MIRROR, forwarded=True),
    Row("ACL22-ACL7-B18", K.DESCRIBE_MIRRORS, 0, {"mirror_names": ["m"]}, "DESCRIBE", ON_M, MIRROR),
    Row("ACL23", K.DESCRIBE_CONFIGS, 4, DESCRIBED, "DESCRIBE_CONFIGS", ON_M, MIRROR),
    Row("ACL23-v5", K.DESCRIBE_CONFIGS, 5, DESCRIBED, "DESCRIBE_CONFIGS", ON_M, MIRROR),
    Row("B19", K.INCREMENTAL_ALTER_CONFIGS, 1, ALTERED, "ALTER_CONFIGS", ON_M, MIRROR, forwarded=True),
    Row("B19-v2", K.INCREMENTAL_ALTER_CONFIGS, 2, ALTERED, "ALTER_CONFIGS", ON_M, MIRROR, forwarded=True),
    Row("ACL24-ERR31", K.WRITE_MIRROR_STATES, 0, {"mirror_name": "m"}, "CLUSTER_ACTION", "CLUSTER", CLUSTER),
    Row("ACL25-ERR31", K.READ_MIRROR_STATES, 0, {"mirror_name": "m"}, "CLUSTER_ACTION", "CLUSTER", CLUSTER),
    Row("ACL26-ERR31", K.BUMP_LEADER_EPOCHS, 0, {}, "CLUSTER_ACTION", "CLUSTER", CLUSTER, forwarded=True),
    Row("ACL27", K.FIND_COORDINATOR, 7, KEY, "CLUSTER_ACTION", "CLUSTER", CLUSTER),
]


def grants(row: Row) -> dict[str, tuple[list[str], list[str], bool]]:
    """By user: what is allowed, what is denied, and whether the request may be asked then."""
    kind, _, name = row.resource.partition(" ")
    own = f"{row.operation} {kind}"
    if not name:
        return {"literal": ([own], [], True), "denied": ([own], [own], False), "nothing": ([], [], False)}
    others = set(ON_MIRRORS if kind == "CLUSTER_MIRROR" else ("WRITE", "ALTER", "DESCRIBE", "DELETE")) - {row.operation}
    others -= IMPLIED.get(row.operation, set())
    return {
        "literal": ([f"{own} {name}"], [], True),
        "prefixed": ([f"{own} {name[0]}*"], [], True),
        "star": ([f"{own} *"], [], True),
        "all": ([f"ALL {kind} {name}"], [], True),
        "nothing": ([], [], False),
        "others": ([f"{other} {kind} {name}" for other in sorted(others)], [], False),
        "elsewhere": ([f"{own} {name}x", f"{own} z*"], [], False),
        "denied": ([f"{own} *", f"{own} {name}"], [f"{own} {name}"], False),
        "denied-prefix": ([f"{own} {name}"], [f"{own} {name[0]}*"], False),
    }


def denial(user: str, rule: str) -> AclCreation:
    made = acl_of(user, rule)
    made.permission_type = 2
    return made


def user_of(row: Row, grant: str) -> str:
    return f"{row.number}-{grant}"


@pytest.fixture(scope="module")
def side() -> Iterator[KmirrorSide]:
    config = AUTHORIZED | {"mirror.topic.num.partitions": "1", "mirror.truncation.backoff.ms": "60000"}
    with EmbeddedCluster(mirroring=True, config=config) as cluster:
        made = KmirrorSide(cluster)
        topics = [{"name": "t", "num_partitions": 1, "replication_factor": 1}]
        made.ask(None, K.CREATE_TOPICS, 7, message_of(K.CREATE_TOPICS, {"topics": topics, "timeout_ms": 5000}))
        create(made, None, "m")
        rules: list[AclCreation] = []
        for row in ROWS:
            for grant, (allowed, denied, _) in grants(row).items():
                user = user_of(row, grant)
                rules += [acl_of(user, rule) for rule in (*allowed, *row.beside)] + [denial(user, rule) for rule in denied]
        give(made, *rules)
        yield made


def give(side: KmirrorSide, *rules: AclCreation) -> None:
    answer = side.ask(None, K.CREATE_ACLS, 3, CreateAclsRequest(creations=list(rules)))
    assert {row.error_code for row in answer.results} == {0}


def create(side: KmirrorSide, user: str | None, name: str) -> Errors:
    fields = {"mirror_name": name, "config": [{"name": "bootstrap.servers", "value": "127.0.0.1:1"}]}
    return Errors.for_code(side.ask(user, K.CREATE_MIRROR, 0, message_of(K.CREATE_MIRROR, fields)).error_code)


def errors_of(value: Any) -> set[Errors]:
    """All error codes anywhere in an answer."""
    found = {Errors.for_code(value.error_code)} if getattr(value, "error_code", 0) else set()
    for name in getattr(value, "__struct_fields__", ()):
        for entry in getattr(value, name) if isinstance(getattr(value, name), list) else ():
            found |= errors_of(entry)
    return found


@pytest.mark.parametrize(
    ("row", "grant"), [pytest.param(row, grant, id=f"{row.number}-{row.api_key.name}-{grant}") for row in ROWS for grant in grants(row)]
)
def test_row(side: KmirrorSide, row: Row, grant: str) -> None:
    is_allowed = grants(row)[grant][2]
    errors = errors_of(side.ask(user_of(row, grant), row.api_key, row.version, message_of(row.api_key, row.fields)))
    assert errors & {MIRROR, CLUSTER, TOPIC} == (set() if is_allowed else {row.error}), errors
    if not is_allowed:
        assert errors == {row.error}, "nothing else is told"


@pytest.mark.parametrize("row", [pytest.param(row, id=f"{row.number}-{row.api_key.name}") for row in ROWS if row.forwarded])
def test_the_controller_judges_too(side: KmirrorSide, row: Row) -> None:
    """What is sent to its listener, around the broker."""
    message = message_of(row.api_key, row.fields)
    assert errors_of(side.ask(user_of(row, "nothing"), row.api_key, row.version, message, controller=True)) == {row.error}
    assert row.error not in errors_of(side.ask(user_of(row, "literal"), row.api_key, row.version, message, controller=True))


def test_acl13_acl15_acl17_acl19_whether_a_topic_exists_is_not_told(side: KmirrorSide) -> None:
    """Read is checked before existence, id, name and states; other topics are processed (A15)."""
    give(side, acl_of("reader-of-t", f"ALTER {ON_M}"), acl_of("reader-of-t", "READ TOPIC t"), acl_of("reader-of-t", "READ TOPIC seen-gone"))
    topics = [{"topic_name": name} for name in ("hidden-gone", "seen-gone", "t")]
    for _, api_key in TOPIC_REQUESTS:
        answer = side.ask("reader-of-t", api_key, 0, message_of(api_key, {"mirror_name": "m", "topics": topics}))
        codes = {row.name: Errors.for_code(row.error_code) for row in answer.topics}
        assert answer.error_code == 0 and len(answer.topics) == 3
        assert (codes["hidden-gone"], codes["seen-gone"]) == (TOPIC, Errors.UNKNOWN_TOPIC_OR_PARTITION)
        assert codes["t"] is not TOPIC


def test_acl21_list_leaves_out_what_may_not_be_described(side: KmirrorSide) -> None:
    for name in ("seen-1", "seen-2", "hidden-1"):
        assert create(side, None, name) is Errors.NONE
    give(
        side,
        acl_of("seer", "DESCRIBE CLUSTER_MIRROR seen*"),
        acl_of("one", "DESCRIBE CLUSTER_MIRROR seen-1"),
        acl_of("all", "DESCRIBE CLUSTER_MIRROR *"),
    )
    give(side, acl_of("but", "DESCRIBE CLUSTER_MIRROR *"), denial("but", "DESCRIBE CLUSTER_MIRROR hidden*"))

    def listed(user: str) -> list[str]:
        answer = side.ask(user, K.LIST_MIRRORS, 0, message_of(K.LIST_MIRRORS, {}))
        assert answer.error_code == 0
        return [row.mirror_name for row in answer.mirrors]

    assert listed("seer") == ["seen-1", "seen-2"]
    assert listed("one") == ["seen-1"]
    assert listed("all") == ["hidden-1", "m", "seen-1", "seen-2"]
    assert listed("but") == ["m", "seen-1", "seen-2"]
    assert listed("stranger") == []


def test_acl22_describe_of_all_is_filtered_and_of_a_name_is_refused(side: KmirrorSide) -> None:
    for name in ("open-1", "shut-1"):
        create(side, None, name)
    give(side, acl_of("half", "DESCRIBE CLUSTER_MIRROR open*"))

    def described(*names: str) -> dict[str, Errors]:
        answer = side.ask("half", K.DESCRIBE_MIRRORS, 0, message_of(K.DESCRIBE_MIRRORS, {"mirror_names": list(names)}))
        assert answer.error_code == 0
        return {row.mirror_name: Errors.for_code(row.error_code) for row in answer.mirrors}

    assert described() == {"open-1": Errors.NONE}
    assert described("open-1", "shut-1") == {"open-1": Errors.NONE, "shut-1": MIRROR}
    assert described("nosuch") == {"nosuch": MIRROR}, "whether it exists is not told"


def test_acl35_mirrors_are_managed_without_any_privilege_on_the_cluster(side: KmirrorSide) -> None:
    """CREATE, ALTER and DESCRIBE on every mirror, or on one, and READ on its topics: the whole life
    of a mirror.
    """
    for user, name in (("manager", "*"), ("keeper", "prod-dr"), ("regional", "prod*")):
        give(side, *(acl_of(user, f"{operation} CLUSTER_MIRROR {name}") for operation in ("CREATE", "ALTER", "DESCRIBE")))
        give(side, acl_of(user, "READ TOPIC t"))
        topics = message_of(K.ADD_TOPICS_TO_MIRROR, topics_of("prod-dr"))
        assert create(side, user, "prod-dr") is Errors.NONE
        for api_key in (K.ADD_TOPICS_TO_MIRROR, K.REMOVE_TOPICS_FROM_MIRROR):
            answer = side.ask(
                user, api_key, 0, message_of(api_key, topics_of("prod-dr")) if api_key is not K.ADD_TOPICS_TO_MIRROR else topics
            )
            assert not errors_of(answer) & {MIRROR, TOPIC, CLUSTER}, api_key
        listed = side.ask(user, K.LIST_MIRRORS, 0, message_of(K.LIST_MIRRORS, {}))
        assert "prod-dr" in [row.mirror_name for row in listed.mirrors]
        deleted = side.ask(user, K.DELETE_MIRROR, 0, message_of(K.DELETE_MIRROR, {"mirror_name": "prod-dr"}))
        for _ in range(200):
            if deleted.error_code != Errors.MIRROR_NOT_EMPTY:
                break
            deleted = side.ask(user, K.DELETE_MIRROR, 0, message_of(K.DELETE_MIRROR, {"mirror_name": "prod-dr"}))
        assert deleted.error_code == 0
    assert create(side, "keeper", "prod-other") is MIRROR


@pytest.mark.item("B44")
def test_acl35_a_rule_for_an_operation_of_mirrors_is_taken_and_listed(side: KmirrorSide) -> None:
    give(side, *(acl_of("lister", f"{operation} CLUSTER_MIRROR listed") for operation in ON_MIRRORS))
    wanted = {"resource_type_filter": 8, "pattern_type_filter": 3, "resource_name_filter": "listed", "principal_filter": None, "host_filter": None,
              "operation": 1, "permission_type": 1}  # fmt: skip
    for _ in range(200):
        answer = side.ask(None, K.DESCRIBE_ACLS, 3, message_of(K.DESCRIBE_ACLS, wanted))
        if answer.resources and len(answer.resources[0].acls) == len(ON_MIRRORS):
            break
    (resource,) = answer.resources
    assert (resource.resource_type, resource.resource_name, resource.pattern_type) == (8, "listed", 3)
    assert {AclOperation(acl.operation).name for acl in resource.acls} == set(ON_MIRRORS)
