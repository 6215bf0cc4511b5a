"""SaslHandshake (key 17) and SaslAuthenticate (36) where no login is expected: they answer
ILLEGAL_SASL_STATE, and the connection stays open.

Served: v0-v1 and v0-v2. `network.security.sasl_server_authenticator` handles the logins themselves.
This module gets the requests on a listener without SASL, a SaslAuthenticate after the login, and a
SaslHandshake that follows the last one too soon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmirror.common.errors import Errors
from kmirror.server.request import Request
from kmirror.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from kmirror.wire.messages.sasl_handshake import SaslHandshakeResponse

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis


async def handle_sasl_handshake(apis: KafkaApis, request: Request) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=Errors.ILLEGAL_SASL_STATE)


async def handle_sasl_authenticate(apis: KafkaApis, request: Request) -> SaslAuthenticateResponse:
    text = "SaslAuthenticate request received after successful authentication"
    return SaslAuthenticateResponse(error_code=Errors.ILLEGAL_SASL_STATE, error_message=text)
