"""All partitions of one broker: the interface of `replica`, and the place where its parts are wired
together.

    hosted_partitions           which partitions are here
    metadata_applier            what the metadata make of them: leaders, followers, logs, configs
    partition_appends           produce
    partition_reads             fetch; `follower_fetches` for followers with a session
    record_deletions            DeleteRecords
    purgatories                 what waits for a partition
    alter_log_dirs              moves between log directories
    high_watermark_checkpoints  what is known of high watermarks after a restart

Everything is synchronous except waiting. `append_records` and `fetch_messages` do their work when
called, and return a future that is already done if there is nothing to wait for; otherwise a
`Delayed*` operation in a purgatory, keyed by partition, completes it. Code that moves a log or a
watermark calls `complete_delayed(topic_partition)`. The read-only rules are in `Partition`; here
their exceptions only become error codes.
"""

from __future__ import annotations

import asyncio

from kmirror.common.metrics import MetricsRegistry
from kmirror.common.topic_partition import TopicIdPartition, TopicPartition
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import MetadataImage
from kmirror.replica.alter_log_dirs import AssignmentListener, ReplicaAlterLogDirs
from kmirror.replica.alter_partition import AlterPartitionManager, IsrMeters
from kmirror.replica.assigned_logs import AssignedLogs
from kmirror.replica.broker_topic_stats import BrokerTopicStats
from kmirror.replica.config_applier import ConfigApplier
from kmirror.replica.delayed_follower_fetch import FollowedPartitions
from kmirror.replica.fetcher_manager import FetcherManager
from kmirror.replica.follower_fetches import FollowerFetches
from kmirror.replica.high_watermark_checkpoints import HighWatermarkCheckpoints
from kmirror.replica.hosted_partitions import HostedPartitions
from kmirror.replica.metadata_applier import MetadataApplier
from kmirror.replica.metadata_view import MetadataView
from kmirror.replica.partition import Partition
from kmirror.replica.partition_appends import PartitionAppends
from kmirror.replica.partition_listener import PartitionListener, PartitionListeners
from kmirror.replica.partition_reads import PartitionReads
from kmirror.replica.purgatories import Purgatories
from kmirror.replica.record_deletions import RecordDeletions
from kmirror.replica.replica_manager_metrics import ReplicaManagerMetrics
from kmirror.replica.replica_selector import create_replica_selector
from kmirror.replica.replica_types import FetchInfos, FetchParams, FetchResults, ReplicaConfig
from kmirror.replica.replication_quota_manager import ReplicationQuotaManagers
from kmirror.runtime.api import Runtime
from kmirror.runtime.supervision import Supervised
from kmirror.storage.log_manager import LogManager


