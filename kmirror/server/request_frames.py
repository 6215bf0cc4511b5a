"""Turns a frame into the request that handlers see, and their response into a frame.

Brokers and the controller's listener share it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.ports import Buffer, FileSlice
from kmirror.network.request_context import CLOSE, Answer, CloseType, RequestContext
from kmirror.runtime.api import Runtime
from kmirror.server.request import Request
from kmirror.server.request_timing import RequestTiming
from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.framing import encode_response, read_request
from kmirror.wire.messages.api_versions import ApiVersion, ApiVersionsResponse

Parts = Sequence[Buffer | FileSlice]
LARGE_BYTES: Final = 1 << 16
MANY_ELEMENTS: Final = 2_000
RECORDS: Final = (ApiKeys.PRODUCE, ApiKeys.FETCH)
_log = logging.getLogger(__name__)


def decode(context: RequestContext, timing: RequestTiming, *, is_served: bool) -> Request | Answer | CloseType:
    """Returns the request of a frame.

    A request that is not served or cannot be read closes the connection. The exception is
    ApiVersions in an unknown version, which is answered in version 0 with the versions that we
    know.
    """
    header = context.header
    api_key = ApiKeys(header.api_key)
    if not is_served:
        if api_key is ApiKeys.API_VERSIONS:
            return Answer(encode_response(api_key, 0, header.correlation_id, _unsupported_api_versions()))
        return close(context, f"Received request api key {api_key.name} with version {header.api_version} which is not enabled")
    try:
        message = read_request(header, context.buffer, context.position)
    except KmirrorError as error:
        return close(context, f"Error getting request for apiKey: {api_key.name}, apiVersion: {header.api_version}: {error}")
    return Request(
        api_key=api_key,
        api_version=header.api_version,
        correlation_id=header.correlation_id,
        client_id=header.client_id,
        message=message,
        listener_name=context.listener_name,
        client_address=context.client_address,
        connection_id=context.connection_id,
        principal=context.principal,
        security_protocol=context.security_protocol,
        size_in_bytes=len(context.buffer),
        timing=timing,
        client_information=context.client_information,
    )


async def decode_fairly(
    runtime: Runtime, context: RequestContext, timing: RequestTiming, *, is_served: bool
) -> Request | Answer | CloseType:
    """As `decode`; a large request is decoded on a worker, so that the loop goes on meanwhile.

    Records are not decoded, so a Produce of any size costs little.
    """
    if len(context.buffer) < LARGE_BYTES or context.header.api_key == ApiKeys.PRODUCE:
        return decode(context, timing, is_served=is_served)
    return await runtime.run_blocking(lambda: decode(context, timing, is_served=is_served))


async def encode_fairly(runtime: Runtime, context: RequestContext, request: Request, response: Any) -> Parts | CloseType:
    """As `encode`; a response with many elements is encoded on a worker."""
    if request.api_key in RECORDS or not _has_many_elements(response):
        return encode(context, request, response)
    return await runtime.run_blocking(lambda: encode(context, request, response))


def _has_many_elements(response: Any) -> bool:
    """Whether one of the response's lists, or a list in the first element of one, is long."""
    lists = [value for value in _values(response) if isinstance(value, list)]
    lists += [value for found in lists if found for value in _values(found[0]) if isinstance(value, list)]
    return any(len(value) >= MANY_ELEMENTS for value in lists)


def _values(struct: Any) -> list[Any]:
    return [getattr(struct, name) for name in getattr(struct, "__struct_fields__", ())]


def _unsupported_api_versions() -> ApiVersionsResponse:
    """Returns the answer to an unknown version of ApiVersions, to be written in version 0."""
    spec = API_TABLE[ApiKeys.API_VERSIONS]
    return ApiVersionsResponse(
        error_code=Errors.UNSUPPORTED_VERSION, api_keys=[ApiVersion(ApiKeys.API_VERSIONS, spec.lowest, spec.highest)]
    )


def encode(context: RequestContext, request: Request, response: Any) -> Parts | CloseType:
    """Returns the bytes of the response; CLOSE if its version cannot carry it."""
    try:
        return encode_response(request.api_key, request.api_version, request.correlation_id, response)
    except ApiException as error:
        return close(context, f"The response to {request.api_key.name} cannot be written in version {request.api_version}: {error.message}")


def close(context: RequestContext, reason: str) -> CloseType:
    _log.warning("Closing socket for %s because of error: %s", context.connection_id, reason)
    return CLOSE
