"""MirrorMetadataManager: refreshes what is known about the sources, and aligns this cluster with
them (the KIP's MMM).

Each mirror has a loop of its own, so that a dead source delays no other mirror. Every
mirror.metadata.refresh.interval.ms (0: only when the mirror or its set of topics changes) a cycle
looks at the source:

    1 Metadata of the mirror's topics; the cluster id is compared (C13, D3-35), and nothing more happens while it is another's
    2 topics that vanished, two cycles in a row (D3-22), for the partitions that this broker leads
    3 at the mirror's sync owner, the leader of the `__mirror_state` partition that its name hashes to, the steps:
      topics (`topic_sync`), configs (`config_sync`), ACLs (`acl_sync`), group offsets (`group_offset_sync`), start offsets of
      share groups (`share_group_sync`)

Step 1 runs on each broker that leads partitions of the mirror, for the topics of these, because
leaders act on it; step 3 runs on one broker (SYN1). The connections are opened when the mirror has
its first topic, one to each source broker that is asked, and kept (SYN2). Topics that are paused or
removed are left alone (SYN18, B48). Filters are read from the mirror's configs in each cycle
(SYN19). Failures are counted once for each cycle and gauge (C37, see `sync_cycle`), and logged. A
cycle that finds no `__mirror_state` (an operator may delete it when it is beyond repair) has it
created again: without it no partition changes its state, and there are no owners (C38).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from kmirror.common.errors import Errors, KmirrorError
from kmirror.common.lasting_conditions import LastingConditions
from kmirror.common.topic_partition import MIRROR_STATE_TOPIC_NAME
from kmirror.common.uuid import Uuid
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import RESOURCE_MIRROR, RESOURCE_TOPIC, MetadataImage
from kmirror.metadata.mirror_names import MIRROR_NAME_CONFIG, association_of
from kmirror.mirror.coordination.mirror_coordinator import MirrorCoordinator
from kmirror.mirror.partition.mirror_partition import MirrorPartition
from kmirror.mirror.ports import MirrorConfig
from kmirror.mirror.source.mirror import Mirror
from kmirror.mirror.source.source_cluster import SourceCluster, SourceMetadata
from kmirror.mirror.sync.sync_cycle import SyncCycle, SyncErrors, SyncGauge, SyncStep, is_active, is_same_topic
from kmirror.network.client import UnsupportedVersionError
from kmirror.runtime.api import Runtime, TaskScope, TimerHandle

REFRESHES_UNTIL_DELETED = 2
FAILURES_TOLD = 10

_log = logging.getLogger(__name__)


class MirrorMetadataManager:
    """One per broker: owns the loop of each mirror, the sync steps, the error counts, and in how
    many refreshes each topic was missing.
    """

    def __init__(
        self,
        runtime: Runtime,
        config: MirrorConfig,
        *,
        coordinator: MirrorCoordinator,
        image: Callable[[], MetadataImage],
        mirror: Callable[[str], Mirror],
        topics_of: Callable[[str], list[str]],
        led_partitions: Callable[[str], list[MirrorPartition]],
        steps: Sequence[SyncStep],
        create_state_topic: Callable[[], None],
    ) -> None:
        self.errors = SyncErrors()
        self._conditions = LastingConditions(_log, runtime.clock.monotonic_ms)
        self._runtime = runtime
        self._config = config
        self._coordinator = coordinator
        self._image = image
        self._mirror = mirror
        self._topics_of = topics_of
        self._led_partitions = led_partitions
        self._steps = tuple(steps)
        self._create_state_topic = create_state_topic
        self._loops: dict[str, _Loop] = {}
        self._missing: dict[str, dict[tuple[str, Uuid], int]] = {}
        """By mirror and topic: in how many refreshes in a row the topic was not found."""
        self._scope = TaskScope(runtime, "mirror-metadata-manager", on_failure=self._on_failure)

    # --- life
    # ---------------------------------------------------------------------------------------------------------

    def on_metadata_update(self, delta: MetadataDelta, mirror_names: Iterable[str], recreated: Iterable[str] = ()) -> None:
        """Keeps one loop for each existing mirror; a mirror that was recreated under its name gets
        a new one. If the interval is 0, a change of the mirror or of its topics requests a cycle.
        """
        if self._scope.closed:
            return
        self._count_anew(delta)
        names = set(mirror_names)
        for name in sorted(self._loops.keys() - (names - set(recreated))):
            self._loops.pop(name).cancel()
            self._forget(name)
        for name in sorted(names - self._loops.keys()):
            loop = self._loops[name] = _Loop(self._runtime, self._config.mirror_metadata_refresh_interval_ms)
            self._start(name, loop)
        if self._config.mirror_metadata_refresh_interval_ms == 0:
            for name in sorted(self._changed_mirrors(delta) & names):
                self.request(name)

    def request(self, mirror_name: str) -> None:
        """Requests a cycle of this mirror soon, whatever the interval."""
        loop = self._loops.get(mirror_name)
        if loop is not None:
            loop.request()

    async def shutdown(self) -> None:
        await self._scope.cancel()

    async def _run(self, name: str, loop: _Loop) -> None:
        while True:
            await loop.wait()
            await self.refresh(name)

    def _start(self, name: str, loop: _Loop) -> None:
        loop.task = self._scope.spawn(self._run(name, loop), name=name)

    def _on_failure(self, task_name: str, error: BaseException) -> None:
        """Starts the mirror's loop again after a program error ended it."""
        self._runtime.report_failure(f"task {task_name} failed", error)
        for name, loop in self._loops.items() if not self._scope.closed else ():
            if loop.task is not None and loop.task.done() and loop.task.get_name() == task_name:
                self._start(name, loop)

    def _count_anew(self, delta: MetadataDelta) -> None:
        """Starts the count of missing refreshes again for topics that were paused, removed or added
        (D3-22).
        """
        for resource, changes in delta.configs.changed.items():
            if resource.type == RESOURCE_TOPIC and MIRROR_NAME_CONFIG in changes:
                for missing in self._missing.values():
                    for key in [key for key in missing if key[0] == resource.name]:
                        del missing[key]

    def _changed_mirrors(self, delta: MetadataDelta) -> set[str]:
        changed = set()
        for resource, changes in delta.configs.changed.items():
            if resource.type == RESOURCE_MIRROR:
                changed.add(resource.name)
            elif resource.type == RESOURCE_TOPIC and MIRROR_NAME_CONFIG in changes:
                association = association_of(self._image().configs.topic(resource.name))
                if association is not None:
                    changed.add(association.mirror_name)
        return changed

    def _forget(self, mirror_name: str) -> None:
        self._missing.pop(mirror_name, None)
        for of in (None, *self._steps):
            self._conditions.forget((mirror_name, of))
        for step in self._steps:
            step.forget(mirror_name)

    # --- a cycle
    # ------------------------------------------------------------------------------------------------------

    async def refresh(self, mirror_name: str) -> None:
        """One cycle of one mirror. Never raises: errors are counted and logged."""
        if self._image().topics.topic(MIRROR_STATE_TOPIC_NAME) is None:
            self._create_state_topic()
        await self._record_state_partitions(mirror_name)
        led = self._led_partitions(mirror_name)
        is_owner = self._is_owner(mirror_name)
        topics = self._topics_of(mirror_name) if is_owner else sorted({driver.id.topic for driver in led})
        if not is_owner:
            for step in self._steps:
                step.forget(mirror_name)
                self._conditions.forget((mirror_name, step))
        if not topics:
            self._missing.pop(mirror_name, None)
            return
        failed: set[SyncGauge] = set()
        try:
            await self._cycle(mirror_name, topics, led, failed)
        except UnsupportedVersionError as error:
            self._note(mirror_name, SyncGauge.METADATA_REFRESH, [str(error)], failed)
        except KmirrorError as error:
            self._note(mirror_name, SyncGauge.METADATA_REFRESH, [f"the source's metadata could not be refreshed: {error}"], failed)
        self.errors.count(failed)
        for driver in led:
            driver.on_refresh()

    async def _record_state_partitions(self, mirror_name: str) -> None:
        """Records the partition count of a `__mirror_state` that an older version created without
        recording it. Only the leader of partition 0 does so.
        """
        count = self._coordinator.unrecorded_partition_count
        first = self._image().topics.partition(MIRROR_STATE_TOPIC_NAME, 0)
        if count is None or first is None or first.leader != self._config.broker_id:
            return
        try:
            await self._mirror(mirror_name).record_state_partitions(count)
        except KmirrorError as error:
            text = f"the partitions of {MIRROR_STATE_TOPIC_NAME} could not be recorded: {error}"
            self._conditions.tell(MIRROR_STATE_TOPIC_NAME, text, subject=f"mirror {mirror_name}")
        else:
            self._conditions.end(MIRROR_STATE_TOPIC_NAME)

    async def _cycle(self, name: str, topics: list[str], led: list[MirrorPartition], failed: set[SyncGauge]) -> None:
        mirror = self._mirror(name)
        source = mirror.source
        metadata = await source.refresh(topics)
        await mirror.learn_cluster_id(metadata.cluster_id)
        if mirror.is_suspended:
            self._note(name, SyncGauge.METADATA_REFRESH, [str(mirror.suspended_reason)], failed)
            return
        self._note_topics(name, led, metadata)
        cycle = self._cycle_of(mirror, source, topics, metadata)
        self._note(name, SyncGauge.METADATA_REFRESH, metadata_problems(cycle), failed)
        for step in self._steps:
            if not self._is_owner(name):
                break
            await self._step(step, cycle, failed)

    async def _step(self, step: SyncStep, cycle: SyncCycle, failed: set[SyncGauge]) -> None:
        try:
            failures = await step.sync(cycle)
        except UnsupportedVersionError as error:
            _log.debug("mirror %s: the source does not support what %s needs: %s", cycle.mirror.name, step.gauge.value, error)
        except KmirrorError as error:
            self._note(cycle.mirror.name, step.gauge, [str(error)], failed, of=step)
        else:
            self._note(cycle.mirror.name, step.gauge, failures, failed, of=step)

    def _note(
        self, mirror_name: str, gauge: SyncGauge, failures: Sequence[str], failed: set[SyncGauge], *, of: SyncStep | None = None
    ) -> None:
        """Tells failures when they begin, when they are others and when they are over. `of`: the
        step that they are of, for steps share a gauge.
        """
        key = (mirror_name, of)
        if not failures:
            self._conditions.end(key)
            return
        failed.add(gauge)
        more = [f"and {len(failures) - FAILURES_TOLD} more"] if len(failures) > FAILURES_TOLD else []
        text = "; ".join([*failures[:FAILURES_TOLD], *more])
        self._conditions.tell(key, text, subject=f"mirror {mirror_name}, {gauge.value}")

    def _cycle_of(self, mirror: Mirror, source: SourceCluster, topics: list[str], metadata: SourceMetadata) -> SyncCycle:
        active = {topic for topic in topics if is_active(self._image(), mirror.name, topic)}
        present = [topic for topic in topics if topic in active and is_same_topic(self._image(), topic, metadata)]
        return SyncCycle(mirror, source, metadata, present, [topic for topic in topics if topic not in active])

    def _note_topics(self, mirror_name: str, led: list[MirrorPartition], metadata: SourceMetadata) -> None:
        """Counts refreshes that do not find a topic; after two in a row it counts as deleted
        (D3-22).

        A topic with another id in its place does not mean that ours is back. By itself it does not
        mean that ours was deleted either, because a source without ids may have been upgraded to
        ids (D3-16).
        """
        by_topic: dict[tuple[str, Uuid], list[MirrorPartition]] = {}
        for driver in led:
            by_topic.setdefault((driver.id.topic, driver.id.topic_id), []).append(driver)
        before = self._missing.get(mirror_name, {})
        missing = self._missing[mirror_name] = {key: count for key, count in before.items() if key in by_topic}
        for key, drivers in by_topic.items():
            found = metadata.topics.get(key[0])
            if found is None:
                continue
            if found.error not in (Errors.NONE, Errors.UNKNOWN_TOPIC_OR_PARTITION):
                missing.pop(key, None)  # it may be there: the next one that does not find it is the first of a row
            elif found.error is Errors.NONE and found.topic_id in (Uuid.ZERO, key[1]):
                missing.pop(key, None)
                for driver in drivers:
                    driver.on_source_present()
            elif found.error is Errors.UNKNOWN_TOPIC_OR_PARTITION or key in missing:
                missing[key] = missing.get(key, 0) + 1
                if missing[key] >= REFRESHES_UNTIL_DELETED:
                    for driver in drivers:
                        driver.on_source_deleted()

    def _is_owner(self, mirror_name: str) -> bool:
        return self._coordinator.sync_owner(mirror_name) == self._config.broker_id


