"""The listeners of a node: which it binds, which it advertises, and which belong to the
controller.
"""

from __future__ import annotations

from kmirror.common.abstract_config import AbstractConfig
from kmirror.common.errors import ConfigError
from kmirror.server.listeners import SECURITY_PROTOCOLS, Listener, parse_listeners, parse_protocol_map


class NodeListeners:
    """The listeners in a node's settings; ConfigError with Kafka's text if the settings name
    none.
    """

    def __init__(self, config: AbstractConfig) -> None:
        self.controller_names = [name.upper() for name in config.get_list("controller.listener.names")]
        self.inter_broker_name = str(
            config.get_string("inter.broker.listener.name") or config.get_string("security.inter.broker.protocol")
        ).upper()
        """`inter.broker.listener.name`, or the listener named like
        `security.inter.broker.protocol`.
        """
        self._protocols = _effective_protocol_map(config, self.controller_names)
        self.all = parse_listeners(config.get_list("listeners"), self._protocols)
        self.broker = [listener for listener in self.all if listener.name not in self.controller_names]
        self.controller = [listener for listener in self.all if listener.name in self.controller_names]
        self.advertised = self._effective_advertised(config.get_list("advertised.listeners"))

    def security_protocol_of(self, listener_name: str) -> str:
        """Returns the protocol of any listener, whether or not it is this node's own."""
        protocol = self._protocols.get(listener_name, listener_name)
        if protocol not in SECURITY_PROTOCOLS:
            raise ConfigError(f"No security protocol defined for listener {listener_name}")
        return protocol

    def _effective_advertised(self, uris: list[str]) -> list[Listener]:
        if not uris:
            return self.all
        advertised = parse_listeners(uris, self._protocols, require_distinct_ports=False)
        names = {listener.name for listener in advertised}
        return advertised + [listener for listener in self.controller if listener.name not in names]


def _effective_protocol_map(config: AbstractConfig, controller_names: list[str]) -> dict[str, str]:
    protocols = parse_protocol_map(config.get_string("listener.security.protocol.map") or "")
    listening = [uri.partition("://")[0].upper() for uri in config.get_list("listeners")]
    is_standard = all(name in SECURITY_PROTOCOLS or name in controller_names for name in listening)
    if "listener.security.protocol.map" not in config.props and is_standard:
        protocols |= {name: "PLAINTEXT" for name in controller_names if name not in SECURITY_PROTOCOLS}
    return protocols
