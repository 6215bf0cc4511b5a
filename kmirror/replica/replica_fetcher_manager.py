"""The fetchers of all partitions that this broker follows (Kafka's `ReplicaFetcherManager`).

Fetchers are keyed by (fetcher id, leader); a partition's fetcher id is its hash modulo
`num.replica.fetchers`. A partition that cannot begin because its log cannot be read now is tried
again after the backoff, and does not keep others from beginning.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.lasting_conditions import LastingConditions
from kmirror.common.topic_partition import TopicPartition
from kmirror.replica.abstract_fetcher import PASSING_ERRORS, AbstractFetcher, fetcher_id
from kmirror.replica.fetcher_manager import InitialFetchState
from kmirror.replica.followed_replicas import FollowedReplicas
from kmirror.replica.leader_end_point import LeaderEndPoint, PartitionFetchState
from kmirror.replica.replica_fetcher import ReplicaFetcher
from kmirror.runtime.api import Runtime, TaskScope

_log = logging.getLogger(__name__)


class ReplicaFetcherManager:
    """Owns the fetchers, and the partitions that wait for a leader's address or for a retry.
    `connect(leader_id, fetcher_id)` returns the end point of a leader, None if its metadata is not
    known yet; `address_of(leader_id)` returns its current address.
    """

    def __init__(
        self,
        runtime: Runtime,
        replicas: FollowedReplicas,
        connect: Callable[[int, int], LeaderEndPoint | None],
        address_of: Callable[[int], tuple[str, int] | None],
    ) -> None:
        self._runtime = runtime
        self._replicas = replicas
        self._connect = connect
        self._hooks = ReplicaFetcher(replicas)
        self._address_of = address_of
        self._fetchers: dict[tuple[int, int], AbstractFetcher] = {}
        self._addresses: dict[tuple[int, int], tuple[str, int] | None] = {}
        self._without_leader: dict[TopicPartition, InitialFetchState] = {}
        self._conditions = LastingConditions(_log, runtime.clock.monotonic_ms)
        self._to_retry: dict[TopicPartition, InitialFetchState] = {}
        self._endings = TaskScope(runtime, "fetchers")

    def lags(self) -> list[tuple[str, TopicPartition, int]]:
        """For every fetched partition: its fetcher's name, and how many records it is behind the
        leader's high watermark.
        """
        return [
            (fetcher.name, topic_partition, max(0, state.lag or 0))
            for fetcher in self._fetchers.values()
            for topic_partition, state in fetcher.states()
        ]

    @property
    def failed_partition_count(self) -> int:
        """The number of partitions that left their fetcher because of a permanent error."""
        return len(self._hooks.failed)

    @property
    def dead_fetcher_count(self) -> int:
        """The number of fetchers whose task ended although nobody ended it, and has not been
        restarted.
        """
        return sum(fetcher.is_dead for fetcher in self._fetchers.values())

    def fetcher_id(self, topic_partition: TopicPartition) -> int:
        return fetcher_id(topic_partition, self._replicas.config.num_replica_fetchers)

    def add_fetcher_for_partitions(self, partitions: dict[TopicPartition, InitialFetchState]) -> None:
        grouped: dict[tuple[int, int], dict[TopicPartition, PartitionFetchState]] = {}
        for topic_partition, initial in partitions.items():
            self._forget(topic_partition)
            try:
                state = self._first_state(topic_partition, initial)
            except (KmirrorError, OSError) as error:
                self._on_no_beginning(topic_partition, initial, error)
            else:
                self._conditions.end(topic_partition)
                grouped.setdefault((self.fetcher_id(topic_partition), initial.leader_id), {})[topic_partition] = state
        for key, states in grouped.items():
            fetcher = self._running_fetcher(*key) or self._start_fetcher(*key)
            if fetcher is None:
                _log.warning("Leader %d is not known yet; not fetching %s", key[1], ", ".join(map(str, states)))
                self._without_leader.update({topic_partition: partitions[topic_partition] for topic_partition in states})
                continue
            fetcher.add_partitions(states)

    def _first_state(self, topic_partition: TopicPartition, initial: InitialFetchState) -> PartitionFetchState:
        log = self._replicas.get_partition_or_exception(topic_partition).local_log
        return PartitionFetchState(
            initial.topic_id,
            self._hooks.first_fetch_offset(topic_partition, initial.fetch_offset),
            initial.current_leader_epoch,
            log.latest_epoch,
            self._hooks.first_mirror_leader_epoch(topic_partition),
            log_start_offset=log.log_start_offset,
        )

    def _on_no_beginning(self, topic_partition: TopicPartition, initial: InitialFetchState, failure: KmirrorError | OSError) -> None:
        """Handles a log that could not be read: tries again if the error may pass, unless the
        partition is removed or added otherwise meanwhile.
        """
        code = Errors.KAFKA_STORAGE_ERROR if isinstance(failure, OSError) else Errors.UNKNOWN_SERVER_ERROR
        error = failure if isinstance(failure, ApiException) else ApiException(code, str(failure))
        if error.error not in PASSING_ERRORS:
            self._hooks.on_partition_failed(topic_partition, error)
            return
        self._conditions.tell(topic_partition, str(error), subject=f"{topic_partition} cannot be followed yet")
        self._to_retry[topic_partition] = initial

        def try_again() -> None:
            if self._to_retry.get(topic_partition) is initial and topic_partition in self._replicas.partitions:
                self.add_fetcher_for_partitions({topic_partition: initial})

        self._runtime.call_later_ms(self._replicas.config.replica_fetch_backoff_ms, try_again)

    def on_brokers_changed(self) -> None:
        """Begins to fetch partitions whose leader was not known before and is known now."""
        known = {each: initial for each, initial in self._without_leader.items() if self._address_of(initial.leader_id) is not None}
        if known:
            self.add_fetcher_for_partitions(known)

    def spread_anew(self) -> None:
        """Moves every partition to the fetcher that its name now hashes to, after
        num.replica.fetchers changed.
        """
        fetched = {
            topic_partition: InitialFetchState(state.topic_id, leader_id, state.current_leader_epoch, state.fetch_offset)
            for (_, leader_id), fetcher in self._fetchers.items()
            for topic_partition, state in fetcher.states()
        }
        self.remove_fetcher_for_partitions(list(fetched))
        self.add_fetcher_for_partitions(fetched)

    def _forget(self, topic_partition: TopicPartition) -> None:
        """Drops a partition from those that wait or have failed."""
        self._without_leader.pop(topic_partition, None)
        self._to_retry.pop(topic_partition, None)
        self._hooks.failed.pop(topic_partition, None)

    def _running_fetcher(self, fetcher_id: int, leader_id: int) -> AbstractFetcher | None:
        """The fetcher of this leader; if the leader came back at another address, ends the fetcher
        and returns None.
        """
        fetcher = self._fetchers.get((fetcher_id, leader_id))
        if fetcher is None or self._address_of(leader_id) == self._addresses.get((fetcher_id, leader_id)):
            return fetcher
        self._end_fetcher((fetcher_id, leader_id))
        return None

    def _start_fetcher(self, fetcher_id: int, leader_id: int) -> AbstractFetcher | None:
        leader = self._connect(leader_id, fetcher_id)
        if leader is None:
            return None
        name = f"ReplicaFetcherThread-{fetcher_id}-{leader_id}"
        backoff_ms = self._replicas.config.replica_fetch_backoff_ms
        fetcher = AbstractFetcher(self._runtime, name, leader, self._hooks, backoff_ms=backoff_ms)
        self._fetchers[fetcher_id, leader_id] = fetcher
        self._addresses[fetcher_id, leader_id] = self._address_of(leader_id)
        fetcher.start()
        return fetcher

    def remove_fetcher_for_partitions(self, partitions: list[TopicPartition]) -> None:
        for fetcher in self._fetchers.values():
            fetcher.remove_partitions(partitions)
        for topic_partition in partitions:
            self._forget(topic_partition)
            self._hooks.verification.end(topic_partition)

    def shutdown_idle_fetchers(self) -> None:
        for key in [key for key, fetcher in self._fetchers.items() if not fetcher.partition_count]:
            self._end_fetcher(key)

    def _end_fetcher(self, key: tuple[int, int]) -> None:
        self._addresses.pop(key, None)
        self._endings.spawn(self._fetchers.pop(key).shutdown(), name=f"end-of-fetcher-{key[0]}-{key[1]}")

    async def shutdown(self) -> None:
        self._to_retry.clear()
        await self._endings.cancel()
        for key in list(self._fetchers):
            await self._fetchers.pop(key).shutdown()
