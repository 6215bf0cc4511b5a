"""Hazards of a failover (section C): what is cut and stored, which last mirror epochs count, the reset,
and sources that are gone. A whole mirror runs on real logs, with a scripted source.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.mirrors.mirror_machine import MIRROR, OWN_CLUSTER_ID, T0, MirrorMachine
from support.mirrors.open_transactions import STOPPED_THERE, marker, transactional
from support.mirrors.scripted_source import SOURCE_CLUSTER_ID, batch
from support.mirrors.stored_states import BACKOFF_MS

from kmirror.common.errors import Errors
from kmirror.common.uuid import Uuid
from kmirror.network.client import DisconnectError
from kmirror.record.control_record import build_mirror_pid_reset
from kmirror.storage.log_append_info import AppendOrigin


async def test_c2_the_cut_is_repeated_until_nothing_is_open(tmp_path: Path) -> None:
    """The KIP's log up to offset 3: the LSO is 2, and cutting there would reopen 4001."""
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(
        transactional(0, 4001, b"A"), transactional(1, 4001, b"B", sequence=1), transactional(2, 4002, b"X"), marker(3, 4001)
    )
    assert machine.log().last_stable_offset == 2
    machine.name("m.removed")
    await machine.reach("STOPPED")
    assert [(header.base_offset, header.is_control) for header in machine.headers()] == [(0, True)]
    log = machine.log()
    assert log.last_stable_offset == log.log_end_offset == 1
    assert not log.producer_state_manager.ongoing_transactions
    await machine.close()


async def test_c4_what_will_be_dropped_is_logged_before_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"), transactional(1, 7, b"open", b"too"), batch(3, b"behind"))
    caplog.set_level(logging.INFO)
    machine.name("m.removed")
    await machine.reach("STOPPED")
    told = next(record for record in caplog.records if "will be dropped" in record.getMessage())
    cut = next(record for record in caplog.records if "truncated from" in record.getMessage())
    assert "3 records in 2 batches from offset 1 on will be dropped" in told.getMessage()
    assert caplog.records.index(told) < caplog.records.index(cut)
    await machine.close()


async def test_c5_the_last_mirror_epoch_is_that_of_the_last_batch(tmp_path: Path) -> None:
    """The leader's own epoch is 9, no batch has it."""
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a", epoch=1), batch(1, b"b", epoch=3), epoch=9)
    machine.name("m.removed")
    driver = await machine.reach("STOPPED")
    assert driver.status.last_mirror_epoch == 3
    assert [header.leader_epoch for header in machine.headers()] == [1, 3, 9]
    assert [entry.epoch for entry in machine.log().leader_epoch_cache.epoch_entries] == [1, 3, 9]
    await machine.close()


