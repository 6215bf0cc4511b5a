"""Whether source and target can be reached, told in one line when it changes.

Kafka's clients log every failed connection, ours log none and go on trying. A MirrorMaker that only
waits looks the same whether there is nothing to mirror or nobody to talk to, so each cluster is
asked for its brokers from time to time, over a connection of the watch's own.
"""

from __future__ import annotations

import logging
from typing import Final

from kmirror.clients.client_config import ClientConfig
from kmirror.clients.cluster_client import ClusterClient
from kmirror.common.addresses import address_text
from kmirror.common.errors import KmirrorError
from kmirror.common.health import Health
from kmirror.runtime.api import Runtime, TaskScope
from kmirror.runtime.supervision import Supervised

PAUSE_MS: Final = 10_000
REMIND_MS: Final = 60_000
_log = logging.getLogger(__name__)


class ClusterWatch:
    """`name` is source or target. `start` begins, `stop` ends it."""

    def __init__(self, runtime: Runtime, name: str, config: ClientConfig) -> None:
        self.fault: str | None = None
        self._runtime = runtime
        self._name = name
        self._servers = ",".join(address_text(host, port) for host, port in config.bootstrap_servers)
        self._cluster = ClusterClient(runtime, config, allow_auto_topic_creation=False)
        self._scope = TaskScope(runtime, f"watch-{name}")
        self._told_ms = 0
        self._was_reached = False

    def start(self) -> None:
        self._scope.spawn(Supervised(self._runtime, self._run, name=f"watch-{self._name}").run(), name="run")

    async def stop(self) -> None:
        await self._scope.cancel()
        await self._cluster.close()

    def health(self) -> Health:
        looked_at = [f"the {self._name} cluster ({self._servers})"]
        if self.fault is None and not self._was_reached:
            return Health([f"the {self._name} cluster ({self._servers}) has not answered yet"], looked_at)
        return Health([] if self.fault is None else [self.fault], looked_at)

    async def _run(self) -> None:
        while True:
            try:
                await self._cluster.request_update()
            except KmirrorError as error:
                self._is_away(f"the {self._name} cluster ({self._servers}) cannot be reached, trying again: {error}")
            else:
                self._is_there()
            await self._runtime.sleep_ms(PAUSE_MS)

    def _is_away(self, fault: str) -> None:
        now_ms = self._runtime.clock.monotonic_ms()
        if self.fault is None or now_ms - self._told_ms >= REMIND_MS:
            self._told_ms = now_ms
            _log.warning("%s", fault)
        self.fault = fault

    def _is_there(self) -> None:
        self._was_reached = True
        if self.fault is not None:
            self.fault = None
            _log.info("the %s cluster (%s) can be reached again", self._name, self._servers)
