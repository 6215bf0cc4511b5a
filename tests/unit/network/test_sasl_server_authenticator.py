"""The SASL state machine of a server connection: every frame in every state, tokens, sessions,
logging in again.
"""

from __future__ import annotations

import itertools

import pytest
from support.brokers.network_doubles import api_versions_request, frame_of
from support.logs.storage_doubles import ManualClock

from kmirror.common.errors import Errors
from kmirror.common.kafka_principal import KafkaPrincipal
from kmirror.network.request_context import PASS_ON
from kmirror.network.security.authentication_errors import AuthenticationProtocolError, SaslError
from kmirror.network.security.plain_sasl import PlainSaslServer
from kmirror.network.security.sasl_server_authenticator import (
    TRANSITIONS,
    Frame,
    SaslFailure,
    SaslServerAuthenticator,
    SaslSettings,
    SaslState,
)
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.framing import RequestHeader, encode_request, read_response
from kmirror.wire.messages.metadata import MetadataRequest
from kmirror.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from kmirror.wire.messages.sasl_handshake import SaslHandshakeRequest

ALICE, BOB = b"\0alice\0alice-secret", b"\0bob\0bob-secret"


class EchoServer:
    """A mechanism of one token, which names the user, says whether it is refused and when it
    expires: `name[:expiry]` or `!`.
    """

    mechanism = "GSSAPI"
    token_authenticated = False

    def __init__(self) -> None:
        self.is_complete = False
        self.authorization_id = ""
        self.credential_lifetime_ms: int | None = None

    def evaluate_response(self, response: bytes) -> bytes:
        if response.startswith(b"!"):
            raise SaslError("a text for the log only")
        name, _, expiry = response.decode().partition(":")
        self.authorization_id, self.is_complete = name, True
        self.credential_lifetime_ms = int(expiry) if expiry else None
        return b"welcome"


def settings(*mechanisms: str, max_reauth_ms: int = 0) -> SaslSettings:
    enabled = mechanisms or ("PLAIN", "GSSAPI")
    users = {"alice": "alice-secret", "bob": "bob-secret"}
    return SaslSettings(
        enabled_mechanisms=enabled,
        servers={"PLAIN": lambda: PlainSaslServer(users), "GSSAPI": EchoServer},
        connections_max_reauth_ms=dict.fromkeys(enabled, max_reauth_ms),
    )


def request(api_key: ApiKeys, message, version: int) -> memoryview:
    return memoryview(frame_of(encode_request(RequestHeader(api_key, version, 7, "c"), message))[4:])


def handshake(mechanism: str, version: int = 1) -> memoryview:
    return request(ApiKeys.SASL_HANDSHAKE, SaslHandshakeRequest(mechanism=mechanism), version)


def token(data: bytes, version: int = 2) -> memoryview:
    return request(ApiKeys.SASL_AUTHENTICATE, SaslAuthenticateRequest(auth_bytes=data), version)


METADATA = request(ApiKeys.METADATA, MetadataRequest(), 9)
FRAMES = {
    Frame.GARBAGE: memoryview(b"\x60\x82\x00\x01no request"),
    Frame.API_VERSIONS: memoryview(api_versions_request(1, 2)[4:]),
    Frame.BAD_API_VERSIONS: memoryview(api_versions_request(1, 99)[4:]),
    Frame.HANDSHAKE: handshake("PLAIN"),
    Frame.UNKNOWN_MECHANISM: handshake("DIGEST-MD5"),
    Frame.OTHER_MECHANISM: handshake("GSSAPI"),
    Frame.OTHER_REQUEST: METADATA,
}
BEFORE_TOKENS = (SaslState.INITIAL_REQUEST, SaslState.HANDSHAKE_OR_VERSIONS_REQUEST, SaslState.HANDSHAKE_REQUEST)


def in_state(state: SaslState, clock: ManualClock | None = None) -> SaslServerAuthenticator:
    clock = clock or ManualClock()
    if state is SaslState.REAUTH_PROCESS_HANDSHAKE:
        return SaslServerAuthenticator(settings(), clock, previous=logged_in(clock))
    authenticator = SaslServerAuthenticator(settings(), clock)
    if state is SaslState.HANDSHAKE_OR_VERSIONS_REQUEST:
        authenticator.authenticate(FRAMES[Frame.BAD_API_VERSIONS])
    elif state is SaslState.HANDSHAKE_REQUEST:
        authenticator.authenticate(FRAMES[Frame.API_VERSIONS])
    assert authenticator.state is state
    return authenticator


