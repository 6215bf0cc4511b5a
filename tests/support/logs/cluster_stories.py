"""Random histories of two clusters, of which B mirrors topics of A. The result is the log
directories that their brokers leave behind.

kmirror's own storage writes every file. A cluster has two brokers, and each broker has a replica of

    orders-0, orders-1, audit-0   plain, idempotent and transactional batches of both protocol versions, epochs, deleted records
    table-0                       compacted
    __consumer_offsets-0          commits of groups, some within transactions; compacted
    __transaction_state-0         where each transaction stands; compacted
    __cluster_metadata-0          topics, leaders, configs

B mirrors orders and audit: orders-0 was failed over (STOPPED, reset, batches of its own), orders-1
is MIRRORING behind the source, audit-0 is PAUSED. All choices come from a seeded `random`, so a
seed always gives the same history. Both clusters end with a clean shutdown.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Final

from kmirror.common.topic_partition import CLUSTER_METADATA_TOPIC_NAME, TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord
from kmirror.coordinator.group.group_records import OffsetAndMetadata, offset_commit_record
from kmirror.coordinator.transaction.transaction_log import transaction_record
from kmirror.coordinator.transaction.transaction_metadata import TransactionMetadata
from kmirror.coordinator.transaction.transaction_state import TransactionState
from kmirror.mirror.coordination.mirror_records import last_mirror_epochs_record, partition_state_record
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.record.append_origin import AppendOrigin
from kmirror.record.builder import build_batch
from kmirror.record.control_record import ControlRecordType, build_end_transaction_marker
from kmirror.record.record import Record
from kmirror.storage.fetch_data_info import FetchIsolation
from kmirror.storage.log_cleaner import CleanerConfig
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_manager import LogManager
from kmirror.storage.log_manager_config import LogManagerConfig
from kmirror.storage.meta_properties import MetaProperties, write_meta_properties
from kmirror.storage.unified_log import UnifiedLog
from kmirror.wire.messages.config_record import ConfigRecord
from kmirror.wire.messages.partition_change_record import PartitionChangeRecord
from kmirror.wire.messages.partition_record import PartitionRecord
from kmirror.wire.messages.topic_record import TopicRecord
from kmirror.wire.records import write_metadata_record
from support.logs.replay_stories import PRODUCERS, Story
from support.logs.storage_doubles import ManualClock, ManualScheduler, StorageWorld

ORDERS: Final = (TopicPartition("orders", 0), TopicPartition("orders", 1))
AUDIT: Final = TopicPartition("audit", 0)
TABLE: Final = TopicPartition("table", 0)
DATA: Final = (*ORDERS, AUDIT, TABLE)
MIRRORED: Final = (*ORDERS, AUDIT)
GROUPS: Final = TopicPartition("__consumer_offsets", 0)
TRANSACTIONS: Final = TopicPartition("__transaction_state", 0)
MIRROR_STATES: Final = TopicPartition("__mirror_state", 0)
METADATA: Final = TopicPartition(CLUSTER_METADATA_TOPIC_NAME, 0)
COMPACTED: Final = (TABLE.topic, GROUPS.topic, TRANSACTIONS.topic, MIRROR_STATES.topic)
MIRROR: Final = "m"
NODES: Final = (1, 2)
GROUP_PRODUCER: Final = 9001
"""The producer that commits group offsets in transactions."""
TAKE_ALL: Final = (1 << 31) - 1
_S = MirrorPartitionState


def topic_id(cluster: str, topic: str) -> Uuid:
    return Uuid(f"{cluster}:{topic}".encode().ljust(16, b".")[:16])


class Broker:
    """One broker, with one log.dir."""

    def __init__(self, folder: Path, cluster: str, node: int, clock: ManualClock, segment_bytes: int) -> None:
        self.folder = folder
        self.cluster = cluster
        self.world = StorageWorld()
        self.world.clock, self.world.scheduler = clock, ManualScheduler(clock)
        folder.mkdir(parents=True)
        properties = MetaProperties(f"cluster-{cluster}", node, Uuid(f"{cluster}{node}".encode().ljust(16, b"d")))
        write_meta_properties(self.world.files, str(folder), properties, time_ms=clock.now_ms)
        config = {
            "internal.segment.bytes": str(segment_bytes),
            "index.interval.bytes": "200",
            "segment.index.bytes": "800",
            "min.cleanable.dirty.ratio": "0.0",
            "delete.retention.ms": "1000",
        }
        self.manager = LogManager(
            LogManagerConfig((str(folder),), cleaner=CleanerConfig(dedupe_buffer_size=24 * 1000), transaction_verification_enabled=False),
            files=self.world.files,
            clock=clock,
            random=self.world.random,
            scheduler=self.world.scheduler,
            default_log_config=LogConfig.from_props(config),
            topic_config=lambda topic: config | {"cleanup.policy": "compact"} if topic in COMPACTED else {},
        )
        for step in self.manager.load_steps():
            step()

    def log(self, name: TopicPartition) -> UnifiedLog:
        return self.manager.get_or_create_log(name, topic_id=topic_id(self.cluster, name.topic), is_new=True)

    def clean(self) -> None:
        assert self.manager.cleaner is not None
        while self.manager.cleaner.clean_filthiest_log():
            pass

    def end(self) -> None:
        """Shuts down cleanly, and sets the files' times to the story's clock."""
        marks = {log.topic_partition: log.high_watermark for log in self.manager.all_logs()}
        self.manager.checkpoint_high_watermarks(str(self.folder), marks)
        self.world.scheduler.run_due()
        self.manager.shutdown()
        now = self.world.clock.now_ms / 1000
        for path in self.folder.rglob("*"):
            os.utime(path, (now, now))


class PartitionStory(Story):
    """The `Story` of one partition on a broker that has several."""

    def __init__(self, broker: Broker, name: TopicPartition, seed: int, *, others: tuple[str, ...] = ()) -> None:
        self._broker, self._name = broker, name
        super().__init__(broker.folder, seed, others=others, world=broker.world)

    def _start(self) -> tuple[LogManager, UnifiedLog]:
        return self._broker.manager, self._broker.log(self._name)


class ClusterStory:
    """The two brokers of one cluster. The first leads every partition, the second follows."""

    def __init__(self, folder: Path, name: str, seed: int, clock: ManualClock) -> None:
        self.folder = folder
        self.name = name
        self.random = random.Random(f"{name}{seed}")
        self.clock = clock
        segment_bytes = self.random.choice((900, 1500, 4000))
        self.leader, self.follower = (Broker(folder / f"node-{node}", name, node, clock, segment_bytes) for node in NODES)
        self.stories: dict[TopicPartition, PartitionStory] = {}
        self._noted_epochs: dict[TopicPartition, int] = {}
        self._is_in_transaction = False
        self._group_sequence = 0

    # the controller
    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        own = topic_id(self.name, topic)
        self.note(TopicRecord(name=topic, topic_id=own))
        for number in range(partitions):
            nodes = list(NODES)
            self.note(
                PartitionRecord(
                    partition_id=number, topic_id=own, replicas=nodes, isr=nodes, leader=NODES[0], leader_epoch=0, partition_epoch=0
                )
            )
        for key, value in configs.items():
            self.note(ConfigRecord(resource_type=2, resource_name=topic, name=key.replace("_", "."), value=value))

    def note(self, record: object) -> None:
        """Appends a record to `__cluster_metadata`."""
        self.append(METADATA, None, write_metadata_record(record, 0))  # type: ignore[arg-type]

    def note_leaders(self, name: TopicPartition, epoch: int) -> None:
        """Records the elections that raised the partition's leader epoch to `epoch`."""
        for _ in range(self._noted_epochs.get(name, 0), epoch):
            self.note(PartitionChangeRecord(partition_id=name.partition, topic_id=topic_id(self.name, name.topic), leader=NODES[0]))
        self._noted_epochs[name] = epoch

    # logs
    def append(self, name: TopicPartition, key: bytes | None, value: bytes | None, **fields: object) -> int:
        """Appends one record to an internal topic, and returns its offset."""
        self.clock.now_ms += 1
        log = self.leader.log(name)
        offset = log.log_end_offset
        data = build_batch([Record(0, self.clock.now_ms, key, value, [])], **fields)  # type: ignore[arg-type]
        log.append_as_leader(data, leader_epoch=0, origin=AppendOrigin.COORDINATOR)
        log.update_high_watermark(log.log_end_offset)
        return offset

    def record(self, name: TopicPartition, record: CoordinatorRecord, **fields: object) -> int:
        return self.append(name, record.key, record.value, **fields)

    def follow(self, name: TopicPartition) -> None:
        copy_log(self.leader.log(name), self.follower.log(name))

    # groups
    def commit(self, group: str, name: TopicPartition, offset: int) -> int:
        return self.record(GROUPS, self.commit_record(group, name, offset))

    def commit_record(self, group: str, name: TopicPartition, offset: int) -> CoordinatorRecord:
        return offset_commit_record(group, name.topic, name.partition, OffsetAndMetadata(offset, 0, "", self.clock.now_ms))

    def commit_in_transaction(self, group: str, name: TopicPartition, offset: int, end: ControlRecordType) -> None:
        self.record(
            GROUPS,
            self.commit_record(group, name, offset),
            producer_id=GROUP_PRODUCER,
            producer_epoch=0,
            base_sequence=self._group_sequence,
            is_transactional=True,
        )
        self._group_sequence += 1
        marker = build_end_transaction_marker(
            end, producer_id=GROUP_PRODUCER, producer_epoch=0, coordinator_epoch=0, timestamp=self.clock.now_ms
        )
        log = self.leader.log(GROUPS)
        log.append_as_leader(bytearray(marker), leader_epoch=0, origin=AppendOrigin.COORDINATOR)
        log.update_high_watermark(log.log_end_offset)

    def commits(self, names: tuple[TopicPartition, ...]) -> None:
        """Commits group offsets within the logs, some of them in transactions.

        Offsets in aborted transactions lie beyond the log end, so a reader that counts them is
        found out.
        """
        for name in names:
            log = self.leader.log(name)
            end = log.last_stable_offset  # a failover may cut off what follows it
            offset = self.random.randint(min(log.log_start_offset, end), end)
            match self.random.randrange(4):
                case 0:
                    self.commit_in_transaction("shipping", name, offset, ControlRecordType.COMMIT)
                case 1:
                    self.commit_in_transaction("shipping", name, end + 1000, ControlRecordType.ABORT)
                case _:
                    self.commit(self.random.choice(("billing", "reports")), name, offset)

    # transactions
    def note_transactions(self) -> None:
        """Writes each producer's transaction state: the partitions of its open transaction."""
        for producer in PRODUCERS:
            where = tuple(name for name, story in self.stories.items() if producer in story.open)
            epoch = max((story.epochs.get(producer, 0) for story in self.stories.values()), default=0)
            state = TransactionState.ONGOING if where else TransactionState.COMPLETE_COMMIT
            metadata = TransactionMetadata(
                transactional_id=f"app-{producer}",
                producer_id=producer,
                producer_epoch=epoch,
                state=state,
                timeout_ms=60_000,
                start_timestamp_ms=self.clock.now_ms,
                last_update_timestamp_ms=self.clock.now_ms,
                partitions=where,
            )
            self.record(TRANSACTIONS, transaction_record(metadata, transaction_version=0))

    # chapters
    def tell(self, steps: int) -> None:
        """Runs one chapter: `steps` steps on each leader; some followers then catch up."""
        for name, story in self.stories.items():
            story.tell(steps)
            self.note_leaders(name, story.leader_epoch)
            if self.random.random() < 0.7:
                self.follow(name)
        for broker in (self.leader, self.follower):
            if self.random.random() < 0.5:
                broker.clean()

    def end(self) -> None:
        for name in (GROUPS, TRANSACTIONS, MIRROR_STATES, METADATA):
            if self.leader.manager.get_log(name) is not None:
                self.follow(name)
        for broker in (self.leader, self.follower):
            broker.end()


