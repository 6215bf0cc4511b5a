"""`kmirror verify-logs`: checks what brokers wrote beside their segments against the segments.

    kmirror verify-logs /data/kafka                  a broker's log.dir
    kmirror verify-logs /data/kafka/orders-0         one partition
    kmirror verify-logs cluster/ --output tables/    a folder of log.dirs; every table as a file
    kmirror verify-logs s3://bucket/kafka --json     a remote folder (needs kmirror[spark])
    kmirror verify-logs s3://bucket/kafka --master spark://host:7077     on Spark's executors
    kmirror verify-logs bootstrap:localhost:9092                         the set of logs alone

Every batch is read and its CRC checked; `--deep` also unpacks it and holds its records against its
header. Producers' sequences must go on from batch to batch. Leader epochs, producers, transactions
and index entries are computed from the batches alone and compared with `leader-epoch-checkpoint`,
every `.snapshot`, `.txnindex`, `.index`, `.timeindex` and the checkpoints of the log.dir. The keys
of compacted topics are read, too, and compared with `cleaner-offset-checkpoint`. If the input has
the internal topics, they are also compared with the logs: groups, mirror states, transactions,
leader epochs; they are read every time. Nothing is written to the input, and a broker may be running on it. What merely
cannot be known is not reported: see `kmirror.verify.replay`.

The set of logs is judged, too: what has to be there by `__cluster_metadata` and the checkpoints and
is not, and what is there and is nobody's (`kmirror.verify.replay.inventory`).

The last line says what was not looked at: a verdict speaks only of the rest.

Exit code 0: nothing is wrong. 1: something is; one line each says what and where. 2: an input
cannot be read, or the arguments are wrong.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable
from pathlib import Path

from kmirror.cli.engines import ENGINES, chosen_engine
from kmirror.cli.log_diff_inputs import absolute_location, is_live, is_remote, open_location
from kmirror.cli.log_diff_output import read_table_files, write_pages, write_table_files
from kmirror.cli.partition_numbers import parse_partition_numbers
from kmirror.cli.user_errors import exit_code
from kmirror.cli.verify_engines import engine_named
from kmirror.cli.verify_logs_text import json_report, not_looked_at, text_report
from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.verify.moving_logs import PAUSE_S
from kmirror.verify.planner import list_input
from kmirror.verify.replay.data_dir_ids import identity_findings
from kmirror.verify.replay.findings import SCHEMA_VERSION
from kmirror.verify.replay.folder import ReplaySettings, clusters_of, replay_cluster
from kmirror.verify.replay.kept import Known
from kmirror.verify.replay.tables import TABLES, ReplayTables, columns_of, table_of


def add_arguments(parser: argparse.ArgumentParser, command: str) -> None:
    add = parser.add_argument
    add("logs", metavar="LOGS", help="a broker's log.dir, one partition's folder, or a folder of log.dirs; a path or a URI; or "
        "bootstrap:HOST:PORT,...: which replicas a running cluster has to have, and has")  # fmt: skip
    add("--engine", choices=ENGINES, default="auto", help="where to read: on this machine (local), or on Spark in tasks of "
        "about 64 MB (spark). auto is local unless the "
        "input is remote or larger than 64 GiB, and kmirror[spark] is installed")  # fmt: skip
    add("--master", metavar="URL", help="where Spark runs, as spark-submit takes it (spark://host:7077, yarn, local[4]); default: what "
        "spark-submit or spark-defaults.conf set, else all cores of this machine; implies --engine spark")  # fmt: skip
    add("--topics", metavar="REGEX", help="only topics whose whole name matches")
    add("--partitions", metavar="LIST", help="only these partition numbers, for example 0,2-5")
    add("--compacted", metavar="TOPICS", help="the topics with cleanup.policy=compact, separated by commas, or none (default: what the "
        "metadata log says; without one, gaps are shown and are no findings)")  # fmt: skip
    add("--no-crc", action="store_true", help="do not check CRCs; the records of large batches are then not read")
    add(
        "--deep",
        action="store_true",
        help="also unpack every batch and hold its records against its header (3 to 40 times the CPU)",
    )
    add("--no-keys", action="store_true", help="do not read the records of compacted topics; the table compaction is then empty")
    add("--producer-id-expiration-ms", metavar="MS", type=int, default=ReplaySettings().producer_id_expiration_ms,
        help="the brokers' producer.id.expiration.ms (default: %(default)s); a producer idle for longer may be missing in a snapshot")  # fmt: skip
    add("--output", metavar="DIR", help="also write every table there: Parquet, or JSON lines without kmirror[spark]; and report.html; the next run with "
        "this DIR reads only segments that are new or changed")  # fmt: skip
    add(
        "--full",
        action="store_true",
        help="with --output: read all segments again; data that a disk has lost does not change the time of a file",
    )
    add("--report", metavar="FILE", type=Path, help="also write the report as one self-contained HTML page")
    add("--json", action="store_true", help="print logs and findings as JSON instead of text")


def run(command: str, options: argparse.Namespace) -> int:
    return exit_code(lambda: _run(options), failed=f"kmirror {command}: ", failure_code=2)


def _run(options: argparse.Namespace) -> int:
    began = time.monotonic()
    if is_live(options.logs):
        from kmirror.cli.verify_live import verify_live

        return verify_live(options, _defaults())
    settings = settings_of(options)
    wants = _wanted(options)
    location = options.logs
    files, path = open_location(location)
    listing = list_input(files, path, location=location)
    size = sum(partition.size for partition in listing.partitions if wants(partition.topic_partition))
    name = chosen_engine(options.engine, options.master, is_remote=is_remote(location), size_bytes=size)
    if name == "spark" and absolute_location(location) != location:
        location = absolute_location(location)
        listing = list_input(files, location)
    engine = engine_named(name, options.master)
    known = None if options.output is None else {} if options.full else read_kept(options.output)
    tables, unseen = ReplayTables(), not_looked_at(settings)
    if wants_all(options):
        found, unknown = identity_findings(files, listing)
        tables.findings += found
        unseen += unknown
    for cluster in clusters_of(files, listing):
        tables.extend(replay_cluster(files, cluster, settings, engine=engine, wants=wants, known=known, pause=_pause, unseen=unseen))
    unseen = list(dict.fromkeys(unseen))
    if not tables.logs:
        raise KmirrorError(f"there is nothing to verify: {options.logs} has none of the requested partitions")
    if options.output is not None:
        write_tables(tables, options.output)
    if options.report is not None or options.output is not None:
        from kmirror.cli.html_page import Provenance
        from kmirror.cli.verify_logs_html import findings_html

        made = Provenance.of(["kmirror", *options.given], began)
        write_pages(options.report, options.output, lambda: findings_html(location, tables, made, unseen))
    print(json_report(location, tables, unseen) if options.json else text_report(location, tables, unseen))
    return 1 if tables.findings else 0


def wants_all(options: argparse.Namespace) -> bool:
    return options.topics is None and options.partitions is None


def _defaults() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser, "verify-logs")
    return parser.parse_args([""])


def _pause() -> None:
    time.sleep(PAUSE_S)


def settings_of(options: argparse.Namespace) -> ReplaySettings:
    compacted = None if options.compacted is None else tuple(name for name in options.compacted.split(",") if name not in ("", "none"))
    return ReplaySettings(
        check_crc=not options.no_crc,
        unpack=options.deep,
        producer_id_expiration_ms=options.producer_id_expiration_ms,
        compacted_topics=compacted,
        read_keys=not options.no_keys,
    )


def _wanted(options: argparse.Namespace) -> Callable[[TopicPartition], bool]:
    numbers = parse_partition_numbers(options.partitions)
    try:
        pattern = re.compile(options.topics or ".*")
    except re.error as error:
        raise KmirrorError(f"--topics: '{options.topics}' is not a regular expression: {error}") from error
    return lambda name: pattern.fullmatch(name.topic) is not None and (numbers is None or name.partition in numbers)


def write_tables(tables: ReplayTables, folder: str) -> None:
    """Write a file per table, and replace earlier ones.

    It is `<table>.parquet`, or `<table>.jsonl` if pyarrow is not installed.
    """
    write_table_files(folder, {table_of(name): columns_of(name, tables.rows(name)) for name in TABLES})


def read_kept(folder: str) -> Known:
    """Returns what the previous run kept; empty without one, or if its table makes no sense."""
    table = table_of("kept")
    try:
        tables = read_table_files(folder, (table,))
        if tables is None or {*tables[table]["schema_version"]} - {SCHEMA_VERSION}:
            return {}
        columns = [tables[table][name] for name in ("log", "base_offset", "identity", "kept")]
        return {(log, None if base is None else int(base)): (identity, kept) for log, base, identity, kept in zip(*columns)}
    except (KeyError, ValueError, TypeError, IndexError):
        return {}  # not ours, or half written: read everything
