"""What SCRAM logins are checked against: the users' credentials and delegation tokens in the
metadata image.

A token's password is its HMAC in base64, `HMAC-SHA512(delegation.token.secret.key, token id)`. The
credential for it is computed with the fewest iterations when it is first used, and is kept for
later logins (Kafka keeps them in its token cache).
"""

from __future__ import annotations

from collections.abc import Callable

from kmirror.metadata.delegation_tokens import token_hmac, token_password
from kmirror.metadata.image import MetadataImage
from kmirror.network.security.scram_mechanism import ScramCredential, ScramMechanism, secure_random_string
from kmirror.network.security.scram_sasl_server import TokenCredential
from kmirror.runtime.api import Runtime

MAX_KEPT = 1_000


class ImageCredentials:
    """Owns the credentials computed for tokens; `secret_key` None means that delegation tokens are
    off.
    """

    def __init__(self, images: Callable[[], MetadataImage], runtime: Runtime, secret_key: str | None) -> None:
        self._images = images
        self._runtime = runtime
        self._secret_key = secret_key
        self._of_tokens: dict[tuple[ScramMechanism, str], ScramCredential] = {}

    def of_user(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        data = self._images().scram.get((mechanism.type, user))
        return None if data is None else ScramCredential(data.salt, data.stored_key, data.server_key, data.iterations)

    def of_token(self, mechanism: ScramMechanism, token_id: str) -> TokenCredential | None:
        token = self._images().delegation_tokens.get(token_id)
        if token is None or self._secret_key is None or token.expiration_timestamp <= self._runtime.clock.time_ms():
            return None
        key = (mechanism, token_id)
        credential = self._of_tokens.get(key)
        if credential is None:
            salt = secure_random_string(self._runtime.random).encode()
            credential = mechanism.credential(token_password(token_hmac(self._secret_key, token_id)), salt, mechanism.min_iterations)
            if len(self._of_tokens) >= MAX_KEPT:
                self._of_tokens.clear()
            self._of_tokens[key] = credential
        owner = token.owner.partition(":")[2]
        return TokenCredential(credential, owner, token.expiration_timestamp)