def logged_in(clock: ManualClock, *, max_reauth_ms: int = 0, data: bytes = ALICE) -> SaslServerAuthenticator:
    authenticator = SaslServerAuthenticator(settings(max_reauth_ms=max_reauth_ms), clock)
    authenticator.authenticate(handshake("PLAIN"))
    authenticator.authenticate(token(data))
    assert authenticator.is_complete
    return authenticator


def test_the_table_has_every_frame_of_every_state_before_the_tokens() -> None:
    possible = set(itertools.product(BEFORE_TOKENS, [frame for frame in Frame if frame is not Frame.OTHER_MECHANISM]))
    again = {(SaslState.REAUTH_PROCESS_HANDSHAKE, frame) for frame in (Frame.HANDSHAKE, Frame.OTHER_MECHANISM, Frame.UNKNOWN_MECHANISM)}
    assert set(TRANSITIONS) == possible | again


@pytest.mark.parametrize(("state", "frame"), list(TRANSITIONS), ids=lambda part: part.name)
def test_each_row_of_the_table(state: SaslState, frame: Frame) -> None:
    authenticator = in_state(state)
    expected = TRANSITIONS[state, frame]
    if expected is None:
        with pytest.raises(AuthenticationProtocolError):
            authenticator.authenticate(FRAMES[frame])
        assert authenticator.state is SaslState.FAILED
        return
    if expected is SaslState.FAILED:
        with pytest.raises(SaslFailure) as failure:
            authenticator.authenticate(FRAMES[frame])
        assert (failure.value.response is not None) == (frame is Frame.UNKNOWN_MECHANISM)
        assert authenticator.state is SaslState.FAILED
        return
    if frame is Frame.GARBAGE:
        authenticator.authenticate(memoryview(b"\x00\x63alice"))
        assert authenticator.is_complete and authenticator.mechanism == "GSSAPI"
        return
    answer = authenticator.authenticate(FRAMES[frame])
    assert authenticator.state is expected
    assert (answer is PASS_ON) == (frame in (Frame.API_VERSIONS, Frame.BAD_API_VERSIONS))


def test_a_first_frame_that_is_no_request_needs_gssapi() -> None:
    authenticator = SaslServerAuthenticator(settings("PLAIN"), ManualClock())
    with pytest.raises(SaslFailure, match="Exception handling first SASL packet from client, GSSAPI is not supported by server"):
        authenticator.authenticate(FRAMES[Frame.GARBAGE])


def test_a_software_name_that_is_none_may_be_corrected() -> None:
    authenticator = SaslServerAuthenticator(settings(), ManualClock())
    assert authenticator.authenticate(memoryview(api_versions_request(1, 3)[4:])) is PASS_ON
    assert authenticator.state is SaslState.HANDSHAKE_OR_VERSIONS_REQUEST


def answer_of(parts, api_key: ApiKeys, version: int):
    return read_response(api_key, version, memoryview(frame_of(parts))[4:])[1]


def test_an_unknown_mechanism_is_told_which_there_are() -> None:
    with pytest.raises(SaslFailure, match="Unsupported SASL mechanism DIGEST-MD5") as failure:
        SaslServerAuthenticator(settings(), ManualClock()).authenticate(FRAMES[Frame.UNKNOWN_MECHANISM])
    response = answer_of(failure.value.response, ApiKeys.SASL_HANDSHAKE, 1)
    assert (response.error_code, response.mechanisms) == (Errors.UNSUPPORTED_SASL_MECHANISM, ["PLAIN", "GSSAPI"])


def test_tokens_after_the_first_handshake_version_are_bare() -> None:
    authenticator = SaslServerAuthenticator(settings(max_reauth_ms=5_000), ManualClock())
    authenticator.authenticate(handshake("PLAIN", version=0))
    assert frame_of(authenticator.authenticate(memoryview(ALICE))) == bytes(4)
    assert authenticator.is_complete and authenticator.principal() == KafkaPrincipal("User", "alice")
    assert not authenticator.supports_reauthentication
    refused = SaslServerAuthenticator(settings(), ManualClock())
    refused.authenticate(handshake("PLAIN", version=0))
    with pytest.raises(SaslFailure, match="Authentication failed: Invalid username or password") as failure:
        refused.authenticate(memoryview(b"\0alice\0wrong"))
    assert failure.value.response is None


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_refused_password_is_answered_with_its_reason(version: int) -> None:
    authenticator = SaslServerAuthenticator(settings(), ManualClock())
    authenticator.authenticate(handshake("PLAIN"))
    with pytest.raises(SaslFailure) as failure:
        authenticator.authenticate(token(b"\0alice\0wrong", version))
    response = answer_of(failure.value.response, ApiKeys.SASL_AUTHENTICATE, version)
    assert (response.error_code, response.error_message) == (
        Errors.SASL_AUTHENTICATION_FAILED,
        "Authentication failed: Invalid username or password",
    )
    assert authenticator.state is SaslState.FAILED


