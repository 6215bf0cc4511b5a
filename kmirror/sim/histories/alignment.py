"""Histories in which two logs must become equal: at a failback, along a chain of mirrors, from a
source whose log starts late or whose topic is gone.

Clusters have one node each. Each history is an `async def (stage)`, which may draw from the stage's
seed. Its docstring says what went wrong in an earlier draft of the rules, or in another
implementation. A history states with `expect` what the checkers cannot see.
"""

from __future__ import annotations

from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.network.client import NetworkClient
from kmirror.sim.cluster import PORT
from kmirror.sim.events import LastMirrorEpochWritten, Removed
from kmirror.sim.histories.single_nodes import PARTITIONS, begin, fail_back, mirrored, restart
from kmirror.sim.run import HistoryFunction, Setting
from kmirror.sim.stage import MIRROR, ORDERS, TOPIC, expect
from kmirror.sim.storm import CALM, Stage
from kmirror.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic


async def clean_failback(stage: Stage) -> None:
    """Failover, writes on B, failback, switch back: nothing is lost, since nothing lagged."""
    await mirrored(stage)
    await stage.fail_over("b", PARTITIONS)
    await stage.write(stage.producer("second", PARTITIONS, idempotent=True), ORDERS, cluster="b", batches=3)
    await fail_back(stage)
    await stage.fail_over("a", PARTITIONS)
    await stage.write(stage.producer("third", PARTITIONS), ORDERS, cluster="a", batches=2)
    expect(not any(isinstance(event, Removed) for event in stage.history.events), "no batch is removed anywhere")


async def _both_wrote_in_one_epoch(stage: Stage) -> None:
    """B fails over. Then both clusters have an epoch 2 of their own: A with a batch at 12..14, B
    with its reset at 12.
    """
    await mirrored(stage)
    await restart(stage, "b")
    await stage.until("B leads and mirrors again", lambda: stage.state("b", ORDERS) is State.MIRRORING)
    stage.cluster("a").crash()
    await stage.fail_over("b", PARTITIONS)
    stage.cluster("a").start()
    await stage.cluster("a").wait_started()
    await stage.write(stage.producer("stale", PARTITIONS), ORDERS, cluster="a", batches=1, count=3)


async def both_wrote(stage: Stage) -> None:
    """A writes on after B took over, in an epoch of the same number.

    At the failback A's own records are cut and B's take their place.
    """
    await _both_wrote_in_one_epoch(stage)
    await stage.write(stage.producer("second", PARTITIONS), ORDERS, cluster="b", batches=4, count=2)
    await fail_back(stage)


async def divergence_inside_a_batch(stage: Stage) -> None:
    """The logs diverge inside a batch of A, so A must cut the whole batch (F2).

    The mirror must not leave a gap there at lag 0.
    """
    await _both_wrote_in_one_epoch(stage)
    await stage.write(stage.producer("stale too", PARTITIONS), ORDERS, cluster="a", batches=1, count=3)
    await stage.write(stage.producer("second", PARTITIONS), ORDERS, cluster="b", batches=3, count=1)
    await restart(stage, "b")
    await stage.write(stage.producer("third", PARTITIONS), ORDERS, cluster="b", batches=3, count=2)
    await fail_back(stage)


async def mirror_loop(stage: Stage) -> None:
    """B mirrors A under one name, and A is told to mirror B under another (F4).

    Once both logs ended empty.
    """
    await mirrored(stage)
    await stage.operator.create_mirror("a", "other", source="b")
    await stage.operator.add("a", "other", TOPIC)
    await stage.sleep_ms(5_000)
    expect(stage.state("a", ORDERS) is State.PREPARING, "A waits in PREPARING")
    expect(len(stage.log("a", ORDERS)) == 4, "A's log is untouched")
    expect(len(stage.log("b", ORDERS)) == 4, "B's log is untouched")


async def removed_before_mirroring(stage: Stage) -> None:
    """B's topic is added and removed again before it mirrors (F6).

    Once B's own epoch was stored as the last mirror epoch.
    """
    await mirrored(stage)
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
    await fail_back(stage)


async def chain(stage: Stage) -> None:
    """A → B → C: after A's epoch changed, B serves batches of epochs above its own (F7).

    Once C dropped them for ever.
    """
    await begin(stage, clusters=("a", "b", "c"))
    await stage.mirror("a", "b", PARTITIONS)
    await stage.mirror("b", "c", PARTITIONS, name="next")
    await stage.until_equal("b", "c", PARTITIONS)
    for _ in range(3):
        await restart(stage, "a")
        await stage.write(stage.producer("again", PARTITIONS), ORDERS, cluster="a", batches=1)
    await stage.until_equal("a", "b", PARTITIONS)
    await stage.until_equal("b", "c", PARTITIONS)