def copy_log(source: UnifiedLog, destination: UnifiedLog, *, limit: int | None = None) -> None:
    """Copies as a fetcher does: the source's batches from the destination's end on, until the
    destination reaches `limit`.
    """
    if destination.log_end_offset > source.log_end_offset:
        destination.truncate_to(source.log_end_offset, at_batch_boundary=True)
    if destination.log_end_offset < source.log_start_offset:
        destination.truncate_fully_and_start_at(source.log_start_offset)
    while destination.log_end_offset < source.log_end_offset and (limit is None or destination.log_end_offset < limit):
        found = source.read(destination.log_end_offset, 1, FetchIsolation.LOG_END, min_one_message=True).records
        data = bytearray(found.file.pread(found.size, found.position))
        if destination.log_start_offset == destination.log_end_offset > int.from_bytes(data[:8], "big"):
            destination.truncate_fully_and_start_at(int.from_bytes(data[:8], "big"))  # the source's log start lies within a batch
        destination.append_as_follower(data, leader_epoch=TAKE_ALL)
    destination.update_high_watermark(destination.log_end_offset)


class MirrorStory:
    """Two clusters, `folder/A` and `folder/B`, the second of which mirrors the first."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = ManualClock()
        self.source = ClusterStory(folder / "A", "A", seed, self.clock)
        self.destination = ClusterStory(folder / "B", "B", seed, self.clock)
        for cluster in (self.source, self.destination):
            mirrored = {} if cluster is self.source else {"mirror_name": MIRROR}
            cluster.create("orders", 2, **mirrored)
            cluster.create("audit", **mirrored)
            cluster.create("table", cleanup_policy="compact")
            for name in (GROUPS, TRANSACTIONS):
                cluster.create(name.topic, cleanup_policy="compact")
        self.destination.create(MIRROR_STATES.topic, cleanup_policy="compact")
        for number, name in enumerate(DATA):
            others: tuple[str, ...] = ("epoch", "roll") if name == TABLE else ("epoch", "roll", "epoch", "delete_records")
            self.source.stories[name] = PartitionStory(self.source.leader, name, seed * 10 + number, others=others)
        self.destination.stories[TABLE] = PartitionStory(self.destination.leader, TABLE, seed * 10 + 9, others=("roll",))

    def tell(self, *, chapters: int = 4, steps: int = 12) -> MirrorStory:
        """Runs the whole history, and shuts both clusters down at its end."""
        source, destination = self.source, self.destination
        for name in MIRRORED:
            self._state(name, _S.PREPARING)
            self._state(name, _S.MIRRORING)
        for chapter in range(chapters):
            source.tell(steps)
            source.commits(DATA)
            destination.tell(steps // 2)
            for name in MIRRORED:
                self._mirror(name)
            destination.commits(DATA)
            if chapter == chapters // 2:
                self._fail_over(ORDERS[0])
                self._state(AUDIT, _S.PAUSING)
                self._state(AUDIT, _S.PAUSED)
        for cluster in (source, destination):
            for story in cluster.stories.values():
                story.look()
            cluster.note_transactions()
            cluster.end()
        return self

    def _state(self, name: TopicPartition, state: MirrorPartitionState) -> None:
        self.destination.record(MIRROR_STATES, partition_state_record(MIRROR, name.topic, name.partition, state))

    def _mirror(self, name: TopicPartition) -> None:
        """Fetches part of what the source has, unless the partition is stopped.

        The destination's follower usually catches up.
        """
        destination = self.destination
        if name not in destination.stories:
            source, log = self.source.leader.log(name), destination.leader.log(name)
            behind = source.log_end_offset - log.log_end_offset
            copy_log(source, log, limit=log.log_end_offset + self.random.randint(behind // 2, max(behind, 1)))
        if self.random.random() < 0.8:
            destination.follow(name)

    def _fail_over(self, name: TopicPartition) -> None:
        """Fails over as KIP-1279 says: cut at the last stable offset, new epoch, reset.

        From then on the destination writes the partition itself.
        """
        destination = self.destination
        log = destination.leader.log(name)
        self._state(name, _S.STOPPING)
        end = log.last_stable_offset
        for broker in (destination.leader, destination.follower):
            broker.log(name).truncate_to(end, at_batch_boundary=True)
        latest = log.leader_epoch_cache.latest_epoch
        last_epoch = -1 if latest is None else latest
        self.destination.record(MIRROR_STATES, last_mirror_epochs_record(MIRROR, {(name.topic, name.partition): last_epoch}))
        story = PartitionStory(destination.leader, name, self.random.randrange(1 << 30), others=("roll",))
        story.leader_epoch = last_epoch + 1
        story.reset()
        story.log.update_high_watermark(story.log.log_end_offset)
        self._state(name, _S.STOPPED)
        destination.stories[name] = story
