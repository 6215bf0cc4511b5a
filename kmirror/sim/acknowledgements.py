"""The rule of acknowledged records. An acknowledged record may be lost only

    * with the power, if it was not synced (Kafka acknowledges before it flushes; this holds for a
      cluster of one node);
    * when a mirror is aligned with its source or follows its truncation, and the source's log does
      not have the record (lag at failover, or it was written after the failover to a cluster that
      had not heard of it), or has it but the mirror is stopped before it came back (lag at
      failover, too);
    * at the LSO cut of STOPPING (the rule `transactions` says that this cuts no more than it must);
    * by retention, with its topic, or in a disaster that takes every replica (`LogLost`).

Every other one must be in its cluster's log in the end: in a fleet, in the log of the partition's
leader when everything has healed. A fleet's record must have been on two replicas before it was
acknowledged (min.insync.replicas).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.sim.events import Acknowledged, Appended, Batch, Event, LogKey, LogLost, Removed, StateWritten
from kmirror.sim.fleet_events import Healed
from kmirror.sim.open_transactions import fixpoint
from kmirror.sim.replay import Place, Replay
from kmirror.sim.topic_events import TopicGone

Key = tuple[Place, bytes]
MIRRORED = (State.PREPARING, State.MIRRORING, State.PAUSING)


@dataclass(slots=True)
class Acknowledgements:
    """Follows every value from its acknowledgement to the end."""

    acknowledged: dict[Key, Acknowledged] = field(default_factory=dict)
    copies: dict[Key, set[str]] = field(default_factory=dict)
    missing: dict[Key, tuple[int, str]] = field(default_factory=dict)
    excused: set[Key] = field(default_factory=set)
    awaited: dict[Place, set[bytes]] = field(default_factory=dict)
    """What a mirror cut although its source has it: it may come back until the mirror is stopped.
    """
    healed: dict[str, Healed] = field(default_factory=dict)
    deleted: dict[tuple[str, str], None] = field(default_factory=dict)

    def see(self, event: Event, replay: Replay) -> Iterator[tuple[int, str]]:
        if isinstance(event, Appended):
            self._appended(event, replay)
        elif isinstance(event, Acknowledged):
            yield from self._acknowledged(event, replay)
        elif isinstance(event, Removed):
            self._removed(event, replay)
        elif isinstance(event, StateWritten):
            if event.state is State.STOPPED and replay.takes_effect and replay.is_fleet(event.log):
                self._stopped(replay.place(event.log), replay)
        elif isinstance(event, LogLost):
            self._lost((event.cluster, event.partition), replay)
        elif isinstance(event, TopicGone):
            self.deleted[event.cluster, event.topic] = None
        elif isinstance(event, Healed):
            self.healed[event.cluster] = event

    def _lost(self, place: Place, replay: Replay) -> None:
        """Excuses the partition's records, including those whose acknowledgement nobody has heard
        yet.
        """
        self.excused.update(key for key in self.acknowledged if key[0] == place)
        self.excused.update((place, value) for log in replay.replicas(place) for batch in replay.log(log) for value in batch.values)

    def _stopped(self, place: Place, replay: Replay) -> None:
        awaited = self.awaited.pop(place, set())
        if awaited:
            there = {value for log in replay.replicas(place) for batch in replay.log(log) for value in batch.values}
            self.excused.update((place, value) for value in awaited - there)

    def _appended(self, event: Appended, replay: Replay) -> None:
        place = replay.place(event.log)
        for value in event.batch.values:
            self.copies.setdefault((place, value), set()).add(event.log.cluster)
            if replay.is_fleet(event.log):  # a mirror may get back from its source what it had cut; one node's log stays excused
                self.missing.pop((place, value), None)
                self.excused.discard((place, value))

    def _acknowledged(self, event: Acknowledged, replay: Replay) -> Iterator[tuple[int, str]]:
        place = replay.place(event.log)
        replicas = replay.replicas(place)
        wanted = min(replay.history.min_in_sync_replicas, len(replicas))
        is_one_node = replicas == [event.log]
        present = {value for batch in replay.log(event.log) for value in batch.values} if is_one_node else set()
        for value in event.values:
            key = (place, value)
            self.acknowledged[key] = event
            if is_one_node and value not in present and key not in self.missing and key not in self.excused:
                yield event.now_us, f"{event.log} acknowledges {value.decode()}, which is not in its log"
            elif len(self.copies.get(key, ())) < wanted:
                yield (
                    event.now_us,
                    f"{event.log} acknowledges {value.decode()}, which {len(self.copies.get(key, ()))} of {wanted} replicas had",
                )

    def _removed(self, event: Removed, replay: Replay) -> None:
        place = replay.place(event.log)
        if event.cause in ("power loss", "disk lost") and replay.is_fleet(event.log):
            return
        kept = None
        for batch in event.batches:
            if kept is None and replay.state(event.log) is State.STOPPING and replay.is_fleet(event.log):
                kept = {other.key for other in fixpoint(replay.log(event.log))}
            reason = _excuse(replay, event, batch, below_fixpoint=kept is not None and batch.key in kept)
            for value in batch.values:
                key = (place, value)
                if reason is not None:
                    self.excused.add(key)
                    continue
                if key not in self.missing:
                    self.missing[key] = (event.now_us, event.cause)
                if replay.state(event.log) in MIRRORED:
                    self.awaited.setdefault(place, set()).add(value)

    def end(self, replay: Replay) -> Iterator[tuple[int, str]]:
        """Yields what is missing in the end. Without `Healed` a fleet has no end to look at; that
        it does not heal is a violation of "progress".
        """
        left: dict[Place, set[bytes]] = {}
        for (place, value), event in self.acknowledged.items():
            if (place, value) in self.excused:
                continue
            log = self._last_log(place, event, replay)
            if log is None:
                if place[0] in self.healed and (place[0], place[1].topic) not in self.deleted:
                    yield event.now_us, f"{event.log} acknowledged {value.decode()}, and {place[0]} does not know the topic any more"
                continue
            if place not in left:
                left[place] = {value for batch in replay.log(log) for value in batch.values}
            if value not in left[place]:
                now_us, cause = self.missing.get((place, value), (event.now_us, "nothing that was seen"))
                when = f"at {event.now_us / 1_000_000:.3f} s"
                yield now_us, f"{event.log} acknowledged {value.decode()} {when}, lost it by {cause}, and it did not come back"

    def _last_log(self, place: Place, event: Acknowledged, replay: Replay) -> LogKey | None:
        cluster, partition = place
        if not replay.is_fleet_of(cluster):
            return event.log
        hosts = self.healed[cluster].isr.get(partition) if cluster in self.healed else None
        return LogKey(hosts[0], partition) if hosts else None


def _excuse(replay: Replay, event: Removed, batch: Batch, *, below_fixpoint: bool) -> str | None:
    state = replay.state(event.log)
    if event.cause == "power loss":
        return None if batch.durable else "not synced"
    if event.cause in ("retention", "topic deleted"):
        return event.cause
    if state is State.STOPPING:
        return None if below_fixpoint and replay.source_has(event.log, batch) else "LSO"
    if state in MIRRORED:  # (the state is written before the fetcher has ended)
        return None if replay.source_has(event.log, batch) else "the source does not have it"
    return None
