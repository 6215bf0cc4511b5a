"""Whether a target takes what it is sent: what a producer tries again in silence is told here.

A producer tries for delivery.timeout.ms, which the legacy tool sets to for ever. While records wait
for a reason and nothing else is acknowledged either, the log says why after TOLD_AFTER_MS, again
each TOLD_AGAIN_MS, and once when it is over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from kmirror.common.ports import Clock
from kmirror.mirrormaker.source_watch import TOLD_AFTER_MS, TOLD_AGAIN_MS

LOOKED_AGAIN_MS: Final = 1_000
_log = logging.getLogger(__name__)


class TargetWatch:
    """`trouble` says why the first record that waits is not written, `acknowledged` counts those that
    are. `fault` is what was told, until it is over.
    """

    def __init__(self, clock: Clock, name: str, trouble: Callable[[], str | None], acknowledged: Callable[[], int]) -> None:
        self.fault: str | None = None
        self._clock = clock
        self._name = name
        self._trouble = trouble
        self._count = acknowledged
        self._acknowledged = 0
        self._looked_ms = self._well_ms = clock.monotonic_ms()
        self._told_ms = 0

    def look_now_and_then(self) -> None:
        """For a caller that is here with each batch."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._looked_ms >= LOOKED_AGAIN_MS:
            self._looked_ms = now_ms
            self.look()

    def look(self) -> None:
        now_ms = self._clock.monotonic_ms()
        trouble, acknowledged = self._trouble(), self._count()
        if trouble is None or acknowledged != self._acknowledged:
            if self.fault is not None:
                _log.info("%s takes records again, after %d s", self._name, (now_ms - self._well_ms) // 1000)
            self._acknowledged, self._well_ms, self.fault = acknowledged, now_ms, None
        elif now_ms - self._well_ms >= TOLD_AFTER_MS and (self.fault is None or now_ms - self._told_ms >= TOLD_AGAIN_MS):
            self._told_ms = now_ms
            self.fault = f"{self._name} has taken no record for {(now_ms - self._well_ms) // 1000} s: {trouble}"
            _log.warning("%s", self.fault)
