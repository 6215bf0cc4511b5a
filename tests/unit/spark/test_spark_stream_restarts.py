"""Streams that go on from a checkpoint in a new process, after the log has changed in between."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.logs.log_folders import batch, batches, write_log, write_segments

pytest.importorskip("pyspark", reason="pyspark is not installed (kmirror[spark])")
pytest.importorskip("pyarrow", reason="pyarrow is not installed (kmirror[spark])")

from support.tools.stream_runs import StreamRun

from kmirror.common.errors import KmirrorError


def deleted(folder: Path) -> None:
    shutil.rmtree(folder)


def start_moved_by_retention(folder: Path) -> None:
    shutil.rmtree(folder)
    write_segments(folder, (60, batches(2, first=60)))


def start_moved_by_delete_records(folder: Path) -> None:
    write_segments(folder, (30, batches(4, first=30)))
    (folder.parent / "log-start-offset-checkpoint").write_text("0\n1\nt 0 40\n")


def truncated_under_a_new_epoch(folder: Path) -> None:
    write_segments(folder, (20, [batch(first, epoch=3) for first in (20, 25, 30)]))


@pytest.mark.parametrize(
    "change, loss, rest",
    [
        (deleted, "t-0: they were read so far, but are no longer in the input", []),
        (start_moved_by_retention, "offsets 30 to 59 of t-0 were deleted before they were read", list(range(60, 70))),
        (start_moved_by_delete_records, "offsets 30 to 39 of t-0 were deleted before they were read", list(range(40, 50))),
        (truncated_under_a_new_epoch, "but epoch 0 ends at offset 20 and leader epoch 3 begins there", list(range(20, 35))),
    ],
)
def test_a_restart_tells_what_was_lost_each_time_and_a_careless_one_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: Callable[[Path], None], loss: str, rest: list[int]
) -> None:
    folder = write_segments(tmp_path / "t-0", (0, batches(4)), (20, batches(2, first=20)))
    write_log(tmp_path / "u-0", *batches(2))
    careful = StreamRun(tmp_path, kafkaCompatible="true")
    careless = StreamRun(tmp_path, kafkaCompatible="true", failOnDataLoss="false")
    assert len(careful.batch()) == len(careless.batch()) == 40
    change(folder)
    for _ in range(2):
        careful.restart()
        with pytest.raises(KmirrorError, match=loss):
            careful.batch()
    careless.restart()
    assert [row["offset"] for row in careless.batch()] == rest
    assert [loss in record.getMessage() for record in caplog.records] == [True]
    careless.restart()
    assert careless.batch() == []


# -- the first micro-batch runs again, because its sink failed


def three_segments(data: Path) -> Path:
    folder = write_segments(data / "t-0", *((first, batches(2, first=first)) for first in (0, 10, 20)))
    write_log(data / "t-1", *batches(2))
    return folder


def retention(folder: Path) -> None:
    (folder / f"{0:020}.log").unlink()


def offsets_of(rows: list[dict[str, object]], partition: int = 0) -> list[object]:
    return [row["offset"] for row in rows if row["partition"] == partition]


def time_of_the_first(offset: int) -> str:
    from support.logs.log_folders import TIME

    return str(TIME + offset)


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": "earliest"},
        {"startingOffsets": '{"t": {"0": -2, "1": -2}}'},
        {"startingOffsets": '{"t": {"0": 0, "1": 0}}'},
        {"startingTimestamp": "0"},
        {"startingOffsetsByTimestamp": '{"t": {"0": 0, "1": 0}}'},
        {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "8"},
        {"startingOffsets": "earliest", "maxBytesPerTrigger": "100"},
    ],
)
@pytest.mark.parametrize("is_careful", [True, False])
def test_a_first_batch_that_runs_again_begins_where_it_began(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, options: dict[str, str], is_careful: bool
) -> None:
    """Its start was asked for again, and what retention had deleted meanwhile was missing without a
    word."""
    folder = three_segments(tmp_path)
    run = StreamRun(tmp_path, failOnDataLoss=str(is_careful).lower(), **options)
    start, end = run.plan()
    whole = run.between(start, end)
    assert run.run_first_again(end) == whole
    retention(folder)
    loss = "offsets 0 to 9 of t-0 were deleted before they were read: the log begins at offset 10"
    if is_careful:
        with pytest.raises(KmirrorError, match=loss):
            run.run_first_again(end)
        return
    assert run.run_first_again(end) == [row for row in whole if row["partition"] or row["offset"] >= 10]
    assert sum(loss in record.getMessage() for record in caplog.records) == 1


def test_latest_stays_where_it_was_when_the_first_batch_was_planned(tmp_path: Path) -> None:
    three_segments(tmp_path)
    run = StreamRun(tmp_path, startingOffsets="latest")
    run.position = json.dumps(run.reader.initialOffset())
    write_segments(tmp_path / "t-0", (30, batches(2, first=30)))
    write_log(tmp_path / "t-2", *batches(1))
    assert json.dumps(run.reader.initialOffset()) == run.position, "Spark asks twice in one run"
    _, end = run.plan()
    write_segments(tmp_path / "t-0", (40, batches(2, first=40)))
    again = run.run_first_again(end)
    assert offsets_of(again) == list(range(30, 40))
    assert offsets_of(again, 2) == list(range(5)), "a partition that came between the two questions"
    assert offsets_of(run.batch()) == list(range(40, 50))


@pytest.mark.parametrize(
    "options, change",
    [
        ({"startingOffsets": '{"t": {"0": 5, "1": 5}}'}, lambda data: write_log(data / "t-2", *batches(1))),
        ({"startingTimestamp": time_of_the_first(8)}, lambda data: write_log(data / "t-2", *batches(1))),
        ({"subscribe": "t,u"}, lambda data: shutil.rmtree(data / "u-0")),
    ],
)
def test_a_restart_does_not_ask_what_a_first_start_asks(tmp_path: Path, options: dict[str, str], change: Callable[[Path], object]) -> None:
    """A new partition that startingOffsets does not name, one without a record of that time and a topic
    that is gone stopped the restart before the first micro-batch."""
    three_segments(tmp_path)
    write_log(tmp_path / "u-0", *batches(2))
    given = options if "subscribe" in options else {**options, "subscribe": "t"}
    run = StreamRun(tmp_path, failOnDataLoss="false", **given)
    start, end = run.plan()
    whole = [row for row in run.between(start, end) if row["topic"] == "t"]
    change(tmp_path)
    assert run.run_first_again(end) == whole
    assert {row["partition"] for row in run.batch()} <= {2}
    fresh = StreamRun(tmp_path, **given)
    with pytest.raises(KmirrorError):
        fresh.plan()


def test_a_checkpoint_of_before_says_that_it_does_not_know_the_start(tmp_path: Path) -> None:
    folder = three_segments(tmp_path)
    run = StreamRun(tmp_path)
    _, end = run.plan()
    old = json.loads(end)
    for fields in old["t"].values():
        del fields["start"]
    assert len(run.run_first_again(json.dumps(old))) == 40, "from offset 0 nothing can be missing"
    retention(folder)
    with pytest.raises(KmirrorError, match="does not say where it began.*t-0 from offset 10 would be read now, and what lay before may be"):
        run.run_first_again(json.dumps(old))
    given = StreamRun(tmp_path, startingOffsets='{"t": {"0": 10, "1": 0}}')
    assert len(given.run_first_again(json.dumps(old))) == 30, "offsets that the user gave do not depend on the log"


def test_only_the_first_batch_keeps_its_start_and_a_batch_without_news_is_none(tmp_path: Path) -> None:
    folder = three_segments(tmp_path)
    run = StreamRun(tmp_path)
    assert len(run.batch()) == 40
    assert run.batch() == [] and len(run.history) == 1, "the same text, so Spark runs no batch"
    assert '"start"' in (run.position or "")
    write_segments(folder, (30, batches(1, first=30)))
    run.restart()
    assert offsets_of(run.batch()) == list(range(30, 35))
    assert '"start"' not in (run.position or "") and run.batch() == []


def test_logs_that_are_all_gone_are_lost_and_not_an_empty_folder(tmp_path: Path) -> None:
    folder = three_segments(tmp_path)
    run = StreamRun(tmp_path)
    assert len(run.batch()) == 40
    shutil.rmtree(folder)
    shutil.rmtree(tmp_path / "t-1")
    run.restart()
    with pytest.raises(KmirrorError, match="t-0, t-1: they were read so far, but are no longer in the input"):
        run.batch()
