"""All resources of a Connect worker (Connect's `ConnectRestServer`): one server for one herder.

rest = ConnectRest(runtime, props)
await rest.start()            it listens; rest.advertised_url is known
rest.serve(herder, validate)
await rest.stop()
"""

from __future__ import annotations

from collections.abc import Mapping

from kmirror.mirrormaker.herder.herder import Herder
from kmirror.mirrormaker.rest.connectors_resource import ConnectorsResource
from kmirror.mirrormaker.rest.internal_resource import internal_routes
from kmirror.mirrormaker.rest.logging_resource import Loggers, logging_routes
from kmirror.mirrormaker.rest.plugins_resource import Validate, plugin_routes
from kmirror.mirrormaker.rest.rest_client import RestClient
from kmirror.mirrormaker.rest.rest_config import RestServerConfig
from kmirror.mirrormaker.rest.rest_server import RestServer
from kmirror.mirrormaker.rest.root_resource import root_routes
from kmirror.runtime.api import Runtime


class ConnectRest:
    """ConfigError if aiohttp is missing, or the properties are wrong."""

    def __init__(self, runtime: Runtime, props: Mapping[str, str]) -> None:
        self.config = RestServerConfig(props)
        self.client = RestClient(self.config, runtime.files)
        self.loggers = Loggers(runtime.clock)
        self._server = RestServer(self.config, runtime)

    @property
    def advertised_url(self) -> str:
        return self._server.advertised_url

    async def start(self) -> None:
        """ConfigError if a listener cannot be opened."""
        await self._server.start()

    def serve(self, herder: Herder, validate: Validate) -> None:
        resource = ConnectorsResource(herder, self.client, self.config)
        routes = [*root_routes(herder), *resource.routes(), *internal_routes(herder, self.client), *plugin_routes(validate)]
        self._server.serve(routes, logging_routes(herder, self.loggers))

    async def stop(self) -> None:
        await self._server.stop()
