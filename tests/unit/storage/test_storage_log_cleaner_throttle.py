"""The cleaner's throttle: how fast a job may read and write, and what it says of itself."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

from support.logs.cleaning import Cleaning, offsets

from kmirror.storage.log_cleaner import CleanerConfig


class SlowDisk:
    """Every read and write of a job takes 200 ms; its driver does as the cleaner's task."""

    def __init__(self, cleaning: Cleaning, rate: float) -> None:
        self.clock = cleaning.world.clock
        cleaning.cleaner.reconfigure(CleanerConfig(dedupe_buffer_size=1 << 20, io_max_bytes_per_second=rate))
        job = cleaning.cleaner.next_job()
        assert job is not None
        self.job = job
        self.works = 0
        job._meter.observe = self._slowly(job._meter.observe)
        self.pauses_ms: list[int] = []

    def _slowly(self, observe: Callable[[float], None]) -> Callable[[float], None]:
        def slow(units: float) -> None:
            self.clock.now_ms += 200
            observe(units)

        return slow

    def run(self, *, until_pause: bool = False) -> None:
        while self.job.advance():
            if (pause_ms := self.job.pause_ms) > 0:
                self.pauses_ms.append(pause_ms)
                if until_pause:
                    return
                self.clock.now_ms += pause_ms
                continue
            self.works += 1
            self.job.work()


def test_a_job_reads_and_writes_no_faster_than_it_may(tmp_path: pathlib.Path):
    cleaning = Cleaning(tmp_path)
    cleaning.fill(log := cleaning.log(), 30)
    disk = SlowDisk(cleaning, rate=1000)
    started_ms = disk.clock.now_ms
    disk.run()
    moved = 2 * disk.job.stats.bytes_read + disk.job.stats.bytes_written
    assert disk.pauses_ms, "there was more to do than the rate allows"
    assert disk.clock.now_ms - started_ms >= moved - 300, (
        "a byte a millisecond: the map's pass, the copy's, and what it wrote, but for the last interval"
    )
    assert disk.works > 10, "it stopped again and again"
    assert len(offsets(log)) < 30


def test_all_that_a_job_moves_is_reported_to_the_throttlers_meter(tmp_path: pathlib.Path):
    cleaning = Cleaning(tmp_path)
    cleaning.fill(cleaning.log(), 30)
    moved: list[int] = []
    cleaning.cleaner.throttler.on_observed = moved.append
    disk = SlowDisk(cleaning, rate=CleanerConfig().io_max_bytes_per_second)
    disk.run()
    stats = disk.job.stats
    assert sum(moved) == 2 * stats.bytes_read + stats.bytes_written, "the map's pass, the copy's, and what it wrote"


def test_without_a_limit_there_is_no_pause(tmp_path: pathlib.Path):
    cleaning = Cleaning(tmp_path)
    cleaning.fill(cleaning.log(), 30)
    disk = SlowDisk(cleaning, rate=CleanerConfig().io_max_bytes_per_second)
    disk.run()
    assert disk.pauses_ms == []


def test_a_job_that_is_aborted_during_a_pause_waits_no_longer_and_leaves_the_log_alone(tmp_path: pathlib.Path):
    cleaning = Cleaning(tmp_path)
    cleaning.fill(log := cleaning.log(), 30)
    disk = SlowDisk(cleaning, rate=10)
    disk.run(until_pause=True)
    cleaning.cleaner.abort_and_pause_cleaning(log.topic_partition)
    assert disk.job.pause_ms == 0
    disk.run()
    assert len(offsets(log)) == 30
    assert cleaning.file_names(".cleaned") == []


def test_a_job_can_be_cancelled_during_a_pause(tmp_path: pathlib.Path):
    cleaning = Cleaning(tmp_path)
    cleaning.fill(log := cleaning.log(), 30)
    disk = SlowDisk(cleaning, rate=10)
    disk.run(until_pause=True)
    disk.job.cancel()
    assert len(offsets(log)) == 30
    assert cleaning.file_names(".cleaned") == []
