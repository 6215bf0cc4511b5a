"""Histories with a name: the disasters of section F that clusters of one node can have, and those that show what a safeguard is for.

Each is an `async def (stage)`; it may draw from the stage's seed. The docstring says what went wrong in an earlier draft of
the rules, or in another implementation. What the checkers cannot see is stated with `expect`.

Those that need a second replica or a second source broker (F1, F3, F5, F12) are in `sim.mirror_histories`. F17 (leader change in STOPPING)
is `crash_while_stopping`, as far as the leader that changes can be the same node. Of F19 the old coordinator's answer is put in, for brokers
that learn of a new leader and a new coordinator from one log of metadata do not ask the old one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.mirror_coordinator import MirrorPartitionId
from kmirror.mirror.mirror_coordinator_shard import StoredState
from kmirror.mirror.mirror_state_client import MirrorStateClient
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.network.client import NetworkClient
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.sim.ablations import replaced
from kmirror.sim.cluster import PORT
from kmirror.sim.fleet_clients import produce_request
from kmirror.sim.history import Acknowledged, LastMirrorEpochWritten, LogKey, Removed, StateLost, StateWritten
from kmirror.sim.run import HistoryFunction, Setting
from kmirror.sim.runtime import EPOCH_MS
from kmirror.sim.server import DATA_DIR
from kmirror.sim.storm import CALM, MIRROR, TOPIC, Stage
from kmirror.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic

ONE_BATCH_A_FETCH = {"replica.fetch.max.bytes": "1", "replica.fetch.response.max.bytes": "1"}
"""A mirror fetches below the source's LSO only; so a marker is missing only when the fetch that brings it does not come."""
ORDERS = TopicPartition(TOPIC, 0)
PARTITIONS = [ORDERS]


def expect(condition: bool, what: str) -> None:
    """KmirrorError (a violation of "progress") unless it holds."""
    if not condition:
        raise KmirrorError(f"expected: {what}")


async def _begin(stage: Stage, *, batches: int = 4, clusters: tuple[str, ...] = ("a", "b"), config: dict[str, str] | None = None) -> None:
    """A has the topic and some batches of three records."""
    await stage.open(clusters, config=config)
    await stage.operator.create_topic("a", TOPIC)
    await stage.write(stage.producer("first", PARTITIONS), ORDERS, cluster="a", batches=batches, count=3)


async def _mirrored(stage: Stage, *, batches: int = 4) -> None:
    """... and B mirrors all of them."""
    await _begin(stage, batches=batches)
    await stage.mirror("a", "b", PARTITIONS)
    await stage.until_equal("a", "b", PARTITIONS)


async def _fail_back(stage: Stage) -> None:
    """A mirrors B until both are equal."""
    await stage.mirror("b", "a", PARTITIONS)
    await stage.until_equal("b", "a", PARTITIONS)


async def clean_failback(stage: Stage) -> None:
    """Failover, writes on B, failback, switch back: nothing is lost, for nothing lagged."""
    await _mirrored(stage)
    await stage.fail_over("b", PARTITIONS)
    await stage.write(stage.producer("second", PARTITIONS, idempotent=True), ORDERS, cluster="b", batches=3)
    await _fail_back(stage)
    await stage.fail_over("a", PARTITIONS)
    await stage.write(stage.producer("third", PARTITIONS), ORDERS, cluster="a", batches=2)
    expect(not any(isinstance(event, Removed) for event in stage.history.events), "no batch is removed anywhere")


async def _both_wrote_in_one_epoch(stage: Stage) -> None:
    """B fails over; then both have an epoch 2 of their own, A with a batch at 12..14, B with its reset at 12."""
    await _mirrored(stage)
    await _restart(stage, "b")
    await stage.until("B leads and mirrors again", lambda: stage.state("b", ORDERS) is State.MIRRORING)
    stage.cluster("a").crash()
    await stage.fail_over("b", PARTITIONS)
    stage.cluster("a").start()
    await stage.cluster("a").wait_started()
    await stage.write(stage.producer("stale", PARTITIONS), ORDERS, cluster="a", batches=1, count=3)


async def both_wrote(stage: Stage) -> None:
    """A wrote on after B took over, in an epoch of the same number: its records are cut at failback, and B's take their place."""
    await _both_wrote_in_one_epoch(stage)
    await stage.write(stage.producer("second", PARTITIONS), ORDERS, cluster="b", batches=4, count=2)
    await _fail_back(stage)


