"""`kafka-consumer-groups --reset-offsets`: computes and commits new offsets of groups.

A scope (`--all-topics`, `--topic`) gives the partitions, and a scenario (`--to-earliest`,
`--shift-by`, ...) gives their offsets; a CSV file gives both. Offsets outside the log are moved to
its nearer end. Without `--execute` nothing is committed.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from kmirror.admin.admin_client import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, AdminClient
from kmirror.admin.groups import OffsetAndMetadata
from kmirror.cli.java_names import java_exception
from kmirror.cli.java_texts import before_ms, java_split, parse_datetime_ms, parse_duration_ms
from kmirror.cli.tool_options import UsageError, print_json
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.java_hash_map import hash_map_order, topic_partition_order
from kmirror.common.topic_partition import TopicPartition

Offsets = dict[TopicPartition, int]

MAX_UNQUOTED = 24
NO_SCENARIO = (
    "Option '[reset-offsets]' requires one of the following scenarios: "
    "[[by-duration], [to-datetime], [from-file], [shift-by], [to-offset], [to-earliest], [to-current], [to-latest]]"
)


class ResetOffsets:
    """One invocation."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options

    async def run(self, admin: AdminClient) -> None:
        options = self._options
        group_ids = (
            [row.group_id for row in await admin.list_consumer_groups()] if options.all_groups else list(dict.fromkeys(options.group))
        )
        result: dict[str, Offsets] = {}
        for group_id, group in (await admin.describe_consumer_groups(group_ids, timeout_ms=options.timeout)).items():
            if isinstance(group, ApiException) and group.error is not Errors.GROUP_ID_NOT_FOUND:
                raise group
            state = "Dead" if isinstance(group, ApiException) else group.state
            if state not in ("Empty", "Dead"):
                print(f"\nError: Assignments can only be reset if the group '{group_id}' is inactive, but the current state is {state}.")
                result[group_id] = {}
                continue
            offsets = await self._offsets(admin, group_id, await self._partitions(admin, group_id))
            if options.execute:
                changes = {name: OffsetAndMetadata(offset) for name, offset in offsets.items()}
                for name, error in (await admin.alter_consumer_group_offsets(group_id, changes)).items():
                    if error is not None:
                        raise KmirrorError(f"{name}: {error.message}")
            result[group_id] = offsets
        self._print({group_id: result[group_id] for group_id in hash_map_order(result)})

    def _print(self, result: dict[str, Offsets]) -> None:
        rows = [(group_id, name, offsets[name]) for group_id, offsets in result.items() for name in topic_partition_order(offsets)]
        if self._options.json:
            keys = ("group", "topic", "partition", "newOffset")
            print_json([dict(zip(keys, (group_id, name.topic, name.partition, offset), strict=True)) for group_id, name, offset in rows])
        elif self._options.export:
            print(csv_text(rows, with_group=len(self._options.group) != 1))
        else:
            print(reset_table(result, rows))

    async def _partitions(self, admin: AdminClient, group_id: str) -> list[TopicPartition]:
        options = self._options
        if options.all_topics:
            return list(await admin.list_consumer_group_offsets(group_id))
        if not options.topic:
            if options.from_file is None:
                raise UsageError("One of the reset scopes should be defined: --all-topics, --topic.")
            return []
        return await named_partitions(admin, options.topic)

    async def _offsets(self, admin: AdminClient, group_id: str, names: list[TopicPartition]) -> Offsets:
        """Returns the new offset of each partition."""
        options = self._options
        if options.to_offset is not None:
            return await _within_logs(admin, dict.fromkeys(names, options.to_offset))
        if options.to_earliest:
            return await end_offsets(admin, names, EARLIEST_TIMESTAMP)
        if options.to_latest:
            return await end_offsets(admin, names, LATEST_TIMESTAMP)
        if options.shift_by is not None:
            committed = await admin.list_consumer_group_offsets(group_id)
            return await _within_logs(admin, {name: _committed(committed, name) + options.shift_by for name in names})
        if options.to_datetime is not None:
            return await offsets_at_time(admin, names, parse_datetime_ms(options.to_datetime))
        if options.by_duration is not None:
            now_ms = int(datetime.now(UTC).timestamp() * 1000)
            time_ms = before_ms(now_ms, parse_duration_ms(options.by_duration))
            return await offsets_at_time(admin, names, time_ms)
        if options.from_file is not None:
            plan = self._plan()
            if group_id not in plan:
                print(f"\nError: No reset plan for group {group_id} found")
                return {}
            return await _within_logs(admin, plan[group_id])
        if options.to_current:
            committed = await admin.list_consumer_group_offsets(group_id)
            known = {name: _committed(committed, name) for name in names if committed.get(name) is not None}
            return known | await end_offsets(admin, [name for name in names if name not in known], LATEST_TIMESTAMP)
        raise UsageError(NO_SCENARIO)

    def _plan(self) -> dict[str, Offsets]:
        path = Path(self._options.from_file)
        try:
            text = path.read_text()
        except OSError as error:
            raise KmirrorError(f"java.io.IOException: Unable to read file {path}") from error
        return parse_reset_plan(text, self._options.group)


