"""/connector-plugins: what connectors can be made of, and whether a config is right
(Connect's `ConnectorPluginsResource`).

    GET /connector-plugins                             connectorsOnly=false: transformations and predicates, too
    GET /connector-plugins/{plugin}/config             its properties
    PUT /connector-plugins/{class}/config/validate     each property with its value and what is wrong
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kmirror.mirrormaker.connector_config import PACKAGE
from kmirror.mirrormaker.connector_validation import CLASSES, CONNECT_VERSION, ConfigInfos, Shown, class_named, key_info, key_infos
from kmirror.mirrormaker.herder.herder import BAD_REQUEST, INTERNAL_SERVER_ERROR, NOT_FOUND, HerderError
from kmirror.mirrormaker.rest.entities import parse_config
from kmirror.mirrormaker.rest.rest_messages import RestRequest, RestResponse
from kmirror.mirrormaker.rest.rest_router import Route
from kmirror.mirrormaker.transforms import KINDS, other_version, predicate_plugin, transformation_plugin

Validate = Callable[[Mapping[str, str | None]], ConfigInfos]
_SUFFIX = "Connector"


def plugin_routes(validate: Validate) -> list[Route]:
    async def plugins(request: RestRequest) -> RestResponse:
        found = [(PACKAGE + name, "source") for name in CLASSES]
        if request.query.get("connectorsOnly", ["true"])[0].lower() == "false":
            found += [(name, kind.name.lower()) for kind in KINDS for name in kind.classes]
        return RestResponse(body=[{"class": name, "type": kind, "version": CONNECT_VERSION} for name, kind in found])

    async def config(request: RestRequest) -> RestResponse:
        given = request.params["plugin"]
        version = request.query.get("version", [None])[0]
        if plugin := transformation_plugin(given) or predicate_plugin(given):
            if wrong := other_version(plugin.java_class, version):
                raise HerderError(BAD_REQUEST, wrong)
            return RestResponse(body=[key_info(key, Shown.by_name(key)) for key in plugin.definition])
        name = class_named(given)
        if name is None:
            raise HerderError(NOT_FOUND, f"Unknown plugin {given}.")
        wrong_version = other_version(PACKAGE + name, version)
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
