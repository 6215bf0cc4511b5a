"""Closing structure and indexes: segments are compared with their names, sizes and neighbours,
index entries with what all slices found."""

from __future__ import annotations

from collections.abc import Iterator

from kmirror.storage.index_reader import OFFSET_INDEX_DTYPE, TIME_INDEX_DTYPE
from kmirror.storage.log_file_names import INDEX_FILE_SUFFIX, LOG_FILE_SUFFIX, TIME_INDEX_FILE_SUFFIX, offset_from_file_name
from kmirror.verify.replay.claims import CHECKPOINTS
from kmirror.verify.replay.indexes import IndexCheck
from kmirror.verify.replay.log_view import LogView
from kmirror.verify.replay.partial import SegmentPart
from kmirror.verify.replay.structure import GONE
from kmirror.verify.replay.tables import IndexRow, SegmentRow

MAX_RELATIVE_OFFSET = 0x7FFFFFFF


def segment_rows(view: LogView) -> Iterator[SegmentRow]:
    for segment in view.segments:
        found = segment.structure
        codecs = found.codecs
        yield SegmentRow(
            log=view.path,
            topic=view.topic,
            partition=view.partition,
            base_offset=segment.base_offset,
            path=segment.path,
            segment_size=segment.segment_size,
            size=found.size,
            batches=found.batches,
            records=found.records,
            first_offset=found.first_offset if found.batches else None,
            last_offset=found.next_offset - 1 if found.batches else None,
            max_timestamp=found.max_timestamp if found.max_timestamp >= 0 else None,
            largest_batch=found.largest_batch,
            control_batches=found.control_batches,
            transactional_batches=found.transactional_batches,
            producer_batches=found.producer_batches,
            none=codecs[0],
            gzip=codecs[1],
            snappy=codecs[2],
            lz4=codecs[3],
            zstd=codecs[4],
            gaps=found.gaps,
            missing_offsets=found.missing_offsets,
            short_batches=found.short_batches,
            crc_errors=found.crc_errors,
            problems=found.problems,
        )


def check_structure(view: LogView) -> None:
    """Adds findings about each segment by itself, and about each after the one before."""
    expected: int | None = None
    for number, segment in enumerate(view.segments):
        is_last = number == len(view.segments) - 1
        _check_segment(view, segment, None if is_last else view.segments[number + 1].base_offset)
        if is_last and view.at_rest and segment.structure.size < segment.segment_size and not segment.structure.problems:
            left = segment.segment_size - segment.structure.size
            text = f"the last {left} bytes are not a complete batch"
            view.found("structure", "torn", segment.path, text, segment=segment.base_offset, position=segment.structure.size)
        first = segment.structure.first_offset if segment.structure.batches else segment.base_offset
        if expected is None:
            expected = segment.base_offset
        if first > expected and not view.may_be_compacted and not _is_cut_short(view, number):
            text = f"offsets {expected} to {first - 1} are in no batch"
            view.found("structure", "gap", segment.path, text, segment=segment.base_offset, first_offset=expected, last_offset=first - 1)
        expected = max(expected, segment.structure.next_offset if segment.structure.batches else segment.base_offset)
    _check_log_start(view)
    _check_folder(view)


def _check_folder(view: LogView) -> None:
    """Adds findings about names that should not be in the folder, or have no file."""
    bases = {segment.base_offset for segment in view.claims.segments}
    for swap in view.claims.swaps:
        base = offset_from_file_name(swap)
        if base in bases:
            text = "a cleaned segment lies beside the one that it replaces; a broker that starts here puts it in that one's place, whatever is in it"
        else:
            text = "a cleaned segment is not in its place, so its records are missing here; a broker ends that at its next start"
        view.found("structure", "swap", swap, text, segment=base)
    for path in view.claims.dangling:
        view.found("structure", "gone", path, "the folder lists this name, but no file is behind it (a broken link?)")


def _is_cut_short(view: LogView, number: int) -> bool:
    """Whether the segment before ended in something unreadable, which explains the missing
    offsets."""
    return number > 0 and any(
        place.kind in ("corrupt", "unreadable", GONE) for place in view.segments[number - 1].structure.problem_examples
    )


