"""`kmirror random-uuid` and `kmirror format`: make a cluster id, and format a node's log dirs.

Kafka's tool for this is kafka-storage.
"""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser, command: str) -> None:
    if command == "random-uuid":
        return
    parser.add_argument("-c", "--config", type=Path, required=True, help="the node's properties file")
    parser.add_argument("-t", "--cluster-id", required=True, help="the cluster's id (kmirror random-uuid makes one)")
    parser.add_argument("-g", "--ignore-formatted", action="store_true", help="skip log directories that are already formatted")
    parser.add_argument("-r", "--release-version", help="the release whose feature levels the cluster begins with, such as 4.3")
    parser.add_argument(
        "-f", "--feature", action="append", default=[], metavar="NAME=LEVEL", help="a feature level, such as mirror.version=1"
    )
    parser.add_argument(
        "-S",
        "--add-scram",
        action="append",
        default=[],
        metavar="SPEC",
        help="a SCRAM credential, such as SCRAM-SHA-256=[name=u,password=p]",
    )
    parser.add_argument("-s", "--standalone", action="store_true", help="a dynamic quorum with this node as its only voter")
    parser.add_argument("-N", "--no-initial-controllers", action="store_true", help="a dynamic quorum without an initial voter set")
    parser.add_argument(
        "-I", "--initial-controllers", metavar="ID@HOST:PORT:DIRECTORY_ID", help="a dynamic quorum with this voter, which must be this node"
    )


class _Ports:
    """The parts of the machine that formatting needs."""

    def __init__(self) -> None:
        from kmirror.runtime.os_files import OsFileSystem
        from kmirror.runtime.system_ports import SystemClock, SystemRandom

        self.clock = SystemClock()
        self.random = SystemRandom()
        self.files = OsFileSystem()


def run(command: str, options: argparse.Namespace) -> int:
    from kmirror.common.uuid import Uuid

    ports = _Ports()
    if command == "random-uuid":
        print(Uuid.random(ports.random))
        return 0
    from kmirror.cli.properties import read_node_properties
    from kmirror.controller.dynamic_voter import parse_initial_controllers
    from kmirror.controller.storage_tool import FormatOptions, format_node, parse_feature_argument
    from kmirror.server.kafka_config import KafkaConfig

    config = KafkaConfig.from_props(read_node_properties(options.config))
    for line in format_node(
        config,
        FormatOptions(
            cluster_id=options.cluster_id,
            features=dict(parse_feature_argument(text) for text in options.feature),
            release_version=options.release_version,
            add_scram=tuple(options.add_scram),
            ignore_formatted=options.ignore_formatted,
            standalone=options.standalone,
            no_initial_controllers=options.no_initial_controllers,
            initial_controller=None if options.initial_controllers is None else parse_initial_controllers(options.initial_controllers),
        ),
        ports,
    ):
        print(line)
    return 0