async def divergence_inside_a_batch(stage: Stage) -> None:
    """F2: the point where the logs part lies inside a batch of A; the whole batch goes, and no gap is left at lag 0."""
    await _both_wrote_in_one_epoch(stage)
    await stage.write(stage.producer("stale too", PARTITIONS), ORDERS, cluster="a", batches=1, count=3)
    await stage.write(stage.producer("second", PARTITIONS), ORDERS, cluster="b", batches=3, count=1)
    await _restart(stage, "b")
    await stage.write(stage.producer("third", PARTITIONS), ORDERS, cluster="b", batches=3, count=2)
    await _fail_back(stage)


async def mirror_loop(stage: Stage) -> None:
    """F4: B mirrors A under one name, A is told to mirror B under another; both logs ended empty."""
    await _mirrored(stage)
    await stage.operator.create_mirror("a", "other", source="b")
    await stage.operator.add("a", "other", TOPIC)
    await stage.sleep_ms(5_000)
    expect(stage.state("a", ORDERS) is State.PREPARING, "A waits in PREPARING")
    expect(len(stage.log("a", ORDERS)) == 4, "A's log is untouched")
    expect(len(stage.log("b", ORDERS)) == 4, "B's log is untouched")


async def removed_before_mirroring(stage: Stage) -> None:
    """F6: B is added and removed again before it mirrors; B's own epoch was stored as last mirror epoch."""
    await _mirrored(stage)
    await stage.fail_over("b", PARTITIONS)
    await stage.write(stage.producer("second", PARTITIONS), ORDERS, cluster="b", batches=2)
    await stage.operator.add("b", MIRROR, TOPIC)
    await stage.until_state("b", PARTITIONS, State.PREPARING)
    stage.cluster("a").crash()
    await stage.sleep_ms(stage.between(0, 400))
    await stage.fail_over("b", PARTITIONS)
    epochs = [event.epoch for event in stage.history.events if isinstance(event, LastMirrorEpochWritten) and event.log.cluster == "b"]
    expect(not epochs or set(epochs) == {0}, f"B's last mirror epoch stays A's epoch 0, not {epochs}")
    stage.cluster("a").start()
    await stage.cluster("a").wait_started()
    await stage.write(stage.producer("stale", PARTITIONS), ORDERS, cluster="a", batches=1)
    await _fail_back(stage)


async def chain(stage: Stage) -> None:
    """F7: A → B → C; after an epoch change at A, B serves batches of epochs above its own, and C dropped them for ever."""
    await _begin(stage, clusters=("a", "b", "c"))
    await stage.mirror("a", "b", PARTITIONS)
    await stage.mirror("b", "c", PARTITIONS, name="next")
    await stage.until_equal("b", "c", PARTITIONS)
    for _ in range(3):
        await _restart(stage, "a")
        await stage.write(stage.producer("again", PARTITIONS), ORDERS, cluster="a", batches=1)
    await stage.until_equal("a", "b", PARTITIONS)
    await stage.until_equal("b", "c", PARTITIONS)


async def restart_right_after_add(stage: Stage) -> None:
    """F8: the leader changed right after Add, and the partition was STOPPED for ever."""
    await _mirrored(stage)
    await stage.fail_over("b", PARTITIONS)
    await stage.write(stage.producer("more", PARTITIONS), ORDERS, cluster="a", batches=2)
    await stage.operator.add("b", MIRROR, TOPIC)
    await stage.sleep_ms(stage.between(0, 20))
    _end_by_seed(stage, "b")
    stage.cluster("b").start()
    await stage.until_state("b", PARTITIONS, State.MIRRORING)
    await stage.until_equal("a", "b", PARTITIONS)


async def power_loss_after_stopped(stage: Stage) -> None:
    """F9: `__mirror_state` of one replica lost STOPPED with the power; D4 ran again and cut acknowledged records."""
    await _mirrored(stage)
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
    """F10: leadership gained with `X.paused` and no stored state; there was no transition for it."""
    await _mirrored(stage)
    await stage.operator.pause("b", MIRROR, TOPIC)
    await stage.until_state("b", PARTITIONS, State.PAUSED)
    stage.cluster("b").crash()
    _lose_folder(stage, "b", "__mirror_state-0")
    stage.cluster("b").start()
    await stage.until_state("b", PARTITIONS, State.PAUSED)
    await stage.write(stage.producer("more", PARTITIONS), ORDERS, cluster="a", batches=1)
    await stage.operator.resume("b", MIRROR, TOPIC)
    await stage.until_equal("a", "b", PARTITIONS)


