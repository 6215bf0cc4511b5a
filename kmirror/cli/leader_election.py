"""`kafka-leader-election`: elects preferred leaders, or unclean ones if no replica is in sync.

It has the options and output of Kafka's tool.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from kmirror.cli.json_files import doubled, parse_object, read_text, rows, topic_partition
from kmirror.cli.tool_options import ToolParser, print_json, run_tool
from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition

DESCRIPTION = (
    "This tool attempts to elect a new leader for a set of topic partitions. The type of elections supported are preferred replicas and "
    "unclean replicas."
)
SCOPES = ("topic", "all-topic-partitions", "path-to-json-file")


def build_parser() -> ToolParser:
    parser = ToolParser("kafka-leader-election", DESCRIPTION)
    parser.connection()
    parser.value("admin.config", "config file", "Deprecated: --command-config.")
    parser.value(
        "election-type",
        "PREFERRED|UNCLEAN",
        "REQUIRED: the kind of election: the preferred (first) replica becomes leader, or any replica if none is in sync (unclean).",
    )
    parser.flag("all-topic-partitions", "Hold the election for every partition that needs it.")
    parser.value("topic", "topic name", "The topic of the partition; --partition is needed too.")
    parser.value("partition", "partition id", "The partition of --topic.", kind="Integer")
    parser.value("path-to-json-file", "path", 'A file with partitions: {"partitions": [{"topic": "foo", "partition": 1}]}')
    parser.json_flag()
    return parser


def check(options: argparse.Namespace) -> None:
    given = options.given
    missing = [name for name in ("bootstrap-server", "election-type") if name not in given]
    if missing:
        raise KmirrorError(f"Missing required option(s): {', '.join(missing)}")
    if options.election_type.upper() not in ("PREFERRED", "UNCLEAN"):
        raise KmirrorError(f"Cannot parse argument '{options.election_type}' of option election-type")
    if len(set(SCOPES) & given) != 1:
        raise KmirrorError(f"One and only one of the following options is required: {', '.join(SCOPES)}")
    if "topic" in given and "partition" not in given:
        raise KmirrorError("Missing required option(s): partition")
    if "partition" in given and "topic" not in given:
        raise KmirrorError("Option partition is only allowed if topic is used")


def parse_partitions(text: str) -> list[TopicPartition]:
    """Parse the file's partitions; KmirrorError with Kafka's words for what is wrong."""
    value = parse_object(text, "Replica election data is empty")
    if "partitions" not in value:
        raise KmirrorError('Replica election data is missing "partitions" field')
    names = [topic_partition(row) for row in rows(value["partitions"], "partitions")]
    twice = doubled(names)
    if twice:
        raise KmirrorError(f"Replica election data contains duplicate partitions: [{', '.join(map(str, twice))}]")
    return names


def run(options: argparse.Namespace) -> int:
    from kmirror.admin.reassignments import ElectionType
    from kmirror.cli.java_names import java_exception
    from kmirror.cli.tool_client import with_admin
    from kmirror.common.errors import Errors
    from kmirror.common.java_hash_map import topic_partition_order

    kind = ElectionType[options.election_type.upper()]
    wanted: list[TopicPartition] | None = None
    if options.path_to_json_file is not None:
        wanted = parse_partitions(read_text(options.path_to_json_file))
    elif options.topic is not None:
        wanted = [TopicPartition(options.topic, options.partition)]
    config = options.command_config or options.admin_config
    results = with_admin(options.bootstrap_server, config, lambda admin: admin.elect_leaders(kind, wanted))
    noop = [name for name, error in results.items() if error is not None and error.error is Errors.ELECTION_NOT_NEEDED]
    failed = {name: error for name, error in results.items() if error is not None and name not in noop}
    done = [name for name, error in results.items() if error is None]
    if options.json:
        print_json(
            {
                "electionType": kind.name,
                "elected": [str(name) for name in sorted(done)],
                "notNeeded": [str(name) for name in sorted(noop)],
                "failed": {str(name): failed[name].message for name in sorted(failed)},
            }
        )
        return 1 if failed else 0
    if done:
        names = ", ".join(map(str, topic_partition_order(done)))
        print(f"Successfully completed leader election ({kind.name}) for partitions {names}")
    if noop:
        print(f"Valid replica already elected for partitions {', '.join(map(str, topic_partition_order(noop)))}")
    for name in topic_partition_order(failed):
        print(f"Error completing leader election ({kind.name}) for partition: {name}: {java_exception(failed[name])}")
    if failed:
        raise KmirrorError(f"{len(failed)} replica(s) could not be elected")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    return run_tool(build_parser(), arguments, check, run)


if __name__ == "__main__":
    sys.exit(main())
