"""Named histories of sources that are old.

Each is an `async def (stage)` as in `sim.mirror_histories`.
"""

from __future__ import annotations

from kmirror.sim.mirror_checkers import check_mirrors
from kmirror.sim.mirror_histories import end_history, let_another_lead
from kmirror.sim.mirror_stage import MirrorStage
from kmirror.sim.old_dialects import DIALECTS
from kmirror.sim.run import HistoryFunction, Setting


async def old_source(stage: MirrorStage) -> None:
    """UPG8: the source is as old as 2.1, 2.8 or 3.9; its leader changes, also one that was cut off, and B follows."""
    dialect = sorted(DIALECTS)[stage.between(0, len(DIALECTS) - 1)]
    stage.tell(f"A speaks as Kafka {dialect} to mirrors")
    await stage.open(replication_factor=3, dialect=dialect)
    await stage.write("a", batches=3)
    await stage.mirror("a", "b")
    for _ in range(2):
        await let_another_lead(stage, "a")
        await stage.write("a", batches=2)
    await let_another_lead(stage, "b")
    await stage.write("a", batches=1)
    await end_history(stage, "a", "b")


CALM = Setting(MirrorStage, check_mirrors)
SOURCE_HISTORIES: dict[str, tuple[HistoryFunction, Setting]] = {
    "old_source": (old_source, CALM),
}
