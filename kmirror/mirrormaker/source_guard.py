"""Says what a task loses of its source, and decides where it goes on then (`source_ledger` has the
theory).

Each answer is held against the ledger before its records are copied, and partitions without answers
are looked at each second: a topic that was made anew with just as many records as were copied before
answers nothing. What is lost is told in one line, counted (`records-lost`), and shown on the health
page. For a topic that was made anew, `kmirror.recreated.topic.policy` says what to do:

    offset       goes on at the offset where the former topic was, as Apache's does: the default
    beginning    goes on at the beginning of the new topic
    stop         copies nothing of the partition until its users decide; the task's others go on

The ids of topics are stored beside the offsets (`connect_offsets`), so that a topic that is made anew
while nothing runs is found, too. Where a partition is read first is stored before its first record is
copied: with auto.offset.reset=latest another life would begin elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from kmirror.clients.consumer.consumer_types import FetchedBatches
from kmirror.clients.consumer.kafka_consumer import KafkaConsumer
from kmirror.common.errors import KmirrorError
from kmirror.common.ports import Clock
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.mirrormaker.connect_offsets import NOTHING_STORED, SourceOffsets, SourcePartition, record_source
from kmirror.mirrormaker.kept_running import Told
from kmirror.mirrormaker.mirror_metrics import MirrorSourceMetrics
from kmirror.mirrormaker.recreated_topics import OFFSET, STOP
from kmirror.mirrormaker.source_ledger import UNKNOWN, Finding, SourceLedger, Why
from kmirror.mirrormaker.source_task_config import SourceTaskConfig

LOOK_MS: Final = 1_000
ASKED_MS: Final = 5_000
_log = logging.getLogger(__name__)


class SourceGuard:
    """Of one life of a task."""

    def __init__(
        self,
        clock: Clock,
        config: SourceTaskConfig,
        consumer: KafkaConsumer,
        offsets: SourceOffsets,
        metrics: MirrorSourceMetrics,
    ) -> None:
        self._clock = clock
        self._config = config
        self._consumer = consumer
        self._offsets = offsets
        self._metrics = metrics
        name = config.policy.format_remote_topic
        self._remotes = {one: TopicPartition(name(config.flow.source, one.topic), one.partition) for one in config.partitions}
        self._ledger = SourceLedger()
        self._undecided: set[TopicPartition] = set()
        self._firsts: list[tuple[SourcePartition, int]] = []
        self._ids: list[tuple[SourcePartition, int, Uuid]] = []
        self._suspects: set[TopicPartition] = set()
        self._stopped: set[TopicPartition] = set()
        self._looked_ms = clock.monotonic_ms()

    def begin(self, partition: TopicPartition) -> int:
        """Returns the stored offset of a partition, NOTHING_STORED (-1) without one. A partition that was
        read before has its place: at 0 nothing could be stored.
        """
        stored = self._offsets.get(self._config.connector, self._source(partition))
        topic_id = self._offsets.topic_id(self._config.connector, self._source(partition))
        is_known = stored != NOTHING_STORED or topic_id
        self._ledger.begin(partition, stored + 1 if is_known else UNKNOWN, topic_id)
        if not is_known:
            self._undecided.add(partition)
        elif stored == NOTHING_STORED:
            self._consumer.seek(partition, 0)
        return stored

    async def look_at(self, fetched: Sequence[FetchedBatches], status: Told, *, is_heard: bool = True) -> list[FetchedBatches]:
        """Returns the answers to copy. Without `is_heard` the source does not answer, and no lag is known."""
        copied: list[FetchedBatches] = []
        for answer in fetched:
            partition = answer.partition
            if partition in self._stopped:
                continue
            if self._differs(partition, answer.topic_id, answer.position) and not self._look(
                partition, answer.topic_id, answer.position, answer.log_start_offset, status
            ):
                continue
            self._ledger.read(partition, answer.next_offset, answer.high_watermark)
            copied.append(answer)
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._looked_ms >= LOOK_MS:
            self._looked_ms = now_ms
            for partition in self._config.partitions:
                is_known = is_heard and partition not in self._stopped
                self._metrics.lag(self._remotes[partition], self._consumer.known_lag(partition) if is_known else None)
            await self._look_at_others({answer.partition for answer in fetched}, status)
        await self._store()
        return copied

    def follow(self) -> None:
        """Records were polled one by one: the ledger takes the positions as they are."""
        for partition in self._config.partitions:
            position = self._consumer.known_position(partition)
            if position is not None:
                self._ledger.read(partition, position)

    # Partitions without an answer

    async def _look_at_others(self, answered: set[TopicPartition], status: Told) -> None:
        """A partition that is not as it is known twice in a row has nothing on its way to us."""
        before, self._suspects = self._suspects, set()
        for partition in self._config.partitions:
            position = self._consumer.known_position(partition)
            topic_id = self._consumer.topic_id(partition.topic)
            if partition in self._stopped or partition in answered or position is None or not self._differs(partition, topic_id, position):
                continue
            if partition not in before and partition not in self._undecided:
                self._suspects.add(partition)
            else:
                await self._look_at_other(partition, topic_id, position, status)

    def _differs(self, partition: TopicPartition, topic_id: Uuid, position: int) -> bool:
        is_new = bool(topic_id) and not self._ledger.topic_id(partition)
        return is_new or not self._ledger.is_as_known(partition, topic_id, position)

    async def _look_at_other(self, partition: TopicPartition, topic_id: Uuid, position: int, status: Told) -> None:
        try:
            start = (await self._consumer.beginning_offsets([partition], timeout_ms=ASKED_MS))[partition]
            end = (await self._consumer.end_offsets([partition], timeout_ms=ASKED_MS))[partition]
        except KmirrorError:
            return  # asked again: the source is away, which others tell
        if position <= end:
            self._look(partition, topic_id, position, start, status)

    # What was found

    def _look(self, partition: TopicPartition, topic_id: Uuid, position: int, log_start: int, status: Told) -> bool:
        """Returns whether the partition is read on where it is."""
        is_first = self._ledger.next_offset(partition) == UNKNOWN
        former_id = self._ledger.topic_id(partition)
        if self._config.recreated_policy == STOP and former_id and topic_id and topic_id != former_id:
            self._stop(partition, _stopped(self._config.flow.source, partition, former_id, topic_id), status)
            return False
        found = self._ledger.look(partition, topic_id, position, log_start)
        goes_on = True
        if found is not None:
            goes_on = self._handle(found, log_start, status)
        if is_first or (topic_id and topic_id != former_id):
            self._note(partition, position if goes_on else log_start, topic_id, is_first=is_first)
        return goes_on

    def _stop(self, partition: TopicPartition, text: str, status: Told) -> None:
        """Reads nothing more of a partition. What is stored of it stays, so the next life stops it again."""
        self._stopped.add(partition)
        self._consumer.pause([partition])
        self._metrics.stopped(self._remotes[partition])
        status.trouble(f"stopped {partition}", text)
        _log.error("[%s|%s] %s", self._config.flow, self._config.connector, text)

    def _note(self, partition: TopicPartition, position: int, topic_id: Uuid, *, is_first: bool) -> None:
        self._undecided.discard(partition)
        if is_first and position > 0:
            self._firsts.append((self._source(partition), position - 1))
        if topic_id:
            self._ids.append((self._source(partition), position, topic_id))

    async def _store(self) -> None:
        """Before anything is copied that it is about."""
        firsts, self._firsts = self._firsts, []
        ids, self._ids = self._ids, []
        if firsts:
            await self._offsets.write(self._config.connector, firsts)
        if ids:
            await self._offsets.write_topic_ids(self._config.connector, ids)

    def _handle(self, found: Finding, log_start: int, status: Told) -> bool:
        is_back = found.why is Why.MADE_ANEW and self._config.recreated_policy != OFFSET and found.count > 0
        if is_back:
            self._consumer.seek(found.partition, log_start)
            self._ledger.read(found.partition, log_start)
        text = _told(self._config.flow.source, found, is_back=is_back)
        _log.warning("[%s|%s] %s", self._config.flow, self._config.connector, text)
        lost = found.uncopied + (0 if is_back else found.count)
        if lost:
            self._metrics.records_lost(self._remotes[found.partition], found.why.value, lost, found.start, found.end)
            status.warn(f"lost {found.partition} {found.why.value}", text)
        return not is_back

    def _source(self, partition: TopicPartition) -> SourcePartition:
        return record_source(self._config.flow.source, partition)


def _told(source: str, found: Finding, *, is_back: bool) -> str:
    if found.why is Why.OVERTAKEN:
        return (
            f"records lost: {found.count} of {found.partition} at {source}, offsets {found.start} to {found.end - 1}: its log begins behind "
            "them (retention, or deleted records), and they were not copied"
        )
    if found.why is Why.WENT_BACK:
        return f"{found.partition} at {source} is read again from offset {found.position}: its log has lost its end, nothing else is known lost"
    ids = f"{found.partition} was made anew at {source} (topic id {found.topic_id}, before {found.former_id})"
    rest = f"of the former topic {found.uncopied} records are known not to be copied; what it had after its last answer is not known"
    if is_back:
        return f"{ids}: it is read from its beginning, offset {found.start}; {rest}"
    if not found.count:
        return f"{ids}: it is read from offset {found.position}, its beginning; {rest}"
    return (
        f"records lost: {ids}: it is read on at offset {found.position}, so its {found.count} records from offset {found.start} to "
        f"{found.end - 1} are not copied (kmirror.recreated.topic.policy=beginning would copy them); {rest}"
    )


def _stopped(source: str, partition: TopicPartition, former_id: Uuid, topic_id: Uuid) -> str:
    return (
        f"{partition} was made anew at {source} (topic id {topic_id}, before {former_id}), and kmirror.recreated.topic.policy=stop: nothing of "
        "it is copied until that is beginning or offset; other partitions of the task are"
    )
