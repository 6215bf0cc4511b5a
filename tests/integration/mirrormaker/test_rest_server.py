"""The server of Connect's REST interface on real sockets, and the client that other workers have (RE2, RE3)."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.mirrormaker.connect_workers import Answer, ask
from support.waiting import REACHED_S

from kmirror.common.errors import ConfigError
from kmirror.embedded_security import Security
from kmirror.mirrormaker.cycles import SourceAndTarget
from kmirror.mirrormaker.herder.herder import HerderError, RequestTargetError
from kmirror.mirrormaker.rest import rest_server
from kmirror.mirrormaker.rest.internal_resource import flow_routes
from kmirror.mirrormaker.rest.rest_client import RestClient
from kmirror.mirrormaker.rest.rest_config import RestServerConfig
from kmirror.mirrormaker.rest.rest_messages import RestRequest, RestResponse
from kmirror.mirrormaker.rest.rest_router import Route
from kmirror.mirrormaker.rest.rest_server import RestServer
from kmirror.network.security import replaced_stores
from kmirror.runtime.asyncio_runtime import AsyncioRuntime, run

Use = Callable[[RestServer, RestClient], Coroutine[Any, Any, None]]


async def told(request: RestRequest) -> RestResponse:
    return RestResponse(201, {"got": request.json(), "type": request.headers.get("content-type")}, {"Location": "/a b".replace(" ", "%20")})


ROUTES = [Route("PUT", "/told", told), Route("GET", "/told", told)]


def serving(props: dict[str, str], use: Use, *, routes: Sequence[Route] | None = ROUTES, admin: Sequence[Route] = ()) -> None:
    async def main(runtime: AsyncioRuntime) -> None:
        config = RestServerConfig({"listeners": "http://127.0.0.1:0"} | props)
        server, client = RestServer(config, runtime), RestClient(config, runtime.files)
        await server.start()
        if routes is not None:
            server.serve(routes, admin)
        try:
            await use(server, client)
        finally:
            await server.stop()

    run(main)


async def answer(server: RestServer, method: str, path: str, body: Any = None, listener: int = 0, **headers: str) -> Answer:
    listeners = [*server.config.listeners, *(server.config.admin_listeners or [])]
    address = f"127.0.0.1:{server.port_of(listeners[listener])}"
    return await asyncio.to_thread(ask, address, method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})


def test_until_it_serves_every_request_is_too_early() -> None:
    async def use(server: RestServer, client: RestClient) -> None:
        with pytest.raises(HerderError, match="The worker is starting") as refusal:
            await client.http_request(f"{server.advertised_url}told", "GET")
        assert refusal.value.status == 503

    serving({}, use, routes=None)


def test_re2_headers_of_answers() -> None:
    async def use(server: RestServer, _: RestClient) -> None:
        found = await answer(server, "PUT", "/told", {"a": "ä"}, Origin="https://a")
        assert (found.status, found.json()) == (201, {"got": {"a": "ä"}, "type": "application/json"})
        wanted = {"server": "kmirror", "x-frame-options": "DENY", "access-control-allow-origin": "https://a", "vary": "Origin"}
        assert {name: found.headers[name] for name in wanted} == wanted
        assert found.headers["location"] == f"http://127.0.0.1:{server.port_of(server.config.listeners[0])}/a%20b"
        head = await answer(server, "HEAD", "/told")
        assert (head.status, head.body, head.headers["content-length"]) == (201, b"", str(len('{"got":null,"type":null}')))

    serving({"response.http.headers.config": "set X-Frame-Options: DENY", "access.control.allow.origin": "https://a"}, use)


def test_a_body_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_server, "MAX_BODY_BYTES", 1000)

    async def use(server: RestServer, _: RestClient) -> None:
        assert (await answer(server, "PUT", "/told", " " * 998 + "{}")).status == 201
        assert (await answer(server, "PUT", "/told", " " * 999 + "{}")).status == 413

    serving({}, use)


def test_what_is_no_http_does_not_end_the_server() -> None:
    async def use(server: RestServer, _: RestClient) -> None:
        address = ("127.0.0.1", server.port_of(server.config.listeners[0]))
        for rubbish in (b"\x16\x03\x01\x02\0\x01\0", b"GET\r\n\r\n", b"PUT /told HTTP/1.1\r\nContent-Length: 9\r\n\r\n{", b""):
            with socket.create_connection(address) as connection:
                connection.sendall(rubbish)
        assert (await answer(server, "GET", "/told")).status == 201

    serving({}, use)


def test_admin_is_where_its_listeners_are() -> None:
    admin = [Route("GET", "/admin/x", told)]

    async def together(server: RestServer, _: RestClient) -> None:
        assert [(await answer(server, "GET", path)).status for path in ("/told", "/admin/x")] == [201, 201]

    async def apart(server: RestServer, _: RestClient) -> None:
        assert [(await answer(server, "GET", path)).status for path in ("/told", "/admin/x")] == [201, 404]
        assert [(await answer(server, "GET", path, listener=1)).status for path in ("/told", "/admin/x")] == [404, 201]

    serving({}, together, admin=admin)
    serving({"admin.listeners": "http://127.0.0.1:0"}, apart, admin=admin)


def test_what_is_advertised() -> None:
    async def its_own(server: RestServer, _: RestClient) -> None:
        assert server.advertised_url == f"http://127.0.0.1:{server.port_of(server.config.listeners[0])}/"

    async def everywhere(server: RestServer, client: RestClient) -> None:
        """All interfaces, and a port that the system chooses."""
        assert (await client.exchange(f"{server.advertised_url}told", "GET"))[0] == 201

    async def another(server: RestServer, _: RestClient) -> None:
        assert server.advertised_url == "http://connect.example:99/"

    serving({}, its_own)
    serving({"listeners": "http://:0"}, everywhere)
    serving({"rest.advertised.host.name": "connect.example", "rest.advertised.port": "99"}, another)


def over_tls(folder: Path, client_auth: str = "required") -> dict[str, str]:
    """Makes stores in `folder`, each with a certificate alone; returns the properties that name them."""
    Security.ssl(users=["alice"]).prepare(folder)
    return {
        "listeners": "https://127.0.0.1:0",
        "listeners.https.ssl.keystore.type": "PEM",
        "listeners.https.ssl.keystore.location": str(folder / "broker.pem"),
        "listeners.https.ssl.truststore.type": "PEM",
        "listeners.https.ssl.truststore.location": str(folder / "ca.pem"),
        "listeners.https.ssl.client.auth": client_auth,
    }


def test_workers_ask_each_other_over_tls(tmp_path: Path) -> None:
    """The client shows its own certificate, and does not talk to a server that it does not trust."""
    tls = over_tls(tmp_path)

    async def use(server: RestServer, client: RestClient) -> None:
        assert server.advertised_url.startswith("https://127.0.0.1:")
        url = server.advertised_url.replace("127.0.0.1", "localhost") + "told"
        assert await client.exchange(url, "PUT", [1]) == (201, {"got": [1], "type": "application/json"})
        assert await client.exchange(url, "PUT") == (201, {"got": None, "type": None})
        (tmp_path / "other").mkdir()
        Security.ssl(users=["alice"]).prepare(tmp_path / "other")
        other = {name: value.replace(str(tmp_path), str(tmp_path / "other")) for name, value in tls.items()}
        stranger = RestClient(RestServerConfig(other), client._files)
        with pytest.raises(HerderError, match="IO Error trying to forward REST request: .*ertificate"):
            await stranger.exchange(url, "GET")

    serving(tls, use)


async def chain_sent(server: RestServer, folder: Path, protocol: ssl.TLSVersion) -> int:
    """How many certificates the server sends, to a client that shows its own and is answered."""
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    context.load_cert_chain(folder / "alice.pem")
    context.minimum_version = context.maximum_version = protocol
    reader, writer = await asyncio.open_connection("localhost", server.port_of(server.config.listeners[0]), ssl=context)
    writer.write(b"GET /told HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 201 ")
    tls = writer.get_extra_info("ssl_object")
    writer.close()
    return len((tls if hasattr(tls, "get_unverified_chain") else tls._sslobj).get_unverified_chain())


@pytest.mark.parametrize("protocol", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("client_auth", ["none", "requested", "required"])
def test_the_trusted_root_is_not_sent(tmp_path: Path, client_auth: str, protocol: ssl.TLSVersion, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenSSL would complete the chain from the trust store, as long as that is the server's own."""

    async def use(server: RestServer, _: RestClient) -> None:
        assert await chain_sent(server, tmp_path, protocol) == 1
        store = tmp_path / "broker.pem"
        store.write_bytes(store.read_bytes() + (tmp_path / "ca.pem").read_bytes())
        assert await chain_sent(server, tmp_path, protocol) == 2  # whoever wants the root sent puts it there

    monkeypatch.setattr(replaced_stores, "LOOK_EVERY_MS", 0)
    serving(over_tls(tmp_path, client_auth), use)


