"""Two logs to a verdict: each kind of difference once made, and the ways in which equal logs may
lie on disk differently.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.logs.log_folders import TIME, batch, batches, open_log, records, write_log, write_segments

from kmirror.cli.log_diff import main as main_log_diff
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.record.builder import build_batch
from kmirror.record.compression import CompressionType
from kmirror.record.control_record import ControlRecordType, build_end_transaction_marker, build_mirror_pid_reset
from kmirror.record.record import Record
from kmirror.record.record_batch import iter_batches
from kmirror.verify import compared_log, log_diff
from kmirror.verify.compared_log import DirectoryLog
from kmirror.verify.fetched_log import FetchedLog
from kmirror.verify.log_diff import DiffSettings, diff_logs
from kmirror.verify.verdict import DifferenceKind, PartitionVerdict, Status, make_report, to_json, verdict_from_json
from kmirror.wire.messages.config_record import ConfigRecord
from kmirror.wire.messages.topic_record import TopicRecord
from kmirror.wire.records import write_metadata_record

NOTHING_IGNORED = DiffSettings()


def diff(
    tmp_path: Path,
    left: list[bytes],
    right: list[bytes],
    settings: DiffSettings = NOTHING_IGNORED,
    *,
    is_compacted: bool | None = None,
) -> PartitionVerdict:
    """`is_compacted` is what the metadata log says of the topic, on both sides."""
    folders = write_log(tmp_path / "a" / "t-0", *left), write_log(tmp_path / "b" / "t-0", *right)
    one, other = (open_log(folder, is_compacted=is_compacted) for folder in folders)
    return diff_logs(one, other, settings)


def kinds(verdict: PartitionVerdict) -> list[tuple[str, int, int]]:
    assert verdict.error is None, verdict.error
    return [(difference.kind.value, difference.first_offset, difference.last_offset) for difference in verdict.differences]


def reset(offset: int) -> bytes:
    return bytes(build_mirror_pid_reset("c" * 22, timestamp=TIME, base_offset=offset, partition_leader_epoch=1))


def test_equal_logs(tmp_path: Path) -> None:
    verdict = diff(tmp_path, batches(20), batches(20))
    assert verdict.status is Status.EQUAL
    assert verdict.bytes_compared == sum(map(len, batches(20)))
    assert verdict.left is not None and (verdict.left.log_start_offset, verdict.left.log_end_offset) == (0, 100)


def test_segment_boundaries_may_differ(tmp_path: Path) -> None:
    parts = batches(20)
    left = write_segments(tmp_path / "a" / "t-0", (0, parts[:3]), (15, parts[3:11]), (55, parts[11:]))
    right = write_segments(tmp_path / "b" / "t-0", (0, parts[:8]), (40, parts[8:]))
    verdict = diff_logs(open_log(left), open_log(right))
    assert verdict.status is Status.EQUAL and verdict.bytes_compared == sum(map(len, parts))
    assert (verdict.left and verdict.left.segment_count, verdict.right and verdict.right.segment_count) == (3, 2)


@pytest.mark.parametrize("block", [7, 64, 1000])
def test_any_block_size_finds_the_same_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(log_diff, "BLOCK_BYTES", block)
    monkeypatch.setattr(log_diff, "FIRST_BLOCK_BYTES", block)
    monkeypatch.setattr(compared_log, "WALK_BLOCK_BYTES", 61)
    left = batches(20)
    right = [*left[:12], batch(60, text="other"), *left[13:]]
    a = write_segments(tmp_path / "a" / "t-0", (0, left[:5]), (25, left[5:]))
    b = write_segments(tmp_path / "b" / "t-0", (0, right[:12]), (60, right[12:]))
    assert kinds(diff_logs(open_log(a), open_log(b))) == [("bytes-differ", 60, 64)]


def test_starts_at_the_higher_log_start_even_within_a_batch(tmp_path: Path) -> None:
    parts = batches(10)
    left = write_segments(tmp_path / "a" / "t-0", (0, [batch(0, text="deleted since"), *parts[1:]]))
    right = write_segments(tmp_path / "b" / "t-0", (5, parts[1:]))
    verdict = diff_logs(open_log(left), open_log(right, log_start_offset=7))
    assert (verdict.status, verdict.start_offset) == (Status.EQUAL, 7)
    assert verdict.bytes_compared == sum(map(len, parts[1:]))


def test_missing_and_extra_in_the_middle_and_at_the_end(tmp_path: Path) -> None:
    parts = batches(10)
    verdict = diff(tmp_path, [*parts[:4], *parts[5:8]], [*parts[:2], *parts[3:]])
    assert kinds(verdict) == [("missing", 10, 14), ("extra", 20, 24), ("extra", 40, 49)]
    assert verdict.difference_counts == {"missing": 1, "extra": 2}
    first = verdict.differences[0]
    assert (first.left[0].position, first.left[0].size_bytes, first.right) == (sum(map(len, parts[:2])), len(parts[2]), [])


def test_a_lagging_destination_is_allowed_only_when_asked(tmp_path: Path) -> None:
    parts = batches(10)
    assert diff(tmp_path, parts, parts[:8]).status is Status.DIFFERENT
    allowed = diff(tmp_path, parts, parts[:8], DiffSettings(allow_lag=True))
    assert (allowed.status, allowed.ignored_counts) == (Status.EQUAL, {"missing": 1})
    hole = [*parts[:3], *parts[4:8]]
    assert diff(tmp_path, parts, hole, DiffSettings(allow_lag=True)).difference_counts == {"missing": 1}


def marker(offset: int, producer_id: int = 7) -> bytes:
    return bytes(
        build_end_transaction_marker(
            ControlRecordType.ABORT, coordinator_epoch=0, producer_id=producer_id, producer_epoch=0, timestamp=TIME, base_offset=offset
        )
    )


def test_markers_of_a_tail_that_lags_are_of_the_lag(tmp_path: Path) -> None:
    """A replica that lagged by a transaction's marker was different."""
    parts = [*batches(4), marker(20), batch(21), marker(26)]
    allowed = diff(tmp_path, parts, parts[:4], DiffSettings(allow_lag=True))
    assert (allowed.status, allowed.ignored_counts) == (Status.EQUAL, {"control-only": 2, "missing": 1})
    assert diff(tmp_path, parts, [*parts[:4], parts[5]], DiffSettings(allow_lag=True)).difference_counts == {"control-only": 1}


