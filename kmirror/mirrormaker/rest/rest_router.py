"""Which resource a request is for, and the answers that need none (as Jersey and Jetty give them).

    404    no resource has such a path                    405    it has, but not for this method
    415    the body is said not to be JSON                406    an answer in JSON is not wanted
    400    a path that could be read in two ways: `//`, an encoded slash, percent sign, dot segment,
           backslash or control character, or what is not UTF-8

OPTIONS is answered with the methods of the path, HEAD as GET is. A slash at the end of a path changes
nothing; `;x=y` within it is left out. `{name}` in a resource's path is one part of a request's,
`{name:int}` a number.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import unquote_to_bytes

from kmirror.common.errors import KmirrorError
from kmirror.mirrormaker.herder.herder import BAD_REQUEST, INTERNAL_SERVER_ERROR, NOT_FOUND, HerderError
from kmirror.mirrormaker.rest.rest_messages import (
    JSON,
    METHOD_NOT_ALLOWED,
    NOT_ACCEPTABLE,
    UNSUPPORTED_MEDIA_TYPE,
    RestRequest,
    RestResponse,
    error_response,
)

Handler = Callable[[RestRequest], Awaitable[RestResponse]]
_INT_RANGE: Final = range(-(2**31), 2**31)
_MEDIA_TYPE: Final = re.compile(r"\s*([\w!#$&^.+*-]+)/([\w!#$&^.+*-]+)\s*(;.*)?")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Route:
    """`reads_any` resources read bodies of any type (the internal ones, which are Jersey's too)."""

    method: str
    path: str
    handler: Handler
    reads_any: bool = False


class Router:
    """Answers requests by routes. Never raises but for a cancellation."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._resources: dict[tuple[str, ...], dict[str, Route]] = {}
        for route in routes:
            self._resources.setdefault(tuple(filter(None, route.path.split("/"))), {})[route.method] = route
        self._fixed_first = sorted(self._resources, key=lambda path: [part.startswith("{") for part in path])

    async def answer(self, request: RestRequest) -> RestResponse:
        try:
            return await self._answer(request)
        except HerderError as error:
            return error_response(error.status, str(error))
        except KmirrorError as error:
            _log.error("Uncaught exception in REST call to %s: %s", request.path, error)
            return error_response(INTERNAL_SERVER_ERROR, str(error))
        except Exception as error:  # noqa: BLE001 - one request fails, not the server
            _log.exception("Uncaught exception in REST call to %s", request.path)
            return error_response(INTERNAL_SERVER_ERROR, str(error))

    async def _answer(self, request: RestRequest) -> RestResponse:
        methods, params = self._resource(path_segments(request.path))
        if request.method == "OPTIONS":
            return _options(methods)
        route = methods.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            raise HerderError(METHOD_NOT_ALLOWED, "HTTP 405 Method Not Allowed")
        content_type = request.headers.get("content-type")
        if content_type is not None and not route.reads_any and not _takes_json(content_type):
            raise HerderError(UNSUPPORTED_MEDIA_TYPE, "HTTP 415 Unsupported Media Type")
        if not _accepts_json(request.headers.get("accept", "")):
            raise HerderError(NOT_ACCEPTABLE, "HTTP 406 Not Acceptable")
        return await route.handler(replace(request, params=params))

    def _resource(self, segments: list[str]) -> tuple[dict[str, Route], dict[str, str]]:
        for path in self._fixed_first:
            params = _matched(path, segments)
            if params is not None:
                return self._resources[path], params
        raise HerderError(NOT_FOUND, "HTTP 404 Not Found")


def path_segments(path: str) -> list[str]:
    """Returns the parts of a path, decoded. HerderError 400 for one with two readings."""
    parts = [part.partition(";")[0] for part in path.split("/")]
    if any(not part for part in parts[1:-1]):
        raise HerderError(BAD_REQUEST, "Ambiguous URI empty segment")
    return [_decoded(part) for part in parts if part]


def _decoded(part: str) -> str:
    if re.search(r"%(?![0-9a-fA-F]{2})|%00", part):
        raise HerderError(BAD_REQUEST, "Bad Request")
    data = unquote_to_bytes(part)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise HerderError(BAD_REQUEST, "Bad UTF-8 encoding") from None
    if "/" in text:
        raise HerderError(BAD_REQUEST, "Ambiguous URI path separator")
    if "%" in text:
        raise HerderError(BAD_REQUEST, "Ambiguous URI path encoding")
    if "%" in part and text in (".", ".."):
        raise HerderError(BAD_REQUEST, "Ambiguous URI path segment")
    if "\\" in text or any(ord(character) < 0x20 or ord(character) == 0x7F for character in text):
        raise HerderError(BAD_REQUEST, "Suspicious Path Character")
    return text


def _matched(path: tuple[str, ...], segments: list[str]) -> dict[str, str] | None:
    if len(path) != len(segments):
        return None
    params = {}
    for part, segment in zip(path, segments):
        if not part.startswith("{"):
            if part != segment:
                return None
            continue
        name, _, kind = part[1:-1].partition(":")
        if kind == "int" and not (re.fullmatch(r"[+-]?[0-9]+", segment) and int(segment) in _INT_RANGE):
            return None
        params[name] = segment
    return params


def _options(methods: dict[str, Route]) -> RestResponse:
    names = [*(["HEAD"] if "GET" in methods else []), *methods, "OPTIONS"]
    return RestResponse(body=", ".join(names), headers={"Allow": ",".join(names)}, content_type="text/plain")


def _takes_json(content_type: str) -> bool:
    match = _MEDIA_TYPE.fullmatch(content_type)
    if match is None:
        raise HerderError(BAD_REQUEST, "Bad Request")
    return f"{match[1]}/{match[2]}".lower() in (JSON, "application/*", "*/*")


def _accepts_json(accept: str) -> bool:
    """As Jersey: a quality of 0 does not refuse."""
    wanted = [one for one in accept.split(",") if one.strip()]
    matches = [_MEDIA_TYPE.fullmatch(one) for one in wanted]
    return not wanted or any(match and f"{match[1]}/{match[2]}".lower() in (JSON, "application/*", "*/*") for match in matches)
