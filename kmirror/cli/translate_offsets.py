"""`kmirror translate-offsets`: where MirrorMaker 2 would let a group go on, and what it would read
again.

    kmirror translate-offsets --config mm2.properties --source A --target B --group app
    kmirror translate-offsets --syncs FILE --offset 998400           syncs from a file
    kmirror translate-offsets --records 1000000 --offset 998400      a partition that is only imagined

With `--config` the flow's clusters are asked: for what the group has committed at the source, and for
the offset-syncs topic where the configuration puts it. Nothing is written. A line of FILE is `source
target`, two offsets, or what the console consumer's OffsetSyncFormatter prints.

The syncs are those of a task that has read the whole topic. A running MirrorMaker may keep others,
since it may have read syncs that compaction has removed.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

from kmirror.admin.admin_client import AdminClient
from kmirror.cli.properties import read_properties
from kmirror.cli.tool_client import open_admin, resolved
from kmirror.cli.translate_offsets_text import as_json, report
from kmirror.common.errors import ConfigError, KmirrorError
from kmirror.common.ports import Buffer
from kmirror.common.sentinels import EARLIEST_TIMESTAMP
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.connector_config import MirrorCheckpointConfig
from kmirror.mirrormaker.cycles import SourceAndTarget
from kmirror.mirrormaker.formats import OffsetSync, SchemaException
from kmirror.mirrormaker.mirror_maker_config import MirrorMakerConfig
from kmirror.mirrormaker.offset_sync_store import OffsetSyncStore
from kmirror.mirrormaker.offset_syncs import OFFSET_LAG_MAX_DEFAULT
from kmirror.mirrormaker.translation_report import (
    SIMULATED_PARTITION,
    Translation,
    evenly_spaced_syncs,
    simulated_syncs,
    store_of,
    translation,
)
from kmirror.record.record_batch import iter_batches
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run as run_async

ANY_GROUP = "-"
FILE_PARTITION = TopicPartition("syncs", 0)
_FORMATTED = re.compile(r"OffsetSync\{topicPartition=(.+)-([0-9]+), upstreamOffset=([0-9]+), downstreamOffset=([0-9]+)\}")
_PAIR = re.compile(r"([0-9]+)[\s,:]+([0-9]+)")


def add_arguments(parser: argparse.ArgumentParser, command: str) -> None:
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--config", metavar="FILE", type=Path, help="the driver's file (mm2.properties) of the flow; its clusters are asked")
    where.add_argument("--syncs", metavar="FILE", type=Path, help="a file with offset syncs, oldest first")
    where.add_argument("--records", metavar="N", type=_count, help="imagine a partition of N records that was copied without a gap")
    parser.add_argument("--source", metavar="ALIAS", help="with --config: the flow's source")
    parser.add_argument("--target", metavar="ALIAS", help="with --config: the flow's target")
    parser.add_argument("--group", metavar="GROUP", action="append", default=[], help="with --config: a group; may be repeated")
    parser.add_argument("--offset", metavar="N", type=_count, action="append", default=[], help="a committed offset; may be repeated")
    parser.add_argument("--lag-max", metavar="N", type=_count, default=OFFSET_LAG_MAX_DEFAULT,
                        help="with --records: offset.lag.max (default %(default)s)")  # fmt: skip
    parser.add_argument(
        "--sync-every", metavar="N", type=_count, help="with --records: a sync at each multiple of N, instead of Kafka's rules"
    )
    parser.add_argument("--json", action="store_true", help="print the translations and the kept syncs as JSON")


def run(command: str, options: argparse.Namespace) -> int:
    if options.config is not None:
        translations, store = _from_clusters(options)
    else:
        if not options.offset:
            raise KmirrorError("give at least one --offset")
        if options.syncs is not None:
            store = store_of(read_syncs(options.syncs))
        elif options.sync_every == 0:
            raise KmirrorError("--sync-every must be at least 1")
        elif options.sync_every is not None:
            store = store_of(evenly_spaced_syncs(options.records, options.sync_every))
        else:
            store = store_of(simulated_syncs(options.records, options.lag_max))
        partitions = store.topic_partitions() or [SIMULATED_PARTITION]
        translations = [translation(store, partition, ANY_GROUP, offset) for partition in partitions for offset in options.offset]
    print(json.dumps(as_json(translations, store), indent=2) if options.json else report(translations, store))
    return 0


def read_syncs(path: Path) -> Iterator[OffsetSync]:
    """Yields the syncs of a file; KmirrorError, naming the line, for what is none."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise KmirrorError(f"cannot read {path}: {error.strerror or error}") from error
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith("#"):
            continue
        formatted, pair = _FORMATTED.fullmatch(line), _PAIR.fullmatch(line)
        if formatted is not None:
            topic, partition, upstream, downstream = formatted.groups()
            yield OffsetSync(TopicPartition(topic, int(partition)), int(upstream), int(downstream))
        elif pair is not None:
            yield OffsetSync(FILE_PARTITION, int(pair[1]), int(pair[2]))
        else:
            raise KmirrorError(f"{path}, line {number}: neither two offsets nor an OffsetSync{{...}}: {line}")


