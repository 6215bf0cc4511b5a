"""`kmirror replay`: produces recorded logs to a cluster again.

    kmirror replay /data/kafka --to host:9092 --create-topics                  at the original speed
    kmirror replay /data/kafka --to host:9092 --speed 10                       ten times as fast
    kmirror replay /data/kafka --to host:9092 --speed max --state progress/    as fast as possible; run it again after an interruption
    kmirror replay /data/kafka --serve localhost:9192                          a read-only broker: consumers and mirrors read the same bytes
    kmirror replay /data/kafka --serve localhost:9192 --to host:9092 --failover    mirrored there by KIP-1279, then made writable
    kmirror replay s3://bucket/kafka --to host:9092 --engine spark --state /shared/progress

Partitions, timestamps, keys, values, headers, the order within a partition, codecs and batch
boundaries stay the same; offsets and producer ids are the destination's. Transactions end as they
ended: see `kmirror.cli.replay_partition`. The producer is idempotent and retries whatever can be
retried (`delivery.timeout.ms`, two minutes). With `--state`, a replay that was interrupted in any
way continues where it was, and loses or repeats nothing: see `kmirror.cli.replay_state`. Nothing is
written where the logs are, and a broker may be running on them. They are read up to where they
ended when the replay began.

Ctrl-C (or SIGTERM) waits for what is under way and says where the replay stands; a second one does
not wait.

Exit code 0: everything was replayed. 1: it was not; one line says why. 2: the arguments are wrong.
130 after Ctrl-C, 143 after SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import signal
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from kmirror.admin.results import ConfigResourceType, TopicDescription
from kmirror.cli.log_diff_inputs import FolderInput, absolute_location, is_live, is_remote
from kmirror.cli.partition_numbers import parse_partition_numbers
from kmirror.cli.replay_client import TRANSACTION_TIMEOUT_MS, ReplayClient
from kmirror.cli.replay_pace import parse_speed
from kmirror.cli.replay_plan import Plan, Selection, make_plan, missing_topics, parse_rename
from kmirror.cli.replay_progress import Progress, counted, say, shown
from kmirror.cli.replay_report import report
from kmirror.cli.replay_run import CLIENT_ID, Destination, replay_partitions, scheduled
from kmirror.cli.replay_stop import Stop, exit_code
from kmirror.cli.tool_client import command_properties
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run as run_loop
from kmirror.runtime.ending_signals import signals_heard

TICK_MS = 500


def add_arguments(parser: argparse.ArgumentParser, command: str) -> None:
    add = parser.add_argument
    add("logs", metavar="LOGS", help="a broker's log.dir, one partition's folder, or a folder of log.dirs; a path or a URI")
    add("--to", metavar="SERVERS", help="the cluster that gets the records, as host:port,host:port")
    add(
        "--serve",
        metavar="HOST:PORT",
        help="the address (host:port) at which the recording is served as a read-only broker; with --to, that cluster mirrors it byte for byte",
    )
    add("--mirror", metavar="NAME", help="the mirror that --serve --to creates (default: replay)")
    add("--failover", action="store_true", help="with --serve --to: make the topics writable and end when everything is mirrored")
    add("--command-config", metavar="FILE", help="a file with settings of the client, e.g. security.protocol")
    add(
        "--speed",
        metavar="N",
        default="1",
        help="the speed, as a multiple of the original speed by the records' timestamps, or max (default: %(default)s)",
    )
    add("--topics", metavar="REGEX", help="only topics whose whole name matches")
    add("--partitions", metavar="LIST", help="only these partition numbers, for example 0,2-5")
    add("--rename", metavar="FROM=TO", action="append", default=[],
        help="replay a topic under another name; FROM is a regular expression for whole names, TO may have its groups as \\1; repeatable")  # fmt: skip
    add(
        "--starting-timestamp",
        metavar="TIME",
        help="leave out batches in which all records are older than this time, in ms since 1970 or as 2026-11-23T14:00:00Z",
    )
    add("--ending-timestamp", metavar="TIME", help="leave out batches with a record that is newer than this time")
    add(
        "--aborted",
        choices=["keep", "drop"],
        default="keep",
        help="whether aborted transactions are replayed (and aborted again) (default: %(default)s)",
    )
    add("--create-topics", action="store_true", help="create missing topics with the recording's number of partitions and retention.ms=-1")
    add(
        "--replication-factor",
        metavar="N",
        type=int,
        default=-1,
        help="the replication factor of topics that are created (default: the cluster's)",
    )
    add("--topic-config", metavar="NAME=VALUE", action="append", default=[], help="a configuration of topics that are created; repeatable")
    add("--state", metavar="DIR", help="the folder for the progress, with one file for each partition; a later run continues from there")
    add("--transactional-id", metavar="PREFIX", default=CLIENT_ID, help="the prefix of transactional ids (default: %(default)s)")
    add("--transaction-timeout-ms", metavar="MS", type=int, default=TRANSACTION_TIMEOUT_MS,
        help="the longest time in ms that a transaction may be open at the destination (default: %(default)s)")  # fmt: skip
    add(
        "--engine",
        choices=["local", "spark"],
        default="local",
        help="the engine; spark runs one Spark task for each partition (default: %(default)s)",
    )
    add("--master", metavar="URL", help="where Spark runs (default: as spark-submit says, else this machine); implies --engine spark")
    add("--json", action="store_true", help="print progress and result as JSON, one object a line")


def run(command: str, options: argparse.Namespace) -> int:
    """Run a replay, or serve the logs; returns the exit code."""
    if is_live(options.logs):
        raise KmirrorError(f"{options.logs} is a live cluster; kmirror replay reads log directories, kafka-mirrors mirrors clusters")
    _check_mode(options)
    speed = parse_speed(options.speed)
    configs = _configs(options.topic_config)
    wanted = selection_of(options)
    uses_spark = options.engine == "spark" or options.master is not None
    recorded = FolderInput(options.logs)
    if uses_spark:
        recorded = recorded.as_tasks_see_it()
    plan = make_plan(recorded, recorded.location, wanted)
    if options.serve is not None:
        return _serve(options, plan, recorded, configs)
    destination = Destination(
        options.to,
        command_properties(options.command_config),
        transactional_id_prefix=options.transactional_id,
        transaction_timeout_ms=options.transaction_timeout_ms,
        state_folder=state_folder(options.state, of_tasks=uses_spark),
    )
    if uses_spark:
        destination = replace(destination, properties=with_absolute_files(destination.properties))

    async def main(runtime: Runtime) -> int:
        ready = await prepare(runtime, destination, plan, options, configs)
        return await _replay(runtime, ready, plan, speed, as_json=options.json)

    if uses_spark:
        from kmirror.cli.replay_spark import replay_on_spark

        ready = run_loop(lambda runtime: prepare(runtime, destination, plan, options, configs))
        return replay_on_spark(ready, plan, speed, options.master, as_json=options.json)
    return run_loop(main)


def _check_mode(options: argparse.Namespace) -> None:
    """Raise KmirrorError for options that do not go with --serve, or not without it."""
    if options.serve is None:
        if options.to is None:
            raise KmirrorError("choose where the records go: --to SERVERS produces them to a cluster, --serve HOST:PORT serves them")
        if options.mirror is not None or options.failover:
            raise KmirrorError("--mirror and --failover can only be used with --serve and --to")
        return
    if options.to is None and (options.mirror is not None or options.failover):
        raise KmirrorError("--mirror and --failover need --to, the cluster that mirrors the recording")
    others = {"--speed": options.speed != "1", "--starting-timestamp": options.starting_timestamp, "--ending-timestamp": options.ending_timestamp,
        "--aborted": options.aborted == "drop", "--create-topics": options.create_topics, "--state": options.state,
        "--engine": options.engine == "spark", "--master": options.master, "--json": options.json}  # fmt: skip
    for name, is_given in others.items():
        if is_given:
            raise KmirrorError(f"{name} cannot be used with --serve, which serves logs unchanged")


def state_folder(given: str | None, *, of_tasks: bool) -> str | None:
    """Returns the folder of --state, with `of_tasks` as it is in every folder. KmirrorError for a
    URI."""
    if given is not None and is_remote(given):
        raise KmirrorError(f"--state {given}: the progress is kept on a disk, not at a URI; give a folder")
    return given if given is None or not of_tasks else absolute_location(given)


def with_absolute_files(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns a client's properties for tasks in other folders: key stores and trust stores lie
    where they lie for this process."""
    return {name: absolute_location(value) if name.endswith(".location") and value else value for name, value in properties.items()}


