"""What a worker says in the topic of status of the connectors and tasks that run on it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from kmirror.common.errors import KmirrorError
from kmirror.mirrormaker.herder.assigned_work import AssignedWork
from kmirror.mirrormaker.herder.cluster_config_state import ClusterConfigState
from kmirror.mirrormaker.herder.connect_protocol import ConnectorTaskId
from kmirror.mirrormaker.herder.status_backing_store import StatusBackingStore
from kmirror.mirrormaker.state_times import State

LAST_WORD_MS: Final = 5_000
_log = logging.getLogger(__name__)


class WorkerReports:
    """`generation` is that of the group, which every status names."""

    def __init__(self, name: str, store: StatusBackingStore, work: AssignedWork, *, tracks_topics: bool) -> None:
        self.generation = 0
        self._name = name
        self._store = store
        self._work = work
        self._tracks_topics = tracks_topics
        self._writes_to: dict[tuple[str, str], ConnectorTaskId] = {}

    def note_topic(self, task: ConnectorTaskId, topic: str) -> None:
        """A task writes to a topic (KIP-558)."""
        if self._tracks_topics:
            self._writes_to[task.connector, topic] = task

    async def report(self) -> None:
        """Writes what has changed about the work that runs here."""
        statuses = self._work.statuses.items()
        await self._store.put({of: (status.state, status.error) for of, status in statuses}, self.generation)

    async def report_topics(self) -> None:
        """Writes which topics were written to since the last call."""
        noted, self._writes_to = self._writes_to, {}
        for (_, topic), task in noted.items():
            await self._store.put_active_topic(topic, task)

    def restarting(self, units: Sequence[str | ConnectorTaskId]) -> Coroutine[Any, Any, None]:
        return self._store.announce(dict.fromkeys(units, (State.RESTARTING, None)), self.generation)

    async def unassigned(self, ended: Sequence[str | ConnectorTaskId]) -> None:
        """Whoever gets it next says RUNNING after this, for this worker is still a member."""
        try:
            async with asyncio.timeout(LAST_WORD_MS / 1000):
                await self._store.put(dict.fromkeys(ended, (State.UNASSIGNED, None)), self.generation)
        except TimeoutError:
            _log.warning("[%s] The cluster does not take the last statuses", self._name)

    async def revoked(self, ended: Sequence[str | ConnectorTaskId]) -> None:
        """The same of some of what ran here."""
        try:
            async with asyncio.timeout(LAST_WORD_MS / 1000):
                await self._store.announce(dict.fromkeys(ended, (State.UNASSIGNED, None)), self.generation)
        except TimeoutError:
            _log.warning("[%s] The cluster does not take statuses", self._name)

    async def forget_what_is_gone(self, state: ClusterConfigState) -> None:
        """Removes the statuses of connectors and tasks that there are no longer."""
        try:
            await self._store.refresh()
        except KmirrorError as error:
            _log.warning("[%s] The topic of status cannot be read: %s", self._name, error)
            return
        stored = self._store.stored
        connectors = [name for name in stored.connectors if name not in state.connectors]
        tasks = [task for task in stored.tasks if task not in state.tasks(task.connector)]
        await self._store.remove([*connectors, *tasks])
        for name in connectors:
            await self._store.remove_active_topics(name)
