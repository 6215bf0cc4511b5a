"""SaslHandshake (key 17) and SaslAuthenticate (36) where no login is expected: ILLEGAL_SASL_STATE,
the connection stays.

Served: v0-v1 and v0-v2. The logins themselves are the network's
(`network.security.sasl_server_authenticator`); here come those on a listener without SASL, a
SaslAuthenticate after the login, and a SaslHandshake too soon after the last.
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
