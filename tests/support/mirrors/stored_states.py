"""States that `__mirror_state` holds before a broker leads a mirrored partition, for the tests of D1 to
D5.
"""

from __future__ import annotations

from typing import Any

from kmirror.common.errors import ApiException, Errors
from kmirror.mirror.coordination.mirror_coordinator_shard import StateWrite
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.wire.messages import bump_leader_epochs
from support.mirrors.mirror_machine import MIRROR, MirrorMachine

BACKOFF_MS = 5_000
OPEN: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
LAG_MS = 30_000


def refuse_bumps(request: Any) -> ApiException | None:
    return ApiException(Errors.REQUEST_TIMED_OUT, "cut off") if isinstance(request, bump_leader_epochs.BumpLeaderEpochsRequest) else None


async def store(machine: MirrorMachine, state: State, *, epoch: int = -1, topic: str = "t", **options: Any) -> None:
    """Writes a state to `__mirror_state` before this broker leads the topic."""
    await machine.settle()
    machine.topic(topic, value=None, **options)
    written = await machine.mirror.coordinator.write_states(MIRROR, [StateWrite(topic, 0, State.UNKNOWN, epoch)])
    way = {
        State.PREPARING: ["PREPARING"],
        State.MIRRORING: ["PREPARING", "MIRRORING"],
        State.PAUSING: ["PREPARING", "MIRRORING", "PAUSING"],
        State.PAUSED: ["PREPARING", "MIRRORING", "PAUSING", "PAUSED"],
        State.STOPPING: ["PREPARING", "STOPPING"],
        State.STOPPED: ["PREPARING", "STOPPING", "STOPPED"],
        State.FAILED: ["FAILED"],
        State.UNKNOWN: [],
    }[state]
    for name in way:
        written = await machine.mirror.coordinator.write_states(MIRROR, [StateWrite(topic, 0, State[name])])
    assert set(written.values()) == {Errors.NONE}
