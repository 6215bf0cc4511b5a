"""Listens for Connect's REST interface (Connect's `RestServer`), with aiohttp.

    server = RestServer(RestServerConfig(props), runtime)
    await server.start()                  listens; the ports of `listeners` with port 0 are known
    server.advertised_url                 what the other workers are told
    server.serve(routes, admin_routes)    answers; before that every request gets 503
    await server.stop()

Workers must know their URL before they join, and can only answer once they are made: so there are two
steps. Bodies are read whole, MAX_BODY_BYTES at most.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urljoin

from kmirror.common.errors import ConfigError
from kmirror.mirrormaker.rest.cross_origin import CrossOrigin
from kmirror.mirrormaker.rest.malformed_requests import clients_mistakes, http_log, tell
from kmirror.mirrormaker.rest.rest_client import require_aiohttp
from kmirror.mirrormaker.rest.rest_config import HTTPS, Listener, RestServerConfig
from kmirror.mirrormaker.rest.rest_messages import NOTHING, SERVICE_UNAVAILABLE, RestRequest, RestResponse, error_response
from kmirror.mirrormaker.rest.rest_router import Route, Router
from kmirror.runtime.api import Runtime
from kmirror.runtime.sockets import local_address

if TYPE_CHECKING:
    from aiohttp import web

MAX_BODY_BYTES: Final = 64 << 20
BAD_REQUEST: Final = 400
TOO_LARGE: Final = 413
STOP_S: Final = 5.0
SERVER: Final = "kmirror"
_log = logging.getLogger(__name__)


class RestServer:
    """ConfigError if aiohttp is missing, or the properties are wrong."""

    def __init__(self, config: RestServerConfig, runtime: Runtime) -> None:
        require_aiohttp()
        self.config = config
        self._runtime = runtime
        self._cross_origin = CrossOrigin(config.allowed_origins, config.allowed_methods)
        self._router: Router | None = None
        self._admin_router: Router | None = None
        self._runners: list[web.ServerRunner] = []
        self._ports: list[tuple[Listener, int]] = []

    async def start(self) -> None:
        """ConfigError if a listener cannot be opened."""
        try:
            await self._listen(self.config.listeners, is_admin=False)
            await self._listen(self.config.admin_listeners or [], is_admin=True)
        except (OSError, ConfigError) as error:
            await self.stop()
            raise ConfigError(f"Unable to initialize REST server: {error}") from error
        _log.info(
            "REST server listening at %s, advertising URL %s",
            ", ".join(self.url_of(listener) for listener, _ in self._ports),
            self.advertised_url,
        )

    def serve(self, routes: Iterable[Route], admin_routes: Iterable[Route] = ()) -> None:
        """Answers requests from now on. `admin_routes` are where `admin.listeners` says."""
        regular = [*routes]
        if self.config.admin_listeners is None:
            regular += admin_routes
        else:
            self._admin_router = Router(admin_routes)
        self._router = Router(regular)
        _log.info("REST resources initialized; server is started and ready to handle requests")

    async def stop(self) -> None:
        """Requests that are being answered have STOP_S to end."""
        for runner in self._runners:
            await runner.cleanup()
        self._runners.clear()

    @property
    def advertised_url(self) -> str:
        """Returns what other workers are told, with a slash at the end."""
        scheme = self.config.advertised_scheme
        listener = next((one for one in self.config.listeners if one.scheme == scheme), None)
        host = self.config.advertised_host or (listener.host if listener else "") or local_address()
        port = self.config.advertised_port
        if port is None and listener is not None:
            port = self.port_of(listener)
        return f"{scheme}://{_in_url(host)}{'' if port is None else f':{port}'}/"

    def port_of(self, listener: Listener) -> int:
        """Returns the port that it has, once it listens."""
        return next((port for one, port in self._ports if one is listener), listener.port)

    def url_of(self, listener: Listener) -> str:
        return f"{listener.scheme}://{_in_url(listener.host or 'localhost')}:{self.port_of(listener)}/"

    async def _listen(self, listeners: Iterable[Listener], *, is_admin: bool) -> None:
        from aiohttp import web

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            return await self._handle(request, is_admin=is_admin)

        for listener in listeners:
            context = None
            if listener.scheme == HTTPS:
                context = self.config.server_context(self._runtime.files, self._runtime.clock, is_admin=is_admin)
            runner = web.ServerRunner(web.Server(handle, access_log=None, logger=http_log), shutdown_timeout=STOP_S)
            self._runners.append(runner)
            await runner.setup()
            everywhere = None if listener.port else "0.0.0.0"  # a port that is chosen would be another one for IPv6
            site = web.TCPSite(runner, listener.host or everywhere, listener.port, ssl_context=context)
            await site.start()
            self._ports.append((listener, int(runner.addresses[0][1])))

    async def _handle(self, request: web.BaseRequest, *, is_admin: bool) -> web.StreamResponse:
        try:
            parsed = await _read(request)
        except clients_mistakes() as error:
            tell(request.remote, error)
            return _encoded(RestRequest(request.method, "/"), error_response(BAD_REQUEST, "HTTP 400 Bad Request"), [("Server", SERVER)])
        router = self._admin_router if is_admin else self._router
        if len(parsed.body) > MAX_BODY_BYTES:
            answer = error_response(TOO_LARGE, "HTTP 413 Request Entity Too Large")
        elif router is None:
            answer = error_response(SERVICE_UNAVAILABLE, "The worker is starting")
        else:
            answer = await router.answer(parsed)
        headers: list[tuple[str, str]] = [("Server", SERVER)]
        if not is_admin:
            headers += self._cross_origin.headers(parsed)
            for rule in self.config.header_rules:
                headers = rule.applied(headers, self._runtime.clock.time_ms())
        return _encoded(parsed, answer, headers)


async def _read(request: web.BaseRequest) -> RestRequest:
    path, _, query = request.raw_path.partition("?")
    return RestRequest(
        request.method,
        path,
        parse_qs(query, keep_blank_values=True),
        {name.lower(): value for name, value in request.headers.items()},
        await _body(request),
        url=f"{request.scheme}://{request.host}/",
    )


async def _body(request: web.BaseRequest) -> bytes:
    """Returns the body, cut off behind MAX_BODY_BYTES."""
    body = bytearray()
    while len(body) <= MAX_BODY_BYTES and (data := await request.content.readany()):
        body += data
    return bytes(body)


def _encoded(request: RestRequest, answer: RestResponse, headers: list[tuple[str, str]]) -> web.Response:
    from aiohttp import web

    for name, value in answer.headers.items():
        headers.append((name, f"{urljoin(request.url, '/').rstrip('/')}{value}" if name == "Location" else value))
    if answer.body is not NOTHING:
        headers.append(("Content-Type", answer.content_type))
    return web.Response(status=answer.status, body=answer.encoded(), headers=headers)


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
