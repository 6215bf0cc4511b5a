"""Writes the groups of a mirror while its partitions mirror (C18, SYN18).

Groups are written in parts, and the states are asked for right before each part. A coordinator that
is not available yet is asked again, but only after another look at the states: it may come back
after a failover, when the group's offsets are its own.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.metadata.image import MetadataImage
from kmirror.mirror.sync.partition_states import PartitionStates, mirroring_partitions
from kmirror.runtime.api import Runtime, run_together

V = TypeVar("V")
SendToGroup = Callable[[str, Mapping[TopicPartition, V]], Coroutine[Any, Any, Mapping[TopicPartition, Errors]]]
"""Writes values by partition to one group, and returns the result of each partition."""
GROUPS_AT_A_TIME = 50
POLL_INTERVAL_MS = 100
NOT_THERE_YET = (
    Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.COORDINATOR_LOAD_IN_PROGRESS,
    Errors.NOT_COORDINATOR,
)


class WritesWhileMirrored:
    """Writes to groups only for partitions in MIRRORING.

    `timeout_ms` limits the wait for coordinators that are not available yet.
    """

    def __init__(self, runtime: Runtime, states: PartitionStates, image: Callable[[], MetadataImage], *, timeout_ms: int) -> None:
        self._runtime = runtime
        self._states = states
        self._image = image
        self._timeout_ms = timeout_ms

    async def write(
        self,
        mirror_name: str,
        wanted: Mapping[str, Mapping[TopicPartition, V]],
        send: SendToGroup[V],
        failures: list[str],
    ) -> dict[str, dict[TopicPartition, Errors]]:
        """Sends each group what is wanted for partitions in MIRRORING; returns the result of each.

        Errors in asking for states are added to `failures`.
        """
        answered: dict[str, dict[TopicPartition, Errors]] = {}
        groups = list(wanted)
        for start in range(0, len(groups), GROUPS_AT_A_TIME):
            part = {group: wanted[group] for group in groups[start : start + GROUPS_AT_A_TIME]}
            answered |= await self._write_some(mirror_name, part, send, failures)
        return answered

    async def _write_some(
        self,
        mirror_name: str,
        wanted: Mapping[str, Mapping[TopicPartition, V]],
        send: SendToGroup[V],
        failures: list[str],
    ) -> dict[str, dict[TopicPartition, Errors]]:
        answered: dict[str, dict[TopicPartition, Errors]] = {}
        deadline_ms = self._runtime.clock.monotonic_ms() + self._timeout_ms
        while True:
            unknown: list[str] = []
            concerned = {tp for values in wanted.values() for tp in values}
            mirroring = await mirroring_partitions(self._states, self._image(), mirror_name, concerned, unknown)
            allowed = {group: {tp: value for tp, value in values.items() if tp in mirroring} for group, values in wanted.items()}
            allowed = {group: values for group, values in allowed.items() if values}
            sent = [send(group, values) for group, values in allowed.items()]
            wanted = {}
            for group, errors in zip(allowed, await run_together(self._runtime, "group-writes", sent) if sent else [], strict=True):
                told = {tp: errors.get(tp, Errors.UNKNOWN_SERVER_ERROR) for tp in allowed[group]}
                answered.setdefault(group, {}).update(told)
                again = {tp: allowed[group][tp] for tp, error in told.items() if error in NOT_THERE_YET}
                if again:
                    wanted[group] = again
            if not wanted or self._runtime.clock.monotonic_ms() >= deadline_ms:
                failures += unknown
                return answered
            await self._runtime.sleep_ms(POLL_INTERVAL_MS)
