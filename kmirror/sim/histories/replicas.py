"""Named histories of fleets: the disasters of section F of the rules that need a second replica, a
second coordinator or a second source broker.

Each is an `async def (stage)`. Its docstring says what went wrong in an earlier draft of the rules.
A history states with `expect` what the checkers cannot see. Topics have min.insync.replicas 1 where
a leader must go on alone.
"""

from __future__ import annotations

from kmirror.common.errors import Errors, KmirrorError
from kmirror.common.sentinels import NO_EPOCH
from kmirror.common.topic_partition import MIRROR_STATE_TOPIC_NAME, TopicPartition
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.record.builder import build_batch
from kmirror.sim.events import Acknowledged, LastMirrorEpochWritten, LogKey, Removed
from kmirror.sim.fleet_clients import produce_request, records_of
from kmirror.sim.fleet_events import InstanceBegan, OffsetCommitted
from kmirror.sim.fleet_transactions import TransactionalProducer
from kmirror.sim.links import Link
from kmirror.sim.mirror_checkers import check_mirrors
from kmirror.sim.mirror_stage import MirrorStage
from kmirror.sim.run import HistoryFunction, Setting
from kmirror.sim.server import SimServer
from kmirror.sim.stage import MIRROR, ORDERS, TOPIC, expect
from kmirror.sim.topic_events import DELETE_TOPIC

ALONE = {"min.insync.replicas": "1"}
FAR = Link(850_000, 900_000, 2_000_000)


async def b_takes_over(stage: MirrorStage) -> None:
    """B mirrors A until it has all of A's records; then the topic is failed over to B."""
    await stage.mirror("a", "b")
    await stage.until("B has all of A", lambda: stage.equal("a", "b", ORDERS))
    await stage.fail_over("b")


def leader_of(stage: MirrorStage, cluster: str, partition: TopicPartition = ORDERS) -> SimServer:
    """Returns the partition's leader; KmirrorError if there is none."""
    leader = stage.leader(cluster, partition)
    if leader is None:
        raise KmirrorError(f"{partition} has no leader at {cluster}")
    return leader


def _follower(stage: MirrorStage, cluster: str) -> SimServer:
    """Returns the first replica that does not lead."""
    fleet = stage.fleets[cluster]
    registration = fleet.registrations()[ORDERS]
    return next(fleet.broker_named(replica) for replica in registration.replicas if replica != registration.leader)


async def _keep_coordinator_from_follower(stage: MirrorStage, cluster: str, *, source: str) -> None:
    """Creates the mirror. If its coordinator would be the follower's broker, makes that broker the
    partition's leader.
    """
    await stage.operator.create_mirror(cluster, MIRROR, source=source)
    states = TopicPartition(MIRROR_STATE_TOPIC_NAME, 0)
    await stage.until(f"{cluster} has a coordinator", lambda: stage.leader(cluster, states) is not None)
    if stage.leader(cluster, states) is _follower(stage, cluster):
        first = leader_of(stage, cluster)
        first.crash()
        await stage.until(f"{cluster} has another leader", lambda: stage.leader(cluster, ORDERS) not in (None, first))
        first.start()
        await stage.until("every replica is in sync", stage.is_whole)


def _cut_off_the_follower(stage: MirrorStage, cluster: str) -> None:
    leader, follower = leader_of(stage, cluster), _follower(stage, cluster)
    stage.world.network.partition([leader.name], [follower.name])
    stage.tell(f"{leader.name} and {follower.name} are cut off from each other")


async def _until_alone(stage: MirrorStage, cluster: str) -> None:
    await stage.until(f"the leader at {cluster} is alone in the ISR", lambda: len(stage.fleets[cluster].registrations()[ORDERS].isr) == 1)


async def _open_with_leaders_that_may_be_alone(stage: MirrorStage) -> None:
    stage.history.min_in_sync_replicas = 1
    await stage.open(replication_factor=2, configs=ALONE)


async def end_history(stage: MirrorStage, source: str, destination: str) -> None:
    """Heals everything, and waits until the destination equals the source."""
    await stage.settle()
    await stage.until_equal(source, destination)
    await stage.end()


