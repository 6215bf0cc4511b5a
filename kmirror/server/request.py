"""What a request handler gets: who asked, what, over which listener, in which version.

`KafkaApis` makes a `Request` from the network's frame; handlers never see sockets. A handler
returns the response message, `NO_RESPONSE` (Produce with acks=0), or `CLOSE_CONNECTION` (an error
that the client has no way of reading).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, Final

from kmirror.common.kafka_principal import ANONYMOUS, KafkaPrincipal
from kmirror.network.request_context import ClientInformation
from kmirror.server.request_timing import RequestTiming
from kmirror.wire.api_keys import ApiKeys


@dataclass(slots=True)
class Request:
    """One decoded request.

    `message` is the generated class of `api_key`, read at `api_version`; `size_in_bytes` is the
    frame's.

    `throttle_time_ms` is set by a handler that asks the quotas itself (fetch). For all other
    handlers the quotas are asked afterwards.
    """

    api_key: ApiKeys
    api_version: int
    correlation_id: int
    client_id: str | None
    message: Any
    listener_name: str
    client_address: str = ""
    connection_id: str = ""
    principal: KafkaPrincipal = ANONYMOUS
    security_protocol: str = "PLAINTEXT"
    size_in_bytes: int = 0
    timing: RequestTiming | None = None
    throttle_time_ms: int | None = None
    client_information: ClientInformation = field(default_factory=ClientInformation)


class NoMessage(enum.Enum):
    """What a handler returns instead of a message."""

    NO_RESPONSE = "no response"
    CLOSE_CONNECTION = "close the connection"


NO_RESPONSE: Final = NoMessage.NO_RESPONSE
CLOSE_CONNECTION: Final = NoMessage.CLOSE_CONNECTION
