"""OAUTHBEARER (RFC 7628), both sides (Kafka's `OAuthBearerSaslServer` and `OAuthBearerSaslClient`).

The client's first message is `n,[a=authzid],` and then pairs, each begun and the whole ended by \\x01: `auth=Bearer <token>` and extensions.
A refused token is answered with a JSON text, `{"status":"invalid_token"}`; the client says \\x01 to it, and only then is it
told that the authentication failed, with that text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from kmirror.common.ports import Clock
from kmirror.network.security.authentication_errors import SaslAuthenticationError, SaslError
from kmirror.network.security.oauth_bearer_token import IllegalTokenError, OAuthBearerToken, Validator, check_extension

OAUTHBEARER: Final = "OAUTHBEARER"
_SEPARATOR: Final = "\x01"
_FIRST = re.compile(r"n,(?:a=((?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,\x01((?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01")
_AUTH = re.compile(r"(\w+) +([-_~+/.a-zA-Z0-9]+=*)", re.ASCII)


class OAuthBearerSaslServer:
    """The server of one exchange; implements `SaslServer`."""

    mechanism = OAUTHBEARER
    token_authenticated = False

    def __init__(self, validate: Validator, clock: Clock) -> None:
        self._validate = validate
        self._clock = clock
        self._error_message: str | None = None
        self._token: OAuthBearerToken | None = None

    @property
    def is_complete(self) -> bool:
        return self._token is not None

    @property
    def authorization_id(self) -> str:
        return "" if self._token is None else self._token.principal_name

    @property
    def credential_lifetime_ms(self) -> int | None:
        return None if self._token is None else self._token.lifetime_ms

    def evaluate_response(self, response: bytes) -> bytes:
        if response == b"\x01" and self._error_message is not None:
            raise SaslAuthenticationError(self._error_message)
        self._error_message = None
        compact, authorization_id = _read_first(response)
        try:
            token = self._validate(compact, self._clock.time_ms())
        except IllegalTokenError as error:
            self._error_message = _json_error(error.scope)
            return self._error_message.encode()
        if authorization_id and authorization_id != token.principal_name:
            raise SaslAuthenticationError(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different from "
                f"the token's principal name ({token.principal_name})"
            )
        self._token = token
        return b""


def _json_error(scope: str | None) -> str:
    if scope is None:
        return '{"status":"invalid_token"}'
    return f'{{"status":"insufficient_scope", "scope":"{scope}"}}'


def _read_first(response: bytes) -> tuple[str, str]:
    """(token, authorization id) of a client's first message."""
    match = _FIRST.fullmatch(response.decode("utf-8", "replace"))
    if match is None:
        raise SaslError("Invalid OAUTHBEARER client first message")
    pairs = dict(entry.split("=", 1) for entry in match[2].split(_SEPARATOR) if entry)
    auth = pairs.pop("auth", None)
    if auth is None:
        raise SaslError("Invalid OAUTHBEARER client first message: 'auth' not specified")
    for name, value in pairs.items():
        problem = check_extension(name, value)
        if problem is not None:
            raise SaslError(problem)
    bearer = _AUTH.fullmatch(auth)
    if bearer is None:
        raise SaslError("Invalid OAUTHBEARER client first message: invalid 'auth' format")
    if bearer[1].lower() != "bearer":
        raise SaslError(f"Invalid scheme in OAUTHBEARER client first message: {bearer[1]}")
    return bearer[2], match[1] or ""


class OAuthBearerSaslClient:
    """The client of one exchange; `token()` returns the compact token to log in with."""

    def __init__(self, token: Callable[[], str], extensions: Mapping[str, str]) -> None:
        self._token = token
        self._extensions = extensions
        self._refused: str | None = None
        self.is_complete = False

    def initial_response(self) -> bytes:
        pairs = [f"auth=Bearer {self._token()}", *(f"{name}={value}" for name, value in self._extensions.items())]
        return ("n,," + "".join(_SEPARATOR + pair for pair in pairs) + _SEPARATOR * 2).encode()

    def evaluate_challenge(self, challenge: bytes) -> bytes | None:
        if challenge:
            self._refused = challenge.decode("utf-8", "replace")
            return _SEPARATOR.encode()
        if self._refused is not None:
            raise SaslError(f"the server refused the token: {self._refused}")
        self.is_complete = True
        return None
