"""PLAIN, OAUTHBEARER (unsecured and signed), and the JAAS texts that configure them: Kafka's
refusals, word for word.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.logs.storage_doubles import ManualClock

from kmirror.common.errors import ConfigError
from kmirror.network.security.authentication_errors import SaslAuthenticationError, SaslError
from kmirror.network.security.jaas_config import JaasConfig
from kmirror.network.security.jwks import Backoff, FileJwks
from kmirror.network.security.jwt_validator import JwtValidator
from kmirror.network.security.oauth_bearer_sasl import OAuthBearerSaslClient, OAuthBearerSaslServer
from kmirror.network.security.oauth_bearer_token import (
    IllegalTokenError,
    OAuthBearerUnsecuredValidator,
    encode_base64url,
    unsecured_token,
)
from kmirror.network.security.plain_sasl import PlainSaslClient, PlainSaslServer, users_of
from kmirror.runtime.os_files import OsFileSystem

NOW_MS = 1_750_000_000_000
NOW_S = NOW_MS // 1000


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (b"alice\0secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0secret\0more", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0secret", "Authentication failed: Invalid username or password"),
        (b"bob\0alice\0secret", "Authentication failed: Client requested an authorization id that is different from username"),
    ],
)
def test_plain_refuses(token: bytes, text: str) -> None:
    server = PlainSaslServer({"alice": "secret"})
    with pytest.raises(SaslAuthenticationError) as refusal:
        server.evaluate_response(token)
    assert str(refusal.value) == text and not server.is_complete


def test_plain_lets_in() -> None:
    server, client = PlainSaslServer(users_of({"user_alice": "secret", "username": "x"})), PlainSaslClient("alice", "secret")
    assert client.evaluate_challenge(server.evaluate_response(client.initial_response())) is None
    assert server.is_complete and client.is_complete and server.authorization_id == "alice"


# --- JAAS
# -----------------------------------------------------------------------------------------------------------


def test_jaas_options_with_quotes_escapes_and_comments() -> None:
    parsed = JaasConfig.parse('a.b.C required // comment\n user_x=\'its\' /* more */ password="a\\"b\\\\;\\n" name=plain-word;')
    assert (parsed.login_module, parsed.control_flag) == ("a.b.C", "required")
    assert parsed.options["password"] == 'a"b\\;\n' and parsed.options["name"] == "plain-word"
    assert 'a"b' not in repr(parsed)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "Login module not specified in JAAS config"),
        ("a.B", "Login module control flag not specified in JAAS config"),
        ("a.B ;", "Login module control flag is not available in the JAAS config"),
        ("a.B wanted;", "Invalid login module control flag 'wanted' in JAAS config"),
        ("a.B required user=", "Value not specified for key 'user' in JAAS config"),
        ("a.B required user=12345;", "Value not specified for key 'user' in JAAS config"),
        ("a.B required user", "Value not specified for key 'user' in JAAS config"),
        ('a.B required user="x"', "JAAS config entry not terminated by semi-colon"),
        ("a.B required; c.D required;", "JAAS config property contains 2 login modules, should be 1 module"),
        ("com.sun.security.auth.module.JndiLoginModule required;", "com.sun.security.auth.module.JndiLoginModule is not allowed."),
    ],
)
def test_jaas_texts_that_are_none(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        JaasConfig.parse(text)
    assert str(refusal.value).startswith(problem)


# --- OAUTHBEARER
# ----------------------------------------------------------------------------------------------------


def compact(header: object, claims: object, signature: str = "") -> str:
    parts = [part if isinstance(part, str) else encode_base64url(json.dumps(part).encode()) for part in (header, claims)]
    return f"{parts[0]}.{parts[1]}.{signature}"


def claims(**changes: object) -> dict[str, object]:
    values = {"sub": "alice", "iat": NOW_S - 10, "exp": NOW_S + 100, **changes}
    return {name: value for name, value in values.items() if value is not None}


NONE = {"alg": "none"}


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        ("a..b", "Malformed compact serialization contains '..'"),
        ("a.b", "Unsecured JWS compact serializations must have 3 dot-separated Base64URL-encoded values"),
        (compact("!", claims()), "malformed Base64 URL encoded value"),
        (compact(encode_base64url(b"{"), claims()), "malformed JSON"),
        (compact(encode_base64url(b"[1]"), claims()), "malformed JSON"),
        (compact({"alg": "RS256"}, claims()), "Unsecured JWS must have 'none' for an algorithm"),
        (compact(NONE, claims(), "QUJD"), "Unsecured JWS must not contain a digital signature"),
        (compact(NONE, claims(exp=None)), "No expiration time in JWT"),
        (compact(NONE, claims(exp="soon")), "The 'exp' claim was not of type Number: String"),
        (compact(NONE, claims(sub=None)), "No principal name in JWT claim: sub"),
        (compact(NONE, claims(sub=" ")), "No principal name in JWT claim: sub"),
        (compact(NONE, claims(sub=7)), "The 'sub' claim was not of type String: Integer"),
        (compact(NONE, claims(scope=7)), "The 'scope' claim was not of type List: Integer"),
        (
            compact(NONE, claims(iat=NOW_S + 5)),
            f"The Issued At value ({NOW_S + 5}.000000 seconds) was after the indicated time ({NOW_MS} ms) plus allowable clock skew (0 ms)",
        ),
        (
            compact(NONE, claims(exp=NOW_S)),
            f"The indicated time ({NOW_MS} ms) minus allowable clock skew (0 ms) was on or after the Expiration Time value ({NOW_S}.000000 seconds)",
        ),
    ],
)
def test_unsecured_tokens_that_are_refused(token: str, reason: str) -> None:
    with pytest.raises(IllegalTokenError) as refusal:
        OAuthBearerUnsecuredValidator({})(token, NOW_MS)
    assert str(refusal.value) == reason


def test_an_unsecured_token_that_is_valid() -> None:
    token = OAuthBearerUnsecuredValidator({})(compact(NONE, claims(scope=["a", " ", "b "])), NOW_MS)
    assert token == ("alice", (NOW_S + 100) * 1000, ("a", "b"))
    options = {"unsecuredValidatorPrincipalClaimName": "name", "unsecuredValidatorAllowableClockSkewMs": "2000"}
    padded = OAuthBearerUnsecuredValidator({})(compact(NONE, claims(sub=" alice ")), NOW_MS)
    assert padded.principal_name == " alice ", "Kafka checks it without the blanks, and takes it as it is"
    late = compact(NONE, claims(name="bob", exp=NOW_S - 1))
    assert OAuthBearerUnsecuredValidator(options)(late, NOW_MS).principal_name == "bob"


def test_clock_skews_that_are_none() -> None:
    with pytest.raises(ConfigError, match="Allowable clock skew millis must not be negative: -1"):
        OAuthBearerUnsecuredValidator({"unsecuredValidatorAllowableClockSkewMs": "-1"})
    with pytest.raises(ConfigError, match='For input string: "x"'):
        OAuthBearerUnsecuredValidator({"unsecuredValidatorAllowableClockSkewMs": "x"})


def oauth_server(options: dict[str, str] | None = None) -> OAuthBearerSaslServer:
    return OAuthBearerSaslServer(OAuthBearerUnsecuredValidator(options or {}), ManualClock(NOW_MS))


def test_a_refused_token_is_told_in_two_steps() -> None:
    server = oauth_server({"unsecuredValidatorRequiredScope": "read write"})
    client = OAuthBearerSaslClient(lambda: compact(NONE, claims(scope=["read"])), {})
    challenge = server.evaluate_response(client.initial_response())
    assert challenge == b'{"status":"insufficient_scope", "scope":"[read, write]"}'
    answer = client.evaluate_challenge(challenge)
    assert answer == b"\x01"
    with pytest.raises(SaslAuthenticationError) as refusal:
        server.evaluate_response(answer)
    assert str(refusal.value) == challenge.decode()
    expired = oauth_server()
    assert (
        expired.evaluate_response(f"n,,\x01auth=Bearer {compact(NONE, claims(exp=1, iat=None))}\x01\x01".encode())
        == b'{"status":"invalid_token"}'
    )


def test_a_login_with_extensions() -> None:
    token = unsecured_token({"unsecuredLoginStringClaim_sub": "alice", "unsecuredLoginListClaim_scope": "|a|b"}, NOW_MS)
    server, client = oauth_server({"unsecuredValidatorRequiredScope": "b"}), OAuthBearerSaslClient(lambda: token, {"traceId": "123"})
    assert client.evaluate_challenge(server.evaluate_response(client.initial_response())) is None
    assert server.is_complete and server.authorization_id == "alice" and server.credential_lifetime_ms == NOW_MS + 3_600_000


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"x", "Invalid OAUTHBEARER client first message"),
        (b"n,,\x01a=b\x01\x01", "Invalid OAUTHBEARER client first message: 'auth' not specified"),
        (b"n,,\x01auth=Bearer\x01\x01", "Invalid OAUTHBEARER client first message: invalid 'auth' format"),
        (b"n,,\x01auth=Basic abc\x01\x01", "Invalid scheme in OAUTHBEARER client first message: Basic"),
    ],
)
def test_oauth_first_messages_that_are_none(message: bytes, text: str) -> None:
    with pytest.raises(SaslError) as refusal:
        oauth_server().evaluate_response(message)
    assert str(refusal.value) == text


def test_an_authorization_id_must_be_the_tokens_principal() -> None:
    message = f"n,a=bob,\x01auth=Bearer {compact(NONE, claims())}\x01\x01".encode()
    with pytest.raises(
        SaslAuthenticationError, match=r"an authorization id \(bob\) that is different from the token's principal name \(alice\)"
    ):
        oauth_server().evaluate_response(message)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "No principal name in JWT claim: sub"),
        ({"unsecuredLoginStringClaim_iat": "1"}, "Cannot explicitly set the 'iat' claim"),
        ({"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginLifetimeSeconds": "x"}, 'For input string: "x"'),
    ],
)
def test_logins_that_make_no_token(options: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        unsecured_token(options, NOW_MS)
    assert str(refusal.value) == text


# --- signed tokens
# --------------------------------------------------------------------------------------------------


class Signer:
    """A key pair, its JSON Web Key, and tokens signed with it."""

    def __init__(self, key_id: str, *, elliptic: bool) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec, rsa

        self.key_id, self.elliptic = key_id, elliptic
        self.key = ec.generate_private_key(ec.SECP256R1()) if elliptic else rsa.generate_private_key(65537, 2048)
        numbers = self.key.public_key().public_numbers()

        def text(number: int) -> str:
            return encode_base64url(number.to_bytes((number.bit_length() + 7) // 8, "big"))

        kinds = (
            {"kty": "EC", "crv": "P-256", "x": text(numbers.x), "y": text(numbers.y)}
            if elliptic
            else {"kty": "RSA", "n": text(numbers.n), "e": text(numbers.e)}
        )
        self.web_key = {"kid": key_id, **kinds}

    def sign(self, values: dict[str, object]) -> str:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, padding, utils

        signed = compact({"alg": "ES256" if self.elliptic else "RS256", "kid": self.key_id}, values).rstrip(".")
        if not self.elliptic:
            return f"{signed}.{encode_base64url(self.key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"
        r, s = utils.decode_dss_signature(self.key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{encode_base64url(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def jwt_validator(path: Path, **changes: object) -> JwtValidator:
    settings = {"expected_audience": [], "expected_issuer": None, "clock_skew_seconds": 30, "scope_claim": "scope", "sub_claim": "sub"}
    return JwtValidator(jwks=FileJwks(str(path), OsFileSystem(), Backoff(100, 10_000)), **settings | changes)


@pytest.mark.parametrize("elliptic", [True, False])
def test_signed_tokens(tmp_path: Path, elliptic: bool) -> None:
    signer, other, keys = Signer("k1", elliptic=elliptic), Signer("k1", elliptic=True), tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": [signer.web_key]}))
    validate = jwt_validator(keys, expected_audience=["kafka"], expected_issuer="me")
    good = claims(aud=["kafka", "x"], iss="me", scope="all")
    assert validate(signer.sign(good), NOW_MS) == ("alice", (NOW_S + 100) * 1000, ("all",))
    padded = good | {"sub": " alice ", "scope": ["read ", " write"]}
    assert validate(signer.sign(padded), NOW_MS) == ("alice", (NOW_S + 100) * 1000, ("read", "write"))
    refused = {
        "doesn't contain an acceptable identifier": good | {"aud": "other"},
        "doesn't match expected value of me": good | {"iss": "you"},
        "no longer valid": good | {"exp": NOW_S - 31},
        "not yet valid": good | {"nbf": NOW_S + 60},
        "sub value must be non-null, non-empty, and non-whitespace": good | {"sub": " "},
        "scope value must be non-null, non-empty, and non-whitespace": good | {"scope": ["all", " "]},
        "scope value must not contain duplicates - all already present": good | {"scope": ["all", " all "]},
        "No Expiration Time": {name: value for name, value in good.items() if name != "iat"},
    }
    for reason, values in refused.items():
        with pytest.raises(IllegalTokenError, match=reason):
            validate(signer.sign(values), NOW_MS)
    with pytest.raises(IllegalTokenError, match="The algorithm none is not acceptable"):
        validate(compact(NONE, good), NOW_MS)
    with pytest.raises(IllegalTokenError, match="signature was invalid"):
        validate(other.sign(good), NOW_MS)


def test_keys_can_be_rotated(tmp_path: Path) -> None:
    first, second, keys = Signer("k1", elliptic=True), Signer("k2", elliptic=True), tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": [first.web_key]}))
    validate = jwt_validator(keys)
    with pytest.raises(IllegalTokenError, match="Unable to find a suitable verification key for the kid k2"):
        validate(second.sign(claims()), NOW_MS)
    keys.write_text(json.dumps({"keys": [first.web_key, second.web_key]}))
    assert validate(second.sign(claims()), NOW_MS + 100).principal_name == "alice"


def test_tokens_with_unknown_keys_made_the_broker_read_its_file_each_time(tmp_path: Path) -> None:
    keys, reads = tmp_path / "keys.json", []

    class CountingFiles(OsFileSystem):
        def read_bytes(self, path: str) -> bytes:
            reads.append(path)
            return super().read_bytes(path)

    keys.write_text(json.dumps({"keys": [{"kid": "k1"}]}))
    jwks = FileJwks(str(keys), CountingFiles(), Backoff(100, 400))
    assert [jwks.find(f"unknown-{number}", NOW_MS) for number in range(100)] == [None] * 100
    assert len(reads) == 2, "once at the start, once for the first of them"
    for now_ms, expected in ((99, 2), (100, 3), (299, 3), (300, 4), (699, 4), (700, 5), (1_099, 5), (1_100, 6)):
        jwks.find("unknown", NOW_MS + now_ms)
        assert len(reads) == expected, now_ms
    keys.write_text(json.dumps({"keys": [{"kid": "k1"}, {"kid": "k2"}]}))
    assert jwks.find("k2", NOW_MS + 1_500) == {"kid": "k2"}
    assert len(reads) == 7


def test_a_key_set_that_is_being_replaced_refuses_unknown_keys_and_goes_on_with_those_it_has(tmp_path: Path) -> None:
    """The error of the file ended the connection as if the broker had failed."""
    first, second, keys = Signer("k1", elliptic=True), Signer("k2", elliptic=True), tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": [first.web_key]}))
    validate = jwt_validator(keys)
    keys.write_text("{")
    with pytest.raises(IllegalTokenError, match="Unable to find a suitable verification key for the kid k2"):
        validate(second.sign(claims()), NOW_MS)
    assert validate(first.sign(claims()), NOW_MS).principal_name == "alice"


def test_key_sets_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Cannot read the JSON Web Key Set"):
        jwt_validator(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("[]")
    with pytest.raises(ConfigError, match="is not a JSON Web Key Set"):
        jwt_validator(tmp_path / "bad.json")
