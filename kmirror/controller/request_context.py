"""The origin of a controller request: who asks, on which listener, and by when the answer must be
there."""

from __future__ import annotations

from dataclasses import dataclass

from kmirror.common.kafka_principal import ANONYMOUS, KafkaPrincipal
from kmirror.wire.api_keys import ApiKeys


@dataclass(frozen=True, slots=True)
class ControllerRequestContext:
    """`is_broker` is true for a broker's own requests (cluster action), false for those that it
    forwards for a client. `listener_name` and `client_address` are those of the connection (of the
    client's, if forwarded)."""

    principal: KafkaPrincipal = ANONYMOUS
    is_broker: bool = False
    listener_name: str = "CONTROLLER"
    client_address: str = ""
    forwarded: bool = False
    api_key: ApiKeys = ApiKeys.API_VERSIONS