@pytest.mark.parametrize(
    ("cleaned", "data_is_left", "kind"), [(15, False, "compacted"), (15, True, "control-only"), (0, False, "control-only")]
)
def test_a_marker_that_only_one_cleaner_removed(tmp_path: Path, cleaned: int, data_is_left: bool, kind: str) -> None:
    """Below the cleaner's checkpoint it may have gone with the last record of its transaction, not
    before.
    """
    data = bytes(build_batch(records(0, 5), producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True))
    left = [*([data] if data_is_left else []), batch(5), marker(10), *batches(3, first=11)]
    right = [part for part in left if part != left[-4]]
    a, b = write_log(tmp_path / "a" / "t-0", *left), write_log(tmp_path / "b" / "t-0", *right)
    assert kinds(diff_logs(open_log(a), open_log(b, cleaned_offset=cleaned))) == [(kind, 10, 10)]
    assert kinds(diff_logs(open_log(b, cleaned_offset=cleaned), open_log(a))) == [(kind, 10, 10)]


def test_a_missing_tail_is_one_difference(tmp_path: Path) -> None:
    """It was one a batch: 133 lines where one range says it."""
    parts = batches(40)
    for settings in (NOTHING_IGNORED, DiffSettings(max_differences=1)):
        verdict = diff(tmp_path, parts, parts[:3], settings)
        assert (kinds(verdict), verdict.difference_counts) == ([("missing", 15, 199)], {"missing": 1})
    (difference,) = verdict.differences
    size = sum(map(len, parts[3:]))
    assert (difference.left_batch_count, difference.left_size_bytes, difference.right_batch_count) == (37, size, 0)
    assert len(difference.left) == 10 and difference.detail == f"37 batches ({size:,} bytes) only in A, behind the end of B"
    assert kinds(diff(tmp_path, parts[:3], parts)) == [("extra", 15, 199)]


def test_what_is_missing_in_two_places_is_two_differences(tmp_path: Path) -> None:
    parts = batches(12)
    verdict = diff(tmp_path, parts, [*parts[:2], *parts[4:6], *parts[9:11]])
    assert kinds(verdict) == [("missing", 10, 19), ("missing", 30, 44), ("missing", 55, 59)]
    other = [*parts[:2], batch(20, text="other"), *parts[5:]]
    assert kinds(diff(tmp_path, parts, other)) == [("missing", 10, 19), ("bytes-differ", 20, 24)]


