"""How an authentication fails, told apart as in Kafka.

The client is sent the text of a `SaslAuthenticationError`. It is not sent that of a `SaslError`
(Java's SaslException), which could reveal whether a user exists: the client gets a general text,
and the real one goes to the log. An `AuthenticationProtocolError` means that the peer does not
follow the protocol; it gets no answer.
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
    """A frame that is not allowed in this state was received; the connection is closed at once."""


class SslHandshakeError(KmirrorError):
    """The TLS handshake failed: no trust, no common version, or no TLS at all."""