class ReplicaManager:
    """Owns all parts of replication on one broker, and the task that shrinks ISRs. The owner of
    `log_manager` starts it before this and shuts it down after.

    Methods called for each batch (`append_records`, `get_partition`, ...) are attributes that refer
    directly to the methods of the part that does the work.
    """

    def __init__(
        self,
        config: ReplicaConfig,
        runtime: Runtime,
        log_manager: LogManager,
        metrics: MetricsRegistry,
        *,
        alter_partition_manager: AlterPartitionManager | None = None,
    ) -> None:
        self.config = config
        self.runtime = runtime
        self.log_manager = log_manager
        self.stats = BrokerTopicStats(metrics)
        self.quotas = _quotas(config, runtime, metrics)
        self._alter_partition_manager = alter_partition_manager
        if alter_partition_manager is not None:
            alter_partition_manager.meters = IsrMeters(metrics)

        self._metadata = MetadataView()
        self._hosted = hosted = HostedPartitions(self._metadata)
        self._listeners = PartitionListeners()
        self.purgatories = purgatories = Purgatories(runtime, hosted)
        self.alter_log_dirs = ReplicaAlterLogDirs(
            config, runtime, log_manager, hosted, self.quotas.alter_log_dirs, on_replaced=purgatories.complete_delayed
        )
        self._logs = AssignedLogs(log_manager, config.broker_id)
        self._metadata_applier = MetadataApplier(
            config.broker_id,
            self._metadata,
            hosted,
            self._listeners,
            purgatories,
            self._logs,
            ConfigApplier(config.broker_id, log_manager, hosted, self.quotas),
            self.alter_log_dirs,
            self.stats,
            create_partition=self._create_partition,
        )
        self._checkpoints = HighWatermarkCheckpoints(runtime, log_manager, hosted, interval_ms=config.high_watermark_checkpoint_interval_ms)
        self._isr_task: asyncio.Task[None] | None = None
        self._wire_requests(ReplicaManagerMetrics(metrics, hosted, purgatories))

    def _wire_requests(self, metrics: ReplicaManagerMetrics) -> None:
        hosted, purgatories = self._hosted, self.purgatories
        self.partitions = hosted.online
        self.offline_partitions = hosted.offline
        self.get_partition = hosted.get
        self.get_partition_or_exception = hosted.get_or_exception
        self.complete_delayed = purgatories.complete_delayed
        self.complete_delayed_together = purgatories.complete_delayed_together
        appends = PartitionAppends(self.runtime, hosted, purgatories, self.stats, expirations=metrics.produce_expirations)
        self.append_records = appends.append_records
        self.reads = PartitionReads(
            self.runtime,
            hosted,
            purgatories.fetches,
            self.quotas.leader,
            self.stats,
            replica_selector=create_replica_selector(self.config.replica_selector_class),
            broker_of=self._metadata.broker,
            expirations={False: metrics.consumer_fetch_expirations, True: metrics.follower_fetch_expirations},
        )
        self._follower_fetches = FollowerFetches(
            self.runtime, hosted, self.reads, purgatories.follower_fetches, metrics.follower_fetch_expirations
        )
        deletions = RecordDeletions(
            self.runtime,
            hosted,
            purgatories.delete_records,
            note_changes=purgatories.follower_fetches.note_changes,
            expirations=metrics.delete_records_expirations,
        )
        self.delete_records = deletions.delete_records

    # --- life
    # -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start checkpointing high watermarks and shrinking ISRs."""
        self._checkpoints.start()
        self._isr_task = Supervised(self.runtime, self._shrink_isr_loop, name="isr-expiration").start()

    async def shutdown(self) -> None:
        """Stop the tasks, answer what waits, checkpoint the high watermarks."""
        self.kill()
        await self._checkpoints.write_last()

    def kill(self) -> None:
        """Stop the tasks and whatever waits; nothing is written."""
        self._checkpoints.cancel()
        if self._isr_task is not None:
            self._isr_task.cancel()
        self.alter_log_dirs.kill()
        self.purgatories.shutdown()

    async def _shrink_isr_loop(self) -> None:
        while True:
            await self.runtime.sleep_ms(self.config.replica_lag_time_max_ms // 2)
            for partition in list(self.partitions.values()):
                partition.maybe_shrink_isr()

    # --- metadata
    # ---------------------------------------------------------------------------------------------------

    def apply_delta(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Make leaders and followers, create, update and delete logs. `server`'s metadata publisher
        calls this first."""
        self._metadata_applier.apply(delta, image)

    def set_fetcher_manager(self, fetcher_manager: FetcherManager) -> None:
        """Followers fetch from now on (a broker without peers has no fetchers). Call it before the
        first delta."""
        self._metadata_applier.fetcher_manager = fetcher_manager

    def set_assignment_listener(self, on_assignment: AssignmentListener) -> None:
        """Sets the listener that is told of each log that is, or is to be, in another directory
        than the metadata says. Call it before the first delta.
        """
        self._logs.on_assignment = on_assignment
        self.alter_log_dirs.on_assignment = on_assignment

    def handle_log_dir_failure(self, log_dir: str) -> None:
        """The log manager stopped serving `log_dir`: its partitions go offline."""
        self._metadata_applier.handle_log_dir_failure(log_dir)
        self.alter_log_dirs.handle_log_dir_failure()

    @property
    def is_mirroring_enabled(self) -> bool:
        """Whether topics of this cluster may mirror another one's (mirror.version)."""
        return self._metadata.is_mirroring_enabled

    def _create_partition(self, topic_partition: TopicIdPartition) -> Partition:
        """A partition without a log yet; `MetadataApplier` then makes it leader or follower."""
        return Partition(
            topic_partition.topic_partition,
            topic_partition.topic_id,
            self.config,
            self.runtime.clock,
            on_progress=self.purgatories.complete_delayed,
            on_high_watermark=self._listeners.on_high_watermark_updated,
            on_read_only=self.purgatories.fail_pending_produces,
            alter_partition_manager=self._alter_partition_manager,
            brokers=self._metadata,
        )

    # --- partitions
    # -------------------------------------------------------------------------------------------------

    def maybe_add_listener(self, topic_partition: TopicPartition, listener: PartitionListener) -> bool:
        """Adds a listener; False if the partition is not hosted here."""
        if topic_partition not in self.partitions:
            return False
        self._listeners.add(topic_partition, listener)
        return True

    def remove_listener(self, topic_partition: TopicPartition, listener: PartitionListener) -> None:
        self._listeners.remove(topic_partition, listener)

    def fetch_messages(
        self, params: FetchParams, fetch_infos: FetchInfos, followed: FollowedPartitions | None = None
    ) -> asyncio.Future[FetchResults]:
        """Read now, or when there are `params.min_bytes`, or after `params.max_wait_ms`. The order
        of `fetch_infos` is kept.

        With `followed`, a follower's session, the wait also covers other partitions of the session,
        and these may be in the results.
        """
        if followed is not None:
            return self._follower_fetches.fetch(params, followed, fetch_infos)
        return self.reads.fetch_messages(params, fetch_infos)


def _quotas(config: ReplicaConfig, runtime: Runtime, metrics: MetricsRegistry) -> ReplicationQuotaManagers:
    return ReplicationQuotaManagers(
        metrics,
        runtime.clock,
        window_count=config.replication_quota_window_num,
        window_size_seconds=config.replication_quota_window_size_seconds,
        alter_log_dirs_window_count=config.alter_log_dirs_replication_quota_window_num,
        alter_log_dirs_window_size_seconds=config.alter_log_dirs_replication_quota_window_size_seconds,
    )
