"""What `kafka-mirrors` prints: tables and JSON (widths of the KIP's reference tool, KIP's headers).

Names are whole when stdout is no terminal, or one that is wide enough; else the table fits the
terminal.

`--verbose` adds columns from the source itself (`mirrors_source`); without it the tables are the
KIP's. A lag that is not known now is -1, "-" in tables. The last known lag stands beside it, in
columns of its own and in the notes. The notes below a table say, for every partition that does not
move, why, and what to do.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kmirror.admin.results import MirrorDescription, MirrorListing, MirrorPartitionDescription
from kmirror.cli.mirrors_source import SourceEnd, SourceEnds
from kmirror.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kmirror.cli.mirrors_front_facts import Fronts
    from kmirror.cli.mirrors_list import MirrorHealth

LIST_WIDTHS = (30, 10, 26, 50)
DESCRIBE_WIDTHS = (30, 40, 10, 15, 18, 10, 12)
VERBOSE_WIDTHS = (*DESCRIBE_WIDTHS, 18, 12, 17, 9, 10)
NAMED_IN_A_NOTE = 5
MIN_NAME_WIDTH = 12
SHORT_HEADERS = {
    "PARTITION": "P",
    "SOURCE-OFFSET": "SOURCE",
    "DESTINATION-OFFSET": "DEST",
    "SOURCE-STABLE": "STABLE",
    "TIME-LAG-MS": "LAG-MS",
    "LAST-MIRROR-EPOCH": "EPOCH",
}
"""Headers for terminals that are too narrow for the KIP's."""
LIST_HEADER = ("MIRROR", "TOPICS", "CLUSTER-ID", "BOOTSTRAP-SERVER")
DESCRIBE_HEADER = ("MIRROR", "TOPIC", "PARTITION", "SOURCE-OFFSET", "DESTINATION-OFFSET", "LAG", "STATE")
VERBOSE_HEADER = (*DESCRIBE_HEADER, "SOURCE-STABLE", "TIME-LAG-MS", "LAST-MIRROR-EPOCH", "LAST-LAG", "LAG-AGE-MS")


