"""The log of a mirrored topic: its front is its source's, so nothing that is set at this broker deletes
from it, neither by time or size nor by a policy of the broker's own.
"""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from support.logs.cleaning import Cleaning
from support.logs.log_scenes import NOW, Logs, batch

from kmirror.storage.log_config import MIRROR_SOURCE_CLEANING_CONFIG, LogConfig, cleaning_text
from kmirror.storage.log_offset_metadata import LogStartOffsetIncrementReason
from kmirror.storage.unified_log import UnifiedLog

MIRRORED = {"mirror.name": "m"}


def filled(logs: Logs, **config: Any) -> UnifiedLog:
    """Ten records, two a segment, all older than the retention of the tests."""
    log = logs.open(segment_size=200, **config)
    for number in range(10):
        log.append_as_leader(batch(1, timestamp=NOW + number), leader_epoch=0)
    log.update_high_watermark(log.log_end_offset)
    logs.world.clock.now_ms = NOW + 1_000_000
    return log


@pytest.mark.parametrize("limits", [{"retention_ms": 5}, {"retention_ms": -1, "retention_size": 0}, {"retention_ms": 0, "compact": True}])
def test_neither_time_nor_size_deletes_what_the_source_may_still_have(logs: Logs, limits: dict[str, Any]) -> None:
    log = filled(logs, is_mirrored=True, **limits)
    assert (log.delete_old_segments(), log.log_start_offset) == (0, 0)


def test_a_log_start_in_the_middle_of_a_segment_deletes_the_segments_below_it(logs: Logs) -> None:
    log = filled(logs, is_mirrored=True, retention_ms=5)
    log.maybe_increment_log_start_offset(5, LogStartOffsetIncrementReason.LEADER_OFFSET_INCREMENTED)
    assert (log.delete_old_segments(), log.segments.base_offsets, log.log_start_offset) == (2, [4, 6, 8], 5)


def test_a_leader_that_clients_may_write_to_deletes_as_its_topic_says(logs: Logs) -> None:
    log = filled(logs, is_mirrored=True, retention_ms=5)
    log.note_writable(is_writable=True)
    assert (log.delete_old_segments(), log.log_start_offset) == (5, 10)


def test_a_log_that_is_mirrored_again_keeps_its_front_from_then_on(logs: Logs) -> None:
    log = filled(logs, retention_ms=5)
    log.update_config(LogConfig(segment_size=200, retention_ms=5, is_mirrored=True))
    assert log.delete_old_segments() == 0


@pytest.mark.parametrize(
    ("props", "compact", "delete"),
    [
        ({}, True, False),
        (MIRRORED, False, False),
        ({"mirror.name": "m.removed"}, False, False),
        ({**MIRRORED, "cleanup.policy": "delete"}, False, True),
        ({**MIRRORED, "cleanup.policy": "compact,delete"}, True, True),
        ({"mirror.name": ""}, True, False),
    ],
)
def test_a_default_of_compact_makes_no_cleaner_work_on_a_mirror(props: dict[str, str], compact: bool, delete: bool) -> None:
    config = LogConfig.from_props(props, defaults=LogConfig(compact=True, delete=False))
    assert (config.compact, config.delete) == (compact, delete)


COMPACTS = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
DAY = "86400000"


