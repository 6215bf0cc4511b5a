"""The ways in which a request to another node fails."""

from __future__ import annotations

from kmirror.common.errors import KmirrorError


class DisconnectError(KmirrorError):
    """The connection could not be made, or was lost before the response came.

    The request may have been carried out.
    """


class AuthenticationError(DisconnectError):
    """The peer refused our login, or we refused its certificate.

    Trying again with the same credentials does not help.
    """


class RequestTimeoutError(KmirrorError):
    """The response did not come in time. The request may have been carried out, or still be
    running.
    """


class NotConnectedError(RequestTimeoutError):
    """The connection was not made in time; the request was not sent."""


class UnsupportedVersionError(KmirrorError):
    """No version of this API is known to both the peer and us."""
