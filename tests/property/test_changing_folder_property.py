"""What the readers of log folders say of a folder that a broker changes between any two of their
calls: nothing but what is so."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.logs.changing_files import Broker, SteppedFiles, WatchedFiles
from support.logs.cleaning import Cleaning

from kmirror.storage.log_offset_metadata import LogStartOffsetIncrementReason
from kmirror.storage.unified_log import UnifiedLog
from kmirror.verify.planner import list_input
from kmirror.verify.replay.folder import replay_folder


class Churn:
    """A log in a data dir of its own, and what its broker does with it."""

    def __init__(self, folder: Path, policy: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.files = SteppedFiles()
        self.data = Cleaning(
            folder,
            {"cleanup.policy": policy, "retention.bytes": "1500", "file.delete.delay.ms": "10"},
            files=self.files,
        )
        self.log: UnifiedLog = self.data.log()
        self.data.fill(self.log, 40, keys=7)
        self.log.flush(force_flush_active_segment=True)

    def work(self) -> None:
        log, choice = self.log, self.random.random()
        if choice < 0.3:
            self.data.fill(log, self.random.randrange(1, 6), keys=7)
        elif choice < 0.4:
            log.roll()
        elif choice < 0.5:
            self.data.world.scheduler.advance(1000)
        elif choice < 0.6:
            log.maybe_increment_log_start_offset(
                self.random.randrange(log.log_start_offset, log.high_watermark + 1),
                LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION,
            )
        elif self.data.manager.cleaner is not None and "compact" in self.data.topic_config["cleanup.policy"]:
            self.data.cleaner.clean_filthiest_log()
        else:
            log.delete_old_segments()


@pytest.mark.parametrize("policy", ["delete", "compact"])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1 << 30), pace=st.sampled_from([0.05, 0.3, 1.0]))
def test_a_log_that_changes_between_any_two_calls_is_sound_and_read_whole(policy: str, seed: int, pace: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        churn = Churn(Path(folder), policy, seed)
        with Broker(churn.files, churn.work) as turns:
            chance = random.Random(seed)

            def before(_: str, __: str) -> None:
                while not turns.ended and chance.random() < pace / (1 + pace):
                    turns.give()

            end = churn.log.log_end_offset
            tables = replay_folder(WatchedFiles(before), str(churn.data.data_dir))
        assert [finding for finding in tables.findings if finding.kind != "moving"] == []
        (row,) = tables.logs
        if not tables.findings:
            assert row.log_end_offset >= end, "what was there when the reading began was read"
            assert policy == "compact" or row.missing_offsets == 0


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_a_listing_of_a_log_that_loses_its_front_has_all_the_rest(seed: int) -> None:
    """Only retention works here, so the segments that are left are a run that ends with the log."""
    with tempfile.TemporaryDirectory() as folder:
        churn = Churn(Path(folder), "delete", seed)

        def delete() -> None:
            churn.log.delete_old_segments()
            churn.data.world.scheduler.advance(1000)
            churn.data.fill(churn.log, 6, keys=7)

        with Broker(churn.files, delete) as turns:
            chance = random.Random(seed)

            def before(_: str, __: str) -> None:
                if not turns.ended and chance.random() < 0.5:
                    turns.give()

            listing = list_input(WatchedFiles(before), str(churn.data.data_dir))
        (partition,) = listing.partitions
        listed = {one.base_offset for one in partition.segments}
        now = {one.base_offset for one in list_input(churn.files, str(churn.data.data_dir)).partitions[0].segments}
        assert {base for base in now if base <= max(listed)} <= listed, "what is there after the listing was there during it"
        assert partition.dangling == ()
