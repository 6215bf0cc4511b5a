"""The front of a mirror's log: nothing that its source still has is missing there, and retention
takes nothing of that.

A segment that a log start has passed is deleted by each replica when it next looks, so a mirror may
be earlier than its source. The rule therefore ends for a partition when a replica of its source has
lost its own front.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.sim.events import Converged, Event, LogLost, Removed
from kmirror.sim.replay import Place, Replay

WRITABLE = (None, State.STOPPED)


@dataclass(slots=True)
class FrontChecker:
    """Owns the partitions whose own front has moved."""

    moved: set[Place] = field(default_factory=set)

    def see(self, event: Event, replay: Replay) -> Iterator[tuple[int, str]]:
        if isinstance(event, LogLost):
            self.moved.add((event.cluster, event.partition))
        elif isinstance(event, Converged):
            theirs, ours = replay.log(event.source), replay.log(event.destination)
            if theirs and (not ours or ours[0].base_offset > theirs[0].base_offset):
                begins = ours[0] if ours else "nowhere"
                yield event.now_us, f"{event.destination} begins with {begins}, and {event.source} with {theirs[0]}"
        elif isinstance(event, Removed) and event.cause == "retention":
            yield from self._removed(event, replay)

    def _removed(self, event: Removed, replay: Replay) -> Iterator[tuple[int, str]]:
        place = replay.place(event.log)
        if replay.state(event.log) in WRITABLE:
            self.moved.add(place)
            return
        source = (replay.history.sources.get((place[0], replay.mirror_name(event.log))), place[1])
        if source[0] is None or source in self.moved:
            self.moved.add(place)
            return
        held = {batch.key for log in replay.replicas((source[0], place[1])) for batch in replay.log(log)}
        lost = [batch for batch in event.batches if batch.key in held]
        if lost:
            yield event.now_us, f"{event.log} deletes {lost[0]} and {len(lost) - 1} more, which {source[0]} still has"

    def end(self, replay: Replay) -> Iterator[tuple[int, str]]:
        return iter(())