def test_a_damaged_batch_in_a_missing_tail_is_told_apart(tmp_path: Path) -> None:
    parts = batches(8)
    broken = bytes([*parts[5][:-3], parts[5][-3] ^ 1, *parts[5][-2:]])
    found = diff(tmp_path, [*parts[:5], broken, *parts[6:]], parts[:2])
    assert kinds(found) == [("missing", 10, 24), ("bytes-differ", 25, 29), ("missing", 30, 39)]


def test_one_flipped_bit_names_the_batch_and_says_whose_crc_fails(tmp_path: Path) -> None:
    parts = batches(10)
    broken = bytearray(parts[4])
    broken[-3] ^= 1
    verdict = diff(tmp_path, parts, [*parts[:4], bytes(broken), *parts[5:]])
    assert kinds(verdict) == [("bytes-differ", 20, 24)]
    (difference,) = verdict.differences
    assert (difference.left[0].crc_valid, difference.right[0].crc_valid) == (True, False)
    assert f"B's batch at byte {sum(map(len, parts[:4]))}" in difference.detail and "t-0/00000000000000000000.log" in difference.detail


def test_epoch_only(tmp_path: Path) -> None:
    parts = batches(4)
    verdict = diff(tmp_path, parts, [*parts[:2], batch(10, epoch=3), parts[3]])
    assert kinds(verdict) == [("epoch-only", 10, 14)]
    assert verdict.differences[0].detail == "leader epoch 0 in A, 3 in B"


def test_control_only(tmp_path: Path) -> None:
    parts = batches(4)
    markers = [
        bytes(build_end_transaction_marker(kind, coordinator_epoch=0, producer_id=7, producer_epoch=0, timestamp=TIME, base_offset=10))
        for kind in (ControlRecordType.COMMIT, ControlRecordType.ABORT)
    ]
    assert kinds(diff(tmp_path, [*parts[:2], markers[0]], [*parts[:2], markers[1]])) == [("control-only", 10, 10)]
    extra = diff(tmp_path, parts, [*parts, reset(20)])
    assert kinds(extra) == [("control-only", 20, 20)]
    assert extra.differences[0].right[0].control_type == "MIRROR_PID_RESET"


def test_data_against_control_is_bytes_differ(tmp_path: Path) -> None:
    parts = batches(4)
    verdict = diff(tmp_path, [*parts[:2], batch(10, 1)], [*parts[:2], reset(10)])
    assert kinds(verdict) == [("bytes-differ", 10, 10)]
    assert verdict.differences[0].detail == "A has a data batch, B a control (MIRROR_PID_RESET) batch"


@pytest.mark.parametrize("codec", [CompressionType.GZIP, CompressionType.LZ4, CompressionType.ZSTD, CompressionType.SNAPPY])
def test_the_same_records_in_another_compression_are_re_batched(tmp_path: Path, codec: CompressionType) -> None:
    parts = batches(4)
    verdict = diff(tmp_path, parts, [parts[0], batch(5, codec=codec), *parts[2:]])
    assert kinds(verdict) == [("re-batched", 5, 9)]
    assert f"compression none in A, {codec.name.lower()} in B" in verdict.differences[0].detail


def test_a_whole_log_with_shifted_batches_is_one_re_batched_chain(tmp_path: Path) -> None:
    left, right = batches(40, size=5), [batch(0, 3), *batches(39, first=3, size=5), batch(198, 2)]
    verdict = diff(tmp_path, left, right)
    assert kinds(verdict) == [("re-batched", 0, 199)]
    assert "40 batches in A, 41 batches in B" in verdict.differences[0].detail
    assert len(verdict.differences[0].left) == 10


def test_one_other_record_in_a_shifted_chain_is_found(tmp_path: Path) -> None:
    verdict = diff(tmp_path, batches(8, size=5), [batch(0, 13), batch(13, 7, text="other"), batch(20, 20)])
    assert kinds(verdict) == [("bytes-differ", 0, 19), ("re-batched", 20, 39)]
    assert "offsets 13, 14, 15, 16, 17 and 2 more" in verdict.differences[0].detail


def test_other_producer_fields_are_not_just_re_batched(tmp_path: Path) -> None:
    parts = batches(3)
    verdict = diff(tmp_path, parts, [parts[0], batch(5, producer_id=9), parts[2]])
    assert kinds(verdict) == [("bytes-differ", 5, 9)]
    assert "producer_id -1 in A, 9 in B" in verdict.differences[0].detail


