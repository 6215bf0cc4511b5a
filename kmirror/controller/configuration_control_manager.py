"""Dynamic configs of every kind of resource (Kafka's `ConfigurationControlManager`).

A change is validated by the whole set of overrides that results from it. Records are written only
for values that change. Clients cannot set `mirror.name`, which only the mirror requests change, nor
a mirror's `source.cluster.id`, which its owner broker sets. When a broker pauses a topic by setting
`mirror.name` to `X.paused`, the present value must still be `X`, because an operator's request may
have come in between (B5).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from kmirror.common.errors import ApiException, Errors, IllegalArgumentException, unknown_mirror
from kmirror.controller.controller_result import ControllerResult
from kmirror.controller.controller_state import ControllerState
from kmirror.controller.mirror_state_topic import check_configs, is_mirror_state_topic
from kmirror.metadata.configs import DEFINITIONS, RESOURCE_TYPE_NAMES, validate
from kmirror.metadata.image import RESOURCE_BROKER, RESOURCE_MIRROR, RESOURCE_TOPIC, ConfigResource
from kmirror.metadata.mirror_filters import log_overlaps
from kmirror.metadata.mirror_names import (
    MIRROR_NAME_CONFIG,
    MIRROR_SOURCE_CLEANING_CONFIG,
    MIRROR_SOURCE_DEFAULTS_CONFIG,
    MIRROR_STATE_PARTITIONS_CONFIG,
    MirrorAssociation,
    parse_association,
    validate_topic_name,
)
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.metadata.resource_configs import SOURCE_CLUSTER_ID_CONFIG
from kmirror.metadata.topic_configs import default_text, inherited_topic_configs
from kmirror.wire.messages import alter_configs as legacy
from kmirror.wire.messages import incremental_alter_configs as incremental
from kmirror.wire.messages.clear_elr_record import ClearElrRecord
from kmirror.wire.messages.config_record import ConfigRecord

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
MAX_VALUE_BYTES = 32767
INTERNAL_TOPIC_CONFIGS = (
    MIRROR_NAME_CONFIG,
    MIRROR_SOURCE_CLEANING_CONFIG,
    MIRROR_SOURCE_DEFAULTS_CONFIG,
    MIRROR_STATE_PARTITIONS_CONFIG,
)
_LIST_BROKER_DEFAULTS = {
    "config.providers": "",
    "cordoned.log.dirs": "",
    "listeners": "PLAINTEXT://:9092",
    "log.cleanup.policy": "delete",
    "metric.reporters": "org.apache.kafka.common.metrics.JmxReporter",
    "sasl.enabled.mechanisms": "GSSAPI",
    "sasl.kerberos.principal.to.local.rules": "DEFAULT",
    "ssl.cipher.suites": "",
    "ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
}
"""Broker configs of type LIST that can be altered, with the value that APPEND and SUBTRACT start
from if none is set."""


class ConfigurationControlManager:
    """Decides about configs."""

    def __init__(self, state: ControllerState) -> None:
        self._state = state

    def incremental_alter_configs(
        self, request: incremental.IncrementalAlterConfigsRequest, *, by_broker: bool = False
    ) -> ControllerResult[incremental.IncrementalAlterConfigsResponse]:
        """Applies SET, DELETE, APPEND and SUBTRACT, with one result per resource."""
        records: list[ApiMessageAndVersion] = []
        response = incremental.IncrementalAlterConfigsResponse()
        resources = [ConfigResource(r.resource_type, r.resource_name) for r in request.resources]
        counts = Counter(resources)
        for resource, entry in zip(resources, request.resources, strict=True):
            result = incremental.AlterConfigsResourceResponse(error_message=None, resource_type=resource.type, resource_name=resource.name)
            try:
                if counts[resource] > 1:
                    raise ApiException(Errors.INVALID_REQUEST, "Each resource must appear at most once.")
                records += self._incremental_records(resource, entry.configs, by_broker=by_broker)
            except IllegalArgumentException:
                raise  # fails the whole request, as in Kafka
            except ApiException as error:
                result.error_code, result.error_message = error.error, error.message
            response.responses.append(result)
        return ControllerResult([] if request.validate_only else records, response)

    def _incremental_records(
        self, resource: ConfigResource, changes: list[incremental.AlterableConfig], *, by_broker: bool
    ) -> list[ApiMessageAndVersion]:
        counts = Counter(change.name for change in changes)
        if len(counts) != len(changes):
            twice = ",".join(name for name, count in counts.items() if count > 1)
            raise ApiException(Errors.INVALID_REQUEST, f"Error due to duplicate config keys: {twice}")
        present = self._state.image.configs.props(resource)
        values: dict[str, str | None] = {}
        for change in changes:
            values[change.name] = self._new_value(resource, change, present.get(change.name))
        return self.change_records(resource, values, by_broker=by_broker)

    def _new_value(self, resource: ConfigResource, change: incremental.AlterableConfig, present: str | None) -> str | None:
        if change.config_operation == DELETE:
            return None
        if change.config_operation not in (SET, APPEND, SUBTRACT):
            raise IllegalArgumentException(f"Unknown operation type {change.config_operation}")
        if change.value is None:
            raise ApiException(Errors.INVALID_REQUEST, f"Null value not supported for : {change.name}")
        if change.config_operation == SET:
            return change.value
        return self._combined(resource, change, present)

    def _combined(self, resource: ConfigResource, change: incremental.AlterableConfig, present: str | None) -> str:
        operation = "APPEND" if change.config_operation == APPEND else "SUBTRACT"
        if not self._is_list(resource, change.name):
            text = f"Can't {operation} to key {change.name} because its type is not LIST."
            raise ApiException(Errors.INVALID_CONFIG, text)
        base = present if present is not None else self._inherited_list(resource, change.name)
        items = dict.fromkeys(item for item in base.split(",") if item)
        for item in (change.value or "").split(","):
            if operation == "APPEND":
                items.setdefault(item)
            else:
                items.pop(item, None)
        combined = ",".join(items)
        if len(combined.encode()) > MAX_VALUE_BYTES:
            text = f"The configuration value cannot be added because it exceeds the maximum value size of {MAX_VALUE_BYTES} bytes."
            raise ApiException(Errors.INVALID_CONFIG, text)
        return combined

    def _is_list(self, resource: ConfigResource, name: str) -> bool:
        definition = DEFINITIONS.get(resource.type)
        if definition is None:
            return name in _LIST_BROKER_DEFAULTS
        return name in definition and definition[name].type.name == "LIST"

    def _inherited_list(self, resource: ConfigResource, name: str) -> str:
        if resource.type == RESOURCE_TOPIC:
            return self._state.topic_config(resource.name, name)
        definition = DEFINITIONS.get(resource.type)
        if definition is None:
            return _LIST_BROKER_DEFAULTS[name]
        default = definition[name].default if name in definition and definition[name].has_default else None
        return ",".join(default) if default else ""

    def alter_configs(
        self, request: legacy.AlterConfigsRequest, *, by_broker: bool = False
    ) -> ControllerResult[legacy.AlterConfigsResponse]:
        """The deprecated form: configs that the request does not name are removed, except
        `mirror.name`."""
        records: list[ApiMessageAndVersion] = []
        response = legacy.AlterConfigsResponse()
        for entry in request.resources:
            resource = ConfigResource(entry.resource_type, entry.resource_name)
            result = legacy.AlterConfigsResourceResponse(error_message=None, resource_type=resource.type, resource_name=resource.name)
            try:
                values: dict[str, str | None] = {config.name: config.value for config in entry.configs}
                missing = [name for name, value in values.items() if value is None]
                if missing:
                    raise ApiException(Errors.INVALID_REQUEST, f"Null value not supported for : {','.join(missing)}")
                for name in self._state.image.configs.props(resource):
                    if name not in (*INTERNAL_TOPIC_CONFIGS, SOURCE_CLUSTER_ID_CONFIG):
                        values.setdefault(name, None)
                records += self.change_records(resource, values, by_broker=by_broker)
            except ApiException as error:
                result.error_code, result.error_message = error.error, error.message
            response.responses.append(result)
        return ControllerResult([] if request.validate_only else records, response)

    def change_records(
        self, resource: ConfigResource, values: Mapping[str, str | None], *, by_broker: bool = False
    ) -> list[ApiMessageAndVersion]:
        """Returns the records that set or (None) remove `values`; raises ApiException unless the
        resulting set is valid."""
        self._check_type(resource)
        if not by_broker:
            self._check_not_internal(resource, values)
        present = self._state.image.configs.props(resource)
        merged = {**present, **values}
        left = {name: value for name, value in merged.items() if value is not None}
        if resource.type == RESOURCE_TOPIC:
            _check_topic_name(resource.name)
            self.check_topic_configs(resource.name, left, changed=() if by_broker else values)
            if is_mirror_state_topic(resource.name):
                check_configs(values, lambda name: self._inherited_topic_config(name))
            if MIRROR_NAME_CONFIG in values:
                _check_pause(present.get(MIRROR_NAME_CONFIG), values[MIRROR_NAME_CONFIG])
        else:
            if (
                resource.type == RESOURCE_BROKER
                and resource.name == ""
                and "min.insync.replicas" in values
                and values["min.insync.replicas"] is None
            ):
                self._check_min_isr_removal()
            elif resource.type == RESOURCE_BROKER and resource.name and "min.insync.replicas" in values:
                self._check_broker_min_isr()
            validate(resource, left, self._state.config.static_topic_configs)
            if resource.type == RESOURCE_MIRROR and not by_broker:
                log_overlaps(self._state.image, resource.name, left)
        self._check_exists(resource)
        is_told_anew = resource.type == RESOURCE_MIRROR and not by_broker
        altered = {
            name: value for name, value in values.items() if present.get(name) != value or (is_told_anew and value is not None)
        }  # a mirror reconnects whenever it is altered, also with the same text (KIP-1279)
        records = self.set_records(resource, altered)
        return records + self._clear_elr_records(resource, values)

    def _check_min_isr_removal(self) -> None:
        if self._state.elr_enabled:
            text = "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
            raise ApiException(Errors.INVALID_CONFIG, text)

    def _check_broker_min_isr(self) -> None:
        if self._state.elr_enabled:
            text = "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
            raise ApiException(Errors.INVALID_CONFIG, text)

    def elr_safety_records(self) -> list[ApiMessageAndVersion]:
        """Returns the records that make min.insync.replicas one value for the cluster, before ELR
        is switched on."""
        configs, name = self._state.image.configs, "min.insync.replicas"
        records: list[ApiMessageAndVersion] = []
        if name not in configs.cluster_default():
            value = inherited_topic_configs(self._state.config.static_topic_configs).get(name) or default_text(name)
            records += self.set_records(ConfigResource(RESOURCE_BROKER, ""), {name: value})
        for resource, props in configs.resources.items():
            if resource.type == RESOURCE_BROKER and resource.name and name in props:
                records += self.set_records(resource, {name: None})
        return records

    def _clear_elr_records(self, resource: ConfigResource, values: Mapping[str, str | None]) -> list[ApiMessageAndVersion]:
        """Returns the records that clear the ELR after a change of min.insync.replicas, which the
        ELR was based on (KIP-966)."""
        if not self._state.elr_enabled or "min.insync.replicas" not in values:
            return []
        if resource.type == RESOURCE_TOPIC:
            return [ApiMessageAndVersion(ClearElrRecord(topic_name=resource.name), 0)]
        return [ApiMessageAndVersion(ClearElrRecord(topic_name=""), 0)] if resource == (RESOURCE_BROKER, "") else []

    def set_records(self, resource: ConfigResource, values: Mapping[str, str | None]) -> list[ApiMessageAndVersion]:
        """Returns one ConfigRecord per value; None removes."""
        return [
            ApiMessageAndVersion(ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value), 0)
            for name, value in values.items()
        ]

    def check_topic_configs(
        self, topic: str, props: Mapping[str, str], *, changed: Mapping[str, str | None] | Mapping[str, str] | tuple[()]
    ) -> None:
        """Raises ApiException unless `props` may be a topic's overrides; `changed` are the names
        that a client itself sets."""
        for name in INTERNAL_TOPIC_CONFIGS:
            if name in changed:
                text = f"Config {name} is internal: it is set by the requests of cluster mirroring only."
                raise ApiException(Errors.INVALID_REQUEST, text)
        validate(ConfigResource(RESOURCE_TOPIC, topic), props, self._inherited())

    def _inherited(self) -> dict[str, str]:
        inherited = inherited_topic_configs(self._state.config.static_topic_configs)
        return inherited | inherited_topic_configs(self._state.image.configs.cluster_default())

    def _inherited_topic_config(self, name: str) -> str | None:
        """Returns the value in force for a topic without its own."""
        return self._inherited().get(name, default_text(name))

    def _check_type(self, resource: ConfigResource) -> None:
        if resource.type not in RESOURCE_TYPE_NAMES or resource.type == 8:
            raise ApiException(Errors.INVALID_REQUEST, f"Unexpected resource type {RESOURCE_TYPE_NAMES.get(resource.type, 'UNKNOWN')}.")
        if resource.type == RESOURCE_MIRROR:
            if not self._state.mirroring_enabled:
                raise ApiException(Errors.UNSUPPORTED_VERSION, "Cluster mirroring is not enabled: mirror.version is 0.")
            if resource not in self._state.image.configs.resources:
                raise unknown_mirror(resource.name)

    def _check_exists(self, resource: ConfigResource) -> None:
        """Comes last: a value that no topic may have is told of a topic that is not there, too."""
        image = self._state.image
        if resource.type == RESOURCE_TOPIC and resource.name not in image.topics.by_name:
            raise ApiException(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.name}' does not exist.")
        nodes = (*image.cluster.brokers, *image.cluster.controllers, self._state.config.node_id)
        if resource.type == RESOURCE_BROKER and resource.name.isdigit() and int(resource.name) not in nodes:
            raise ApiException(Errors.BROKER_ID_NOT_REGISTERED, f"Broker with id {resource.name} not found.")

    def _check_not_internal(self, resource: ConfigResource, values: Mapping[str, str | None]) -> None:
        if resource.type == RESOURCE_MIRROR and SOURCE_CLUSTER_ID_CONFIG in values:
            raise ApiException(Errors.INVALID_REQUEST, f"Config {SOURCE_CLUSTER_ID_CONFIG} is internal.")


def _check_topic_name(name: str) -> None:
    if not name:
        raise ApiException(Errors.INVALID_REQUEST, "Default topic resources are not allowed.")
    validate_topic_name(name)


def _check_pause(present: str | None, value: str | None) -> None:
    """Raises INVALID_REQUEST if `X.paused` would replace anything but `X` or itself."""
    before, after = parse_association(present), parse_association(value)
    if after is None or not after.paused or after.removed:
        return
    if value != present and before != MirrorAssociation(after.mirror_name):
        raise ApiException(Errors.INVALID_REQUEST, f"{MIRROR_NAME_CONFIG} is {present or 'not set'} now; it cannot be changed to {value}")
