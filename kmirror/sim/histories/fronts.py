"""Named histories of clusters whose brokers have different defaults: what a mirror keeps, and what a
topic is when it was failed over.

Each is an `async def (stage)` as in `sim.histories.replicas`.
"""

from __future__ import annotations

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.sim.fleet_clients import produce_request
from kmirror.sim.histories.replicas import end_history, leader_of
from kmirror.sim.mirror_checkers import check_mirrors
from kmirror.sim.mirror_stage import MirrorStage
from kmirror.sim.run import HistoryFunction, Setting
from kmirror.sim.runtime import EPOCH_MS
from kmirror.sim.stage import TOPIC, expect

HOUR_MS = 3_600_000
ADDED = TopicPartition(TOPIC, 1)
OF_AN_OPERATOR = "123456789"
AT_ONCE = {
    "log.initial.task.delay.ms": "0",
    "log.retention.check.interval.ms": "300",
    "log.roll.ms": "500",
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "150",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "log.cleaner.min.cleanable.ratio": "0.01",
}
KEEPING_LESS = (
    ("retention.ms", {"log.retention.ms": str(HOUR_MS)}),
    ("retention.bytes", {"log.retention.bytes": "0"}),
    ("cleanup.policy", {"log.cleanup.policy": "compact"}),
)
"""The topic config that differs by default, and the broker's property."""


async def defaults_apart(stage: MirrorStage) -> None:
    """B's brokers keep less than A's by default, and their clocks are hours ahead.

    B keeps what A has, through new leaders. Failed over it is what A was: it keeps that, gets a
    partition that takes writes at once, and the failback deletes nothing at A.
    """
    name, defaults = KEEPING_LESS[stage.between(0, len(KEEPING_LESS) - 1)]
    await stage.open(own_config={"b": AT_ONCE | defaults})
    _set_clocks(stage)
    stage.tell(f"B has {defaults} by default")
    await stage.write("a", batches=6)
    await stage.mirror("a", "b")
    for _ in range(stage.between(1, 3)):
        await _restart_the_leader(stage)
        await stage.write("a", batches=2)
        await stage.sleep_ms(stage.between(300, 2_000))
    await stage.until_equal("a", "b")
    await stage.fail_over("b")
    overrides = stage.fleets["b"].image().configs.topic(TOPIC)
    expect(name in overrides, f"B's topic has A's {name} as an override, not {overrides}")
    await stage.operator.add_partitions("b", TOPIC, 2)
    expect(Errors.READ_ONLY_TOPIC not in await _errors_of_writes(stage), "a partition that is added is about to be writable")
    await stage.write("b", batches=2)
    await stage.operator.set_topic_config("b", TOPIC, "retention.ms", OF_AN_OPERATOR)
    await stage.mirror("b", "a")
    kept = stage.fleets["a"].image().configs.topic(TOPIC).get("retention.ms")
    expect(kept == OF_AN_OPERATOR, f"A has B's configs before its records, and not retention.ms={kept}")
    await end_history(stage, "b", "a")


async def clocks_apart(stage: MirrorStage) -> None:
    """The topic keeps an hour, and B's clocks are hours ahead.

    To B all records are old. It keeps what A has, through new leaders, until A deletes it.
    """
    await stage.open(own_config={"b": AT_ONCE}, configs={"retention.ms": str(HOUR_MS)})
    _set_clocks(stage)
    await stage.write("a", batches=6)
    await stage.mirror("a", "b")
    for _ in range(stage.between(1, 3)):
        await stage.write("a", batches=2)
        await stage.sleep_ms(stage.between(300, 2_000))
        await _restart_the_leader(stage)
    await stage.settle()
    await stage.sleep_ms(1_000)
    await stage.write("a", batches=1)
    await end_history(stage, "a", "b")


def _set_clocks(stage: MirrorStage) -> None:
    hours = stage.between(2, 48)
    for server in stage.fleets["b"].servers:
        server.node.clock.offset_ms = hours * HOUR_MS
    stage.tell(f"B's clocks are {hours} hours ahead")


async def _restart_the_leader(stage: MirrorStage) -> None:
    leader = leader_of(stage, "b")
    leader.crash()
    leader.start()
    await leader.wait_started()
    await stage.until("every replica is in sync", stage.is_whole)
    await stage.until_state("b", State.MIRRORING)


async def _errors_of_writes(stage: MirrorStage) -> list[Errors]:
    """What a client hears that writes to the new partition from the beginning, until it is taken."""
    client = stage.crowds["b"].client("at-once")
    told: list[Errors] = []
    while Errors.NONE not in told:
        records = build_batch([Record(0, EPOCH_MS, None, b"at once")])
        response = await client.ask_leader(ADDED, produce_request(ADDED, bytearray(records)), max_version=8)
        if response is not None:
            told.append(Errors.for_code(response.responses[0].partition_responses[0].error_code))
        client.forget(ADDED)
        await client.retry_pause()
    return told


CALM = Setting(MirrorStage, check_mirrors)
FRONT_HISTORIES: dict[str, tuple[HistoryFunction, Setting]] = {
    "defaults_apart": (defaults_apart, CALM),
    "clocks_apart": (clocks_apart, CALM),
}