def test_a_batch_with_holes_was_compacted(tmp_path: Path) -> None:
    kept = bytes(
        build_batch([row for row in records(5, 5) if row.offset in (6, 9)], base_offset=5, last_offset=9, partition_leader_epoch=0)
    )
    parts = batches(3)
    newer = bytes(build_batch(records(15, 10, keys=10), base_offset=15, partition_leader_epoch=0))
    again = [*parts, newer]
    assert kinds(diff(tmp_path, again, [parts[0], kept, parts[2], newer])) == [("compacted", 5, 9)]
    assert kinds(diff(tmp_path, [parts[0], kept, parts[2], newer], again)) == [("compacted", 5, 9)]
    assert kinds(diff(tmp_path, parts, [parts[0], kept, parts[2]])) == [("key-lost", 5, 9)], "no later record of these keys"
    assert kinds(diff(tmp_path, [parts[0], kept, parts[2]], parts)) == [("compacted", 5, 9)]


def test_a_batch_that_both_cleaners_rewrote_was_compacted(tmp_path: Path) -> None:
    """The same records are left, compressed by two libraries or noted at two times; another
    producer is no cleaner's work.
    """

    def kept(codec: CompressionType, horizon_ms: int | None = None, **producer: int) -> bytes:
        rows = [row for row in records(5, 5) if row.offset in (6, 9)]
        return bytes(build_batch(rows, base_offset=5, last_offset=9, compression=codec, delete_horizon_ms=horizon_ms, **producer))

    parts = batches(3)
    plain = [parts[0], kept(CompressionType.NONE, TIME), parts[2]]
    for other in (kept(CompressionType.GZIP, TIME), kept(CompressionType.NONE, TIME + 7), kept(CompressionType.GZIP)):
        assert kinds(diff(tmp_path, plain, [parts[0], other, parts[2]])) == [("compacted", 5, 9)]
    foreign = kept(CompressionType.NONE, producer_id=9, producer_epoch=0, base_sequence=5)
    assert kinds(diff(tmp_path, plain, [parts[0], foreign, parts[2]])) == [("bytes-differ", 5, 9)]


def test_batches_below_the_cleaners_offset_were_compacted(tmp_path: Path) -> None:
    parts = [keyed(first, 5, 15) for first in range(0, 30, 5)]
    left, right = write_log(tmp_path / "a" / "t-0", *parts), write_log(tmp_path / "b" / "t-0", parts[0], *parts[2:4], parts[5])
    assert kinds(diff_logs(open_log(left), open_log(right, cleaned_offset=15))) == [("compacted", 5, 9), ("missing", 20, 24)]
    parts = batches(6)
    left, right = write_log(tmp_path / "a" / "u-0", *parts), write_log(tmp_path / "b" / "u-0", parts[0], *parts[2:4], parts[5])
    assert kinds(diff_logs(open_log(left, cleaned_offset=15), open_log(right))) == [("missing", 5, 9), ("missing", 20, 24)]
    assert kinds(diff_logs(open_log(left), open_log(right, cleaned_offset=15))) == [("key-lost", 5, 9), ("missing", 20, 24)]


def keyed(first: int, count: int, keys: int) -> bytes:
    return bytes(build_batch(records(first, count, keys=keys), base_offset=first, partition_leader_epoch=0))


def test_superseded_keys_tell_a_compacted_batch_from_a_lost_one(tmp_path: Path) -> None:
    left = [keyed(first, 5, 10) for first in range(0, 40, 5)]
    compacted = diff(tmp_path, left, left[4:], is_compacted=True)
    assert compacted.start_offset == 0 and set(compacted.difference_counts) == {"compacted"}, "offsets 20.. have each key again"
    lost = diff(tmp_path, left, [*left[:5], *left[6:]])
    assert kinds(lost) == [("missing", 25, 29)], "a log that repeats keys before the gap was never cleaned there"


