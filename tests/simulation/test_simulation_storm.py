"""The simulator's storms: a seed sweep, named disasters, ablations, and that one seed is one run.

The histories of section F of the rules that clusters of one node can have are here, by number;
those that need more are in `test_simulation_mirrors`. Four of them are about a leader change (F8,
F10, F15, F17); here the new leader is the same node in its next life. In the history of the lost
reset the disk loses it, since STOPPED is written only after the reset was synced (F18).

Some rules stand behind others. Their ablation then also removes those before them, and the row says
what is left to see.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from support.waiting import REACHED_S

from kmirror.cli.kmirror import main
from kmirror.cli.sim import _held
from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.sim.ablations import Ablations, safeguard_names
from kmirror.sim.campaign import run_campaign, run_seed
from kmirror.sim.events import Converged, History, LogKey
from kmirror.sim.fault_kinds import FAULTS
from kmirror.sim.flow_ablations import FLOW_REPLACEMENTS
from kmirror.sim.histories.alignment import ALIGNMENT_HISTORIES
from kmirror.sim.histories.failover import FAILOVER_HISTORIES
from kmirror.sim.histories.registry import HISTORIES, run_named
from kmirror.storage import log_segment_recovery
from tests.simulation.test_simulation_fleet import ABLATIONS as FLEET_ABLATIONS
from tests.simulation.test_simulation_fronts import ABLATIONS as FRONT_ABLATIONS
from tests.simulation.test_simulation_mirrors import ABLATIONS as MIRROR_ABLATIONS
from tests.simulation.test_simulation_turns import ABLATIONS as TURN_ABLATIONS
from tests.simulation.test_simulation_world import ABLATIONS as WORLD_ABLATIONS

SWEEP = range(12)
NAMED = {
    "clean_failback": "c1-c6",
    "both_wrote": "S3",
    "divergence_inside_a_batch": "F2",
    "mirror_loop": "F4",
    "removed_before_mirroring": "F6",
    "chain": "F7",
    "restart_right_after_add": "F8",
    "power_loss_after_stopped": "F9",
    "paused_without_state": "F10",
    "log_start_inside_a_batch": "F11",
    "source_topic_deleted": "F13",
    "local_transaction_open_at_readd": "F14",
    "crash_while_stopping": "F17",
    "crash_after_the_cut": "F15",
    "source_log_start_above_the_lag": "F16",
    "reset_lost": "F18",
    "stale_coordinator": "F19",
    "old_producer_after_reset": "C10",
    "open_transactions": "S9",
    "writes_to_the_mirror": "D1",
    "torn_tail": "recovery",
}
FIRST_NOTICED = {"epoch_entry_with_batch": 10}
"""The first seed that shows what most seeds do not: the seeds before it are left out."""
TRIES = 24
ABLATIONS = [
    ("lso_truncation", "open_transactions", "transactions"),
    ("lso_fixpoint", "open_transactions", "transactions"),
    ("pid_reset_after_bump", "clean_failback", "epochs"),
    ("read_only_enforced", "writes_to_the_mirror", "read-only"),
    ("lme_truncation", "both_wrote", "alignment"),
    ("lme_truncation,first_fetch_verified", "both_wrote", "prefix"),
    ("tail_recovery", "torn_tail", "recovery"),
    ("batch_boundary,first_fetch_verified,lme_truncation", "divergence_inside_a_batch", "offsets"),
    ("loop_refused", "mirror_loop", "progress"),
    ("own_epochs_not_stored", "removed_before_mirroring", "progress"),
    ("chain_epochs", "chain", "progress"),
    ("state_level", "restart_right_after_add", "progress"),
    ("state_flush", "power_loss_after_stopped", "progress"),
    ("paused_is_prepared", "paused_without_state", "progress"),
    ("start_inside_batch", "log_start_inside_a_batch", "progress"),
    ("deleted_source_pauses", "source_topic_deleted", "progress"),
    ("reset_is_last", "local_transaction_open_at_readd", "reset"),
    ("bump_before_cut,epoch_kept_on_entry", "crash_after_the_cut", "epochs"),
    ("start_over_at_source", "source_log_start_above_the_lag", "converged"),
    ("epoch_entry_with_batch", "crash_while_stopping", "progress"),
    ("lost_reset_again", "reset_lost", "progress"),
    ("state_rewritten_on_election", "stale_coordinator", "acknowledged"),
    ("epoch_of_batches,first_fetch_verified", "both_wrote", "prefix"),
    ("lme_above_log", "clean_failback", "progress"),
    ("reset_in_recovery", "old_producer_after_reset", "acknowledged"),
]


NOTICED_WITHOUT_SIMULATION = {"holes_prove_nothing", "kept_when_added_again", "pending_produces_fail"}
"""Tests in tests/unit/mirror (test_mirror_log_comparison, test_mirror_kept_prefix) and in
tests/conformance (test_d4_stopping, test_d5_preparing) notice these. Produces that wait for followers have
ended before PREPARING cuts, since it waits for them, too; so no history reaches a waiting produce
at the cut any more (F3).
"""


@pytest.mark.parametrize("seed", SWEEP)
def test_storm_breaks_no_rule(seed):
    assert run_seed("storm", seed, ()).violations == ()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", [pytest.param(name, id=f"{items}-{name}") for name, items in NAMED.items()])
def test_named_history_breaks_no_rule(name, seed):
    assert run_seed(name, seed, ()).violations == ()


def test_every_history_is_tested():
    assert set(NAMED) == {*ALIGNMENT_HISTORIES, *FAILOVER_HISTORIES}


def test_every_safeguard_has_an_ablation_that_is_noticed():
    rows = [*ABLATIONS, *FLEET_ABLATIONS, *FRONT_ABLATIONS, *MIRROR_ABLATIONS, *WORLD_ABLATIONS, *TURN_ABLATIONS]
    taken_out = {name for without, *_ in rows for name in without.split(",")}
    assert taken_out | NOTICED_WITHOUT_SIMULATION == set(safeguard_names()) - set(FLOW_REPLACEMENTS), "those have a test of their own"


@pytest.mark.soak
@pytest.mark.parametrize(("without", "history", "rule"), [pytest.param(*row, id=f"{NAMED[row[1]]}-{row[0]}-{row[1]}") for row in ABLATIONS])
def test_a_checker_notices_that_a_safeguard_is_off(without, history, rule):
    assert run_seed(history, 1, ()).ok
    first = FIRST_NOTICED.get(without, 1)
    assert any(rule in run_seed(history, seed, tuple(without.split(","))).rules for seed in range(first, first + TRIES))


def test_recovery_is_whole_again_after_the_ablation():
    refuse_crc = log_segment_recovery.refuse_crc
    with Ablations.without(["tail_recovery"]).applied():
        assert log_segment_recovery.refuse_crc is not refuse_crc
    assert log_segment_recovery.refuse_crc is refuse_crc


def test_unknown_names_are_refused():
    with pytest.raises(KmirrorError, match="no safeguard 'x'"):
        Ablations.without(["x"])
    with pytest.raises(KmirrorError, match="no history 'x'"):
        run_named("x", 1)


def _trace_hash_in_a_process(history: str, seed: int) -> str:
    """Of a process whose sets and dictionaries are ordered unlike this one's."""
    command = [sys.executable, "-m", "kmirror.cli.kmirror", "sim", "--history", history, "--seed", str(seed), "--json"]
    hash_seed = "1" if os.environ.get("PYTHONHASHSEED") == "4242" else "4242"
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=REACHED_S, env={**os.environ, "PYTHONHASHSEED": hash_seed}, check=True
    )
    trace_hash: str = json.loads(done.stdout)["trace_hash"]
    return trace_hash


