"""What resources answer when another worker has done it, or nobody could (RE2). All other answers are
compared with Apache's in tests/interop/mirrormaker/test_connect_rest.py.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from support.logs.storage_doubles import ManualClock

from kmirror.mirrormaker.connector_validation import ConfigInfos
from kmirror.mirrormaker.herder.connect_protocol import ConnectorTaskId
from kmirror.mirrormaker.herder.herder import ConnectorInfo, HerderError, RequestTargetError
from kmirror.mirrormaker.rest.connectors_resource import ConnectorsResource
from kmirror.mirrormaker.rest.logging_resource import Loggers
from kmirror.mirrormaker.rest.plugins_resource import plugin_routes
from kmirror.mirrormaker.rest.rest_config import RestServerConfig
from kmirror.mirrormaker.rest.rest_messages import RestRequest, RestResponse
from kmirror.mirrormaker.rest.rest_router import Router
from kmirror.mirrormaker.rest.root_resource import root_routes

INFO = {"name": "c", "config": {"name": "c"}, "tasks": [{"connector": "c", "task": 0}], "type": "source"}


class NotTheLeader:
    """A herder that sends every request to the leader, but knows the connectors `a`, `gone` and `c`."""

    def __init__(self, reason: str | None = None, *, was_ready: bool = False) -> None:
        self._reason = reason
        self._was_ready = was_ready

    def __getattr__(self, _: str) -> Any:
        async def answer(*_: Any, **__: Any) -> Any:
            raise RequestTargetError("only the leader", "http://leader:1/")

        return answer

    async def connectors(self) -> list[str]:
        return ["a", "gone", "c"]

    async def connector_info(self, connector: str) -> ConnectorInfo:
        if connector == "gone":
            raise HerderError(404, "Connector gone not found")
        return ConnectorInfo(connector, {}, [ConnectorTaskId(connector, 0)])

    async def connector_active_topics(self, _: str) -> list[str]:
        return ["t"]

    async def reset_connector_active_topics(self, _: str) -> None:
        pass

    def health(self) -> str | None:
        return self._reason

    def is_ready(self) -> bool:
        return self._was_ready


class Leader:
    def __init__(self, status: int, body: Any) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self._answer = status, body

    async def exchange(self, url: str, method: str, body: Any = None, *, headers: Mapping[str, str] | None = None) -> tuple[int, Any]:
        self.asked.append((method, url, body))
        return self._answer


def answer(leader: Leader, method: str, path: str, body: Any = None, **props: str) -> RestResponse:
    config = RestServerConfig({name.replace("_", "."): value for name, value in props.items()})
    path, _, query = path.partition("?")
    parsed = {name: [value] for name, _, value in (one.partition("=") for one in query.split("&")) if name}
    request = RestRequest(method, path, parsed, body=b"" if body is None else json.dumps(body).encode())
    routes = ConnectorsResource(NotTheLeader(), leader, config).routes()  # type: ignore[arg-type]
    return asyncio.run(Router(routes).answer(request))


@pytest.mark.parametrize(("theirs", "ours"), [(201, 201), (200, 200)])
def test_re2_a_leader_that_made_a_connector_made_it(theirs: int, ours: int) -> None:
    leader = Leader(theirs, INFO)
    found = answer(leader, "PUT", "/connectors/c/config", {"tasks.max": 2})
    assert (found.status, found.body) == (ours, INFO)
    assert ("Location" in found.headers) == (ours == 201)
    assert leader.asked == [("PUT", "http://leader:1/connectors/c/config?forward=true", {"tasks.max": "2", "name": "c"})]


@pytest.mark.parametrize(
    ("method", "path", "body", "theirs", "sent", "ours"),
    [
        ("POST", "/connectors", {"name": "c", "config": {}, "initial_state": "paused"}, (201, INFO),
         {"name": "c", "config": {"name": "c"}, "initial_state": "PAUSED"}, (201, INFO)),
        ("PATCH", "/connectors/c/config", {"a": None}, (200, INFO), {"a": None}, (200, INFO)),
        ("DELETE", "/connectors/c", None, (204, None), None, (204, None)),
        ("PUT", "/connectors/c/stop", None, (204, None), None, (204, None)),
        ("POST", "/connectors/c/tasks/7/restart", None, (204, None), None, (204, None)),
        ("PATCH", "/connectors/c/offsets", {"offsets": [{"partition": {"a": 1}, "offset": None}]}, (200, {"message": "done"}),
         {"offsets": [{"partition": {"a": 1}, "offset": None}]}, (200, {"message": "done"})),
        ("DELETE", "/connectors/c/offsets", None, (200, {"message": "done"}), None, (200, {"message": "done"})),
    ],
)  # fmt: skip
def test_re2_what_the_leader_answers_is_the_answer(
    method: str, path: str, body: Any, theirs: tuple[int, Any], sent: Any, ours: tuple[int, Any]
) -> None:
    leader = Leader(*theirs)
    found = answer(leader, method, path, body)
    assert (found.status, json.loads(found.encoded() or b"null")) == ours
    assert leader.asked == [(method, f"http://leader:1{path}?forward=true", sent)]


def test_re2_a_restart_goes_on_with_what_is_to_begin_again() -> None:
    leader = Leader(202, {"name": "c"})
    found = answer(leader, "POST", "/connectors/c/restart?includeTasks=TRUE&onlyFailed=no&forward=true")
    assert (found.status, found.body) == (202, {"name": "c"})
    assert leader.asked == [("POST", "http://leader:1/connectors/c/restart?forward=false&includeTasks=true&onlyFailed=false", None)]


def test_re2_a_connector_that_goes_meanwhile_is_left_out() -> None:
    assert list(answer(Leader(200, None), "GET", "/connectors?expand=info").body) == ["a", "c"]


@pytest.mark.parametrize(
    ("props", "statuses"),
    [({}, [200, 202]), ({"topic_tracking_enable": "false"}, [403, 403]), ({"topic_tracking_allow_reset": "false"}, [200, 403])],
)
def test_re2_topics_are_shown_and_forgotten_if_the_worker_allows_it(props: dict[str, str], statuses: list[int]) -> None:
    asked = [("GET", "/connectors/c/topics"), ("PUT", "/connectors/c/topics/reset")]
    assert [answer(Leader(200, None), method, path, **props).status for method, path in asked] == statuses


@pytest.mark.parametrize(
    ("reason", "was_ready", "status", "name"),
    [(None, True, 200, "healthy"), ("it joins", False, 503, "starting"), ("it joins", True, 500, "unhealthy")],
)
def test_re2_health(reason: str | None, was_ready: bool, status: int, name: str) -> None:
    routes = root_routes(NotTheLeader(reason, was_ready=was_ready))  # type: ignore[arg-type]
    found = asyncio.run(Router(routes).answer(RestRequest("GET", "/health")))
    assert (found.status, found.body["status"]) == (status, name)
    assert reason is None or reason in found.body["message"]


@pytest.mark.parametrize(
    ("name", "location"), [("a.b", "/connectors/a.b"), ("..", "/connectors/.."), ("a+b", "/connectors/a+b"), ("%25", "/connectors/%2525")]
)
def test_re2_the_location_of_what_was_made_leads_there(name: str, location: str) -> None:
    info = {**INFO, "name": name}
    found = answer(Leader(201, info), "POST", "/connectors", {"name": name, "config": {}})
    assert found.headers["Location"] == location


@pytest.mark.parametrize(("version", "status"), [(None, 200), ("4.3.0", 200), ("latest", 200), ("1.0", 400), ("", 400)])
def test_re2_a_plugin_of_another_version_is_not_there(version: str | None, status: int) -> None:
    request = RestRequest("GET", "/connector-plugins/MirrorSource/config", {} if version is None else {"version": [version]})
    found = asyncio.run(Router(plugin_routes(lambda _: ConfigInfos("", []))).answer(request))
    assert found.status == status


def test_re2_a_logger_may_be_off_and_only_what_changes_is_told() -> None:
    loggers = Loggers(ManualClock())
    assert loggers.set_level("kmirror.test.off", " off ") == ["kmirror.test.off"]
    assert loggers.all_levels()["kmirror.test.off"]["level"] == "OFF"
    assert loggers.set_level("kmirror.test.off", "OFF") == []
    assert loggers.set_level("kmirror.test.off", "ERROR") == ["kmirror.test.off"]
