"""The steps of PREPARING (D5), in action.

One broker's whole mirroring runs on real logs. Its source is scripted, and the tests fetch for its
followers.
"""

from __future__ import annotations

from pathlib import Path

from support.mirrors.mirror_machine import MIRROR, OWN_CLUSTER_ID, T0, MirrorMachine
from support.mirrors.scripted_source import SOURCE_CLUSTER_ID, batch
from support.mirrors.stored_states import BACKOFF_MS, refuse_bumps, store

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import MIRROR_STATE_TOPIC_NAME
from kmirror.common.uuid import Uuid
from kmirror.mirror.mirror_safeguards import MirrorSafeguards
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.record.control_record import build_mirror_pid_reset


async def test_d5_cut_bump_and_every_replica_before_the_first_fetch(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path), others=(2,))
    machine.source_mirrors = {MIRROR: (OWN_CLUSTER_ID, {T0: ("STOPPED", 1)})}
    machine.source.create("t")
    machine.at_source(batch(0, b"a", epoch=1), batch(1, b"new", epoch=3))
    machine.topic(value=None, replicas=(1, 2))
    machine.local(batch(0, b"a", epoch=1), batch(1, b"own", epoch=2))
    machine.name(MIRROR)
    await machine.settle()
    await machine.follow(2, 2)
    await machine.advance(BACKOFF_MS + 500)
    assert [header.last_offset for header in machine.headers()] == [0]
    assert machine.registration().leader_epoch == 1, "what was cut is followed by a bump"
    assert machine.state() == "PREPARING", "follower 2 has not said in the new epoch what it has"
    assert not machine.source.fetches()
    await machine.follow(2, 1)
    await machine.reach("MIRRORING")
    await machine.advance(600)
    assert machine.log().log_end_offset == 2
    await machine.close()


async def test_d5_a_bump_that_is_owed_for_a_cut_is_made_by_a_stop_that_comes_first(tmp_path: Path) -> None:
    """The leader's epoch is above every batch's, so STOPPING alone (D4) would not bump it, and a
    slow follower would keep what was cut (F1, step 4).
    """
    machine = MirrorMachine(str(tmp_path))
    machine.source_mirrors = {MIRROR: (OWN_CLUSTER_ID, {T0: ("STOPPED", 1)})}
    machine.source.create("t")
    machine.at_source(batch(0, b"a", epoch=1))
    machine.topic(value=None, epoch=10)
    machine.local(batch(0, b"a", epoch=1), batch(1, b"own", epoch=2))
    machine.mirror_controller.fail = refuse_bumps
    machine.name(MIRROR)
    await machine.advance(500)
    assert (machine.state(), machine.log().log_end_offset, machine.registration().leader_epoch) == ("PREPARING", 1, 10)
    machine.mirror_controller.fail = lambda request: None
    machine.name("m.removed")
    await machine.reach("STOPPED")
    assert (machine.registration().leader_epoch, machine.headers()[-1].leader_epoch) == (11, 11)
    await machine.close()


async def test_d5_d4_a_bump_that_is_owed_for_a_cut_is_made_also_where_the_cut_left_the_reset_last(tmp_path: Path) -> None:
    """A failback is taken back at once.

    By step 0 of STOPPING nothing is left to do. But the follower still has what the leader cut, and
    without a bump it would keep that beside what clients now write in the same epoch (F1).
    """
    machine = MirrorMachine(str(tmp_path), others=(2,))
    await store(machine, State.STOPPED, epoch=1, replicas=(1, 2))
    machine.change(bump=3)
    reset = build_mirror_pid_reset(SOURCE_CLUSTER_ID, timestamp=0, base_offset=1, partition_leader_epoch=2)
    machine.local(batch(0, b"a", epoch=1), bytes(reset), batch(2, b"own", epoch=3))
    machine.source_mirrors = {MIRROR: (OWN_CLUSTER_ID, {T0: ("STOPPED", 2)})}
    machine.at_source(batch(0, b"a", epoch=1), bytes(reset))
    machine.mirror_controller.fail = refuse_bumps
    machine.name(MIRROR)
    await machine.settle()
    await machine.follow(2, 3)
    await machine.advance(500)
    assert (machine.state(), machine.log().log_end_offset, machine.registration().leader_epoch) == ("PREPARING", 2, 3)
    machine.mirror_controller.fail = lambda request: None
    machine.name("m.removed")
    await machine.advance(500)
    assert (machine.state(), machine.registration().leader_epoch) == ("STOPPING", 4), "nobody knows yet what follower 2 has"
    await machine.follow(2, 2)
    await machine.reach("STOPPED")
    assert machine.produce(batch(0, b"new")) is Errors.NONE
    assert machine.log().high_watermark == 2, "not acknowledged for a follower that has another record there"
    assert [header.leader_epoch for header in machine.headers()] == [1, 2, 4], "no second reset"
    await machine.close()


