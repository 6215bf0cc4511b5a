"""The interface of a SASL mechanism on the client's side (Java's `SaslClient`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class SaslClient(Protocol):
    """One exchange with one server."""

    @property
    def is_complete(self) -> bool: ...

    def initial_response(self) -> bytes:
        """The first token."""
        ...

    def evaluate_challenge(self, challenge: bytes) -> bytes | None:
        """The next token; None when the server expects none. SaslError if the exchange failed or
        the server proved to be false.
        """
        ...


SaslClientFactory = Callable[[str], SaslClient]
"""Makes the client of an exchange with the server at a host."""
