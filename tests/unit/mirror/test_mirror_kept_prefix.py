"""PREPARING without a last mirror epoch keeps the part of the log that is proven equal to the
source's, however the partition got there. The result equals the KIP's full copy.

Every batch is compared where an equal batch proves nothing about those before it, because the log
may not come from the source, and where cleaners may have run.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.mirrors.added_topics import NINE, added_again, polled_offsets, removed_and_written
from support.mirrors.mirror_machine import MIRROR, OWN_CLUSTER_ID, T0, WITH_MIRRORS, MirrorMachine
from support.mirrors.scripted_source import KAFKA_2_1, batch

from kmirror.mirror.mirror_safeguards import MirrorSafeguards
from kmirror.network.client import DisconnectError
from kmirror.storage.fetch_data_info import FetchIsolation
from kmirror.storage.log_offset_metadata import LogStartOffsetIncrementReason
from kmirror.wire.api_keys import ApiKeys

OURS = [batch(offset, b"ours", epoch=1) for offset in range(5, 8)]
UNCLEAN = {"mirror_support_unclean_leader_election": "true"}


async def with_local_data(machine: MirrorMachine, *batches: bytes, **configs: str) -> None:
    """Adds a topic that was never mirrored and has these batches; the source has NINE."""
    machine.source.create("t")
    machine.at_source(*NINE)
    machine.topic(value=None, **configs)
    machine.local(*batches)
    machine.log().update_high_watermark(machine.log().log_end_offset)
    await added_again(machine)


def is_full_copy(machine: MirrorMachine) -> bool:
    """Returns whether our log is equal to the source's."""
    ours = machine.log().read(0, 1 << 24, FetchIsolation.LOG_END, min_one_message=True).records.to_bytes()
    return bytes(ours) == b"".join(machine.source.log("t").batches)


@pytest.mark.parametrize("versions", [WITH_MIRRORS, KAFKA_2_1], ids=["newest", "2.1"])
async def test_a_first_add_keeps_what_is_the_sources(tmp_path: Path, versions: dict[ApiKeys, int]) -> None:
    machine = MirrorMachine(str(tmp_path), versions=versions)
    await with_local_data(machine, *NINE[:5], *OURS)
    assert machine.state() == "MIRRORING" and is_full_copy(machine)
    assert min(polled_offsets(machine)) == 5, "nothing is copied twice"
    assert machine.registration().leader_epoch == 1, "the cut is followed by a bump (F1)"
    await machine.close()


async def test_without_the_rule_a_first_add_copies_everything(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path), safeguards=MirrorSafeguards(kept_when_added_again=False))
    await with_local_data(machine, *NINE[:5], *OURS)
    assert is_full_copy(machine) and min(polled_offsets(machine)) == 0
    await machine.close()


@pytest.mark.parametrize(
    ("batches", "copied_from"),
    [
        ([batch(0, b"x", epoch=1), *NINE[1:]], 0),  # one application wrote to both clusters
        ([*NINE[:3], batch(3, b"x", epoch=1), *NINE[4:]], 3),
        ([*NINE[:3], *NINE[4:]], 3),  # our cleaner took one
        (NINE[2:], 0),  # our retention did
        ([*NINE, batch(9, b"x", epoch=1)], 9),
        (NINE, 9),
    ],
)
async def test_an_equal_batch_of_a_log_that_nobody_mirrored_proves_only_itself(
    tmp_path: Path, batches: list[bytes], copied_from: int
) -> None:
    machine = MirrorMachine(str(tmp_path))
    await with_local_data(machine, *batches)
    assert machine.state() == "MIRRORING" and is_full_copy(machine)
    assert min(polled_offsets(machine)) == copied_from
    await machine.close()


async def test_nothing_that_was_written_here_makes_the_first_add_fail(tmp_path: Path) -> None:
    """The truncation guard protects only what was mirrored (S1)."""
    machine = MirrorMachine(str(tmp_path))
    await with_local_data(machine, *NINE[:2], *[batch(n, b"x", epoch=1) for n in range(2, 9)], mirror_max_truncation_records="0")
    assert machine.state() == "MIRRORING" and is_full_copy(machine)
    await machine.close()


