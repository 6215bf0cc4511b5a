"""Listeners: `NAME://host:port` lists, the security protocol of each name, and Kafka's checks on
them.

An empty host listens on every interface; what is advertised for it is decided by who starts the
node. Names are upper case. A controller listener that the protocol map does not mention is
An empty host listens on every interface; whoever starts the node decides what is advertised for it.
Names are upper case. A controller listener that the protocol map does not mention is PLAINTEXT, as
long as the user has not set the map.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kmirror.common.addresses import address_text
from kmirror.common.errors import ConfigError

SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
_URI = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")


class Listener(NamedTuple):
    """A listener by name; `security_protocol` is Kafka's name of it."""

    name: str
    host: str
    port: int
    security_protocol: str

    @property
    def security_protocol_id(self) -> int:
        return SECURITY_PROTOCOLS[self.security_protocol]

    def __str__(self) -> str:
        return f"{self.name}://{address_text(self.host, self.port)}"


def parse_protocol_map(text: str) -> dict[str, str]:
    """`listener.security.protocol.map`: NAME:PROTOCOL,…"""
    protocols: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, separator, protocol = entry.rpartition(":")
        if not separator or not name:
            raise ConfigError(f"Invalid value {text} for configuration listener.security.protocol.map: {entry} is not NAME:PROTOCOL")
        if protocol.upper() not in SECURITY_PROTOCOLS:
            raise ConfigError(f"Invalid security protocol `{protocol}` defined in listener.security.protocol.map")
        protocols[name.strip().upper()] = protocol.upper()
    return protocols


def parse_listeners(uris: Sequence[str], protocols: Mapping[str, str], *, require_distinct_ports: bool = True) -> list[Listener]:
    """Parses a list of listeners.

    Raises ConfigError, with Kafka's text, for an invalid URI, an unknown protocol, or a name or
    port that is used twice.
    """
    text = ",".join(uris)
    listeners = [_parse_listener(uri, protocols, text) for uri in uris]
    if len({listener.name for listener in listeners}) != len(listeners):
        raise ConfigError(f"Each listener must have a different name, listeners: {text}")
    ports = [listener.port for listener in listeners if listener.port != 0]
    if require_distinct_ports and len(set(ports)) != len(ports):
        raise ConfigError(f"Each listener must have a different port, listeners: {text}")
    return listeners


def _parse_listener(uri: str, protocols: Mapping[str, str], text: str) -> Listener:
    match = _URI.fullmatch(uri.strip())
    if match is None:
        raise ConfigError(f"Error creating broker listeners from '{text}': Unable to parse {uri} to a broker endpoint")
    name, host, port = match[1].upper(), match[2], int(match[3])
    if name not in protocols:
        raise ConfigError(f"Error creating broker listeners from '{text}': No security protocol defined for listener {name}")
    return Listener(name, host, port, protocols[name])