async def log_start_inside_a_batch(stage: Stage) -> None:
    """F11: the source's log starts inside a batch and the destination is empty; the append was refused for ever."""
    await _begin(stage)
    await _delete_records(stage, "a", before=4)
    await stage.mirror("a", "b", PARTITIONS)
    await stage.until("B has what A serves", lambda: bool(stage.log("b", ORDERS)) and stage.log("b", ORDERS)[-1].last_offset == 11)
    expect(stage.log("b", ORDERS)[0].base_offset == 3, "B begins with the batch that offset 4 is in")


async def source_topic_deleted(stage: Stage) -> None:
    """F13: the source's topic was deleted, B took over; A mirrors from B and gets the same topic id; B began PREPARING by itself."""
    await _mirrored(stage)
    await stage.operator.delete_topic("a", TOPIC)
    await stage.until_state("b", PARTITIONS, State.STOPPED)
    await stage.write(stage.producer("second", PARTITIONS), ORDERS, cluster="b", batches=3)
    await _fail_back(stage)
    await stage.sleep_ms(5_000)
    expect(stage.state("b", ORDERS) is State.STOPPED, "B stays STOPPED")
    await stage.write(stage.producer("third", PARTITIONS), ORDERS, cluster="b", batches=1)
    await stage.until_equal("b", "a", PARTITIONS)


async def local_transaction_open_at_readd(stage: Stage) -> None:
    """F14: B is STOPPED with a transaction of its own open; added while A is away, and removed: it was STOPPED with a hanging transaction."""
    await _mirrored(stage)
    await stage.fail_over("b", PARTITIONS)
    await stage.sleep_ms(100)
    stage.transaction("b", ORDERS, producer_id=900_001)
    await stage.operator.add("b", MIRROR, TOPIC)
    await stage.until_state("b", PARTITIONS, State.PREPARING)
    stage.cluster("a").crash()
    await stage.fail_over("b", PARTITIONS)


async def crash_while_stopping(stage: Stage) -> None:
    """F15, F17: the node dies anywhere in D4, again and again; the tail above the LSO is cut, and the bump must not forget its epoch."""
    await _begin(stage, config=ONE_BATCH_A_FETCH)
    for _ in range(2):
        await _restart(stage, "a")
        await stage.write(stage.producer("again", PARTITIONS), ORDERS, cluster="a", batches=1)
    await _restart(stage, "a")
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
    await _fail_back(stage)


async def crash_after_the_cut(stage: Stage) -> None:
    """F15: the node dies when the tail, the only batches of their epoch, has been cut; what was not bumped before is bumped too low after."""
    await _begin(stage, config=ONE_BATCH_A_FETCH)
    for _ in range(3):
        await _restart(stage, "a")
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
    await _fail_back(stage)


async def source_log_start_above_the_lag(stage: Stage) -> None:
    """F16: A's log start passed the point up to which B had mirrored; at failback B's records between the two were skipped silently."""
    await stage.open(config={"log.retention.check.interval.ms": "200", "log.initial.task.delay.ms": "100"})
    await stage.operator.create_topic("a", TOPIC, configs={"segment.ms": "1"})
    await stage.write(stage.producer("first", PARTITIONS), ORDERS, cluster="a", batches=4, count=3)
    await stage.mirror("a", "b", PARTITIONS)
    await stage.until_equal("a", "b", PARTITIONS)
    stage.world.network.partition(["a"], ["b"])
    await stage.sleep_ms(100)
    await stage.write(stage.producer("more", PARTITIONS), ORDERS, cluster="a", batches=6, count=3)
    await _delete_records(stage, "a", before=24)
    # Whether a segment begins at 24 is the clock's business (segment.ms); B has 12 records.
    await stage.until("A's log begins behind what B has", lambda: 12 < stage.log("a", ORDERS)[0].base_offset <= 24)
    await stage.fail_over("b", PARTITIONS)
    await stage.write(stage.producer("second", PARTITIONS), ORDERS, cluster="b", batches=8, count=3)
    stage.world.network.heal()
    await _fail_back(stage)


