"""/ and /health: what a worker is, and whether it works (Connect's `RootResource`, KIP-1017).

    GET /          {"version": ..., "commit": ..., "kafka_cluster_id": ...}
    GET /health    200 healthy, 503 starting, 500 unhealthy

The version is that of the Kafka whose interface this is, the commit kmirror's own version.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from kmirror.mirrormaker.connector_validation import CONNECT_VERSION
from kmirror.mirrormaker.herder.herder import INTERNAL_SERVER_ERROR, Herder
from kmirror.mirrormaker.rest.request_forwarding import complete
from kmirror.mirrormaker.rest.rest_messages import OK, SERVICE_UNAVAILABLE, RestRequest, RestResponse
from kmirror.mirrormaker.rest.rest_router import Route


def root_routes(herder: Herder) -> list[Route]:
    async def server_info(_: RestRequest) -> RestResponse:
        cluster_id = await complete(herder.kafka_cluster_id())
        return RestResponse(body={"version": CONNECT_VERSION, "commit": _own_version(), "kafka_cluster_id": cluster_id})

    async def health(_: RestRequest) -> RestResponse:
        reason = herder.health()
        if reason is None:
            return _health(OK, "healthy", "Worker has completed startup and is ready to handle requests.")
        if herder.is_ready():
            return _health(
                INTERNAL_SERVER_ERROR,
                "unhealthy",
                f"Worker was unable to handle this request and may be unable to handle other requests. {reason}",
            )
        return _health(SERVICE_UNAVAILABLE, "starting", f"Worker is still starting up. {reason}")

    return [Route("GET", "/", server_info), Route("GET", "/health", health)]


def _health(status: int, name: str, message: str) -> RestResponse:
    return RestResponse(status, {"status": name, "message": message})


def _own_version() -> str:
    try:
        return f"kmirror-{version('kmirror')}"
    except PackageNotFoundError:
        return "kmirror"
