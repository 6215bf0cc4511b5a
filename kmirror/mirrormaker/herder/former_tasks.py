"""How a leader shuts out the tasks before the last commit of a connector, and notes it (KIP-618)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from kmirror.admin.admin_client import AdminClient
from kmirror.mirrormaker.herder.config_backing_store import ConfigBackingStore
from kmirror.mirrormaker.task_transactions import fence_former_tasks
from kmirror.mirrormaker.worker_config import WorkerConfig, open_admin
from kmirror.runtime.api import Runtime


class FormerTasks:
    """`stop` ends the tasks of some connectors that run here."""

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        config: WorkerConfig,
        configs: ConfigBackingStore,
        stop: Callable[[Sequence[str]], Awaitable[object]],
    ) -> None:
        self._runtime = runtime
        self._name = name
        self._config = config
        self._configs = configs
        self._stop = stop
        self._fencing = asyncio.Lock()

    async def fence(self, connectors: Sequence[str]) -> None:
        """With exactly-once support, and of connectors of which that was not done yet."""
        async with self._fencing:
            state = self._configs.state
            pending = [name for name in connectors if state.pending_fencing(name)]
            if not self._config.is_exactly_once or not pending:
                return
            await self._stop(pending)
            admin: AdminClient = open_admin(self._runtime, self._config.client("admin", f"{self._name}|fencing-admin"))
            try:
                for name in pending:
                    count = len(state.tasks(name))
                    await fence_former_tasks(admin, self._config.group_id, name, max(count, 1))
                    await self._configs.put_task_count_record(name, count)
            finally:
                admin.close()
