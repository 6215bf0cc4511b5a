"""The broker's side of a SASL login, before a connection's first request and when the client logs
in again (Kafka's `SaslServerAuthenticator`).

    INITIAL_REQUEST ─ a Kafka request ─> HANDSHAKE_OR_VERSIONS_REQUEST ─ ApiVersions ─> HANDSHAKE_REQUEST ─ SaslHandshake ─> AUTHENTICATE
    INITIAL_REQUEST ─ no Kafka request: a GSSAPI token of a client of 0.9 ─> AUTHENTICATE
    AUTHENTICATE ─ the mechanism is done ─> COMPLETE          anything that may not come, and any refusal ─> FAILED
    REAUTH_PROCESS_HANDSHAKE ─ SaslHandshake ─> AUTHENTICATE, or REAUTH_BAD_MECHANISM, whose next frame fails

After SaslHandshake v0 the frames are bare tokens, after v1 they are SaslAuthenticate requests.
There is no I/O here: `authenticate(frame)` returns what to send, or `PASS_ON` for an ApiVersions
request, which the listener's own handler answers. A refusal is raised as `SaslFailure`. Its
response goes out after a delay, so that a client learns nothing from the time that a refusal takes.

Sessions (KIP-368). When `connections.max.reauth.ms` is set, or the credential expires, the last
SaslAuthenticate response says how long the session lives, and a request after that closes the
connection. A client logs in again with SaslHandshake on the same connection. It must use the same
mechanism and be the same principal, and may do so at most once a second.
"""

from __future__ import annotations

import enum
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.kafka_principal import USER_TYPE, KafkaPrincipal
from kmirror.common.ports import Buffer, Clock, FileSlice
from kmirror.network.request_context import PASS_ON, PassOn
from kmirror.network.security.authentication_errors import AuthenticationProtocolError, SaslAuthenticationError, SaslError
from kmirror.network.security.sasl_server import SaslServer, SaslServerFactory
from kmirror.wire.api_keys import API_TABLE, ApiKeys, Message
from kmirror.wire.error_responses import error_response
from kmirror.wire.framing import RequestHeader, encode_response, read_request, read_request_header
from kmirror.wire.messages.api_versions import ApiVersionsRequest
from kmirror.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kmirror.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kmirror.wire.primitives import ProtocolReadError

if TYPE_CHECKING:
    from kmirror.network.security.jwks import RefreshingJwks

Parts = Sequence[Buffer | FileSlice]
GSSAPI: Final = "GSSAPI"
MIN_REAUTHENTICATION_INTERVAL_MS: Final = 1_000
_FRAME_LENGTH_BYTES: Final = 4
_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FIRST_VERSION_WITH_SOFTWARE = 3
_log = logging.getLogger(__name__)


class SaslState(enum.Enum):
    """What the next frame may be, or how the login ended."""

    INITIAL_REQUEST = "may be a GSSAPI token, SaslHandshake or ApiVersions"
    HANDSHAKE_OR_VERSIONS_REQUEST = "may be SaslHandshake or ApiVersions"
    HANDSHAKE_REQUEST = "must be SaslHandshake"
    AUTHENTICATE = "tokens"
    COMPLETE = "authenticated"
    FAILED = "refused"
    REAUTH_PROCESS_HANDSHAKE = "SaslHandshake on an authenticated connection"
    REAUTH_BAD_MECHANISM = "re-authentication was begun with another mechanism"


class Frame(enum.Enum):
    """What the state machine takes a frame for."""

    GARBAGE = "no Kafka request"
    API_VERSIONS = "ApiVersions"
    BAD_API_VERSIONS = "ApiVersions of an unknown version or a malformed software name"
    HANDSHAKE = "SaslHandshake with an enabled mechanism"
    UNKNOWN_MECHANISM = "SaslHandshake with another mechanism"
    OTHER_MECHANISM = "SaslHandshake with an enabled mechanism that is not that of the session"
    OTHER_REQUEST = "any other request"


