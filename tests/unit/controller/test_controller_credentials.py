"""SCRAM users and delegation tokens at the controller: decisions, Kafka's refusals, and what the
image holds after them.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import pytest
from support.brokers.metadata_doubles import ControllerDouble

from kmirror.common.errors import Errors
from kmirror.common.kafka_principal import KafkaPrincipal
from kmirror.controller.delegation_token_control_manager import DelegationTokenControlManager
from kmirror.controller.scram_control_manager import ScramControlManager
from kmirror.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kmirror.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from kmirror.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kmirror.wire.messages.renew_delegation_token import RenewDelegationTokenRequest

TWICE = "A user credential cannot be altered twice in the same request"
ALICE, BOB, CAROL = (KafkaPrincipal("User", name) for name in ("alice", "bob", "carol"))
SECRET = "a secret of the cluster"
HOUR_MS = 3_600_000


def upsertion(name: str, mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
    salted = hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", iterations)
    return ScramCredentialUpsertion(name, mechanism, iterations, b"salt", salted)


def alter(controller: ControllerDouble, *changes: Any) -> list[tuple[str, Errors, str | None]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[change for change in changes if isinstance(change, ScramCredentialDeletion)],
        upsertions=[change for change in changes if isinstance(change, ScramCredentialUpsertion)],
    )
    response = controller.run(ScramControlManager(controller.state).alter_credentials(request))
    return [(result.user, Errors(result.error_code), result.error_message) for result in response.results]


def test_a_credential_is_stored_without_the_password() -> None:
    controller = ControllerDouble()
    assert alter(controller, upsertion("alice")) == [("alice", Errors.NONE, None)]
    stored = controller.state.image.scram[1, "alice"]
    salted = hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", 4096)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    assert stored == (b"salt", hashlib.sha256(client_key).digest(), hmac.digest(salted, b"Server Key", "sha256"), 4096)
    assert alter(controller, ScramCredentialDeletion("alice", 1)) == [("alice", Errors.NONE, None)]
    assert controller.state.image.scram == {}


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (upsertion(""), Errors.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (upsertion("alice", mechanism=3), Errors.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (upsertion("alice", iterations=4095), Errors.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (upsertion("alice", iterations=16385), Errors.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        (ScramCredentialDeletion("", 1), Errors.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (ScramCredentialDeletion("alice", 0), Errors.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (ScramCredentialDeletion("alice", 1), Errors.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"),
    ],
)
def test_what_is_refused_does_not_touch_the_others(change: Any, error: Errors, text: str) -> None:
    controller = ControllerDouble()
    assert alter(controller, change, upsertion("bob")) == [("bob", Errors.NONE, None), (change.name, error, text)]
    assert list(controller.state.image.scram) == [(1, "bob")]


def test_a_user_is_altered_once_in_a_request() -> None:
    controller = ControllerDouble()
    alter(controller, upsertion("alice"))
    assert alter(controller, ScramCredentialDeletion("alice", 1), upsertion("alice", 2)) == [("alice", Errors.DUPLICATE_RESOURCE, TWICE)]
    assert alter(controller, upsertion("bob", 1), upsertion("bob", 2), upsertion("bob", 1)) == [("bob", Errors.DUPLICATE_RESOURCE, TWICE)]
    assert list(controller.state.image.scram) == [(1, "alice")]


class Tokens:
    """Tokens of a controller that has a secret."""

    def __init__(self, secret: str | None = SECRET) -> None:
        self.controller = ControllerDouble(
            delegation_token_secret_key=secret, delegation_token_max_lifetime_ms=10 * HOUR_MS, delegation_token_expiry_time_ms=HOUR_MS
        )
        self.manager = DelegationTokenControlManager(self.controller.state)
        self.clock = self.controller.clock

    def create(self, requester: KafkaPrincipal = ALICE, *, renewers: tuple[str, ...] = ("bob",), **fields: Any) -> Any:
        named = [CreatableRenewers("User", name) for name in renewers]
        return self.controller.run(self.manager.create_token(CreateDelegationTokenRequest(renewers=named, **fields), requester))

    def renew(self, secret: bytes, principal: KafkaPrincipal, period_ms: int = -1) -> tuple[Errors, int]:
        response = self.controller.run(self.manager.renew_token(RenewDelegationTokenRequest(secret, period_ms), principal))
        return Errors(response.error_code), response.expiry_timestamp_ms

    def expire(self, secret: bytes, principal: KafkaPrincipal, period_ms: int) -> tuple[Errors, int]:
        response = self.controller.run(self.manager.expire_token(ExpireDelegationTokenRequest(secret, period_ms), principal))
        return Errors(response.error_code), response.expiry_timestamp_ms

    @property
    def stored(self) -> Any:
        return self.controller.state.image.delegation_tokens


def test_a_token_is_a_name_and_its_hmac() -> None:
    tokens = Tokens()
    made, now = tokens.create(max_lifetime_ms=-1), tokens.clock.time_ms()
    assert made.hmac == hmac.digest(SECRET.encode(), made.token_id.encode(), "sha512")
    assert (made.issue_timestamp_ms, made.expiry_timestamp_ms, made.max_timestamp_ms) == (now, now + HOUR_MS, now + 10 * HOUR_MS)
    stored = tokens.stored[made.token_id]
    assert (stored.owner, stored.requester, stored.renewers) == ("User:alice", "User:alice", ("User:bob",))
    short = tokens.create(max_lifetime_ms=1_000)
    assert short.expiry_timestamp_ms == short.max_timestamp_ms == now + 1_000
    other = tokens.create(owner_principal_type="User", owner_principal_name="carol")
    assert (tokens.stored[other.token_id].owner, tokens.stored[other.token_id].requester) == ("User:carol", "User:alice")


def test_tokens_need_a_secret_and_renewers_that_are_users() -> None:
    off = Tokens(secret=None)
    assert off.create().error_code == Errors.DELEGATION_TOKEN_AUTH_DISABLED
    assert off.renew(b"x", ALICE)[0] is Errors.DELEGATION_TOKEN_AUTH_DISABLED
    assert off.expire(b"x", ALICE, -1)[0] is Errors.DELEGATION_TOKEN_AUTH_DISABLED
    tokens = Tokens()
    refused = tokens.manager.create_token(CreateDelegationTokenRequest(renewers=[CreatableRenewers("Group", "g")]), ALICE)
    assert refused.records == [] and refused.response is not None and refused.response.error_code == Errors.INVALID_PRINCIPAL_TYPE


def test_who_renews_and_until_when() -> None:
    tokens = Tokens()
    made, start = tokens.create(), tokens.clock.time_ms()
    assert tokens.renew(b"unknown", ALICE)[0] is Errors.DELEGATION_TOKEN_NOT_FOUND
    assert tokens.renew(made.hmac, CAROL)[0] is Errors.DELEGATION_TOKEN_OWNER_MISMATCH
    tokens.clock.now_ms += HOUR_MS // 2
    assert tokens.renew(made.hmac, BOB, period_ms=1_000) == (Errors.NONE, start + HOUR_MS // 2 + 1_000)
    assert tokens.renew(made.hmac, ALICE, period_ms=99 * HOUR_MS) == (Errors.NONE, start + HOUR_MS // 2 + HOUR_MS)
    assert tokens.stored[made.token_id].expiration_timestamp == start + HOUR_MS // 2 + HOUR_MS
    tokens.clock.now_ms += 2 * HOUR_MS
    assert tokens.renew(made.hmac, ALICE)[0] is Errors.DELEGATION_TOKEN_EXPIRED


def test_a_requester_who_is_not_the_owner_may_not_renew() -> None:
    tokens = Tokens()
    made = tokens.create(owner_principal_type="User", owner_principal_name="carol")
    assert tokens.renew(made.hmac, ALICE)[0] is Errors.DELEGATION_TOKEN_OWNER_MISMATCH
    assert tokens.renew(made.hmac, CAROL)[0] is Errors.NONE


def test_a_token_ends_later_or_at_once() -> None:
    tokens = Tokens()
    made, now = tokens.create(), tokens.clock.time_ms()
    assert tokens.expire(made.hmac, CAROL, -1)[0] is Errors.DELEGATION_TOKEN_OWNER_MISMATCH
    assert tokens.expire(made.hmac, ALICE, 5_000) == (Errors.NONE, now + 5_000)
    assert tokens.stored[made.token_id].expiration_timestamp == now + 5_000
    tokens.clock.now_ms += 6_000
    assert tokens.expire(made.hmac, ALICE, 5_000)[0] is Errors.DELEGATION_TOKEN_EXPIRED
    assert tokens.expire(made.hmac, ALICE, -1) == (Errors.NONE, now + 6_000)
    assert tokens.stored == {}


def test_expired_tokens_are_swept() -> None:
    tokens = Tokens()
    short, long = tokens.create(max_lifetime_ms=1_000), tokens.create()
    tokens.controller.run(tokens.manager.sweep_expired_tokens())
    assert set(tokens.stored) == {short.token_id, long.token_id}
    tokens.clock.now_ms += 1_001
    tokens.controller.run(tokens.manager.sweep_expired_tokens())
    assert set(tokens.stored) == {long.token_id}
