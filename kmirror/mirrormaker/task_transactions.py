"""Exactly once (KIP-618): a task's records, and the offsets where it goes on, become visible in one
transaction (Connect's `ExactlyOnceWorkerSourceTask`).

    begin ─ batches to remote topics ─ offsets to mm2-offsets ─ commit ─ offset syncs

A task's transactional id is `<group.id>-<connector>-<task>`, as Apache's workers make it, so a task
that starts, of either program, shuts out the one before it and aborts what that left open. A task
reads its offsets only after that. Workers that have stopped for good may have had more tasks; before
its first task a connector shuts out all ids of its own (`fence_former_tasks`).

The transaction's content and its offsets always agree: a batch is noted in the same step in which the
producer accepts it. So a task that is cancelled between any two steps may commit what it has.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

from kmirror.admin.admin_client import AdminClient
from kmirror.admin.transactions import TransactionsFilter
from kmirror.clients.kafka_producer import KafkaProducer
from kmirror.common.errors import ApiException, ConfigError, Errors
from kmirror.common.ports import Clock
from kmirror.mirrormaker.connect_offsets import SourceOffsets, SourcePartition
from kmirror.mirrormaker.source_task_metrics import SourceTaskMeter

SUPPORT_CONFIG: Final = "exactly.once.source.support"
REQUIRED_CONFIG: Final = "exactly.once.support"
BOUNDARY_CONFIG: Final = "transaction.boundary"
BOUNDARY_INTERVAL_CONFIG: Final = "transaction.boundary.interval.ms"
_CANNOT_LIST: Final = (Errors.UNSUPPORTED_VERSION, Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Errors.CLUSTER_AUTHORIZATION_FAILED)
_log = logging.getLogger(__name__)
Source = TypeVar("Source")


def transactional_id(group_id: str, connector: str, task: int) -> str:
    """Returns the id of one task (Connect's `Worker.taskTransactionalId`)."""
    return f"{group_id}-{connector}-{task}"


def boundary_ms(props: Mapping[str, str], flush_interval_ms: int) -> int:
    """Returns how long a transaction of a connector may last; 0 for one each poll. ConfigError for a
    boundary that is unknown, or that MirrorMaker's connectors do not define.
    """
    boundary = props.get(BOUNDARY_CONFIG, "poll").strip().lower()
    if boundary == "poll":
        return 0
    if boundary == "connector":
        raise ConfigError(
            "Invalid value connector for configuration transaction.boundary: the connector does not define its own transactions"
        )
    if boundary != "interval":
        raise ConfigError(f"Invalid value {boundary} for configuration transaction.boundary: use poll or interval")
    text = props.get(BOUNDARY_INTERVAL_CONFIG, str(flush_interval_ms)).strip()
    if not text.isdigit() or not int(text):
        raise ConfigError(f"Invalid value {text} for configuration transaction.boundary.interval.ms: Value must be at least 1")
    return int(text)


async def fence_former_tasks(admin: AdminClient, group_id: str, connector: str, tasks_max: int) -> int:
    """Shuts out all tasks that a connector has had; returns how many. If transactions cannot be
    listed, it takes the ids of `tasks_max` tasks.
    """
    prefix = transactional_id(group_id, connector, 0)[:-1]
    is_task = re.compile(re.escape(prefix) + r"\d+")
    try:
        listed = await admin.list_transactions(TransactionsFilter())
        ids = {row.transactional_id for rows in listed.values() for row in rows if is_task.fullmatch(row.transactional_id)}
    except ApiException as error:
        if error.error not in _CANNOT_LIST:
            raise
        ids = {f"{prefix}{task}" for task in range(tasks_max)}
    if ids:
        await admin.fence_producers(sorted(ids))
        _log.info("[%s] %d former tasks were shut out", connector, len(ids))
    return len(ids)


class TaskTransactions(Generic[Source]):
    """One life of a task. `acknowledged` is called, after a commit, for each batch in order.
    `source_of` returns the source partition of what the task knows its source by.
    """

    def __init__(
        self,
        producer: KafkaProducer,
        offsets: SourceOffsets,
        clock: Clock,
        *,
        connector: str,
        source_of: Callable[[Source], SourcePartition],
        most_ms: int,
        meter: SourceTaskMeter,
    ) -> None:
        self._meter = meter
        self._producer = producer
        self._offsets = offsets
        self._clock = clock
        self._connector = connector
        self._source_of = source_of
        self._most_ms = most_ms
        self._begun_ms: int | None = None
        self._passed_ms: int | None = None
        self._last_offsets: dict[Source, int] = {}
        self._records = 0
        self._acknowledged: list[Callable[[], object]] = []
        self._is_ending = False

    @property
    def is_open(self) -> bool:
        return self._begun_ms is not None

    @property
    def is_due(self) -> bool:
        """Whether the open transaction has lasted long enough."""
        return self._begun_ms is not None and self._clock.monotonic_ms() - self._begun_ms >= self._most_ms

    async def begin(self) -> None:
        """Begins a transaction unless one is open. One whose commit was cancelled ends first."""
        if self._is_ending:
            await self.commit()
        if self._begun_ms is None:
            await self._producer.begin_transaction()
            self._begun_ms = self._clock.monotonic_ms()

    def accepted(self, source: Source, last_offset: int, records: int) -> None:
        """The producer has accepted `records` of `source` up to `last_offset`."""
        self._last_offsets[source] = last_offset
        self._records += records

    def passed_over(self, source: Source, offset: int) -> None:
        """A record is not sent. Its offset goes into the open transaction, or the next one."""
        self._last_offsets[source] = offset
        if self._passed_ms is None:
            self._passed_ms = self._clock.monotonic_ms()

    def has_waited(self, milliseconds: int) -> bool:
        """Whether offsets of records that were passed over have waited for a transaction for so long."""
        passed_ms = self._passed_ms
        return self._begun_ms is None and passed_ms is not None and self._clock.monotonic_ms() - passed_ms >= milliseconds

    def acknowledged(self, done: Callable[[], object]) -> None:
        """The target has a batch; `done` waits for the commit."""
        self._acknowledged.append(done)

    async def commit(self) -> None:
        """Ends the open transaction. May be called again after it was cancelled. KmirrorError if it
        cannot be committed; the next life of the task aborts it.
        """
        if self._begun_ms is None:
            return
        with self._meter.committing():
            await self._commit()
        self._meter.transaction_committed(self._records)
        done, self._acknowledged, self._records = self._acknowledged, [], 0
        self._begun_ms, self._is_ending, self._last_offsets, self._passed_ms = None, False, {}, None
        for one in done:
            one()

    async def _commit(self) -> None:
        if not self._is_ending:
            rows = [(self._source_of(source), offset) for source, offset in self._last_offsets.items()]
            await self._offsets.write(self._connector, rows, self._producer)
            self._is_ending = True
        await self._producer.commit_transaction()
