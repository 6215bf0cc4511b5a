"""Who is on a connection (Kafka's `KafkaPrincipal`). `network` sets it, requests carry it, and the
authorizer and quotas use it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

USER_TYPE: Final = "User"


@dataclass(frozen=True, slots=True)
class KafkaPrincipal:
    """`principal_type:name`, e.g. `User:ANONYMOUS`. `token_authenticated` is set for a login with a
    delegation token."""

    principal_type: str
    name: str
    token_authenticated: bool = False

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"


ANONYMOUS: Final = KafkaPrincipal(USER_TYPE, "ANONYMOUS")
