"""`kafka-transactions`: look at transactions, find those that hang and end them; options and output
of Kafka's tool, and `--json`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from kmirror.cli.tool_commands import CommandParser, run_command_tool
from kmirror.cli.tool_options import KAFKA_VERSION, CommandError, print_json
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kmirror.admin.admin_client import AdminClient
    from kmirror.admin.transactions import AbortTransactionSpec, ProducerState

DESCRIPTION = (
    "This tool is used to analyze the transactional state of producers in the cluster. It can be used to detect and recover from hanging "
    "transactions."
)
LIST_HEADERS = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
DESCRIBE_HEADERS = (
    "CoordinatorId",
    "TransactionalId",
    "ProducerId",
    "ProducerEpoch",
    "TransactionState",
    "TransactionTimeoutMs",
    "CurrentTransactionStartTimeMs",
    "TransactionDurationMs",
    "TopicPartitions",
)
PRODUCER_HEADERS = (
    "ProducerId",
    "ProducerEpoch",
    "LatestCoordinatorEpoch",
    "LastSequence",
    "LastTimestamp",
    "CurrentTransactionStartOffset",
)
HANGING_HEADERS = ("Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset", "LastTimestamp", "Duration(min)")
MS_PER_MINUTE = 60_000

Row = tuple[object, ...]


def build_parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="kafka-transactions", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("-v", "--version", action="store_true", help="show the version of Kafka whose tool this is, and exit")
    parser.add_argument("--command-config", metavar="FILE", help="a file with settings of the admin client, e.g. security.protocol")
    parser.add_argument("--bootstrap-server", metavar="host:port", help="REQUIRED: the brokers to connect to, comma separated")
    parser.add_argument("--json", action="store_true", help="print JSON instead of Kafka's tables")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", parser_class=CommandParser)

    listing = _command(commands, "list", "list transactions")
    listing.add_argument(
        "--duration-filter",
        type=int,
        help="show only transactions that have run for longer than this time in ms; a negative number shows all",
    )
    listing.add_argument("--transactional-id-pattern", help="only transactional ids that match this regular expression (RE2)")

    describe = _command(commands, "describe", "describe the state of an active transactional-id")
    describe.add_argument("--transactional-id", required=True, help="transactional id")

    producers = _command(commands, "describe-producers", "describe the states of active producers for a topic partition")
    producers.add_argument("--broker-id", type=int, help="describe the producers of this broker's replica instead of the leader's")
    _partition(producers)

    abort = _command(commands, "abort", "abort a hanging transaction (requires administrative privileges)")
    _partition(abort)
    abort.add_argument("--start-offset", type=int, help="the offset at which the transaction to abort begins in the partition")
    abort.add_argument("--producer-id", type=int, help="instead of --start-offset: the producer's id")
    abort.add_argument("--producer-epoch", type=int, help="with --producer-id: the producer's epoch")
    abort.add_argument("--coordinator-epoch", type=int, help="with --producer-id: the coordinator epoch of the marker")

    hanging = _command(commands, "find-hanging", "find hanging transactions")
    hanging.add_argument("--broker-id", type=int, help="search the replicas of this broker")
    hanging.add_argument(
        "--max-transaction-timeout", type=int, default=15, help="ignore transactions that are newer than this time in minutes (default: 15)"
    )
    hanging.add_argument("--topic", help="search this topic only (required with --partition)")
    hanging.add_argument("--partition", type=int, help="search this partition only")

    force = _command(
        commands, "forceTerminateTransaction", "Force abort an ongoing transaction on transactionalId (requires administrative privileges)"
    )
    force.add_argument("--transactionalId", dest="transactional_id", required=True, help="transactional id")
    return parser


def _command(commands: Any, name: str, text: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
    return command


def _partition(command: argparse.ArgumentParser) -> None:
    command.add_argument("--topic", required=True, help="topic name")
    command.add_argument("--partition", type=int, required=True, help="partition number")


def print_table(headers: Sequence[str], rows: Sequence[Row], *, as_json: bool) -> None:
    """Print columns as wide as their widest cell, each followed by a tab; or a list of objects."""
    if as_json:
        print_json([dict(zip(headers, row, strict=True)) for row in rows])
        return
    texts = [tuple(headers), *(tuple("None" if cell is None else str(cell) for cell in row) for row in rows)]
    widths = [max(len(row[column]) for row in texts) for column in range(len(headers))]
    for row in texts:
        print("".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True)))


def failed(what: str, error: KmirrorError) -> CommandError:
    text = error.message if isinstance(error, ApiException) else str(error)
    return CommandError(f"{what}: {text}. Enable debug logging for additional detail.")


# --- the commands
# -----------------------------------------------------------------------------------------------------------


async def list_transactions(admin: AdminClient, options: argparse.Namespace, now_ms: int) -> None:
    from kmirror.admin.transactions import TransactionsFilter

    duration_ms = -1 if options.duration_filter is None else options.duration_filter
    try:
        found = await admin.list_transactions(
            TransactionsFilter(duration_ms=duration_ms, transactional_id_pattern=options.transactional_id_pattern)
        )
    except KmirrorError as error:
        raise failed("Failed to list transactions", error) from error
    rows = [(each.transactional_id, broker, each.producer_id, each.state) for broker, group in found.items() for each in group]
    print_table(LIST_HEADERS, rows, as_json=options.json)


async def describe(admin: AdminClient, options: argparse.Namespace, now_ms: int) -> None:
    name = options.transactional_id
    try:
        found = (await admin.describe_transactions([name]))[name]
        if isinstance(found, ApiException):
            raise found
    except KmirrorError as error:
        raise failed(f"Failed to describe transaction state of transactional-id `{name}`", error) from error
    start_ms = found.transaction_start_time_ms
    partitions = [str(partition) for partition in found.topic_partitions]
    row = (
        found.coordinator_id,
        name,
        found.producer_id,
        found.producer_epoch,
        found.state,
        found.transaction_timeout_ms,
        start_ms,
        None if start_ms is None else now_ms - start_ms,
        partitions if options.json else ",".join(partitions),
    )
    print_table(DESCRIBE_HEADERS, [row], as_json=options.json)


async def describe_producers(admin: AdminClient, options: argparse.Namespace, now_ms: int) -> None:
    partition = TopicPartition(options.topic, options.partition)
    try:
        found = (await admin.describe_producers([partition], broker_id=options.broker_id))[partition]
    except KmirrorError as error:
        where = "leader" if options.broker_id is None else f"broker {options.broker_id}"
        raise failed(f"Failed to describe producers for partition {partition} on {where}", error) from error
    rows = [
        (
            state.producer_id,
            state.producer_epoch,
            -1 if state.coordinator_epoch is None else state.coordinator_epoch,
            state.last_sequence,
            state.last_timestamp,
            state.current_transaction_start_offset,
        )
        for state in found
    ]
    print_table(PRODUCER_HEADERS, rows, as_json=options.json)


async def abort(admin: AdminClient, options: argparse.Namespace, now_ms: int) -> None:
    spec = await _abort_spec(admin, options)
    try:
        await admin.abort_transaction(spec)
    except KmirrorError as error:
        raise failed(f"Failed to abort transaction {spec}", error) from error
    if options.json:
        print_json({"aborted": {"topic": options.topic, "partition": options.partition, "producerId": spec.producer_id}})


async def _abort_spec(admin: AdminClient, options: argparse.Namespace) -> AbortTransactionSpec:
    from kmirror.admin.transactions import AbortTransactionSpec

    partition = TopicPartition(options.topic, options.partition)
    if options.start_offset is None:
        return AbortTransactionSpec(partition, options.producer_id, options.producer_epoch, max(options.coordinator_epoch, 0))
    try:
        producers = (await admin.describe_producers([partition]))[partition]
    except KmirrorError as error:
        raise failed(f"Failed to validate producer state for partition {partition}", error) from error
    for state in producers:
        if state.current_transaction_start_offset == options.start_offset:
            return AbortTransactionSpec(partition, state.producer_id, state.producer_epoch, state.coordinator_epoch or 0)
    raise CommandError(f"Could not find any open transactions starting at offset {options.start_offset} on partition {partition}")


async def find_hanging(admin: AdminClient, options: argparse.Namespace, now_ms: int) -> None:
    partitions = await _partitions_to_search(admin, options)
    try:
        found = await admin.describe_producers(partitions, broker_id=options.broker_id) if partitions else {}
    except KmirrorError as error:
        raise failed(f"Failed to describe producers for {len(partitions)} partitions on broker {options.broker_id}", error) from error
    limit_ms = options.max_transaction_timeout * MS_PER_MINUTE
    candidates = [
        (partition, state)
        for partition, states in found.items()
        for state in states
        if state.current_transaction_start_offset is not None and now_ms - state.last_timestamp > limit_ms
    ]
    rows = [
        (
            partition.topic,
            partition.partition,
            state.producer_id,
            state.producer_epoch,
            -1 if state.coordinator_epoch is None else state.coordinator_epoch,
            state.current_transaction_start_offset,
            state.last_timestamp,
            (now_ms - state.last_timestamp) // MS_PER_MINUTE,
        )
        for partition, state in await _without_known(admin, candidates)
    ]
    print_table(HANGING_HEADERS, rows, as_json=options.json)


async def _partitions_to_search(admin: AdminClient, options: argparse.Namespace) -> list[TopicPartition]:
    if options.topic is not None and options.partition is not None:
        return [TopicPartition(options.topic, options.partition)]
    try:
        names = [options.topic] if options.topic is not None else await admin.list_topics(include_internal=True)
        topics = await admin.describe_topics(names)
        if options.topic is not None and not topics:
            raise ApiException(Errors.UNKNOWN_TOPIC_OR_PARTITION)
    except KmirrorError as error:
        raise failed("Failed to describe topics", error) from error
    return [
        TopicPartition(topic.name, partition.partition)
        for topic in topics.values()
        for partition in topic.partitions
        if options.broker_id is None or options.broker_id in partition.replicas
    ]


async def _without_known(
    admin: AdminClient, candidates: list[tuple[TopicPartition, ProducerState]]
) -> list[tuple[TopicPartition, ProducerState]]:
    """Returns the candidates that are unknown to a coordinator.

    Either no coordinator knows the producer, or its coordinator does not have the partition in the
    transaction.
    """
    from kmirror.admin.transactions import TransactionDescription, TransactionsFilter

    if not candidates:
        return []
    producer_ids = tuple(sorted({state.producer_id for _, state in candidates}))
    try:
        listed = await admin.list_transactions(TransactionsFilter(producer_ids=producer_ids))
        names = {each.producer_id: each.transactional_id for group in listed.values() for each in group}
        described = await admin.describe_transactions(names.values())
    except KmirrorError as error:
        raise failed(f"Failed to list transactions for {len(producer_ids)} producers", error) from error

    def is_known(partition: TopicPartition, state: ProducerState) -> bool:
        found = described.get(names.get(state.producer_id, ""))
        return isinstance(found, TransactionDescription) and partition in found.topic_partitions

    return [(partition, state) for partition, state in candidates if not is_known(partition, state)]


async def force_terminate(admin: AdminClient, options: argparse.Namespace, now_ms: int) -> None:
    try:
        await admin.force_terminate_transaction(options.transactional_id)
    except KmirrorError as error:
        raise failed(f"Failed to force terminate transactionalId `{options.transactional_id}`", error) from error
    if options.json:
        print_json({"terminated": options.transactional_id})


COMMANDS: dict[str, Callable[[AdminClient, argparse.Namespace, int], Awaitable[None]]] = {
    "list": list_transactions,
    "describe": describe,
    "describe-producers": describe_producers,
    "abort": abort,
    "find-hanging": find_hanging,
    "forceTerminateTransaction": force_terminate,
}


# --- running
# -----------------------------------------------------------------------------------------------------------------


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Check what argparse cannot, with Kafka's messages."""
    if options.command is None:
        parser.error("too few arguments")
    if options.bootstrap_server is None:
        parser.error("argument --bootstrap-server is required")
    if options.command == "abort" and options.start_offset is None:
        if options.producer_id is None:
            raise CommandError(
                "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or with "
                "--producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
            )
        for name in ("producer-epoch", "coordinator-epoch"):
            if getattr(options, name.replace("-", "_")) is None:
                raise CommandError(f"Missing required argument --{name}")
    if options.command == "find-hanging":
        if options.topic is None and options.broker_id is None:
            raise CommandError("The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search")
        if options.partition is not None and options.topic is None:
            raise CommandError("The --partition argument requires --topic to be provided")


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    parser = build_parser()

    def run(options: argparse.Namespace) -> int:
        from kmirror.cli.tool_client import with_admin
        from kmirror.runtime.system_ports import SystemClock

        if options.version:
            print(KAFKA_VERSION)
            return 0
        check(parser, options)
        now_ms = SystemClock().time_ms()
        with_admin(options.bootstrap_server, options.command_config, lambda admin: COMMANDS[options.command](admin, options, now_ms))
        return 0

    return run_command_tool(parser, arguments, run)


if __name__ == "__main__":
    sys.exit(main())
