"""Where the controllers of a cluster are (Kafka's `QuorumConfig`)."""

from __future__ import annotations

from kmirror.common.abstract_config import AbstractConfig
from kmirror.common.errors import ConfigError


class QuorumConfig:
    """The addresses of voters and bootstrap servers; reading them raises ConfigError for an invalid
    one.
    """

    def __init__(self, config: AbstractConfig) -> None:
        self._config = config

    @property
    def voters(self) -> dict[int, tuple[str, int]]:
        """`controller.quorum.voters` as id -> (host, port)."""
        voters: dict[int, tuple[str, int]] = {}
        for entry in self._config.get_list("controller.quorum.voters"):
            node, _, address = entry.partition("@")
            host, _, port = address.rpartition(":")
            if not node.isdigit() or not port.isdigit() or not host:
                raise ConfigError(f"Failed to parse a voter map: {entry} is not of the form id@host:port")
            voters[int(node)] = (host.strip("[]"), int(port))
        return voters

    @property
    def bootstrap_servers(self) -> list[tuple[str, int]]:
        """`controller.quorum.bootstrap.servers` as (host, port)."""
        servers: list[tuple[str, int]] = []
        for entry in self._config.get_list("controller.quorum.bootstrap.servers"):
            host, _, port = entry.rpartition(":")
            if not host or not port.isdigit():
                raise ConfigError(f"Invalid url in controller.quorum.bootstrap.servers: {entry}")
            servers.append((host.strip("[]"), int(port)))
        return servers
