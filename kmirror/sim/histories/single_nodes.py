"""The beginnings and steps that histories of one-node clusters share: a topic, a mirror of it, a
failback, a restart.
"""

from __future__ import annotations

from kmirror.sim.stage import ORDERS, TOPIC
from kmirror.sim.storm import Stage

ONE_BATCH_A_FETCH = {"replica.fetch.max.bytes": "1", "replica.fetch.response.max.bytes": "1"}
"""A mirror fetches only below the source's LSO. So B lacks a marker only if the fetch that would
bring it never arrives, and each fetch must bring a single batch.
"""
PARTITIONS = [ORDERS]


async def begin(stage: Stage, *, batches: int = 4, clusters: tuple[str, ...] = ("a", "b"), config: dict[str, str] | None = None) -> None:
    """A has the topic and some batches of three records."""
    await stage.open(clusters, config=config)
    await stage.operator.create_topic("a", TOPIC)
    await stage.write(stage.producer("first", PARTITIONS), ORDERS, cluster="a", batches=batches, count=3)


async def mirrored(stage: Stage, *, batches: int = 4) -> None:
    """`begin`, and then B mirrors everything that A has."""
    await begin(stage, batches=batches)
    await stage.mirror("a", "b", PARTITIONS)
    await stage.until_equal("a", "b", PARTITIONS)


async def fail_back(stage: Stage) -> None:
    """A mirrors B until both are equal."""
    await stage.mirror("b", "a", PARTITIONS)
    await stage.until_equal("b", "a", PARTITIONS)


async def restart(stage: Stage, name: str) -> None:
    """The node dies and comes back, and leads again what it led."""
    node = stage.cluster(name)
    led = [partition for partition in PARTITIONS if node.leads(partition)]
    node.crash()
    node.start()
    await node.wait_started()
    await stage.until(f"{name} leads what it led", lambda: all(node.leads(partition) for partition in led))
