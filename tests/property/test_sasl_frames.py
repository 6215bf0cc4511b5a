"""Whatever a client sends before it has logged in: the state machine answers, refuses or closes,
and never breaks.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from support.brokers.network_doubles import api_versions_request, frame_of
from support.logs.storage_doubles import ManualClock, SeededRandom

from kmirror.network.security.authentication_errors import AuthenticationProtocolError, SaslAuthenticationError, SaslError
from kmirror.network.security.jaas_config import JaasConfig
from kmirror.network.security.java_key_store import JavaKeyStoreError, read_java_key_store
from kmirror.network.security.oauth_bearer_sasl import OAuthBearerSaslServer
from kmirror.network.security.oauth_bearer_token import OAuthBearerUnsecuredValidator
from kmirror.network.security.plain_sasl import PlainSaslServer
from kmirror.network.security.sasl_server_authenticator import SaslFailure, SaslServerAuthenticator, SaslSettings, SaslState
from kmirror.network.security.scram_mechanism import ScramMechanism
from kmirror.network.security.scram_sasl_client import ScramSaslClient
from kmirror.network.security.scram_sasl_server import ScramSaslServer
from kmirror.wire.framing import RequestHeader, encode_request
from kmirror.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from kmirror.wire.messages.sasl_handshake import SaslHandshakeRequest

SHA_256 = ScramMechanism.SCRAM_SHA_256
CREDENTIAL = SHA_256.credential("pw", b"salt", 4096)
CLOCK = ManualClock()
SETTINGS = SaslSettings(
    enabled_mechanisms=("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"),
    servers={
        "PLAIN": lambda: PlainSaslServer({"alice": "secret"}),
        "SCRAM-SHA-256": lambda: ScramSaslServer(SHA_256, lambda _, user: CREDENTIAL, lambda _, token: None, SeededRandom(1)),
        "OAUTHBEARER": lambda: OAuthBearerSaslServer(OAuthBearerUnsecuredValidator({}), CLOCK),
    },
    connections_max_reauth_ms={},
)


def request(message, version: int) -> bytes:
    return frame_of(encode_request(RequestHeader(message.API_KEY, version, 1, "c"), message))[4:]


tokens = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [b"\0alice\0secret", b"\0alice\0wrong", b"n,,n=alice,r=abc", b"c=biws,r=abc,p=AAAA", b"n,,\x01auth=Bearer a.b.\x01\x01", b"\x01"]
    ),
)
frames = st.one_of(
    st.binary(max_size=60),
    st.builds(
        lambda mechanism, version: request(SaslHandshakeRequest(mechanism=mechanism), version),
        st.sampled_from([*SETTINGS.enabled_mechanisms, "X"]),
        st.sampled_from([0, 1]),
    ),
    st.builds(lambda data, version: request(SaslAuthenticateRequest(auth_bytes=data), version), tokens, st.sampled_from([0, 1, 2])),
    st.integers(-1, 99).map(lambda version: api_versions_request(1, version & 0x7F)[4:]),
    tokens,
)
mutations = st.tuples(st.integers(0, 1 << 30), st.integers(0, 255))


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(frames, st.none() | mutations), max_size=6))
def test_any_frames_in_any_order(received: list[tuple[bytes, tuple[int, int] | None]]) -> None:
    authenticator = SaslServerAuthenticator(SETTINGS, CLOCK)
    for frame, mutation in received:
        data = bytearray(frame)
        if mutation is not None and data:
            data[mutation[0] % len(data)] ^= mutation[1]
        if authenticator.is_complete:
            authenticator = SaslServerAuthenticator(SETTINGS, CLOCK, previous=authenticator)
            data = bytearray(request(SaslHandshakeRequest(mechanism="PLAIN"), 1))
        try:
            authenticator.authenticate(memoryview(bytes(data)))
        except (SaslFailure, AuthenticationProtocolError):
            assert authenticator.state is SaslState.FAILED
            return
        assert authenticator.state is not SaslState.FAILED
        if authenticator.is_complete:
            assert authenticator.principal().name == "alice"


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=80), st.binary(max_size=80))
def test_no_proof_but_the_right_one(first: bytes, final: bytes) -> None:
    server = ScramSaslServer(SHA_256, lambda _, user: CREDENTIAL, lambda _, token: None, SeededRandom(1))
    client = ScramSaslClient(SHA_256, "alice", "pw", SeededRandom(2))
    try:
        server.evaluate_response(first or client.initial_response())
        server.evaluate_response(final)
    except (SaslError, SaslAuthenticationError):
        pass
    assert not server.is_complete


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="aZ1_-=;\"'\\/* \n.", max_size=40))
def test_any_jaas_text_is_parsed_or_refused(text: str) -> None:
    from kmirror.common.errors import ConfigError

    try:
        parsed = JaasConfig.parse(text)
    except ConfigError:
        return
    assert parsed.control_flag in ("required", "requisite", "sufficient", "optional")


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_java_key_store_is_read_or_refused(data: bytes) -> None:
    try:
        read_java_key_store(b"\xfe\xed\xfe\xed\x00\x00\x00\x02" + data, None, "secret")
    except JavaKeyStoreError:
        pass