async def named_partitions(admin: AdminClient, texts: list[str]) -> list[TopicPartition]:
    """Returns partitions given as `topic:0,1`, and all partitions of topics given by name.

    KmirrorError for partitions that do not exist.
    """
    names = [name for text in texts if ":" in text for name in parse_partitions(text)]
    topics = [text for text in texts if ":" not in text]
    described = await admin.describe_topics({*topics, *(name.topic for name in names)})
    if any(name.topic not in described for name in names):
        raise _execution_exception(ApiException(Errors.UNKNOWN_TOPIC_OR_PARTITION))
    for topic in topics:
        if topic not in described:
            raise ApiException(Errors.UNKNOWN_TOPIC_OR_PARTITION)
        names += [TopicPartition(topic, row.partition) for row in described[topic].partitions]
    known = {TopicPartition(topic, row.partition) for topic, facts in described.items() for row in facts.partitions}
    missing = [name for name in names if name not in known]
    if missing:
        raise KmirrorError(f'The partitions "{",".join(map(str, missing))}" do not exist')
    return names


def parse_partitions(text: str) -> list[TopicPartition]:
    """Parse `topic:0,1,2`."""
    parts = java_split(text, ":")
    if len(parts) != 2:
        raise UsageError(f"Invalid topic arg '{text}', expected topic name and partitions")
    names = []
    for word in parts[1].split(","):
        if not re.fullmatch(r"[-+]?\d+", word):
            raise UsageError(f"Invalid partition '{word}' specified in topic arg '{text}''")
        names.append(TopicPartition(parts[0], int(word)))
    return names


def parse_reset_plan(text: str, groups: list[str]) -> dict[str, Offsets]:
    """Parse rows of `topic,partition,offset` (for one group) or `group,topic,partition,offset`."""
    plan: dict[str, Offsets] = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), start=1):
        if not row:
            continue
        if len(row) == 3 and len(groups) == 1:
            row = [groups[0], *row]
        if len(row) != 4 or not row[2].strip().isdigit() or not re.fullmatch(r"-?\d+", row[3].strip()):
            raise KmirrorError(f"line {number} of the reset plan is not [group,]topic,partition,offset: {','.join(row)}")
        plan.setdefault(row[0], {})[TopicPartition(row[1], int(row[2]))] = int(row[3])
    return plan


def _committed(committed: Mapping[TopicPartition, OffsetAndMetadata | None], name: TopicPartition) -> int:
    found = committed.get(name)
    if found is None:
        raise UsageError(f"Cannot shift offset for partition {name} since there is no current committed offset")
    return found.offset


async def end_offsets(admin: AdminClient, names: Iterable[TopicPartition], timestamp: int) -> Offsets:
    """Returns the offset that `timestamp` stands for in each partition."""
    wanted = dict.fromkeys(names, timestamp)
    offsets: Offsets = {}
    for name, info in (await admin.list_offsets_by_spec(wanted) if wanted else {}).items():
        if isinstance(info, ApiException):
            raise _execution_exception(info)
        offsets[name] = info.offset
    return offsets


def _execution_exception(error: ApiException) -> KmirrorError:
    return KmirrorError(f"java.util.concurrent.ExecutionException: {java_exception(error)}")


async def offsets_at_time(admin: AdminClient, names: list[TopicPartition], timestamp_ms: int) -> Offsets:
    """Returns the offset of the first record from that time on, or the end of the log."""
    found = await end_offsets(admin, names, timestamp_ms)
    empty = [name for name, offset in found.items() if offset == -1]
    for name in topic_partition_order(empty):
        print(f"\nWarn: Partition {name.partition} from topic {name.topic} is empty. Falling back to latest known offset.")
    return found | await end_offsets(admin, empty, LATEST_TIMESTAMP)


async def _within_logs(admin: AdminClient, wanted: Offsets) -> Offsets:
    """Move offsets outside the log to its nearer end, with a warning."""
    starts, ends = await end_offsets(admin, wanted, EARLIEST_TIMESTAMP), await end_offsets(admin, wanted, LATEST_TIMESTAMP)
    result = {}
    for name, offset in wanted.items():
        allowed = min(max(offset, starts[name]), ends[name])
        if allowed != offset:
            relation = "higher than latest" if offset > allowed else "lower than earliest"
            text = f"New offset ({offset}) is {relation} offset for topic partition {name}. Value will be set to {allowed}"
            print(f"WARN {text}", file=sys.stderr)
        result[name] = allowed
    return result


def reset_table(result: Mapping[str, Offsets], rows: list[tuple[str, TopicPartition, int]]) -> str:
    if not result:
        return ""
    group = max([15, *(len(group_id) for group_id in result)])
    topic = max([15, *(len(name.topic) for _, name, _ in rows)])
    lines = [f"\n{'GROUP':<{group}} {'TOPIC':<{topic}} {'PARTITION':<10} NEW-OFFSET"]
    lines += [f"{group_id:<{group}} {name.topic:<{topic}} {name.partition:<10} {offset}" for group_id, name, offset in rows]
    return "\n".join(lines)


def csv_text(rows: list[tuple[str, TopicPartition, int]], *, with_group: bool) -> str:
    lines = []
    for group_id, name, offset in rows:
        cells = [*([group_id] if with_group else []), name.topic, str(name.partition), str(offset)]
        lines.append(",".join(map(_csv_cell, cells)) + "\n")
    return "".join(lines)


def _csv_cell(text: str) -> str:
    """Quote a cell as Kafka's writer does.

    It quotes texts that need it, and every text of more than 24 characters, which it does not
    check.
    """
    quoted = text.replace('"', '""')
    return f'"{quoted}"' if len(text) > MAX_UNQUOTED or re.search(r'[,"\s]', text) else text