async def reset_lost(stage: Stage) -> None:
    """F18: the reset is gone after STOPPED (the disk lost it); old producers were alive and a cut transaction open for ever."""
    await _mirrored(stage)
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
    """B fails over between a transaction and its marker; it is cut, and what is interleaved with it, until no marker is left alone (C2)."""
    await _begin(stage, config=ONE_BATCH_A_FETCH)
    await _mirror_interleaved_transactions_partly(stage)
    await stage.fail_over("b", PARTITIONS)
    await stage.write(stage.producer("second", PARTITIONS), ORDERS, cluster="b", batches=2)
    stage.cluster("a").start()
    await stage.cluster("a").wait_started()
    await _fail_back(stage)


async def _mirror_interleaved_transactions_partly(stage: Stage) -> None:
    """Of two transactions, the second begun before the first was committed, B gets all but the last marker; A is dead then."""
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


async def writes_to_the_mirror(stage: Stage) -> None:
    """Clients write to B while it mirrors A: all of it is refused."""
    await _mirrored(stage)
    writer = stage.producer("stray", PARTITIONS)
    taken = [await writer.write_once(ORDERS, cluster="b") for _ in range(3)]
    expect(not any(taken), "B takes no write")
    await stage.write(stage.producer("more", PARTITIONS), ORDERS, cluster="a", batches=2)
    await stage.until_equal("a", "b", PARTITIONS)


async def stale_coordinator(stage: Stage) -> None:
    """F19: after a leader change an isolated old coordinator says STOPPING of a STOPPED partition; D4 ran again and cut local records."""
    await _mirrored(stage)
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
    """C10: after a failover and a crash, a producer of A sends its last sequence number to B: that is no duplicate, its state was reset."""
    await _begin(stage, batches=1)
    expect(await _write_with_id(stage, "a", b"a/old/0", producer_id=7, sequence=0), "A takes the producer's first batch")
    await stage.mirror("a", "b", PARTITIONS)
    await stage.until_equal("a", "b", PARTITIONS)
    await stage.fail_over("b", PARTITIONS)
    await _restart(stage, "b")
    await stage.write(stage.producer("second", PARTITIONS), ORDERS, cluster="b", batches=1)
    await _write_with_id(stage, "b", b"b/old/0", producer_id=7, sequence=0)


async def _write_with_id(stage: Stage, name: str, value: bytes, *, producer_id: int, sequence: int) -> bool:
    """A batch of one record; whether it was acknowledged."""
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
    """Both lose their power under load, again and again; recovery cuts what is torn, and the mirror goes on from there."""
    await _begin(stage)
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


async def _restart(stage: Stage, name: str) -> None:
    stage.cluster(name).crash()
    stage.cluster(name).start()
    await stage.cluster(name).wait_started()


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


async def _delete_records(stage: Stage, name: str, *, before: int) -> None:
    """The log start moves; the bytes stay until a segment is deleted."""
    rows = [DeleteRecordsPartition(partition_index=ORDERS.partition, offset=before)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=ORDERS.topic, partitions=rows)], timeout_ms=1_000)
    response = await NetworkClient(stage.clients, "deleter").send(name, PORT, request, timeout_ms=1_500)
    expect(response.topics[0].partitions[0].error_code == 0, "DeleteRecords succeeds")
    stage.tell(f"the log of {name} starts at {before}")


NAMED_HISTORIES: dict[str, tuple[HistoryFunction, Setting]] = {
    "clean_failback": (clean_failback, CALM),
    "both_wrote": (both_wrote, CALM),
    "divergence_inside_a_batch": (divergence_inside_a_batch, CALM),
    "mirror_loop": (mirror_loop, CALM),
    "removed_before_mirroring": (removed_before_mirroring, CALM),
    "chain": (chain, CALM),
    "restart_right_after_add": (restart_right_after_add, CALM),
    "power_loss_after_stopped": (power_loss_after_stopped, CALM),
    "paused_without_state": (paused_without_state, CALM),
    "log_start_inside_a_batch": (log_start_inside_a_batch, CALM),
    "source_topic_deleted": (source_topic_deleted, CALM),
    "local_transaction_open_at_readd": (local_transaction_open_at_readd, CALM),
    "crash_while_stopping": (crash_while_stopping, CALM),
    "crash_after_the_cut": (crash_after_the_cut, CALM),
    "source_log_start_above_the_lag": (source_log_start_above_the_lag, CALM),
    "reset_lost": (reset_lost, CALM),
    "open_transactions": (open_transactions, CALM),
    "writes_to_the_mirror": (writes_to_the_mirror, CALM),
    "stale_coordinator": (stale_coordinator, CALM),
    "old_producer_after_reset": (old_producer_after_reset, CALM),
    "torn_tail": (torn_tail, CALM),
}
