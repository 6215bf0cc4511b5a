"""The log of a mirrored topic: its front is its source's, so nothing that is set at this broker deletes
from it, neither by time or size nor by a policy of the broker's own.
"""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from support.logs.cleaning import Cleaning
from support.logs.log_scenes import NOW, Logs, batch

from kmirror.storage.log_config import LogConfig
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


def test_a_mirror_is_cleaned_by_its_own_policy(tmp_path: pathlib.Path) -> None:
    """FEA2b: the topic's own policy is its source's."""
    cleaning = Cleaning(tmp_path, {**MIRRORED, "cleanup.policy": "compact", "internal.segment.bytes": "200"})
    cleaning.fill(cleaning.log())
    assert cleaning.cleaner.clean_filthiest_log()


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
