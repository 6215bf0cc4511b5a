"""Streams that go on from a checkpoint in a new process, after the log has changed in between."""

from __future__ import annotations

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
