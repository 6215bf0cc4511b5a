"""The share group that the storm moves: what is not where it should be is a violation."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kmirror.admin.share_groups import SharePartitionOffset
from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.system_ports import SeededRandom
from kmirror.sim.loop import SimLoop
from kmirror.sim.mirror_share_groups import HIGHEST_START, MovedShareGroup

P = TopicPartition("orders", 0)


class Cluster:
    """One whose share group begins where it is told."""

    def __init__(self) -> None:
        self.starts: dict[TopicPartition, int] = {}

    async def alter_share_group_offsets(self, group, starts):
        self.starts.update(starts)
        return dict.fromkeys(starts)

    async def list_share_group_offsets(self, group, partitions):
        return {p: SharePartitionOffset(self.starts[p], 0, None) if p in self.starts else None for p in partitions}


class Bench:
    def __init__(self) -> None:
        self.loop = SimLoop(1)
        self.clusters = {"a": Cluster(), "b": Cluster()}
        operator = SimpleNamespace(admin=self.clusters.__getitem__, tell=lambda what: None)
        stage = SimpleNamespace(
            operator=operator, partitions=[P], patience_ms=1_000, world=SimpleNamespace(loop=self.loop), sleep_ms=self.sleep_ms
        )
        self.group = MovedShareGroup(stage, SeededRandom("share"))

    async def sleep_ms(self, duration_ms: int) -> None:
        self.loop.now_us += duration_ms * 1000

    def run(self, coroutine) -> None:
        self.loop.run_until_complete(coroutine)

    def moved_and_synced(self) -> None:
        self.run(self.group.move("a"))
        self.clusters["b"].starts.update(self.clusters["a"].starts)
        self.run(self.group.until_synced("a", "b"))


def test_a_group_that_is_synced_and_left_alone_is_right():
    bench = Bench()
    bench.run(bench.group.ensure_was_moved_to("b"))
    bench.moved_and_synced()
    bench.run(bench.group.move("a"))
    bench.run(bench.group.ensure_unmoved("b"))
    bench.run(bench.group.ensure_was_moved_to("b"))


def test_a_group_that_is_not_synced_is_noticed():
    bench = Bench()
    bench.run(bench.group.move("a"))
    with pytest.raises(KmirrorError, match="group workers begins at b where it does at a: no"):
        bench.run(bench.group.until_synced("a", "b"))


def test_a_group_that_is_moved_after_the_failover_is_noticed():
    bench = Bench()
    bench.moved_and_synced()
    bench.clusters["b"].starts[P] += 1
    with pytest.raises(KmirrorError, match="at b, which took over, and begins at"):
        bench.run(bench.group.ensure_unmoved("b"))


def test_a_start_that_nobody_asked_for_is_noticed():
    bench = Bench()
    bench.moved_and_synced()
    bench.clusters["b"].starts[P] = HIGHEST_START + 1
    with pytest.raises(KmirrorError, match="begins orders-0 at 10 at b, where nobody ever moved it"):
        bench.run(bench.group.ensure_was_moved_to("b"))
