"""`kafka-metadata-quorum add-controller` and `remove-controller`.

They check, ask and print what Kafka's tool does. A kmirror quorum has the one voter that was chosen
when it was formatted, so it refuses both commands, in Kafka's words (a static quorum: the
kraft.version is 0). They work against an Apache Kafka cluster with a dynamic quorum.
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from kmirror.admin.admin_client import AdminClient
from kmirror.cli.tool_client import command_properties, with_admin
from kmirror.cli.tool_options import CommandError
from kmirror.common.addresses import address_text
from kmirror.common.uuid import Uuid
from kmirror.runtime.os_files import OsFileSystem
from kmirror.server.listeners import parse_listeners
from kmirror.storage.meta_properties import read_meta_properties

VALID = "Is this a valid controller configuration file?"
Endpoint = tuple[str, str, int]


def add_controller(options: argparse.Namespace) -> int:
    if options.command_config is None:
        raise CommandError("You must supply the configuration file of the controller you are adding when using add-controller.")
    properties = command_properties(options.command_config)
    controller_id = _controller_id(properties)
    directory_id = _directory_id(_metadata_directory(properties))
    endpoints = _endpoints(properties)

    async def add(admin: AdminClient) -> None:
        await admin.add_raft_voter(controller_id, directory_id, endpoints)

    if not options.dry_run:
        _with_admin(options, add)
    shown = ", ".join(f"{name}://{address_text(host, port)}" for name, host, port in endpoints)
    what = "DRY RUN of adding" if options.dry_run else "Added"
    print(f"{what} controller {controller_id} with directory id {directory_id} and endpoints: {shown}")
    return 0


def remove_controller(options: argparse.Namespace) -> int:
    if options.controller_id < 0:
        raise CommandError(f"Invalid negative --controller-id: {options.controller_id}")
    try:
        directory_id = Uuid.from_string(options.controller_directory_id)
    except ValueError as error:
        raise CommandError(f"Failed to parse --controller-directory-id: {error}") from error

    async def remove(admin: AdminClient) -> None:
        await admin.remove_raft_voter(options.controller_id, directory_id)

    if not options.dry_run:
        _with_admin(options, remove)
    what = "DRY RUN of removing " if options.dry_run else "Removed "
    print(f"{what} KRaft controller {options.controller_id} with directory id {directory_id}")
    return 0


def _with_admin(options: argparse.Namespace, work: Callable[[AdminClient], Awaitable[None]]) -> None:
    servers = options.bootstrap_server or options.bootstrap_controller
    with_admin(servers, options.command_config, work, controllers=options.bootstrap_controller is not None)


def _controller_id(properties: Mapping[str, str]) -> int:
    if "node.id" not in properties:
        raise CommandError(f"node.id not found in configuration file. {VALID}")
    try:
        node_id = int(properties["node.id"])
    except ValueError as error:
        raise CommandError(f'For input string: "{properties["node.id"]}"') from error
    if node_id < 0:
        raise CommandError(f"node.id was negative in configuration file. {VALID}")
    if "controller" not in properties.get("process.roles", ""):
        raise CommandError(f"process.roles did not contain 'controller' in configuration file. {VALID}")
    return node_id


def _metadata_directory(properties: Mapping[str, str]) -> str:
    if "metadata.log.dir" in properties:
        return properties["metadata.log.dir"]
    if "log.dirs" in properties:
        return properties["log.dirs"].strip().split(",")[0]
    raise CommandError(f"Neither metadata.log.dir nor log.dirs were found. {VALID}")


def _directory_id(directory: str) -> Uuid:
    found = read_meta_properties(OsFileSystem(), directory) if Path(directory).exists() else None
    if found is None:
        raise CommandError(f"Unable to read meta.properties from {directory}")
    if found.directory_id is None:
        raise CommandError(f"No directory id found in {directory}")
    return found.directory_id


def _endpoints(properties: Mapping[str, str]) -> list[Endpoint]:
    """Returns the advertised endpoints of the controller's listeners."""
    listeners: dict[str, Endpoint] = {}
    for setting in ("listeners", "advertised.listeners"):
        uris = [uri for uri in properties.get(setting, "").split(",") if uri]
        protocols = {uri.strip().partition("://")[0].upper(): "PLAINTEXT" for uri in uris}
        for listener in parse_listeners(uris, protocols):
            listeners[listener.name] = (listener.name, listener.host or "localhost", listener.port)
    if "controller.listener.names" not in properties:
        raise CommandError(f"controller.listener.names was not found. {VALID}")
    endpoints: dict[Endpoint, None] = {}
    for name in properties["controller.listener.names"].split(","):
        endpoint = listeners.get(name.upper())
        if endpoint is None:
            raise CommandError(f"Cannot find information about controller listener name: {name.upper()}")
        endpoints[endpoint] = None
    return list(endpoints)
