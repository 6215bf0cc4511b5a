"""A listener's security (Kafka's `SslChannelBuilder` and `SaslChannelBuilder`): TLS around its
connections, and the principal of each.

    SSL              TLS; the principal is the name in the client's certificate, or User:ANONYMOUS
    SASL_PLAINTEXT   `SaslServerAuthenticator` before the first request
    SASL_SSL         both; the principal is SASL's

A refused connection is neither answered nor closed before
`connection.failed.authentication.delay.ms` has passed, to slow down guessing. A PLAINTEXT listener
has none of this.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Protocol

from kmirror.common.errors import KmirrorError
from kmirror.common.kafka_principal import USER_TYPE, KafkaPrincipal
from kmirror.common.metrics import MetricsRegistry, sensor_metric
from kmirror.common.sensors import Avg, CumulativeSum, Max, Rate, Sensor, Stat
from kmirror.network.request_context import CLOSE, PASS_ON, CloseType, PassOn
from kmirror.network.security.authentication_errors import AuthenticationProtocolError, SslHandshakeError
from kmirror.network.security.sasl_server_authenticator import Parts, SaslFailure, SaslServerAuthenticator, SaslSettings
from kmirror.network.security.ssl_principal_mapper import SslPrincipalMapper
from kmirror.runtime.api import ConnectionProtocol, Runtime
from kmirror.wire.api_keys import ApiKeys

if TYPE_CHECKING:
    import ssl

    from kmirror.network.security.ssl_transport_layer import SslTransportLayer

_INVALID_SIZE = "Failing SASL authentication due to invalid receive size"
_API_KEY_BYTES = 2
_log = logging.getLogger(__name__)


class SecuredConnection(ConnectionProtocol, Protocol):
    """A connection of the socket server, as its security sees it."""

    client_address: str
    connection_id: str
    principal: KafkaPrincipal
    authenticator: SaslServerAuthenticator | None

    def set_max_frame_size(self, size: int | None) -> None:
        """Sets the limit; None is the listener's own one."""
        ...

    def close_after(self, parts: Parts | None) -> None:
        """Send `parts`, read no more, and close when they are sent."""
        ...


class AuthenticationMetrics:
    """Kafka's metrics of a listener's logins (socket-server-metrics): a rate and a total of each
    outcome, and how long re-authentication takes.
    """

    def __init__(self, metrics: MetricsRegistry, listener_name: str) -> None:
        tags = (("listener", listener_name), ("networkProcessor", "0"))

        def sensor(**stats: Stat) -> Sensor:
            made = Sensor(metrics, metrics.clock)
            for attribute, stat in stats.items():
                made.add(sensor_metric("socket-server-metrics", attribute.replace("_", "-"), tags), stat)
            return made

        self.successful = sensor(successful_authentication_rate=Rate(), successful_authentication_total=CumulativeSum())
        self.failed = sensor(failed_authentication_rate=Rate(), failed_authentication_total=CumulativeSum())
        self.successful_again = sensor(successful_reauthentication_rate=Rate(), successful_reauthentication_total=CumulativeSum())
        self.failed_again = sensor(failed_reauthentication_rate=Rate(), failed_reauthentication_total=CumulativeSum())
        self.latency = sensor(reauthentication_latency_avg=Avg(), reauthentication_latency_max=Max())
        self.without_reauthentication = sensor(successful_authentication_no_reauth_total=CumulativeSum())
        self.expired_killed = sensor(expired_connections_killed_count=CumulativeSum())


class Contexts(Protocol):
    """Where a listener's TLS contexts come from (`replaced_stores.ReplacedStores`)."""

    @property
    def context(self) -> ssl.SSLContext: ...


