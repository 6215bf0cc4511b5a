"""What a worker asks the leader of its group for over HTTP (KIP-710, KIP-618).

    POST <leader>/<namespace>/connectors/<name>/tasks    here are the configs of the connector's tasks
    PUT  <leader>/<namespace>/connectors/<name>/fence    shut out the tasks before the last commit

The namespace of a flow of MirrorMaker is `<source>/<target>`, since all flows of a process share one
server; workers of `connect-distributed` have none. Requests are signed once the group has a session key
(`request_signatures`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote

from kmirror.common.errors import KmirrorError
from kmirror.mirrormaker.herder.connect_protocol import NOT_USED
from kmirror.mirrormaker.herder.request_signatures import Sign


class HttpRequest(Protocol):
    """Body None is none. Returns the parsed answer; KmirrorError if the request is refused."""

    async def __call__(self, url: str, method: str, body: Any, *, sign: Sign) -> Any: ...


class LeaderRequests:
    def __init__(self, http_request: HttpRequest, namespace: Sequence[str] = ()) -> None:
        self._http_request = http_request
        self._namespace = tuple(namespace)

    async def put_task_configs(self, leader_url: str, connector: str, configs: Sequence[Mapping[str, str]], sign: Sign) -> None:
        await self._http_request(self.url(leader_url, connector, "tasks"), "POST", [dict(one) for one in configs], sign=sign)

    async def fence(self, leader_url: str, connector: str, sign: Sign) -> None:
        await self._http_request(self.url(leader_url, connector, "fence"), "PUT", None, sign=sign)

    def url(self, leader_url: str, connector: str, what: str) -> str:
        """KmirrorError if the leader has no REST interface."""
        if not leader_url or leader_url == NOT_USED:
            raise KmirrorError("the leader of the group has no REST interface; set dedicated.mode.enable.internal.rest=true for it, too")
        path = [*self._namespace, "connectors", connector, what]
        return leader_url.rstrip("/") + "".join(f"/{quote(part, safe='')}" for part in path)
