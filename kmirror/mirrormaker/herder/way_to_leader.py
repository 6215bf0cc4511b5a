"""Who leads the group, and what a worker that does not has the leader do (KIP-710, KIP-618).

Without a REST interface nobody can tell the leader anything. Then a connector that another program's
leader gives to this worker cannot run here, and says why.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from kmirror.common.errors import KmirrorError
from kmirror.mirrormaker.herder.config_backing_store import ConfigBackingStore
from kmirror.mirrormaker.herder.request_signatures import Sign
from kmirror.mirrormaker.herder.worker_setup import Peers
from kmirror.runtime.api import Runtime

FIRST_RETRY_MS: Final = 250
LONGEST_RETRY_MS: Final = 60_000
"""Between requests to the leader, as Connect waits between them."""
_log = logging.getLogger(__name__)


class WayToLeader:
    """`leads`: this worker is the leader. `url` is the leader's, None while none is known."""

    def __init__(self, runtime: Runtime, name: str, group_id: str, peers: Peers | None, configs: ConfigBackingStore, sign: Sign) -> None:
        self.leads = False
        self.url: str | None = None
        self._runtime = runtime
        self._name = name
        self._group_id = group_id
        self._peers = peers
        self._configs = configs
        self._sign = sign

    def require(self) -> None:
        """KmirrorError if connectors cannot run here."""
        if not self.leads and self._peers is None:
            raise KmirrorError(
                f"the connector was given to this worker by another program, the leader of the group {self._group_id}, and the "
                "configurations of its tasks can only be written by the leader; set dedicated.mode.enable.internal.rest=true and listeners for all "
                "workers, or run one program alone"
            )

    async def put_task_configs(self, connector: str, tasks: Sequence[Mapping[str, str]]) -> bool:
        """Has the leader write what a connector's tasks are, if that is news, again and again until it
        does. Returns False once this worker leads.
        """
        wait_ms = FIRST_RETRY_MS
        while not self.leads:
            self.require()
            assert self._peers is not None, "it was required above"
            try:
                await self._configs.refresh()
                if self._configs.state.task_configs(connector) != list(tasks):
                    await self._peers.leader.put_task_configs(self.url or "", connector, tasks, self._sign)
                return True
            except KmirrorError as error:
                _log.warning("[%s|%s] The leader does not take the configurations of tasks: %s", self._name, connector, error)
            await self._runtime.sleep_ms(wait_ms)
            wait_ms = min(2 * wait_ms, LONGEST_RETRY_MS)
        return False

    async def fence(self, connector: str) -> None:
        """Has the leader shut out the former tasks. A leader of ours has done it, one of Apache's waits to be asked."""
        if self.leads:
            return
        if self._peers is not None:
            await self._peers.leader.fence(self.url or "", connector, self._sign)
        elif self._configs.state.pending_fencing(connector):
            raise KmirrorError(
                f"the leader of the group {self._group_id} has not shut out the former tasks of {connector}, and cannot be asked for it; "
                "if it is another program's, set dedicated.mode.enable.internal.rest=true and listeners for all workers"
            )
