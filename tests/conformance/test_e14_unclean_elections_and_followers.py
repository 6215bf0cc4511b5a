"""Unclean elections around a mirror, and what its followers are told (S7, S8, C36, RS13)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.brokers.broker_doubles import BrokerWorld
from support.logs.log_folders import open_log, write_log
from support.mirrors.mirror_machine import MIRROR, OWN_CLUSTER_ID, T0, MirrorMachine
from support.mirrors.scripted_source import batch

from kmirror.common.errors import Errors
from kmirror.common.uuid import Uuid
from kmirror.mirror.coordination.mirror_coordinator_shard import StateWrite
from kmirror.mirror.mirror_safeguards import MirrorSafeguards
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.replica.leader_end_point import FetchData, PartitionFetchState
from kmirror.replica.replica_fetcher import ReplicaFetcher
from kmirror.storage.fetch_data_info import FetchIsolation
from kmirror.verify.log_diff import diff_logs
from kmirror.verify.verdict import Status
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages import fetch

BACKOFF_MS = 5_000


async def ask_as_follower(world: BrokerWorld, topic_id: Uuid, *, mirror_leader_epoch: int, replica_id: int = 2) -> Any:
    row = fetch.FetchPartition(
        partition=0, current_leader_epoch=-1, fetch_offset=0, last_fetched_epoch=-1, log_start_offset=0, partition_max_bytes=1 << 20,
        mirror_leader_epoch=mirror_leader_epoch,
    )  # fmt: skip
    request = fetch.FetchRequest(
        replica_state=fetch.ReplicaState(replica_id=replica_id, replica_epoch=-1), max_wait_ms=0, min_bytes=0, max_bytes=1 << 20,
        isolation_level=0, session_id=0, session_epoch=-1, topics=[fetch.FetchTopic(topic_id=topic_id, partitions=[row])],
    )  # fmt: skip
    response = await world.ask(ApiKeys.FETCH, request, 19)
    assert response.responses[0].partitions[0].error_code == 0
    return response.responses[0].partitions[0]


async def test_rs13_c36_a_leader_tells_its_logs_latest_epoch_to_those_that_ask(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path), others=(2,))
    topic_id = machine.topic(value="m.removed", replicas=(1, 2))
    machine.local(batch(0, b"a", epoch=1), batch(1, b"b", epoch=6))
    assert (await ask_as_follower(machine, topic_id, mirror_leader_epoch=0)).mirror_leader_epoch == 6
    assert (await ask_as_follower(machine, topic_id, mirror_leader_epoch=-1)).mirror_leader_epoch == -1
    await machine.close()


@pytest.mark.parametrize(("asked", "appended"), [(0, 1), (1, 2), (6, 3)])
async def test_rs13_c36_a_batch_above_the_epoch_of_the_request_is_not_appended(tmp_path: Path, asked: int, appended: int) -> None:
    """The next request carries the largest epoch seen, and then the rest is appended."""
    world = BrokerWorld(str(tmp_path), others=(2,))
    topic_id = world.create_topic("t", replicas=(1, 2), leader=2, configs={"mirror.name": "m"})
    hooks = ReplicaFetcher(world.replica_manager)
    assert hooks.first_mirror_leader_epoch(T0) == 0, "a follower begins with 0"
    state = PartitionFetchState(topic_id, 0, 0, None, asked)
    records = batch(0, b"a", epoch=0) + batch(1, b"b", epoch=1) + batch(2, b"c", epoch=6)
    data = FetchData(Errors.NONE, 3, 0, records, mirror_leader_epoch=6)
    assert hooks.process_partition_data(T0, state, data)[0] == appended
    assert hooks.next_mirror_leader_epoch(T0, state, data) == 6
    world.set_configs("t", {"mirror.name": None})
    assert hooks.first_mirror_leader_epoch(T0) == -1, "not a mirror's partition"


@pytest.mark.item("B7")
async def test_s7_records_beyond_the_last_mirror_epoch_go_before_mirroring(tmp_path: Path) -> None:
    """In the KIP's example an unclean leader wrote epoch 2 over records of epoch 1, and the last
    mirror epoch is 1.
    """
    machine = MirrorMachine(str(tmp_path))
    machine.source_mirrors = {MIRROR: (OWN_CLUSTER_ID, {T0: ("STOPPED", 1)})}
    machine.source.create("t")
    common = [batch(0, b"a", epoch=0), batch(1, b"b", b"c", epoch=1)]
    machine.at_source(*common, batch(3, b"after the failover", epoch=2))
    machine.topic(value=None)
    machine.local(*common, batch(3, b"of the unclean leader", b"another", epoch=2))
    machine.name(MIRROR)
    await machine.reach("MIRRORING")
    await machine.advance(600)
    log = machine.log()
    assert (
        b"".join(machine.source.log("t").batches) == log.read(0, 1 << 20, FetchIsolation.LOG_END, min_one_message=True).records.to_bytes()
    )
    await machine.close()


@pytest.mark.parametrize("flag", [False, True])
@pytest.mark.item("B28")
async def test_s8_three_unclean_elections(tmp_path: Path, caplog: Any, flag: bool) -> None:
    """A replica outside the ISR is elected three times.

    Without the flag PREPARING never waited for that replica, and each election is only logged. With
    it each election prepares again, and waits until every replica has what the leader has.
    """
    machine = MirrorMachine(str(tmp_path), others=(2,))
    configs = {"mirror_support_unclean_leader_election": "true"} if flag else {}
    machine.source.create("t")
    machine.at_source(batch(0, b"a"), batch(1, b"b"))
    machine.topic(replicas=(1, 2), **configs)
    machine.change(isr=(1,), bump=0)
    await machine.advance(BACKOFF_MS)
    assert machine.state() == ("PREPARING" if flag else "MIRRORING")
    machine.followers.add(2)
    machine.change(isr=(1, 2), bump=0)
    await machine.reach("MIRRORING")
    for number in range(3):
        machine.followers.clear()
        machine.change(leader=2, isr=(2,), recovering=True)
        await machine.settle()
        machine.change(leader=1, isr=(1,), recovering=True)
        await machine.advance(BACKOFF_MS + 1_000)
        assert machine.state() == ("PREPARING" if flag else "MIRRORING"), number
        machine.followers.add(2)
        machine.change(isr=(1, 2), bump=0)
        await machine.reach("MIRRORING")
    await machine.advance(BACKOFF_MS)
    assert machine.states_written().count("PREPARING") == (4 if flag else 1)
    assert "elected uncleanly while mirroring" in caplog.text
    assert machine.log().log_end_offset == 2
    await machine.close()


COMMON = [batch(0, b"a", epoch=0)]
SOURCE_LOG = [*COMMON, batch(1, b"b", b"c", epoch=1), batch(3, b"of the failover", epoch=2)]
"""What the KIP's cluster B has: two records of epoch 1, and one of epoch 2 from after the failover.
"""
MISSED_THE_CUT = [*COMMON, batch(1, b"x", b"y", b"z", epoch=2)]
"""The log of the first unclean election's leader, which was away when the others were cut to the
last mirror epoch (1).
"""


async def third_unclean_election(tmp_path: Path, *, flag: bool, verified: bool) -> MirrorMachine:
    """The KIP's three elections, seen by the broker that led after the first one and is elected
    again by the third.

    Its log end and latest epoch equal the source's, so no question about epochs shows that three
    records differ. With the flag the partition was still PREPARING, because this replica had not
    been there to be cut. Without it broker 2 was already mirroring alone.
    """
    machine = MirrorMachine(str(tmp_path), others=(2,), safeguards=MirrorSafeguards(first_fetch_verified=verified))
    machine.source_mirrors = {MIRROR: (OWN_CLUSTER_ID, {T0: ("STOPPED", 1)})}
    machine.source.create("t")
    machine.at_source(*SOURCE_LOG)
    machine.topic(value=None, replicas=(1, 2), mirror_support_unclean_leader_election=str(flag).lower())
    machine.local(*MISSED_THE_CUT)
    machine.change(leader=2, isr=(2,), recovering=True)
    machine.name(MIRROR)
    await machine.settle()
    await machine.mirror.coordinator.write_states(MIRROR, [StateWrite("t", 0, State.PREPARING)])
    if not flag:
        await machine.mirror.coordinator.write_states(MIRROR, [StateWrite("t", 0, State.MIRRORING)])
    machine.change(leader=1, isr=(1,), recovering=True)
    machine.followers.add(2)
    await machine.advance(BACKOFF_MS)
    machine.change(isr=(1, 2), bump=0)
    await machine.reach("MIRRORING")
    await machine.advance(2 * BACKOFF_MS)
    return machine


@pytest.mark.parametrize(
    ("flag", "verified", "equal"),
    [
        pytest.param(False, False, False, id="flag-off-as-in-the-kip"),
        pytest.param(True, False, True, id="flag-on"),
        pytest.param(False, True, True, id="flag-off-and-batches-compared"),
    ],
)
async def test_s8_a_replica_that_missed_the_cut_is_elected(tmp_path: Path, flag: bool, verified: bool, equal: bool) -> None:
    """Without the flag the divergence stays and only a comparison of the logs finds it, as the KIP
    says, unless batches of equal epochs are compared too (C36b). With the flag whoever is elected
    makes the cut.
    """
    machine = await third_unclean_election(tmp_path, flag=flag, verified=verified)
    assert machine.log().log_end_offset == 4, "the ends are equal, whatever is between"
    machine.log().flush()
    verdict = diff_logs(open_log(tmp_path / "t-0"), open_log(write_log(tmp_path / "source" / "t-0", *SOURCE_LOG)))
    assert verdict.status is (Status.EQUAL if equal else Status.DIFFERENT), verdict
    await machine.close()
