"""Who asks the controller, on which listener, and when the answer must be there."""

from __future__ import annotations

from dataclasses import dataclass

from kmirror.common.kafka_principal import ANONYMOUS, KafkaPrincipal
from kmirror.wire.api_keys import ApiKeys


@dataclass(frozen=True, slots=True)
class ControllerRequestContext:
    """`is_broker` is true for what a broker asks for itself (cluster action), false for what it
    forwards of a client. `listener_name` and `client_address` are those of the connection (of the client, when forwarded)."""

    principal: KafkaPrincipal = ANONYMOUS
    is_broker: bool = False
    listener_name: str = "CONTROLLER"
    client_address: str = ""
    forwarded: bool = False
    api_key: ApiKeys = ApiKeys.API_VERSIONS
