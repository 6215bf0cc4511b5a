"""Translates offsets of groups and writes them as checkpoints, and on demand as the groups' offsets at
the target (Kafka's `MirrorCheckpointTask`).

A task first reads the checkpoints that there are, then the topic of offset syncs to its end. Before
that it translates nothing, because it could not know which syncs were withdrawn (OS5). Afterwards:

    always                                      the syncs topic is followed
    each emit.checkpoints.interval.seconds      checkpoints of its groups (CP1, CP2)
    each sync.group.offsets.interval.seconds    offsets of groups without members (CP3, KIP-545)

A task that cannot read the checkpoints goes on without them, as in Kafka: it then translates only
offsets that were copied after its start, so that none goes back.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final

from kmirror.admin.admin_client import AdminClient
from kmirror.admin.groups import ConsumerGroupDescription
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.checkpoints import (
    EMPTY_GROUP_STATE,
    CheckpointStore,
    CommittedOffsets,
    checkpoints_for_group,
    group_offsets_to_sync,
    rename_topic_partition,
)
from kmirror.mirrormaker.connect_offsets import SourceOffsets
from kmirror.mirrormaker.cycles import SourceAndTarget
from kmirror.mirrormaker.formats import Checkpoint, SchemaException
from kmirror.mirrormaker.herder.connector_plan import TaskContext
from kmirror.mirrormaker.internal_topics import InternalTopicReader
from kmirror.mirrormaker.kept_running import Told
from kmirror.mirrormaker.mirror_metrics import MirrorCheckpointMetrics
from kmirror.mirrormaker.offset_sync_store import OffsetSyncStore
from kmirror.mirrormaker.replication_policy import ReplicationPolicy
from kmirror.mirrormaker.scheduler import Job, Step, run_regularly
from kmirror.mirrormaker.source_records import RecordsConfig, SourceRecord, SourceRecordWriter
from kmirror.mirrormaker.source_task_metrics import SourceTaskMeter
from kmirror.mirrormaker.topic_filters import TopicFilter
from kmirror.mirrormaker.worker_config import open_admin
from kmirror.runtime.api import Runtime, TaskScope
from kmirror.runtime.supervision import Supervised

FOLLOW_MS: Final = 1_000
FIRST_PAUSE_MS: Final = 100
LONGEST_PAUSE_MS: Final = 10_000
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CheckpointTaskConfig:
    """What a task needs. The mappings are settings of clients; times are ms, None for never."""

    flow: SourceAndTarget
    policy: ReplicationPolicy
    topic_filter: TopicFilter
    groups: Sequence[str]
    checkpoints_topic: str
    offset_syncs_topic: str
    source_admin: Mapping[str, str]
    target_admin: Mapping[str, str]
    checkpoints_consumer: Mapping[str, str]
    syncs_consumer: Mapping[str, str]
    records: RecordsConfig
    emit_interval_ms: int | None
    sync_interval_ms: int | None
    admin_timeout_ms: int = 60_000


class MirrorCheckpointTask:
    """One task. `run` runs one life of it, and tells its status."""

    def __init__(
        self,
        runtime: Runtime,
        config: CheckpointTaskConfig,
        offsets: SourceOffsets,
        metrics: MirrorCheckpointMetrics,
        context: TaskContext,
        meter: SourceTaskMeter | None = None,
    ) -> None:
        self.config = config
        self._meter = meter
        self._runtime = runtime
        self._offsets = offsets
        self._metrics = metrics
        self._context = context

    async def run(self, status: Told) -> None:
        """Works until it is cancelled; raises what a checkpoint could not be written for."""
        life = _Life(self._runtime, self.config, self._offsets, self._metrics, self._context, self._meter)
        try:
            await life.start()
            await life.work(status)
        finally:
            await life.end()


class _Life:
    """A task from its start to its end: clients, and the stores."""

    def __init__(
        self,
        runtime: Runtime,
        config: CheckpointTaskConfig,
        offsets: SourceOffsets,
        metrics: MirrorCheckpointMetrics,
        context: TaskContext,
        meter: SourceTaskMeter | None,
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._metrics = metrics
        self._context = context
        self._name = f"{config.flow}|{config.records.connector}"
        self._scope = TaskScope(runtime, self._name)
        self._source: AdminClient = open_admin(runtime, config.source_admin)
        self._target: AdminClient = open_admin(runtime, config.target_admin)
        self._records = SourceRecordWriter(runtime, self._name, config.records, offsets, context.writes_to, meter)
        self._checkpoints = CheckpointStore(config.groups)
        self._syncs = OffsetSyncStore()
        self._syncs_reader = InternalTopicReader(runtime, config.syncs_consumer, config.offset_syncs_topic, self._handle_sync)

    async def start(self) -> None:
        """Reads both topics to their ends."""
        await self._records.start(self._context.check)
        read_ok = await self._read_checkpoints()
        self._syncs.start(initialization_must_read_to_end=not read_ok)
        await self._syncs_reader.start()
        self._syncs.reached_end()
        for partition in self._syncs.topic_partitions():
            # Compaction may have removed the sync before the log went back.
            self._withdraw_checkpoints(partition, beyond=self._syncs.sync_for(partition, 0).downstream_offset + 1)
        self._scope.spawn(Supervised(self._runtime, self._follow_syncs, name=f"{self._name} syncs").run(), name="syncs")
        _log.info("[%s] checkpoints %d groups", self._name, len(self._config.groups))

    async def work(self, status: Told) -> None:
        config = self._config
        jobs = [
            Job(self.emit_checkpoints, config.emit_interval_ms, "emitting checkpoints", delayed=True, is_vital=True),
            Job(self.sync_group_offsets, config.sync_interval_ms, "sync idle consumer group offset from source to target", delayed=True),
        ]

        def alive() -> None:
            self._records.raise_failure()
            status.heard()

        await run_regularly(self._runtime, self._name, jobs, timeout_ms=config.admin_timeout_ms, heard=alive, ended=status.job_ended)

    async def end(self) -> None:
        """Closes all, even if the task is cancelled while it ends for another reason."""
        async with AsyncExitStack() as closing:
            closing.callback(self._target.close)
            closing.callback(self._source.close)
            closing.push_async_callback(self._records.end)
            closing.push_async_callback(self._syncs_reader.close)
            await self._scope.cancel()

    # Stores

    async def _read_checkpoints(self) -> bool:
        def handle(key: bytes | None, value: bytes | None) -> None:
            try:
                self._checkpoints.handle_record(key, value)
            except SchemaException as error:
                _log.warning("[%s] Ignored invalid checkpoint record: %s", self._name, error)

        topic = self._config.checkpoints_topic
        reader = InternalTopicReader(self._runtime, self._config.checkpoints_consumer, topic, handle)
        try:
            await reader.start()
        except ApiException as error:
            if error.error.retriable and error.error is not Errors.UNKNOWN_TOPIC_OR_PARTITION:
                raise  # the cluster cannot be reached now; the task begins again
            _log.warning(
                "[%s] The checkpoints in %s cannot be read (%s): only offsets that are copied from now on will be translated",
                self._name, topic, error,
            )  # fmt: skip
            return False
        finally:
            await reader.close()
        return True

    def _handle_sync(self, key: bytes | None, value: bytes | None) -> None:
        try:
            went_back = self._syncs.handle_record(key, value)
        except SchemaException as error:
            _log.warning("[%s] Ignored invalid offset sync record: %s", self._name, error)
            return
        if went_back is not None:
            self._withdraw_checkpoints(went_back, beyond=-1)

    def _withdraw_checkpoints(self, source: TopicPartition, beyond: int) -> None:
        remote = rename_topic_partition(self._config.policy, self._config.flow, source)
        for group in self._checkpoints.withdraw(remote, beyond):
            _log.warning(
                "[%s] %s was made anew or has lost its end: the last checkpoint of group %s there does not count any more",
                self._name, remote, group,
            )  # fmt: skip

    async def _follow_syncs(self) -> None:
        pause_ms = FIRST_PAUSE_MS
        while True:
            try:
                await self._syncs_reader.read(FOLLOW_MS)
                pause_ms = FIRST_PAUSE_MS
            except KmirrorError as error:
                _log.warning("[%s] The topic of offset syncs cannot be read, tries again: %s", self._name, error)
                await self._runtime.sleep_ms(pause_ms)
                pause_ms = min(2 * pause_ms, LONGEST_PAUSE_MS)

    # Checkpoints

    async def emit_checkpoints(self, step: Step) -> None:
        """Writes what is news of each group (CP1, CP2)."""
        config = self._config
        for group in config.groups:
            timestamp_ms = self._runtime.clock.time_ms()
            try:
                offsets = await self._source.list_consumer_group_offsets(group)
            except KmirrorError as error:
                _log.error("[%s] Error querying offsets for consumer group %s: %s", self._name, group, error)
                continue
            found = checkpoints_for_group(
                group,
                offsets,
                flow=config.flow,
                policy=config.policy,
                topic_filter=config.topic_filter,
                translate=self._syncs.translate_downstream,
                store=self._checkpoints,
            )
            # All at once: if the target's log goes back while they are sent, they are withdrawn with the others.
            self._checkpoints.update(found)
            for checkpoint in found:
                await self._send(checkpoint, timestamp_ms)
            step()
        await self._records.poll_ended()

    async def _send(self, checkpoint: Checkpoint, timestamp_ms: int) -> None:
        written = partial(self._metrics.checkpoint_acknowledged, checkpoint.consumer_group_id, checkpoint.topic_partition, timestamp_ms)
        topic = self._config.checkpoints_topic
        record = SourceRecord(checkpoint.connect_partition, topic, checkpoint.record_key, checkpoint.record_value, timestamp_ms)
        await self._records.send(record, written)

    # Group offsets

    async def sync_group_offsets(self, step: Step) -> None:
        """Writes checkpoints as offsets of groups that have no members at the target (CP3). What to write is
        looked at for each group in its turn: a log of the target may go back meanwhile.
        """
        store = self._checkpoints
        if not store.groups:
            return
        idle, refused = await self._idle_offsets(step)
        for group in store.groups:
            step()
            offsets = group_offsets_to_sync(store.converted_upstream_offsets(group), idle.get(group), store.withdrawn.get(group, {}))
            if group in refused or not offsets:
                continue
            try:
                outcome = await self._target.alter_consumer_group_offsets(group, offsets)
            except KmirrorError as error:
                _log.error("[%s] Unable to sync offsets for consumer group %s: %s", self._name, group, error)
                continue
            store.is_at(group, {partition: offsets[partition] for partition, error in outcome.items() if error is None})
            errors = {error.error for error in outcome.values() if error is not None}
            if Errors.UNKNOWN_MEMBER_ID in errors:
                _log.warning(
                    "[%s] Unable to sync offsets for consumer group %s. This is likely caused by consumers currently using this group in the "
                    "target cluster.",
                    self._name,
                    group,
                )
            elif errors:
                _log.error("[%s] Unable to sync offsets for consumer group %s: %s", self._name, group, sorted(one.name for one in errors))

    async def _idle_offsets(self, step: Step) -> tuple[dict[str, CommittedOffsets], set[str]]:
        """Returns the offsets of groups without members, and the groups that the target says nothing of.
        What they have is not known, so nothing is written for them: it could lead them back.
        """
        found: dict[str, CommittedOffsets] = {}
        refused: set[str] = set()
        for group, described in (await self._described(step)).items():
            error = described if isinstance(described, ApiException) else None
            if not isinstance(described, ApiException) and described.state == EMPTY_GROUP_STATE:
                try:
                    found[group] = await self._target.list_consumer_group_offsets(group)
                    self._checkpoints.is_at(group, found[group])
                except ApiException as failure:
                    error = failure
                step()
            if error is not None and error.error is not Errors.GROUP_ID_NOT_FOUND:
                refused.add(group)
                _log.error(
                    "[%s] Error querying for consumer group %s on cluster %s: %s", self._name, group, self._config.flow.target, error
                )
        return found, refused

    async def _described(self, step: Step) -> dict[str, ConsumerGroupDescription | ApiException]:
        """Asks for all groups at once. If the target refuses that because of one, asks for each."""
        groups = list(self._config.groups)
        try:
            return dict(await self._target.describe_consumer_groups(groups))
        except ApiException as error:
            if error.error.retriable:
                raise
        found: dict[str, ConsumerGroupDescription | ApiException] = {}
        for group in groups:
            try:
                found |= await self._target.describe_consumer_groups([group])
            except ApiException as error:
                found[group] = error
            step()
        return found
