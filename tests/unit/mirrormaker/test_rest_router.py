"""Which resource a request is for, what is refused without one, and where requests go on (RE2)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from kmirror.common.errors import KmirrorError
from kmirror.mirrormaker.herder.herder import HerderError, RequestTargetError
from kmirror.mirrormaker.rest import request_forwarding
from kmirror.mirrormaker.rest.request_forwarding import Forwarded, complete, complete_or_forward
from kmirror.mirrormaker.rest.rest_messages import RestRequest, RestResponse, error_response
from kmirror.mirrormaker.rest.rest_router import Route, Router, path_segments


async def echo(request: RestRequest) -> RestResponse:
    return RestResponse(body=dict(request.params))


async def broken(_: RestRequest) -> RestResponse:
    raise ZeroDivisionError("nobody foresaw this")


async def refused(_: RestRequest) -> RestResponse:
    raise HerderError(409, "taken")


async def failed(_: RestRequest) -> RestResponse:
    raise KmirrorError("the cluster is away")


ROUTES = [
    Route("GET", "/things/{name}", echo),
    Route("PUT", "/things/{name}", echo),
    Route("GET", "/things/{name}/parts/{number:int}", echo),
    Route("GET", "/things/all", refused),
    Route("POST", "/things", broken),
    Route("PUT", "/things", failed),
    Route("POST", "/internal", echo, reads_any=True),
]


def answer(method: str, path: str, **headers: str) -> RestResponse:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return asyncio.run(Router(ROUTES).answer(RestRequest(method, path, headers=sent)))


@pytest.mark.item("RE2")
def test_re2_parts_of_a_path_are_named_and_fixed_names_come_first() -> None:
    assert answer("GET", "/things/a%20b/").body == {"name": "a b"}
    assert answer("GET", "/things/a;v=1/parts/+7;x").body == {"name": "a", "number": "+7"}
    assert answer("GET", "/things/all") == error_response(409, "taken")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/other", 404),
        ("GET", "/things/a/parts/x", 404),
        ("GET", "/things/a/parts/2147483648", 404),
        ("DELETE", "/things/a", 405),
        ("HEAD", "/things/a", 200),
        ("HEAD", "/internal", 405),
        ("POST", "/things", 500),
        ("PUT", "/things", 500),
    ],
)
def test_re2_statuses(method: str, path: str, status: int) -> None:
    assert answer(method, path).status == status


def test_re2_options_names_the_methods() -> None:
    found = answer("OPTIONS", "/things/a")
    assert (found.status, found.body, found.headers) == (200, "HEAD, GET, PUT, OPTIONS", {"Allow": "HEAD,GET,PUT,OPTIONS"})
    assert found.encoded() == b"HEAD, GET, PUT, OPTIONS"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content_type": "text/plain"}, 415),
        ({"content_type": "Application/JSON; charset=utf-8"}, 200),
        ({"content_type": "json"}, 400),
        ({"accept": "text/html"}, 406),
        ({"accept": "text/html, application/*;q=0.2"}, 200),
        ({"accept": ""}, 200),
    ],
)
def test_re2_types_of_bodies(headers: dict[str, str], status: int) -> None:
    assert answer("GET", "/things/a", **headers).status == status


def test_re2_internal_requests_have_bodies_of_any_type() -> None:
    assert answer("POST", "/internal", content_type="application/octet-stream").status == 200


@pytest.mark.parametrize("path", ["/a//b", "/a%2Fb", "/a%5cb", "/a%25b", "/%2e%2e", "/%FF", "/a%00", "/a%", "/a%0a", "/a%7F"])
def test_re2_a_path_with_two_readings_is_refused(path: str) -> None:
    with pytest.raises(HerderError) as refusal:
        path_segments(path)
    assert refusal.value.status == 400


def test_re2_names_of_other_languages_and_dots_that_are_written_out() -> None:
    assert path_segments("/%C3%A4/../a+b") == ["ä", "..", "a+b"]


class Worker:
    """Another worker; notes what it is asked."""

    def __init__(self, status: int = 200, body: Any = None) -> None:
        self.asked: list[tuple[str, str, Any, Mapping[str, str] | None]] = []
        self._answer = status, body

    async def exchange(self, url: str, method: str, body: Any = None, *, headers: Mapping[str, str] | None = None) -> tuple[int, Any]:
        self.asked.append((url, method, body, headers))
        return self._answer


async def elsewhere(url: str | None) -> str:
    raise RequestTargetError("only the leader", url)


def forward(request: RestRequest, worker: Worker, url: str | None = "http://leader:1/") -> Any:
    return asyncio.run(complete_or_forward(elsewhere(url), worker, request, "/connectors/a b", query={"x": "true"}, body={"c": 1}))


def test_re2_a_request_goes_on_once_and_from_there_once_more() -> None:
    worker = Worker(201, {"name": "a b"})
    found = forward(RestRequest("PUT", "/", headers={"authorization": "Basic x"}), worker)
    assert isinstance(found, Forwarded) and (found.status, found.body) == (201, {"name": "a b"})
    forward(RestRequest("PUT", "/", {"forward": ["true"]}), worker)
    assert worker.asked == [
        ("http://leader:1/connectors/a%20b?forward=true&x=true", "PUT", {"c": 1}, {"Authorization": "Basic x"}),
        ("http://leader:1/connectors/a%20b?forward=false&x=true", "PUT", {"c": 1}, None),
    ]


@pytest.mark.parametrize(
    ("query", "url", "message"),
    [({"forward": ["false"]}, "http://leader:1/", "conflicting operation"), ({}, None, "no known leader URL")],
)
def test_re2_a_request_that_finds_nobody_is_a_conflict(query: dict[str, list[str]], url: str | None, message: str) -> None:
    worker = Worker()
    with pytest.raises(HerderError, match=message) as refusal:
        forward(RestRequest("PUT", "/", query), worker, url)
    assert refusal.value.status == 409 and not worker.asked


def test_re2_an_answer_that_does_not_come_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_forwarding, "REQUEST_TIMEOUT_MS", 1)
    with pytest.raises(HerderError, match="Request timed out"):
        asyncio.run(complete(asyncio.sleep(5)))