@pytest.mark.parametrize("history", ["storm", "mirrors", "mirrors_keyed", "mirrors_source_empty"])
def test_one_seed_is_one_run_in_every_process(history):
    assert _trace_hash_in_a_process(history, 5) == run_seed(history, 5, ()).trace_hash


def test_another_seed_is_another_run():
    assert run_seed("storm", 5, ()).trace_hash != run_seed("storm", 6, ()).trace_hash


def test_a_campaign_over_processes_gives_what_one_process_gives():
    assert run_campaign([0, 1], history="writes_to_the_mirror", jobs=2) == run_campaign([0, 1], history="writes_to_the_mirror", jobs=1)


class TestCommand:
    def test_a_seed_tells_its_story(self, capsys):
        assert main(["sim", "--seed", "1", "--history", "clean_failback"]) == 0
        told = capsys.readouterr().out
        assert "orders-0 is STOPPED in mirror m" in told
        assert "every rule held" in told

    def test_a_verdict_says_whether_logs_were_compared(self):
        log = LogKey("a", TopicPartition("t", 0))
        assert _held(History()).endswith("NO LOGS COMPARED: the two sides were never still")
        assert (
            _held(History([Converged(1, source=log, destination=log)]))
            == "every rule held: 1 recorded events judged, logs compared where both sides were still"
        )

    def test_a_broken_rule_gives_exit_code_1_and_the_replay_command(self, capsys):
        arguments = ["--seed", "1", "--history", "writes_to_the_mirror", "--without", "read_only_enforced"]
        assert main(["sim", *arguments]) == 1
        told = capsys.readouterr().out
        assert "BROKEN [read-only]" in told
        assert f"replay: kmirror sim {' '.join(arguments)}" in told

    def test_a_trace_is_written(self, tmp_path, capsys):
        path = tmp_path / "trace"
        assert main(["sim", "--seed", "1", "--history", "writes_to_the_mirror", "--trace", str(path)]) == 0
        steps = int(capsys.readouterr().out.rsplit(" steps", 1)[0].rsplit(" ", 1)[1])
        assert int(path.read_text().splitlines()[-1].split(" ", 1)[0]) == steps

    def test_a_campaign_says_which_seeds_are_broken(self, capsys):
        arguments = ["--seeds", "0..1", "--history", "writes_to_the_mirror", "--without", "read_only_enforced", "--jobs", "1"]
        assert main(["sim", *arguments]) == 1
        told = capsys.readouterr().out
        assert "2 seeds, 2 broken" in told
        assert "replay: kmirror sim --seed 0 --history writes_to_the_mirror --without read_only_enforced" in told

    def test_a_list_names_histories_and_safeguards(self, capsys):
        assert main(["sim", "--list", "--json"]) == 0
        listed = json.loads(capsys.readouterr().out)
        assert list(listed["histories"]) == list(HISTORIES)
        assert listed["safeguards"] == safeguard_names()
        assert list(listed["faults"]) == [fault.name for fault in FAULTS]

    @pytest.mark.parametrize("seeds", ["5", "5..4", "a..b", "..3"])
    def test_malformed_seeds_are_refused(self, seeds, capsys):
        assert main(["sim", "--seeds", seeds]) == 1
        assert "is not of the form A..B" in capsys.readouterr().err
