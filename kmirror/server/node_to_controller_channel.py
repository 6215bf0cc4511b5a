"""How a broker reaches the active controller: its own requests are sent plainly, those of clients
inside an Envelope.

A request is retried until the caller's time is up, while the controller cannot be reached or says
that it is not the active one (Kafka's `NodeToControllerChannelManager`). A forwarded request is
sent as the bytes of a whole request with its header, together with the client's principal and
address; the envelope's answer holds the bytes of the response. Forwarded requests have a connection
of their own: a controller answers in order, and a slow CreateTopics must not hold up heartbeats.

A controller that stays away for longer than REASON_AFTER_MS is one warning, and one line when it is
back; who waits for it finds the reason in `problem`, and in the error when the time is up.
"""

from __future__ import annotations

import ipaddress
import logging
from typing import Any

from kmirror.common.addresses import address_text
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.lasting_conditions import LastingConditions
from kmirror.common.ports import Buffer, FileSlice
from kmirror.network.client import DisconnectError, NetworkClient, RequestTimeoutError, UnsupportedVersionError
from kmirror.runtime.api import Runtime
from kmirror.server.broker_api_table import BROKER_API_TABLE, AnsweredBy
from kmirror.server.request import Request
from kmirror.wire.framing import RequestHeader, encode_request, read_response
from kmirror.wire.messages.default_principal_data import DefaultPrincipalData
from kmirror.wire.messages.envelope import EnvelopeRequest
from kmirror.wire.primitives import Writer

RETRY_BACKOFF_MS = 20
REASON_AFTER_MS = 5_000
PRINCIPAL_VERSION = 0
FRAME_LENGTH_BYTES = 4
FORWARDED = "forwarded"
_CONTROLLER = "controller"
_log = logging.getLogger(__name__)


class NodeToControllerChannel:
    """Requests to the controller at one address; implements `ForwardingChannel`."""

    def __init__(self, runtime: Runtime, client: NetworkClient, host: str, port: int, *, request_timeout_ms: int) -> None:
        self._runtime = runtime
        self._client = client
        self._host = host
        self._port = port
        self._request_timeout_ms = request_timeout_ms
        self._conditions = LastingConditions(_log, runtime.clock.monotonic_ms, grace_ms=REASON_AFTER_MS)

    @property
    def problem(self) -> str | None:
        """Why the controller does not answer; None if its last answer was one."""
        return self._conditions.text(_CONTROLLER)

    async def send(self, message: Any, *, timeout_ms: int | None = None, connection_key: str = "") -> Any:
        """Returns the response.

        ApiException: REQUEST_TIMED_OUT, or UNSUPPORTED_VERSION when the controller does not serve
        the API.
        """
        limit_ms = self._request_timeout_ms if timeout_ms is None else timeout_ms
        deadline_ms = self._runtime.clock.monotonic_ms() + limit_ms
        while True:
            remaining_ms = deadline_ms - self._runtime.clock.monotonic_ms()
            if remaining_ms <= 0:
                raise ApiException(Errors.REQUEST_TIMED_OUT, self._timeout_text(limit_ms))
            try:
                response = await self._client.send(self._host, self._port, message, timeout_ms=remaining_ms, connection_key=connection_key)
            except UnsupportedVersionError as error:
                raise ApiException(Errors.UNSUPPORTED_VERSION, str(error)) from error
            except (DisconnectError, RequestTimeoutError) as error:
                self._conditions.tell(_CONTROLLER, f"the controller at {address_text(self._host, self._port)} does not answer: {error}")
            else:
                if getattr(response, "error_code", 0) != Errors.NOT_CONTROLLER:
                    self._conditions.end(_CONTROLLER)
                    return response
                self._conditions.tell(_CONTROLLER, f"{address_text(self._host, self._port)} is not the active controller")
            await self._runtime.sleep_ms(RETRY_BACKOFF_MS)

    def _timeout_text(self, limit_ms: int) -> str:
        text = f"The controller did not answer within {limit_ms} ms"
        return f"{text}: {self.problem}" if self.problem else f"{text}."

    async def forward(self, request: Request) -> Any:
        """Returns the controller's response to a client's request, in the same API and version."""
        assert BROKER_API_TABLE[request.api_key].answered_by is AnsweredBy.CONTROLLER, f"{request.api_key!r} is not the controller's"
        header = RequestHeader(request.api_key, request.api_version, request.correlation_id, request.client_id)
        frame = b"".join(_as_bytes(part) for part in encode_request(header, request.message))
        envelope = EnvelopeRequest(
            request_data=frame[FRAME_LENGTH_BYTES:],
            request_principal=_principal_bytes(request),
            client_host_address=_address_bytes(request.client_address),
        )
        answer = await self.send(envelope, connection_key=FORWARDED)
        if answer.error_code:
            raise ApiException(Errors.for_code(answer.error_code))
        if answer.response_data is None:
            raise KmirrorError(f"the controller answered an envelope of {request.api_key.name} without data")
        _, message = read_response(request.api_key, request.api_version, memoryview(answer.response_data))
        return message


def _as_bytes(part: Buffer | FileSlice) -> bytes:
    return part.to_bytes() if isinstance(part, FileSlice) else bytes(part)


def _principal_bytes(request: Request) -> bytes:
    """Returns what Kafka's `DefaultKafkaPrincipalBuilder.serialize` does: a version and the
    message.
    """
    out = Writer()
    principal = DefaultPrincipalData(
        type=request.principal.principal_type, name=request.principal.name, token_authenticated=request.principal.token_authenticated
    )
    principal.write(out, PRINCIPAL_VERSION)
    return PRINCIPAL_VERSION.to_bytes(2, "big") + out.to_bytes()


def _address_bytes(address: str) -> bytes:
    """Returns an IPv4 or IPv6 address as Java's `InetAddress.getAddress` does; loopback if there is
    none.
    """
    try:
        return ipaddress.ip_address(address).packed
    except ValueError:
        return b"\x7f\x00\x00\x01"