async def slow_follower_at_alignment(stage: MirrorStage) -> None:
    """B's follower is alive but out of the ISR while B is aligned with A (F1).

    B is cut to nothing and gets A's records in the same local epoch; then the follower catches up.
    """
    await _open_with_leaders_that_may_be_alone(stage)
    await stage.write("a", batches=6)
    await stage.operator.create_topic("b", TOPIC, configs=ALONE, replication_factor=2, mirror_topic_id=stage.topic_id("a"))
    await stage.write("b", batches=4)
    await _keep_coordinator_from_follower(stage, "b", source="a")
    _cut_off_the_follower(stage, "b")
    await stage.write("b", batches=1)
    await _until_alone(stage, "b")
    await stage.operator.add("b", MIRROR, TOPIC)
    await stage.until_state("b", State.MIRRORING)
    await stage.until("B's leader has all of A", lambda: stage.equal("a", "b", ORDERS))
    stage.world.network.heal()
    await end_history(stage, "a", "b")


async def produce_that_waits(stage: MirrorStage) -> None:
    """An acks=all produce waits for its ISR while the topic becomes a mirror (F3).

    The high watermark of the rewritten log then passes the produce's offset.
    """
    await stage.open(replication_factor=2, config={"replica.lag.time.max.ms": "6000", "mirror.topic.replication.factor": "1"})
    await _keep_coordinator_from_follower(stage, "a", source="b")
    await stage.write("a", batches=3)
    await b_takes_over(stage)
    await stage.write("b", batches=6)
    _cut_off_the_follower(stage, "a")
    waiting = stage.clients.spawn(_produce_and_wait(stage), name="waiting-producer")
    await stage.until("the produce waits", lambda: len(stage.log("a", ORDERS) or ()) == 4)
    await stage.operator.add("a", MIRROR, TOPIC)
    await stage.until("what waits is cut", lambda: len(stage.log("a", ORDERS) or ()) == 3 or stage.equal("b", "a", ORDERS))
    stage.world.network.heal()
    await stage.until_state("a", State.MIRRORING)
    await waiting
    await end_history(stage, "b", "a")


async def _produce_and_wait(stage: MirrorStage) -> None:
    """Sends one batch to A, and waits as long as it takes to hear its fate."""
    client = stage.crowds["a"].client("patient")
    values = (f"{client.name}/0".encode(),)
    request = produce_request(ORDERS, build_batch(records_of(values, stage.clients.clock.time_ms()), base_offset=0))
    request.timeout_ms = 30_000
    response = await client.ask_leader(ORDERS, request, max_version=12, timeout_ms=30_000)
    row = response.responses[0].partition_responses[0] if response is not None else None
    if row is not None and row.error_code == Errors.NONE:
        stage.history.add(Acknowledged(stage.world.loop.now_us, LogKey("a", ORDERS), client.name, row.base_offset, values))
    stage.tell(f"the waiting produce hears {'nothing' if row is None else Errors.for_code(row.error_code).name}")


async def let_another_lead(stage: MirrorStage, cluster: str) -> None:
    """Crashes the first partition's leader and starts it again. Afterwards the leader epoch is one
    higher and all replicas are in sync.
    """
    first = leader_of(stage, cluster)
    first.crash()
    await stage.until(f"{cluster} has another leader", lambda: stage.leader(cluster, ORDERS) not in (None, first))
    first.start()
    await stage.until("every replica is in sync", stage.is_whole)


async def _fail_back_without_follower(stage: MirrorStage) -> SimServer:
    """Fails back to A while A's follower is down; returns the follower.

    Both replicas of A have their own records of epoch 1, and B has its own of epoch 1.
    """
    await _open_with_leaders_that_may_be_alone(stage)
    await stage.write("a", batches=3)
    await b_takes_over(stage)
    await let_another_lead(stage, "a")
    await stage.write("a", batches=2)
    follower = _follower(stage, "a")
    await stage.until("A's follower has it", lambda: stage.chain_of(follower) == stage.chain_of(leader_of(stage, "a")))
    follower.crash()
    stage.tell(f"{follower.name}, A's follower, is down")
    await stage.write("b", batches=8)
    await _until_alone(stage, "a")
    await stage.mirror("b", "a")
    await stage.until("A's leader has all of B", lambda: stage.equal("b", "a", ORDERS))
    return follower


async def follower_down_at_failback(stage: MirrorStage) -> None:
    """A's follower has A's own records of epoch 1 and is down during the failback (F12).

    A took the records after the failover to B. When the follower returns, it has the same epoch as
    its leader.
    """
    follower = await _fail_back_without_follower(stage)
    follower.start()
    await end_history(stage, "b", "a")


async def mirror_deleted_before_return(stage: MirrorStage) -> None:
    """A takes over and the mirror is deleted before A's follower returns (F5).

    The beginning is that of `follower_down_at_failback` (F12), but nothing says any more that the
    topic was a mirror.
    """
    follower = await _fail_back_without_follower(stage)
    await stage.fail_over("a")
    await stage.operator.delete_mirror("a", MIRROR)
    await stage.write("a", batches=1)
    follower.start()
    await stage.settle()
    await stage.end()


