"""What workers ask of each other (Connect's `InternalClusterResource`).

    POST {prefix}/{connector}/tasks    what a connector that runs elsewhere wants its tasks to be
    PUT  {prefix}/{connector}/fence    shut out the tasks before (KIP-618)

The prefix is `/connectors` in a Connect cluster, and `/{source}/{target}/connectors` in the dedicated
mode of MirrorMaker (KIP-710), where one process has a worker for each flow. A group that runs the protocol
"sessioned" takes signed requests only (KIP-507). One that goes on to another worker is not signed again,
as in Connect, and refused there: its sender asks again who leads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kmirror.mirrormaker.cycles import SourceAndTarget
from kmirror.mirrormaker.herder.herder import BAD_REQUEST, INTERNAL_SERVER_ERROR, NOT_FOUND, Herder, HerderError
from kmirror.mirrormaker.herder.request_signatures import RequestSignature, UnreadableSignatureError, request_signature
from kmirror.mirrormaker.rest.request_forwarding import Asks, complete_or_forward
from kmirror.mirrormaker.rest.rest_messages import NO_CONTENT, RestRequest, RestResponse
from kmirror.mirrormaker.rest.rest_router import Route

HerderOf = Callable[[RestRequest], Herder]


def flow_routes(herders: Mapping[SourceAndTarget, Herder], client: Asks) -> list[Route]:
    """Of the dedicated mode."""

    def herder_of(request: RestRequest) -> Herder:
        source, target = request.params["source"], request.params["target"]
        herder = herders.get(SourceAndTarget(source, target))
        if herder is None:
            raise HerderError(NOT_FOUND, f"No replication flow found for source '{source}' and target '{target}'")
        return herder

    return _routes("/{source}/{target}/connectors", herder_of, client)


def internal_routes(herder: Herder, client: Asks) -> list[Route]:
    """Of a worker in a Connect cluster."""
    return _routes("/connectors", lambda _: herder, client)


def _routes(prefix: str, herder_of: HerderOf, client: Asks) -> list[Route]:
    async def put_task_configs(request: RestRequest) -> RestResponse:
        configs, connector = task_configs(request.json()), request.params["connector"]
        herder = herder_of(request)
        answer = herder.put_task_configs(connector, configs, _signature(request))
        await complete_or_forward(answer, client, request, _path(request, f"{connector}/tasks"), body=configs)
        return RestResponse(NO_CONTENT)

    async def fence_zombies(request: RestRequest) -> RestResponse:
        connector = request.params["connector"]
        herder = herder_of(request)
        answer = herder.fence_zombie_source_tasks(connector, _signature(request))
        await complete_or_forward(answer, client, request, _path(request, f"{connector}/fence"))
        return RestResponse(NO_CONTENT)

    return [
        Route("POST", f"{prefix}/{{connector}}/tasks", put_task_configs, reads_any=True),
        Route("PUT", f"{prefix}/{{connector}}/fence", fence_zombies, reads_any=True),
    ]


def _signature(request: RestRequest) -> RequestSignature | None:
    try:
        return request_signature(request.body, request.headers)
    except UnreadableSignatureError as error:
        raise HerderError(BAD_REQUEST, str(error)) from error


def _path(request: RestRequest, rest: str) -> str:
    flow = "".join(f"/{request.params[name]}" for name in ("source", "target") if name in request.params)
    return f"{flow}/connectors/{rest}"


def task_configs(body: Any) -> list[dict[str, str]]:
    """HerderError 500, as of Connect, for what is no list of tasks' properties."""
    if not isinstance(body, list) or not all(isinstance(task, dict) for task in body):
        raise HerderError(INTERNAL_SERVER_ERROR, "The body must be a list with an object of properties for each task")
    return [{name: str(value) for name, value in task.items()} for task in body]
