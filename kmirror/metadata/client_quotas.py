"""Client quotas in the metadata: which quotas an entity may have, how entities print, and what
DescribeClientQuotas returns.

An entity is a user, a client id, both, or an address; a name of None is the default of its type.
Quotas of users and client ids are rates of bytes, the share of request time and the rate of
controller mutations; an address has a rate of new connections.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Final

from kmirror.common.config import ConfigType
from kmirror.common.errors import ApiException, Errors
from kmirror.metadata.image import ClientQuotaEntity
from kmirror.wire.messages.describe_client_quotas import DescribeClientQuotasRequest, EntityData, EntryData, ValueData

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = (CLIENT_ID, USER, IP)

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

USER_AND_CLIENT_QUOTAS: Final[Mapping[str, ConfigType]] = {
    PRODUCER_BYTE_RATE: ConfigType.LONG,
    CONSUMER_BYTE_RATE: ConfigType.LONG,
    REQUEST_PERCENTAGE: ConfigType.DOUBLE,
    CONTROLLER_MUTATION_RATE: ConfigType.DOUBLE,
}
IP_QUOTAS: Final[Mapping[str, ConfigType]] = {CONNECTION_CREATION_RATE: ConfigType.INT}

MATCH_EXACT, MATCH_DEFAULT, MATCH_SPECIFIED = 0, 1, 2
_ANY: Final = object()


def entity_text(entity: ClientQuotaEntity) -> str:
    """Returns an entity as Kafka prints it in errors: client id before user before address."""
    names = dict(entity.entries)
    shown = [f"{kind}={'null' if names[kind] is None else names[kind]}" for kind in ENTITY_TYPES if kind in names]
    shown += [f"{kind}={'null' if name is None else name}" for kind, name in entity.entries if kind not in ENTITY_TYPES]
    return f"ClientQuotaEntity(entries={{{', '.join(shown)}}})"


def plain_address(name: str) -> str | None:
    """Returns an address in the form in which connections have it, for a literal or `localhost`;
    None for anything else (names are not resolved)."""
    if name == "localhost":
        return "127.0.0.1"
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def describe_client_quotas(
    quotas: Mapping[ClientQuotaEntity, Mapping[str, float]], request: DescribeClientQuotasRequest
) -> Iterator[EntryData]:
    """Returns the entities that match every component of the filter (and, if strict, have no
    other); raises ApiException for a bad filter."""
    wanted = _wanted(request)
    for entity, values in quotas.items():
        names = dict(entity.entries)
        if request.strict and len(names) != len(wanted):
            continue
        if all(kind in names and (match is _ANY or names[kind] == match) for kind, match in wanted.items()):
            yield EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.entries],
                values=[ValueData(key=key, value=value) for key, value in values.items()],
            )


def _wanted(request: DescribeClientQuotasRequest) -> dict[str, object]:
    """Returns, by entity type, the name that it must have, None for the default, or _ANY."""
    wanted: dict[str, object] = {}
    for component in request.components:
        kind = component.entity_type
        if not kind:
            raise ApiException(Errors.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in wanted:
            raise ApiException(Errors.INVALID_REQUEST, f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in ENTITY_TYPES:
            raise ApiException(Errors.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        wanted[kind] = _wanted_name(component.match_type, component.match)
    if IP in wanted and (USER in wanted or CLIENT_ID in wanted):
        text = "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter component."
        raise ApiException(Errors.INVALID_REQUEST, text)
    return wanted


def _wanted_name(match_type: int, match: str | None) -> object:
    if match_type == MATCH_EXACT:
        if match is None:
            raise ApiException(Errors.INVALID_REQUEST, "Request specified MATCH_TYPE_EXACT, but set match string to null.")
        return match
    if match_type not in (MATCH_DEFAULT, MATCH_SPECIFIED):
        raise ApiException(Errors.INVALID_REQUEST, f"Unknown match type {match_type}")
    if match is not None:
        name = "MATCH_TYPE_DEFAULT" if match_type == MATCH_DEFAULT else "MATCH_TYPE_SPECIFIED"
        raise ApiException(Errors.INVALID_REQUEST, f"Request specified {name}, but also specified a match string.")
    return None if match_type == MATCH_DEFAULT else _ANY
