"""What `kafka-mirrors` prints: tables and JSON (widths of the KIP's reference tool, KIP's headers).

`--verbose` adds columns from the source itself (`mirrors_source`); without it the tables are the
KIP's. A lag that is not known now is -1, "-" in tables. The last known lag stands beside it, in
columns of its own and in the notes. The notes below a table say, for every partition that does not
move, why, and what to do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kmirror.admin.results import MirrorDescription, MirrorListing, MirrorPartitionDescription
from kmirror.cli.mirrors_source import SourceEnd, SourceEnds
from kmirror.common.topic_partition import TopicPartition

LIST_WIDTHS = (30, 10, 26, 50)
DESCRIBE_WIDTHS = (30, 40, 10, 15, 18, 10, 12)
VERBOSE_WIDTHS = (*DESCRIBE_WIDTHS, 18, 12, 17, 9, 10)
NAMED_IN_A_NOTE = 5
LIST_HEADER = ("MIRROR", "TOPICS", "CLUSTER-ID", "BOOTSTRAP-SERVER")
DESCRIBE_HEADER = ("MIRROR", "TOPIC", "PARTITION", "SOURCE-OFFSET", "DESTINATION-OFFSET", "LAG", "STATE")
VERBOSE_HEADER = (*DESCRIBE_HEADER, "SOURCE-STABLE", "TIME-LAG-MS", "LAST-MIRROR-EPOCH", "LAST-LAG", "LAG-AGE-MS")


def list_table(mirrors: Iterable[MirrorListing]) -> str:
    """One row per mirror, sorted by name."""
    rows = [
        (_cut(mirror.mirror_name, 30), str(mirror.topic_count), _cut(mirror.source_cluster_id or "-", 26), mirror.source_bootstrap or "-")
        for mirror in sorted(mirrors, key=lambda mirror: mirror.mirror_name)
    ]
    return _table(LIST_HEADER, rows, LIST_WIDTHS) if rows else "No mirrors found"


def in_order(mirrors: Iterable[MirrorDescription]) -> list[tuple[str, MirrorPartitionDescription]]:
    """All partitions, sorted by mirror, topic and partition."""
    return sorted(
        ((mirror.mirror_name, row) for mirror in mirrors for row in mirror.partitions),
        key=lambda pair: (pair[0], pair[1].topic, pair[1].partition),
    )


def describe_table(mirrors: Iterable[MirrorDescription], ends: SourceEnds | None = None, *, is_narrow: bool = False) -> str:
    """One row per partition, sorted by mirror, topic and partition; -1 shows as "-".

    `ends` adds the verbose columns; `is_narrow` makes columns no wider than their contents.
    """
    rows = [_row(name, row, ends) for name, row in in_order(mirrors)]
    if not rows:
        return "No mirror partitions found"
    header: tuple[str, ...] = DESCRIBE_HEADER if ends is None else VERBOSE_HEADER
    widths: tuple[int, ...] = DESCRIBE_WIDTHS if ends is None else VERBOSE_WIDTHS
    if is_narrow:
        widths = tuple(max(map(len, column)) for column in zip(header, *rows, strict=True))
    return _table(header, rows, widths)


def _row(mirror_name: str, row: MirrorPartitionDescription, ends: SourceEnds | None) -> tuple[str, ...]:
    offsets = (_number(row.source_offset), _number(row.destination_offset), _number(row.lag))
    cells = (_cut(mirror_name, 30), _cut(row.topic, 40), str(row.partition), *offsets, row.state)
    if ends is None:
        return cells
    end = ends.get((mirror_name, TopicPartition(row.topic, row.partition)))
    stable = -1 if end is None else end.last_stable_offset
    time_lag_ms = -1 if end is None or end.time_lag_ms is None else end.time_lag_ms
    known = (_number(row.last_known_lag), _number(row.lag_age_ms))
    return (*cells, _number(stable), _number(time_lag_ms), _number(row.last_mirror_epoch), *known)


def notes(mirrors: Iterable[MirrorDescription]) -> list[str]:
    """Returns notes on why partitions do not move, and on last known lags.

    Partitions of a mirror with the same state and reason share a line.
    """
    groups: dict[tuple[str, str, str | None], list[MirrorPartitionDescription]] = {}
    for name, row in in_order(mirrors):
        if row.reason is not None or (row.lag < 0 and row.last_known_lag >= 0):
            groups.setdefault((name, row.state, row.reason), []).append(row)
    return [_note(*group, rows) for group, rows in groups.items()]


def _note(mirror_name: str, state: str, reason: str | None, rows: list[MirrorPartitionDescription]) -> str:
    names = [f"{row.topic}-{row.partition}" for row in rows]
    more = f" and {len(names) - NAMED_IN_A_NOTE} more" if len(names) > NAMED_IN_A_NOTE else ""
    parts = [] if reason is None else [reason]
    if any(row.lag < 0 <= row.last_known_lag for row in rows):
        parts.append(last_lag_text(rows))
    return f"{mirror_name}: {', '.join(names[:NAMED_IN_A_NOTE])}{more} {state}: {'; '.join(parts)}"


def last_lag_text(rows: Iterable[MirrorPartitionDescription]) -> str:
    """`lag 10, as of 42 s ago`: the sum over rows without a present lag, and the oldest age."""
    known = [row for row in rows if row.lag < 0 <= row.last_known_lag]
    return f"lag {sum(row.last_known_lag for row in known)}, as of {max(row.lag_age_ms for row in known) // 1000} s ago"


def described_text(mirrors: Iterable[MirrorDescription], ends: SourceEnds | None = None, configs: Sequence[str] = ()) -> str:
    """Returns the table, with the notes below it if there are any, and the lines about configs."""
    listed = list(mirrors)
    told = [*notes(listed), *configs]
    return "\n".join([describe_table(listed, ends), *(["", *told] if told else [])])


def list_json(mirrors: Iterable[MirrorListing]) -> str:
    rows = [
        {
            "mirror": mirror.mirror_name,
            "topics": mirror.topic_count,
            "clusterId": mirror.source_cluster_id,
            "bootstrapServers": mirror.source_bootstrap,
        }
        for mirror in sorted(mirrors, key=lambda mirror: mirror.mirror_name)
    ]
    return json.dumps(rows, indent=2)


def describe_rows(mirrors: Iterable[MirrorDescription], ends: SourceEnds | None = None) -> list[dict[str, Any]]:
    """Returns the rows for JSON.

    With `ends` they include the source's facts, null where it did not tell them.
    """
    rows = []
    for mirror_name, row in in_order(mirrors):
        shown: dict[str, Any] = {
            "mirror": mirror_name,
            "topic": row.topic,
            "partition": row.partition,
            "sourceOffset": row.source_offset,
            "destinationOffset": row.destination_offset,
            "lag": row.lag,
            "state": row.state,
            "lastMirrorEpoch": row.last_mirror_epoch,
            "lastKnownLag": row.last_known_lag,
            "lagAgeMs": row.lag_age_ms,
            "reason": row.reason,
        }
        if ends is not None:
            end = ends.get((mirror_name, TopicPartition(row.topic, row.partition)))
            shown["sourceHighWatermark"] = None if end is None else end.high_watermark
            shown["sourceLastStableOffset"] = None if end is None else end.last_stable_offset
            shown["timeLagMs"] = None if end is None else end.time_lag_ms
        rows.append(shown)
    return rows


def describe_json(mirrors: Iterable[MirrorDescription], ends: SourceEnds | None = None) -> str:
    return json.dumps(describe_rows(mirrors, ends), indent=2)


def failover_rows(rows: Iterable[MirrorPartitionDescription], ends: Mapping[TopicPartition, SourceEnd]) -> list[dict[str, Any]]:
    """Returns where stopped partitions end, for JSON; `notMirrored` is None where the source's end
    is unknown.
    """
    found = []
    for row in rows:
        end = ends.get(TopicPartition(row.topic, row.partition)) if row.destination_offset >= 0 else None
        missing = None if end is None else end.missing(row.destination_offset - 1)
        found.append(
            {
                "topic": row.topic,
                "partition": row.partition,
                "state": row.state,
                "logEndOffset": row.destination_offset,
                "notMirrored": missing,
            }
        )
    return found


def topic_list(topics: Iterable[str]) -> str:
    """`[a, b]`, sorted."""
    return f"[{', '.join(sorted(topics))}]"


def _number(value: int) -> str:
    return "-" if value < 0 else str(value)


def _cut(text: str, width: int) -> str:
    """Shorten a long name at its beginning."""
    return text if len(text) <= width else "..." + text[len(text) - width + 3 :]


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]], widths: tuple[int, ...]) -> str:
    lines = [" ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in (header, *rows)]
    return "\n".join(lines)
