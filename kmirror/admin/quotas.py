"""AdminClient calls about client quotas.

An entity is a mapping of types (user, client-id, ip) to names; None is the type's default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from kmirror.admin.admin_requests import AdminRequests, raise_for
from kmirror.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from kmirror.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

USER = "user"
CLIENT_ID = "client-id"
IP = "ip"


class MatchType(IntEnum):
    """How a component of a filter matches: a name, the default, or any name (the default included)."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


@dataclass(frozen=True, slots=True)
class ClientQuotaFilterComponent:
    entity_type: str
    match_type: MatchType
    match: str | None = None


@dataclass(frozen=True, slots=True)
class ClientQuotaEntity:
    """Pairs of type and name (None: the default), sorted by type."""

    entries: tuple[tuple[str, str | None], ...]

    @classmethod
    def of(cls, entries: Mapping[str, str | None]) -> ClientQuotaEntity:
        return cls(tuple(sorted(entries.items())))


async def describe_client_quotas(
    cluster: AdminRequests, components: list[ClientQuotaFilterComponent], *, strict: bool = False
) -> dict[ClientQuotaEntity, dict[str, float]]:
    """Returns the quotas of every entity that the filter matches.

    `strict` leaves out entities that also have other types.
    """
    request = DescribeClientQuotasRequest(
        components=[ComponentData(entity_type=row.entity_type, match_type=row.match_type, match=row.match) for row in components],
        strict=strict,
    )
    response = await cluster.ask_any(request)
    raise_for(response.error_code, response.error_message)
    return {
        ClientQuotaEntity.of({part.entity_type: part.entity_name for part in entry.entity}): {row.key: row.value for row in entry.values}
        for entry in response.entries or ()
    }


async def alter_client_quotas(
    cluster: AdminRequests, entity: ClientQuotaEntity, changes: Mapping[str, float | None], *, validate_only: bool = False
) -> None:
    """Sets quotas of one entity; a quota whose value is None is removed."""
    entry = AlterClientQuotasRequestEntryData(
        entity=[AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name) for kind, name in entity.entries],
        ops=[OpData(key=key, value=0.0 if value is None else value, remove=value is None) for key, value in changes.items()],
    )
    request = AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)
    response = await cluster.ask_any(request)
    for row in response.entries:
        raise_for(row.error_code, row.error_message)
