"""Which broker coordinates a group or a transactional id (FindCoordinator), for one client."""

from __future__ import annotations

import asyncio
from typing import Any, Final, Protocol

from kmirror.admin.results import Node
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.runtime.api import Runtime
from kmirror.wire.messages.find_coordinator import FindCoordinatorRequest

FIRST_FIND_OF_SEVERAL: Final = 4
"""From this version on a request names several keys."""


class AskAny(Protocol):
    """`ClusterClient.ask_any`."""

    async def __call__(self, request: Any, *, api_key: int | None = None) -> Any: ...


class CoordinatorFinder:
    """Owns the known coordinators. Whoever asks for one that is being looked for waits for that
    answer.
    """

    def __init__(self, runtime: Runtime, ask_any: AskAny) -> None:
        self._runtime = runtime
        self._ask_any = ask_any
        self._known: dict[tuple[int, str], Node] = {}
        self._finding: dict[tuple[int, str], asyncio.Future[BaseException | None]] = {}

    async def find(self, key: str, key_type: int) -> Node:
        """See `ClusterClient.coordinator`."""
        wanted = (key_type, key)
        while wanted not in self._known:
            running = self._finding.get(wanted)
            if running is not None:
                failure = await asyncio.shield(running)
                if failure is not None:
                    raise failure
                continue
            done = self._finding[wanted] = self._runtime.create_future()
            failure = ApiException(Errors.COORDINATOR_NOT_AVAILABLE)
            try:
                self._known[wanted] = await self._ask(key, key_type)
                failure = None
            except KmirrorError as error:
                failure = error
                raise
            finally:
                del self._finding[wanted]
                done.set_result(failure)
        return self._known[wanted]

    def forget(self, key: str, key_type: int, failed: Node | None) -> None:
        """The next `find` asks again. With `failed`, only if that one is still the known one."""
        if failed is None or self._known.get((key_type, key)) == failed:
            self._known.pop((key_type, key), None)

    def clear(self) -> None:
        """Forgets all coordinators: the client begins again with the bootstrap servers."""
        self._known.clear()

    async def _ask(self, key: str, key_type: int) -> Node:
        def request(version: int) -> FindCoordinatorRequest:
            if version >= FIRST_FIND_OF_SEVERAL:
                return FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
            return FindCoordinatorRequest(key=key, key_type=key_type)

        response = await self._ask_any(request, api_key=FindCoordinatorRequest.API_KEY)
        row = response.coordinators[0] if response.coordinators else response
        if row.error_code:
            raise ApiException(Errors.for_code(row.error_code), row.error_message or None)
        return Node(row.node_id, row.host, row.port)
