"""StandardAuthorizer against the naive oracle, with rules that come and go."""

from __future__ import annotations

from typing import NamedTuple

from acl_oracle import is_allowed, is_allowed_somewhere
from hypothesis import given, settings
from hypothesis import strategies as st

from kmirror.common.acl import AclOperation, ResourceType
from kmirror.common.kafka_principal import KafkaPrincipal
from kmirror.common.uuid import Uuid
from kmirror.metadata.authorizer.authorizer import Action
from kmirror.metadata.authorizer.standard_authorizer import StandardAuthorizer
from kmirror.metadata.image import StandardAcl
from kmirror.wire.api_keys import ApiKeys

NAMES = ["*", "a", "ab", "abc", "abd", "b", "ba", "foo", "foobar", "fo"]
HOSTS = ["10.0.0.1", "10.0.0.2"]
USERS = ["alice", "bob"]


class Context(NamedTuple):
    principal: KafkaPrincipal
    client_address: str
    api_key: ApiKeys = ApiKeys.METADATA


def _id(number: int) -> Uuid:
    return Uuid(number.to_bytes(8, "big") * 2)


acls = st.builds(
    StandardAcl,
    resource_type=st.sampled_from([2, 3]),
    resource_name=st.sampled_from(NAMES),
    pattern_type=st.sampled_from([3, 4]),
    principal=st.sampled_from(["User:alice", "User:bob", "User:*", "Group:alice"]),
    host=st.sampled_from([*HOSTS, "*"]),
    operation=st.sampled_from([2, 3, 4, 6, 7, 8, 10, 11]),
    permission_type=st.sampled_from([2, 3, 3]),
)
contexts = st.builds(Context, st.builds(KafkaPrincipal, st.just("User"), st.sampled_from(USERS)), st.sampled_from(HOSTS))


@settings(max_examples=400, deadline=None)
@given(rules=st.lists(acls, max_size=12), removed=st.sets(st.integers(0, 11)), context=contexts, allow=st.booleans(), data=st.data())
def test_the_index_finds_what_the_oracle_finds(
    rules: list[StandardAcl], removed: set[int], context: Context, allow: bool, data: st.DataObject
) -> None:
    authorizer = StandardAuthorizer(allow_everyone_if_no_acl_found=allow)
    authorizer.complete_initial_load()
    ids = [_id(number) for number in range(len(rules))]
    for acl_id, acl in zip(ids, rules, strict=True):
        authorizer.add_acl(acl_id, acl)
    for number in removed & set(range(len(rules))):
        authorizer.remove_acl(ids[number])
    left = [acl for number, acl in enumerate(rules) if number not in removed]
    assert authorizer.acl_count == len(left)
    operation = data.draw(st.sampled_from([3, 4, 6, 7, 8, 10, 11]))
    for resource_type in (ResourceType.TOPIC, ResourceType.GROUP):
        for name in NAMES[1:] + ["foobarbaz", "c"]:
            expected = is_allowed(
                left,
                principal=str(context.principal),
                host=context.client_address,
                operation=operation,
                resource_type=resource_type,
                name=name,
                allow_if_none=allow,
            )
            assert authorizer.authorize(context, Action(AclOperation(operation), resource_type, name)) is expected, name


@settings(max_examples=300, deadline=None)
@given(rules=st.lists(acls, max_size=8), context=contexts)
def test_allowed_by_resource_type_is_allowed_on_some_name(rules: list[StandardAcl], context: Context) -> None:
    rules = [acl for acl in rules if acl.operation in (2, 4)]
    authorizer = StandardAuthorizer()
    authorizer.load_snapshot({_id(number): acl for number, acl in enumerate(rules)})
    authorizer.complete_initial_load()
    names = [*NAMES, *(f"{name}~" for name in NAMES), "hardcode"]
    found = is_allowed_somewhere(rules, names, principal=str(context.principal), host=context.client_address, operation=4, resource_type=2)
    assert authorizer.authorize_by_resource_type(context, AclOperation.WRITE, ResourceType.TOPIC) is found