@pytest.mark.parametrize(("is_compacted", "kind"), [(True, "compacted"), (None, "not-decided"), (False, "missing")])
def test_keys_that_came_again_prove_no_cleaner_where_none_works(tmp_path: Path, is_compacted: bool | None, kind: str) -> None:
    """A batch that a delete-topic lost was called compacted because its keys were written again
    later, and `--ignore compacted` then called the logs equal."""
    left = [keyed(first, 5, 10) for first in range(0, 40, 5)]
    ignored = DiffSettings(frozenset({DifferenceKind.COMPACTED}))
    verdict = diff(tmp_path, left, left[2:], is_compacted=is_compacted)
    assert {found for found, _, _ in kinds(verdict)} == {kind}
    assert (kinds(verdict)[0][1], kinds(verdict)[-1][2]) == (0, 9)
    assert ("no metadata log, cleaner checkpoint or batch with holes says" in verdict.differences[0].detail) == (is_compacted is None)
    status = diff(tmp_path, left, left[2:], ignored, is_compacted=is_compacted).status
    assert status is (Status.EQUAL if is_compacted else Status.DIFFERENT)


def metadata(folder: Path, policy: str | None) -> None:
    """The metadata log of a cluster with topic `t`."""
    said = [] if policy is None else [ConfigRecord(resource_type=2, resource_name="t", name="cleanup.policy", value=policy)]
    parts = [
        bytes(build_batch([Record(offset, TIME, None, write_metadata_record(one, 0), [])], base_offset=offset))
        for offset, one in enumerate([TopicRecord(name="t", topic_id=Uuid(b"t" * 16)), *said])
    ]
    write_log(folder / "__cluster_metadata-0", *parts)


@pytest.mark.parametrize(
    ("policy", "code", "words"),
    [("compact", 0, "compacted away"), ("delete", 1, "missing"), (None, 1, "missing"), ("", 1, "not decided")],
)
def test_the_metadata_log_says_whether_a_cleaner_can_have_been_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], policy: str | None, code: int, words: str
) -> None:
    left = [keyed(first, 5, 10) for first in range(0, 40, 5)]
    for side, parts in (("a", left), ("b", left[2:])):
        write_segments(tmp_path / side / "t-0", (0, parts), (40, [keyed(40, 5, 10)]))
        if policy != "":
            metadata(tmp_path / side, policy)
    assert main_log_diff([str(tmp_path / "a"), str(tmp_path / "b"), "--ignore", "compacted"]) == code
    assert words in capsys.readouterr().out


def written(offset: int, key: bytes, producer_id: int = -1) -> bytes:
    """A batch of one record; of a transaction of this producer, of epoch 4."""
    producer = {"producer_id": producer_id, "producer_epoch": 4, "base_sequence": offset} if producer_id >= 0 else {}
    row = Record(offset, TIME, key, b"v", [])
    return bytes(build_batch([row], base_offset=offset, is_transactional=producer_id >= 0, **producer))


def marker_of(offset: int, producer_id: int, kind: ControlRecordType) -> bytes:
    """As transactions version 2 writes it: its epoch is one above that of the batches."""
    marker = build_end_transaction_marker(
        kind, coordinator_epoch=0, producer_id=producer_id, producer_epoch=5, timestamp=TIME, base_offset=offset
    )
    return bytes(marker)


def test_a_record_of_an_aborted_transaction_that_a_cleaner_removed_is_not_missing(tmp_path: Path) -> None:
    left = [written(0, b"a"), written(1, b"b", 7), marker_of(2, 7, ControlRecordType.ABORT), written(3, b"c")]
    assert kinds(diff(tmp_path, left, [left[0], *left[2:]], is_compacted=True)) == [("compacted", 1, 1)]
    committed = [left[0], left[1], marker_of(2, 7, ControlRecordType.COMMIT), left[3]]
    assert kinds(diff(tmp_path, committed, [committed[0], *committed[2:]])) == [("missing", 1, 1)]
    open_still = [left[0], left[1], left[3]]
    assert kinds(diff(tmp_path, open_still, [left[0], left[3]])) == [("missing", 1, 1)]


def test_a_record_of_an_aborted_transaction_replaces_no_older_one(tmp_path: Path) -> None:
    left = [written(0, b"a"), written(1, b"a", 7), marker_of(2, 7, ControlRecordType.ABORT), written(3, b"c")]
    assert kinds(diff(tmp_path, left, left[1:])) == [("missing", 0, 0)]
    committed = [*left[:2], marker_of(2, 7, ControlRecordType.COMMIT), left[3]]
    assert kinds(diff(tmp_path, committed, committed[1:], is_compacted=True)) == [("compacted", 0, 0)]


