"""Runs a replay of some partitions in one process. A Spark task is the same with one partition."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kmirror.admin.admin_client import parse_bootstrap_servers
from kmirror.cli.log_diff_inputs import open_location
from kmirror.cli.replay_client import DELIVERY_TIMEOUT_MS, TRANSACTION_TIMEOUT_MS, ReplayClient
from kmirror.cli.replay_pace import Schedule
from kmirror.cli.replay_partition import OnWritten, PartitionOutcome, PartitionReplay
from kmirror.cli.replay_plan import Plan
from kmirror.cli.replay_source import RecordedPartition, block_bytes, first_time
from kmirror.cli.replay_state import VERSION, ReplayedPartition, StateFile
from kmirror.cli.replay_stop import Stop
from kmirror.common.errors import ConfigError
from kmirror.common.uuid import Uuid
from kmirror.network.client_security import ClientSecurity
from kmirror.runtime.api import Runtime, run_together

AT_ONCE: Final = 64
"""Number of partitions sent at the same time when there is no waiting for the schedule."""
CLIENT_ID: Final = "kmirror-replay"


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the records go, and how. It is sent to Spark's executors as it is."""

    bootstrap_servers: str
    properties: Mapping[str, str] = field(default_factory=dict)
    """The properties of `--command-config`."""
    cluster_id: str = ""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    transactional_id_prefix: str = CLIENT_ID
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    state_folder: str | None = None

    def client(self, runtime: Runtime) -> ReplayClient:
        """Returns a client; ConfigError for settings that make no sense."""
        return ReplayClient(
            runtime,
            parse_bootstrap_servers(self.bootstrap_servers),
            client_id=self.properties.get("client.id", CLIENT_ID),
            timeout_ms=self._number("default.api.timeout.ms", 60_000),
            security=ClientSecurity.from_props(dict(self.properties)),
            delivery_timeout_ms=self._number("delivery.timeout.ms", DELIVERY_TIMEOUT_MS),
            transaction_timeout_ms=self.transaction_timeout_ms,
        )

    def _number(self, name: str, default: int) -> int:
        text = self.properties.get(name, str(default))
        if not text.isdigit():
            raise ConfigError(f"Invalid value {text} for configuration {name}: Not a number of type INT")
        return int(text)

    def store(self, partition: RecordedPartition) -> StateFile | None:
        return None if self.state_folder is None else StateFile(self.state_folder, partition.source)

    def state_of(self, partition: RecordedPartition, replay_id: str) -> ReplayedPartition:
        """Returns the state from which the replay of a partition continues, or begins."""
        fresh = ReplayedPartition(
            version=VERSION,
            cluster_id=self.cluster_id,
            topic_id=self.topic_ids.get(partition.target.topic, ""),
            source=str(partition.source),
            target=str(partition.target),
            replay_id=replay_id,
            next_offset=partition.first_offset,
            lanes=[],
            redo=[],
            source_topic_id=partition.topic_id,
        )
        store = self.store(partition)
        return (store.read(fresh) if store is not None else None) or fresh


def first_due(partitions: list[RecordedPartition], states: Mapping[str, ReplayedPartition]) -> int:
    """Returns the earliest time of what comes next in any partition; the schedule begins with it.

    Returns 0 if nothing has a time.
    """
    times = []
    for partition in partitions:
        files, _ = open_location(partition.location)
        found = first_time(files, partition, states[str(partition.source)].next_offset)
        if found is not None:
            times.append(found)
    return min(times, default=0)


async def replay_partitions(
    runtime: Runtime, destination: Destination, partitions: list[RecordedPartition], schedule: Schedule, stop: Stop, told: OnWritten
) -> list[PartitionOutcome]:
    """Replay all partitions. An error in one stops the others in an orderly way, then is raised."""
    replay_id = str(Uuid.random(runtime.random))
    errors: list[Exception] = []
    limit = asyncio.Semaphore(len(partitions) if schedule.speed is not None else AT_ONCE)
    size = block_bytes(len(partitions) if schedule.speed is not None else min(AT_ONCE, len(partitions)))
    async with destination.client(runtime) as client:
        await client.open()

        async def run_one(partition: RecordedPartition) -> PartitionOutcome | None:
            async with limit:
                if stop.is_set:
                    return None
                try:
                    return await _replay(client, destination, partition, replay_id, schedule, stop, told, size)
                except Exception as error:  # noqa: BLE001 - raised below, when the others have ended
                    errors.append(error)
                    stop.set()
                    return None

        outcomes = await run_together(runtime, "replay", [run_one(partition) for partition in partitions])
    if errors:
        raise errors[0]
    return [outcome for outcome in outcomes if outcome is not None]


async def _replay(
    client: ReplayClient,
    destination: Destination,
    partition: RecordedPartition,
    replay_id: str,
    schedule: Schedule,
    stop: Stop,
    told: OnWritten,
    size: int,
) -> PartitionOutcome:
    files, _ = open_location(partition.location)
    replay = PartitionReplay(
        client,
        files,
        partition,
        destination.state_of(partition, replay_id),
        schedule=schedule,
        stop=stop,
        told=told,
        store=destination.store(partition),
        block_bytes=size,
        transactional_id_prefix=destination.transactional_id_prefix,
    )
    return await replay.run()


def scheduled(destination: Destination, plan: Plan, speed: float | None) -> tuple[Schedule, int]:
    """Returns the schedule, whose first batch is due now, and how many bytes earlier runs sent.

    KmirrorError for progress files of other replays.
    """
    states = {str(one.source): destination.state_of(one, "") for one in plan.partitions}
    first = 0 if speed is None else first_due(plan.partitions, states)
    return Schedule(time.time_ns() // 1_000_000, first, speed), sum(state.size for state in states.values())
