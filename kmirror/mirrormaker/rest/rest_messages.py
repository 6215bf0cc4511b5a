"""Requests and answers as resources see them, without HTTP's bytes.

An error's body is `{"error_code": 404, "message": "Connector x not found"}` (Connect's
`ErrorMessage`), whatever it comes from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kmirror.mirrormaker.herder.herder import INTERNAL_SERVER_ERROR, HerderError

OK, CREATED, ACCEPTED, NO_CONTENT = 200, 201, 202, 204
FORBIDDEN, METHOD_NOT_ALLOWED, NOT_ACCEPTABLE, UNSUPPORTED_MEDIA_TYPE, SERVICE_UNAVAILABLE = 403, 405, 406, 415, 503
JSON: Final = "application/json"
NOTHING: Final = object()
"""An answer has no body (None is `null`)."""


@dataclass(frozen=True)
class RestRequest:
    """`path` is as sent, still encoded; `params` are the parts of it that a resource names, decoded;
    `url` is where the request went, up to the path.
    """

    method: str
    path: str
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    """By names in small letters."""
    body: bytes = b""
    params: Mapping[str, str] = field(default_factory=dict)
    url: str = ""

    def flag(self, name: str) -> bool | None:
        """Returns a query parameter as Java reads a Boolean: anything but `true` is false; None if
        it is missing.
        """
        values = self.query.get(name)
        return None if not values else values[0].lower() == "true"

    def json(self, *, numbers_as_text: bool = False) -> Any:
        """Returns the body, None if there is none. HerderError 500, as of Connect, if it is not JSON.

        `numbers_as_text`: numbers come as they are written.
        """
        if not self.body.strip():
            return None
        try:
            if numbers_as_text:
                return json.loads(self.body, parse_int=str, parse_float=str, parse_constant=_no_number)
            return json.loads(self.body, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise HerderError(INTERNAL_SERVER_ERROR, f"The body is not JSON: {error}") from error


@dataclass(frozen=True)
class RestResponse:
    status: int = OK
    body: Any = NOTHING
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = JSON

    def encoded(self) -> bytes:
        if self.body is NOTHING:
            return b""
        if self.content_type != JSON:
            return str(self.body).encode()
        return json.dumps(self.body, separators=(",", ":"), ensure_ascii=False).encode()


def error_response(status: int, message: str | None) -> RestResponse:
    return RestResponse(status, {"error_code": status, "message": message})


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not a number of JSON")