def test_an_uncommitted_tail_is_beyond_the_high_watermark(tmp_path: Path) -> None:
    parts = batches(6)
    left, right = write_log(tmp_path / "a" / "t-0", *parts), write_log(tmp_path / "b" / "t-0", *parts[:4], batch(20, text="other"))
    verdict = diff_logs(open_log(left, high_watermark=20), open_log(right))
    assert kinds(verdict) == [("beyond-high-watermark", 20, 24), ("beyond-high-watermark", 25, 29)]
    verdict = diff_logs(open_log(left, high_watermark=25), open_log(right))
    assert kinds(verdict) == [("bytes-differ", 20, 24), ("beyond-high-watermark", 25, 29)]
    ignored = DiffSettings(frozenset({DifferenceKind.BEYOND_HIGH_WATERMARK}))
    assert diff_logs(open_log(left, high_watermark=20), open_log(right), ignored).status is Status.EQUAL


def test_a_batch_cut_at_the_end_is_missing_and_reported_as_trailing(tmp_path: Path) -> None:
    parts = batches(6)
    verdict = diff(tmp_path, parts, [*parts[:5], parts[5][:70]])
    assert kinds(verdict) == [("missing", 25, 29)]
    assert verdict.right is not None and (verdict.right.trailing_bytes, verdict.right.log_end_offset) == (70, 25)


def test_impossible_length_is_an_error_that_names_file_and_byte(tmp_path: Path) -> None:
    parts = batches(6)
    broken = bytearray(parts[3])
    broken[8:12] = (5).to_bytes(4, "big")
    verdict = diff(tmp_path, parts, [*parts[:3], bytes(broken), *parts[4:]])
    assert verdict.status is Status.ERROR
    assert verdict.error is not None and f"b/t-0/{0:020d}.log: at byte {sum(map(len, parts[:3]))}: " in verdict.error


def test_an_incomplete_batch_in_front_of_a_segment_is_an_error(tmp_path: Path) -> None:
    parts = batches(6)
    right = write_segments(tmp_path / "b" / "t-0", (0, [*parts[:2], parts[2][:66]]), (15, parts[3:]))
    verdict = diff_logs(open_log(write_log(tmp_path / "a" / "t-0", *parts)), open_log(right))
    assert verdict.status is Status.ERROR and verdict.error is not None and f"at byte {sum(map(len, parts[:2]))}" in verdict.error


@pytest.mark.parametrize("torn_by", [1, 10, 60])
def test_a_torn_segment_is_named_on_either_side(tmp_path: Path, torn_by: int) -> None:
    """The order of A and B decided: as A it had the healthy log walked from the middle of a batch."""
    parts = batches(4)
    torn = write_segments(tmp_path / "torn" / "t-0", (0, [parts[0], parts[1][:-torn_by]]), (10, parts[2:]))
    sound = write_segments(tmp_path / "sound" / "t-0", (0, parts[:3]), (15, parts[3:]))
    errors = [diff_logs(open_log(one), open_log(other)).error for one, other in ((torn, sound), (sound, torn))]
    assert errors == [f"{torn}/{0:020d}.log: at byte {len(parts[0])}: an incomplete batch, and {torn}/{10:020d}.log follows"] * 2


def test_zeros_behind_the_last_batch_are_an_error(tmp_path: Path) -> None:
    verdict = diff(tmp_path, batches(3), [*batches(3), bytes(100)])
    assert verdict.status is Status.ERROR and verdict.error is not None and "at byte" in verdict.error


def test_a_swap_that_was_listed_in_the_middle_is_an_error(tmp_path: Path) -> None:
    """The segment has no name then, and its records were called missing."""
    whole = write_segments(tmp_path / "a" / "t-0", (0, batches(2)), (10, batches(2, first=10)))
    cut = write_segments(tmp_path / "b" / "t-0", (0, batches(2)), (10, batches(2, first=10)))
    (cut / f"{10:020d}.log.swap").write_bytes(b"")
    assert diff_logs(open_log(whole), open_log(cut)).status is Status.EQUAL, "what it replaces is still there"
    (cut / f"{10:020d}.log").rename(cut / f"{10:020d}.log.deleted")
    for verdict in (diff_logs(open_log(whole), open_log(cut)), diff_logs(open_log(cut), open_log(whole))):
        assert verdict.status is Status.ERROR and not verdict.differences
        assert f"t-0/{10:020d}.log.swap: a cleaned segment that is not in its place yet" in str(verdict.error)


