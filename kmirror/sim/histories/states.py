"""Named histories of the topic that mirrors rely on: `__mirror_state` gets more partitions, by an
operator's request and behind the operator's back.

Each is an `async def (stage)` as in `sim.histories.replicas`. A history states with `expect` what
the checkers cannot see.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.topic_partition import MIRROR_STATE_TOPIC_NAME
from kmirror.controller.controller_result import ControllerResult
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.sim.fleet import SimFleet
from kmirror.sim.fleet_transactions import TransactionalProducer
from kmirror.sim.histories.replicas import b_takes_over, let_another_lead
from kmirror.sim.mirror_checkers import check_mirrors
from kmirror.sim.mirror_stage import MirrorStage
from kmirror.sim.run import HistoryFunction, Setting
from kmirror.sim.stage import ORDERS, expect
from kmirror.wire.messages.partition_record import PartitionRecord

GROWN = (2, 3, 5)
LONG_MS = 120_000


async def state_topic_grows(stage: MirrorStage) -> None:
    """`__mirror_state` gets more partitions than it was created with.

    B's topic is stopped and written to; it must not be stopped once more.
    """
    await stage.open(replication_factor=3)
    await stage.write("a", batches=3)
    await b_takes_over(stage)
    await stage.write("b", batches=1)
    open_one = TransactionalProducer(stage.crowds["b"].client("open"), "b/pay", 0, [ORDERS], stage.history, timeout_ms=LONG_MS)
    expect(await open_one.init() and await open_one.write(ORDERS, (b"b/pay/0/1",)), "B has an open transaction")
    await stage.write("b", batches=2)
    await _expect_refused(grow(stage, "b", GROWN[0]))
    for count in GROWN:
        await grow_underneath(stage, stage.fleets["b"], count)
        await stage.until("every replica is in sync", stage.is_whole)
        await let_another_lead(stage, "b")
        await stage.sleep_ms(1_000)
    expect(stage.state("b", ORDERS) is State.STOPPED, "B's topic is STOPPED, as it was")
    await stage.settle()
    await stage.end()


async def grow(stage: MirrorStage, cluster: str, count: int) -> None:
    """Asks CreatePartitions once."""
    (await stage.operator.admin(cluster).create_partitions({MIRROR_STATE_TOPIC_NAME: count})).all()


async def _expect_refused(asking: Awaitable[object]) -> None:
    try:
        await asking
    except ApiException as refusal:
        expect(
            refusal.error is Errors.INVALID_PARTITIONS, f"growing {MIRROR_STATE_TOPIC_NAME} is INVALID_PARTITIONS, not {refusal.error.name}"
        )
        return
    raise KmirrorError(f"expected: {MIRROR_STATE_TOPIC_NAME} is not grown")


async def grow_underneath(stage: MirrorStage, fleet: SimFleet, count: int) -> None:
    """Writes the records as a controller of an older version would, without any request."""
    server, runtime = fleet.controller.server, fleet.controller.node.runtime
    if server is None or server.controller is None or server.controller.controller is None or runtime is None:
        raise KmirrorError("the controller is not serving")
    topic = fleet.image().topics.topic(MIRROR_STATE_TOPIC_NAME)
    assert topic is not None, MIRROR_STATE_TOPIC_NAME
    first = topic.partitions[0]
    records = [
        ApiMessageAndVersion(
            PartitionRecord(
                partition_id=number,
                topic_id=topic.id,
                replicas=list(first.replicas),
                isr=list(first.isr),
                leader=first.leader,
                leader_epoch=0,
                partition_epoch=0,
                directories=list(first.directories),
            ),
            PartitionRecord.HIGHEST_VERSION,
        )
        for number in range(len(topic.partitions), count)
    ]
    result: ControllerResult[None] = ControllerResult(records)
    await runtime.spawn(server.controller.controller.write("grow", lambda: result), name="grow")
    stage.tell(f"{MIRROR_STATE_TOPIC_NAME} of {fleet.name} has {count} partitions, by what its controller wrote")


CALM = Setting(MirrorStage, check_mirrors)
STATE_HISTORIES: dict[str, tuple[HistoryFunction, Setting]] = {"state_topic_grows": (state_topic_grows, CALM)}
