"""SCRAM: RFC 7677's vector, a whole exchange, and every way in which one fails."""

from __future__ import annotations

import base64

import pytest
from support.logs.storage_doubles import SeededRandom

from kmirror.common.errors import Errors
from kmirror.network.security.authentication_errors import SaslAuthenticationError, SaslError
from kmirror.network.security.scram_mechanism import ScramCredential, ScramMechanism, sasl_name, secure_random_string, username
from kmirror.network.security.scram_messages import ServerFirstMessage, auth_message, client_final_without_proof
from kmirror.network.security.scram_sasl_client import ScramSaslClient
from kmirror.network.security.scram_sasl_server import ScramSaslServer, TokenCredential

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


def test_the_vector_of_rfc_7677() -> None:
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    server_first = f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    parsed = ServerFirstMessage.parse(server_first.encode())
    assert parsed.text() == server_first
    salted = SHA_256.salted_password("pencil", parsed.salt, parsed.iterations)
    signed = auth_message("n=user,r=rOprNGfwEbeRWgbNEkqO", server_first, client_final_without_proof(nonce))
    assert base64.b64encode(SHA_256.client_proof(salted, signed)) == b"dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    signature = SHA_256.hmac(SHA_256.server_key(salted), signed)
    assert base64.b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def server_with(credentials: dict[str, ScramCredential], mechanism: ScramMechanism = SHA_256, tokens: object = None) -> ScramSaslServer:
    return ScramSaslServer(mechanism, lambda _, user: credentials.get(user), lambda _, token: (tokens or {}).get(token), SeededRandom(1))


def exchange(client: ScramSaslClient, server: ScramSaslServer) -> None:
    final = client.evaluate_challenge(server.evaluate_response(client.initial_response()))
    assert final is not None
    assert client.evaluate_challenge(server.evaluate_response(final)) is None


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
@pytest.mark.parametrize("user", ["alice", "a=b,c", "käthe"])
def test_an_exchange_names_the_user(mechanism: ScramMechanism, user: str) -> None:
    if not user.isascii():
        with pytest.raises(SaslError, match="Invalid SCRAM client first message format"):
            exchange(ScramSaslClient(mechanism, user, "pw", SeededRandom(2)), server_with({}, mechanism))
        return
    server = server_with({user: mechanism.credential("pw", b"salt", 4096)}, mechanism)
    client = ScramSaslClient(mechanism, user, "pw", SeededRandom(2))
    exchange(client, server)
    assert (server.is_complete, client.is_complete, server.authorization_id) == (True, True, user)
    assert (server.credential_lifetime_ms, server.token_authenticated) == (None, False)


def test_a_wrong_password_and_an_unknown_user_fail_without_a_text_for_the_client() -> None:
    server = server_with({"alice": SHA_256.credential("right", b"salt", 4096)})
    with pytest.raises(SaslError, match="Invalid client credentials"):
        exchange(ScramSaslClient(SHA_256, "alice", "wrong", SeededRandom(2)), server)
    with pytest.raises(SaslAuthenticationError, match="Unexpected challenge in Sasl server state FAILED") as raised:
        server.evaluate_response(b"n,,n=alice,r=x")
    assert raised.value.error is Errors.ILLEGAL_SASL_STATE
    with pytest.raises(SaslError, match="Authentication failed: Invalid user credentials"):
        exchange(ScramSaslClient(SHA_256, "nobody", "x", SeededRandom(2)), server_with({}))


def test_another_authorization_id_is_refused_aloud() -> None:
    server = server_with({"alice": SHA_256.credential("pw", b"salt", 4096)})
    with pytest.raises(SaslAuthenticationError, match="Client requested an authorization id that is different from username"):
        server.evaluate_response(b"n,a=bob,n=alice,r=abc")


def test_a_credential_with_too_few_iterations_is_no_credential() -> None:
    server = server_with({"alice": SHA_256.credential("pw", b"salt", 10)})
    with pytest.raises(SaslError, match="Iterations 10 is less than the minimum 4096"):
        server.evaluate_response(b"n,,n=alice,r=abc")


def test_a_token_makes_its_owner_of_the_client() -> None:
    token = TokenCredential(SHA_256.credential("hmac", b"salt", 4096), "alice", 12345)
    server = server_with({"t1": SHA_256.credential("other", b"salt", 4096)}, tokens={"t1": token})
    exchange(ScramSaslClient(SHA_256, "t1", "hmac", SeededRandom(2), token_auth=True), server)
    assert (server.authorization_id, server.credential_lifetime_ms, server.token_authenticated) == ("alice", 12345, True)
    with pytest.raises(SaslError, match="Token Authentication failed: Invalid tokenId : t2"):
        server_with({}).evaluate_response(b"n,,n=t2,r=abc,tokenauth=true")


@pytest.mark.parametrize("message", [b"", b"y,,n=a,r=b", b"n,,r=b", b"n,,n=a=b,r=c", b"n,,n=a,r=", b"\xff\xfe", b"n,,n=a,r=b,1=2"])
def test_first_messages_that_are_none(message: bytes) -> None:
    with pytest.raises(SaslError, match="Invalid SCRAM client first message format"):
        server_with({"a": SHA_256.credential("pw", b"s", 4096)}).evaluate_response(message)


@pytest.mark.parametrize(
    "change", [lambda final: b"garbage", lambda final: final[:-8] + b"AAAA", lambda final: final.replace(b"r=", b"r=!!", 1)[:-1]]
)
def test_final_messages_that_are_none(change) -> None:
    server = server_with({"a": SHA_256.credential("pw", b"s", 4096)})
    client = ScramSaslClient(SHA_256, "a", "pw", SeededRandom(2))
    final = client.evaluate_challenge(server.evaluate_response(client.initial_response()))
    with pytest.raises(SaslError):
        server.evaluate_response(change(final))
    assert not server.is_complete


def test_the_client_notices_a_server_that_does_not_know_the_credential() -> None:
    client = ScramSaslClient(SHA_256, "a", "pw", SeededRandom(2))
    first = client.initial_response().decode()
    nonce = first.partition("r=")[2]
    client.evaluate_challenge(f"r={nonce}xyz,s=c2FsdA==,i=4096".encode())
    with pytest.raises(SaslError, match="Invalid server signature"):
        client.evaluate_challenge(b"v=" + base64.b64encode(b"x" * 32))
    other = ScramSaslClient(SHA_256, "a", "pw", SeededRandom(3))
    other.initial_response()
    with pytest.raises(SaslError, match="Invalid server nonce"):
        other.evaluate_challenge(b"r=elsewhere,s=c2FsdA==,i=4096")


def test_names_and_nonces() -> None:
    assert sasl_name("a=b,c") == "a=3Db=2Cc" and username("a=3Db=2Cc") == "a=b,c"
    with pytest.raises(ValueError, match="Invalid username: a=b"):
        username("a=b")
    first, second = secure_random_string(SeededRandom(1)), secure_random_string(SeededRandom(2))
    assert first != second and first.isalnum() and len(first) >= 24
