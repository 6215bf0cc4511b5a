"""What `kafka-mirrors` prints: tables and JSON (widths of the KIP's reference tool, headers of the KIP)."""

from __future__ import annotations

import json
from collections.abc import Iterable

from kmirror.admin.results import MirrorDescription, MirrorListing

LIST_WIDTHS = (30, 10, 26, 50)
DESCRIBE_WIDTHS = (30, 40, 10, 15, 18, 10, 12)
LIST_HEADER = ("MIRROR", "TOPICS", "CLUSTER-ID", "BOOTSTRAP-SERVER")
DESCRIBE_HEADER = ("MIRROR", "TOPIC", "PARTITION", "SOURCE-OFFSET", "DESTINATION-OFFSET", "LAG", "STATE")


def list_table(mirrors: Iterable[MirrorListing]) -> str:
    """One row per mirror, sorted by name."""
    rows = [
        (_cut(mirror.mirror_name, 30), str(mirror.topic_count), _cut(mirror.source_cluster_id or "-", 26), mirror.source_bootstrap or "-")
        for mirror in sorted(mirrors, key=lambda mirror: mirror.mirror_name)
    ]
    return _table(LIST_HEADER, rows, LIST_WIDTHS) if rows else "No mirrors found"


def describe_table(mirrors: Iterable[MirrorDescription]) -> str:
    """One row per partition, sorted by mirror, topic and partition; -1 shows as "-"."""
    rows = []
    for mirror in sorted(mirrors, key=lambda mirror: mirror.mirror_name):
        for row in sorted(mirror.partitions, key=lambda row: (row.topic, row.partition)):
            offsets = (_number(row.source_offset), _number(row.destination_offset), _number(row.lag))
            rows.append((_cut(mirror.mirror_name, 30), _cut(row.topic, 40), str(row.partition), *offsets, row.state))
    return _table(DESCRIBE_HEADER, rows, DESCRIBE_WIDTHS) if rows else "No mirror partitions found"


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


def describe_json(mirrors: Iterable[MirrorDescription]) -> str:
    rows = [
        {
            "mirror": mirror.mirror_name,
            "topic": row.topic,
            "partition": row.partition,
            "sourceOffset": row.source_offset,
            "destinationOffset": row.destination_offset,
            "lag": row.lag,
            "state": row.state,
            "lastMirrorEpoch": row.last_mirror_epoch,
        }
        for mirror in sorted(mirrors, key=lambda mirror: mirror.mirror_name)
        for row in sorted(mirror.partitions, key=lambda row: (row.topic, row.partition))
    ]
    return json.dumps(rows, indent=2)


def topic_list(topics: Iterable[str]) -> str:
    """`[a, b]`, sorted."""
    return f"[{', '.join(sorted(topics))}]"


def _number(value: int) -> str:
    return "-" if value < 0 else str(value)


def _cut(text: str, width: int) -> str:
    """Names that are too long lose their beginning."""
    return text if len(text) <= width else "..." + text[len(text) - width + 3 :]


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]], widths: tuple[int, ...]) -> str:
    lines = [" ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in (header, *rows)]
    return "\n".join(lines)
