"""Copies partitions of the source to the target (Kafka's `MirrorSourceTask`, and what Connect's
`WorkerSourceTask` does around it).

    source ── poll_batches ──> copying: pass on / rewrite / leave out ── send_run ──> target
                                                                            │ acknowledged
                             offset syncs (OS1, OS2) <── OffsetSyncSender ───────┤
                             stored offsets (MC14)   <── SubmittedRecords <──────┘ each offset.flush.interval.ms

A task begins behind the stored offset of each partition, else where auto.offset.reset says (MC12).
Its consumer has no group and commits nothing (MC1). Offsets are stored only once the target has
acknowledged everything up to them, so a task that dies copies some records twice and skips none.
With a `transactional_id` records and offsets are written in one transaction (`task_transactions`),
and nothing is copied twice.

What goes wrong at the source is logged and tried again for ever, as in Kafka. What goes wrong at the
target, after the producer's own retries, ends the task with that error; its owner reports it and
starts it again. A task that is cancelled waits offset.flush.timeout.ms for what is on its way, and
stores its offsets.

Sources before Kafka 0.11 format 2: records of message formats 0 and 1 are polled one by one and
packed into batches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kmirror.mirrormaker.connect_offsets import SourceOffsets
from kmirror.mirrormaker.herder.connector_plan import TaskContext
from kmirror.mirrormaker.mirror_metrics import MirrorSourceMetrics
from kmirror.mirrormaker.source_task_config import SourceTaskConfig, TaskProgress
from kmirror.mirrormaker.source_task_life import SourceTaskLife
from kmirror.runtime.api import Runtime

OWN_TASK: Final = TaskContext()
"""Of a task without a worker."""


class MirrorSourceTask:
    """One task. `run` runs one life of it; a `Supervised` calls it again when it ends."""

    def __init__(
        self,
        runtime: Runtime,
        config: SourceTaskConfig,
        offsets: SourceOffsets,
        metrics: MirrorSourceMetrics,
        context: TaskContext = OWN_TASK,
    ) -> None:
        self.config = config
        self.progress = TaskProgress()
        self._runtime = runtime
        self._offsets = offsets
        self._metrics = metrics
        self._context = context

    async def run(self, heard: Callable[[], object] = lambda: None) -> None:
        """Copies until it is cancelled; raises what the target refused. `heard` is called while the
        source answers.
        """
        life = SourceTaskLife(self._runtime, self.config, self._offsets, self._metrics, self.progress, self._context)
        try:
            await life.start()
            await life.copy(heard)
        finally:
            await life.end()
