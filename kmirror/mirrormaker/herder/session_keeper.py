"""The session key of a worker's group while it lives: written by the leader, used by all (KIP-507)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from kmirror.common.errors import KmirrorError
from kmirror.mirrormaker.herder.config_backing_store import ConfigBackingStore
from kmirror.mirrormaker.herder.request_signatures import RequestSignature
from kmirror.mirrormaker.herder.session_keys import SessionConfig
from kmirror.runtime.api import Runtime

_log = logging.getLogger(__name__)


class SessionKeeper:
    def __init__(self, runtime: Runtime, name: str, config: SessionConfig, configs: ConfigBackingStore) -> None:
        self._runtime = runtime
        self._name = name
        self._config = config
        self._configs = configs
        self._writing = asyncio.Lock()

    async def keep(self) -> None:
        """Of the leader: writes another key if it is time."""
        async with self._writing:
            now_ms = self._runtime.clock.time_ms()
            if not self._config.is_due(self._configs.state.session_key, now_ms):
                return
            try:
                await self._configs.put_session_key(self._config.new_key(self._runtime.random, now_ms))
                _log.info("[%s] Wrote a new session key", self._name)
            except KmirrorError as error:
                _log.warning("[%s] The session key cannot be written: %s", self._name, error)

    def sign(self, body: bytes) -> Mapping[str, str]:
        return self._config.headers(self._configs.state.session_key, body)

    def require_signed(self, signature: RequestSignature | None) -> None:
        """HerderError for a request that no worker of the group has made."""
        self._config.require_signed(signature, self._configs.state.session_key)