def terminal_columns() -> int | None:
    """Returns how wide the terminal is; None if stdout is none, and nothing has to fit."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def list_table(mirrors: Iterable[MirrorListing], columns: int | None = None) -> str:
    """One row per mirror, sorted by name. Names are cut only if the table is wider than `columns`."""
    rows = [
        (mirror.mirror_name, str(mirror.topic_count), mirror.source_cluster_id or "-", mirror.source_bootstrap or "-")
        for mirror in sorted(mirrors, key=lambda mirror: mirror.mirror_name)
    ]
    return _fitted(LIST_HEADER, rows, LIST_WIDTHS, columns, (3, 0)) if rows else "No mirrors found"


def in_order(mirrors: Iterable[MirrorDescription]) -> list[tuple[str, MirrorPartitionDescription]]:
    """All partitions, sorted by mirror, topic and partition."""
    return sorted(
        ((mirror.mirror_name, row) for mirror in mirrors for row in mirror.partitions),
        key=lambda pair: (pair[0], pair[1].topic, pair[1].partition),
    )


def describe_table(
    mirrors: Iterable[MirrorDescription], ends: SourceEnds | None = None, *, columns: int | None = None, is_narrow: bool = False
) -> str:
    """One row per partition, sorted by mirror, topic and partition; -1 shows as "-".

    `ends` adds the verbose columns; `is_narrow` makes columns no wider than their contents. Names
    are cut only if the table is wider than `columns`. A watched partition whose source is silent is
    marked in its state.
    """
    rows = [_row(name, row, ends, is_watched=is_narrow) for name, row in in_order(mirrors)]
    if not rows:
        return "No mirror partitions found"
    header: tuple[str, ...] = DESCRIBE_HEADER if ends is None else VERBOSE_HEADER
    widths: tuple[int, ...] = DESCRIBE_WIDTHS if ends is None else VERBOSE_WIDTHS
    return _fitted(header, rows, (0,) * len(header) if is_narrow else widths, columns, (1, 0))


def silent_for_ms(row: MirrorPartitionDescription) -> int | None:
    """Returns for how long the source has not answered a partition that should be mirrored; None if
    it has, or if the partition has another reason not to move.
    """
    is_silent = row.state == "MIRRORING" and row.lag < 0 <= row.lag_age_ms
    return row.lag_age_ms if is_silent else None


def _row(mirror_name: str, row: MirrorPartitionDescription, ends: SourceEnds | None, *, is_watched: bool) -> tuple[str, ...]:
    offsets = (_number(row.source_offset), _number(row.destination_offset), _number(row.lag))
    silent_ms = silent_for_ms(row) if is_watched else None
    state = row.state if silent_ms is None else f"{row.state}, source silent {silent_ms // 1000} s"
    cells = (mirror_name, row.topic, str(row.partition), *offsets, state)
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


def described_text(
    mirrors: Iterable[MirrorDescription],
    ends: SourceEnds | None = None,
    configs: Sequence[str] = (),
    fronts: Fronts | None = None,
    columns: int | None = None,
) -> str:
    """Returns the table, with the notes below it if there are any, and the lines about configs."""
    listed = list(mirrors)
    told = [*notes(listed), *([] if fronts is None else fronts.notes()), *configs]
    return "\n".join([describe_table(listed, ends, columns=columns), *(["", *told] if told else [])])


def list_json(mirrors: Iterable[MirrorListing], health: Mapping[str, MirrorHealth] | None = None) -> str:
    rows = [
        {
            "mirror": mirror.mirror_name,
            "topics": mirror.topic_count,
            "clusterId": mirror.source_cluster_id,
            "bootstrapServers": mirror.source_bootstrap,
            **(health[mirror.mirror_name].as_json() if health is not None else {}),
        }
        for mirror in sorted(mirrors, key=lambda mirror: mirror.mirror_name)
    ]
    return json.dumps(rows, indent=2)


def describe_rows(
    mirrors: Iterable[MirrorDescription], ends: SourceEnds | None = None, fronts: Fronts | None = None
) -> list[dict[str, Any]]:
    """Returns the rows for JSON.

    With `ends` they include the source's facts, null where it did not tell them; with `fronts` what
    only one side has before the other's log start.
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
        if fronts is not None:
            one = fronts.found.get((mirror_name, TopicPartition(row.topic, row.partition)))
            shown["front"] = None if one is None else one.as_json()
            shown["frontProblem"] = fronts.problems.get(mirror_name)
        rows.append(shown)
    return rows


def describe_json(mirrors: Iterable[MirrorDescription], ends: SourceEnds | None = None, fronts: Fronts | None = None) -> str:
    return json.dumps(describe_rows(mirrors, ends, fronts), indent=2)


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


def _fitted(
    header: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    widths: tuple[int, ...],
    columns: int | None,
    names: tuple[int, ...],
) -> str:
    """Returns the table with columns of at least `widths`.

    If it is wider than `columns`, columns shrink to their contents, then long headers to short ones,
    then the columns `names`, in this order, to `MIN_NAME_WIDTH`; what is cut loses its beginning.
    """
    contents = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    wanted = [max(content, width) for content, width in zip(contents, widths, strict=True)]
    if columns is None or _width(wanted) <= columns:
        return _table(header, rows, tuple(wanted))
    if _width(contents) > columns:
        header = tuple(SHORT_HEADERS.get(name, name) for name in header)
        contents = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for name in names:
        excess = _width(contents) - columns
        if excess > 0:
            least = max(min(contents[name], MIN_NAME_WIDTH), len(header[name]))
            contents[name] = max(least, contents[name] - excess)
    cut = [tuple(_cut(cell, width) for cell, width in zip(row, contents, strict=True)) for row in rows]
    return _table(header, cut, tuple(contents))


def _width(widths: Iterable[int]) -> int:
    listed = list(widths)
    return sum(listed) + len(listed) - 1


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]], widths: tuple[int, ...]) -> str:
    lines = [" ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in (header, *rows)]
    return "\n".join(lines)
