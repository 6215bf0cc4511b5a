"""`kafka-metadata-quorum`: `describe` shows who leads and who follows the metadata log.

It prints Kafka's text, or with `--json` JSON. `add-controller` and `remove-controller` are in
`metadata_quorum_voters`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kmirror.cli.tool_commands import CommandParser, connection, run_command_tool
from kmirror.cli.tool_options import CommandError, print_json
from kmirror.common.addresses import address_text

if TYPE_CHECKING:
    from kmirror.admin.cluster import QuorumInfo, QuorumReplica

HEADER = ("NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status")


def build_parser() -> CommandParser:
    parser = CommandParser(
        prog="kafka-metadata-quorum", description="This tool describes kraft metadata quorum status.", allow_abbrev=False
    )
    connection(parser)
    commands = parser.add_subparsers(dest="command", required=True, metavar="{describe,add-controller,remove-controller}")
    describe = commands.add_parser("describe", help="describe the metadata quorum")
    describe.add_argument("--status", action="store_true", help="a summary: leader, epoch, high watermark, lag, voters, observers")
    describe.add_argument("--replication", action="store_true", help="a line for each voter and observer")
    describe.add_argument(
        "--human-readable", action="store_true", help="with --replication: print times as the time that has passed since then"
    )
    describe.add_argument("--json", action="store_true", help="print JSON")
    add = commands.add_parser("add-controller", help="add a controller to the quorum")
    remove = commands.add_parser("remove-controller", help="remove a controller from the quorum")
    remove.add_argument("--controller-id", "-i", type=int, required=True, help="the id of the controller to remove")
    remove.add_argument("--controller-directory-id", "-d", required=True, help="the id of its metadata directory")
    for command in (add, remove):
        command.add_argument("--dry-run", action="store_true", help="print what would be done, and change nothing")
    return parser


def run(options: argparse.Namespace) -> int:
    from kmirror.admin.admin_client import AdminClient
    from kmirror.cli.metadata_quorum_voters import add_controller, remove_controller
    from kmirror.cli.tool_client import with_admin

    if options.command != "describe":
        return add_controller(options) if options.command == "add-controller" else remove_controller(options)
    if options.status and options.replication:
        raise CommandError("Only one of --status or --replication should be specified with describe sub-command")
    if not options.status and not options.replication:
        raise CommandError("One of --status or --replication must be specified with describe sub-command")
    if options.status and options.human_readable:
        raise CommandError("The option --human-readable is only supported along with --replication")

    async def ask(admin: AdminClient) -> None:
        cluster_id = (await admin.describe_cluster()).cluster_id
        quorum = await admin.describe_metadata_quorum()
        if options.json:
            print_json(_as_json(cluster_id, quorum))
        elif options.status:
            print(status_text(cluster_id, quorum))
        else:
            print(replication_text(quorum, now_ms=_now_ms() if options.human_readable else None))

    with_admin(
        options.bootstrap_server or options.bootstrap_controller,
        options.command_config,
        ask,
        controllers=options.bootstrap_controller is not None,
    )
    return 0


def _now_ms() -> int:
    import time

    return int(time.time() * 1000)


def _leader(quorum: QuorumInfo) -> QuorumReplica:
    found = [voter for voter in quorum.voters if voter.replica_id == quorum.leader_id]
    if not found:
        raise CommandError("The metadata quorum has no leader at the moment.")
    return found[0]


def status_text(cluster_id: str | None, quorum: QuorumInfo) -> str:
    leader = _leader(quorum)
    slowest = min(quorum.voters, key=lambda voter: voter.log_end_offset)
    lag_ms = 0 if slowest is leader else leader.last_caught_up_timestamp - slowest.last_caught_up_timestamp
    if -1 in (leader.last_caught_up_timestamp, slowest.last_caught_up_timestamp) and slowest is not leader:
        lag_ms = -1
    rows = {
        "ClusterId": cluster_id,
        "LeaderId": quorum.leader_id,
        "LeaderEpoch": quorum.leader_epoch,
        "HighWatermark": quorum.high_watermark,
        "MaxFollowerLag": leader.log_end_offset - slowest.log_end_offset,
        "MaxFollowerLagTimeMs": lag_ms,
        "CurrentVoters": _nodes(quorum, quorum.voters),
        "CurrentObservers": _nodes(quorum, quorum.observers),
    }
    return "\n".join(f"{name + ':':<24}{value}" for name, value in rows.items())


def _nodes(quorum: QuorumInfo, replicas: list[QuorumReplica]) -> str:
    shown = []
    for replica in replicas:
        text = f'{{"id": {replica.replica_id}'
        if replica.replica_directory_id:
            text += f', "directoryId": "{replica.replica_directory_id}"'
        endpoints = [f'"{name}://{address_text(host, port)}"' for name, host, port in quorum.endpoints.get(replica.replica_id, [])]
        if endpoints:
            text += f', "endpoints": [{", ".join(endpoints)}]'
        shown.append(text + "}")
    return f"[{', '.join(shown)}]"


def replication_text(quorum: QuorumInfo, *, now_ms: int | None) -> str:
    """Returns a table; if `now_ms` is given, times are relative to it."""
    leader = _leader(quorum)

    def time(timestamp: int) -> str:
        return str(timestamp) if now_ms is None or timestamp == -1 else f"{now_ms - timestamp} ms ago"

    rows = [HEADER]
    others = [voter for voter in quorum.voters if voter is not leader]
    for status, replicas in (("Leader", [leader]), ("Follower", others), ("Observer", quorum.observers)):
        for row in replicas:
            lag = leader.log_end_offset - row.log_end_offset
            times = (time(row.last_fetch_timestamp), time(row.last_caught_up_timestamp))
            rows.append((str(row.replica_id), str(row.replica_directory_id), str(row.log_end_offset), str(lag), *times, status))
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    return "\n".join("".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True)) for row in rows)


def _as_json(cluster_id: str | None, quorum: QuorumInfo) -> dict[str, object]:
    def replicas(rows: list[QuorumReplica]) -> list[dict[str, object]]:
        return [
            {
                "id": row.replica_id,
                "directoryId": str(row.replica_directory_id),
                "logEndOffset": row.log_end_offset,
                "lastFetchTimestamp": row.last_fetch_timestamp,
                "lastCaughtUpTimestamp": row.last_caught_up_timestamp,
                "endpoints": [f"{name}://{address_text(host, port)}" for name, host, port in quorum.endpoints.get(row.replica_id, [])],
            }
            for row in rows
        ]

    return {
        "clusterId": cluster_id,
        "leaderId": quorum.leader_id,
        "leaderEpoch": quorum.leader_epoch,
        "highWatermark": quorum.high_watermark,
        "voters": replicas(quorum.voters),
        "observers": replicas(quorum.observers),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    return run_command_tool(build_parser(), arguments, run)


if __name__ == "__main__":
    sys.exit(main())