_S, _F = SaslState, Frame
TRANSITIONS: Final[dict[tuple[SaslState, Frame], SaslState | None]] = {
    (_S.INITIAL_REQUEST, _F.GARBAGE): _S.AUTHENTICATE,  # where GSSAPI is enabled
    (_S.INITIAL_REQUEST, _F.API_VERSIONS): _S.HANDSHAKE_REQUEST,
    (_S.INITIAL_REQUEST, _F.BAD_API_VERSIONS): _S.HANDSHAKE_OR_VERSIONS_REQUEST,
    (_S.INITIAL_REQUEST, _F.HANDSHAKE): _S.AUTHENTICATE,
    (_S.INITIAL_REQUEST, _F.UNKNOWN_MECHANISM): _S.FAILED,
    (_S.INITIAL_REQUEST, _F.OTHER_REQUEST): _S.FAILED,
    (_S.HANDSHAKE_OR_VERSIONS_REQUEST, _F.GARBAGE): None,
    (_S.HANDSHAKE_OR_VERSIONS_REQUEST, _F.API_VERSIONS): _S.HANDSHAKE_REQUEST,
    (_S.HANDSHAKE_OR_VERSIONS_REQUEST, _F.BAD_API_VERSIONS): _S.HANDSHAKE_OR_VERSIONS_REQUEST,
    (_S.HANDSHAKE_OR_VERSIONS_REQUEST, _F.HANDSHAKE): _S.AUTHENTICATE,
    (_S.HANDSHAKE_OR_VERSIONS_REQUEST, _F.UNKNOWN_MECHANISM): _S.FAILED,
    (_S.HANDSHAKE_OR_VERSIONS_REQUEST, _F.OTHER_REQUEST): _S.FAILED,
    (_S.HANDSHAKE_REQUEST, _F.GARBAGE): None,
    (_S.HANDSHAKE_REQUEST, _F.API_VERSIONS): None,
    (_S.HANDSHAKE_REQUEST, _F.BAD_API_VERSIONS): None,
    (_S.HANDSHAKE_REQUEST, _F.HANDSHAKE): _S.AUTHENTICATE,
    (_S.HANDSHAKE_REQUEST, _F.UNKNOWN_MECHANISM): _S.FAILED,
    (_S.HANDSHAKE_REQUEST, _F.OTHER_REQUEST): _S.FAILED,
    (_S.REAUTH_PROCESS_HANDSHAKE, _F.HANDSHAKE): _S.AUTHENTICATE,
    (_S.REAUTH_PROCESS_HANDSHAKE, _F.OTHER_MECHANISM): _S.REAUTH_BAD_MECHANISM,
    (_S.REAUTH_PROCESS_HANDSHAKE, _F.UNKNOWN_MECHANISM): _S.FAILED,
}
"""The state after a frame that comes before the tokens. None: the frame breaks the protocol, and
the connection is closed at once. Pairs that are missing cannot occur: re-authentication begins with
a SaslHandshake by definition.
"""


class SaslFailure(KmirrorError):
    """The client is refused: `response` is sent after the delay, then the connection is closed.

    The message goes to our log. It may say more than the client is told.
    """

    def __init__(self, message: str, response: Parts | None = None) -> None:
        super().__init__(message)
        self.response = response


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """A listener's mechanisms: how to make the server of each, and its `connections.max.reauth.ms`
    (0: none).
    """

    enabled_mechanisms: tuple[str, ...]
    servers: Mapping[str, SaslServerFactory]
    connections_max_reauth_ms: Mapping[str, int]
    max_receive_size: int = 524_288
    short_name: Callable[[str], str] | None = None
    key_sets: tuple[RefreshingJwks, ...] = ()
    """Key sets that are fetched; logins wait for their first fetch."""