async def log_start_inside_a_batch(stage: Stage) -> None:
    """The source's log starts inside a batch, and the destination is empty (F11).

    Once the append was refused for ever.
    """
    await begin(stage)
    await _delete_records(stage, "a", before=4)
    await stage.mirror("a", "b", PARTITIONS)
    await stage.until("B has what A serves", lambda: bool(stage.log("b", ORDERS)) and stage.log("b", ORDERS)[-1].last_offset == 11)
    expect(stage.log("b", ORDERS)[0].base_offset == 3, "B begins with the batch that offset 4 is in")


async def source_topic_deleted(stage: Stage) -> None:
    """The source's topic is deleted and B takes over; then A mirrors from B (F13).

    A's topic gets the same topic id again. Once B then began PREPARING by itself.
    """
    await mirrored(stage)
    await stage.operator.delete_topic("a", TOPIC)
    await stage.until_state("b", PARTITIONS, State.STOPPED)
    await stage.write(stage.producer("second", PARTITIONS), ORDERS, cluster="b", batches=3)
    await fail_back(stage)
    await stage.sleep_ms(5_000)
    expect(stage.state("b", ORDERS) is State.STOPPED, "B stays STOPPED")
    await stage.write(stage.producer("third", PARTITIONS), ORDERS, cluster="b", batches=1)
    await stage.until_equal("b", "a", PARTITIONS)


async def source_log_start_above_the_lag(stage: Stage) -> None:
    """A's log start passes the offset up to which B has mirrored (F16).

    Once B's records between the two offsets were silently skipped at the failback.
    """
    await stage.open(config={"log.retention.check.interval.ms": "200", "log.initial.task.delay.ms": "100"})
    await stage.operator.create_topic("a", TOPIC, configs={"segment.ms": "1"})
    await stage.write(stage.producer("first", PARTITIONS), ORDERS, cluster="a", batches=4, count=3)
    await stage.mirror("a", "b", PARTITIONS)
    await stage.until_equal("a", "b", PARTITIONS)
    stage.world.network.partition(["a"], ["b"])
    await stage.sleep_ms(100)
    await stage.write(stage.producer("more", PARTITIONS), ORDERS, cluster="a", batches=6, count=3)
    await _delete_records(stage, "a", before=24)
    # The clock decides whether a segment begins at 24 (segment.ms). B has 12 records.
    await stage.until("A's log begins behind what B has", lambda: 12 < stage.log("a", ORDERS)[0].base_offset <= 24)
    await stage.fail_over("b", PARTITIONS)
    await stage.write(stage.producer("second", PARTITIONS), ORDERS, cluster="b", batches=8, count=3)
    stage.world.network.heal()
    await fail_back(stage)


async def writes_to_the_mirror(stage: Stage) -> None:
    """Clients write to B while it mirrors A: all of it is refused."""
    await mirrored(stage)
    writer = stage.producer("stray", PARTITIONS)
    taken = [await writer.write_once(ORDERS, cluster="b") for _ in range(3)]
    expect(not any(taken), "B takes no write")
    await stage.write(stage.producer("more", PARTITIONS), ORDERS, cluster="a", batches=2)
    await stage.until_equal("a", "b", PARTITIONS)


async def _delete_records(stage: Stage, name: str, *, before: int) -> None:
    """Moves the log start with DeleteRecords. The bytes stay until a segment is deleted."""
    rows = [DeleteRecordsPartition(partition_index=ORDERS.partition, offset=before)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=ORDERS.topic, partitions=rows)], timeout_ms=1_000)
    response = await NetworkClient(stage.clients, "deleter").send(name, PORT, request, timeout_ms=1_500)
    expect(response.topics[0].partitions[0].error_code == 0, "DeleteRecords succeeds")
    stage.tell(f"the log of {name} starts at {before}")


ALIGNMENT_HISTORIES: dict[str, tuple[HistoryFunction, Setting]] = {
    "clean_failback": (clean_failback, CALM),
    "both_wrote": (both_wrote, CALM),
    "divergence_inside_a_batch": (divergence_inside_a_batch, CALM),
    "mirror_loop": (mirror_loop, CALM),
    "removed_before_mirroring": (removed_before_mirroring, CALM),
    "chain": (chain, CALM),
    "log_start_inside_a_batch": (log_start_inside_a_batch, CALM),
    "source_topic_deleted": (source_topic_deleted, CALM),
    "source_log_start_above_the_lag": (source_log_start_above_the_lag, CALM),
    "writes_to_the_mirror": (writes_to_the_mirror, CALM),
}