@pytest.mark.parametrize("client_auth", ["requested", "required"])
def test_a_client_of_another_authority_is_not_answered(tmp_path: Path, client_auth: str) -> None:
    """Whoever is told the certificate before anybody is trusted is checked all the same."""

    async def use(server: RestServer, client: RestClient) -> None:
        url = server.advertised_url.replace("127.0.0.1", "localhost") + "told"
        stranger = RestClient(
            RestServerConfig(tls | {"listeners.https.ssl.keystore.location": str(tmp_path / "other/alice.pem")}), client._files
        )
        assert (await client.exchange(url, "GET"))[0] == 201
        with pytest.raises(HerderError, match="IO Error trying to forward REST request: "):
            await stranger.exchange(url, "GET")

    tls = over_tls(tmp_path, client_auth)
    (tmp_path / "other").mkdir()
    over_tls(tmp_path / "other")
    serving(tls, use)


class Flow:
    """A herder of a flow, as far as nodes ask each other; `leader` is the URL of the one that may."""

    def __init__(self, leader: str | None) -> None:
        self.leader = leader
        self.done: list[Any] = []

    async def put_task_configs(self, connector: str, configs: Any, signature: Any) -> None:
        await self._do(connector, configs)

    async def fence_zombie_source_tasks(self, connector: str, signature: Any) -> None:
        await self._do(connector)

    async def _do(self, *what: Any) -> None:
        if self.leader != "":
            raise RequestTargetError("only the leader", self.leader)
        self.done.append(what)