def _from_clusters(options: argparse.Namespace) -> tuple[list[Translation], OffsetSyncStore]:
    if not (options.source and options.target and options.group):
        raise KmirrorError("--config needs --source, --target and at least one --group")
    try:
        driver = MirrorMakerConfig(read_properties(options.config))
        flow = SourceAndTarget(options.source, options.target)
        for alias in flow:
            if alias not in driver.clusters:
                raise ConfigError(f"'clusters' does not name {alias}, but {', '.join(driver.clusters)}")
        checkpoint = MirrorCheckpointConfig(resolved(driver.connector_base_config(flow, "MirrorCheckpointConnector")))
    except ConfigError as error:
        raise KmirrorError(f"{options.config}: {error}") from error

    async def main(runtime: Runtime) -> tuple[list[Translation], OffsetSyncStore]:
        async with AsyncExitStack() as stack:
            source = await stack.enter_async_context(_admin(runtime, checkpoint, "source"))
            holder = source
            if checkpoint.get_string("offset-syncs.topic.location") == "target":
                holder = await stack.enter_async_context(_admin(runtime, checkpoint, "target"))
            store = await _read_store(holder, checkpoint.offset_syncs_topic())
            return await _translate(source, checkpoint, store, options.group, options.offset), store

    return run_async(main)


def _admin(runtime: Runtime, config: MirrorCheckpointConfig, side: str) -> AdminClient:
    settings = config.client_config(side, "admin", "translate-offsets")
    servers = settings.get("bootstrap.servers", "")
    if not servers:
        alias = config.flow.source if side == "source" else config.flow.target
        raise ConfigError(f"{alias}.bootstrap.servers is not set")
    return open_admin(runtime, servers, settings, client_id="translate-offsets")


async def _read_store(admin: AdminClient, topic: str) -> OffsetSyncStore:
    """Returns what a task has that read partition 0 of the topic to its end. Torn records are
    skipped.
    """
    if not await admin.describe_topics([topic]):
        raise KmirrorError(f"there is no topic {topic}: does the flow run, and is offset-syncs.topic.location right?")
    store = OffsetSyncStore()
    store.start(initialization_must_read_to_end=False)
    async for key, value in _records(admin, TopicPartition(topic, 0)):
        try:
            store.handle_sync(OffsetSync.deserialize_record(key, value))
        except SchemaException:
            continue
    store.reached_end()
    return store


async def _records(admin: AdminClient, partition: TopicPartition) -> AsyncIterator[tuple[bytes | None, bytes | None]]:
    start = (await admin.list_offsets([partition], timestamp=EARLIEST_TIMESTAMP))[partition]
    end = (await admin.list_offsets([partition]))[partition]
    offset = start
    while offset < end:
        data = await admin.fetch_records(partition, offset)
        at = offset
        for batch in iter_batches(data):
            if not batch.is_control:
                for record in batch.records():
                    if record.offset >= at:
                        yield _bytes(record.key), _bytes(record.value)
            offset = batch.next_offset
        if offset == at:
            return


async def _translate(
    source: AdminClient, config: MirrorCheckpointConfig, store: OffsetSyncStore, groups: Iterable[str], offsets: Iterable[int]
) -> list[Translation]:
    """Returns the translations of the groups' commits in topics that are replicated; of `offsets`,
    if there are any, instead.
    """
    topics, given, found = config.topic_filter(), list(offsets), []
    for group in groups:
        committed = await source.list_consumer_group_offsets(group)
        taken = {
            partition: offset
            for partition, offset in sorted(committed.items())
            if offset is not None and topics.should_replicate_topic(partition.topic)
        }
        if not taken:
            raise KmirrorError(f"group {group} has committed nothing in a replicated topic of {config.flow.source}")
        for partition, offset in taken.items():
            found += [translation(store, partition, group, wanted) for wanted in given or [offset.offset]]
    return found


def _bytes(data: Buffer | None) -> bytes | None:
    return None if data is None else bytes(data)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of records")
    return int(text)
