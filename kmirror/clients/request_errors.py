"""What a failed request is for a client of a cluster, as an `ApiException` where that is possible.

    a broker that is not reached or does not answer in time   NETWORK_EXCEPTION, which is retriable
    a version that the broker lacks                           UNSUPPORTED_VERSION
    an answer that is no message                              UNKNOWN_SERVER_ERROR
    a refused login                                           AuthenticationError: trying again does not help

Error codes inside responses are the caller's.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from kmirror.common.errors import ApiException, Errors
from kmirror.network.client import (
    AuthenticationError,
    DisconnectError,
    RequestTimeoutError,
    UnsupportedVersionError,
)
from kmirror.wire.primitives import ProtocolReadError


async def answer(asked: Awaitable[Any]) -> Any:
    """Returns what `asked` returns; raises `request_error` of what it raises."""
    try:
        return await asked
    except (DisconnectError, RequestTimeoutError, UnsupportedVersionError, ProtocolReadError) as error:
        found = request_error(error)
        if found is error:
            raise
        raise found from error


def request_error(error: Exception) -> Exception:
    """Returns the error of the table above; one that is not in it stays what it is."""
    if isinstance(error, AuthenticationError):
        return error
    if isinstance(error, (DisconnectError, RequestTimeoutError)):
        return ApiException(Errors.NETWORK_EXCEPTION, str(error))
    if isinstance(error, UnsupportedVersionError):
        return ApiException(Errors.UNSUPPORTED_VERSION, str(error))
    if isinstance(error, ProtocolReadError):
        return ApiException(Errors.UNKNOWN_SERVER_ERROR, f"the answer cannot be read: {error}")
    return error


def unreachable(failures: list[str]) -> ApiException:
    """The error when each of several brokers failed, with what was said of each."""
    return ApiException(Errors.NETWORK_EXCEPTION, "no broker could be reached: " + "; ".join(failures))
