"""PREPARING cuts by the last mirror epoch that the source told meanwhile (the rule `alignment` of
`sim.checkers`).

The source may forget it before MIRRORING is in force (its topic is deleted), so every epoch that it
could have told since PREPARING counts. A replica that was out of sync is cut when it comes back; an
empty one that is in sync is aligned. If the source tells none, or may tell none because its mirror
is being deleted, the batches that it has itself may stay (`preparing`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kmirror.common.sentinels import NO_EPOCH
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.sim.events import Event, LastMirrorEpochWritten, MirrorDeletionAsked, StateWritten
from kmirror.sim.replay import Place, Replay


@dataclass(slots=True)
class AlignmentChecker:
    """A `Rule`."""

    shared: dict[Place, set[tuple[int, bytes]]] = field(default_factory=dict)
    told: dict[Place, tuple[Place, str, int]] = field(default_factory=dict)
    deleted: set[tuple[str, str]] = field(default_factory=set)

    def see(self, event: Event, replay: Replay) -> Iterator[tuple[int, str]]:
        if isinstance(event, MirrorDeletionAsked):
            self.deleted.add((event.cluster, event.mirror_name))
        if not isinstance(event, (StateWritten, LastMirrorEpochWritten)):
            return
        for place, (source, name, epoch) in self.told.items():
            self.told[place] = (source, name, max(epoch, self._tells(source, name, place, replay)))
        if isinstance(event, StateWritten) and replay.takes_effect:
            yield from ((event.now_us, text) for text in self._state(event, replay))

    def _state(self, event: StateWritten, replay: Replay) -> Iterator[str]:
        place = replay.place(event.log)
        cluster = replay.history.sources.get((place[0], event.mirror_name))
        if event.state is State.PREPARING and cluster is not None:
            self.deleted.discard((place[0], event.mirror_name))
            source = (cluster, event.log.partition)
            self.told.setdefault(place, (source, event.mirror_name, self._tells(source, event.mirror_name, place, replay)))
            self.shared.setdefault(place, self._batches_at(source, replay))
            return
        _, _, epoch = self.told.pop(place, (place, "", NO_EPOCH))
        shared = self.shared.pop(place, set())
        if event.state is State.MIRRORING and replay.state(event.log) is State.PREPARING and cluster is not None:
            may_stay = epoch == NO_EPOCH or (cluster, event.mirror_name) in self.deleted
            if may_stay:
                shared |= self._batches_at((cluster, event.log.partition), replay)
            above = [
                [batch for batch in replay.log(replica) if batch.leader_epoch > epoch and not (may_stay and batch.key in shared)]
                for replica in replay.all_replicas(place)
            ]
            if above and all(above):
                yield f"{event.log} starts mirroring with {above[0][0]}; the source's last mirror epoch is {epoch}"

    def _batches_at(self, source: Place, replay: Replay) -> set[tuple[int, bytes]]:
        return {batch.key for replica in replay.all_replicas(source) for batch in replay.log(replica)}

    def _tells(self, source: Place, mirror_name: str, place: Place, replay: Replay) -> int:
        mirrors_us = replay.has_state(source) and replay.history.sources.get((source[0], mirror_name)) == place[0]
        can_tell = mirrors_us and source[0] not in replay.history.old
        stored = replay.last_mirror_epoch(source, mirror_name) if can_tell else None
        return NO_EPOCH if stored is None else stored

    def end(self, replay: Replay) -> Iterator[tuple[int, str]]:
        return iter(())
