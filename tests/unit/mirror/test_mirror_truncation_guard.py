"""A mirror does not follow a source that lost its log: it fails with a reason and keeps
everything.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.mirrors.mirror_machine import MIRROR, OWN_CLUSTER_ID, T0, WITH_MIRRORS, MirrorMachine
from support.mirrors.scripted_source import KAFKA_2_1, batch

from kmirror.common.errors import Errors
from kmirror.mirror.coordination.mirror_coordinator_shard import StateWrite
from kmirror.mirror.fetch.mirror_fetcher import MirrorFetcher
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.wire.api_keys import ApiKeys

NINE = [batch(offset, b"a", epoch=1) for offset in range(9)]
WHAT_TO_DO = "--add --accept-truncation"


def source_has(machine: MirrorMachine, *batches: bytes, epoch: int) -> None:
    """Replaces the source's log by another one, in another epoch."""
    log = machine.source.log("t")
    log.batches[:] = list(batches)
    log.epoch = epoch
    machine.source.forget_sessions()
    machine.source.notify()


def failed_and_kept(machine: MirrorMachine, *reasons: str) -> None:
    reason = machine.driver().status.reason or ""
    assert machine.state() == "FAILED" and all(each in reason for each in (*reasons, WHAT_TO_DO)), reason
    assert (machine.log().log_start_offset, machine.log().log_end_offset) == (0, 9)
    assert machine.mirror.describe(MIRROR)[0].reason == reason, "which says what to do; a second advice was another one"


@pytest.mark.parametrize("versions", [WITH_MIRRORS, KAFKA_2_1], ids=["newest", "2.1"])
async def test_a_source_whose_disk_was_replaced_emptied_the_mirror(tmp_path: Path, versions: dict[ApiKeys, int]) -> None:
    machine = MirrorMachine(str(tmp_path), versions=versions)
    await machine.mirroring(*NINE)
    source_has(machine, epoch=3)
    await machine.advance(5_000)
    failed_and_kept(machine, "no batch of the log is the source's", "9 records")
    await machine.close()


@pytest.mark.parametrize("count", [1, 9, 30])
@pytest.mark.parametrize("epoch", [0, 1])
async def test_a_topic_made_anew_at_a_source_without_ids_emptied_the_mirror(tmp_path: Path, count: int, epoch: int) -> None:
    """It happens between two refreshes, so nobody saw the topic missing; it may be as long as
    before.
    """
    machine = MirrorMachine(str(tmp_path), versions=KAFKA_2_1)
    await machine.mirroring(*NINE)
    source_has(machine, *[batch(offset, b"new", epoch=epoch) for offset in range(count)], epoch=epoch)
    machine.mirror.fetchers.remove_partition(machine.driver().id.topic_partition)
    machine.driver().wake()  # its connection was lost meanwhile
    await machine.advance(70_000, step_ms=500)
    failed_and_kept(machine, "no batch of the log is the source's")
    await machine.close()


@pytest.mark.parametrize("unseen", ["session lost", "refused", "throttled"])
async def test_a_longer_topic_made_anew_was_gone_on_with_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unseen: str
) -> None:
    """The new topic has the old one's epoch and was created while nobody asked for it, so a source
    without topic ids does not show it.
    """
    machine = MirrorMachine(str(tmp_path), versions=KAFKA_2_1)
    await machine.mirroring(*NINE)
    log = machine.source.log("t")

    def made_anew(request: object = None) -> None:
        log.batches[:] = [batch(offset, b"new", epoch=1) for offset in range(30)]
        machine.source.forget_sessions()
        machine.source.override = None

    if unseen == "session lost":
        machine.source.override = made_anew
    elif unseen == "refused":
        log.error = Errors.TOPIC_AUTHORIZATION_FAILED
        machine.source.notify()
        await machine.settle()
        log.error = Errors.NONE
        made_anew()
    else:
        with monkeypatch.context() as throttled:
            throttled.setattr(MirrorFetcher, "_what_to_ask", lambda fetcher: ({}, 2_000, 0))
            await machine.advance(1_000)
        sessions = dict(machine.source._sessions)
        made_anew()
        machine.source._sessions.update(sessions)
    await machine.advance(70_000, step_ms=500)
    failed_and_kept(machine, "no batch of the log is the source's")
    await machine.close()


async def test_a_source_without_topic_ids_that_refused_for_long_is_fetched_again(tmp_path: Path) -> None:
    """Once, each comparison after a delay counted as an answer that does not fit, and from the
    fourth on only delays followed (found by seed 213393).
    """
    machine = MirrorMachine(str(tmp_path), versions=KAFKA_2_1)
    await machine.mirroring()
    log = machine.source.log("t")
    log.error = Errors.TOPIC_AUTHORIZATION_FAILED
    machine.source.notify()
    await machine.advance(10_000, step_ms=500)
    log.error = Errors.NONE
    machine.at_source(batch(0, b"later", epoch=0))
    machine.source.notify()
    await machine.advance(10_000, step_ms=500)
    assert machine.log().log_end_offset == 1
    await machine.close()