def test_old_message_formats_are_an_error(tmp_path: Path) -> None:
    old = bytearray(batch(5))
    old[16] = 1
    verdict = diff(tmp_path, batches(2), [batch(0), bytes(old)])
    assert verdict.status is Status.ERROR and verdict.error is not None and "format v1" in verdict.error


def test_an_empty_log_against_a_full_one(tmp_path: Path) -> None:
    assert diff(tmp_path, [], []).status is Status.EQUAL
    assert kinds(diff(tmp_path, batches(2), [])) == [("missing", 0, 9)]


def test_differences_beyond_the_limit_are_counted(tmp_path: Path) -> None:
    verdict = diff(tmp_path, batches(30), [batch(first, epoch=1) for first in range(0, 150, 5)], DiffSettings(max_differences=4))
    assert (len(verdict.differences), verdict.difference_counts) == (4, {"epoch-only": 30})


def test_the_offset_index_is_only_a_hint(tmp_path: Path) -> None:
    parts = batches(20)
    folder = write_log(tmp_path / "a" / "t-0", *parts)
    position = sum(map(len, parts[:10]))
    (folder / f"{0:020d}.index").write_bytes((50).to_bytes(4, "big") + position.to_bytes(4, "big") + bytes(800))
    log = open_log(folder)
    assert log.indexed_position(log.partition.segments[0], offset=80) == position
    assert log.indexed_position(log.partition.segments[0], offset=49) == 0
    assert log.log_end_offset() == 100
    (folder / f"{0:020d}.index").write_bytes((50).to_bytes(4, "big") + (position + 9).to_bytes(4, "big"))
    assert open_log(folder).indexed_position(log.partition.segments[0], offset=80) == 0
    assert open_log(folder).log_end_offset() == 100


def fetched(parts: list[bytes], *, chunk: int, start: int = 0, end: int | None = None) -> FetchedLog:
    """A live log that serves `chunk` batches at a time."""

    def fetch(offset: int) -> bytes:
        found = [part for part in parts if next(iter_batches(part)).last_offset >= offset]
        return b"".join(found[:chunk])

    last = next(iter_batches(parts[-1])).next_offset
    return FetchedLog("live/t-0", TopicPartition("t", 0), fetch, log_start_offset=start, high_watermark=last if end is None else end)


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_a_live_log_against_a_folder_and_another(tmp_path: Path, chunk: int) -> None:
    parts = batches(20)
    other = [*parts[:9], batch(45, text="other"), *parts[10:]]
    folder: DirectoryLog = open_log(write_log(tmp_path / "a" / "t-0", *parts))
    assert diff_logs(folder, fetched(parts, chunk=chunk)).status is Status.EQUAL
    assert kinds(diff_logs(folder, fetched(other, chunk=chunk))) == [("bytes-differ", 45, 49)]
    assert kinds(diff_logs(fetched(parts, chunk=7), fetched(other, chunk=chunk))) == [("bytes-differ", 45, 49)]


def test_a_live_log_ends_at_its_high_watermark(tmp_path: Path) -> None:
    parts = batches(20)
    verdict = diff_logs(open_log(write_log(tmp_path / "a" / "t-0", *parts[:18])), fetched(parts, chunk=4, end=90))
    assert verdict.status is Status.EQUAL
    tail = diff_logs(open_log(write_log(tmp_path / "b" / "t-0", *parts)), fetched(parts, chunk=4, end=90))
    assert tail.difference_counts == {"beyond-high-watermark": 2}


def test_a_live_log_that_serves_nothing_below_its_end_is_an_error(tmp_path: Path) -> None:
    live = FetchedLog("live/t-0", TopicPartition("t", 0), lambda offset: b"", log_start_offset=0, high_watermark=10)
    verdict = diff_logs(open_log(write_log(tmp_path / "a" / "t-0", *batches(2))), live)
    assert verdict.status is Status.ERROR and verdict.error is not None and "offset 0" in verdict.error


def test_verdicts_survive_json_and_add_up(tmp_path: Path) -> None:
    verdict = diff(tmp_path, batches(3), [batch(0), batch(5, epoch=1), batch(10)])
    assert verdict_from_json(to_json(verdict)) == verdict
    report = make_report("a", "b", "local", [verdict, diff(tmp_path / "x", batches(1), batches(1))])
    assert (report.exit_code, report.difference_counts) == (1, {"epoch-only": 1})
