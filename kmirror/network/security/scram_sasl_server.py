"""The server's side of SCRAM (Kafka's `ScramSaslServer`).

    RECEIVE_CLIENT_FIRST_MESSAGE ─> RECEIVE_CLIENT_FINAL_MESSAGE ─> COMPLETE           any error ─> FAILED

`credentials(mechanism, user)` returns what is stored for a user. With the extension
`tokenauth=true` the name is the id of a delegation token and the password its HMAC in base64, and
the client becomes the token's owner. `tokens(mechanism, token id)` returns credential, owner and
expiry.
"""

from __future__ import annotations

import base64
import enum
import hmac
from collections.abc import Callable
from typing import NamedTuple

from kmirror.common.errors import Errors
from kmirror.common.ports import Random
from kmirror.network.security.authentication_errors import SaslAuthenticationError, SaslError
from kmirror.network.security.scram_mechanism import ScramCredential, ScramMechanism, secure_random_string, username, xor
from kmirror.network.security.scram_messages import ClientFinalMessage, ClientFirstMessage, ServerFirstMessage, auth_message


class TokenCredential(NamedTuple):
    """A delegation token as a credential: `owner` is a principal's name."""

    credential: ScramCredential
    owner: str
    expiry_timestamp_ms: int


ScramCredentials = Callable[[ScramMechanism, str], ScramCredential | None]
TokenCredentials = Callable[[ScramMechanism, str], TokenCredential | None]


class ScramState(enum.Enum):
    """Which message the server expects next, or how the exchange ended."""

    RECEIVE_CLIENT_FIRST_MESSAGE = "client first"
    RECEIVE_CLIENT_FINAL_MESSAGE = "client final"
    COMPLETE = "complete"
    FAILED = "failed"


class ScramSaslServer:
    """One exchange; implements `SaslServer`."""

    def __init__(self, mechanism: ScramMechanism, credentials: ScramCredentials, tokens: TokenCredentials, random: Random) -> None:
        self._mechanism = mechanism
        self._credentials = credentials
        self._tokens = tokens
        self._random = random
        self._state = ScramState.RECEIVE_CLIENT_FIRST_MESSAGE
        self._client_first: ClientFirstMessage | None = None
        self._server_first: ServerFirstMessage | None = None
        self._credential: ScramCredential | None = None
        self.mechanism = mechanism.mechanism_name
        self.authorization_id = ""
        self.credential_lifetime_ms: int | None = None
        self.token_authenticated = False

    @property
    def is_complete(self) -> bool:
        return self._state is ScramState.COMPLETE

    def evaluate_response(self, response: bytes) -> bytes:
        try:
            if self._state is ScramState.RECEIVE_CLIENT_FIRST_MESSAGE:
                return self._receive_client_first(ClientFirstMessage.parse(response))
            if self._state is ScramState.RECEIVE_CLIENT_FINAL_MESSAGE:
                return self._receive_client_final(ClientFinalMessage.parse(response))
            text = f"Unexpected challenge in Sasl server state {self._state.name}"
            raise SaslAuthenticationError(text, Errors.ILLEGAL_SASL_STATE)
        except (SaslError, SaslAuthenticationError):
            self._state = ScramState.FAILED
            raise

    def _receive_client_first(self, message: ClientFirstMessage) -> bytes:
        try:
            name = username(message.sasl_name)
        except ValueError as error:
            raise SaslError("Authentication failed: Credentials could not be obtained") from error
        credential = self._find_token(name) if message.token_authenticated else self._find_user(name)
        if message.authorization_id and message.authorization_id != name:
            raise SaslAuthenticationError("Authentication failed: Client requested an authorization id that is different from username")
        minimum = self._mechanism.min_iterations
        if credential.iterations < minimum:
            raise SaslError(f"Iterations {credential.iterations} is less than the minimum {minimum} for {self._mechanism.name}")
        self._client_first, self._credential = message, credential
        self._server_first = ServerFirstMessage(message.nonce + secure_random_string(self._random), credential.salt, credential.iterations)
        self._state = ScramState.RECEIVE_CLIENT_FINAL_MESSAGE
        return self._server_first.text().encode()

    def _find_user(self, name: str) -> ScramCredential:
        credential = self._credentials(self._mechanism, name)
        if credential is None:
            raise SaslError("Authentication failed: Invalid user credentials")
        self.authorization_id = name
        return credential

    def _find_token(self, token_id: str) -> ScramCredential:
        token = self._tokens(self._mechanism, token_id)
        if token is None:
            raise SaslError(f"Token Authentication failed: Invalid tokenId : {token_id}")
        self.authorization_id = token.owner
        self.credential_lifetime_ms = token.expiry_timestamp_ms
        self.token_authenticated = True
        return token.credential

    def _receive_client_final(self, message: ClientFinalMessage) -> bytes:
        first, answer, credential = self._client_first, self._server_first, self._credential
        assert first is not None and answer is not None and credential is not None, "a final message before the first"
        if not message.nonce.endswith(answer.nonce):
            raise SaslError("Invalid client nonce in the final client message.")
        signed = auth_message(first.bare, answer.text(), message.without_proof)
        signature = self._mechanism.hmac(credential.stored_key, signed)
        if len(message.proof) != len(signature):
            raise SaslError("Invalid client credentials")
        stored_key = self._mechanism.stored_key(xor(signature, message.proof))
        if not hmac.compare_digest(stored_key, credential.stored_key):
            raise SaslError("Invalid client credentials")
        self._state = ScramState.COMPLETE
        return b"v=" + base64.b64encode(self._mechanism.hmac(credential.server_key, signed))
