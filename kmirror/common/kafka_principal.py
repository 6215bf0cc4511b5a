"""Who a connection belongs to (Kafka's `KafkaPrincipal`): the network names it, requests carry it, authorizer and quotas ask for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

USER_TYPE: Final = "User"


@dataclass(frozen=True, slots=True)
class KafkaPrincipal:
    """`principal_type:name`, e.g. `User:ANONYMOUS`. `token_authenticated`: it logged in with a delegation token."""

    principal_type: str
    name: str
    token_authenticated: bool = False

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"


ANONYMOUS: Final = KafkaPrincipal(USER_TYPE, "ANONYMOUS")