def _serve(options: argparse.Namespace, plan: Plan, recorded: FolderInput, configs: Mapping[str, str]) -> int:
    from kmirror.cli.replay_serve import MirrorWish, parse_address, serve

    wish = MirrorWish(options.to, options.mirror or "replay", options.failover, command_properties(options.command_config))
    return serve(plan, recorded, parse_address(options.serve), configs, wish)


def selection_of(options: argparse.Namespace) -> Selection:
    return Selection(
        topics=options.topics,
        partitions=parse_partition_numbers(options.partitions),
        renames=tuple(parse_rename(text) for text in options.rename),
        first_timestamp=parse_time(options.starting_timestamp, "--starting-timestamp"),
        last_timestamp=parse_time(options.ending_timestamp, "--ending-timestamp"),
        drops_aborted=options.aborted == "drop",
    )


def parse_time(text: str | None, option: str) -> int | None:
    """Returns ms since the epoch. A time without a zone is in UTC."""
    if text is None:
        return None
    if re.fullmatch(r"\d{1,18}", text):
        return int(text)
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError as error:
        raise KmirrorError(f"{option} takes ms since 1970 or a time such as 2026-11-23T14:00:00Z, not '{text}'") from error
    return round((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp() * 1000)


def _configs(texts: list[str]) -> dict[str, str]:
    configs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise KmirrorError(f"--topic-config takes NAME=VALUE, not '{text}'")
        configs[name] = value
    return configs


# -- the destination
# ------------------------------------------------------------------------------------------------------------


async def prepare(
    runtime: Runtime, destination: Destination, plan: Plan, options: argparse.Namespace, configs: Mapping[str, str]
) -> Destination:
    """Returns the destination with its topic ids, after missing topics are created.

    NoBrokerError if no broker answers.
    """
    async with destination.client(runtime) as client:
        cluster_id = await client.open()
        found = await client.describe_topics(plan.counts)
        missing = missing_topics(plan, found, create=options.create_topics, replication_factor=options.replication_factor, configs=configs)
        if missing:
            (await client.create_topics(missing)).all()
            for topic in missing:
                settings = ", ".join(f"{name}={value}" for name, value in sorted(topic.configs.items()))
                say(f"created topic {topic.name} with {counted(topic.num_partitions, 'partition')}, {settings}")
            found = await _described(client, plan)
        await _warn_of_times(client, [name for name in found if name not in {topic.name for topic in missing}])
    return replace(destination, cluster_id=cluster_id, topic_ids={name: str(topic.topic_id) for name, topic in found.items()})


async def _described(client: ReplayClient, plan: Plan) -> dict[str, TopicDescription]:
    """Returns the topics, once a broker knows all of them: it learns of new ones a moment later."""

    async def attempt() -> dict[str, TopicDescription]:
        found = await client.describe_topics(plan.counts)
        if len(found) < len(plan.counts):
            raise ApiException(Errors.UNKNOWN_TOPIC_OR_PARTITION)
        return found

    return await client.until_delivered(attempt)


async def _warn_of_times(client: ReplayClient, topics: list[str]) -> None:
    """Warn of existing topics that replace the records' timestamps."""
    for name in topics:
        try:
            entries = {entry.name: entry.value for entry in await client.describe_configs(ConfigResourceType.TOPIC, name)}
        except ApiException:
            continue  # who may only write may not see the configs
        if entries.get("message.timestamp.type") == "LogAppendTime":
            say(f"topic {name} has message.timestamp.type=LogAppendTime: its records will get the time of their arrival")


# -- in this process
# --------------------------------------------------------------------------------------------------------------


async def _replay(runtime: Runtime, destination: Destination, plan: Plan, speed: float | None, *, as_json: bool) -> int:
    schedule, done = await runtime.run_blocking(lambda: scheduled(destination, plan, speed))
    stop = Stop(runtime)
    with shown(plan.size, done, as_json=as_json, is_paced=speed is not None) as progress, _stopping(stop) as signals:
        ticker = runtime.spawn(_tick(stop, progress), name="replay-progress")
        try:
            outcomes = await replay_partitions(runtime, destination, plan.partitions, schedule, stop, progress.told)
        finally:
            ticker.cancel()
    report(progress, outcomes, plan, destination, as_json=as_json)
    return exit_code(signal.SIGTERM if signal.SIGTERM in signals else signal.SIGINT) if signals else 0


async def _tick(stop: Stop, progress: Progress) -> None:
    while await stop.sleep_ms(TICK_MS):
        progress.tick()


@contextlib.contextmanager
def _stopping(stop: Stop) -> Iterator[list[signal.Signals]]:
    """Yields the list of signals that came.

    The first one asks for an orderly end, the second one ends at once.
    """
    main = asyncio.current_task()
    seen: list[signal.Signals] = []

    def on_signal(number: signal.Signals) -> None:
        seen.append(number)
        if len(seen) == 1:
            stop.set()
        elif main is not None:
            main.cancel()

    with signals_heard(on_signal):
        try:
            yield seen
        except asyncio.CancelledError:
            if len(seen) > 1:
                raise KeyboardInterrupt from None
            raise
