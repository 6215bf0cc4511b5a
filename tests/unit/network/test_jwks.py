"""Key sets at URLs: fetched over the simulated network, again when keys are rotated, and not for
everybody who asks.
"""

from __future__ import annotations

import json

import pytest

from kmirror.network.http_client import HttpError, http_get, response_body
from kmirror.network.security.jwks import Backoff, RefreshingJwks
from kmirror.server.http_server import HttpResponse, HttpServer
from kmirror.sim.loop import SimLoop
from kmirror.sim.runtime import SimWorld

URL = "http://issuer:8080/keys?x=1"


class Issuer:
    def __init__(self) -> None:
        self.world = SimWorld(SimLoop(3))
        self.node = self.world.node("issuer").boot()
        self.broker = self.world.node("broker").boot()
        self.keys = ["k1"]
        self.status = 200
        self.fetches = 0
        self.http = HttpServer(self.node, "issuer", 8080, {"/keys": self.answer})

    def start(self) -> None:
        self.world.loop.run_until_complete(self.node.spawn(self.http.start(), name="start"))

    def answer(self) -> HttpResponse:
        self.fetches += 1
        return HttpResponse(self.status, "application/json", [json.dumps({"keys": [{"kid": kid} for kid in self.keys]}).encode()])

    def jwks(self, *, refresh_ms: int = 3_600_000) -> RefreshingJwks:
        return RefreshingJwks(self.broker, URL, None, Backoff(100, 10_000), refresh_ms=refresh_ms)

    def run_ms(self, ms: int) -> None:
        self.world.loop.run_for_us(ms * 1000)

    @property
    def now_ms(self) -> int:
        return self.broker.clock.time_ms()


@pytest.fixture
def issuer():
    issuer = Issuer()
    yield issuer
    failures = issuer.world.loop.failures
    issuer.world.close()
    assert failures == []


def test_keys_are_there_before_the_first_login_and_follow_rotations(issuer):
    issuer.start()
    jwks = issuer.jwks()
    assert not jwks.loaded.done()
    issuer.run_ms(1_000)
    assert jwks.loaded.done()
    assert jwks.find("k1", issuer.now_ms) == {"kid": "k1"} and jwks.find(None, issuer.now_ms) == {"kid": "k1"}
    issuer.keys = ["k1", "k2"]
    assert jwks.find("k2", issuer.now_ms) is None, "it is fetched now"
    issuer.run_ms(1_000)
    assert jwks.find("k2", issuer.now_ms) == {"kid": "k2"} and issuer.fetches == 2


def test_keys_that_nobody_has_are_looked_for_once_a_minute(issuer):
    issuer.start()
    jwks = issuer.jwks()
    issuer.run_ms(1_000)
    for _ in range(59):
        assert jwks.find("unknown", issuer.now_ms) is None
        issuer.run_ms(1_000)
    assert issuer.fetches == 2
    issuer.run_ms(1_000)
    jwks.find("unknown", issuer.now_ms)
    jwks.find("x" * 1_001, issuer.now_ms)
    issuer.run_ms(1_000)
    assert issuer.fetches == 3
    for number in range(1_000):
        jwks.find(f"other-{number}", issuer.now_ms)
        issuer.run_ms(1)
    assert issuer.fetches <= 3 + 4, "many names: the pauses between looks double"


def test_keys_are_fetched_again_in_time(issuer):
    issuer.start()
    jwks = issuer.jwks(refresh_ms=60_000)
    issuer.run_ms(61_000)
    issuer.keys = ["k3"]
    assert jwks.find("k1", issuer.now_ms) == {"kid": "k1"}
    issuer.run_ms(1_000)
    assert jwks.find("k1", issuer.now_ms) is None and jwks.find("k3", issuer.now_ms) == {"kid": "k3"}


def test_an_issuer_that_fails_leaves_the_keys_as_they_were(issuer):
    issuer.start()
    jwks = issuer.jwks(refresh_ms=60_000)
    issuer.run_ms(61_000)
    issuer.status = 503
    jwks.find("k1", issuer.now_ms)
    issuer.run_ms(1_000)
    assert issuer.fetches == 2 and jwks.find("k1", issuer.now_ms) == {"kid": "k1"}


def test_an_issuer_that_is_not_there_holds_logins_up_for_a_while_only(issuer):
    jwks = issuer.jwks()
    issuer.run_ms(2_000)
    assert jwks.loaded.done() and jwks.find("k1", issuer.now_ms) is None
    issuer.start()
    issuer.run_ms(10_000)
    jwks.find("k1", issuer.now_ms)
    issuer.run_ms(1_000)
    assert jwks.find("k1", issuer.now_ms) == {"kid": "k1"}


def test_a_closed_listener_fetches_no_more(issuer):
    jwks = issuer.jwks()
    issuer.run_ms(1)
    jwks.close()
    issuer.start()
    issuer.run_ms(5_000)
    assert issuer.fetches == 0


@pytest.mark.parametrize(
    ("received", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd", b"abc"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcd", None),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n", b"abcde"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nd", None),
        (b"HTTP/1.1 200 OK\r\n", None),
        (b"HTTP/1.0 200 OK\r\n\r\nall of it", None),
    ],
)
def test_bodies_of_answers(received: bytes, body: bytes | None) -> None:
    assert response_body(received, at_end=False) == body


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    assert response_body(b"HTTP/1.0 200 OK\r\n\r\nall of it", at_end=True) == b"all of it"


@pytest.mark.parametrize(
    ("received", "text"),
    [
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "the response is 404 Not Found"),
        (b"220 mail.example\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "not HTTP"),
        (b"x" * 70_000, "not HTTP"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (16 * 1024 * 1024 + 1), "larger than"),
    ],
)
def test_answers_that_are_none(received: bytes, text: str) -> None:
    with pytest.raises(HttpError, match=text):
        response_body(received, at_end=False)


def test_a_server_that_says_nothing_is_given_up(issuer):
    class Silent:
        def connection_made(self, connection) -> None: ...

        def get_buffer(self, size_hint: int) -> memoryview:
            return memoryview(bytearray(1_000))

        def buffer_updated(self, size: int) -> None: ...

        def connection_lost(self, error) -> None: ...

    issuer.world.loop.run_until_complete(issuer.node.spawn(issuer.node.listen("issuer", 8080, Silent), name="listen"))
    getting = issuer.broker.spawn(http_get(issuer.broker, URL, context=None, timeout_ms=500), name="get")
    with pytest.raises(HttpError, match="did not answer in 500 ms"):
        issuer.world.loop.run_until_complete(getting)
