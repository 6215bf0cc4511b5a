"""Named histories of a compacted topic that keeps its tombstones for less time than a mirror, or a
follower, is away.

Each is an `async def (stage)` as in `sim.histories.replicas`. The rule "keys" is in
`sim.fleet_keys`.
"""

from __future__ import annotations

from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.sim.fleet_keys import CLEANING, COMPACTED, KEYED, KeyedWriter, keyed_records, last_offset, read_keys
from kmirror.sim.histories.replicas import leader_of
from kmirror.sim.mirror_checkers import check_mirrors
from kmirror.sim.mirror_stage import MirrorStage
from kmirror.sim.run import HistoryFunction, Setting
from kmirror.sim.server import SimServer
from kmirror.sim.stage import MIRROR, expect

GONE = b"customer"
KEPT = tuple(b"kept-%d" % number for number in range(8))
"""Written once, between the key's value and its tombstone. Here a log that was cleaned and one that
was not are equal.
"""
OTHERS = (b"x", b"y")
ROUNDS = 40
NEVER_MS, SELDOM_MS = 600_000, 1_500


async def _open(stage: MirrorStage, *, backoff_ms: int) -> KeyedWriter:
    """Opens the stage; B's cleaners wait `backoff_ms` between two looks. The replica that was away
    must still have the key's value when it comes back.
    """
    await stage.open(replication_factor=3, config=CLEANING, own_config={"b": {"log.cleaner.backoff.ms": str(backoff_ms)}})
    await stage.operator.create_topic("a", KEYED.topic, 1, COMPACTED, replication_factor=3)
    return KeyedWriter(stage.crowds["a"].client("keyed"), stage.history)


async def _write(stage: MirrorStage, writer: KeyedWriter, key: bytes, *, deleted: bool = False) -> None:
    for _ in range(ROUNDS):
        if await writer.write(key, deleted=deleted):
            return
        await stage.sleep_ms(100)
    expect(False, f"a write of {key.decode()} is taken")


async def _mirror(stage: MirrorStage) -> None:
    await stage.operator.create_mirror("b", MIRROR, source="a")
    await stage.operator.add("b", MIRROR, KEYED.topic)
    await stage.until(f"{KEYED} is mirrored", lambda: stage.state("b", KEYED) is State.MIRRORING)


def _has(server: SimServer, key: bytes) -> bool:
    return any(found == key for _, found, _ in keyed_records(server))


async def _clean_until_gone(stage: MirrorStage, writer: KeyedWriter, cluster: str) -> None:
    """Writes other keys again and again, until that cluster's leader has no trace of the deleted
    key.
    """
    for _ in range(ROUNDS):
        for key in OTHERS:
            await _write(stage, writer, key)
        await stage.sleep_ms(200)
        leader = stage.leader(cluster, KEYED)
        if leader is not None and not _has(leader, GONE):
            stage.tell(f"{leader.name} has cleaned away the tombstone of {GONE.decode()}")
            return
    expect(False, f"{cluster} cleans away the tombstone")


def _level(stage: MirrorStage) -> bool:
    theirs, ours = stage.leader("a", KEYED), stage.leader("b", KEYED)
    return theirs is not None and ours is not None and last_offset(theirs) == last_offset(ours)


def _is_everywhere(stage: MirrorStage, cluster: str) -> bool:
    """Whether each replica has the leader's last record. One in sync may lack it for a moment."""
    leader, fleet = stage.leader(cluster, KEYED), stage.fleets[cluster]
    replicas = [fleet.broker_named(number) for number in fleet.registrations()[KEYED].replicas]
    return leader is not None and {last_offset(replica) for replica in replicas} == {last_offset(leader)}


async def _end(stage: MirrorStage) -> None:
    await stage.settle()
    await stage.until("B has all keys of A", lambda: _level(stage))
    await stage.sleep_ms(1_500)
    await stage.end()
    for fleet in stage.fleets.values():
        servers = [fleet.broker_named(replica) for replica in fleet.registrations()[KEYED].isr]
        read_keys(stage.history, stage.world.loop.now_us, servers, written_to="a")


async def compacted_mirror_paused_long(stage: MirrorStage) -> None:
    """B is paused for longer than A keeps tombstones.

    A key that was deleted at A, and at B, does not come back.
    """
    writer = await _open(stage, backoff_ms=NEVER_MS)
    for key in (GONE, *OTHERS, *KEPT):
        await _write(stage, writer, key)
    await _write(stage, writer, GONE, deleted=True)
    await _write(stage, writer, OTHERS[0])
    await _mirror(stage)
    await stage.until("B has all keys of A", lambda: _level(stage))
    await stage.operator.pause("b", MIRROR, KEYED.topic)
    await stage.until("B is paused", lambda: stage.state("b", KEYED) is State.PAUSED)
    await _clean_until_gone(stage, writer, "a")
    await stage.operator.resume("b", MIRROR, KEYED.topic)
    await stage.until(f"{KEYED} is mirrored", lambda: stage.state("b", KEYED) is State.MIRRORING)
    await _end(stage)


async def compacted_follower_away_long(stage: MirrorStage) -> None:
    """A follower of a compacted mirror is down for longer than tombstones are kept.

    The key that it saw deleted does not come back.
    """
    writer = await _open(stage, backoff_ms=SELDOM_MS)
    for key in (GONE, *OTHERS, *KEPT):
        await _write(stage, writer, key)
    await _mirror(stage)
    await _write(stage, writer, GONE, deleted=True)
    await _write(stage, writer, OTHERS[0])
    fleet = stage.fleets["b"]
    await stage.until("every replica at B has all keys of A", lambda: _level(stage) and _is_everywhere(stage, "b"))
    await stage.until("every replica is in sync", stage.is_whole)
    leader = leader_of(stage, "b", KEYED)
    follower = next(fleet.broker_named(number) for number in fleet.registrations()[KEYED].isr if fleet.broker_named(number) is not leader)
    follower.crash()
    stage.tell(f"{follower.name}, a follower at B, is down")
    await _clean_until_gone(stage, writer, "b")
    follower.start()
    await _end(stage)


CALM = Setting(MirrorStage, check_mirrors)
COMPACTION_HISTORIES: dict[str, tuple[HistoryFunction, Setting]] = {
    "compacted_mirror_paused_long": (compacted_mirror_paused_long, CALM),
    "compacted_follower_away_long": (compacted_follower_away_long, CALM),
}
