"""The logins of one connection: the first, and those that follow before its session ends (KIP-368).

A session's length is the server's. The next login is due at a random part of it, so that clients
which connected together do not come back together. A request that finds a login due makes it first;
requests that come meanwhile wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from kmirror.common.errors import ConfigError
from kmirror.common.lasting_conditions import LastingConditions
from kmirror.network.client_errors import AuthenticationError
from kmirror.network.client_metrics import ClientMetrics
from kmirror.network.client_requests import RequestMessage
from kmirror.network.node_api_versions import NodeApiVersions
from kmirror.network.security.authentication_errors import SaslError
from kmirror.runtime.api import Runtime

if TYPE_CHECKING:
    from kmirror.network.client_security import ClientChannelBuilder

REAUTHENTICATION_WINDOW: Final = 0.85
REAUTHENTICATION_JITTER: Final = 0.1
NEVER_MS: Final = 1 << 62


class ClientLogin:
    """Logs in at `host`, with the security that `channel()` gives at that time."""

    def __init__(
        self,
        runtime: Runtime,
        host: str,
        port: int,
        *,
        versions: NodeApiVersions,
        metrics: ClientMetrics,
        channel: Callable[[], ClientChannelBuilder | None],
        exchange: Callable[[RequestMessage, int, int], Awaitable[memoryview]],
        refusals: LastingConditions,
    ) -> None:
        """`exchange(request, version, deadline_ms)` returns the response frame, past any login that is
        due. `refusals` are those of all connections of the client, by address.
        """
        self._refusals = refusals
        self._runtime = runtime
        self._host = host
        self._port = port
        self._versions = versions
        self._metrics = metrics
        self._channel = channel
        self._exchange = exchange
        self._running: asyncio.Future[None] | None = None
        self._due_ms = NEVER_MS
        self.done = False
        """Whether the first login has succeeded, or none is needed."""

    @property
    def is_due(self) -> bool:
        return self._due_ms != NEVER_MS and self._runtime.clock.monotonic_ms() >= self._due_ms

    @property
    def allows_requests(self) -> bool:
        """Whether the connection is logged in, and will be for the next request."""
        return self.done and self._running is None and not self.is_due

    async def log_in(self, deadline_ms: int) -> None:
        """Runs the SASL exchange if the client has one. AuthenticationError if it fails."""
        channel = self._channel()
        try:
            sasl = None if channel is None else channel.new_sasl_client(self._host)
        except ConfigError as error:  # no credentials, or they cannot be obtained now
            raise self._refused(str(error), channel) from error
        if channel is None or sasl is None:
            if channel is not None:
                self._metrics.logged_in(again=False, has_end=False, duration_ms=0)
            self._succeeded()
            return
        begun_ms = self._runtime.clock.monotonic_ms()
        from kmirror.network.security.sasl_client_authenticator import authenticate

        try:
            lifetime_ms = await authenticate(
                sasl,
                channel.mechanism,
                choose_version=self._versions.choose,
                exchange=lambda request, version: self._exchange(request, version, deadline_ms),
            )
        except (SaslError, ConfigError) as error:
            raise self._refused(str(error), channel) from error
        self._note_session(lifetime_ms)
        duration_ms = self._runtime.clock.monotonic_ms() - begun_ms
        self._metrics.logged_in(again=self.done, has_end=lifetime_ms > 0, duration_ms=duration_ms)
        self._succeeded()

    def _succeeded(self) -> None:
        self.done = True
        self._refusals.end((self._host, self._port))

    async def log_in_again(self, deadline_ms: int) -> None:
        """Logs in if that is due. There is one login at a time; who comes meanwhile waits for it."""
        while self._running is not None:
            await asyncio.shield(self._running)
        if not self.is_due:
            return
        self._running = done = self._runtime.create_future()
        try:
            await self.log_in(deadline_ms)
        finally:
            self._running = None
            done.set_result(None)

    def refused_by_tls(self, error: Exception) -> AuthenticationError:
        """Logs a handshake that failed, and returns the error that its connection is lost with."""
        return self._failed(str(error), f"{self._host}:{self._port}: {error}", again=False)

    def _refused(self, text: str, channel: ClientChannelBuilder | None) -> AuthenticationError:
        text = text if channel is None else channel.as_written(text)
        return self._failed(text, f"the login at {self._host}:{self._port} failed: {text}", again=self.done)

    def _failed(self, reason: str, told: str, *, again: bool) -> AuthenticationError:
        text = f"Connection to node {self._host}:{self._port} failed authentication due to: {reason}"
        self._refusals.tell((self._host, self._port), text)
        self._metrics.refused(again=again)
        return AuthenticationError(told)

    def _note_session(self, lifetime_ms: int) -> None:
        share = REAUTHENTICATION_WINDOW + REAUTHENTICATION_JITTER * self._runtime.random.random()
        self._due_ms = self._runtime.clock.monotonic_ms() + int(lifetime_ms * share) if lifetime_ms > 0 else NEVER_MS
