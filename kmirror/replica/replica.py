"""What the leader of a partition knows about one follower (Kafka's `Replica` and its
`ReplicaState`).

A follower is *caught up* when its log end offset equals the leader's, or if that was last so at
most `replica.lag.time.max.ms` ago. The time is set in retrospect: if a fetch asks for an offset at
or beyond the leader's end at the time of the *previous* fetch, the follower was caught up at that
previous time.

While `session` is set the follower is caught up each time the session fetches, whether or not this
partition is looked at (`follower_session`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kmirror.common.sentinels import UNKNOWN_OFFSET
from kmirror.common.uuid import Uuid

if TYPE_CHECKING:
    from kmirror.replica.follower_session import FollowerSession


class BrokersView(Protocol):
    """What a leader asks the metadata about followers."""

    def is_replica_eligible(self, broker_id: int, broker_epoch: int, directory_id: Uuid) -> bool:
        """Whether the broker may be in an ISR: it is neither fenced nor leaving, fetches in its
        registered broker epoch (-1: any), and the directory of its log is online. (Kafka does not
        check the directory, and so waits for a replica that cannot come.)
        """
        ...

    def alive_broker_epoch(self, broker_id: int) -> int | None:
        """The epoch of a broker that is registered and not fenced."""
        ...


@dataclass(slots=True)
class Replica:
    """Owns what is known about a remote replica; times are monotonic milliseconds of the leader."""

    broker_id: int
    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    last_fetch_leader_log_end_offset: int = 0
    last_fetch_time_ms: int = 0
    last_caught_up_time_ms: int = 0
    broker_epoch: int = -1
    has_fetched_in_epoch: bool = False
    """Whether `log_end_offset` was reported in the current leader epoch: the log may have been cut
    since an earlier report.
    """
    session: FollowerSession | None = None

    @property
    def caught_up_time_ms(self) -> int:
        """When the replica was last caught up."""
        return self.last_caught_up_time_ms if self.session is None else max(self.last_caught_up_time_ms, self.session.last_fetch_ms)

    def update_fetch_state(
        self,
        *,
        fetch_offset: int,
        follower_log_start_offset: int,
        leader_log_end_offset: int,
        now_ms: int,
        broker_epoch: int,
        session: FollowerSession | None = None,
    ) -> None:
        """A follower fetched from `fetch_offset`, so it has everything before it."""
        self.end_session()
        self.session = session if fetch_offset >= leader_log_end_offset else None
        if fetch_offset >= leader_log_end_offset:
            self.last_caught_up_time_ms = max(self.last_caught_up_time_ms, now_ms)
        elif fetch_offset >= self.last_fetch_leader_log_end_offset:
            self.last_caught_up_time_ms = max(self.last_caught_up_time_ms, self.last_fetch_time_ms)
        self.log_start_offset = follower_log_start_offset
        self.log_end_offset = fetch_offset
        self.has_fetched_in_epoch = True
        self.last_fetch_leader_log_end_offset = leader_log_end_offset
        self.last_fetch_time_ms = now_ms
        self.broker_epoch = broker_epoch

    def end_session(self) -> None:
        """Ends the link to the session: its later fetches say nothing about this partition, which
        was caught up at its last fetch until now.
        """
        if self.session is not None:
            self.last_caught_up_time_ms = self.caught_up_time_ms
            self.last_fetch_time_ms = max(self.last_fetch_time_ms, self.session.last_fetch_ms)
            self.session = None

    def reset(self, *, leader_log_end_offset: int, now_ms: int, is_new_leader: bool, is_follower_in_sync: bool) -> None:
        """A new leader epoch began: what was known about the follower's log no longer holds."""
        self.session = None
        self.has_fetched_in_epoch = False
        if is_new_leader:
            self.log_start_offset = UNKNOWN_OFFSET
            self.log_end_offset = UNKNOWN_OFFSET
            self.last_fetch_leader_log_end_offset = UNKNOWN_OFFSET
            self.last_fetch_time_ms = 0
            self.last_caught_up_time_ms = now_ms if is_follower_in_sync else 0
            self.broker_epoch = -1
        else:
            self.last_fetch_leader_log_end_offset = leader_log_end_offset
            self.last_fetch_time_ms = now_ms if is_follower_in_sync else 0
            self.last_caught_up_time_ms = now_ms if is_follower_in_sync else 0

    def is_caught_up(self, *, leader_log_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        return leader_log_end_offset == self.log_end_offset or now_ms - self.caught_up_time_ms <= max_lag_ms