class ServerChannelBuilder:
    """Secures one listener. `context`: TLS, for SSL and SASL_SSL; each connection is given the one of
    its moment, for stores may be replaced. `sasl`: for SASL_PLAINTEXT and SASL_SSL. Frames of logins
    wait for `ready`.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        security_protocol: str,
        listener_name: str,
        metrics: MetricsRegistry,
        ready: asyncio.Future[Any] | None = None,
        context: Contexts | None = None,
        sasl: SaslSettings | None = None,
        principal_mapper: SslPrincipalMapper | None = None,
        failed_authentication_delay_ms: int = 100,
    ) -> None:
        self.security_protocol = security_protocol
        self._runtime = runtime
        self._ready = ready
        self._context = context
        self._sasl = sasl
        self._principal_mapper = principal_mapper or SslPrincipalMapper("DEFAULT")
        self._delay_ms = failed_authentication_delay_ms
        self._metrics = AuthenticationMetrics(metrics, listener_name)
        self._scratch = memoryview(b"")

    def reconfigure(self, context: Contexts | None, sasl: SaslSettings | None) -> None:
        """Applies to the connections made, and the logins begun, from now on."""
        self._context, self._sasl = context, sasl

    def close(self) -> None:
        """Stops fetching keys, when the listener is closed."""
        for key_set in () if self._sasl is None else self._sasl.key_sets:
            key_set.close()

    async def _all_is_there(self) -> None:
        """Waits for the metadata and the key sets that logins are checked against."""
        key_sets = () if self._sasl is None else self._sasl.key_sets
        for needed in (self._ready, *(key_set.loaded for key_set in key_sets)):
            if needed is not None and not needed.done():
                await asyncio.shield(needed)

    # TLS

    def secure(self, connection: SecuredConnection) -> ConnectionProtocol:
        """The protocol to give to the socket of a new connection."""
        if self._sasl is not None:
            connection.authenticator = SaslServerAuthenticator(self._sasl, self._runtime.clock)
            connection.set_max_frame_size(self._sasl.max_receive_size)
        if self._context is None:
            return connection
        from kmirror.network.security.ssl_transport_layer import READ_SIZE_HINT, SslTransportLayer

        if not self._scratch:
            self._scratch = memoryview(bytearray(READ_SIZE_HINT))

        def on_handshake(layer: SslTransportLayer, error: SslHandshakeError | None) -> None:
            self._on_handshake(connection, layer, error)

        return SslTransportLayer(
            self._runtime, self._context.context, connection, scratch=self._scratch, server_side=True, on_handshake=on_handshake
        )

    def _on_handshake(self, connection: SecuredConnection, layer: SslTransportLayer, error: SslHandshakeError | None) -> None:
        if error is not None:
            self._note_failure(connection, "SSL handshake failed", again=False)
            _log.debug("Connection %s: %s", connection.connection_id, error)
            self._runtime.call_later_ms(self._delay_ms, layer.close)
            return
        if self._sasl is not None:
            return
        try:
            connection.principal = self._certificate_principal(layer)
        except KmirrorError as problem:
            self._note_failure(connection, str(problem), again=False)
            connection.close_after(None)
            return
        self._metrics.successful.record()
        self._metrics.without_reauthentication.record()

    def _certificate_principal(self, layer: SslTransportLayer) -> KafkaPrincipal:
        certificate = layer.peer_certificate()
        if certificate is None:
            return KafkaPrincipal(USER_TYPE, "ANONYMOUS")
        from kmirror.network.security.distinguished_name import subject_of

        return KafkaPrincipal(USER_TYPE, self._principal_mapper.name_of(subject_of(certificate)))

    # SASL

    async def authenticate(
        self, connection: SecuredConnection, authenticator: SaslServerAuthenticator, frame: memoryview
    ) -> Parts | PassOn | CloseType | None:
        """Handles a frame of a SASL connection; PASS_ON if the listener's handler should answer
        it.
        """
        if authenticator.is_complete:
            following = self._session_frame(connection, authenticator, frame)
            if not isinstance(following, SaslServerAuthenticator):
                return following
            authenticator = following
        await self._all_is_there()
        try:
            answer = authenticator.authenticate(frame)
        except AuthenticationProtocolError as error:
            _log.warning("Closing socket for %s because of error: %s", connection.connection_id, error)
            return CLOSE
        except SaslFailure as failure:
            self._note_failure(connection, str(failure), again=authenticator.is_reauthenticating)
            await self._runtime.sleep_ms(self._delay_ms)
            connection.close_after(failure.response)
            return None
        if authenticator.is_complete:
            self._complete(connection, authenticator)
        return answer

    def _session_frame(
        self, connection: SecuredConnection, authenticator: SaslServerAuthenticator, frame: memoryview
    ) -> SaslServerAuthenticator | PassOn | CloseType:
        """Classifies a frame of an authenticated client: the beginning of another login, a request,
        or a request after the session has expired.
        """
        now_ms = self._runtime.clock.monotonic_ms()
        is_handshake = int.from_bytes(frame[:_API_KEY_BYTES], "big", signed=True) == ApiKeys.SASL_HANDSHAKE
        if is_handshake and authenticator.may_reauthenticate(now_ms) and self._sasl is not None:
            connection.authenticator = SaslServerAuthenticator(self._sasl, self._runtime.clock, previous=authenticator)
            connection.set_max_frame_size(self._sasl.max_receive_size)
            return connection.authenticator
        if authenticator.is_session_expired(now_ms):
            self._metrics.expired_killed.record()
            _log.debug("Disconnecting expired channel: %s", connection.connection_id)
            return CLOSE
        return PASS_ON

    def _complete(self, connection: SecuredConnection, authenticator: SaslServerAuthenticator) -> None:
        connection.principal = authenticator.principal()
        connection.set_max_frame_size(None)
        if authenticator.is_reauthenticating:
            self._metrics.successful_again.record()
            self._metrics.latency.record(authenticator.latency_ms)
            return
        self._metrics.successful.record()
        if not authenticator.supports_reauthentication:
            self._metrics.without_reauthentication.record()

    def on_invalid_size(self, connection: SecuredConnection) -> None:
        """A frame larger than a token may be was announced."""
        authenticator = connection.authenticator
        if authenticator is not None and not authenticator.is_complete:
            self._note_failure(connection, _INVALID_SIZE, again=authenticator.is_reauthenticating)

    def _note_failure(self, connection: SecuredConnection, reason: str, *, again: bool) -> None:
        (self._metrics.failed_again if again else self._metrics.failed).record()
        what = "re-authentication" if again else "authentication"
        _log.info("Failed %s with /%s (channelId=%s) (%s)", what, connection.client_address, connection.connection_id, reason)