async def mirrors_switched_off_before_return(stage: MirrorStage) -> None:
    """mirror.version is lowered to 0 before A's follower returns (F5).

    This is the documented way back: A takes over, the mirror is deleted, and the feature is
    lowered. In half of the seeds it is raised again, and A mirrors once more.
    """
    follower = await _fail_back_without_follower(stage)
    await stage.fail_over("a")
    await stage.operator.delete_mirror("a", MIRROR)
    await stage.operator.switch_off("a")
    await stage.write("a", batches=1)
    follower.start()
    await stage.settle()
    if stage.chance(50):
        await stage.operator.switch_on("a")
        await stage.requests.start_mirror("b", "a")
        await stage.until_state("a", State.MIRRORING)
        await stage.settle()
        await stage.until_equal("b", "a")
    await stage.end()


async def silent_source_broker(stage: MirrorStage) -> None:
    """At the failback the source's leader does not answer (C6, C7).

    Once its silence was taken for "no last mirror epoch", and A was emptied.
    """
    await stage.open(replication_factor=3)
    await stage.write("a", batches=3)
    await b_takes_over(stage)
    await stage.write("b", batches=3)
    mute, asking = leader_of(stage, "b"), [server.name for server in stage.fleets["a"].brokers.values()]
    stage.world.network.partition([mute.name], asking, both_ways=False)
    stage.tell(f"nothing from {mute.name}, the source's leader, reaches A")
    began = len(stage.history.events)
    await stage.requests.start_mirror("b", "a")
    await stage.sleep_ms(4_000)
    cut = [event for event in stage.history.events[began:] if isinstance(event, Removed) and stage.history.cluster_of(event.log) == "a"]
    expect(not cut, f"nothing of A is cut, not {cut[0].batches[0] if cut else ''}")
    expect(stage.state("a", ORDERS) is State.PREPARING, "A waits in PREPARING")
    stage.world.network.heal()
    await stage.until_state("a", State.MIRRORING)
    await end_history(stage, "b", "a")


async def source_leader_behind(stage: MirrorStage) -> None:
    """At the failback the source's new leader has not heard yet that it leads (C6).

    Once its missing row was taken for "no last mirror epoch", and A was emptied.
    """
    await _open_with_leaders_that_may_be_alone(stage)
    await stage.write("a", batches=3)
    await stage.operator.create_topic("b", TOPIC, configs=ALONE, replicas={0: [2, 3]}, mirror_topic_id=stage.topic_id("a"))
    await b_takes_over(stage)
    await stage.write("b", batches=3)
    await stage.until("B's replicas are in sync", stage.is_whole)
    first, second = leader_of(stage, "b"), _follower(stage, "b")
    stage.world.network.partition([stage.fleets["b"].controller.name], [second.name], both_ways=False)
    stage.tell(f"nothing from the controller reaches {second.name}, B's follower")
    first.crash()
    await stage.until("it leads, by what the controller says", lambda: stage.leader("b", ORDERS) is second)
    began = len(stage.history.events)
    await stage.requests.start_mirror("b", "a")
    await stage.sleep_ms(1_500)
    cut = [event for event in stage.history.events[began:] if isinstance(event, Removed) and stage.history.cluster_of(event.log) == "a"]
    expect(not cut, f"nothing of A is cut, not {cut[0].batches[0] if cut else ''}")
    stage.world.network.heal()
    first.start()
    await stage.until_state("a", State.MIRRORING)
    await end_history(stage, "b", "a")


async def epochs_above_ours(stage: MirrorStage) -> None:
    """A's leader changes again and again, and B's does not (C36).

    B's followers must take batches of epochs that B has not reached.
    """
    await stage.open(replication_factor=3)
    await stage.mirror("a", "b")
    for _ in range(2):
        first = leader_of(stage, "a")
        first.crash()
        await stage.until("A has another leader", lambda: stage.leader("a", ORDERS) not in (None, first))  # noqa: B023 - awaited here
        first.start()
        await stage.write("a", batches=1)
    await end_history(stage, "a", "b")


