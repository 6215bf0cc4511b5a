"""The properties of a worker that concern its REST interface (Connect's `RestServerConfig`).

    listeners                            http://host:port, https://host:port; no host: every interface
    rest.advertised.host.name            what other workers are told instead of the listener's
    rest.advertised.port
    rest.advertised.listener             http or https
    access.control.allow.origin          whose pages may ask (CORS)
    access.control.allow.methods
    response.http.headers.config         set|add|setDate|addDate name: value, ...
    admin.listeners                      where /admin is: as `listeners` if unset, nowhere if empty
    listeners.https.ssl.*                TLS; if none is set, ssl.*
    admin.listeners.https.ssl.*          that of admin.listeners; if none is set, ssl.*
    topic.tracking.enable                whether /connectors/{name}/topics answers
    topic.tracking.allow.reset

The dedicated mode of MirrorMaker has an internal interface only: no /admin, no topics.
"""

from __future__ import annotations

import functools
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kmirror.common.abstract_config import AbstractConfig
from kmirror.common.config import ConfigDef, ConfigType, valid_string
from kmirror.common.errors import ConfigError
from kmirror.common.ports import Clock, FileSystem
from kmirror.mirrormaker.rest.response_headers import HeaderRule, parse_header_rules
from kmirror.network.security.replaced_stores import ReplacedStores
from kmirror.network.security.ssl_factory import client_context, server_context

LISTENERS_CONFIG: Final = "listeners"
ADMIN_LISTENERS_CONFIG: Final = "admin.listeners"
EXTENSIONS_CONFIG: Final = "rest.extension.classes"
DEFAULT_LISTENER: Final = "http://:8083"
HTTP, HTTPS = "http", "https"
_LISTENER: Final = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")


@dataclass(frozen=True)
class Listener:
    """`host` is empty for every interface, `port` 0 for one that the system chooses."""

    scheme: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Listener:
        match = _LISTENER.fullmatch(text)
        if match is None:
            raise ConfigError("Listener doesn't have the right format (protocol://hostname:port).")
        scheme, host, port = match[1].lower(), match[2], int(match[3])
        if scheme not in (HTTP, HTTPS):
            raise ConfigError('Listener protocol must be either "http" or "https".')
        if not 0 <= port <= 65_535:
            raise ConfigError(f"Invalid value {text} for configuration {LISTENERS_CONFIG}: a port is a number from 0 to 65535")
        return cls(scheme, host, port)


def _listeners(name: str, value: Any) -> None:
    if value is None:
        return
    if not value and name == LISTENERS_CONFIG:
        raise ConfigError("Invalid value for listeners, at least one URL is expected, ex: http://localhost:8080,https://localhost:8443.")
    if any(not item for item in value):
        raise ConfigError(f"Empty URL found when parsing {name} list.")


def _header_rules(_: str, value: Any) -> None:
    parse_header_rules(value or "")


def define_internal(definition: ConfigDef) -> ConfigDef:
    """Adds what the dedicated mode has; it is checked whether there is an interface or not."""
    define = definition.define
    define(LISTENERS_CONFIG, ConfigType.LIST, DEFAULT_LISTENER, validator=_listeners)
    define("rest.advertised.host.name", ConfigType.STRING, None)
    define("rest.advertised.port", ConfigType.INT, None)
    define("rest.advertised.listener", ConfigType.STRING, None)
    define("response.http.headers.config", ConfigType.STRING, "", validator=_header_rules)
    define("ssl.client.auth", ConfigType.STRING, "none", validator=valid_string("required", "requested", "none"))
    return definition


def _definition() -> ConfigDef:
    definition = define_internal(ConfigDef())
    define = definition.define
    define(ADMIN_LISTENERS_CONFIG, ConfigType.LIST, None, validator=_listeners)
    define("access.control.allow.origin", ConfigType.STRING, "")
    define("access.control.allow.methods", ConfigType.STRING, "")
    define("topic.tracking.enable", ConfigType.BOOLEAN, "true")
    define("topic.tracking.allow.reset", ConfigType.BOOLEAN, "true")
    return definition


class RestServerConfig(AbstractConfig):
    """ConfigError for what is wrong. `is_internal`: of the dedicated mode."""

    def __init__(self, props: Mapping[str, str], *, is_internal: bool = False) -> None:
        super().__init__(_definition(), props)
        if props.get(EXTENSIONS_CONFIG, "").strip() and not is_internal:
            raise ConfigError(
                f"Invalid value {props[EXTENSIONS_CONFIG]} for configuration {EXTENSIONS_CONFIG}: kmirror has no REST extensions, so it would "
                "answer whom an extension refuses; leave the property out"
            )
        self.is_internal = is_internal
        self.listeners = [Listener.parse(text) for text in self.get_list(LISTENERS_CONFIG)]
        self.admin_listeners: list[Listener] | None = None
        """None: where the others are; empty: nowhere."""
        if is_internal or self.values[ADMIN_LISTENERS_CONFIG] is not None:
            self.admin_listeners = [] if is_internal else [Listener.parse(text) for text in self.get_list(ADMIN_LISTENERS_CONFIG)]
        self.advertised_host = self.get_string("rest.advertised.host.name") or ""
        self.advertised_port = self.get_optional_int("rest.advertised.port")
        self.allowed_origins = self.get_string("access.control.allow.origin") or ""
        self.allowed_methods = self.get_string("access.control.allow.methods") or ""
        self.header_rules: tuple[HeaderRule, ...] = parse_header_rules(self.get_string("response.http.headers.config") or "")
        self.tracks_topics = not is_internal and self.get_bool("topic.tracking.enable")
        self.resets_topics = not is_internal and self.get_bool("topic.tracking.allow.reset")

    @property
    def advertised_scheme(self) -> str:
        """That of `rest.advertised.listener`, else http if any listener has it."""
        wanted = self.get_string("rest.advertised.listener")
        if wanted is not None:
            return wanted.lower()
        return HTTP if any(listener.scheme == HTTP for listener in self.listeners) else HTTPS

    def server_context(self, files: FileSystem, clock: Clock, *, is_admin: bool = False) -> ssl.SSLContext:
        """A context that hands each connection over to the newest one, should the stores be replaced.

        ConfigError if a store is missing, or cannot be read.
        """
        props = self._ssl("admin.listeners.https." if is_admin else "listeners.https.")
        make = functools.partial(server_context, client_auth=props.get("ssl.client.auth") or "none")
        stores = ReplacedStores(props, files, clock, make)

        def take_the_newest(connection: ssl.SSLObject, server_name: str | None, context: ssl.SSLContext) -> None:
            connection.context = stores.context

        first = stores.context
        first.sni_callback = take_the_newest
        return first

    def client_context(self, files: FileSystem) -> ssl.SSLContext:
        return client_context(self._ssl("listeners.https."), files)

    def _ssl(self, prefix: str) -> dict[str, str]:
        """All or nothing: one property with the prefix, and none without it counts."""
        own = {name[len(prefix) :]: value for name, value in self.props.items() if name.startswith(prefix)}
        return own or {name: value for name, value in self.props.items() if name.startswith("ssl.")}
