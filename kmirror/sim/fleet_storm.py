"""The histories of one fleet: three brokers and a controller with all kinds of clients and faults.
At the end everything heals, and all rules of `fleet_checkers` must hold.

    clients   a plain and an idempotent producer (of new records, or of some that are two days old)
              and two transactional ids write to a topic of RF 3 and min.insync.replicas 2;
              successors fence transactional producers, which live on as zombies; readers use both isolation levels; members of a
              KIP-848 group come, go and crash
    faults    crashes, power cuts, network partitions, connection resets, pauses
    end       writers stop, faults end, and every replica is in sync

Which faults may coincide is said in `sim.fleet`.
"""

from __future__ import annotations

from typing import Final

from kmirror.sim.faults import FaultRates
from kmirror.sim.fleet_checkers import check_fleet
from kmirror.sim.fleet_stage import FleetStage
from kmirror.sim.run import HistoryFunction, Setting

TWO_DAYS_MS: Final = 2 * 86_400_000
CHECKED_MS: Final = 35_000
"""Longer than the delay of the log manager's first tasks, and than the interval of the checks for
idle producers (`sim.fleet`)."""


async def brokers(stage: FleetStage) -> None:
    """Three brokers with producers of all kinds, readers and a group, under faults of all kinds;
    everything that was acknowledged is there in the end.
    """
    await stage.open(stage.between(1, 3))
    stage.crowd.start_producer(idempotent=False)
    stage.crowd.start_producer(idempotent=True, records_age_ms=stage.chance(50) * TWO_DAYS_MS)
    stage.crowd.start_readers(False, True)
    for transactional_id in ("pay", "ship")[: stage.between(1, 2)]:
        stage.crowd.start_transactions(transactional_id)
    for _ in range(stage.between(1, 3)):
        stage.crowd.start_member()
    stage.faults.active = True
    for _ in range(stage.between(2, 5)):
        await stage.sleep_ms(stage.between(400, 1_500))
        if stage.chance(50):
            stage.crowd.start_transactions("pay")
        if stage.chance(50):
            await _member_comes_or_goes(stage)
    await stage.heal()


async def _member_comes_or_goes(stage: FleetStage) -> None:
    if len(stage.crowd.members) < 2 or stage.chance(50):
        stage.crowd.start_member()
        return
    member = stage.crowd.members.pop(stage.random.randrange(len(stage.crowd.members)))
    if stage.chance(50):
        await member.leave()
    else:
        member.consuming = False


async def _leader(stage: FleetStage) -> str:
    """Returns the name of the broker that leads the first partition."""
    return stage.fleet.broker_named(stage.fleet.registrations()[stage.partitions[0]].leader).name


async def lone_leader(stage: FleetStage) -> None:
    """The followers leave the ISR, and then the leader loses power; what it appended alone must not
    have been acknowledged (min.insync.replicas).
    """
    await stage.open(1)
    producer = stage.crowd.start_producer(idempotent=True)
    await stage.sleep_ms(400)
    leader = await _leader(stage)
    followers = [server.name for server in stage.fleet.brokers.values() if server.name != leader]
    stage.world.network.partition([leader], followers)
    stage.tell(f"{leader}, the leader, and its followers do not reach each other")
    await stage.until("the leader is alone in the ISR", lambda: len(stage.fleet.registrations()[stage.partitions[0]].isr) == 1)
    await stage.sleep_ms(1_000)
    producer.writing = False
    await stage.sleep_ms(500)
    stage.fleet.brokers[leader].lose_power()
    stage.world.network.heal()
    await stage.until("another one leads", lambda: stage.fleet.registrations()[stage.partitions[0]].leader not in (-1, int(leader[1:])))
    stage.fleet.brokers[leader].start()
    await stage.heal()


async def deposed_leader(stage: FleetStage) -> None:
    """A leader that no other node reaches appends records that are never replicated; when it comes
    back as a follower, it must cut them by their epochs (KIP-101).
    """
    await stage.open(1)
    producer = stage.crowd.start_producer(idempotent=False)
    await stage.sleep_ms(400)
    leader = await _leader(stage)
    others = [server.name for server in stage.fleet.servers if server.name != leader]
    stage.world.network.partition([leader], others)
    stage.tell(f"{leader}, the leader, is cut off from the other nodes, not from clients")
    await stage.until("another one leads", lambda: stage.fleet.registrations()[stage.partitions[0]].leader != int(leader[1:]))
    await stage.sleep_ms(1_500)
    producer.writing = False
    stage.world.network.heal()
    await stage.heal()


async def successors(stage: FleetStage) -> None:
    """Producers of one transactional id replace each other while the old ones go on as zombies, and
    readers of both isolation levels read along.
    """
    await stage.open(2)
    stage.crowd.start_readers(False, True)
    for _ in range(4):
        stage.crowd.start_transactions("pay")
        await stage.sleep_ms(500)
    await stage.heal()


async def old_records(stage: FleetStage) -> None:
    """A producer of records that are two days old sends a batch again: after the brokers were
    killed, and after the checks for idle producers that follow.
    """
    await stage.open(1)
    producer = stage.crowd.start_producer(idempotent=True, records_age_ms=TWO_DAYS_MS)
    await stage.until("the producer has written", lambda: producer.last_sent is not None)
    await stage.sleep_ms(400)
    stage.crowd.write(writing=False)
    await stage.sleep_ms(1_500)
    for server in stage.fleet.brokers.values():
        server.crash()
        server.start()
        await server.wait_started()
    for pause_ms in (0, CHECKED_MS, CHECKED_MS):
        await stage.sleep_ms(pause_ms)
        await producer.send_again()
    await stage.heal()


CALM = Setting(FleetStage, check_fleet)
STORM = Setting(FleetStage, check_fleet, FaultRates.storm(node_pause=2, min_pause_ms=200, max_pause_ms=1_000))
FLEET_HISTORIES: dict[str, tuple[HistoryFunction, Setting]] = {
    "brokers": (brokers, STORM),
    "brokers_calm": (brokers, CALM),
    "lone_leader": (lone_leader, CALM),
    "deposed_leader": (deposed_leader, CALM),
    "successors": (successors, CALM),
    "old_records": (old_records, CALM),
}