class SaslServerAuthenticator:
    """One login on one connection. Owns the state, the mechanism's server and the end of the
    session.

    `previous` is the last login on the connection if the client logs in again.
    """

    def __init__(self, settings: SaslSettings, clock: Clock, *, previous: SaslServerAuthenticator | None = None) -> None:
        self._settings = settings
        self._clock = clock
        self._previous_mechanism = None if previous is None else previous.mechanism
        self._previous_principal = None if previous is None else previous.principal()
        self._begun_ms = clock.monotonic_ms()
        self._with_headers = False
        self._server: SaslServer | None = None
        self._bad_mechanism = ""
        self._session_expires_ms: int | None = None
        self.latency_ms = 0
        self.supports_reauthentication: bool = previous is not None and previous.supports_reauthentication
        self.state = SaslState.INITIAL_REQUEST if previous is None else SaslState.REAUTH_PROCESS_HANDSHAKE

    @property
    def mechanism(self) -> str:
        return "" if self._server is None else self._server.mechanism

    @property
    def is_complete(self) -> bool:
        return self.state is SaslState.COMPLETE

    @property
    def is_reauthenticating(self) -> bool:
        return self._previous_mechanism is not None

    def principal(self) -> KafkaPrincipal:
        assert self._server is not None, "the principal was asked for before the mechanism was chosen"
        name = self._server.authorization_id
        if self._server.mechanism == GSSAPI and self._settings.short_name is not None:
            try:
                name = self._settings.short_name(name)
            except KmirrorError as error:
                text = f"Failed to set name for '{name}' based on Kerberos authentication rules."
                raise AuthenticationProtocolError(f"{text} {error}") from error
        return KafkaPrincipal(USER_TYPE, name, token_authenticated=self._server.token_authenticated)

    # Sessions

    def is_session_expired(self, now_ms: int) -> bool:
        return self._session_expires_ms is not None and now_ms > self._session_expires_ms

    def may_reauthenticate(self, now_ms: int) -> bool:
        """False for a login that follows another one too soon; it is treated as a request."""
        return not self.is_reauthenticating or now_ms - self._begun_ms >= MIN_REAUTHENTICATION_INTERVAL_MS

    # Frames

    def authenticate(self, frame: memoryview) -> Parts | PassOn | None:
        """Handles one frame and returns what to send now.

        SaslFailure: the client is refused. AuthenticationProtocolError: close at once.
        """
        try:
            if self.state is SaslState.REAUTH_BAD_MECHANISM:
                raise SaslFailure(self._bad_mechanism)
            if self.state is SaslState.AUTHENTICATE:
                return self._handle_sasl_token(frame)
            return self._handle_kafka_request(frame)
        except (SaslFailure, AuthenticationProtocolError):
            self.state = SaslState.FAILED
            raise

    def _handle_kafka_request(self, frame: memoryview) -> Parts | PassOn | None:
        try:
            header, position = read_request_header(frame, 0)
        except ProtocolReadError as error:
            return self._handle_no_request(frame, error)
        if header.api_key not in (ApiKeys.API_VERSIONS, ApiKeys.SASL_HANDSHAKE):
            self._move(Frame.OTHER_REQUEST)
            raise SaslFailure(f"Unexpected Kafka request of type {ApiKeys(header.api_key).name} during SASL handshake.")
        if header.api_key == ApiKeys.API_VERSIONS:
            self._move(Frame.API_VERSIONS if _is_answerable(header, frame, position) else Frame.BAD_API_VERSIONS)
            return PASS_ON
        request = _read(header, frame, position)
        assert isinstance(request, SaslHandshakeRequest), f"read_request gave {type(request).__name__}"
        return self._handle_handshake(header, request.mechanism)

    def _handle_no_request(self, frame: memoryview, error: ProtocolReadError) -> Parts | None:
        if self.state is SaslState.INITIAL_REQUEST and GSSAPI not in self._settings.enabled_mechanisms:
            raise SaslFailure("Exception handling first SASL packet from client, GSSAPI is not supported by server") from error
        self._move(Frame.GARBAGE)
        self._server = self._settings.servers[GSSAPI]()
        return self._handle_sasl_token(frame)

    def _handle_handshake(self, header: RequestHeader, mechanism: str) -> Parts:
        enabled = self._settings.enabled_mechanisms
        self._with_headers = header.api_version >= 1
        if mechanism not in enabled:
            self._move(Frame.UNKNOWN_MECHANISM)
            refusal = SaslHandshakeResponse(Errors.UNSUPPORTED_SASL_MECHANISM, list(enabled))
            raise SaslFailure(f"Unsupported SASL mechanism {mechanism}", _encode(header, refusal))
        if self._previous_mechanism not in (None, mechanism):
            self._bad_mechanism = (
                f"SASL mechanism '{mechanism}' requested by client is not supported for re-authentication "
                f"of mechanism '{self._previous_mechanism}'"
            )
            self._move(Frame.OTHER_MECHANISM)
        else:
            self._move(Frame.HANDSHAKE)
            self._server = self._settings.servers[mechanism]()
        return _encode(header, SaslHandshakeResponse(Errors.NONE, list(enabled)))

    def _move(self, frame: Frame) -> None:
        next_state = TRANSITIONS[self.state, frame]
        if next_state is None:
            raise AuthenticationProtocolError(f"{frame.value} was received in the SASL state {self.state.name}")
        self.state = next_state

    # Tokens

    def _handle_sasl_token(self, frame: memoryview) -> Parts | None:
        return self._handle_authenticate(frame) if self._with_headers else self._handle_bare_token(frame)

    def _handle_bare_token(self, frame: memoryview) -> Parts | None:
        try:
            answer = self._evaluate(bytes(frame))
        except SaslAuthenticationError as error:
            raise SaslFailure(str(error)) from error
        except SaslError as error:
            raise SaslFailure(f"{self._invalid_credentials()}: {error}") from error
        self._end_if_complete()
        return [len(answer).to_bytes(_FRAME_LENGTH_BYTES, "big"), answer]

    def _handle_authenticate(self, frame: memoryview) -> Parts:
        try:
            header, position = read_request_header(frame, 0)
        except ProtocolReadError as error:
            raise AuthenticationProtocolError(str(error)) from error
        request = _read(header, frame, position)
        if not isinstance(request, SaslAuthenticateRequest):
            text = f"Unexpected Kafka request of type {ApiKeys(header.api_key).name} during SASL authentication."
            refusal = error_response(ApiKeys(header.api_key), header.api_version, request, ApiException(Errors.ILLEGAL_SASL_STATE, text))
            raise SaslFailure(text, None if refusal is None else _encode(header, refusal))
        self.supports_reauthentication = self.supports_reauthentication or header.api_version > 0
        try:
            answer = self._evaluate(bytes(request.auth_bytes))
        except SaslAuthenticationError as error:
            raise self._refusal(header, error.error, str(error)) from error
        except SaslError as error:
            text = self._invalid_credentials()
            refusal = self._refusal(header, Errors.SASL_AUTHENTICATION_FAILED, text)
            raise SaslFailure(f"{text}: {error}", refusal.response) from error
        lifetime_ms = self._end_if_complete()
        return _encode(header, SaslAuthenticateResponse(Errors.NONE, None, answer, lifetime_ms if header.api_version >= 1 else 0))

    def _evaluate(self, token: bytes) -> bytes:
        assert self._server is not None, "a token came before the mechanism was chosen"
        answer = self._server.evaluate_response(token)
        if self._server.is_complete:
            self._ensure_principal_unchanged()
        return answer

    def _ensure_principal_unchanged(self) -> None:
        previous, now = self._previous_principal, self.principal()
        if previous is not None and (previous.principal_type, previous.name) != (now.principal_type, now.name):
            raise SaslAuthenticationError(
                f"Cannot change principals during re-authentication from {previous.principal_type}.{previous.name}: "
                f"{now.principal_type}.{now.name}"
            )

    def _end_if_complete(self) -> int:
        """Moves to COMPLETE if the mechanism is done. Returns how long the session lives in ms, 0
        for ever.
        """
        server = self._server
        if server is None or not server.is_complete:
            return 0
        self.state = SaslState.COMPLETE
        now_ms = self._clock.monotonic_ms()
        self.latency_ms = now_ms - self._begun_ms
        limits = []
        if server.credential_lifetime_ms is not None:
            limits.append(server.credential_lifetime_ms - self._clock.time_ms())
        max_reauth_ms = self._settings.connections_max_reauth_ms.get(server.mechanism, 0)
        if max_reauth_ms > 0:
            limits.append(max_reauth_ms)
        if not limits:
            return 0
        lifetime_ms = max(0, min(limits))
        self._session_expires_ms = now_ms + lifetime_ms
        return lifetime_ms

    def _refusal(self, header: RequestHeader, error: Errors, text: str) -> SaslFailure:
        return SaslFailure(text, _encode(header, SaslAuthenticateResponse(error, text, b"", 0)))

    def _invalid_credentials(self) -> str:
        return f"Authentication failed during {self._text()} due to invalid credentials with SASL mechanism {self.mechanism}"

    def _text(self) -> str:
        return "re-authentication" if self.is_reauthenticating else "authentication"


def _is_answerable(header: RequestHeader, frame: memoryview, position: int) -> bool:
    """Whether an ApiVersions request gets a full answer. If it does not, the client may ask
    again.
    """
    if header.api_version > API_TABLE[ApiKeys.API_VERSIONS].highest:
        return False
    request = _read(header, frame, position)
    assert isinstance(request, ApiVersionsRequest), f"read_request gave {type(request).__name__}"
    names = (request.client_software_name, request.client_software_version)
    return header.api_version < _FIRST_VERSION_WITH_SOFTWARE or all(_SOFTWARE_NAME.fullmatch(name) for name in names)


def _read(header: RequestHeader, frame: memoryview, position: int) -> Message:
    try:
        return read_request(header, frame, position)
    except (ProtocolReadError, ApiException) as error:
        raise AuthenticationProtocolError(f"Error getting request for apiKey: {ApiKeys(header.api_key).name}: {error}") from error


def _encode(header: RequestHeader, response: Message) -> Parts:
    return encode_response(header.api_key, header.api_version, header.correlation_id, response)