def _check_segment(view: LogView, segment: SegmentPart, next_base: int | None) -> None:
    found = segment.structure
    base = segment.base_offset
    for place in found.problem_examples:
        view.found(
            "structure",
            place.kind,
            segment.path,
            place.text,
            segment=base,
            position=place.position,
            first_offset=place.first_offset,
            last_offset=place.last_offset,
        )
    if found.problems > len(found.problem_examples):
        text = f"{found.problems - len(found.problem_examples)} more batches like these"
        view.found("structure", "more", segment.path, text, segment=base)
    if not view.may_be_compacted:
        for place in found.gap_examples:
            text = f"offsets {place.first_offset} to {place.last_offset} are in no batch"
            view.found(
                "structure",
                "gap",
                segment.path,
                text,
                segment=base,
                position=place.position,
                first_offset=place.first_offset,
                last_offset=place.last_offset,
            )
    if found.short_batches and not view.may_be_compacted:
        text = f"{found.short_batches} batches have fewer records than offsets, and no cleaner works on this topic"
        view.found("structure", "count", segment.path, text, segment=base)
    if not found.batches:
        return
    last = found.next_offset - 1
    if found.first_offset < base or last - base > MAX_RELATIVE_OFFSET:
        text = f"a segment named {base} holds offsets {found.first_offset} to {last}"
        view.found("structure", "name", segment.path, text, segment=base, first_offset=found.first_offset, last_offset=last)
    if next_base is not None and last >= next_base:
        text = f"offsets go on to {last}, and the next segment begins at {next_base}"
        view.found("structure", "order", segment.path, text, segment=base, first_offset=next_base, last_offset=last)


def _check_log_start(view: LogView) -> None:
    claims = view.claims
    start = claims.checkpoint("log_start")
    if view.at_rest and view.segments:
        epochs = claims.epochs or []
        said = start if start is not None else epochs[0].start_offset if epochs else None
        if said is not None and said < view.first_base_offset:
            text = f"the log is said to begin at offset {said}, but its first segment begins at {view.first_base_offset}"
            last = view.first_base_offset - 1
            view.found("structure", "gap", view.segments[0].path, text, segment=view.first_base_offset, first_offset=said, last_offset=last)
    if claims.has_grown:
        return  # the checkpoints may be newer than what was read
    for key, name in CHECKPOINTS.items():
        offset = claims.checkpoint(key)
        if offset is not None and offset > view.log_end_offset:
            text = f"{name} says {offset}, but the log ends at offset {view.log_end_offset}"
            view.found(
                "checkpoints",
                "beyond_end",
                f"{claims.data_dir.path}/{name}",
                text,
                first_offset=view.log_end_offset,
                last_offset=offset - 1,
            )


# indexes
def close_indexes(view: LogView) -> Iterator[IndexRow]:
    """Yields rows, and adds findings on the way."""
    sizes = {segment.base_offset: segment.sizes for segment in view.claims.segments}
    for number, segment in enumerate(view.segments):
        is_last = number == len(view.segments) - 1
        for suffix, check, slot_size in (
            (INDEX_FILE_SUFFIX, segment.offset_index, OFFSET_INDEX_DTYPE.itemsize),
            (TIME_INDEX_FILE_SUFFIX, segment.time_index, TIME_INDEX_DTYPE.itemsize),
        ):
            size = sizes.get(segment.base_offset, {}).get(suffix)
            if size is None:
                continue
            path = segment.path.removesuffix(LOG_FILE_SUFFIX) + suffix
            unknown = 0 if segment.structure.problems or (is_last and not view.at_rest) else check.entries - check.checked
            wrong = _check_index(view, segment, path, check, unknown)
            if size % slot_size:
                text = f"{size} bytes are not a multiple of the entry size of {slot_size} bytes"
                view.found("indexes", "size", path, text, segment=segment.base_offset)
            yield IndexRow(
                view.path, view.topic, view.partition, segment.base_offset, suffix[1:], check.entries, check.exact, check.sound, wrong
            )


def _check_index(view: LogView, segment: SegmentPart, path: str, check: IndexCheck, unknown: int) -> int:
    """Adds findings, and returns the number of wrong entries."""
    base = segment.base_offset
    for slot, offset, text in check.wrong[:3]:
        view.found("indexes", "wrong", path, f"entry {slot}: {text}", segment=base, first_offset=offset, last_offset=offset)
    if check.wrong_count > 3:
        view.found("indexes", "wrong", path, f"{check.wrong_count - 3} more entries are wrong", segment=base)
    if unknown > 0:
        view.found("indexes", "wrong", path, f"{unknown} of {check.entries} entries name no batch", segment=base)
    if check.late is not None:
        slot, timestamp = check.late
        text = f"entry {slot} says that nothing before is newer than {timestamp}, and something is"
        view.found("indexes", "wrong", path, text, segment=base)
    return check.wrong_count + max(unknown, 0) + (check.late is not None)