@pytest.mark.item("RE3")
def test_re3_what_a_node_may_not_do_its_leader_does() -> None:
    async def main(runtime: AsyncioRuntime) -> None:
        config = RestServerConfig({"listeners": "http://127.0.0.1:0"}, is_internal=True)
        client, flow = RestClient(config, runtime.files), SourceAndTarget("A", "B & C")
        servers, flows = [RestServer(config, runtime) for _ in range(2)], [Flow(None), Flow("")]
        for server, one in zip(servers, flows, strict=True):
            await server.start()
            server.serve(flow_routes({flow: one}, client))  # type: ignore[dict-item]
        base = f"{servers[0].advertised_url}A/B%20%26%20C/connectors/c"
        with pytest.raises(HerderError, match="no known leader URL") as refusal:
            await client.http_request(f"{base}/fence", "PUT")
        assert refusal.value.status == 409
        flows[0].leader = servers[1].advertised_url
        assert await client.http_request(f"{base}/tasks", "POST", [{"a": "1"}]) is None
        assert await client.http_request(f"{base}/fence", "PUT") is None
        assert flows[1].done == [("c", [{"a": "1"}]), ("c",)]
        flows[1].leader = servers[0].advertised_url
        with pytest.raises(HerderError, match="conflicting operation"):
            await client.http_request(f"{base}/fence", "PUT")
        with pytest.raises(HerderError, match="No replication flow found for source 'A' and target 'X'") as refusal:
            await client.http_request(f"{servers[0].advertised_url}A/X/connectors/c/fence", "PUT")
        assert refusal.value.status == 404
        for server in servers:
            await server.stop()

    run(main)


def test_a_listener_that_is_taken_is_one_clear_line() -> None:
    async def use(server: RestServer, _: RestClient) -> None:
        port = server.port_of(server.config.listeners[0])
        with pytest.raises(ConfigError, match="Unable to initialize REST server: .*address already in use"):
            await RestServer(RestServerConfig({"listeners": f"http://127.0.0.1:{port}"}), server._runtime).start()

    serving({}, use)


def test_without_aiohttp_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(ConfigError, match=r"pip install 'kmirror\[rest\]'"):
        run(_make_server)


async def _make_server(runtime: AsyncioRuntime) -> None:
    RestServer(RestServerConfig({}), runtime)


MALFORMED = {
    "another protocol": b"GET /told HTTX/1.1\r\n\r\n",
    "a header without a colon": b"GET /told HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n",
    "a length that is no number": b"PUT /told HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
    "two lengths": b"PUT /told HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "a chunk without a size": b"PUT /told HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
    "a body that is no gzip": b"PUT /told HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd",
    "a path that is none": b"GET http://[ HTTP/1.1\r\nHost: a\r\n\r\n",
    "a long line": b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    "a zero byte": b"GET /told HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n",
}


@pytest.mark.parametrize("sent", MALFORMED.values(), ids=MALFORMED)
def test_malformed_http_is_one_line_and_no_traceback(sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
    def raw(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), REACHED_S) as client:
            client.sendall(sent)
            return client.recv(65_536)

    async def use(server: RestServer, _: RestClient) -> None:
        received = await asyncio.to_thread(raw, server.port_of(server.config.listeners[0]))
        assert received.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")) and b"Traceback" not in received, received[:200]
        assert (await answer(server, "GET", "/told")).status == 201, "others are served"

    serving({}, use)
    lines = [record for record in caplog.records if record.name.startswith(("aiohttp", "kmirror.mirrormaker.rest.http"))]
    assert len(lines) <= 1 and all(record.exc_info is None and "\n" not in record.getMessage() for record in lines), lines