class _Loop:
    """Owns a mirror's task, and when its next cycle is due."""

    def __init__(self, runtime: Runtime, interval_ms: int) -> None:
        self.task: asyncio.Task[None] | None = None
        self._runtime = runtime
        self._interval_ms = interval_ms
        self._requested = False
        self._waiter: asyncio.Future[None] | None = None

    def request(self) -> None:
        self._requested = True
        self._wake()

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()

    async def wait(self) -> None:
        """Waits until the interval is over or a cycle is requested."""
        if not self._requested:
            timer: TimerHandle | None = None
            self._waiter = self._runtime.create_future()
            if self._interval_ms > 0:
                timer = self._runtime.call_later_ms(self._interval_ms, self._wake)
            try:
                await self._waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
        self._requested = False

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def metadata_problems(cycle: SyncCycle) -> list[str]:
    """Why a refresh counts as failed although it was answered (C37): topics that we may not see or
    that have no leader, or no controller.
    """
    problems = [] if cycle.metadata.controller_id >= 0 else ["the source has no controller"]
    for name, topic in sorted(cycle.metadata.topics.items()):
        if name in cycle.idle_topics or topic.error is Errors.UNKNOWN_TOPIC_OR_PARTITION:
            continue
        leaderless = [number for number, partition in sorted(topic.partitions.items()) if partition.leader < 0]
        if topic.error is not Errors.NONE:
            problems.append(f"source topic {name}: {topic.error.name}")
        elif leaderless:
            problems.append(f"source topic {name}: no leader for partitions {', '.join(map(str, leaderless))}")
    return problems
