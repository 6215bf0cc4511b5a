"""One request frame as the network hands it to a handler, and the answer that is no answer."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from kmirror.common.kafka_principal import ANONYMOUS, KafkaPrincipal
from kmirror.wire.framing import RequestHeader


class _Close(enum.Enum):
    CLOSE = "close the connection"


CLOSE: Final = _Close.CLOSE
CloseType = _Close


@dataclass(frozen=True, slots=True)
class RequestContext:
    """A request whose header was read: the body begins at `buffer[position]`. The frame belongs to the handler."""

    header: RequestHeader
    buffer: memoryview
    position: int
    listener_name: str
    client_address: str
    connection_id: str
    principal: KafkaPrincipal = ANONYMOUS
    security_protocol: str = "PLAINTEXT"
