"""The client's side of SCRAM (Kafka's `ScramSaslClient`). It also checks that the server knows the
credential.
"""

from __future__ import annotations

import base64
import hmac

from kmirror.common.ports import Random
from kmirror.network.security.authentication_errors import SaslError
from kmirror.network.security.scram_mechanism import ScramMechanism, sasl_name, secure_random_string
from kmirror.network.security.scram_messages import (
    GS2_HEADER,
    ServerFinalMessage,
    ServerFirstMessage,
    auth_message,
    client_final_without_proof,
)


class ScramSaslClient:
    """One exchange. `token_auth`: user and password are those of a delegation token."""

    def __init__(self, mechanism: ScramMechanism, user: str, password: str, random: Random, *, token_auth: bool = False) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = secure_random_string(random)
        self._bare = f"n={sasl_name(user)},r={self._nonce}" + (",tokenauth=true" if token_auth else "")
        self._expected_signature: bytes | None = None
        self.is_complete = False

    def initial_response(self) -> bytes:
        return (GS2_HEADER + self._bare).encode()

    def evaluate_challenge(self, challenge: bytes) -> bytes | None:
        if self._expected_signature is None:
            return self._answer(ServerFirstMessage.parse(challenge), challenge.decode())
        self._verify(ServerFinalMessage.parse(challenge))
        return None

    def _answer(self, message: ServerFirstMessage, text: str) -> bytes:
        if not message.nonce.startswith(self._nonce):
            raise SaslError("Invalid server nonce: does not start with client nonce")
        if message.iterations < self._mechanism.min_iterations:
            minimum = self._mechanism.min_iterations
            raise SaslError(
                f"Requested iterations {message.iterations} is less than the minimum {minimum} for {self._mechanism.mechanism_name}"
            )
        salted = self._mechanism.salted_password(self._password, message.salt, message.iterations)
        final = client_final_without_proof(message.nonce)
        signed = auth_message(self._bare, text, final)
        self._expected_signature = self._mechanism.hmac(self._mechanism.server_key(salted), signed)
        proof = base64.b64encode(self._mechanism.client_proof(salted, signed)).decode()
        return f"{final},p={proof}".encode()

    def _verify(self, message: ServerFinalMessage) -> None:
        if message.error is not None:
            raise SaslError(f"Sasl authentication using {self._mechanism.mechanism_name} failed with error: {message.error}")
        assert self._expected_signature is not None, "a final message before the first"
        if not hmac.compare_digest(message.signature, self._expected_signature):
            raise SaslError("Invalid server signature in server final message")
        self.is_complete = True
