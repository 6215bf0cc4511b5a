"""The clusters that one `kafka-mirrors` command talks to.

These are the destination, each mirror's source, and the clusters behind it. The settings for a
source come from --mirror-config if given, else from the mirror's own configs. A broker never tells
the secrets in those (C22), so a source that requires a password needs --mirror-config: the same
file from which the mirror was created. References such as `${file:...}` in it, and in
--command-config, are resolved on this machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping

from kmirror.admin.admin_client import AdminClient
from kmirror.admin.results import ConfigResourceType
from kmirror.cli.mirrors_permissions import named, user_of
from kmirror.cli.properties import read_properties
from kmirror.cli.tool_client import TIMEOUT_SETTING, open_admin, resolved
from kmirror.cli.user_errors import one_line
from kmirror.common.errors import ApiException, ConfigError, Errors, KmirrorError, unknown_mirror
from kmirror.runtime.api import Runtime

BOOTSTRAP_SERVERS = "bootstrap.servers"
CLIENT_ID = "kafka-mirrors"
MAX_CHAIN_LENGTH = 16
SHORT_TIMEOUT_MS = 5_000
"""For optional information: a source that is down must not delay the command."""


class MirrorClients:
    """Opens admin clients and closes them all. `admin` is the destination's."""

    def __init__(self, runtime: Runtime, options: argparse.Namespace) -> None:
        self.runtime = runtime
        self.options = options
        self._properties = {} if options.command_config is None else read_properties(options.command_config)
        self._opened: list[AdminClient] = []
        self._sources: dict[str, dict[str, str]] = {}
        self._source_clients: dict[tuple[str, int | None], AdminClient] = {}
        self.user = user_of(self._properties)
        """Who asks the destination; None without a login."""
        self.admin = self._open(options.bootstrap_server, self._properties)

    def close(self) -> None:
        for client in self._opened:
            client.close()

    async def source_configs(self, mirror_name: str) -> dict[str, str]:
        """Returns the settings for the source; UNKNOWN_MIRROR if there is no such mirror."""
        if mirror_name not in self._sources:
            if self.options.mirror_config is not None:
                configs = read_properties(self.options.mirror_config)
            else:
                entries = await self.admin.describe_configs(ConfigResourceType.MIRROR, mirror_name)
                configs = {entry.name: entry.value for entry in entries if entry.value is not None}
            if not configs.get(BOOTSTRAP_SERVERS):
                raise unknown_mirror(mirror_name)
            self._sources[mirror_name] = configs
        return self._sources[mirror_name]

    async def source(self, mirror_name: str, *, timeout_ms: int | None = None) -> AdminClient:
        """Returns a client of the mirror's source, the same one every time."""
        key = (mirror_name, timeout_ms)
        if key not in self._source_clients:
            configs = await self.source_configs(mirror_name)
            self._source_clients[key] = self.at(configs[BOOTSTRAP_SERVERS], configs, mirror_name, timeout_ms=timeout_ms)
        return self._source_clients[key]

    def at(self, bootstrap_servers: str, configs: Mapping[str, str], mirror_name: str, *, timeout_ms: int | None = None) -> AdminClient:
        """Returns a client of the source or of a cluster behind it, with the same security."""
        properties = dict(configs) if timeout_ms is None else {**configs, TIMEOUT_SETTING: str(timeout_ms)}
        try:
            return self._open(bootstrap_servers, properties)
        except ConfigError as error:
            hint = (
                ""
                if self.options.mirror_config is not None
                else " (the brokers do not return a mirror's secrets: give them with --mirror-config)"
            )
            raise ConfigError(f"mirror {mirror_name}: {error}{hint}") from error

    def _open(self, bootstrap_servers: str, properties: Mapping[str, str]) -> AdminClient:
        client = open_admin(self.runtime, bootstrap_servers, resolved(properties), client_id=CLIENT_ID)
        self._opened.append(client)
        return named(client, bootstrap_servers, properties)

    async def check_chain(self, mirror_name: str, destination: AdminClient, source: AdminClient, topics: Iterable[str]) -> None:
        """Refuse topics that come back to their destination over a chain of mirrors (D4).

        They would empty every cluster of the ring.
        """
        own = str((await destination.describe_cluster()).cluster_id)
        configs = await self.source_configs(mirror_name)
        wanted = set(topics)
        paths: list[tuple[AdminClient, list[str]]] = [(source, [own])]
        seen: set[str] = set()
        while paths:
            client, path = paths.pop(0)
            try:
                cluster_id = str((await client.describe_cluster()).cluster_id)
                following = await mirrored_from(client, wanted) if cluster_id not in (own, *seen) else []
            except KmirrorError as error:
                if client is source:
                    raise
                text = f"{path[-1]} mirrors some of these topics from a cluster that cannot be asked whether they come from here"
                if not self.options.force:
                    raise KmirrorError(f"{text} ({one_line(error)}); --force adds them all the same") from error
                continue
            if cluster_id == own:
                raise KmirrorError(f"a ring of mirrors: {' <- '.join([*path, own])} leads back to this cluster; nothing was added")
            if cluster_id in seen or len(path) > MAX_CHAIN_LENGTH:
                continue
            seen.add(cluster_id)
            paths += [(self.at(servers, configs, mirror_name, timeout_ms=SHORT_TIMEOUT_MS), [*path, cluster_id]) for servers in following]


async def mirrored_from(client: AdminClient, topics: set[str]) -> list[str]:
    """Returns the bootstrap servers from which a cluster mirrors any of `topics`.

    Empty when it mirrors none of them or has no mirrors at all.
    """
    try:
        listed = await client.list_mirrors()
        described = await client.describe_mirrors()
    except ApiException as error:
        if error.error is Errors.UNSUPPORTED_VERSION:
            return []
        raise
    servers = []
    for mirror in listed:
        rows = described[mirror.mirror_name].partitions if mirror.mirror_name in described else []
        if mirror.source_bootstrap and any(row.topic in topics and row.state != "STOPPED" for row in rows):
            servers.append(mirror.source_bootstrap)
    return sorted(set(servers))