def test_a_mechanisms_own_reason_stays_in_the_log() -> None:
    authenticator = SaslServerAuthenticator(settings(), ManualClock())
    authenticator.authenticate(handshake("GSSAPI"))
    with pytest.raises(SaslFailure) as failure:
        authenticator.authenticate(token(b"!"))
    response = answer_of(failure.value.response, ApiKeys.SASL_AUTHENTICATE, 2)
    assert response.error_message == "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"


def test_another_request_among_the_tokens_is_an_illegal_state() -> None:
    authenticator = SaslServerAuthenticator(settings(), ManualClock())
    authenticator.authenticate(handshake("PLAIN"))
    with pytest.raises(SaslFailure, match="Unexpected Kafka request of type METADATA during SASL authentication.") as failure:
        authenticator.authenticate(METADATA)
    assert answer_of(failure.value.response, ApiKeys.METADATA, 9) is not None
    for garbage in (b"", b"\x00\x24", b"\x00\x24\x00\x63\x00\x00\x00\x01\xff\xff", b"\xff" * 40):
        other = SaslServerAuthenticator(settings(), ManualClock())
        other.authenticate(handshake("PLAIN"))
        with pytest.raises(AuthenticationProtocolError):
            other.authenticate(memoryview(garbage))


@pytest.mark.parametrize(
    ("max_reauth_ms", "credential", "expected"),
    [(0, b"carol", 0), (500, b"carol", 500), (0, b"carol:+300", 300), (500, b"carol:+300", 300), (0, b"carol:-5", 0)],
)
def test_how_long_a_session_lives(max_reauth_ms: int, credential: bytes, expected: int) -> None:
    clock = ManualClock()
    name, _, delta = credential.decode().partition(":")
    data = f"{name}:{clock.time_ms() + int(delta)}".encode() if delta else name.encode()
    authenticator = SaslServerAuthenticator(settings(max_reauth_ms=max_reauth_ms), clock)
    authenticator.authenticate(handshake("GSSAPI"))
    response = answer_of(authenticator.authenticate(token(data)), ApiKeys.SASL_AUTHENTICATE, 2)
    assert (response.error_code, response.auth_bytes, response.session_lifetime_ms) == (0, b"welcome", expected)
    ends = max_reauth_ms > 0 or bool(delta)
    assert authenticator.is_session_expired(clock.monotonic_ms() + expected + 1) == ends
    assert not authenticator.is_session_expired(clock.monotonic_ms() + expected)


def test_logging_in_again_keeps_mechanism_and_principal() -> None:
    clock = ManualClock()
    again = SaslServerAuthenticator(settings(), clock, previous=logged_in(clock))
    again.authenticate(handshake("PLAIN"))
    again.authenticate(token(ALICE))
    assert again.is_complete and again.is_reauthenticating
    other = SaslServerAuthenticator(settings(), clock, previous=again)
    other.authenticate(handshake("PLAIN"))
    with pytest.raises(SaslFailure, match="Cannot change principals during re-authentication from User.alice: User.bob"):
        other.authenticate(token(BOB))
    bad = SaslServerAuthenticator(settings(), clock, previous=again)
    response = answer_of(bad.authenticate(handshake("GSSAPI")), ApiKeys.SASL_HANDSHAKE, 1)
    assert response.error_code == Errors.NONE and bad.state is SaslState.REAUTH_BAD_MECHANISM
    expected = "SASL mechanism 'GSSAPI' requested by client is not supported for re-authentication of mechanism 'PLAIN'"
    with pytest.raises(SaslFailure, match=expected):
        bad.authenticate(token(b"carol"))


def test_a_second_login_within_a_second_of_the_last_is_a_request() -> None:
    clock = ManualClock()
    first = logged_in(clock)
    assert first.may_reauthenticate(clock.monotonic_ms())
    again = SaslServerAuthenticator(settings(), clock, previous=first)
    begun_ms = clock.monotonic_ms()
    assert not again.may_reauthenticate(begun_ms + 999)
    assert again.may_reauthenticate(begun_ms + 1_000)
