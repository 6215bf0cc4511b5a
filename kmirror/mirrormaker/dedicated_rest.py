"""The internal REST interface of a node of the dedicated mode (KIP-710, Kafka's `MirrorRestServer`).

One server for all flows of the node. Its URL is told to the other nodes when a flow's worker joins its
group, so it listens before the flows begin, and answers once they are there.

    dedicated.mode.enable.internal.rest = true
    listeners = http://10.0.0.1:8083
    rest.advertised.host.name, rest.advertised.port, rest.advertised.listener, listeners.https.ssl.*
"""

from __future__ import annotations

from collections.abc import Mapping

from kmirror.mirrormaker.driver import MirrorMaker
from kmirror.mirrormaker.rest.internal_resource import flow_routes
from kmirror.mirrormaker.rest.rest_client import RestClient
from kmirror.mirrormaker.rest.rest_config import RestServerConfig
from kmirror.mirrormaker.rest.rest_server import RestServer
from kmirror.runtime.api import Runtime


class DedicatedRest:
    """ConfigError for wrong properties, or if aiohttp is missing."""

    def __init__(self, runtime: Runtime, props: Mapping[str, str]) -> None:
        config = RestServerConfig(props, is_internal=True)
        self._server = RestServer(config, runtime)
        self._client = RestClient(config, runtime.files)

    async def start(self, maker: MirrorMaker) -> None:
        """Before `maker` starts. ConfigError if a listener cannot be opened."""
        await self._server.start()
        maker.reach(self._server.advertised_url, self._client.http_request)
        self._server.serve(flow_routes(maker.herders, self._client))

    async def stop(self) -> None:
        await self._server.stop()
