"""The admin client of a `kafka-*` tool: its address, its settings, and a loop of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

from kmirror.admin.admin_client import DEFAULT_TIMEOUT_MS, AdminClient, parse_bootstrap_servers
from kmirror.admin.admin_requests import FirstContact, NoBrokerError
from kmirror.cli.properties import read_properties
from kmirror.common.errors import ConfigError
from kmirror.network.client_security import ClientSecurity
from kmirror.network.config_providers import ConfigProviders
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run
from kmirror.runtime.os_files import OsFileSystem

T = TypeVar("T")

TIMEOUT_SETTING = "default.api.timeout.ms"
FIRST_CONTACT_MS = 10_000
"""So long a cluster that does not listen yet is waited for; Kafka's tools take a minute."""


def command_properties(command_config: str | None) -> dict[str, str]:
    """Returns the resolved settings of `--command-config`; none without it."""
    return {} if command_config is None else resolved(read_properties(Path(command_config)))


def resolved(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns `properties` with references resolved on this machine.

    These are `${file:...}`, `${env:...}` and `${dir:...}`; ConfigError for what names nothing.
    """
    files = OsFileSystem()
    return ConfigProviders.of_a_tool(properties, files, os.environ).resolve(properties)


def open_admin(
    runtime: Runtime,
    bootstrap_servers: str,
    properties: Mapping[str, str],
    *,
    client_id: str,
    controllers: bool = False,
    waits: bool = False,
) -> AdminClient:
    """Returns an admin client.

    `client.id`, `default.api.timeout.ms` and the security settings come from `properties`.
    With `waits`, a cluster that is about to start is waited for.
    """
    timeout = properties.get(TIMEOUT_SETTING, str(DEFAULT_TIMEOUT_MS))
    if not timeout.isdigit():
        raise ConfigError(f"Invalid value {timeout} for configuration {TIMEOUT_SETTING}: Not a number of type INT")
    servers = parse_bootstrap_servers(bootstrap_servers)
    return AdminClient(
        runtime,
        servers,
        client_id=properties.get("client.id", client_id),
        timeout_ms=int(timeout),
        security=ClientSecurity.from_props(properties),
        controllers=controllers,
        first_contact=_first_contact(min(FIRST_CONTACT_MS, int(timeout))) if waits else None,
    )


def _first_contact(wait_ms: int) -> FirstContact:
    def tell(error: NoBrokerError) -> None:
        text = f"Waiting up to {wait_ms / 1000:g} s for a broker: {error}"
        print(text, file=sys.stderr, flush=True)

    return FirstContact(wait_ms, tell)


def with_admin(
    bootstrap_servers: str,
    command_config: str | None,
    work: Callable[[AdminClient], Awaitable[T]],
    *,
    client_id: str = "adminclient-1",
    controllers: bool = False,
) -> T:
    """Run `work(admin)` to its end.

    With `controllers` the servers are controllers (`--bootstrap-controller`).
    """
    properties = command_properties(command_config)

    async def main(runtime: Runtime) -> T:
        async with open_admin(runtime, bootstrap_servers, properties, client_id=client_id, controllers=controllers, waits=True) as admin:
            return await work(admin)

    result = run(main)
    sys.stdout.flush()
    return result
