"""/connector-plugins: the connectors that can be made, and whether a config is right
(Connect's `ConnectorPluginsResource`).

    GET /connector-plugins                             connectorsOnly=false is the same: there are no others
    GET /connector-plugins/{plugin}/config             its properties
    PUT /connector-plugins/{class}/config/validate     each property with its value and what is wrong
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kmirror.mirrormaker.connector_config import PACKAGE
from kmirror.mirrormaker.connector_validation import CLASSES, CONNECT_VERSION, ConfigInfos, class_named, key_infos, other_version
from kmirror.mirrormaker.herder.herder import BAD_REQUEST, INTERNAL_SERVER_ERROR, NOT_FOUND, HerderError
from kmirror.mirrormaker.rest.entities import parse_config
from kmirror.mirrormaker.rest.rest_messages import RestRequest, RestResponse
from kmirror.mirrormaker.rest.rest_router import Route

Validate = Callable[[Mapping[str, str | None]], ConfigInfos]
_SUFFIX = "Connector"


def plugin_routes(validate: Validate) -> list[Route]:
    async def plugins(_: RestRequest) -> RestResponse:
        return RestResponse(body=[{"class": PACKAGE + name, "type": "source", "version": CONNECT_VERSION} for name in CLASSES])

    async def config(request: RestRequest) -> RestResponse:
        given = request.params["plugin"]
        name = class_named(given)
        if name is None:
            raise HerderError(NOT_FOUND, f"Unknown plugin {given}.")
        wrong_version = other_version(name, request.query.get("version", [None])[0])
        if wrong_version is not None:
            raise HerderError(BAD_REQUEST, wrong_version)
        return RestResponse(body=key_infos(name))

    async def validated(request: RestRequest) -> RestResponse:
        given = parse_config(request.json(numbers_as_text=True))
        included, plugin = given.get("connector.class"), request.params["plugin"]
        if included is not None and not _without_suffix(included).endswith(_without_suffix(plugin)):
            raise HerderError(BAD_REQUEST, f"Included connector type {included} does not match request type {plugin}")
        try:
            return RestResponse(body=validate(given).to_json())
        except HerderError as error:
            raise HerderError(INTERNAL_SERVER_ERROR, str(error)) from error

    return [
        Route("GET", "/connector-plugins", plugins),
        Route("GET", "/connector-plugins/{plugin}/config", config),
        Route("PUT", "/connector-plugins/{plugin}/config/validate", validated),
    ]


def _without_suffix(name: str) -> str:
    return name.removesuffix(_SUFFIX) or name
