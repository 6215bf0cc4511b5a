"""Histories in which a mirror becomes writable while its node dies, while a transaction is open, or
when its state is lost or stale.

Clusters have one node each. Each history is an `async def (stage)` as in `alignment`.
`crash_while_stopping` plays a leader change in STOPPING (F17), as far as one node can: the new
leader is the same node in its next life. `stale_coordinator` fakes the old coordinator's answer
(F19), because brokers that learn of the new leader and the new coordinator from one metadata log do
not ask the old one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kmirror.mirror.coordination.mirror_coordinator_shard import StoredState
from kmirror.mirror.coordination.mirror_partition_id import MirrorPartitionId
from kmirror.mirror.coordination.mirror_state_client import MirrorStateClient
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.network.client import NetworkClient
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.sim.ablations import replaced
from kmirror.sim.cluster import PORT
from kmirror.sim.events import Acknowledged, LogKey, StateLost, StateWritten
from kmirror.sim.fleet_clients import produce_request
from kmirror.sim.histories.single_nodes import ONE_BATCH_A_FETCH, PARTITIONS, begin, fail_back, mirrored, restart
from kmirror.sim.run import HistoryFunction, Setting
from kmirror.sim.runtime import EPOCH_MS
from kmirror.sim.server import DATA_DIR
from kmirror.sim.stage import MIRROR, ORDERS, TOPIC, expect
from kmirror.sim.storm import CALM, Stage


async def restart_right_after_add(stage: Stage) -> None:
    """The leader changes right after the topic was added (F8).

    Once the partition stayed STOPPED for ever.
    """
    await mirrored(stage)
    await stage.fail_over("b", PARTITIONS)
    await stage.write(stage.producer("more", PARTITIONS), ORDERS, cluster="a", batches=2)
    await stage.operator.add("b", MIRROR, TOPIC)
    await stage.sleep_ms(stage.between(0, 20))
    _end_by_seed(stage, "b")
    stage.cluster("b").start()
    await stage.until_state("b", PARTITIONS, State.MIRRORING)
    await stage.until_equal("a", "b", PARTITIONS)


async def power_loss_after_stopped(stage: Stage) -> None:
    """The only replica of `__mirror_state` loses its power after STOPPED (F9).

    Once STOPPED was lost with it: stopping (D4) ran again and cut acknowledged records.
    """
    await mirrored(stage)
    await stage.fail_over("b", PARTITIONS)
    writer = stage.producer("second", PARTITIONS)
    await stage.write(writer, ORDERS, cluster="b", batches=3)
    stage.transaction("b", ORDERS, producer_id=900_001)
    await stage.write(writer, ORDERS, cluster="b", batches=2)
    stage.cluster("b").lose_power()
    stage.cluster("b").start()
    await stage.cluster("b").wait_started()
    await stage.sleep_ms(2_000)
    lost = [event for event in stage.history.events if isinstance(event, StateLost)]
    expect(not lost, "no state that was acted on is lost")
    stopping = [event for event in stage.history.events if isinstance(event, StateWritten) and event.state is State.STOPPING]
    expect(len(stopping) == 1, "D4 is not entered again")
    await stage.write(stage.producer("third", PARTITIONS), ORDERS, cluster="b", batches=1)


async def paused_without_state(stage: Stage) -> None:
    """A broker becomes leader of a topic in `X.paused` that has no stored state (F10).

    Once there was no transition for it.
    """
    await mirrored(stage)
    await stage.operator.pause("b", MIRROR, TOPIC)
    await stage.until_state("b", PARTITIONS, State.PAUSED)
    stage.cluster("b").crash()
    _lose_folder(stage, "b", "__mirror_state-0")
    stage.cluster("b").start()
    await stage.until_state("b", PARTITIONS, State.PAUSED)
    await stage.write(stage.producer("more", PARTITIONS), ORDERS, cluster="a", batches=1)
    await stage.operator.resume("b", MIRROR, TOPIC)
    await stage.until_equal("a", "b", PARTITIONS)


async def local_transaction_open_at_readd(stage: Stage) -> None:
    """B is STOPPED with an open transaction of its own when the topic is added again (F14).

    A is away, and the topic is removed again. Once B was then STOPPED with a hanging transaction.
    """
    await mirrored(stage)
    await stage.fail_over("b", PARTITIONS)
    await stage.sleep_ms(100)
    stage.transaction("b", ORDERS, producer_id=900_001)
    await stage.operator.add("b", MIRROR, TOPIC)
    await stage.until_state("b", PARTITIONS, State.PREPARING)
    stage.cluster("a").crash()
    await stage.fail_over("b", PARTITIONS)


async def crash_while_stopping(stage: Stage) -> None:
    """The node dies again and again, at any step of STOPPING (D4, F15, F17).

    The tail above the LSO is cut, and the epoch bump must not forget the tail's epoch.
    """
    await begin(stage, config=ONE_BATCH_A_FETCH)
    for _ in range(2):
        await restart(stage, "a")
        await stage.write(stage.producer("again", PARTITIONS), ORDERS, cluster="a", batches=1)
    await restart(stage, "a")
    await _mirror_interleaved_transactions_partly(stage)
    await stage.operator.remove("b", MIRROR, TOPIC)
    for _ in range(4):
        await stage.until_state("b", PARTITIONS, State.STOPPING, State.STOPPED)
        await stage.sleep_ms(stage.between(0, 60))
        _end_by_seed(stage, "b")
        stage.cluster("b").start()
        await stage.cluster("b").wait_started()
    await stage.until_state("b", PARTITIONS, State.STOPPED)
    stage.cluster("a").start()
    await stage.sleep_ms(1_000)
    await stage.write(stage.producer("second", PARTITIONS), ORDERS, cluster="b", batches=2)
    await fail_back(stage)


async def crash_after_the_cut(stage: Stage) -> None:
    """The node dies when the tail has been cut, which held the only batches of their epoch (F15).

    An epoch that was not bumped before the cut is bumped too low after it.
    """
    await begin(stage, config=ONE_BATCH_A_FETCH)
    for _ in range(3):
        await restart(stage, "a")
    await _mirror_interleaved_transactions_partly(stage)
    count = len(stage.log("b", ORDERS))
    await stage.operator.remove("b", MIRROR, TOPIC)
    await stage.until("the tail is cut", lambda: len(stage.log("b", ORDERS)) < count)
    stage.cluster("b").crash()
    stage.cluster("b").start()
    await stage.until_state("b", PARTITIONS, State.STOPPED)
    stage.cluster("a").start()
    await stage.sleep_ms(500)
    await stage.write(stage.producer("second", PARTITIONS), ORDERS, cluster="b", batches=2)
    await fail_back(stage)


async def reset_lost(stage: Stage) -> None:
    """The disk loses the reset after STOPPED (F18).

    Once old producers were alive again, and a transaction that had been cut stayed open for ever.
    """
    await mirrored(stage)
    await stage.fail_over("b", PARTITIONS)
    stage.cluster("b").crash()
    _cut_last_batch(stage, "b")
    stage.cluster("b").start()
    await stage.until(
        "there is a reset again", lambda: bool(stage.log("b", ORDERS)) and stage.log("b", ORDERS)[-1].reset_source is not None
    )
    await stage.sleep_ms(500)
    await stage.write(stage.producer("second", PARTITIONS), ORDERS, cluster="b", batches=2)


async def open_transactions(stage: Stage) -> None:
    """B fails over between a transaction and its marker.

    B cuts the transaction and what is interleaved with it, until no marker is left without its
    transaction (C2).
    """
    await begin(stage, config=ONE_BATCH_A_FETCH)
    await _mirror_interleaved_transactions_partly(stage)
    await stage.fail_over("b", PARTITIONS)
    await stage.write(stage.producer("second", PARTITIONS), ORDERS, cluster="b", batches=2)
    stage.cluster("a").start()
    await stage.cluster("a").wait_started()
    await fail_back(stage)


async def _mirror_interleaved_transactions_partly(stage: Stage) -> None:
    """Two transactions interleave: the second begins before the first is committed. B gets
    everything but the last marker, and then A dies.
    """
    stage.transaction("a", ORDERS, producer_id=900_001)
    stage.transaction("a", ORDERS, producer_id=900_001)
    stage.transaction("a", ORDERS, producer_id=900_002)
    stage.end_transaction("a", ORDERS, producer_id=900_001, commit=True)
    stage.end_transaction("a", ORDERS, producer_id=900_002, commit=True)
    count = len(stage.log("a", ORDERS))
    await stage.operator.create_mirror("b", MIRROR, source="a")
    await stage.operator.add("b", MIRROR, TOPIC)
    await stage.until("B has all but the last marker", lambda: len(stage.log("b", ORDERS)) == count - 1)
    stage.cluster("a").crash()


async def stale_coordinator(stage: Stage) -> None:
    """After a leader change an isolated old coordinator calls a STOPPED partition STOPPING (F19).

    Once stopping (D4) ran again and cut local records.
    """
    await mirrored(stage)
    await stage.fail_over("b", PARTITIONS)
    await stage.sleep_ms(100)
    writer = stage.producer("second", PARTITIONS)
    stage.transaction("b", ORDERS, producer_id=900_001)
    await stage.write(writer, ORDERS, cluster="b", batches=3)
    stage.cluster("b").crash()
    answers: list[State] = [State.STOPPING]

    def stale(read_one: Any) -> Any:
        async def ask(self: MirrorStateClient, partition: MirrorPartitionId) -> StoredState:
            stored: StoredState = await read_one(self, partition)
            return replace(stored, state=answers.pop()) if answers and stored.state is State.STOPPED else stored

        return ask

    with replaced(MirrorStateClient, "read_one", stale):
        stage.cluster("b").start()
        await stage.until("the old coordinator was asked", lambda: not answers)
        stage.tell("the old coordinator says STOPPING")
        await stage.cluster("b").wait_started()
        await stage.sleep_ms(1_000)
    stage.end_transaction("b", ORDERS, producer_id=900_001, commit=True)
    await stage.write(writer, ORDERS, cluster="b", batches=1)


async def old_producer_after_reset(stage: Stage) -> None:
    """After a failover and a crash, a producer of A sends its last sequence number to B (C10).

    The batch is no duplicate, since the reset cleared the producer's state.
    """
    await begin(stage, batches=1)
    expect(await _write_with_id(stage, "a", b"a/old/0", producer_id=7, sequence=0), "A takes the producer's first batch")
    await stage.mirror("a", "b", PARTITIONS)
    await stage.until_equal("a", "b", PARTITIONS)
    await stage.fail_over("b", PARTITIONS)
    await restart(stage, "b")
    await stage.write(stage.producer("second", PARTITIONS), ORDERS, cluster="b", batches=1)
    await _write_with_id(stage, "b", b"b/old/0", producer_id=7, sequence=0)


async def _write_with_id(stage: Stage, name: str, value: bytes, *, producer_id: int, sequence: int) -> bool:
    """Sends a batch of one record; returns whether it was acknowledged."""
    batch = build_batch(
        [Record(0, EPOCH_MS, None, value, [])], base_offset=0, producer_id=producer_id, producer_epoch=0, base_sequence=sequence
    )
    client = NetworkClient(stage.clients, "old")
    response = await client.send(name, PORT, produce_request(ORDERS, batch), timeout_ms=1_500, max_version=12)
    row = response.responses[0].partition_responses[0]
    if row.error_code == 0:
        stage.history.add(Acknowledged(stage.world.loop.now_us, LogKey(name, ORDERS), "old", row.base_offset, (value,)))
    return bool(row.error_code == 0)


async def torn_tail(stage: Stage) -> None:
    """Both clusters lose their power under load, again and again.

    Recovery cuts what is torn, and the mirror goes on from there.
    """
    await begin(stage)
    stage.start_clients(PARTITIONS)
    await stage.mirror("a", "b", PARTITIONS)
    for _ in range(3):
        await stage.sleep_ms(stage.between(200, 600))
        for name in ("a", "b"):
            stage.cluster(name).lose_power()
            stage.cluster(name).start()
        for name in ("a", "b"):
            await stage.cluster(name).wait_started()
    stage.target.writing = False
    await stage.sleep_ms(2_000)
    await stage.until_equal("a", "b", PARTITIONS)


def _end_by_seed(stage: Stage, name: str) -> None:
    cluster = stage.cluster(name)
    if stage.chance(50):
        cluster.lose_power()
    else:
        cluster.crash()


def _lose_folder(stage: Stage, name: str, folder: str) -> None:
    """The disk of a dead node loses a partition's folder."""
    cluster = stage.cluster(name)
    cluster.node.disk.attach()
    cluster.node.disk.remove_tree(f"{DATA_DIR}/{folder}")
    for partition, (mirror_name, _) in cluster.watch.states.items():
        stage.history.add(StateLost(stage.world.loop.now_us, LogKey(name, partition), mirror_name, None))
    cluster.watch.states.clear()
    stage.tell(f"the disk of {name} loses {folder}")


def _cut_last_batch(stage: Stage, name: str) -> None:
    """The disk of a dead node loses the last batch of the log."""
    cluster = stage.cluster(name)
    last = stage.log(name, ORDERS)[-1]
    cluster.node.disk.attach()
    file = cluster.node.disk.open(last.path)
    file.truncate(last.position)
    file.close()
    stage.tell(f"the disk of {name} loses {last}")


FAILOVER_HISTORIES: dict[str, tuple[HistoryFunction, Setting]] = {
    "restart_right_after_add": (restart_right_after_add, CALM),
    "power_loss_after_stopped": (power_loss_after_stopped, CALM),
    "paused_without_state": (paused_without_state, CALM),
    "local_transaction_open_at_readd": (local_transaction_open_at_readd, CALM),
    "crash_while_stopping": (crash_while_stopping, CALM),
    "crash_after_the_cut": (crash_after_the_cut, CALM),
    "reset_lost": (reset_lost, CALM),
    "open_transactions": (open_transactions, CALM),
    "stale_coordinator": (stale_coordinator, CALM),
    "old_producer_after_reset": (old_producer_after_reset, CALM),
    "torn_tail": (torn_tail, CALM),
}
