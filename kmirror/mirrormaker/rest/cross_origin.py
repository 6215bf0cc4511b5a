"""Which pages of other sites may ask (CORS), by `access.control.allow.origin` and `.methods`.

    access.control.allow.origin = https://ops.example.com, https://.*\\.test
    access.control.allow.methods = GET, PUT        GET, POST, HEAD if unset

An origin is a regular expression that must match all of an `Origin` header; `*` is every origin. A
browser asks for leave with OPTIONS and Access-Control-Request-Method; such a request is answered as any
other OPTIONS, with the methods and headers that are allowed.
"""

from __future__ import annotations

from typing import Final

from kmirror.common.java_patterns import compile_pattern
from kmirror.mirrormaker.rest.rest_messages import RestRequest

DEFAULT_METHODS: Final = ("GET", "POST", "HEAD")
MAX_AGE_S: Final = 60
ANY: Final = "*"


class CrossOrigin:
    """Made from both properties; does nothing if no origin is allowed. ConfigError for an origin that
    is no pattern.
    """

    def __init__(self, origins: str, methods: str) -> None:
        allowed = _entries(origins)
        self._is_on = bool(allowed)
        self._any = ANY in allowed
        self._patterns = [compile_pattern(origin, config="access.control.allow.origin") for origin in allowed if origin != ANY]
        self._methods = ",".join(_entries(methods) or DEFAULT_METHODS)

    def headers(self, request: RestRequest) -> list[tuple[str, str]]:
        """Returns the headers for the answer."""
        if not self._is_on:
            return []
        headers = [("Vary", "Origin")]
        origin = request.headers.get("origin")
        if origin is None or not self._allows(origin):
            return headers
        headers.append(("Access-Control-Allow-Origin", origin))
        if request.method == "OPTIONS" and "access-control-request-method" in request.headers:
            headers += [
                ("Access-Control-Allow-Methods", self._methods),
                ("Access-Control-Allow-Headers", "Content-Type"),
                ("Access-Control-Max-Age", str(MAX_AGE_S)),
            ]
        return headers

    def _allows(self, origin: str) -> bool:
        return self._any or any(pattern.fullmatch(origin) for pattern in self._patterns)


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]
