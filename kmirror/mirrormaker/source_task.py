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

With errors.tolerance=all, and nothing to be done to records, batches go on whole until the target refuses
one. Then a new life begins before that batch, and copies record by record for a while, so that only the
records that fail are skipped. What had left behind the batch comes twice. A batch that is too large for the
topic is split by the producer, and the rest of it written, before anything is known: so then the task stays
careful, or each such batch would come twice.

Sources before Kafka 0.11 format 2: records of message formats 0 and 1 are polled one by one and
packed into batches.
"""

from __future__ import annotations

import logging
from typing import Final

from kmirror.common.errors import ApiException, Errors
from kmirror.mirrormaker.connect_offsets import SourceOffsets
from kmirror.mirrormaker.herder.connector_plan import TaskContext
from kmirror.mirrormaker.kept_running import Told, Unheard
from kmirror.mirrormaker.mirror_metrics import MirrorSourceMetrics
from kmirror.mirrormaker.source_task_config import SourceTaskConfig, TaskProgress
from kmirror.mirrormaker.source_task_life import SourceTaskLife
from kmirror.mirrormaker.source_task_metrics import SourceTaskMeter
from kmirror.runtime.api import Runtime

_log = logging.getLogger(__name__)
CAREFUL_POLLS: Final = 64
FOR_EVER: Final = 2**63
UNHEARD: Final = Unheard()
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
        meter: SourceTaskMeter | None = None,
    ) -> None:
        self.config = config
        self.progress = TaskProgress()
        self._runtime = runtime
        self._offsets = offsets
        self._metrics = metrics
        self._context = context
        self._meter = meter or SourceTaskMeter(runtime.clock)

    async def run(self, status: Told = UNHEARD) -> None:
        """Copies until it is cancelled; raises what the target refused. `status` hears of it while the
        source answers, and of troubles.
        """
        careful_polls = 0
        while True:
            life = SourceTaskLife(
                self._runtime,
                self.config,
                self._offsets,
                self._metrics,
                self.progress,
                self._context,
                self._meter,
                careful_polls=careful_polls,
            )
            try:
                await life.start()
                careful_polls = await self._until_refused(life, status)
            finally:
                await life.end()

    async def _until_refused(self, life: SourceTaskLife, status: Told) -> int:
        """Copies until the target refuses a batch that it may refuse; returns for how many polls to be careful.
        Raises anything else.
        """
        try:
            await life.copy(status)
        except ApiException as error:
            if not life.may_be_refused:
                raise
            _log.warning("[%s] The target refuses a batch, so records are copied one by one for a while: %s", self.config.flow, error)
            if life.has_failed and error.error is Errors.MESSAGE_TOO_LARGE:
                return FOR_EVER
        return CAREFUL_POLLS