async def test_d5_an_empty_epoch_entry_is_cut_also_where_no_batch_is(tmp_path: Path) -> None:
    """A leader of a plain topic noted its epoch in the cache but wrote nothing in it.

    Asked for that epoch later, it would answer with offsets of the source's data.
    """
    machine = MirrorMachine(str(tmp_path))
    machine.source_mirrors = {MIRROR: (OWN_CLUSTER_ID, {T0: ("STOPPED", 1)})}
    machine.source.create("t")
    machine.at_source(batch(0, b"a", epoch=1))
    machine.topic(value=None)
    machine.local(batch(0, b"a", epoch=1))
    machine.change(bump=5)
    assert machine.log().latest_epoch == 5
    machine.name(MIRROR)
    await machine.reach("MIRRORING")
    assert (machine.log().latest_epoch, machine.log().log_end_offset) == (1, 1)
    await machine.close()


async def test_d5_a_mirror_there_whose_source_is_not_known_is_not_another_clusters(tmp_path: Path) -> None:
    """Step 1: there is no last mirror epoch only if the SourceClusterId is known and not ours."""
    machine = MirrorMachine(str(tmp_path), safeguards=MirrorSafeguards(kept_when_added_again=False, first_fetch_verified=False))
    machine.source_mirrors = {MIRROR: ("", {T0: ("STOPPED", 1)})}
    machine.source.create("t")
    machine.at_source(batch(0, b"a", epoch=1))
    machine.topic(value=None)
    machine.local(batch(0, b"a", epoch=1), batch(1, b"own", epoch=2))
    machine.source.log("t").high_watermark = 0
    machine.name(MIRROR)
    await machine.reach("MIRRORING")
    assert [header.last_offset for header in machine.headers()] == [0]
    await machine.close()


async def test_d5_a_partition_that_the_source_does_not_have_waits_for_it(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    machine.source.create("t", partitions=1)
    machine.topic(value=None, partitions=2)
    machine.local(batch(0, b"mine"), number=1)
    machine.name(MIRROR)
    await machine.reach("MIRRORING")
    await machine.advance(2 * BACKOFF_MS)
    assert machine.state(number=1) == "PREPARING" and machine.log(number=1).log_end_offset == 1
    assert "no partition t-1" in str(machine.driver(number=1).status.reason)
    await machine.close()


async def test_d5_where_nothing_is_cut_no_follower_is_waited_for(tmp_path: Path) -> None:
    """Step 3 waits only for followers that would be stuck inside a cut batch."""
    machine = MirrorMachine(str(tmp_path), others=(2,))
    machine.source_mirrors = {MIRROR: (OWN_CLUSTER_ID, {T0: ("STOPPED", 1)})}
    machine.source.create("t")
    machine.at_source(batch(0, b"a", epoch=1))
    machine.topic(value=None, replicas=(1, 2))
    machine.local(batch(0, b"a", epoch=1))
    await machine.follow(2, 0)
    machine.name(MIRROR)
    await machine.reach("MIRRORING", within_ms=1_000)
    await machine.close()


async def test_d5_no_more_replicas_are_needed_in_sync_than_there_are(tmp_path: Path) -> None:
    """Step 4 wants the smaller of min.insync.replicas and the replication factor."""
    machine = MirrorMachine(str(tmp_path))
    machine.topic(min_insync_replicas="3")
    await machine.reach("MIRRORING", within_ms=1_000)
    await machine.close()


async def test_d5_another_topic_of_the_name_fails_and_nothing_is_cut(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    machine.topic(value=None)
    machine.local(batch(0, b"mine"))
    machine.source.topic_ids["t"] = Uuid.random(machine.runtime.random)
    machine.name(MIRROR)
    await machine.reach("FAILED")
    assert machine.log().log_end_offset == 1 and "has the id" in str(machine.driver().status.reason)
    await machine.close()


async def test_d5_many_partitions_ask_together(tmp_path: Path) -> None:
    """Each broker of the source is asked once for all partitions that prepare at a time, not once
    per partition.
    """
    machine = MirrorMachine(str(tmp_path), source_brokers=2)
    machine.source.create("t", partitions=40)
    machine.topic(partitions=40)
    for number in range(40):
        await machine.reach("MIRRORING", number=number)
    kinds = [type(request).__name__ for _, _, _, request in machine.source.requests]
    assert kinds.count("DescribeMirrorsRequest") == kinds.count("ListMirrorsRequest") == 2
    assert kinds.count("MetadataRequest") <= 6, "before and after, each broker for itself, whose configs, and where the leaders are"
    assert len(machine.state_records()) == 80
    log = machine.partition(MIRROR_STATE_TOPIC_NAME).leader_log
    assert sum(1 for _ in log.batch_headers(0)) <= 6
    await machine.close()