async def test_states_that_were_lost_cost_no_copy(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    machine.source.create("t")
    machine.at_source(*NINE)
    machine.topic()
    machine.local(*NINE[:8])
    machine.log().update_high_watermark(8)
    await machine.reach("MIRRORING")
    await machine.advance(1_000)
    assert is_full_copy(machine) and min(polled_offsets(machine)) == 8
    assert machine.registration().leader_epoch == 0, "nothing was cut"
    await machine.close()


@pytest.mark.parametrize("cleaned", [False, True])
async def test_a_compacted_topic_keeps_what_no_cleaner_has_touched(tmp_path: Path, cleaned: bool) -> None:
    """A key whose value and tombstone the source has dropped would stay for ever below a correct
    cut.
    """
    machine = MirrorMachine(str(tmp_path))
    await removed_and_written(machine, cleanup_policy="compact")
    if cleaned:
        del machine.source.log("t").batches[2]
    await added_again(machine)
    assert machine.state() == "MIRRORING" and is_full_copy(machine)
    assert min(polled_offsets(machine)) == (2 if cleaned else 9)
    await machine.close()


async def test_what_our_retention_took_while_the_topic_was_ours_is_copied_again(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await removed_and_written(machine)
    machine.log().maybe_increment_log_start_offset(3, LogStartOffsetIncrementReason.SEGMENT_DELETION)
    await added_again(machine)
    assert machine.state() == "MIRRORING" and is_full_copy(machine) and machine.log().log_start_offset == 0
    await machine.close()


# --- an unclean election here (D3-31)
# ---------------------------------------------------------------------------------


async def elected_uncleanly(machine: MirrorMachine, **configs: str) -> None:
    await machine.mirroring(*NINE, **UNCLEAN, **configs)
    machine.source.requests.clear()
    machine.change(recovering=True)


async def test_an_unclean_election_here_costs_no_copy(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await elected_uncleanly(machine)
    await machine.advance(3_000)
    assert machine.states_written()[-2:] == ["PREPARING", "MIRRORING"]
    assert is_full_copy(machine) and min(polled_offsets(machine)) == 9
    await machine.close()


@pytest.mark.parametrize("again", [False, True], ids=["same leader", "leader changed"])
async def test_an_unclean_election_here_does_not_follow_a_source_that_lost_its_log(tmp_path: Path, again: bool) -> None:
    """The KIP's full truncation would, so one incident could cost both sides their data."""
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(*NINE, **UNCLEAN)
    answer, silent = machine.source.override, again

    def override(request: Any) -> Any:
        if silent:
            raise DisconnectError("the source is silent")
        return None if answer is None else answer(request)

    machine.source.override = override
    log = machine.source.log("t")
    log.batches[:], log.epoch = [], 3
    machine.source.forget_sessions()
    machine.change(recovering=True)
    if again:
        await machine.reach("PREPARING")
        machine.change(bump=1)  # the leader forgets what it knew
        silent = False
    await machine.reach("FAILED")
    assert machine.log().log_end_offset == 9
    assert "--accept-truncation" in (machine.driver().status.reason or "")
    await machine.close()


# --- a failback that an operator ordered
# ------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", range(0, 240, 8))
async def test_a_leader_change_at_any_step_of_a_failback_stops_nothing(tmp_path: Path, turns: int) -> None:
    """The cut to the last mirror epoch leaves records that the source does not have (F16).

    The operator's order covers them too, whoever leads then.
    """
    machine = MirrorMachine(str(tmp_path))
    machine.source.create("t")
    machine.at_source(*[batch(offset, b"source", epoch=2) for offset in range(9)])
    machine.topic(value=None)
    machine.local(*[batch(offset, b"here", epoch=1) for offset in range(9)])
    machine.log().update_high_watermark(9)
    machine.source_mirrors[MIRROR] = (OWN_CLUSTER_ID, {T0: ("STOPPED", 1)})
    machine.name(MIRROR)
    for turn in range(turns):
        await asyncio.sleep(0)
        if turn % 40 == 39:
            machine.runtime.advance(100)
    machine.change(leader=2, replicas=(1, 2), isr=(1, 2))
    machine.change(leader=1, replicas=(1,), isr=(1,))
    await machine.advance(8_000)
    assert machine.state() == "MIRRORING", machine.driver().status.reason
    assert {header.leader_epoch for header in machine.headers()} == {2} and machine.log().log_end_offset == 9
    await machine.close()
