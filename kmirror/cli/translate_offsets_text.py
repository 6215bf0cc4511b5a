"""What `kmirror translate-offsets` prints: a table of commits, and the kept syncs as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.formats import OffsetSync
from kmirror.mirrormaker.offset_sync_store import SYNCS_PER_PARTITION, OffsetSyncStore
from kmirror.mirrormaker.translation_report import Translation

HEADINGS = ("GROUP", "PARTITION", "COMMITTED", "TRANSLATED", "READ-AGAIN", "WHY")


def report(translations: Sequence[Translation], store: OffsetSyncStore) -> str:
    """Returns the table, and for each partition in it the picture of its syncs."""
    parts = [_table([HEADINGS, *map(_row, translations)])]
    for partition in dict.fromkeys(translation.topic_partition for translation in translations):
        about = [translation for translation in translations if translation.topic_partition == partition]
        parts.append(picture(partition, store.kept(partition), about))
    return "\n\n".join(parts)


def as_json(translations: Sequence[Translation], store: OffsetSyncStore) -> dict[str, Any]:
    partitions = dict.fromkeys(translation.topic_partition for translation in translations)
    return {
        "translations": [
            {
                "group": translation.group,
                "topicPartition": str(translation.topic_partition),
                "upstreamOffset": translation.upstream_offset,
                "downstreamOffset": translation.translated,
                "readAgain": translation.read_again,
                "reason": translation.reason,
            }
            for translation in translations
        ],
        "syncs": {
            str(partition): [
                {"entry": index, "upstreamOffset": sync.upstream_offset, "downstreamOffset": sync.downstream_offset}
                for index, sync in store.kept(partition)
            ]
            for partition in partitions
        },
    }


def picture(partition: TopicPartition, kept: Sequence[tuple[int, OffsetSync]], translations: Iterable[Translation]) -> str:
    """Returns the syncs, newest first, with a bar for the distance to the next older one: one sign
    more for each doubling. Commits stand where they fall between the syncs.
    """
    if not kept:
        return f"{partition}: no sync is kept"
    lines = [f"{partition}: {len(kept)} different syncs in {SYNCS_PER_PARTITION} entries, newest first"]
    waiting = sorted(translations, key=lambda translation: -translation.upstream_offset)
    width = len(str(max(kept[0][1].upstream_offset, kept[0][1].downstream_offset)))
    for number, (index, sync) in enumerate(kept):
        while waiting and waiting[0].upstream_offset > sync.upstream_offset:
            lines.append(_commit(waiting.pop(0)))
        older = kept[number + 1][1].upstream_offset if number + 1 < len(kept) else sync.upstream_offset
        distance = sync.upstream_offset - older
        bar = "#" * distance.bit_length()
        entry = f"  [{index:>2}] {sync.upstream_offset:>{width}} -> {sync.downstream_offset:<{width}}"
        lines.append(f"{entry}  {distance:>{width}} {bar}" if distance else entry.rstrip())
        while waiting and waiting[0].upstream_offset == sync.upstream_offset:
            lines.append(_commit(waiting.pop(0)))
    lines += map(_commit, waiting)
    return "\n".join(lines)


def _commit(translation: Translation) -> str:
    if translation.translated is None or translation.translated < 0:
        return f"   o   {translation.upstream_offset} {translation.group}: not translated"
    return f"   o   {translation.upstream_offset} {translation.group} -> {translation.translated}, {translation.read_again} read again"


def _row(translation: Translation) -> tuple[str, ...]:
    return (
        translation.group,
        str(translation.topic_partition),
        str(translation.upstream_offset),
        "-" if translation.translated is None else str(translation.translated),
        "-" if translation.read_again is None else str(translation.read_again),
        translation.reason,
    )


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