@pytest.mark.parametrize(
    ("here", "there", "cleaned"),
    [
        (COMPACTS, None, False),
        (COMPACTS, COMPACTS, True),
        ({**COMPACTS, "cleanup.policy": "delete"}, COMPACTS, False),
        (COMPACTS, {**COMPACTS, "min.compaction.lag.ms": DAY}, False),
        ({**COMPACTS, "min.compaction.lag.ms": DAY}, COMPACTS, False),
        (COMPACTS, {**COMPACTS, "min.cleanable.dirty.ratio": "1.0"}, False),
        ({**COMPACTS, "max.compaction.lag.ms": "1"}, {**COMPACTS, "min.cleanable.dirty.ratio": "1.0"}, False),
        ({"mirror.name": "m.removed", **COMPACTS}, None, True),
        ({"mirror.name": "m.paused", **COMPACTS}, None, False),
        ({"mirror.name": "m.paused", **COMPACTS}, COMPACTS, True),
    ],
)
def test_an_override_here_cleaned_what_the_source_keeps(
    tmp_path: pathlib.Path, here: dict[str, str], there: dict[str, str] | None, cleaned: bool
) -> None:
    """FEA2b: only what both clusters clean."""
    of_source = {} if there is None else {MIRROR_SOURCE_CLEANING_CONFIG: cleaning_text(there) or ""}
    cleaning = Cleaning(tmp_path, {**MIRRORED, "internal.segment.bytes": "200", **here, **of_source})
    cleaning.fill(cleaning.log())
    cleaning.world.clock.now_ms += 3_600_000
    assert cleaning.cleaner.clean_filthiest_log() is cleaned


def test_an_override_here_is_heeded_where_clients_may_write(tmp_path: pathlib.Path) -> None:
    """A mirror whose source topic was deleted is STOPPED, and its name is m.paused."""
    cleaning = Cleaning(tmp_path, {"mirror.name": "m.paused", "internal.segment.bytes": "200"})
    log = cleaning.log()
    cleaning.fill(log)
    log.note_writable(is_writable=True)
    assert cleaning.cleaner.clean_filthiest_log()


def test_tombstones_are_kept_as_long_as_at_the_source() -> None:
    there = cleaning_text({"cleanup.policy": "compact", "delete.retention.ms": DAY})
    config = LogConfig.from_props({**MIRRORED, **COMPACTS, "delete.retention.ms": "0", MIRROR_SOURCE_CLEANING_CONFIG: there})
    assert config.while_mirrored is not None and config.while_mirrored.delete_retention_ms == int(DAY)


def test_an_override_here_ends_no_retention_below_the_log_start(tmp_path: pathlib.Path) -> None:
    """Which of the two deletes segments depends on what the cleaner goes by."""
    cleaning = Cleaning(tmp_path, {**MIRRORED, "internal.segment.bytes": "200"})
    log = cleaning.log()
    cleaning.fill(log)
    log.maybe_increment_log_start_offset(6, LogStartOffsetIncrementReason.LEADER_OFFSET_INCREMENTED)
    assert cleaning.manager.tasks.cleanup_logs() > 0 and cleaning.cleaner.delete_old_segments() == 0


def test_an_override_that_the_source_does_not_have_ends_a_pass(tmp_path: pathlib.Path) -> None:
    """The source has stopped compacting: what the pass has done so far is given up."""
    configs = {**MIRRORED, **COMPACTS, "internal.segment.bytes": "200"}
    cleaning = Cleaning(tmp_path, {**configs, MIRROR_SOURCE_CLEANING_CONFIG: cleaning_text(COMPACTS) or ""})
    log = cleaning.log()
    cleaning.fill(log)
    run = cleaning.cleaner.manager.grab_filthiest_compacted_log(cleaning.world.clock.now_ms)
    assert run is not None
    cleaning.manager.update_topic_config(log.topic_partition.topic, configs, [log.topic_partition.partition])
    assert run[1].is_aborted


def test_a_cut_forgets_what_was_cleaned_before_the_topic_was_a_mirror(tmp_path: pathlib.Path) -> None:
    """The part that is fetched again is dirty, whatever the policy is at the moment of the cut."""
    cleaning = Cleaning(tmp_path)
    log = cleaning.log()
    cleaning.fill(log)
    assert cleaning.cleaner.clean_filthiest_log()
    cleaned = cleaning.checkpoint()[log.topic_partition]
    cleaning.manager.update_topic_config(log.topic_partition.topic, MIRRORED, [log.topic_partition.partition])
    log.truncate_to(1)
    assert cleaning.checkpoint()[log.topic_partition] < cleaned
