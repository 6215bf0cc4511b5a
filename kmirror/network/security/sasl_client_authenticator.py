"""A client's login over a connection whose versions are known: SaslHandshake v1, then
SaslAuthenticate (Kafka's `SaslClientAuthenticator`).

Peers that know only SaslHandshake v0, where tokens are bare frames, are not supported: they are
older than any peer of ours.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from kmirror.common.errors import Errors
from kmirror.network.security.authentication_errors import SaslError
from kmirror.network.security.sasl_client import SaslClient
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.framing import read_response
from kmirror.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from kmirror.wire.messages.sasl_handshake import SaslHandshakeRequest

SaslRequest = SaslHandshakeRequest | SaslAuthenticateRequest
Exchange = Callable[[SaslRequest, int], Awaitable[memoryview]]
"""Sends a request in a version and returns the frame of its response."""


class ChooseVersion(Protocol):
    """`NodeApiVersions.choose`."""

    def __call__(self, api_key: int, *, version: int | None, max_version: int | None) -> int: ...


async def authenticate(sasl: SaslClient, mechanism: str, *, choose_version: ChooseVersion, exchange: Exchange) -> int:
    """Logs in. Returns how long the session lives in ms, 0 for ever.

    SaslError with the peer's reason if it refuses us, or with ours if we distrust the peer.
    """
    version = choose_version(ApiKeys.SASL_HANDSHAKE, version=1, max_version=None)
    frame = await exchange(SaslHandshakeRequest(mechanism=mechanism), version)
    handshake: Any = read_response(ApiKeys.SASL_HANDSHAKE, version, frame)[1]
    if handshake.error_code:
        raise SaslError(_handshake_text(handshake, mechanism))
    version = choose_version(ApiKeys.SASL_AUTHENTICATE, version=None, max_version=None)
    lifetime_ms = 0
    token: bytes | None = sasl.initial_response()
    while token is not None:
        frame = await exchange(SaslAuthenticateRequest(auth_bytes=token), version)
        answer: Any = read_response(ApiKeys.SASL_AUTHENTICATE, version, frame)[1]
        if answer.error_code:
            raise SaslError(answer.error_message or Errors.for_code(answer.error_code).message)
        lifetime_ms = answer.session_lifetime_ms
        token = sasl.evaluate_challenge(bytes(answer.auth_bytes))
    return lifetime_ms


def _handshake_text(handshake: Any, mechanism: str) -> str:
    enabled = ", ".join(handshake.mechanisms)
    if handshake.error_code == Errors.UNSUPPORTED_SASL_MECHANISM:
        return f"Client SASL mechanism '{mechanism}' not enabled in the server, enabled mechanisms are [{enabled}]"
    if handshake.error_code == Errors.ILLEGAL_SASL_STATE:
        return f"Unexpected handshake request with client mechanism {mechanism}, enabled mechanisms are [{enabled}]"
    return f"{Errors.for_code(handshake.error_code).name} in answer to the handshake with mechanism {mechanism}"
