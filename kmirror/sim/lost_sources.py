"""Turns of the storm in which the source of the moment loses what it had, and an operator who must
say what is to become of the mirror.

    comes back empty    every replica of a partition is gone, for somebody removed them; its cluster leads on with an empty log
    is made anew        the topic is deleted and created again, with another id

The mirror must not follow (`mirror.max.truncation.records` is the default's here, not -1 as in the
other storms): it is FAILED, or, where it saw that the topic was gone (B5), STOPPED or PAUSED. It
has every record that consumers could read when the source's was lost, until the operator

    says go       what `kafka-mirrors --add --accept-truncation` does: no limit, remove, add, the old limit; of a topic made anew: delete ours
    fails over    the mirror is active then, and still has all of it, but for transactions that nobody ended

Whoever adds a topic a second time that has its own records behind a reset (it was removed again
before the first alignment could cut them) is refused, too: the reset says that a mirror was here,
and nothing of the log is the source's. Then the operator says go (`when_refused`).
"""

from __future__ import annotations

from collections.abc import Mapping

from kmirror.common.errors import KmirrorError
from kmirror.common.ports import Random
from kmirror.common.topic_partition import TopicPartition
from kmirror.metadata.mirror_names import MIRROR_MAX_TRUNCATION_CONFIG
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.sim.events import LogLost
from kmirror.sim.fleet import SimFleet
from kmirror.sim.mirror_stage import TOPIC, MirrorStage
from kmirror.sim.open_transactions import fixpoint
from kmirror.sim.server import SimServer
from kmirror.sim.story import Story

NOT_FOLLOWING = (State.FAILED, State.STOPPED, State.PAUSED)
GO_PERCENT = 50
MIN_AWAY_MS, MAX_AWAY_MS = 50, 600
MAX_WITHOUT_TOPIC_MS = 4_000


