"""`kafka-delete-records`: delete the records before given offsets; options and output of Kafka's
tool, and `--json`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from kmirror.cli.json_files import doubled, int_field, parse_object, read_text, rows, topic_partition
from kmirror.cli.tool_options import ToolParser, print_json, require, run_tool
from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition

DESCRIPTION = "This tool helps to delete records of the given partitions down to the specified offset."


def build_parser() -> ToolParser:
    parser = ToolParser("kafka-delete-records", DESCRIPTION)
    parser.connection()
    parser.value(
        "offset-json-file",
        "Offset json file path",
        'REQUIRED: a JSON file with the offset of each partition (-1 is the high watermark): {"partitions": [{"topic": "t", "partition": 1, '
        '"offset": 10}], "version": 1}',
    )
    parser.json_flag()
    return parser


def check(options: argparse.Namespace) -> None:
    require(options, "bootstrap-server", "offset-json-file")


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """Parse the file's content; KmirrorError with Kafka's words for what is wrong."""
    value = parse_object(text, "The input string is not a valid JSON")
    version = value.get("version", 1)
    if version != 1:
        raise KmirrorError(f"Not supported version field value {version}")
    if "partitions" not in value:
        raise KmirrorError("Missing partitions field")
    found = [(topic_partition(row), int_field(row, "offset")) for row in rows(value["partitions"], "partitions")]
    twice = doubled(name for name, _ in found)
    if twice:
        raise KmirrorError(f"Offset json file contains duplicate topic partitions: {','.join(map(str, twice))}")
    return dict(found)


def run(options: argparse.Namespace) -> int:
    from kmirror.admin.admin_client import AdminClient
    from kmirror.cli.java_names import java_exception
    from kmirror.cli.tool_client import with_admin
    from kmirror.common.errors import ApiException, Errors

    offsets = parse_offsets(read_text(options.offset_json_file))
    if not options.json:
        print("Executing records delete operation")

    async def delete(admin: AdminClient) -> dict[TopicPartition, int | ApiException]:
        """Delete the records; a partition that does not exist has a result, too."""
        described = await admin.describe_topics({name.topic for name in offsets})
        known = {TopicPartition(topic, row.partition) for topic, facts in described.items() for row in facts.partitions}
        missing = ApiException(Errors.UNKNOWN_TOPIC_OR_PARTITION)
        existing = {name: offset for name, offset in offsets.items() if name in known}
        results: dict[TopicPartition, int | ApiException] = {name: missing for name in offsets if name not in known}
        return results | (await admin.delete_records(existing) if existing else {})

    results = with_admin(options.bootstrap_server, options.command_config, delete)
    if options.json:
        print_json([_as_json(name, results[name]) for name in sorted(results)])
        return 0
    print("Records delete operation completed:")
    for name in sorted(offsets):
        result = results[name]
        what = f"error: {java_exception(result)}" if isinstance(result, ApiException) else f"low_watermark: {result}"
        print(f"partition: {name}\t{what}")
    return 0


def _as_json(name: TopicPartition, result: object) -> dict[str, object]:
    outcome = {"lowWatermark": result} if isinstance(result, int) else {"error": str(result)}
    return {"topic": name.topic, "partition": name.partition, **outcome}


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    return run_tool(build_parser(), arguments, check, run)


if __name__ == "__main__":
    sys.exit(main())
