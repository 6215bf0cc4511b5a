"""`readStream` of `kafka-log` over logs that change while they are read: without a JVM, as Spark
would call it.
"""

from __future__ import annotations

import json
import random
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.logs.log_folders import TIME, batch, batches, records, write_log, write_segments
from support.logs.replay_stories import Story

pytest.importorskip("pyspark", reason="pyspark is not installed (kmirror[spark])")
pytest.importorskip("pyarrow", reason="pyarrow is not installed (kmirror[spark])")

from pyspark.sql.streaming.datasource import ReadAllAvailable
from support.tools.spark_rows import read_rows
from support.tools.stream_runs import Rows, StreamRun

from kmirror.common.errors import KmirrorError
from kmirror.record.builder import build_batch
from kmirror.record.control_record import ControlRecordType, build_end_transaction_marker
from kmirror.spark.inputs import FoundPartition, find_partitions
from kmirror.spark.range_reader import ranges_of
from kmirror.spark.stream_reader import check_stream_options


def offsets(rows: Rows) -> list[int]:
    return [row["offset"] for row in rows]


def high_watermark(data_dir: Path, **partitions: int) -> None:
    """`t_0=25`: of t-0."""
    lines = [f"{name.replace('_', ' ')} {offset}" for name, offset in partitions.items()]
    (data_dir / "replication-offset-checkpoint").write_text("\n".join(["0", str(len(lines)), *lines, ""]))


def test_what_is_appended_comes_once_up_to_the_high_watermark(tmp_path: Path) -> None:
    folder = write_segments(tmp_path / "t-0", (0, batches(4)))
    high_watermark(tmp_path, t_0=15)
    run = StreamRun(tmp_path, log_end=False)
    assert offsets(run.batch()) == list(range(15))
    start = {"offset": 0, "leaderEpoch": -1}
    assert json.loads(run.position or "") == {"t": {"0": {"offset": 15, "leaderEpoch": 0, "start": start}}}
    assert run.batch() == []
    write_segments(folder, (20, batches(3, first=20)))
    high_watermark(tmp_path, t_0=30)
    run.restart()
    assert offsets(run.batch()) == list(range(15, 30))
    assert json.loads(run.position or "") == {"t": {"0": {"offset": 30, "leaderEpoch": 0}}}
    high_watermark(tmp_path, t_0=12)
    assert run.batch() == [], "an old checkpoint after a crash takes nothing back"
    for start, end in run.history:
        assert run.between(start, end) == run.between(start, end)


