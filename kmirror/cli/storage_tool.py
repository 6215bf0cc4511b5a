"""`kafka-storage`: format a node's log directories, inspect them, make ids.

It has the options and output of Kafka's tool, and `--json` on info. `format` and `random-uuid` are
the same as `kmirror format` and `kmirror random-uuid`. `--initial-controllers` names this node: the
quorum has one voter.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from kmirror.cli import storage
from kmirror.cli.tool_commands import CommandParser, run_command_tool
from kmirror.cli.tool_options import print_json

COMMANDS = "{info,format,version-mapping,feature-dependencies,random-uuid}"


def build_parser() -> CommandParser:
    parser = CommandParser(prog="kafka-storage", description="The Kafka storage tool.", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True, metavar=COMMANDS)
    info = commands.add_parser("info", help="show what is in the log directories of this node")
    info.add_argument("-c", "--config", type=Path, required=True, help="the node's properties file")
    info.add_argument("--json", action="store_true", help="print JSON")
    storage.add_arguments(commands.add_parser("format", help="format the log directories of this node"), "format")
    mapping = commands.add_parser("version-mapping", help="print the feature levels that go with a release, the latest by default")
    mapping.add_argument("-r", "--release-version", help="the release, such as 4.0-IV3")
    dependencies = commands.add_parser("feature-dependencies", help="print the dependencies of feature levels")
    dependencies.add_argument("-f", "--feature", action="append", required=True, metavar="NAME=LEVEL", help="a feature and its level")
    commands.add_parser("random-uuid", help="print a new random cluster id")
    return parser


def run(options: argparse.Namespace) -> int:
    if options.command in ("format", "random-uuid"):
        return storage.run(options.command, options)
    if options.command == "info":
        return _info(options)
    from kmirror.cli.feature_versions import feature_dependencies, version_mapping

    mapped = version_mapping(options.release_version) if options.command == "version-mapping" else feature_dependencies(options.feature)
    print("\n".join(mapped))
    return 0


def _info(options: argparse.Namespace) -> int:
    """Print what is in the log directories; returns 1 if there is a problem."""
    from kmirror.cli.properties import read_node_properties
    from kmirror.server.kafka_config import KafkaConfig

    config = KafkaConfig.from_props(read_node_properties(options.config))
    found, problems, metadata = inspect(sorted(dict.fromkeys([config.metadata_log_dir, *config.log_dirs])))
    if options.json:
        print_json({"logDirectories": found, "metadata": metadata, "problems": problems})
        return 1 if problems else 0
    _section("Found log director", ("y", "ies"), found)
    if metadata:
        print(f"Found metadata: {{{', '.join(f'{name}={metadata[name]}' for name in sorted(metadata))}}}\n")
    _section("Found problem", ("", "s"), problems)
    return 1 if problems else 0


def _section(title: str, endings: tuple[str, str], lines: list[str]) -> None:
    if lines:
        print(f"{title}{endings[len(lines) > 1]}:")
        for line in lines:
            print(f"  {line}")
        print()


def inspect(directories: Sequence[str]) -> tuple[list[str], list[str], dict[str, str]]:
    """Returns the directories that exist, the problems, and the first metadata found."""
    from kmirror.common.errors import KmirrorError
    from kmirror.runtime.os_files import OsFileSystem
    from kmirror.storage.meta_properties import read_meta_properties

    files = OsFileSystem()
    found: list[str] = []
    problems: list[str] = []
    metadata: dict[str, str] = {}
    for directory in directories:
        if not files.exists(directory):
            problems.append(f"{directory} does not exist")
            continue
        if not files.is_dir(directory):
            problems.append(f"{directory} is not a directory")
            continue
        found.append(directory)
        try:
            present = read_meta_properties(files, directory)
        except KmirrorError as error:
            problems.append(f"Error loading {directory}/meta.properties: {error}")
            continue
        if present is None:
            problems.append(f"{directory} is not formatted.")
        elif not metadata:
            metadata = {
                "cluster.id": present.cluster_id or "",
                "directory.id": str(present.directory_id),
                "node.id": str(present.node_id),
                "version": "1",
            }
        elif present.cluster_id != metadata["cluster.id"]:
            problems.append("Mismatched cluster IDs between storage directories.")
        elif str(present.node_id) != metadata["node.id"]:
            problems.append("Mismatched node IDs between storage directories.")
    return found, problems, metadata


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    return run_command_tool(build_parser(), arguments, run)


if __name__ == "__main__":
    sys.exit(main())
