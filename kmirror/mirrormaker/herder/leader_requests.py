"""What a worker asks the leader of its group for over HTTP (KIP-710, KIP-618).

    POST <leader>/<namespace>/connectors/<name>/tasks    here are the configs of the connector's tasks
    PUT  <leader>/<namespace>/connectors/<name>/fence    shut out the tasks before the last commit

The namespace of a flow of MirrorMaker is `<source>/<target>`, since all flows of a process share one
server; workers of `connect-distributed` have none. Requests are not signed: Connect signs them only
with the protocol "sessioned", and a group with a worker of kmirror has "default".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from kmirror.common.errors import KmirrorError
from kmirror.mirrormaker.herder.connect_protocol import NOT_USED

HttpRequest = Callable[[str, str, Any], Awaitable[Any]]
"""Gets url, method and body (None for none), returns the parsed answer. KmirrorError if it is refused."""


class LeaderRequests:
    def __init__(self, http_request: HttpRequest, namespace: Sequence[str] = ()) -> None:
        self._http_request = http_request
        self._namespace = tuple(namespace)

    async def put_task_configs(self, leader_url: str, connector: str, configs: Sequence[Mapping[str, str]]) -> None:
        await self._http_request(self.url(leader_url, connector, "tasks"), "POST", [dict(one) for one in configs])

    async def fence(self, leader_url: str, connector: str) -> None:
        await self._http_request(self.url(leader_url, connector, "fence"), "PUT", None)

    def url(self, leader_url: str, connector: str, what: str) -> str:
        """KmirrorError if the leader has no REST interface."""
        if not leader_url or leader_url == NOT_USED:
            raise KmirrorError("the leader of the group has no REST interface; set dedicated.mode.enable.internal.rest=true for it, too")
        path = [*self._namespace, "connectors", connector, what]
        return leader_url.rstrip("/") + "".join(f"/{quote(part, safe='')}" for part in path)
