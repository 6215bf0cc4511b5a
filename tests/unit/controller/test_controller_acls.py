"""Creating and deleting access rules on the controller, and who may ask the controller what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import structs
from support.brokers.metadata_doubles import ControllerDouble

from kmirror.common.acl import AclOperation, PatternType, ResourceType
from kmirror.common.errors import ApiException, Errors, IllegalArgumentException
from kmirror.common.kafka_principal import KafkaPrincipal
from kmirror.controller.acl_control_manager import MAX_RECORDS_PER_USER_OP, AclControlManager
from kmirror.controller.controller_authorization import CLUSTER_OPERATIONS, GATES, UNGUARDED
from kmirror.controller.delegation_token_control_manager import DelegationTokenControlManager
from kmirror.metadata.image import StandardAcl
from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.messages.create_acls import AclCreation, CreateAclsRequest
from kmirror.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from kmirror.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kmirror.wire.messages.renew_delegation_token import RenewDelegationTokenRequest

READ_FOO = AclCreation(2, "foo", 3, "User:a", "*", 3, 3)


def create(controller: ControllerDouble, *creations: AclCreation) -> list[tuple[Errors, str | None]]:
    response = controller.run(AclControlManager(controller.state).create_acls(CreateAclsRequest(creations=list(creations))))
    return [(Errors(row.error_code), row.error_message) for row in response.results]


def delete(controller: ControllerDouble, *filters: DeleteAclsFilter) -> list[list[str]]:
    response = controller.run(AclControlManager(controller.state).delete_acls(DeleteAclsRequest(filters=list(filters))))
    return [[acl.resource_name for acl in row.matching_acls] for row in response.filter_results]


def names(controller: ControllerDouble) -> list[str]:
    return sorted(acl.resource_name for acl in controller.state.image.acls.values())


def test_a_rule_is_made_once_however_often_it_is_asked_for() -> None:
    controller = ControllerDouble()
    assert create(controller, READ_FOO, READ_FOO) == [(Errors.NONE, "")] * 2
    assert create(controller, READ_FOO) == [(Errors.NONE, "")]
    assert list(controller.state.image.acls.values()) == [StandardAcl(2, "foo", 3, "User:a", "*", 3, 3)]


@pytest.mark.parametrize(
    ("creation", "text"),
    [
        (AclCreation(4, "my-cluster", 3, "User:a", "*", 7, 3), "The only valid name for the CLUSTER resource is kafka-cluster"),
        (AclCreation(2, "", 3, "User:a", "*", 3, 3), "Invalid empty resource name"),
        (AclCreation(99, "foo", 3, "User:a", "*", 3, 3), "Invalid resourceType UNKNOWN"),
        (
            AclCreation(2, "foo", 3, "root", "*", 3, 3),
            "Could not parse principal from `root` (no colon is present separating the principal type from the principal name)",
        ),
    ],
)
def test_a_rule_that_cannot_be_is_refused_alone(creation: AclCreation, text: str) -> None:
    controller = ControllerDouble()
    assert create(controller, creation, READ_FOO) == [(Errors.INVALID_REQUEST, text), (Errors.NONE, "")]
    assert names(controller) == ["foo"]


@pytest.mark.parametrize(
    "creation",
    [
        AclCreation(1, "foo", 3, "User:a", "*", 3, 3),
        AclCreation(2, "foo", 1, "User:a", "*", 3, 3),
        AclCreation(2, "foo", 2, "User:a", "*", 3, 3),
        AclCreation(2, "foo", 3, "User:a", "*", 1, 3),
        AclCreation(2, "foo", 3, "User:a", "*", 3, 1),
    ],
)
def test_what_only_filters_may_say_fails_the_whole_request(creation: AclCreation) -> None:
    controller = ControllerDouble()
    with pytest.raises(IllegalArgumentException):
        create(controller, READ_FOO, creation)
    assert names(controller) == []


def test_mirrors_and_two_phase_commit_can_be_named() -> None:
    controller = ControllerDouble()
    mirror = AclCreation(ResourceType.CLUSTER_MIRROR, "m", 3, "User:a", "*", AclOperation.ALTER, 3)
    two_phase = AclCreation(ResourceType.TRANSACTIONAL_ID, "x", 4, "User:a", "*", AclOperation.TWO_PHASE_COMMIT, 3)
    assert create(controller, mirror, two_phase) == [(Errors.NONE, "")] * 2


def test_too_many_rules_at_once_are_refused_as_a_whole() -> None:
    controller = ControllerDouble()
    with pytest.raises(ApiException, match="Unable to perform excessively large batch operation") as refused:
        create(controller, *(AclCreation(2, f"t{number}", 3, "User:a", "*", 3, 3) for number in range(MAX_RECORDS_PER_USER_OP + 1)))
    assert refused.value.error is Errors.POLICY_VIOLATION
    assert names(controller) == []


def test_each_filter_tells_what_it_took_and_a_rule_goes_once() -> None:
    controller = ControllerDouble()
    create(controller, READ_FOO, AclCreation(2, "f", 4, "User:b", "*", 3, 3), AclCreation(3, "g", 3, "User:a", "*", 3, 3))
    covering_foo = DeleteAclsFilter(2, "foo", PatternType.MATCH, None, None, 1, 1)
    of_a = DeleteAclsFilter(1, None, PatternType.ANY, "User:a", None, 1, 1)
    taken = delete(controller, covering_foo, of_a, DeleteAclsFilter(2, "none", PatternType.LITERAL, None, None, 1, 1))
    assert [sorted(row) for row in taken] == [["f", "foo"], ["foo", "g"], []]
    assert names(controller) == []


def test_every_api_of_the_controller_listener_has_its_permission() -> None:
    served = {key for key, spec in API_TABLE.items() if "controller" in spec.listeners or spec.forwardable}
    brokers_alone = {ApiKeys.DESCRIBE_DELEGATION_TOKEN, ApiKeys.DESCRIBE_USER_SCRAM_CREDENTIALS}
    tables = [set(CLUSTER_OPERATIONS), set(GATES), set(UNGUARDED)]
    assert set().union(*tables) == served - brokers_alone
    assert sum(map(len, tables)) == len(set().union(*tables)), "an API is in two tables"


class Unlisted(dict[Any, Any]):
    """A mapping that can be asked for a key and nothing else."""

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("one request looks at all there is")

    def values(self) -> Any:
        return iter(self)

    def items(self) -> Any:
        return iter(self)


def test_a_creation_looked_at_every_rule() -> None:
    controller = ControllerDouble()
    create(controller, *(AclCreation(2, f"t{number}", 3, "User:a", "*", 3, 3) for number in range(100)))
    controller.state.image = structs.replace(controller.state.image, acls=Unlisted(controller.state.image.acls))
    request = CreateAclsRequest(creations=[AclCreation(2, "t99", 3, "User:a", "*", 3, 3), AclCreation(2, "new", 3, "User:a", "*", 3, 3)])
    result = AclControlManager(controller.state).create_acls(request)
    assert [record.message.resource_name for record in result.records] == ["new"]


def test_a_rule_that_was_deleted_can_be_made_again() -> None:
    controller = ControllerDouble()
    create(controller, READ_FOO)
    assert delete(controller, DeleteAclsFilter(2, "foo", 3, None, None, 1, 1)) == [["foo"]]
    create(controller, READ_FOO)
    assert names(controller) == ["foo"]


def test_a_renewal_looked_at_every_token() -> None:
    controller = ControllerDouble(delegation_token_secret_key="secret")
    manager, alice = DelegationTokenControlManager(controller.state), KafkaPrincipal("User", "alice")
    first, *_ = (controller.run(manager.create_token(CreateDelegationTokenRequest(), alice)) for _ in range(100))
    controller.state.image = structs.replace(controller.state.image, delegation_tokens=Unlisted(controller.state.image.delegation_tokens))
    renewed = manager.renew_token(RenewDelegationTokenRequest(hmac=first.hmac), alice)
    assert [record.message.token_id for record in renewed.records] == [first.token_id]
