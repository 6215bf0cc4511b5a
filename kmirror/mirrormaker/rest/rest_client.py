"""Asks another worker (Connect's `RestClient`).

Each request has a connection of its own: requests between workers are rare, and the other one may be
gone the next time. TLS is that of `listeners.https.ssl.*`, read again for each request.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

from kmirror.common.errors import ConfigError
from kmirror.common.ports import FileSystem
from kmirror.mirrormaker.herder.herder import INTERNAL_SERVER_ERROR, HerderError
from kmirror.mirrormaker.herder.request_signatures import Sign
from kmirror.mirrormaker.rest.rest_config import RestServerConfig
from kmirror.mirrormaker.rest.rest_messages import JSON, NO_CONTENT

AGENT: Final = "kmirror-connect"
_log = logging.getLogger(__name__)


def require_aiohttp() -> ModuleType:
    """ConfigError if it is not installed."""
    try:
        import aiohttp
    except ImportError as error:
        raise ConfigError("Connect's REST interface needs the package aiohttp: pip install 'kmirror[rest]'") from error
    return aiohttp


class RestClient:
    """ConfigError if aiohttp is missing."""

    def __init__(self, config: RestServerConfig, files: FileSystem) -> None:
        require_aiohttp()
        self._config = config
        self._files = files

    async def http_request(self, url: str, method: str, body: Any = None, *, sign: Sign | None = None) -> Any:
        """Returns the answer's JSON, None if it has no content. HerderError as of `exchange`."""
        return (await self.exchange(url, method, body, sign=sign))[1]

    async def exchange(
        self, url: str, method: str, body: Any = None, *, headers: Mapping[str, str] | None = None, sign: Sign | None = None
    ) -> tuple[int, Any]:
        """Returns the status and the JSON of a good answer. `sign` makes headers for the body's bytes.

        HerderError with the status and message of the other worker's refusal, and 500 if there is no
        answer.
        """
        import aiohttp

        data = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        headers = {**(headers or {}), **(sign(data or b"") if sign else {})}
        sent = {"Accept": JSON, "User-Agent": AGENT, **headers, **({} if data is None else {"Content-Type": JSON})}
        try:
            context = self._config.client_context(self._files) if url.startswith("https://") else True
            async with (
                aiohttp.ClientSession() as session,
                session.request(
                    method, url, data=data, headers=sent, ssl=context, allow_redirects=False, skip_auto_headers=("Content-Type",)
                ) as response,
            ):
                status, answer = response.status, await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            _log.error("IO error forwarding REST request to %s: %s", url, error)
            raise HerderError(INTERNAL_SERVER_ERROR, f"IO Error trying to forward REST request: {error}") from error
        except ConfigError as error:
            raise HerderError(INTERNAL_SERVER_ERROR, f"Failed to start RestClient: {error}") from error
        return _answered(status, answer)


def _answered(status: int, answer: bytes) -> tuple[int, Any]:
    if status == NO_CONTENT:
        return status, None
    if not (200 <= status < 300 or status >= 400):
        raise HerderError(INTERNAL_SERVER_ERROR, f"Unexpected status code when handling forwarded request: {status}")
    try:
        parsed = json.loads(answer) if answer else None
    except (ValueError, RecursionError) as error:
        raise HerderError(INTERNAL_SERVER_ERROR, f"IO Error trying to forward REST request: {error}") from error
    if status >= 400:
        message = parsed.get("message") if isinstance(parsed, dict) else answer.decode(errors="replace")
        _log.error("Error forwarding REST request: %d %s", status, message)
        raise HerderError(status, str(message))
    return status, parsed
