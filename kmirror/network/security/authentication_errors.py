"""How an authentication fails, as Kafka tells the cases apart.

`SaslAuthenticationError` says to the client what it says in its text. `SaslError` (Java's
SaslException) does not: its text could tell whether a user exists, so the client reads a general
one and ours goes to the log. `AuthenticationProtocolError` is a peer that does not follow the
protocol: no answer.
"""

from __future__ import annotations

from kmirror.common.errors import Errors, KmirrorError


class SaslError(KmirrorError):
    """The exchange failed for a reason that the client is not told."""


class SaslAuthenticationError(KmirrorError):
    """The exchange failed, and the client is told why. `error` is its code."""

    def __init__(self, message: str, error: Errors = Errors.SASL_AUTHENTICATION_FAILED) -> None:
        super().__init__(message)
        self.error = error


class AuthenticationProtocolError(KmirrorError):
    """What was received is not what may come in this state; the connection is closed at once."""


class SslHandshakeError(KmirrorError):
    """TLS was not agreed upon: no trust, no common version, or no TLS at all."""
