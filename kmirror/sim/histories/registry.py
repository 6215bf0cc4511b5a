"""Every history by name: the storms, the named disasters of clusters of one node, and those of
fleets of brokers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kmirror.common.errors import KmirrorError
from kmirror.sim.fleet_storm import FLEET_HISTORIES
from kmirror.sim.histories.alignment import ALIGNMENT_HISTORIES
from kmirror.sim.histories.compaction import COMPACTION_HISTORIES
from kmirror.sim.histories.disks import DISK_HISTORIES
from kmirror.sim.histories.failover import FAILOVER_HISTORIES
from kmirror.sim.histories.fronts import FRONT_HISTORIES
from kmirror.sim.histories.mirror_maker_disasters import MIRROR_MAKER_DISASTERS
from kmirror.sim.histories.mirror_maker_sources import MIRROR_MAKER_SOURCES
from kmirror.sim.histories.mirror_makers import MIRROR_MAKER_HISTORIES
from kmirror.sim.histories.replicas import REPLICA_HISTORIES
from kmirror.sim.histories.sources import SOURCE_HISTORIES
from kmirror.sim.histories.states import STATE_HISTORIES
from kmirror.sim.mirror_readers import READER_HISTORIES
from kmirror.sim.mirror_share_groups import SHARE_GROUP_HISTORIES
from kmirror.sim.mirror_storm import MIRROR_STORMS
from kmirror.sim.run import HistoryFunction, RunResult, Setting, run_history
from kmirror.sim.storm import CALM, STORM, storm

HISTORIES: dict[str, tuple[HistoryFunction, Setting]] = {
    "storm": (storm, STORM),
    "calm": (storm, CALM),
    **ALIGNMENT_HISTORIES,
    **FAILOVER_HISTORIES,
    **FRONT_HISTORIES,
    **FLEET_HISTORIES,
    **MIRROR_STORMS,
    **REPLICA_HISTORIES,
    **SHARE_GROUP_HISTORIES,
    **READER_HISTORIES,
    **DISK_HISTORIES,
    **STATE_HISTORIES,
    **SOURCE_HISTORIES,
    **COMPACTION_HISTORIES,
    **MIRROR_MAKER_HISTORIES,
    **MIRROR_MAKER_DISASTERS,
    **MIRROR_MAKER_SOURCES,
}
_STORM_SUMMARY = {
    "storm": "Two clusters, a mirror, failover and failback, with faults of all kinds in between.",
    "calm": "The same without faults; only the story's own crashes.",
}


def summary_of(name: str) -> str:
    """Returns one line that says what the history is about: the first paragraph of its docstring."""
    play, _ = HISTORIES[name]
    return _STORM_SUMMARY.get(name) or " ".join((play.__doc__ or "").strip().split("\n\n")[0].split())


def run_named(name: str, seed: int, *, without: tuple[str, ...] = (), on_trace: Callable[[str], None] | None = None) -> RunResult:
    """Runs one seed of a history; KmirrorError if there is no history of that name."""
    if name not in HISTORIES:
        raise KmirrorError(f"there is no history {name!r}; there are {', '.join(HISTORIES)}")
    play, setting = HISTORIES[name]
    return run_history(name, seed, play, replace(setting, without=without, on_trace=on_trace))
