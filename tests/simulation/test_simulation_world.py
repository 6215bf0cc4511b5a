"""Named histories of what lies around mirrors: disks that fail or fill, the topic of states that is
grown, sources that are old or empty, tombstones that are gone; and that their absence is noticed.
"""

from __future__ import annotations

import pytest

from kmirror.sim.campaign import run_seed
from kmirror.sim.histories.compaction import COMPACTION_HISTORIES
from kmirror.sim.histories.disks import DISK_HISTORIES
from kmirror.sim.histories.sources import SOURCE_HISTORIES
from kmirror.sim.histories.states import STATE_HISTORIES

TRIES = range(1, 9)
NAMED = [*DISK_HISTORIES, *STATE_HISTORIES, *SOURCE_HISTORIES, *COMPACTION_HISTORIES]
ABLATIONS = [
    ("errors_of_one_partition", "directory_fails"),
    ("disk_errors_are_no_bytes", "full_disk_at_restart"),
    ("read_errors_end_nothing", "unreadable_disk_at_restart"),
    ("cut_reaches_future", "move_during_cut"),
    ("formatted_only", "directory_comes_back_empty"),
    ("disk_is_the_replicas", "leaders_disk_fills"),
    ("appends_check_crc", "batch_rots_at_the_source"),
    ("holes_prove_nothing", "compacted_mirror_paused_long"),
    ("holes_prove_nothing", "compacted_follower_away_long"),
    ("loss_refused", "source_comes_back_empty"),
    ("loss_refused", "old_source_topic_made_anew"),
    ("state_topic_not_grown", "state_topic_grows"),
    ("states_by_birth_count", "state_topic_grows"),
    ("states_by_birth_count,stopped_log_believed", "state_topic_grows"),
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", NAMED)
def test_named_history_breaks_no_rule(name, seed):
    assert run_seed(name, seed, ()).violations == ()


@pytest.mark.soak
@pytest.mark.parametrize(("without", "history"), ABLATIONS)
def test_a_checker_notices_that_a_safeguard_is_off(without, history):
    assert any(not run_seed(history, seed, tuple(without.split(","))).ok for seed in TRIES)


@pytest.mark.parametrize("history", COMPACTION_HISTORIES)
def test_a_deleted_key_that_comes_back_is_noticed(history):
    """The guard against a source that lost its log would fail the mirror first."""
    assert any("keys" in run_seed(history, seed, ("holes_prove_nothing", "loss_refused")).rules for seed in TRIES)


def test_a_topic_that_is_stopped_once_more_loses_what_was_acknowledged():
    off = ("states_by_birth_count", "stopped_log_believed")
    assert any("acknowledged" in run_seed("state_topic_grows", seed, off).rules for seed in TRIES)
