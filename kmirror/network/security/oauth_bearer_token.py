"""Bearer tokens that are JSON web tokens: parsing them, and Kafka's unsecured validator and login.

A compact JWS is three base64url texts with dots between: header, claims, signature. An unsecured
one has the algorithm "none" and no signature, so anybody can write it. It is for development only,
and yet it is Kafka's default. `OAuthBearerUnsecuredValidator` checks what Kafka's
`OAuthBearerUnsecuredValidatorCallbackHandler` checks, in the same order. Its options in the JAAS
entry: unsecuredValidatorPrincipalClaimName, ...ScopeClaimName, ...RequiredScope,
...AllowableClockSkewMs. `unsecured_token` writes a token from a client's options
(unsecuredLogin...).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from kmirror.common.errors import ConfigError, KmirrorError
from kmirror.common.numbers import is_integer

_PARTS = 3
_JAVA_TYPES = ((bool, "String"), (str, "String"), (int, "Integer"), (float, "Double"), (list, "ArrayList"))
_INT_MAX = 2**31 - 1
_EXTENSION_KEY = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")


class IllegalTokenError(KmirrorError):
    """The token is refused. `scope` is the required scope that it lacks, which the client is told
    as in Kafka.
    """

    def __init__(self, reason: str, *, scope: str | None = None) -> None:
        super().__init__(reason)
        self.scope = scope


class OAuthBearerToken(NamedTuple):
    """What a valid token says."""

    principal_name: str
    lifetime_ms: int
    scope: tuple[str, ...]


Validator = Callable[[str, int], OAuthBearerToken]
"""(compact token, now in ms) -> its content; IllegalTokenError if it is not valid."""


class JsonWebToken(NamedTuple):
    """The decoded parts of a token; `signed` is the text that the signature covers."""

    header: dict[str, Any]
    claims: dict[str, Any]
    signature: bytes
    signed: bytes

    @classmethod
    def parse(cls, compact: str) -> JsonWebToken:
        if ".." in compact:
            raise IllegalTokenError("Malformed compact serialization contains '..'")
        parts = compact.split(".")
        if len(parts) != _PARTS:
            raise IllegalTokenError("Unsecured JWS compact serializations must have 3 dot-separated Base64URL-encoded values")
        header, claims, signature = parts
        return cls(_json(header), _json(claims), decode_base64url(signature), f"{header}.{claims}".encode())

    def claim(self, name: str, expected: str) -> Any:
        """A claim of Java type `expected` ("String", "Number", "List"), None where there is
        none.
        """
        value = self.claims.get(name)
        if value is not None and not _is_type(value, expected):
            raise IllegalTokenError(f"The '{name}' claim was not of type {expected}: {_java_type(value)}")
        return value


def decode_base64url(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise IllegalTokenError("malformed Base64 URL encoded value") from error


def encode_base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _json(part: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(decode_base64url(part))
    except msgspec.DecodeError as error:
        raise IllegalTokenError("malformed JSON") from error
    if not isinstance(value, dict):
        raise IllegalTokenError("malformed JSON")
    return {name: str(item).lower() if isinstance(item, bool) else item for name, item in value.items()}


def _is_type(value: object, expected: str) -> bool:
    types: dict[str, type | tuple[type, ...]] = {"String": str, "Number": (int, float), "List": list}
    return isinstance(value, types[expected])


def _java_type(value: object) -> str:
    name = next((java for python, java in _JAVA_TYPES if isinstance(value, python)), "String")
    return "Long" if name == "Integer" and abs(int(str(value))) > _INT_MAX else name


class OAuthBearerUnsecuredValidator:
    """A `Validator` for unsecured tokens. ConfigError for a malformed clock skew."""

    def __init__(self, options: Mapping[str, str]) -> None:
        def option(name: str) -> str:
            return options.get(f"unsecuredValidator{name}", "").strip()

        self._principal_claim = option("PrincipalClaimName") or "sub"
        self._scope_claim = option("ScopeClaimName") or "scope"
        self._required_scope = option("RequiredScope").split()
        skew = option("AllowableClockSkewMs") or "0"
        if not is_integer(skew):
            raise ConfigError(f'For input string: "{skew}"')
        if int(skew) < 0:
            raise ConfigError(f"Allowable clock skew millis must not be negative: {skew}")
        self._skew_ms = int(skew)

    def __call__(self, compact: str, now_ms: int) -> OAuthBearerToken:
        token = self._parse(compact)
        issued, expires = token.claim("iat", "Number"), token.claim("exp", "Number")
        if issued is not None and 1000 * issued > now_ms + self._skew_ms:
            raise IllegalTokenError(
                f"The Issued At value ({issued:f} seconds) was after the indicated time ({now_ms} ms) "
                f"plus allowable clock skew ({self._skew_ms} ms)"
            )
        if now_ms - self._skew_ms >= 1000 * expires:
            raise IllegalTokenError(
                f"The indicated time ({now_ms} ms) minus allowable clock skew ({self._skew_ms} ms) "
                f"was on or after the Expiration Time value ({expires:f} seconds)"
            )
        if issued is not None and expires <= issued:
            raise IllegalTokenError(f"The Expiration Time time ({expires:f} seconds) was not after the Issued At time ({issued:f} seconds)")
        scope = scope_of(token, self._scope_claim)
        self._check_scope(scope)
        # Kafka's OAuthBearerUnsecuredJws refuses a blank principal and keeps the blanks around another
        return OAuthBearerToken(token.claims[self._principal_claim], round(expires * 1000), scope)

    def _parse(self, compact: str) -> JsonWebToken:
        token = JsonWebToken.parse(compact)
        if token.header.get("alg") != "none":
            raise IllegalTokenError("Unsecured JWS must have 'none' for an algorithm")
        if token.signature:
            raise IllegalTokenError("Unsecured JWS must not contain a digital signature")
        scope_of(token, self._scope_claim)
        if token.claim("exp", "Number") is None:
            raise IllegalTokenError("No expiration time in JWT")
        name = token.claim(self._principal_claim, "String")
        if name is None or not name.strip():
            raise IllegalTokenError(f"No principal name in JWT claim: {self._principal_claim}")
        return token

    def _check_scope(self, scope: Sequence[str]) -> None:
        required = f"[{', '.join(self._required_scope)}]"
        for element in self._required_scope:
            if element not in scope:
                raise IllegalTokenError(
                    f"The provided scope ([{', '.join(scope)}]) was missing a required scope ({element}).  "
                    f"All required scope elements: {required}",
                    scope=required,
                )


def scope_of(token: JsonWebToken, claim: str) -> tuple[str, ...]:
    """The scope claim, a string or a list of strings, without blank entries."""
    value = token.claims.get(claim)
    if isinstance(value, str):
        return (value.strip(),) if value.strip() else ()
    entries = token.claim(claim, "List") or []
    return tuple(str(entry).strip() for entry in entries if str(entry).strip())


def unsecured_token(options: Mapping[str, str], now_ms: int) -> str:
    """The token that Kafka's unsecured login makes from a client's JAAS options; ConfigError if
    they do not make one.
    """
    claims: dict[str, Any] = {}
    for key, value in options.items():
        for prefix, convert in _CLAIM_PREFIXES:
            if key.startswith(prefix) and len(key) > len(prefix):
                claims[_free_claim(key.removeprefix(prefix))] = convert(value)
    lifetime = options.get("unsecuredLoginLifetimeSeconds", "3600")
    if not lifetime.isdigit():
        raise ConfigError(f'For input string: "{lifetime}"')
    principal_claim = options.get("unsecuredLoginPrincipalClaimName", "").strip() or "sub"
    if not claims.get(principal_claim):
        raise ConfigError(f"No principal name in JWT claim: {principal_claim}")
    claims |= {"iat": now_ms / 1000, "exp": now_ms / 1000 + int(lifetime)}
    return f"{encode_base64url(msgspec.json.encode({'alg': 'none'}))}.{encode_base64url(msgspec.json.encode(claims))}."


def _free_claim(name: str) -> str:
    if name in ("iat", "exp"):
        raise ConfigError(f"Cannot explicitly set the '{name}' claim")
    return name


def _list_claim(value: str) -> list[str]:
    """Splits a list; its first character is the separator."""
    return value[1:].split(value[0]) if len(value) > 1 else []


def _number_claim(value: str) -> float:
    try:
        return float(value)
    except ValueError as error:
        raise ConfigError(f'For input string: "{value}"') from error


_CLAIM_PREFIXES: tuple[tuple[str, Callable[[str], Any]], ...] = (
    ("unsecuredLoginStringClaim_", str),
    ("unsecuredLoginNumberClaim_", _number_claim),
    ("unsecuredLoginListClaim_", _list_claim),
)


def check_extension(name: str, value: str) -> str | None:
    """What is wrong with a SASL extension; None if nothing is."""
    if name == "auth" or not _EXTENSION_KEY.fullmatch(name):
        return f"Extension name {name} is invalid"
    if not _EXTENSION_VALUE.fullmatch(value):
        return f"Extension value ({value}) for extension {name} is invalid"
    return None