@pytest.mark.item("B7")
async def test_c3_a_last_mirror_epoch_above_every_local_epoch_cuts_nothing(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    machine.source_mirrors = {MIRROR: (OWN_CLUSTER_ID, {T0: ("STOPPED", 9)})}
    machine.source.create("t")
    machine.at_source(batch(0, b"a", epoch=1), batch(1, b"b", epoch=2))
    machine.topic(value=None)
    machine.local(batch(0, b"a", epoch=1))
    machine.name(MIRROR)
    await machine.reach("MIRRORING")
    assert machine.headers()[0].base_offset == 0 and machine.registration().leader_epoch == 0, "nothing was cut, nothing bumped"
    await machine.advance(600)
    assert machine.log().log_end_offset == 2
    await machine.close()


def _down(machine: MirrorMachine) -> None:
    machine.source.down.add(machine.source.addresses[2])


def _silent_mirrors(machine: MirrorMachine) -> None:
    answer = machine.source.override

    def override(request: Any) -> Any:
        if type(request).__name__ in ("ListMirrorsRequest", "DescribeMirrorsRequest"):
            return DisconnectError("gone in the middle")
        return answer(request) if answer is not None else None

    machine.source.override = override


def _loading(machine: MirrorMachine) -> None:
    machine.refusing[MIRROR] = Errors.COORDINATOR_NOT_AVAILABLE


def _still_mirroring(machine: MirrorMachine) -> None:
    machine.source_mirrors[MIRROR] = (OWN_CLUSTER_ID, {T0: ("STOPPING", 1)})


@pytest.mark.parametrize("trouble", [_down, _silent_mirrors, _loading, _still_mirroring])
@pytest.mark.item("B46")
async def test_c6_an_answer_that_is_missing_or_not_final_never_cuts_to_nothing(tmp_path: Path, trouble: Any) -> None:
    machine = MirrorMachine(str(tmp_path), source_brokers=2)
    machine.source_mirrors = dict(STOPPED_THERE)
    machine.source.create("t")
    machine.at_source(batch(0, b"a", epoch=1), batch(1, b"b", epoch=2))
    machine.topic(value=None)
    machine.local(batch(0, b"a", epoch=1), batch(1, b"own", epoch=1 + 1))
    trouble(machine)
    machine.name(MIRROR)
    await machine.advance(3 * BACKOFF_MS)
    assert machine.state() == "PREPARING" and machine.log().log_end_offset == 2
    assert machine.driver().status.reason
    machine.source.down.clear()
    machine.refusing.clear()
    machine.source_mirrors = dict(STOPPED_THERE)
    machine.source.override = machine._answer_mirrors
    await machine.reach("MIRRORING")
    assert machine.headers()[0].base_offset == 0
    await machine.close()


@pytest.mark.item("B46")
async def test_c6_one_dead_broker_is_asked_again_and_a_definite_none_starts_over(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    machine.topic(value=None)
    machine.local(batch(0, b"own", epoch=0))
    machine.name(MIRROR)
    await machine.reach("MIRRORING")
    assert machine.headers() == [], "the source has no such mirror: all of it is the source's now"
    await machine.close()


async def test_c9_the_reset_ends_producers_and_all_kinds_of_transactions(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    machine.topic(value=None)
    machine.local(transactional(0, 7, b"open"), transactional(1, 8, b"ended"), marker(2, 8))
    state = machine.log().producer_state_manager
    assert state.active_producers.keys() == {7, 8} and state.ongoing_transactions and state.unreplicated_transactions
    machine.partition("t").append_records_to_leader(
        bytearray(build_mirror_pid_reset("dc-east", timestamp=0)), origin=AppendOrigin.COORDINATOR, required_acks=1
    )
    assert state.is_empty and not state.ongoing_transactions and not state.unreplicated_transactions
    assert machine.log().first_unstable_offset is None
    await machine.close()


@pytest.mark.parametrize("snapshot", [False, True])
async def test_c10_recovery_and_snapshots_apply_the_reset_where_it_stands(tmp_path: Path, snapshot: bool) -> None:
    """Producer 7 is before it, 8 behind it: after the crash a sequence of 7 is a new one, one of 8
    a known one.
    """
    machine = MirrorMachine(str(tmp_path / "before"))
    topic_id = machine.topic(value=None)
    plain = {"producer_epoch": 0, "base_sequence": 0}
    machine.produce(batch(0, b"a", producer_id=7, **plain))
    machine.partition("t").append_records_to_leader(
        bytearray(build_mirror_pid_reset("dc-east", timestamp=0)), origin=AppendOrigin.COORDINATOR, required_acks=1
    )
    machine.produce(batch(0, b"b", producer_id=8, **plain))
    if snapshot:
        machine.log().roll()
    shutil.copytree(tmp_path / "before" / "t-0", tmp_path / "after" / "t-0")
    again = MirrorMachine(str(tmp_path / "after"))
    again.source.topic_ids["t"] = topic_id
    again.topic(value=None, at_source=False)
    assert again.log().producer_state_manager.active_producers.keys() == {8}
    assert again.produce(batch(0, b"a", producer_id=7, **plain)) is Errors.NONE
    assert again.log().log_end_offset == 4
    again.produce(batch(0, b"b", producer_id=8, **plain))
    assert again.log().log_end_offset == 4, "a duplicate of 8"


@pytest.mark.parametrize("known", [True, False])
async def test_c11_stopping_completes_with_a_dead_source(tmp_path: Path, known: bool) -> None:
    machine = MirrorMachine(str(tmp_path))
    if known:
        await machine.mirroring(batch(0, b"a"))
    machine.source.down.update(machine.source.addresses.values())
    if not known:
        machine.topic(value=None)
        machine.local(batch(0, b"a"))
        machine.name(MIRROR)
        await machine.advance(1_000)
        assert machine.state() == "PREPARING"
    before = len(machine.source.requests)
    machine.name("m.removed")
    await machine.reach("STOPPED", within_ms=1_000)
    assert machine.headers()[-1].reset_source == (SOURCE_CLUSTER_ID if known else "")
    assert len(machine.source.requests) == before, "the source was asked nothing"
    assert machine.produce(batch(0, b"new")) is Errors.NONE
    await machine.close()


async def test_c12_a_cluster_id_is_any_text(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    machine.source.cluster_id = "dc-east"
    await machine.mirroring(batch(0, b"a"))
    assert machine.cache.image.configs.mirror(MIRROR)["source.cluster.id"] == "dc-east"
    machine.name("m.removed")
    await machine.reach("STOPPED")
    assert machine.headers()[-1].reset_source == "dc-east"
    await machine.close()


async def test_c14_a_deleted_source_topic_stays_stopped_and_writable(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path), others=(2,))
    await machine.mirroring(batch(0, b"a"))
    del machine.source.topic_ids["t"]
    await machine.reach("STOPPED", within_ms=90_000)
    assert machine.cache.image.configs.topic("t")["mirror.name"] == "m.paused", "nothing starts again by itself"
    machine.source.topic_ids["t"] = Uuid.random(machine.runtime.random)
    machine.name(MIRROR)  # even if somebody asks for it while another topic has the name
    machine.change()
    await machine.advance(40_000)
    assert machine.state() == "STOPPED" and machine.log().log_end_offset == 2
    assert machine.produce(batch(0, b"mine")) is Errors.NONE
    machine.name("m.removed")
    await machine.advance(1_000)
    assert machine.state() == "STOPPED"
    await machine.close()