async def late_offset_sync(stage: MirrorStage) -> None:
    """The source's answer with a group's offsets comes after the failover (C18).

    By then the group has gone on at B and has left again.
    """
    await stage.open(replication_factor=3)
    await stage.write("a", batches=3)
    await stage.mirror("a", "b")
    at_a, at_b = stage.crowds["a"], stage.crowds["b"]
    at_a.start_member()
    await stage.until("B has all of A", lambda: stage.equal("a", "b", ORDERS))
    await stage.until("the group has read it", lambda: _has_committed(stage, "a", 1))
    await stage.until_group_is_synced("a", "b")
    await stage.write("a", batches=2)
    await stage.until("the group has read that, too", lambda: _has_committed(stage, "a", 2))
    at_a.crash_members()
    for theirs in stage.fleets["a"].brokers:
        for ours in stage.fleets["b"].brokers:
            stage.world.network.links.set(theirs, ours, FAR)
    await stage.sleep_ms(stage.between(1_000, 3_000))
    await stage.fail_over("b")
    await stage.write("b", batches=3)
    at_b.start_member()
    await stage.until("the group goes on at B", lambda: _has_committed(stage, "b", 1))
    await at_b.dismiss_members()
    await stage.sleep_ms(4_000)
    at_b.start_member()
    await stage.sleep_ms(2_000)
    await stage.settle()
    await stage.end()


async def transaction_open_at_failback(stage: MirrorStage) -> None:
    """A transaction is open at A when A becomes the mirror (C41).

    Once its marker was refused, and the transactional id was never free again.
    """
    await stage.open(replication_factor=3)
    await stage.write("a", batches=3)
    await b_takes_over(stage)
    await stage.write("b", batches=2)
    first = TransactionalProducer(stage.crowds["a"].client("first"), "a/pay", 0, [ORDERS], stage.history)
    expect(await first.init() and await first.write(ORDERS, (b"a/pay/0/1",)), "A has an open transaction")
    await stage.mirror("b", "a")
    began = len(stage.history.events)
    stage.crowds["a"].start_transactions("pay").writing = False
    await stage.until(
        "the transactional id has another producer", lambda: any(isinstance(event, InstanceBegan) for event in stage.history.events[began:])
    )
    await end_history(stage, "b", "a")


async def topic_deleted_at_the_mirror(stage: MirrorStage) -> None:
    """B's topic cannot be deleted while it mirrors, and can once it is stopped (B30, D3-34).

    After the deletion B knows nothing of it any more, and an add brings the topic back empty.
    """
    await stage.open(replication_factor=3)
    await stage.write("a", batches=3)
    await stage.mirror("a", "b")
    await stage.until("B has all of A", lambda: stage.equal("a", "b", ORDERS))
    (operator,) = stage.requests.operators("a", "b", "operator-1")
    if await operator.attempt(DELETE_TOPIC) != Errors.NONE.name:
        await stage.fail_over("b")
        await stage.write("b", batches=2)
        await stage.requests.delete_topic("b")
        await stage.until("B's last mirror epoch is forgotten", lambda: _last_mirror_epoch(stage, "b") == NO_EPOCH)
    await stage.sleep_ms(stage.between(1_000, 4_000))
    await stage.mirror("a", "b")
    await end_history(stage, "a", "b")


def _last_mirror_epoch(stage: MirrorStage, cluster: str) -> int | None:
    """Returns the last mirror epoch that the leader of `__mirror_state` stored last; None if there
    is none, or no leader.
    """
    leader = stage.leader(cluster, TopicPartition(MIRROR_STATE_TOPIC_NAME, 0))
    records = leader.watch.stored_states()[1] if leader is not None else []
    epochs = [record.epoch for record in records if isinstance(record, LastMirrorEpochWritten) and record.log.partition == ORDERS]
    return epochs[-1] if epochs else None


def _has_committed(stage: MirrorStage, cluster: str, times: int) -> bool:
    return sum(isinstance(event, OffsetCommitted) and event.cluster == cluster for event in stage.history.events) >= times


CALM = Setting(MirrorStage, check_mirrors)
REPLICA_HISTORIES: dict[str, tuple[HistoryFunction, Setting]] = {
    "slow_follower_at_alignment": (slow_follower_at_alignment, CALM),
    "produce_that_waits": (produce_that_waits, CALM),
    "follower_down_at_failback": (follower_down_at_failback, CALM),
    "mirror_deleted_before_return": (mirror_deleted_before_return, CALM),
    "mirrors_switched_off_before_return": (mirrors_switched_off_before_return, CALM),
    "source_leader_behind": (source_leader_behind, CALM),
    "epochs_above_ours": (epochs_above_ours, CALM),
    "silent_source_broker": (silent_source_broker, CALM),
    "transaction_open_at_failback": (transaction_open_at_failback, CALM),
    "late_offset_sync": (late_offset_sync, CALM),
    "topic_deleted_at_the_mirror": (topic_deleted_at_the_mirror, CALM),
}
