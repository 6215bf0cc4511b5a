"""What a source task needs, and what it has done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.cycles import SourceAndTarget
from kmirror.mirrormaker.missing_topics import TopicCreationConfig
from kmirror.mirrormaker.offset_syncs import OFFSET_LAG_MAX_DEFAULT
from kmirror.mirrormaker.recreated_topics import OFFSET
from kmirror.mirrormaker.replication_policy import ReplicationPolicy
from kmirror.mirrormaker.transforming import Transforming

OFFSET_FLUSH_INTERVAL_MS: Final = 60_000
OFFSET_FLUSH_TIMEOUT_MS: Final = 5_000


@dataclass(frozen=True)
class SourceTaskConfig:
    """What a task needs. `consumer`, `producer` and `sync_producer` are settings of clients; without
    a `sync_producer` there are no offset syncs. A `transactional_id` asks for exactly once, in
    transactions that last `transaction_ms` (0: one each poll). Batches are passed on unless records are
    `transforming`. Topics are made before they are written to with `topic_creation`. `recreated_policy` is
    one of RECREATED_POLICIES. Times are ms.
    """

    connector: str
    flow: SourceAndTarget
    policy: ReplicationPolicy
    partitions: Sequence[TopicPartition]
    consumer: Mapping[str, str]
    producer: Mapping[str, str]
    sync_producer: Mapping[str, str] | None = None
    offset_syncs_topic: str = ""
    offset_lag_max: int = OFFSET_LAG_MAX_DEFAULT
    poll_timeout_ms: int = 1_000
    offset_flush_interval_ms: int = OFFSET_FLUSH_INTERVAL_MS
    offset_flush_timeout_ms: int = OFFSET_FLUSH_TIMEOUT_MS
    transactional_id: str | None = None
    transaction_ms: int = 0
    transforming: Transforming | None = None
    topic_creation: TopicCreationConfig | None = None
    recreated_policy: str = OFFSET


@dataclass
class TaskProgress:
    """What a task has done since it was made, over all its lives. Times are of the monotonic
    clock.
    """

    batches_passed_on: int = 0
    batches_rewritten: int = 0
    batches_left_out: int = 0
    records: int = 0
    records_dropped: int = 0
    last_acknowledged_ms: int | None = None
    last_poll_ms: int | None = None
    last_commit_ms: int | None = None
    positions: dict[TopicPartition, int] = field(default_factory=dict)
