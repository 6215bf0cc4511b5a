"""The interface of a SASL mechanism on the server's side (Java's `SaslServer`): tokens in, tokens
out, and at the end a name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class SaslServer(Protocol):
    """One exchange.

    `authorization_id`, `credential_lifetime_ms` and `token_authenticated` are read after
    `is_complete`.
    """

    @property
    def mechanism(self) -> str: ...

    @property
    def is_complete(self) -> bool: ...

    @property
    def authorization_id(self) -> str:
        """The name of the principal, before any mapping."""
        ...

    @property
    def credential_lifetime_ms(self) -> int | None:
        """When the credential expires (wall clock), None if it does not."""
        ...

    @property
    def token_authenticated(self) -> bool:
        """Whether the client logged in with a delegation token."""
        ...

    def evaluate_response(self, response: bytes) -> bytes:
        """The next challenge; SaslError or SaslAuthenticationError when the exchange has failed."""
        ...


SaslServerFactory = Callable[[], SaslServer]
