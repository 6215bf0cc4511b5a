"""Requests and responses as frames: a 4-byte length, a header, a message.

A request header is version 2 (with a tag section) when the API's version is flexible, else 1; its
client id is never compact. A response header is 1 or 0 by the same rule, but always 0 for
ApiVersions. Bytes after the message at the end of a frame are ignored, as in Kafka (librdkafka
sends a few).
"""

from __future__ import annotations

import struct

from msgspec import Struct

from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import Buffer, FileSlice
from kmirror.wire.api_keys import API_TABLE, ApiKeys, ApiSpec, Message
from kmirror.wire.primitives import (
    READ_ERRORS,
    ProtocolReadError,
    TaggedFields,
    Writer,
    malformed,
    read_nullable_string,
    read_tagged_fields,
)

_HEADER = struct.Struct(">hhi")
_SIZE_AND_HEADER = struct.Struct(">ihhi")
_INT32 = struct.Struct(">i")
FRAME_SIZE_BYTES = _INT32.size
REQUEST_HEADER_FIELDS_BYTES = _HEADER.size
"""A request header's fields before the client id, without the frame's size."""
_SPECS: dict[int, ApiSpec] = {int(key): spec for key, spec in API_TABLE.items()}


class RequestHeader(Struct):
    """Who asks, and for what. `api_key` is an `ApiKeys`, or an int."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None = None
    unknown_tagged_fields: TaggedFields = ()


def api_spec(api_key: int) -> ApiSpec:
    """Returns the registry's entry; raises ProtocolReadError for a key that is not an API."""
    spec = _SPECS.get(api_key)
    if spec is None:
        raise ProtocolReadError(f"unknown API key {api_key}")
    return spec


def read_request_header(buffer: memoryview, position: int = 0) -> tuple[RequestHeader, int]:
    """Returns the header and the position of the request after it. `read_request` checks the
    version."""
    try:
        api_key, api_version, correlation_id = _HEADER.unpack_from(buffer, position)
        header_version = api_spec(api_key).request_header_version(api_version)
        client_id, position = read_nullable_string(buffer, position + _HEADER.size)
        header = RequestHeader(ApiKeys(api_key), api_version, correlation_id, client_id)
        if header_version >= 2:
            header.unknown_tagged_fields, position = read_tagged_fields(buffer, position)
    except READ_ERRORS as error:
        raise malformed("request header", 1, error) from error
    return header, position


def read_request(header: RequestHeader, buffer: memoryview, position: int) -> Message:
    """Returns the request after `header`; raises UNSUPPORTED_VERSION for a version that this
    program does not know."""
    spec = api_spec(header.api_key)
    _check_version(spec, header.api_version)
    return spec.request.read(buffer, position, header.api_version)[0]


def _check_version(spec: ApiSpec, version: int) -> None:
    if not spec.lowest <= version <= spec.highest:
        raise ApiException(
            Errors.UNSUPPORTED_VERSION, f"{spec.name} version {version} is not supported; versions {spec.lowest} to {spec.highest} are"
        )


def _framed(out: Writer) -> list[Buffer | FileSlice]:
    parts = out.parts()
    length = _INT32.pack(out.size)
    if isinstance(parts[0], bytes):
        return [length + parts[0], *parts[1:]]
    return [length, *parts]


def frame_size(frame: list[Buffer | FileSlice]) -> int:
    """Returns the size in bytes of a frame of `encode_request` or `encode_response`, its length
    field included."""
    first = frame[0]
    assert isinstance(first, bytes), "a frame begins with its length"
    return _INT32.size + int(_INT32.unpack_from(first)[0])


def encode_request(header: RequestHeader, message: Message) -> list[Buffer | FileSlice]:
    """Returns the buffers to send; the first one begins with the frame's length."""
    spec = api_spec(header.api_key)
    _check_version(spec, header.api_version)
    out = Writer()
    out.append(_HEADER.pack(header.api_key, header.api_version, header.correlation_id))
    out.write_nullable_string(header.client_id)
    if spec.request_header_version(header.api_version) >= 2:
        out.write_tagged_fields(header.unknown_tagged_fields)
    message.write(out, header.api_version)
    return _framed(out)


def request_header_fields(size: int, api_key: int, version: int, correlation_id: int) -> bytes:
    """Returns a frame's beginning, up to the client id; `size` is that of all that follows the size."""
    return _SIZE_AND_HEADER.pack(size, api_key, version, correlation_id)


def request_header_end(client_id: str | None, *, is_flexible: bool) -> bytes:
    """Returns a request header from its client id on. With `is_flexible` it has tags, and none."""
    out = Writer()
    out.write_nullable_string(client_id)
    if is_flexible:
        out.write_tagged_fields(())
    return out.to_bytes()


def encode_response(api_key: int, version: int, correlation_id: int, message: Message) -> list[Buffer | FileSlice]:
    """Returns the buffers to send; the first one begins with the frame's length."""
    spec = api_spec(api_key)
    out = Writer()
    out.append(_INT32.pack(correlation_id))
    if spec.response_header_version(version) >= 1:
        out.write_tagged_fields(())
    message.write(out, version)
    return _framed(out)


def read_response(api_key: int, version: int, buffer: memoryview) -> tuple[int, Message]:
    """Returns (correlation id, response) of a frame without its length.

    A broker that does not know the version of an ApiVersions request answers in version 0, so that
    is tried too.
    """
    spec = api_spec(api_key)
    try:
        correlation_id: int = _INT32.unpack_from(buffer, 0)[0]
        position = _INT32.size
        if spec.response_header_version(version) >= 1:
            _, position = read_tagged_fields(buffer, position)
    except READ_ERRORS as error:
        raise malformed("response header", spec.response_header_version(version), error) from error
    try:
        return correlation_id, spec.response.read(buffer, position, version)[0]
    except ProtocolReadError:
        if spec.key != ApiKeys.API_VERSIONS or version == 0:
            raise
        return correlation_id, spec.response.read(buffer, position, 0)[0]
