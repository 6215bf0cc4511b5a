"""`minOffsetsPerTrigger` and `maxTriggerDelay`: a micro-batch that waits reads nothing and loses
nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from support.logs.log_folders import batch, write_log
from support.tools.stream_runs import Rows, StreamRun

from kmirror.common.errors import KmirrorError
from kmirror.spark.trigger_delay import TriggerDelay, seconds_of


def offsets(rows: Rows) -> list[int]:
    return [row["offset"] for row in rows]


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Waiting(StreamRun):
    def __init__(self, path: Path, **options: str) -> None:
        self.clock = Clock()
        super().__init__(path, **options)

    def restart(self) -> None:
        super().restart()
        chosen = self.reader.options
        self.reader._delay = TriggerDelay(chosen.min_offsets, chosen.max_delay_s, self.clock)


def log_of(folder: Path, count: int) -> None:
    write_log(folder / "t-0", *(batch(first) for first in range(0, 5 * count, 5)))


@pytest.mark.parametrize("more", [{}, {"maxOffsetsPerTrigger": "10"}, {"maxBytesPerTrigger": "100000"}])
def test_a_micro_batch_waits_for_enough_offsets_or_long_enough(tmp_path: Path, more: dict[str, str]) -> None:
    log_of(tmp_path, 1)
    run = Waiting(tmp_path, minOffsetsPerTrigger="10", maxTriggerDelay="60s", **more)
    assert offsets(run.batch()) == list(range(5)), "the first one waits for nothing"
    log_of(tmp_path, 2)
    assert run.batch() == []
    log_of(tmp_path, 3)
    assert offsets(run.batch()) == list(range(5, 15))
    log_of(tmp_path, 4)
    run.clock.now_s += 59
    assert run.batch() == []
    run.clock.now_s += 1
    assert offsets(run.batch()) == list(range(15, 20))


def test_waiting_from_the_latest_offset_moves_no_position(tmp_path: Path) -> None:
    log_of(tmp_path, 2)
    run = Waiting(tmp_path, minOffsetsPerTrigger="8", startingOffsets="latest")
    assert run.batch() == []
    log_of(tmp_path, 3)
    before = run.position
    assert run.batch() == [] and run.plan()[1] == before
    log_of(tmp_path, 4)
    assert offsets(run.batch()) == list(range(10, 20))


def test_a_restart_goes_ahead_and_available_now_and_once_wait_for_nothing(tmp_path: Path) -> None:
    log_of(tmp_path, 1)
    run = Waiting(tmp_path, minOffsetsPerTrigger="1000")
    run.batch()
    log_of(tmp_path, 2)
    assert run.batch() == []
    assert offsets(run.batch(ReadAllAvailable())) == list(range(5, 10))
    log_of(tmp_path, 3)
    assert run.batch() == []
    run.restart()
    assert offsets(run.batch()) == list(range(10, 15))
    log_of(tmp_path, 4)
    run.reader.prepareForTriggerAvailableNow()
    assert offsets(run.batch()) == list(range(15, 20))


def test_a_loss_is_told_before_there_are_enough_offsets(tmp_path: Path) -> None:
    log_of(tmp_path, 2)
    run = Waiting(tmp_path, minOffsetsPerTrigger="1000")
    run.batch()
    (tmp_path / "t-0" / f"{0:020d}.log").unlink()
    write_log(tmp_path / "t-0", batch(20), base_offset=20)
    with pytest.raises(KmirrorError, match="data loss"):
        run.batch()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"minOffsetsPerTrigger": "0"}, "option minOffsetsPerTrigger is a number from 1 on, not '0'"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, r"minOffsetsPerTrigger \(9\) is above maxOffsetsPerTrigger \(8\)"),
        ({"maxTriggerDelay": "soon"}, "option maxTriggerDelay is a time like 15m or 30s, not 'soon'"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, options: dict[str, str], words: str) -> None:
    log_of(tmp_path, 1)
    with pytest.raises(KmirrorError, match=words):
        Waiting(tmp_path, **options)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15m", 900), ("2min", 120), ("30s", 30), ("1h", 3600), ("1d", 86400), ("250", 0.25), (" 5S ", 5), ("5 s", None), ("", None)],
)
def test_times_are_those_of_sparks_configs(text: str, seconds: Any) -> None:
    assert seconds_of(text) == seconds
