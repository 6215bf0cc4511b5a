"""A topic that is added to a mirror again keeps what the source still has of it.

Once, a removal and an addition emptied the topic and copied it anew.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.mirrors.added_topics import NINE, added_again, polled_offsets, removed_and_written
from support.mirrors.mirror_machine import MIRROR, OWN_CLUSTER_ID, T0, MirrorMachine
from support.mirrors.scripted_source import SOURCE_CLUSTER_ID, batch

from kmirror.mirror.mirror_safeguards import MirrorSafeguards


async def test_only_what_was_written_here_goes(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await removed_and_written(machine)
    epoch = machine.registration().leader_epoch
    machine.at_source(batch(9, b"new", epoch=2))
    await added_again(machine)
    assert machine.state() == "MIRRORING"
    assert [(header.base_offset, header.leader_epoch) for header in machine.headers()] == [*[(n, 1) for n in range(9)], (9, 2)]
    assert min(polled_offsets(machine)) == 9, "nothing is copied again"
    assert machine.registration().leader_epoch == epoch + 1, "the leader's cut is followed by a bump (F1)"
    await machine.close()


async def test_without_the_rule_everything_is_copied_again(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path), safeguards=MirrorSafeguards(kept_when_added_again=False))
    await removed_and_written(machine)
    await added_again(machine)
    assert machine.log().log_end_offset == 9 and 0 in polled_offsets(machine)
    await machine.close()


async def test_what_a_failback_costs_is_ordered_by_who_adds_the_topic(tmp_path: Path) -> None:
    """The cut to the last mirror epoch leaves nothing that the source has: our records there differ
    from the source's (F16).
    """
    machine = MirrorMachine(str(tmp_path))
    machine.source.create("t")
    machine.at_source(*[batch(offset, b"source", epoch=2) for offset in range(9)])
    machine.topic(value=None)
    machine.local(*[batch(offset, b"here", epoch=1) for offset in range(9)])
    machine.log().update_high_watermark(9)
    machine.source_mirrors[MIRROR] = (OWN_CLUSTER_ID, {T0: ("STOPPED", 1)})
    await added_again(machine)
    assert machine.state() == "MIRRORING"
    assert {header.leader_epoch for header in machine.headers()} == {2} and machine.log().log_end_offset == 9
    await machine.close()


@pytest.mark.parametrize(("limit", "at_source", "kept"), [(None, 0, 12), ("-1", 0, 0), ("4", 4, 12), ("5", 4, 4), ("0", 9, 9)])
async def test_what_the_source_has_lost_meanwhile_is_guarded(tmp_path: Path, limit: str | None, at_source: int, kept: int) -> None:
    """Records that were written here are not counted, since adding the topic gives them up."""
    machine = MirrorMachine(str(tmp_path))
    await removed_and_written(machine, **({} if limit is None else {"mirror_max_truncation_records": limit}))
    log = machine.source.log("t")
    log.batches[:] = NINE[:at_source]
    log.epoch = 2
    await added_again(machine)
    assert machine.log().log_end_offset == kept
    assert machine.state() == ("FAILED" if kept == 12 else "MIRRORING")
    if kept == 12:
        assert "--accept-truncation" in (machine.driver().status.reason or "")
    await machine.close()


async def test_a_failed_mirror_is_removed_and_added_and_fails_again_without_losing_anything(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(*NINE)
    log = machine.source.log("t")
    log.batches[:], log.epoch = [], 3
    machine.source.forget_sessions()
    machine.source.notify()
    await machine.reach("FAILED")
    machine.name("m.removed")
    await machine.reach("STOPPED")
    machine.name(MIRROR)
    await machine.reach("FAILED")
    assert [header.base_offset for header in machine.headers()] == list(range(10))
    machine.name("m.removed")
    await machine.reach("STOPPED")
    machine.set_configs("t", {"mirror.max.truncation.records": "-1"})
    machine.name(MIRROR)
    await machine.reach("MIRRORING")
    assert machine.log().log_end_offset == 0
    await machine.close()


async def test_records_that_were_never_mirrored_go_as_the_kip_says(tmp_path: Path) -> None:
    """The topic is added for the first time (S1)."""
    machine = MirrorMachine(str(tmp_path))
    machine.source.create("t")
    machine.at_source(batch(0, b"theirs", epoch=1))
    machine.topic(value=None)
    machine.local(batch(0, b"ours"), batch(1, b"ours"))
    machine.log().update_high_watermark(2)
    await added_again(machine)
    assert machine.state() == "MIRRORING"
    assert [(header.base_offset, header.leader_epoch) for header in machine.headers()] == [(0, 1)]
    await machine.close()


async def test_a_source_that_does_not_serve_its_batches_yet_is_waited_for(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await removed_and_written(machine)
    machine.source.log("t").high_watermark = 0
    await added_again(machine)
    assert (machine.state(), machine.log().log_end_offset) == ("PREPARING", 12)
    assert "does not serve the batch at 8 yet" in (machine.driver().status.reason or "")
    machine.source.log("t").high_watermark = None
    await machine.reach("MIRRORING")
    assert machine.log().log_end_offset == 9
    await machine.close()


@pytest.mark.parametrize(("is_failback", "copied_from"), [(False, 9), (True, 0)])
async def test_what_our_cleaner_dropped_for_records_that_go_is_copied_again(tmp_path: Path, is_failback: bool, copied_from: int) -> None:
    """The cleaner has cleaned the records that were written here, so a cut would bring back less
    than the source has.

    If it dropped nothing, the batches that are compared and equal stay.
    """
    machine = MirrorMachine(str(tmp_path))
    await removed_and_written(machine, cleanup_policy="compact")
    machine.replica_manager.log_manager.cleaned_until = lambda log: 11  # type: ignore[method-assign]
    if is_failback:
        machine.source_mirrors[MIRROR] = (OWN_CLUSTER_ID, {T0: ("STOPPED", 1)})
    await added_again(machine)
    assert machine.state() == "MIRRORING"
    assert min(polled_offsets(machine)) == copied_from
    assert [header.base_offset for header in machine.headers()] == list(range(9))
    await machine.close()


async def test_inquiries_before_a_fetch_leave_no_connection_open(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await removed_and_written(machine)
    await added_again(machine)
    borrowed = [client for client in machine.clients if client.client_id == f"broker-1-mirror-alignment-{MIRROR}"]
    assert borrowed and all(client.closed for client in borrowed)
    assert machine.driver().mirror.source_cluster_id == SOURCE_CLUSTER_ID
    await machine.close()
