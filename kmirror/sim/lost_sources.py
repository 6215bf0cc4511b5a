"""Turns of the storm in which the current source loses what it had, and an operator must decide
what becomes of the mirror.

    comes back empty    somebody removes every replica of a partition; its cluster leads on with an
                        empty log
    is made anew        the topic is deleted and created again, with another id

The mirror must not follow (`mirror.max.truncation.records` has its default here, not -1 as in the
other storms). It is FAILED; or, if it saw that the topic was gone, STOPPED or PAUSED (B5). It keeps
every record that consumers could read when the source lost its log, until the operator

    says go       does what `kafka-mirrors --add --accept-truncation` does (no limit, remove, add,
                  the old limit), or, for a topic made anew, deletes the mirror's topic
    fails over    makes the mirror active; it still has everything, except transactions that nobody
                  ended

An add is refused, too, if the topic is added a second time and has its own records behind a reset
(it was removed again before the first alignment could cut them). The reset says that a mirror was
here, and nothing of the log is the source's. Then the operator says go (`when_refused`).
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
from kmirror.sim.mirror_stage import MirrorStage
from kmirror.sim.open_transactions import fixpoint
from kmirror.sim.server import SimServer
from kmirror.sim.stage import TOPIC
from kmirror.sim.story import Story

NOT_FOLLOWING = (State.FAILED, State.STOPPED, State.PAUSED)
GO_PERCENT = 50
MIN_AWAY_MS, MAX_AWAY_MS = 50, 600
MAX_WITHOUT_TOPIC_MS = 4_000


class LostSource:
    """The lost source of one story; `random` is its own."""

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
        """Loses the partition on all replicas at one moment; the brokers come back a little later."""
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
        """Waits until the old source has it all again. After an earlier failback the mirror would
        rightly be FAILED once more.
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
        """Returns the values that the guard must keep.

        Each replica of the mirror has them, and they are in no open transaction, so no loss of
        power and no failover takes them. The source has them, too: what only the mirror has goes
        with its first comparison of batches, which comes after MIRRORING (C36b). And consumers
        could read them, since the guard keeps nothing above that.
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
        """Asks the leader, and if necessary the next one: a broker that has just lost its power
        leads until the controller knows it.
        """
        stage = self._stage
        await stage.until(f"{partition} has a leader at {cluster}", lambda: stage.leader(cluster, partition) is not None)
        if had - self._values(cluster, partition):
            await stage.until(f"{partition} has a leader at {cluster} that serves", lambda: _serves(stage.leader(cluster, partition)))
        missing = had - self._values(cluster, partition)
        if missing:
            raise KmirrorError(f"expected: {cluster} keeps what the source has lost of {partition}, not without {min(missing).decode()}")

    def _values(self, cluster: str, partition: TopicPartition) -> set[bytes]:
        """Returns the values in the leader's log."""
        return {value for batch in self._stage.log(cluster, partition) or () for value in batch.values}


def _high_watermark(leader: SimServer | None, partition: TopicPartition) -> int:
    """Returns the high watermark that the broker knows; 0 if it does not serve, or does not lead
    yet.
    """
    broker = leader.server.broker if leader is not None and leader.server is not None else None
    found = broker.replica_manager.get_partition(partition) if broker is not None else None
    return found.log.high_watermark if found is not None and found.is_leader and found.log is not None else 0


def _serves(leader: SimServer | None) -> bool:
    return leader is not None and leader.is_serving


def _may_lose(fleet: SimFleet) -> bool:
    """Returns whether the whole fleet runs and is whole, including its disks."""
    if not fleet.controller.is_serving or not fleet.is_whole() or not fleet.may_die():
        return False
    return not any(server.needs_restart for server in fleet.brokers.values())
