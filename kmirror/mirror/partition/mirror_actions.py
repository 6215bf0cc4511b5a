"""What the rows of the state table do: one method for each `MirrorAction`.

`MirrorPartition` executes a row: the actions that come `first`, the next state, the actions that
come `then`. An action is given the row and the reason that came with the event (a failing disk, a
source that was rejected), and returns when the next step is due: 0 at once, n after n ms, None when
woken. The last action of a row decides.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import ClassVar

from kmirror.mirror.mirror_state_machine import MirrorAction, Row, WantedState
from kmirror.mirror.partition.led_partition import LedPartition
from kmirror.mirror.partition.mirror_partition_status import MirrorPartitionStatus
from kmirror.mirror.partition.mirror_services import MirrorServices
from kmirror.mirror.partition.stopping import Stopping

DISK_FAILED = "a disk of this broker failed"

_log = logging.getLogger(__name__)


class MirrorActions:
    """The actions of one partition. It owns the last disk failure that it logged."""

    __slots__ = ("_disk_failure", "_led", "_services", "_status", "_stopping")

    def __init__(self, services: MirrorServices, led: LedPartition, status: MirrorPartitionStatus, stopping: Stopping) -> None:
        self._services = services
        self._led = led
        self._status = status
        self._stopping = stopping
        self._disk_failure: str | None = None

    async def run(self, action: MirrorAction, row: Row, reason: str | None) -> int | None:
        """Runs one action. `reason`: the event's reason, if it has one."""
        return await self.METHODS[action](self, row, reason)

    def retry(self, reason: str) -> int:
        """Show the reason, tell it if it lasts, and try again after
        mirror.truncation.backoff.ms.
        """
        self.show(reason)
        return self._services.config.mirror_truncation_backoff_ms

    def show(self, reason: str) -> None:
        """Shows why the partition does not go on. The log has it when it has lasted."""
        led, status = self._led, self._status
        status.set_reason(reason)
        subject = f"mirror {led.id.mirror_name}, {status.state.name}"
        self._services.conditions.tell(led.id.topic_partition, reason, subject=subject)

    @property
    def tells_disk_failure(self) -> bool:
        """Whether a failing disk is what keeps the partition from going on."""
        return self._disk_failure is not None and self._status.reason == self._disk_failure

    async def _bump_if_needed(self, row: Row, reason: str | None) -> int | None:
        await self._stopping.bump_if_needed()
        return 0

    async def _log_illegal(self, row: Row, reason: str | None) -> int | None:
        _log.error("%s: event %s must not happen in state %s; it is ignored", self._led.id.topic_partition, row.event.name, row.state.name)
        return 0

    async def _log_unclean(self, row: Row, reason: str | None) -> int | None:
        if len(self._led.partition.assigned_replicas) > 1:  # else its one replica is the log
            _log.warning("%s: elected uncleanly while mirroring; %s", self._led.id.topic_partition, reason)
        return 0

    async def _pause_name(self, row: Row, reason: str | None) -> int | None:
        """Has the controller pause the topic, before the state changes, so that nothing starts
        PREPARING again without an operator (B5).
        """
        if self._led.wanted is WantedState.RUN:
            await self._led.mirror.pause_name(self._led.id.topic)
        return 0

    async def _prepare_again(self, row: Row, reason: str | None) -> int | None:
        self._status.prepare_again()
        return 0

    async def _remove_fetcher(self, row: Row, reason: str | None) -> int | None:
        self._services.fetchers.remove_partition(self._led.id.topic_partition)
        return 0

    async def _retry(self, row: Row, reason: str | None) -> int | None:
        return self.retry(reason or row.guard.value)

    async def _rewrite_state(self, row: Row, reason: str | None) -> int | None:
        if self._services.safeguards.state_rewritten_on_election:
            await self._status.rewrite()
        return 0

    async def _tell_disk_failure(self, row: Row, error: str | None) -> int | None:
        led, status = self._led, self._status
        reason = f"{DISK_FAILED}: {error}; mirroring continues when a replica on a healthy disk becomes leader, or when the log directory works again"
        if self._disk_failure != reason or status.reason is None:  # None: it went on in between
            self._disk_failure = reason
            _log.error("mirror %s, %s, %s: %s", led.id.mirror_name, led.id.topic_partition, status.state.name, reason)
        status.set_reason(reason)
        return self._services.config.mirror_truncation_backoff_ms

    async def _wait(self, row: Row, reason: str | None) -> int | None:
        self._status.set_reason(reason or row.guard.value)
        return None

    async def _write_reset_again(self, row: Row, reason: str | None) -> int | None:
        self._services.fetchers.remove_partition(self._led.id.topic_partition)
        await self._stopping.stop()
        return 0

    METHODS: ClassVar[dict[MirrorAction, Callable[[MirrorActions, Row, str | None], Awaitable[int | None]]]] = {
        MirrorAction.BUMP_IF_NEEDED: _bump_if_needed,
        MirrorAction.LOG_ILLEGAL: _log_illegal,
        MirrorAction.LOG_UNCLEAN: _log_unclean,
        MirrorAction.PAUSE_NAME: _pause_name,
        MirrorAction.PREPARE_AGAIN: _prepare_again,
        MirrorAction.REMOVE_FETCHER: _remove_fetcher,
        MirrorAction.RETRY: _retry,
        MirrorAction.REWRITE_STATE: _rewrite_state,
        MirrorAction.TELL_DISK_FAILURE: _tell_disk_failure,
        MirrorAction.WAIT: _wait,
        MirrorAction.WRITE_RESET_AGAIN: _write_reset_again,
    }
