"""PLAIN (RFC 4616): `[authzid] NUL user NUL password` (Kafka's `PlainSaslServer` and
`PlainServerCallbackHandler`).

The broker's users are the options `user_<name>="<password>"` of its JAAS entry.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from kmirror.network.security.authentication_errors import SaslAuthenticationError, SaslError

PLAIN: Final = "PLAIN"
USER_PREFIX: Final = "user_"
_TOKENS: Final = 3


def users_of(jaas_options: Mapping[str, str]) -> dict[str, str]:
    """The users of a JAAS entry: name -> password."""
    return {name.removeprefix(USER_PREFIX): value for name, value in jaas_options.items() if name.startswith(USER_PREFIX)}


class PlainSaslServer:
    """One exchange; implements `SaslServer`."""

    mechanism = PLAIN
    credential_lifetime_ms: int | None = None
    token_authenticated = False

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users
        self.is_complete = False
        self.authorization_id = ""

    def evaluate_response(self, response: bytes) -> bytes:
        tokens = response.decode("utf-8", "replace").split("\0", _TOKENS)
        if len(tokens) != _TOKENS:
            raise SaslAuthenticationError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(tokens)}")
        authorization_id, user, password = tokens
        if not user:
            raise SaslAuthenticationError("Authentication failed: username not specified")
        if not password:
            raise SaslAuthenticationError("Authentication failed: password not specified")
        expected = self._users.get(user)
        if expected is None or not hmac.compare_digest(expected.encode(), password.encode()):
            raise SaslAuthenticationError("Authentication failed: Invalid username or password")
        if authorization_id and authorization_id != user:
            raise SaslAuthenticationError("Authentication failed: Client requested an authorization id that is different from username")
        self.authorization_id = user
        self.is_complete = True
        return b""


class PlainSaslClient:
    """One exchange; implements `SaslClient`."""

    def __init__(self, user: str, password: str) -> None:
        self._token = f"\0{user}\0{password}".encode()
        self.is_complete = False

    def initial_response(self) -> bytes:
        return self._token

    def evaluate_challenge(self, challenge: bytes) -> bytes | None:
        if challenge:
            raise SaslError("the server answered PLAIN with a challenge")
        self.is_complete = True
        return None