class LostSource:
    """Of one story; `random` is its own."""

    def __init__(self, stage: MirrorStage, story: Story, random: Random) -> None:
        self._stage = stage
        self._story = story
        self._random = random

    def _between(self, low: int, high: int) -> int:
        return low + self._random.randrange(high - low + 1)

    async def comes_back_empty(self) -> None:
        stage, source, mirror = self._stage, self._story.active, self._story.passive
        partition = stage.partitions[self._random.randrange(len(stage.partitions))]
        await stage.until_state(mirror, State.MIRRORING)
        fleet = stage.fleets[source]
        await stage.until(
            f"{source} is whole, and {mirror} has something of it", lambda: _may_lose(fleet) and bool(self._had(source, mirror, partition))
        )
        had = self._had(source, mirror, partition)
        await self._lose(fleet, partition)
        await stage.until(f"{partition} FAILED at {mirror}", lambda: stage.state(mirror, partition) is State.FAILED)
        await self._ensure_kept(mirror, partition, had)
        if self._random.randrange(100) < GO_PERCENT:
            await self.say_go(mirror)
        else:
            await self._story.fail_over()
            await self._ensure_kept(mirror, partition, had)
            await self._have_it_back({partition: had})

    async def is_made_anew(self) -> None:
        stage, source, mirror = self._stage, self._story.active, self._story.passive
        await stage.until_state(mirror, State.MIRRORING)
        had = {partition: self._had(source, mirror, partition) for partition in stage.partitions}
        await stage.requests.delete_topic(source)
        await stage.sleep_ms(self._between(0, MAX_WITHOUT_TOPIC_MS))
        await stage.operator.create_topic(source, TOPIC, len(stage.partitions), replication_factor=self._between(2, 3))
        await stage.until_state(mirror, *NOT_FOLLOWING)
        for partition, values in had.items():
            await self._ensure_kept(mirror, partition, values)
        if self._random.randrange(100) < GO_PERCENT:
            await self._story.delete_topic()
            return
        await self._story.fail_over()
        for partition, values in had.items():
            await self._ensure_kept(mirror, partition, values)
        await stage.requests.delete_topic(source)
        await self._have_it_back(had)

    async def _lose(self, fleet: SimFleet, partition: TopicPartition) -> None:
        """At one moment, and all is back a little later."""
        stage = self._stage
        servers = [fleet.broker_named(replica) for replica in fleet.registrations()[partition].replicas]
        stage.history.add(LogLost(stage.world.loop.now_us, fleet.name, partition))
        for server in servers:
            stage.faults.hold(server)
            server.crash()
            server.lose_log(partition)
        await stage.sleep_ms(self._between(MIN_AWAY_MS, MAX_AWAY_MS))
        for server in servers:
            stage.faults.release(server)
            server.start()

    async def _have_it_back(self, had: Mapping[TopicPartition, set[bytes]]) -> None:
        """Who fails back before the old source has it all again has the mirror FAILED once more,
        and rightly.
        """
        await self._story.start_mirror()
        cluster = self._story.passive
        for partition, values in had.items():
            await self._stage.until_kept_mirrored(
                cluster,
                f"{cluster} has all of {partition} again",
                lambda: values <= self._values(cluster, partition),  # noqa: B023
            )

    async def say_go(self, mirror: str) -> None:
        stage = self._stage
        stage.tell(f"the operator of {mirror} says go")
        await stage.operator.set_topic_config(mirror, TOPIC, MIRROR_MAX_TRUNCATION_CONFIG, "-1")
        await stage.fail_over(mirror)
        await self._story.start_mirror()
        await stage.until_state(mirror, State.MIRRORING)
        await stage.operator.set_topic_config(mirror, TOPIC, MIRROR_MAX_TRUNCATION_CONFIG, None)

    def _had(self, source: str, mirror: str, partition: TopicPartition) -> set[bytes]:
        """Values that each replica of the mirror has, of no open transaction: no loss of power and
        no failover takes them. That the source has, too: what only the mirror has goes with its
        first look (C36b), which comes after MIRRORING. And that could be read: more the guard does
        not keep.
        """
        fleet, log, theirs = self._stage.fleets[mirror], self._stage.log(mirror, partition), self._stage.log(source, partition)
        if log is None or theirs is None:
            return set()
        readable = _high_watermark(self._stage.leader(mirror, partition), partition)
        values = {value for batch in fixpoint(log) for value in batch.values if batch.last_offset < readable}
        values &= {value for batch in theirs for value in batch.values}
        for replica in fleet.registrations()[partition].replicas:
            batches = fleet.broker_named(replica).watch.logs.get(partition, [])
            values &= {value for batch in batches for value in batch.values}
        return values

    async def _ensure_kept(self, cluster: str, partition: TopicPartition, had: set[bytes]) -> None:
        """A broker that has just lost its power leads until the controller knows it: then the next
        leader is asked.
        """
        stage = self._stage
        await stage.until(f"{partition} has a leader at {cluster}", lambda: stage.leader(cluster, partition) is not None)
        if had - self._values(cluster, partition):
            await stage.until(f"{partition} has a leader at {cluster} that serves", lambda: _serves(stage.leader(cluster, partition)))
        missing = had - self._values(cluster, partition)
        if missing:
            raise KmirrorError(f"expected: {cluster} keeps what the source has lost of {partition}, not without {min(missing).decode()}")

    def _values(self, cluster: str, partition: TopicPartition) -> set[bytes]:
        """What the leader's log has."""
        return {value for batch in self._stage.log(cluster, partition) or () for value in batch.values}


def _high_watermark(leader: SimServer | None, partition: TopicPartition) -> int:
    """As that broker knows it; 0 where it does not serve, or does not lead yet."""
    broker = leader.server.broker if leader is not None and leader.server is not None else None
    found = broker.replica_manager.get_partition(partition) if broker is not None else None
    return found.log.high_watermark if found is not None and found.is_leader and found.log is not None else 0


def _serves(leader: SimServer | None) -> bool:
    return leader is not None and leader.is_serving


def _may_lose(fleet: SimFleet) -> bool:
    """Whether everything of it runs and is whole, disks, too."""
    if not fleet.controller.is_serving or not fleet.is_whole() or not fleet.may_die():
        return False
    return not any(server.needs_restart for server in fleet.brokers.values())
