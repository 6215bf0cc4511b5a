"""Which brokers are alive: the time and metadata offset of their last heartbeat (Kafka's
`BrokerHeartbeatManager`).

This is soft state, known only to the active controller. A new controller gives every broker that it
finds unfenced a fresh session. But only a broker that has contacted this controller blocks another
incarnation from registering, so a node that was killed comes back at once, not only when its old
session has run out. A broker's next state follows from its present one and from what its heartbeat
asks for:

    present              asks for                     next
    fenced               shut down                    shut down now
    fenced               stay fenced / nothing        unfenced once it has its own registration
                                                      record, else fenced
    unfenced             shut down                    controlled shutdown while it leads anything,
                                                      else shut down now
    unfenced             fence                        fenced
    controlled shutdown  anything                     shut down now once it leads nothing and every
                                                      active broker has seen that
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from msgspec import Struct

MAX_OFFSET = (1 << 63) - 1


class BrokerControlState(Enum):
    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"

    @property
    def fenced(self) -> bool:
        return self in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW)


class BrokerHeartbeatState(Struct):
    """Times are monotonic ms. `controlled_shutdown_offset` is -1 unless the broker is in controlled
    shutdown."""

    broker_id: int
    epoch: int
    last_contact_ms: int = -1
    metadata_offset: int = -1
    fenced: bool = True
    controlled_shutdown_offset: int = -1
    contacted: bool = False


class BrokerHeartbeatManager:
    """`session_timeout_ms` is broker.session.timeout.ms."""

    def __init__(self, session_timeout_ms: int) -> None:
        self.session_timeout_ms = session_timeout_ms
        self.brokers: dict[int, BrokerHeartbeatState] = {}

    def register(self, broker_id: int, epoch: int, *, fenced: bool) -> None:
        self.brokers[broker_id] = BrokerHeartbeatState(broker_id, epoch, fenced=fenced)

    def grant_session(self, broker_id: int, now_ms: int) -> None:
        """Gives an unfenced broker that an earlier controller knew a whole session before it is
        fenced."""
        self.brokers[broker_id].last_contact_ms = now_ms

    def remove(self, broker_id: int) -> None:
        self.brokers.pop(broker_id, None)

    def touch(self, broker_id: int, *, fenced: bool, metadata_offset: int, now_ms: int) -> None:
        """Records a heartbeat; `fenced` is the broker's new state."""
        broker = self.brokers[broker_id]
        broker.last_contact_ms = now_ms
        broker.metadata_offset = metadata_offset
        broker.fenced = fenced
        broker.contacted = True
        if fenced:
            broker.controlled_shutdown_offset = -1

    def note_fetch(self, broker_id: int, metadata_offset: int) -> None:
        """Records that a broker fetches the metadata log after `metadata_offset`, so it has applied
        everything up to there. This does not count as contact."""
        broker = self.brokers.get(broker_id)
        if broker is not None and broker.contacted and metadata_offset > broker.metadata_offset:
            broker.metadata_offset = metadata_offset

    def has_valid_session(self, broker_id: int, epoch: int, now_ms: int) -> bool:
        broker = self.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch or not broker.contacted:
            return False
        return now_ms < broker.last_contact_ms + self.session_timeout_ms

    def maintain_controlled_shutdown(self, broker_id: int, offset: int) -> None:
        """Remembers the end of the log as of the broker's last leadership change."""
        broker = self.brokers[broker_id]
        broker.controlled_shutdown_offset = max(broker.controlled_shutdown_offset, offset)

    def stale_brokers(self, now_ms: int) -> list[int]:
        """Returns the unfenced brokers without a heartbeat for a whole session, oldest contact
        first."""
        stale = [b for b in self.brokers.values() if not b.fenced and now_ms >= b.last_contact_ms + self.session_timeout_ms]
        return [b.broker_id for b in sorted(stale, key=lambda b: (b.last_contact_ms, b.broker_id))]

    def lowest_active_offset(self) -> int:
        """Returns the offset up to which every broker that is alive and not shutting down has read
        the metadata log."""
        offsets = [b.metadata_offset for b in self.brokers.values() if not b.fenced and b.controlled_shutdown_offset < 0]
        return min(offsets, default=MAX_OFFSET)

    def current_state(self, broker_id: int) -> BrokerControlState:
        broker = self.brokers[broker_id]
        if broker.fenced:
            return BrokerControlState.FENCED
        return BrokerControlState.CONTROLLED_SHUTDOWN if broker.controlled_shutdown_offset >= 0 else BrokerControlState.UNFENCED

    def next_state(
        self,
        broker_id: int,
        *,
        want_fence: bool,
        want_shut_down: bool,
        metadata_offset: int,
        registration_offset: int,
        has_leaderships: Callable[[], bool],
    ) -> BrokerControlState:
        """Returns the broker's next state by the table in the module's docstring."""
        current = self.current_state(broker_id)
        if current is BrokerControlState.CONTROLLED_SHUTDOWN:
            released = self.brokers[broker_id].controlled_shutdown_offset <= self.lowest_active_offset()
            return BrokerControlState.SHUTDOWN_NOW if released and not has_leaderships() else current
        if want_shut_down:
            leads = current is BrokerControlState.UNFENCED and not want_fence and has_leaderships()
            return BrokerControlState.CONTROLLED_SHUTDOWN if leads else BrokerControlState.SHUTDOWN_NOW
        if want_fence:
            return BrokerControlState.FENCED
        if current is BrokerControlState.FENCED and metadata_offset < registration_offset:
            return BrokerControlState.FENCED
        return BrokerControlState.UNFENCED
