"""Who asks the controller, on which listener, and when the answer must be there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ControllerRequestContext:
    """`principal` is `type:name`; `is_broker` is true for what a broker asks for itself (cluster action), false for what it
    forwards of a client. `listener_name` and `client_address` are those of the connection (of the client, when forwarded)."""

    principal: str = "User:ANONYMOUS"
    is_broker: bool = False
    listener_name: str = "CONTROLLER"
    client_address: str = ""
    forwarded: bool = False
