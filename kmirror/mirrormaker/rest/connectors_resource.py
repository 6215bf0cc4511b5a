"""/connectors: what connectors there are, and what they are told (Connect's `ConnectorsResource`).

    GET POST          /connectors                           expand=status, expand=info; initial_state
    GET DELETE        /connectors/{name}
    GET PUT PATCH     /connectors/{name}/config
    GET               /connectors/{name}/status
    GET               /connectors/{name}/tasks
    GET               /connectors/{name}/tasks/{n}/status
    POST              /connectors/{name}/tasks/{n}/restart
    POST              /connectors/{name}/restart            includeTasks, onlyFailed
    PUT               /connectors/{name}/pause, resume, stop
    GET PATCH DELETE  /connectors/{name}/offsets
    GET               /connectors/{name}/topics
    PUT               /connectors/{name}/topics/reset

What this worker may not do goes on to the one that may (`request_forwarding`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

from kmirror.mirrormaker.connector_validation import NULL_VALUE, ConfigInfo, ConfigInfos, require_valid
from kmirror.mirrormaker.herder.connect_protocol import ConnectorTaskId
from kmirror.mirrormaker.herder.herder import (
    NOT_FOUND,
    ConnectorInfo,
    ConnectorStateInfo,
    Herder,
    HerderError,
    RestartRequest,
    TargetState,
)
from kmirror.mirrormaker.rest import entities
from kmirror.mirrormaker.rest.request_forwarding import Asks, Forwarded, complete, complete_or_forward
from kmirror.mirrormaker.rest.rest_config import RestServerConfig
from kmirror.mirrormaker.rest.rest_messages import ACCEPTED, CREATED, FORBIDDEN, NO_CONTENT, RestRequest, RestResponse
from kmirror.mirrormaker.rest.rest_router import Route

T = TypeVar("T")
_PLAIN = "/!$&'()*+,;=:@"
"""Signs that a path may have as they are."""


class ConnectorsResource:
    """Answers for one herder."""

    def __init__(self, herder: Herder, client: Asks, config: RestServerConfig) -> None:
        self._herder = herder
        self._client = client
        self._config = config

    def routes(self) -> list[Route]:
        one = "/connectors/{connector}"
        return [
            Route("POST", "/connectors", self._create),
            Route("GET", "/connectors", self._list),
            Route("GET", one, self._get),
            Route("DELETE", one, self._delete),
            Route("GET", f"{one}/config", self._get_config),
            Route("PUT", f"{one}/config", self._put_config),
            Route("PATCH", f"{one}/config", self._patch_config),
            Route("GET", f"{one}/status", self._status),
            Route("GET", f"{one}/tasks", self._tasks),
            Route("GET", f"{one}/tasks/{{task:int}}/status", self._task_status),
            Route("POST", f"{one}/tasks/{{task:int}}/restart", self._restart_task),
            Route("POST", f"{one}/restart", self._restart),
            Route("PUT", f"{one}/pause", self._pause),
            Route("PUT", f"{one}/resume", self._resume),
            Route("PUT", f"{one}/stop", self._stop),
            Route("GET", f"{one}/offsets", self._offsets),
            Route("PATCH", f"{one}/offsets", self._alter_offsets),
            Route("DELETE", f"{one}/offsets", self._reset_offsets),
            Route("GET", f"{one}/topics", self._topics),
            Route("PUT", f"{one}/topics/reset", self._reset_topics),
        ]

    # What there is

    async def _list(self, request: RestRequest) -> RestResponse:
        names = await complete(self._herder.connectors())
        if "expand" not in request.query:
            return RestResponse(body=names)
        found = {}
        for name in names:
            try:
                found[name] = await self._expanded(name, request)
            except HerderError as error:
                if error.status != NOT_FOUND:  # it was removed meanwhile
                    raise
        return RestResponse(body=found)

    async def _expanded(self, name: str, request: RestRequest) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for expansion in request.query["expand"]:
            if expansion == "status":
                found["status"] = entities.connector_state(await complete(self._herder.connector_status(name)))
            elif expansion == "info":
                found["info"] = entities.connector_info(await complete(self._herder.connector_info(name)))
        return found

    async def _get(self, request: RestRequest) -> RestResponse:
        return RestResponse(body=entities.connector_info(await complete(self._herder.connector_info(_name(request)))))

    async def _get_config(self, request: RestRequest) -> RestResponse:
        return RestResponse(body=dict((await complete(self._herder.connector_info(_name(request)))).config))

    async def _status(self, request: RestRequest) -> RestResponse:
        return RestResponse(body=entities.connector_state(await complete(self._herder.connector_status(_name(request)))))

    async def _tasks(self, request: RestRequest) -> RestResponse:
        return RestResponse(body=[entities.task_info(task) for task in await complete(self._herder.task_infos(_name(request)))])

    async def _task_status(self, request: RestRequest) -> RestResponse:
        task = _task(request)
        return RestResponse(body=entities.task_state(task.task, await complete(self._herder.task_status(task))))

    # Configs

    async def _create(self, request: RestRequest) -> RestResponse:
        wanted = entities.parse_create_request(request.json(numbers_as_text=True))
        config = _without_nulls(entities.with_name(wanted.config, wanted.name))
        answer = self._herder.put_connector_config(wanted.name, config, allow_replace=False, target_state=wanted.initial_state)
        body = {"name": wanted.name, "config": config}
        if wanted.initial_state is not None:
            body["initial_state"] = next(name for name, state in entities.INITIAL_STATES.items() if state is wanted.initial_state)
        _, info = await self._put(request, answer, "/connectors", body)
        return _created(info)

    async def _put_config(self, request: RestRequest) -> RestResponse:
        name = _name(request)
        config = _without_nulls(entities.with_name(entities.parse_config(request.json(numbers_as_text=True)), name))
        answer = self._herder.put_connector_config(name, config, allow_replace=True)
        is_new, info = await self._put(request, answer, f"/connectors/{name}/config", config)
        return _created(info) if is_new else RestResponse(body=entities.connector_info(info))

    async def _patch_config(self, request: RestRequest) -> RestResponse:
        name = _name(request)
        patch = entities.parse_config(request.json(numbers_as_text=True))
        answer = self._herder.patch_connector_config(name, patch)
        found = await self._ask(request, answer, f"/connectors/{name}/config", body=patch)
        info = entities.parse_connector_info(found.body) if isinstance(found, Forwarded) else found
        return RestResponse(body=entities.connector_info(info))

    async def _delete(self, request: RestRequest) -> RestResponse:
        name = _name(request)
        return await self._told(request, self._herder.delete_connector_config(name), f"/connectors/{name}")

    async def _put(
        self, request: RestRequest, answer: Awaitable[tuple[bool, ConnectorInfo]], path: str, body: Any
    ) -> tuple[bool, ConnectorInfo]:
        found = await self._ask(request, answer, path, body=body)
        if isinstance(found, Forwarded):
            return found.status == CREATED, entities.parse_connector_info(found.body)
        return found

    # States

    async def _restart(self, request: RestRequest) -> RestResponse:
        name = _name(request)
        wanted = RestartRequest(name, bool(request.flag("onlyFailed")), bool(request.flag("includeTasks")))
        path = f"/connectors/{name}/restart"
        if not wanted.only_failed and not wanted.include_tasks:
            return await self._told(request, self._herder.restart_connector(name), path)
        query = {"includeTasks": str(wanted.include_tasks).lower(), "onlyFailed": str(wanted.only_failed).lower()}
        answer: Awaitable[ConnectorStateInfo] = self._herder.restart_connector_and_tasks(wanted)
        found = await self._ask(request, answer, path, query=query)
        return RestResponse(ACCEPTED, found.body if isinstance(found, Forwarded) else entities.connector_state(found))

    async def _restart_task(self, request: RestRequest) -> RestResponse:
        task = _task(request)
        return await self._told(request, self._herder.restart_task(task), f"/connectors/{task.connector}/tasks/{task.task}/restart")

    async def _stop(self, request: RestRequest) -> RestResponse:
        name = _name(request)
        return await self._told(request, self._herder.set_target_state(name, TargetState.STOPPED), f"/connectors/{name}/stop")

    async def _pause(self, request: RestRequest) -> RestResponse:
        return await self._set_target_state(request, TargetState.PAUSED)

    async def _resume(self, request: RestRequest) -> RestResponse:
        return await self._set_target_state(request, TargetState.STARTED)

    async def _set_target_state(self, request: RestRequest, state: TargetState) -> RestResponse:
        await complete(self._herder.set_target_state(_name(request), state))
        return RestResponse(ACCEPTED)

    # Offsets and topics

    async def _offsets(self, request: RestRequest) -> RestResponse:
        return RestResponse(body=entities.connector_offsets(await complete(self._herder.connector_offsets(_name(request)))))

    async def _alter_offsets(self, request: RestRequest) -> RestResponse:
        name, body = _name(request), request.json()
        offsets = entities.parse_offsets(body)
        found = await self._ask(request, self._herder.alter_connector_offsets(name, offsets), f"/connectors/{name}/offsets", body=body)
        return RestResponse(body=found.body if isinstance(found, Forwarded) else {"message": found})

    async def _reset_offsets(self, request: RestRequest) -> RestResponse:
        name = _name(request)
        found = await self._ask(request, self._herder.reset_connector_offsets(name), f"/connectors/{name}/offsets")
        return RestResponse(body=found.body if isinstance(found, Forwarded) else {"message": found})

    async def _topics(self, request: RestRequest) -> RestResponse:
        self._require_tracking()
        name = _name(request)
        return RestResponse(body={name: {"topics": await complete(self._herder.connector_active_topics(name))}})

    async def _reset_topics(self, request: RestRequest) -> RestResponse:
        self._require_tracking()
        if not self._config.resets_topics:
            raise HerderError(FORBIDDEN, "Topic tracking reset is disabled.")
        await complete(self._herder.reset_connector_active_topics(_name(request)))
        return RestResponse(ACCEPTED)

    def _require_tracking(self) -> None:
        if not self._config.tracks_topics:
            raise HerderError(FORBIDDEN, "Topic tracking is disabled.")

    # Asking

    async def _ask(
        self, request: RestRequest, answer: Awaitable[T], path: str, *, query: Mapping[str, str] | None = None, body: Any = None
    ) -> T | Forwarded:
        return await complete_or_forward(answer, self._client, request, path, query=query, body=body)

    async def _told(self, request: RestRequest, answer: Awaitable[None], path: str) -> RestResponse:
        await self._ask(request, answer, path)
        return RestResponse(NO_CONTENT)


def _name(request: RestRequest) -> str:
    return request.params["connector"]


def _task(request: RestRequest) -> ConnectorTaskId:
    return ConnectorTaskId(_name(request), int(request.params["task"]))


def _created(info: ConnectorInfo) -> RestResponse:
    return RestResponse(CREATED, entities.connector_info(info), {"Location": f"/connectors/{quote(info.name, safe=_PLAIN)}"})


def _without_nulls(config: entities.Config) -> dict[str, str]:
    """HerderError 400 if a property is null."""
    nulls = [ConfigInfo(name, None, None, [NULL_VALUE]) for name, value in config.items() if value is None]
    require_valid(ConfigInfos("", nulls))
    return {name: value for name, value in config.items() if value is not None}
