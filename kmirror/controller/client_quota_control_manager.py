"""AlterClientQuotas (Kafka's `ClientQuotaControlManager`): checks each entity and its quotas, and
writes records for real changes only.

A refused entity leaves no record and does not affect the others of the request. Setting a value
that is already set, and removing one that is not, writes no record. Addresses must be literals (or
`localhost`). Kafka resolves other names; this controller does not, so that its decisions depend
only on the log.
"""

from __future__ import annotations

from collections.abc import Mapping

from kmirror.common.config import ConfigType
from kmirror.common.errors import ApiException, Errors
from kmirror.controller.controller_result import ControllerResult
from kmirror.controller.controller_state import ControllerState
from kmirror.metadata.client_quotas import (
    CLIENT_ID,
    ENTITY_TYPES,
    IP,
    IP_QUOTAS,
    USER,
    USER_AND_CLIENT_QUOTAS,
    entity_text,
    plain_address,
)
from kmirror.metadata.image import ClientQuotaEntity
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.wire.messages import alter_client_quotas as acq
from kmirror.wire.messages.client_quota_record import ClientQuotaRecord, EntityData

_LIMITS = {ConfigType.INT: ("an INT", 2**31 - 1), ConfigType.LONG: ("a LONG", 2**63 - 1)}
_FRACTION = 1e-6


class ClientQuotaControlManager:
    def __init__(self, state: ControllerState) -> None:
        self._state = state

    def alter_client_quotas(self, request: acq.AlterClientQuotasRequest) -> ControllerResult[acq.AlterClientQuotasResponse]:
        """Returns one result per entity, and the records of those that are accepted."""
        records: list[ApiMessageAndVersion] = []
        results: dict[ClientQuotaEntity, ApiException | None] = {}
        for entry in request.entries:
            entity = ClientQuotaEntity(tuple(sorted({data.entity_type: data.entity_name for data in entry.entity}.items())))
            try:
                keys = [op.key for op in entry.ops]
                if entity in results or len(set(keys)) != len(keys):
                    raise ApiException(Errors.INVALID_REQUEST, f"Ignoring duplicate entity {entity_text(entity)}")
                records += self._alter_entity(entity, {op.key: None if op.remove else op.value for op in entry.ops})
                results[entity] = None
            except ApiException as error:
                results[entity] = error
        response = acq.AlterClientQuotasResponse(entries=[_result(entity, error) for entity, error in results.items()])
        return ControllerResult([] if request.validate_only else records, response)

    def _alter_entity(self, entity: ClientQuotaEntity, values: Mapping[str, float | None]) -> list[ApiMessageAndVersion]:
        names = dict(entity.entries)
        _check_entity(names)
        known = _known_quotas(names)
        current = self._state.image.client_quotas.get(entity, {})
        records: list[ApiMessageAndVersion] = []
        for key, value in values.items():
            if value is not None:
                _check_value(known, key, value)
            if value == current.get(key):
                continue
            data = [EntityData(entity_type=kind, entity_name=names[kind]) for kind in ENTITY_TYPES if kind in names]
            record = ClientQuotaRecord(entity=data, key=key, value=0.0 if value is None else value, remove=value is None)
            records.append(ApiMessageAndVersion(record, 0))
        return records


def _check_entity(names: Mapping[str, str | None]) -> None:
    if not names:
        raise ApiException(Errors.INVALID_REQUEST, "Invalid empty client quota entity")
    for kind, name in names.items():
        if kind not in ENTITY_TYPES:
            raise ApiException(Errors.INVALID_REQUEST, f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise ApiException(Errors.INVALID_REQUEST, f"Empty {kind} not supported")


def _known_quotas(names: Mapping[str, str | None]) -> Mapping[str, ConfigType]:
    if IP not in names:
        return USER_AND_CLIENT_QUOTAS
    if USER in names or CLIENT_ID in names:
        text = "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
        raise ApiException(Errors.INVALID_REQUEST, text)
    address = names[IP]
    if address is not None and plain_address(address) is None:
        raise ApiException(Errors.INVALID_REQUEST, f"{address} is not a valid IP or resolvable host.")
    return IP_QUOTAS


def _check_value(known: Mapping[str, ConfigType], key: str, value: float) -> None:
    if key not in known:
        raise ApiException(Errors.INVALID_REQUEST, f"Invalid configuration key {key}")
    if value <= 0:
        raise ApiException(Errors.INVALID_REQUEST, f"Quota {key} must be greater than 0")
    limit = _LIMITS.get(known[key])
    if limit is None:
        return
    if value > limit[1]:
        raise ApiException(Errors.INVALID_REQUEST, f"Proposed value for {key} is too large for {limit[0]}.")
    if not abs(value % 1.0) <= _FRACTION:
        raise ApiException(Errors.INVALID_REQUEST, f"{key} cannot be a fractional value.")


def _result(entity: ClientQuotaEntity, error: ApiException | None) -> acq.AlterClientQuotasResponseEntryData:
    return acq.AlterClientQuotasResponseEntryData(
        error_code=Errors.NONE if error is None else error.error,
        error_message=None if error is None else error.message,
        entity=[acq.AlterClientQuotasResponseEntityData(entity_type=kind, entity_name=name) for kind, name in entity.entries],
    )