async def test_a_snapshot_of_the_source_from_yesterday_is_counted(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(*NINE, mirror_max_truncation_records="4")
    source_has(machine, *NINE[:4], batch(4, b"z", epoch=2), epoch=2)
    await machine.advance(5_000)
    failed_and_kept(machine, "remove 5 records", "more than mirror.max.truncation.records=4")
    await machine.close()


@pytest.mark.parametrize(("limit", "kept"), [("5", 4), ("-1", 4), (None, 4), ("-1", 0)])
async def test_what_an_unclean_election_at_the_source_costs_is_followed(tmp_path: Path, limit: str | None, kept: int) -> None:
    """A limit of -1 follows the source always, as the KIP says (D3-15, S7)."""
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(*NINE)
    if limit is not None:
        machine.driver().mirror.configs["mirror.max.truncation.records"] = limit
    source_has(machine, *NINE[:kept], batch(kept, b"z", epoch=2), epoch=2)
    await machine.advance(5_000)
    assert machine.state() == "MIRRORING"
    assert [header.leader_epoch for header in machine.headers()] == [1] * kept + [2]
    await machine.close()


@pytest.mark.parametrize("unclean", [False, True])
async def test_an_acceptance_that_was_left_behind_switched_the_guard_off_for_ever(tmp_path: Path, unclean: bool) -> None:
    """`--add --accept-truncation` was interrupted, so the topic's limit stays -1.

    The limit counts only while an added topic is aligned.
    """
    machine = MirrorMachine(str(tmp_path))
    limits = {"mirror_max_truncation_records": "-1", "mirror_support_unclean_leader_election": "true"}
    await machine.mirroring(*NINE, **limits)
    source_has(machine, epoch=3)
    if unclean:
        machine.change(recovering=True)
    await machine.advance(5_000)
    failed_and_kept(machine, "no batch of the log is the source's", "9 records")
    await machine.close()


async def test_the_mirrors_limit_holds_where_the_topic_has_none(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(*NINE)
    machine.driver().mirror.configs["mirror.max.truncation.records"] = "0"
    source_has(machine, *NINE[:8], epoch=2)
    await machine.advance(5_000)
    failed_and_kept(machine, "remove 1 records", "mirror.max.truncation.records=0")
    await machine.close()


async def test_retention_at_the_source_is_followed_whatever_it_takes(tmp_path: Path) -> None:
    """Records that the source's retention deletes are no loss (D3-14, S13)."""
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(*NINE, mirror_max_truncation_records="0")
    machine.name("m.paused")
    await machine.reach("PAUSED")
    log = machine.source.log("t")
    log.batches[:] = [batch(20, b"later", epoch=1)]
    log.start = 20
    machine.name("m")
    await machine.advance(5_000)
    assert machine.state() == "MIRRORING"
    assert (machine.log().log_start_offset, machine.log().log_end_offset) == (20, 21)
    await machine.close()


@pytest.mark.parametrize("high_watermark", [0, 5])
@pytest.mark.parametrize("kept", [0, 4])
async def test_a_new_leader_that_did_not_know_the_high_watermark_counted_nothing(tmp_path: Path, high_watermark: int, kept: int) -> None:
    """It was a follower or was restarted, so its high watermark is old, and its followers have not
    fetched yet.
    """
    machine = MirrorMachine(str(tmp_path), others=(2,))
    machine.source.create("t")
    machine.topic(replicas=(2, 1), mirror_max_truncation_records="4")
    machine.local(*NINE)
    machine.partition("t").local_log.update_high_watermark(high_watermark)
    source_has(machine, *NINE[:kept], epoch=3)
    await machine.settle()
    for state in (State.PREPARING, State.MIRRORING):
        await machine.mirror.coordinator.write_states(MIRROR, [StateWrite("t", 0, state)])
    machine.change(leader=1)
    await machine.advance(5_000)
    failed_and_kept(machine, f"remove {9 - kept} records")
    await machine.close()


async def test_what_a_failback_orders_is_not_ordered_any_more_after_a_pause(tmp_path: Path) -> None:
    """The mirror is paused before its log is compared, and resumed when the source has lost
    everything. Once, its log was then emptied.
    """
    machine = MirrorMachine(str(tmp_path))
    machine.source.create("t")
    machine.at_source(*NINE)
    machine.topic(value="m.paused")
    machine.source_mirrors[MIRROR] = (OWN_CLUSTER_ID, {T0: ("STOPPED", 1)})
    machine.local(*NINE)
    machine.log().update_high_watermark(9)
    await machine.reach("PAUSED")
    source_has(machine, epoch=3)
    machine.name(MIRROR)
    await machine.advance(5_000)
    failed_and_kept(machine, "9 records")
    await machine.close()


@pytest.mark.parametrize("kept", [0, 4])
@pytest.mark.parametrize("is_failback", [False, True])
async def test_an_unclean_election_here_emptied_the_copy_of_what_the_source_had_lost(tmp_path: Path, kept: int, is_failback: bool) -> None:
    """An unclean election here drops the log before anything is fetched (D3-31).

    With one replica each restart is such an election.
    """
    machine = MirrorMachine(str(tmp_path))
    limits = {"mirror_max_truncation_records": "4", "mirror_support_unclean_leader_election": "true"}
    await machine.mirroring(*NINE, **limits)
    if is_failback:
        machine.source_mirrors[MIRROR] = (OWN_CLUSTER_ID, {T0: ("STOPPED", 0)})
    source_has(machine, *NINE[:kept], epoch=3)
    machine.change(recovering=True)
    await machine.advance(8_000)
    failed_and_kept(machine, f"remove {9 - kept} records")
    assert machine.states_written() == ["PREPARING", "MIRRORING", "PREPARING", "FAILED"]
    await machine.close()


async def test_an_unclean_election_here_is_prepared_again_and_keeps_what_the_source_has(tmp_path: Path) -> None:
    """With mirror.support.unclean.leader.election nothing stops it while the source has all records
    (S8).
    """
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(*NINE, mirror_max_truncation_records="0", mirror_support_unclean_leader_election="true")
    epoch = machine.registration().leader_epoch
    machine.change(recovering=True)
    await machine.advance(8_000)
    assert machine.states_written() == ["PREPARING", "MIRRORING", "PREPARING", "MIRRORING"]
    assert machine.log().log_end_offset == 9 and machine.registration().leader_epoch == epoch + 1, "nothing was cut"
    await machine.close()
