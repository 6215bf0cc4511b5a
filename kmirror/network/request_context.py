"""A request frame as the network hands it to a handler, and the answers that are not plain
responses: `Answer`, `CLOSE`, `PASS_ON`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kmirror.common.kafka_principal import ANONYMOUS, KafkaPrincipal
from kmirror.common.ports import Buffer, FileSlice
from kmirror.wire.framing import RequestHeader


class _Close(enum.Enum):
    """Tells the connection to close instead of sending a response."""

    CLOSE = "close the connection"


CLOSE: Final = _Close.CLOSE
CloseType = _Close


class PassOn(enum.Enum):
    """Says that a listener's security leaves a frame to the listener's handler."""

    PASS_ON = "the listener's handler answers"


PASS_ON: Final = PassOn.PASS_ON


@dataclass(slots=True)
class ClientInformation:
    """What a client says about itself in ApiVersions (KIP-511). Each connection has one; it says
    `unknown` until then.
    """

    software_name: str = "unknown"
    software_version: str = "unknown"


@dataclass(frozen=True, slots=True)
class RequestContext:
    """A request whose header was read: the body begins at `buffer[position]`.

    The frame belongs to the handler. `arrived_ns` is when its last byte came, on the monotonic
    clock.
    """

    header: RequestHeader
    buffer: memoryview
    position: int
    listener_name: str
    client_address: str
    connection_id: str
    principal: KafkaPrincipal = ANONYMOUS
    security_protocol: str = "PLAINTEXT"
    arrived_ns: int = 0
    client_information: ClientInformation = field(default_factory=lambda: ClientInformation())


class Answer(NamedTuple):
    """What a handler returns to say more than the parts of a response. `parts` None: no response is
    sent.

    The connection is muted for `throttle_time_ms` after the response: it is not read, and requests
    that were already read wait. `on_sent` is called when the response was handed to the connection,
    with the nanoseconds that this took.
    """

    parts: Sequence[Buffer | FileSlice] | None
    throttle_time_ms: int = 0
    on_sent: Callable[[int], None] | None = None