def test_a_log_without_a_high_watermark_asks_for_an_option(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", *batches(1))
    with pytest.raises(KmirrorError, match="replication-offset-checkpoint is not there.*readUpTo=logEndOffset"):
        StreamRun(tmp_path, log_end=False).batch()
    assert len(StreamRun(tmp_path).batch()) == 5


def epochs(folder: Path, *entries: tuple[int, int]) -> None:
    """The leader-epoch-checkpoint: (epoch, start offset)."""
    lines = [f"{epoch} {start}" for epoch, start in entries]
    (folder / "leader-epoch-checkpoint").write_text("\n".join(["0", str(len(lines)), *lines, ""]))


def topic_id(folder: Path, letter: str) -> None:
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {letter * 22}\n")


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_a_truncation_is_told_by_the_leader_epoch(tmp_path: Path, caplog: pytest.LogCaptureFixture, has_checkpoint: bool) -> None:
    """Offsets 0 to 29 were read; a leader that had 0 to 19 alone goes on at 20 with its own
    records, farther than before.
    """
    folder = write_log(tmp_path / "t-0", *(batch(first, epoch=3) for first in range(0, 30, 5)))
    if has_checkpoint:
        epochs(folder, (3, 0))
    careful, careless = StreamRun(tmp_path), StreamRun(tmp_path, failOnDataLoss="false")
    assert len(careful.batch()) == len(careless.batch()) == 30
    write_log(
        folder, *(batch(first, epoch=3) for first in range(0, 20, 5)), *(batch(first, epoch=5, text="new") for first in range(20, 50, 5))
    )
    if has_checkpoint:
        epochs(folder, (3, 0), (5, 20))
    with pytest.raises(KmirrorError) as raised:
        careful.batch()
    assert str(raised.value).startswith(
        "data loss: t-0 was truncated: offset 30 was next, behind leader epoch 3, but epoch 3 ends at offset 20 and leader epoch 5 begins there; "
        "offsets 20 to 29 were read and are no part of the log (failOnDataLoss=true"
    )
    rows = careless.batch()
    assert offsets(rows) == list(range(20, 50)) and {row["value"][:3] for row in rows} == {b"new"}
    assert [record.getMessage()[:40] for record in caplog.records] == ["kafka-log: data loss: t-0 was truncated:"]
    assert careless.batch() == [] and len(caplog.records) == 1, "once"
    start, end = careless.history[-1]
    assert careless.between(start, end) == rows


def test_a_log_that_was_cut_and_has_nothing_new_is_told(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "t-0", *batches(6))
    careful, careless = StreamRun(tmp_path), StreamRun(tmp_path, failOnDataLoss="false")
    careful.batch(), careless.batch()
    write_log(folder, *batches(4))
    with pytest.raises(
        KmirrorError, match="offset 30 was next, behind leader epoch 0, but epoch 0 ends at offset 20 and the log ends there"
    ):
        careful.batch()
    assert careless.batch() == []
    write_log(folder, *batches(4), batch(20, epoch=1))
    assert offsets(careless.batch()) == list(range(20, 25))


def test_another_replica_that_never_had_the_epoch_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = write_log(tmp_path / "t-0", *(batch(first, epoch=7) for first in range(0, 30, 5)))
    epochs(folder, (7, 0))
    run = StreamRun(tmp_path)
    run.batch()
    write_log(folder, *(batch(first, epoch=6) for first in range(0, 50, 5)))
    epochs(folder, (6, 0))
    with pytest.raises(KmirrorError, match="behind leader epoch 7, which the log does not know; it has leader epoch 6 there"):
        run.batch()
    run.options["failOnDataLoss"] = "false"
    run.restart()
    write_log(folder, *(batch(first, epoch=6) for first in range(0, 30, 5)))
    assert run.batch() == run.batch() == [] and len(caplog.records) == 1, "told once, though nothing is new"


def test_a_front_that_was_deleted_unread_is_lost_and_one_that_was_read_is_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = write_segments(tmp_path / "t-0", (0, batches(2)), (10, batches(2, first=10)), (20, batches(2, first=20)))
    read, careful, careless = (StreamRun(tmp_path, failOnDataLoss=text, maxOffsetsPerTrigger="10") for text in ("true", "true", "false"))
    assert offsets(read.batch()) == offsets(careful.batch()) == offsets(careless.batch()) == list(range(10))
    assert offsets(read.batch()) == list(range(10, 20))
    for offset in (0, 10):
        (folder / f"{offset:020d}.log").unlink()
    assert offsets(read.batch()) == list(range(20, 30))
    with pytest.raises(
        KmirrorError, match=r"offsets 10 to 19 of t-0 were deleted before they were read: the log begins at offset 20 \(leader epoch 0\)"
    ):
        careful.batch()
    assert offsets(careless.batch()) == list(range(20, 30))
    assert len(caplog.records) == 1
    start, end = read.history[1]
    with pytest.raises(KmirrorError, match="offsets 10 to 19 of t-0 were deleted"):
        read.between(start, end)


def test_a_topic_made_anew_is_told_by_its_id(tmp_path: Path) -> None:
    """The new log has the same leader epoch, and reaches farther than the old one did."""
    folder = write_log(tmp_path / "t-0", *batches(4))
    topic_id(folder, "Q")
    careful, careless = StreamRun(tmp_path), StreamRun(tmp_path, failOnDataLoss="false")
    careful.batch(), careless.batch()
    write_log(folder, *(batch(first, text="other") for first in range(0, 40, 5)))
    topic_id(folder, "g")
    with pytest.raises(
        KmirrorError,
        match=r"t-0 was deleted and made anew: offset 20 \(leader epoch 0\) of topic id Q+ was next, now .* g+ with offsets from 0 to 40",
    ):
        careful.batch()
    rows = careless.batch()
    assert offsets(rows) == list(range(40)) and rows[0]["value"] == b"other-0"
    assert careless.batch() == []
    first, second = careless.history
    assert careless.between(*first) == [], "what is gone is gone"
    assert careless.between(*second) == rows


def test_new_partitions_are_read_from_offset_0(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_log(tmp_path / "t-0", *batches(2))
    run, careless = (
        StreamRun(tmp_path, subscribePattern="t|u", startingOffsets="latest", failOnDataLoss=text) for text in ("true", "false")
    )
    assert run.batch() == careless.batch() == [], "latest"
    write_log(tmp_path / "t-1", *batches(1))
    write_log(tmp_path / "v-0", *batches(1))
    assert [(row["topic"], row["partition"]) for row in run.batch()] == [("t", 1)] * 5
    write_log(tmp_path / "u-0", *batches(1, first=100), base_offset=100)
    with pytest.raises(KmirrorError, match="u-0 is new here and begins at offset 100 instead of 0"):
        run.batch()
    assert len(careless.batch()) == 10


def test_a_partition_that_is_gone_is_told_and_goes_on_where_it_was(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_log(tmp_path / "t-0", *batches(2))
    write_log(tmp_path / "t-1", *batches(2))
    careful, careless = StreamRun(tmp_path), StreamRun(tmp_path, failOnDataLoss="false")
    careful.batch(), careless.batch()
    (tmp_path / "t-1").rename(tmp_path / "t-1.0123456789abcdef0123456789abcdef-delete")
    with pytest.raises(KmirrorError, match="data loss: t-1: they were read so far, but are no longer in the input"):
        careful.batch()
    assert careless.batch() == careless.batch() == [] and len(caplog.records) == 1
    write_log(tmp_path / "t-1", *batches(3))
    assert offsets(careless.batch()) == list(range(10, 15))


def test_a_log_that_moves_between_two_log_dirs_is_looked_for_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a moment it is in neither of them: not when a batch is planned, and not when it is
    planned again after a restart.
    """
    write_log(tmp_path / "t-0", *batches(2))
    write_log(tmp_path / "t-1", *batches(2))
    run = StreamRun(tmp_path)
    start, end = run.plan()
    misses: list[bool] = []

    def find(locations: tuple[str, ...], *, replica: str, may_be_empty: bool) -> list[FoundPartition]:
        found = find_partitions(locations, replica=replica, may_be_empty=may_be_empty)
        return found[1:] if misses and misses.pop() else found  # t-1 alone

    monkeypatch.setattr("kmirror.spark.stream_reader.find_partitions", find)
    run.restart()
    misses[:] = [True]
    assert len(run.between(start, end)) == 20
    run.reader.initialOffset()
    misses[:] = [True]
    assert run.plan()[1] == end and not misses


def test_files_that_go_between_listing_and_looking_are_listed_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention takes the front while a trigger looks how far its limit reaches."""
    folder = write_segments(tmp_path / "t-0", *((first, batches(2, first=first)) for first in range(0, 50, 10)))
    run = StreamRun(tmp_path, failOnDataLoss="false", maxOffsetsPerTrigger="12", splitBytes="100")

    def find(locations: tuple[str, ...], *, replica: str, may_be_empty: bool) -> list[FoundPartition]:
        found = find_partitions(locations, replica=replica, may_be_empty=may_be_empty)
        if doomed:
            (folder / f"{doomed.pop():020d}.log").unlink()
        return found

    doomed: list[int] = []
    monkeypatch.setattr("kmirror.spark.stream_reader.find_partitions", find)
    run.position = json.dumps(run.reader.initialOffset())
    doomed.append(0)
    assert offsets(run.batch()) == list(range(10, 20)) and not doomed


def test_cuts_that_do_not_rise_are_planned_anew(tmp_path: Path) -> None:
    """The index was read before a swap, the batches at its positions after it: ranges would
    overlap.
    """
    parts = batches(60, first=100)
    indexed(tmp_path / "t-0", 100, parts, every=5)
    run = StreamRun(tmp_path, splitBytes=str(10 * len(parts[0])))
    (piece, *_) = [piece for task in run.tasks(*run.plan()) for piece in task.pieces]
    slices = [
        piece.piece._replace(start=row * len(parts[0]), end=(row + 10) * len(parts[0]), first_offset=100 + 5 * row) for row in (0, 20, 10)
    ]
    with pytest.raises(KmirrorError, match="a batch at offset 150, between 200 and 399"):
        ranges_of(slices, replace(piece.wanted, low=100, high=399))


@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE"])
def test_what_a_cleaner_swaps_in_between_planning_and_reading_is_found(tmp_path: Path, mode: str) -> None:
    """Two segments become one, with every third record, while a task waits."""
    folder = write_segments(tmp_path / "t-0", (0, batches(20)), (100, batches(20, first=100)), (200, batches(2, first=200)))
    run = StreamRun(tmp_path, splitBytes="700", mode=mode)
    start, end = run.plan()
    tasks = run.tasks(start, end)
    assert len(tasks) > 2
    first = run.read(tasks[:1])
    kept = [bytes(one) for one in batches(40)][::3]
    (folder / f"{100:020d}.log").rename(folder / f"{100:020d}.log.deleted")
    write_segments(folder, (0, kept))
    rest = run.read(tasks[1:])
    expected = [offset for base in range(0, 200, 15) for offset in range(base, base + 5)] + list(range(200, 210))
    last = offsets(first)[-1]
    assert offsets(first) == list(range(last + 1))
    assert offsets(rest) == [offset for offset in expected if offset > last]
    assert all(row.get("_corrupt") is None for row in rest)


def indexed(folder: Path, base_offset: int, parts: list[bytes], every: int) -> None:
    """A segment with an offset index: an entry for each `every` batches of five."""
    write_segments(folder, (base_offset, parts))
    ends, position = [], 0
    for row, part in enumerate(parts):
        if row and row % every == 0:
            ends.append(struct.pack(">ii", int.from_bytes(part[:8], "big") + 4 - base_offset, position))
        position += len(part)
    (folder / f"{base_offset:020d}.index").write_bytes(b"".join(ends))


def test_a_cut_that_is_a_batch_of_other_offsets_by_now_is_no_cut(tmp_path: Path) -> None:
    """All batches have the same size, so in the cleaned segment a batch begins where the slice did,
    farther on in the log.
    """
    parts = batches(60, first=100)
    assert len({len(part) for part in parts}) == 1
    indexed(tmp_path / "t-0", 100, parts, every=5)
    write_segments(tmp_path / "t-0", (400, batches(1, first=400)))
    run = StreamRun(tmp_path, splitBytes=str(10 * len(parts[0])))
    tasks = run.tasks(*run.plan())
    pieces = [piece for task in tasks for piece in task.pieces]
    assert len(pieces) > 4 and any(piece.piece.start for piece in pieces)
    assert [piece.wanted.low for piece in pieces][1:] == [piece.wanted.high + 1 for piece in pieces][:-1]
    indexed(tmp_path / "t-0", 100, parts[:10] + parts[20:], every=5)
    assert offsets(run.read(tasks)) == [*range(100, 150), *range(200, 405)]


@pytest.mark.parametrize("options", [{}, {"columns": "offset"}, {"rows": "batch"}, {"mode": "PERMISSIVE"}], ids=str)
def test_a_cleaned_segment_that_ends_too_early_gives_each_record_once(tmp_path: Path, options: dict[str, str]) -> None:
    """The task has given out rows when it notices that the file is another one."""
    parts = batches(20)
    folder = write_segments(tmp_path / "t-0", (0, parts), (100, batches(1, first=100)))
    run = StreamRun(tmp_path, **options)
    tasks = run.tasks(*run.plan())
    write_segments(folder, (0, parts[5:15]))
    name = "base_offset" if "rows" in options else "offset"
    assert [row[name] for row in run.read(tasks)] == [*range(25, 75), *range(100, 105)][:: 5 if "rows" in options else 1]


def test_a_cleaned_segment_that_grew_is_read_to_the_end_of_the_range(tmp_path: Path) -> None:
    """Batches that a cleaner wrote anew can be larger; here one ends exactly where the slice does,
    far too early.
    """
    parts = batches(12, first=10)
    larger = [len(batch(10, text="x" * length)) for length in range(800)]
    length = next(length for length, size in enumerate(larger) if length > 5 and sum(map(len, parts)) % size == 0)
    folder = write_segments(tmp_path / "t-0", (10, parts), (70, batches(1, first=70)))
    run = StreamRun(tmp_path, failOnDataLoss="false")
    tasks = run.tasks(*run.plan())
    write_segments(folder, (10, [batch(first, text="x" * length) for first in range(10, 70, 5)]))
    assert offsets(run.read(tasks)) == list(range(10, 75))


def test_a_front_deleted_between_planning_and_reading_is_lost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = write_segments(tmp_path / "t-0", (0, batches(2)), (10, batches(2, first=10)))
    careful, careless = StreamRun(tmp_path), StreamRun(tmp_path, failOnDataLoss="false")
    planned = [(run, run.tasks(*run.plan())) for run in (careful, careless)]
    (folder / f"{0:020d}.log").unlink()
    with pytest.raises(
        KmirrorError, match=r"data loss: offsets 0 to 9 of t-0 were to be read \(leader epoch 0\), and the log begins at 10 by now"
    ):
        careful.read(planned[0][1])
    assert offsets(careless.read(planned[1][1])) == list(range(10, 20))
    assert len(caplog.records) == 1


def test_a_truncation_between_planning_and_reading_gives_no_foreign_record(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = write_log(tmp_path / "t-0", *batches(6))
    careful, careless = StreamRun(tmp_path), StreamRun(tmp_path, failOnDataLoss="false")
    planned = [(run, run.tasks(*run.plan())) for run in (careful, careless)]
    write_log(folder, *batches(4), *(batch(first, epoch=2) for first in (20, 25, 30)))
    with pytest.raises(
        KmirrorError,
        match="t-0 was truncated while it was read: offsets 0 to 29 were planned up to leader epoch 0, and offset 20 is of leader epoch 2",
    ):
        careful.read(planned[0][1])
    assert offsets(careless.read(planned[1][1])) == list(range(20))
    write_log(folder, *batches(3))
    with pytest.raises(
        KmirrorError, match=r"offsets 15 to 29 of t-0 were to be read \(leader epoch 0\), and the log was truncated to 15 by now"
    ):
        careful.read(planned[0][1])


def test_damage_is_an_error_or_a_row_as_in_a_batch_query(tmp_path: Path) -> None:
    parts = batches(4)
    bad = parts[1][:-1] + bytes([parts[1][-1] ^ 1])
    write_log(tmp_path / "t-0", parts[0], bad, *parts[2:])
    with pytest.raises(KmirrorError, match=f"t-0/{0:020d}.log: at byte {len(parts[0])}: the CRC"):
        StreamRun(tmp_path).batch()
    run = StreamRun(tmp_path, mode="PERMISSIVE")
    rows = run.batch()
    assert [row["offset"] for row in rows if row["_corrupt"] is None] == [*range(5), *range(10, 20)]
    assert sum(row["_corrupt"] is not None for row in rows) == 1
    assert run.between(*run.history[0]) == rows


def test_a_swap_under_way_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listing in the middle of it lacks the segment: without a look at `.swap` its offsets would
    be passed over silently.
    """
    folder = write_segments(tmp_path / "t-0", (0, batches(2)), (10, batches(2, first=10)), (20, batches(2, first=20)))
    middle, swap = folder / f"{10:020d}.log", folder / f"{10:020d}.log.swap"
    middle.rename(swap)
    run = StreamRun(tmp_path)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if swap.exists():
            swap.rename(middle)

    monkeypatch.setattr("kmirror.spark.settled.time.sleep", pause)
    assert offsets(run.batch()) == list(range(30)) and pauses
    middle.rename(swap)
    monkeypatch.setattr("kmirror.spark.settled.SETTLE_S", 0.0)
    monkeypatch.setattr("kmirror.spark.settled.time.sleep", pauses.append)
    with pytest.raises(
        KmirrorError, match=r"cleaned segments are being swapped in, and that does not end: 0+10.log.swap; is the broker down\?"
    ):
        StreamRun(tmp_path).batch()


def test_starting_offsets_are_those_of_sparks_source(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", *batches(4))
    write_log(tmp_path / "t-1", *batches(4))
    by_partition = json.dumps({"t": {"0": -2, "1": -1}})
    some = json.dumps({"t": {"0": 18, "1": 20}})
    for options, expected in (
        ({"startingOffsets": "latest"}, []),
        ({"startingOffsets": by_partition}, [*range(20)]),
        ({"startingOffsets": some}, [18, 19]),
        ({"startingTimestamp": str(TIME + 17)}, [17, 18, 19] * 2),
        ({"startingTimestamp": str(TIME + 99), "startingOffsetsByTimestampStrategy": "latest"}, []),
    ):
        assert offsets(StreamRun(tmp_path, **options).batch()) == expected, options
    with pytest.raises(KmirrorError, match=f"t-0 has no record at or after {TIME + 99}"):
        StreamRun(tmp_path, startingTimestamp=str(TIME + 99)).batch()
    with pytest.raises(KmirrorError, match="t-0 has offsets from 0 to 20, and 21 is its starting offset"):
        StreamRun(tmp_path, startingOffsets='{"t":{"0":21,"1":0}}').batch()
    with pytest.raises(KmirrorError, match="nope is not in the input"):
        StreamRun(tmp_path, subscribe="nope").batch()
    with pytest.raises(KmirrorError, match="option endingOffsets is for batch queries"):
        check_stream_options({"endingoffsets": "latest"})
    for name in ("maxOffsetsPerTrigger", "maxBytesPerTrigger"):
        with pytest.raises(KmirrorError, match=f"option {name} is a number from 1 on, not '0'"):
            StreamRun(tmp_path, **{name: "0"})


def test_a_checkpoint_of_sparks_kafka_source_is_taken_and_others_are_refused(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", *batches(4))
    run = StreamRun(tmp_path)
    run.position = '{"t":{"0":12}}'
    assert offsets(run.batch()) == list(range(12, 20))
    run.position = '{"logOffset":3}'
    with pytest.raises(KmirrorError, match="the checkpoint is of another source: {'logOffset': 3}"):
        run.batch()


def test_read_committed_ends_where_a_transaction_is_open(tmp_path: Path) -> None:
    told = Story(tmp_path, 5, others=("roll",))
    told.tell(60)
    run = StreamRun(tmp_path, isolation_level="read_committed", kafkaCompatible="true", maxOffsetsPerTrigger="25")
    whole: list[int] = []
    for _ in range(4):
        told.tell(30)
        told.world.scheduler.run_due()
        whole += [offset for rows in run.rest() for offset in offsets(rows)]
        assert json.loads(run.position or "")["t"]["0"]["offset"] == told.log.last_stable_offset
    told.end()
    assert whole == offsets(read_rows(tmp_path, isolation_level="read_committed", kafkaCompatible="true"))


@pytest.mark.parametrize("seed", range(6))
def test_a_history_is_read_as_it_was_written_whatever_the_broker_does(tmp_path: Path, seed: int) -> None:
    """Rolls, restarts, retention of what was read, in batches of random size: every offset once, in
    order, and again the same.
    """
    told = Story(tmp_path, seed, others=("roll", "restart", "epoch"))
    rand = random.Random(seed)
    run = StreamRun(tmp_path, columns="offset,value")
    seen: Rows = []
    for _ in range(8):
        told.tell(12)
        run.options["maxBytesPerTrigger" if rand.random() < 0.5 else "maxOffsetsPerTrigger"] = str(rand.randrange(1, 900))
        run.restart()
        for rows in run.rest():
            assert rows == run.between(*run.history[-1])
            seen += rows
    told.end()
    assert seen == read_rows(tmp_path, columns="offset,value")


@pytest.mark.parametrize("seed", range(12))
def test_a_first_batch_that_runs_again_has_the_same_rows_or_says_what_is_lost(tmp_path: Path, seed: int) -> None:
    """Whatever a broker does between the plan and the restart."""
    told = Story(tmp_path, seed, others=("roll", "restart", "epoch", "retention", "truncate"))
    rand = random.Random(seed)
    told.tell(40)
    starts = {"startingOffsets": "earliest"}, {"startingOffsets": "latest"}, {"startingTimestamp": str(told.world.clock.now_ms - 900)}
    limit = {} if rand.random() < 0.4 else {"maxOffsetsPerTrigger": str(rand.randrange(1, 60))}
    run = StreamRun(tmp_path, columns="offset,value", startingOffsetsByTimestampStrategy="latest", **rand.choice(starts), **limit)
    run.position = json.dumps(run.reader.initialOffset())
    told.tell(rand.choice((0, 10)))
    _, end = run.plan()
    planned = run.between(run.position, end)
    assert planned == run.run_first_again(end)
    for _ in range(4):
        told.tell(20)
        try:
            assert planned == run.run_first_again(end)
        except KmirrorError as error:
            assert "data loss" in str(error)


def test_available_now_ends_where_the_logs_ended_when_it_began(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "t-0", *batches(4))
    run = StreamRun(tmp_path, maxOffsetsPerTrigger="5")
    run.plan()
    run.reader.prepareForTriggerAvailableNow()
    write_log(folder, *batches(9))
    write_log(tmp_path / "t-1", *batches(9))
    assert [offsets(rows) for rows in run.rest()] == [list(range(first, first + 5)) for first in range(0, 20, 5)]
    run.restart()
    assert sum(len(rows) for rows in run.rest()) == 25 + 45


@pytest.mark.parametrize(
    ("limit", "each"), [({"maxOffsetsPerTrigger": "1"}, 1), ({"maxBytesPerTrigger": "1"}, 1), ({"maxOffsetsPerTrigger": "17"}, 3)]
)
def test_limits_are_shared_between_partitions(tmp_path: Path, limit: dict[str, str], each: int) -> None:
    for partition, count in enumerate((8, 2, 8)):
        write_log(tmp_path / f"t-{partition}", *batches(count))
    run = StreamRun(tmp_path, **limit)
    found = [{(row["partition"], row["base_offset"]) for row in rows} for rows in run.rest()]
    assert all(len(rows) <= each for rows in found) and sum(map(len, found)) == 18
    first = found[: 3 // each]
    assert {partition for rows in first for partition, _ in rows} == {0, 1, 2}, "nobody waits for another's backlog"
    once = StreamRun(tmp_path, **limit)
    assert len(once.batch(ReadAllAvailable())) == 90


def test_limits_in_bytes_are_of_the_log(tmp_path: Path) -> None:
    parts = batches(12)
    write_segments(tmp_path / "t-0", (0, parts[:5]), (25, parts[5:9]), (45, parts[9:]))
    for count in (1, 2, 4, 5, 6, 11, 12):
        for more in (0, 70):
            limit = sum(map(len, parts[:count])) + more
            assert len(StreamRun(tmp_path, maxBytesPerTrigger=str(limit)).batch()) == 5 * count


def test_of_replicas_the_one_that_an_election_would_take_is_followed(tmp_path: Path) -> None:
    """A failover: the new leader lacks what its predecessor had above the high watermark, and goes
    on with another epoch.
    """
    for node, count, high in (("north", 5, 20), ("south", 4, 20)):
        folder = write_log(tmp_path / node / "t-0", *batches(count))
        epochs(folder, (0, 0))
        high_watermark(tmp_path / node, t_0=high)
    run = StreamRun(f"{tmp_path}/*", log_end=False)
    assert offsets(run.batch()) == list(range(20))
    write_log(tmp_path / "south" / "t-0", *batches(4), *(batch(first, epoch=1, text="south") for first in (20, 25)))
    epochs(tmp_path / "south" / "t-0", (0, 0), (1, 20))
    high_watermark(tmp_path / "south", t_0=30)
    rows = run.batch()
    assert offsets(rows) == list(range(20, 30)) and rows[0]["value"] == b"south-20"


def test_an_open_segments_torn_end_waits_and_an_empty_log_begins(tmp_path: Path) -> None:
    parts = batches(3)
    folder = write_log(tmp_path / "t-0", b"")
    run = StreamRun(tmp_path, startingOffsets="latest")
    assert run.batch() == []
    write_log(folder, parts[0], parts[1][:70])
    assert offsets(run.batch()) == list(range(5)) and run.batch() == []
    write_log(folder, *parts)
    assert offsets(run.batch()) == list(range(5, 15))
    assert run.between(run.position or "", run.position or "") == []


def test_rows_of_batches_and_chosen_columns_are_streamed_too(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", *batches(4))
    run = StreamRun(f"file://{tmp_path}", rows="batch", maxOffsetsPerTrigger="10")
    assert [[row["base_offset"] for row in rows] for rows in run.rest()] == [[0, 5], [10, 15]]
    assert StreamRun(tmp_path, columns="topic,offset").batch()[7] == {"topic": "t", "offset": 7}


@pytest.mark.parametrize("kind", [ControlRecordType.COMMIT, ControlRecordType.ABORT])
def test_a_marker_above_the_high_watermark_decides_nothing_yet(tmp_path: Path, kind: ControlRecordType) -> None:
    """It can still be cut, and the next leader may write the other one."""
    data = build_batch(records(5, 5), base_offset=5, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    marker = build_end_transaction_marker(kind, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=TIME, base_offset=10)
    write_log(tmp_path / "t-0", batch(0), bytes(data), bytes(marker), batch(11))
    run = StreamRun(tmp_path, log_end=False, isolation_level="read_committed", kafkaCompatible="true")
    high_watermark(tmp_path, t_0=10)
    assert offsets(run.batch()) == list(range(5))
    high_watermark(tmp_path, t_0=16)
    decided = list(range(5, 10)) if kind is ControlRecordType.COMMIT else []
    assert offsets(run.batch()) == [*decided, *range(11, 16)]


@pytest.mark.parametrize("seed", range(4))
def test_a_compacted_log_gives_every_record_that_it_keeps_once(tmp_path: Path, seed: int) -> None:
    told = Story(tmp_path, seed, others=("roll", "clean", "clean", "epoch"), policy="compact")
    run = StreamRun(tmp_path, columns="offset,value", maxBytesPerTrigger="900")
    seen: list[Rows] = []
    for _ in range(6):
        told.tell(20)
        start, end = run.plan()
        tasks = run.tasks(start, end)
        told.clean()
        seen.append(run.read(tasks))
        run.position = end
        seen += run.rest()
    told.end()
    whole = [row for rows in seen for row in rows]
    assert offsets(whole) == sorted(set(offsets(whole)))
    kept = read_rows(tmp_path, columns="offset,value")
    assert [row for row in whole if row["offset"] in set(offsets(kept))] == kept
    assert len(kept) < len(whole), "the cleaner was at work"


@pytest.mark.parametrize("seed", range(4))
def test_what_a_careless_query_has_in_the_end_is_the_log(tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """Truncations, crashes and retention: who takes the last row of each offset has the log, and
    each loss was told.
    """
    told = Story(tmp_path, seed, others=("truncate", "truncate", "roll", "restart", "retention", "delete_records"))
    run = StreamRun(tmp_path, columns="offset,value", failOnDataLoss="false")
    latest: dict[int, Any] = {}
    for _ in range(10):
        told.tell(10)
        told.world.scheduler.run_due()
        for rows in run.rest():
            latest |= {row["offset"]: row["value"] for row in rows}
    told.end()
    assert run.batch() == []
    kept = {row["offset"]: row["value"] for row in read_rows(tmp_path, columns="offset,value")}
    assert {offset: latest.get(offset) for offset in kept} == kept
    losses = [record.getMessage() for record in caplog.records if record.name.startswith("kmirror.spark")]
    assert losses and all("t-0 was truncated" in loss or "were deleted before" in loss for loss in losses)
