"""`kafka-cluster`: the cluster's id, its endpoints, and brokers to forget; options and output of
Kafka's tool, and `--json`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from kmirror.cli.tool_commands import CommandParser, SubcommandParser, connection, run_command_tool
from kmirror.cli.tool_options import CommandError, print_json


def build_parser() -> CommandParser:
    parser = CommandParser(prog="kafka-cluster", description="The Kafka cluster tool.", allow_abbrev=False)
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="{cluster-id,unregister,list-endpoints}", parser_class=SubcommandParser
    )
    cluster_id = commands.add_parser("cluster-id", help="print the cluster's id")
    unregister = commands.add_parser("unregister", help="unregister a broker that no longer runs")
    endpoints = commands.add_parser("list-endpoints", help="list the brokers, or the controllers, with their addresses")
    for command in (cluster_id, unregister, endpoints):
        command.add_argument("--config", metavar="CONFIG", help="deprecated: --command-config")
        connection(command, short=True)
    unregister.add_argument("--id", "-i", type=int, required=True, metavar="ID", help="the broker's id")
    endpoints.add_argument("--include-fenced-brokers", action="store_true", help="also list fenced brokers")
    for command in (cluster_id, endpoints):
        command.add_argument("--json", action="store_true", help="print JSON")
    return parser


def run(options: argparse.Namespace) -> int:
    from kmirror.admin.admin_client import AdminClient
    from kmirror.cli.java_names import java_exception
    from kmirror.cli.tool_client import with_admin
    from kmirror.common.errors import ApiException

    config = options.command_config or options.config
    if options.command == "list-endpoints" and options.include_fenced_brokers and options.bootstrap_controller:
        raise CommandError("The option --include-fenced-brokers is only supported with --bootstrap-server option")
    servers = options.bootstrap_server or options.bootstrap_controller

    async def cluster_id(admin: AdminClient) -> None:
        found = (await admin.describe_cluster()).cluster_id
        if options.json:
            print_json({"clusterId": found})
        else:
            print(f"Cluster ID: {found}" if found else "No cluster ID found. The Kafka version is probably too old.")

    async def unregister(admin: AdminClient) -> None:
        try:
            await admin.unregister_broker(options.id)
        except ApiException as error:
            raise CommandError(java_exception(error)) from error
        print(f"Broker {options.id} is no longer registered.")

    async def endpoints(admin: AdminClient) -> None:
        found = await admin.describe_cluster(include_fenced_brokers=options.include_fenced_brokers)
        kind = "controller" if options.bootstrap_controller else "broker"
        rows = [(node.id, node.host, node.port, node.rack, node.id in found.fenced) for node in found.nodes]
        if options.json:
            keys = ("id", "host", "port", "rack", "fenced")
            print_json([dict(zip(keys, row, strict=True)) | {"endpointType": kind} for row in rows])
            return
        header = ("ID", "HOST", "PORT", "RACK", *(("STATE",) if kind == "broker" else ()), "ENDPOINT_TYPE")
        widths = [
            10,
            max([4, *(len(row[1]) for row in rows)]),
            10,
            max([10, *(len(row[3] or "null") for row in rows)]),
            *([10] * (len(header) - 5)),
            15,
        ]
        print(" ".join(f"{cell:<{width}}" for cell, width in zip(header, widths, strict=True)))
        for node_id, name, port, place, fenced in rows:
            state = ("fenced" if fenced else "unfenced",) if kind == "broker" else ()
            cells = (str(node_id), name, str(port), place or "null", *state, kind)
            print(" ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)))

    work = {"cluster-id": cluster_id, "unregister": unregister, "list-endpoints": endpoints}[options.command]
    with_admin(servers, config, work, controllers=options.bootstrap_controller is not None)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    return run_command_tool(build_parser(), arguments, run)


if __name__ == "__main__":
    sys.exit(main())
