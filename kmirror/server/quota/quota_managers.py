"""All client quotas of a node, and how metadata changes reach them (Kafka's
`QuotaFactory.QuotaManagers`, `ClientQuotaMetadataManager`).

The broker and controller roles of one process share them, as Kafka's combined nodes share the
sensors, and both publish the same changes. The windows are `quota.window.*`, and
`controller.quota.window.*` for controller mutations.
"""

from __future__ import annotations

import logging

from kmirror.common.errors import ConfigError
from kmirror.common.metrics import MetricsRegistry
from kmirror.common.ports import Clock
from kmirror.metadata.client_quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    plain_address,
)
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import RESOURCE_BROKER, ClientQuotaEntity, ConfigResource, MetadataImage
from kmirror.metadata.loader import LoaderManifest
from kmirror.network.connection_quotas import UNLIMITED, ConnectionQuotas
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.quota.client_quota_manager import DEFAULT, ClientQuotaManager, EntityName, QuotaType, QuotaWindow
from kmirror.server.quota.client_request_quota_manager import ClientRequestQuotaManager
from kmirror.server.quota.controller_mutation_quota_manager import ControllerMutationQuotaManager

CONNECTION_RATE_CONFIG = "max.connection.creation.rate"
_log = logging.getLogger(__name__)


class QuotaManagers:
    def __init__(self, config: KafkaConfig, metrics: MetricsRegistry, clock: Clock) -> None:
        window = QuotaWindow(config.get_int("quota.window.num"), config.get_int("quota.window.size.seconds"))
        controller_window = QuotaWindow(
            config.get_int("controller.quota.window.num"), config.get_int("controller.quota.window.size.seconds")
        )
        self.produce = ClientQuotaManager(QuotaType.PRODUCE, window, metrics, clock)
        self.fetch = ClientQuotaManager(QuotaType.FETCH, window, metrics, clock)
        self.request = ClientRequestQuotaManager(window, metrics, clock)
        self.controller_mutation = ControllerMutationQuotaManager(controller_window, metrics, clock)
        self.connections = ConnectionQuotas(
            clock,
            metrics,
            samples=window.samples,
            window_ms=window.size_seconds * 1_000,
            broker_rate=config.get_int(CONNECTION_RATE_CONFIG),
            listener_rates={listener.name: _listener_rate(config.props, listener.name) for listener in config.listeners},
            protected_listener=config.inter_broker_listener_name,
        )
        self._by_key: dict[str, ClientQuotaManager] = {
            PRODUCER_BYTE_RATE: self.produce,
            CONSUMER_BYTE_RATE: self.fetch,
            REQUEST_PERCENTAGE: self.request,
            CONTROLLER_MUTATION_RATE: self.controller_mutation,
        }
        self.enabled = False

    def update(self, entity: ClientQuotaEntity, key: str, value: float | None) -> None:
        """Applies a changed quota of an entity; None means that it was removed.

        Quotas that this version does not know are ignored, as in Kafka.
        """
        names = dict(entity.entries)
        if IP in names:
            address = names[IP]
            if key == CONNECTION_CREATION_RATE:
                rate = None if value is None else int(value)
                self.connections.set_address_rate(None if address is None else plain_address(address) or address, rate)
            return
        manager = self._by_key.get(key)
        if manager is not None and (USER in names or CLIENT_ID in names):
            manager.update_quota(_name_of(names, USER), _name_of(names, CLIENT_ID), value)
            self.enabled = True


class DynamicClientQuotaPublisher:
    """A `MetadataPublisher` that applies client quotas, and the connection rates in the broker's
    dynamic configs.
    """

    name = "DynamicClientQuotaPublisher"

    def __init__(self, config: KafkaConfig, quotas: QuotaManagers) -> None:
        self._config = config
        self._quotas = quotas

    def on_metadata_update(self, delta: MetadataDelta, image: MetadataImage, manifest: LoaderManifest) -> None:
        for entity, changes in delta.changed_quotas.items():
            for key, value in changes.items():
                self._quotas.update(entity, key, value)
        resources = (ConfigResource(RESOURCE_BROKER, ""), ConfigResource(RESOURCE_BROKER, str(self._config.node_id)))
        if any(resource in delta.configs.changed for resource in resources):
            self._apply_connection_rates(image)

    def _apply_connection_rates(self, image: MetadataImage) -> None:
        """Applies the connection rates; a listener's rate that is not a number leaves all of them
        unchanged.

        Other values that are not numbers are refused before they get here.
        """
        props = {**self._config.props, **image.configs.cluster_default(), **image.configs.broker(self._config.node_id)}
        try:
            broker_rate = int(props.get(CONNECTION_RATE_CONFIG, UNLIMITED))
            listener_rates = {listener.name: _listener_rate(props, listener.name) for listener in self._config.listeners}
        except (ValueError, ConfigError) as error:
            _log.error("The connection rates were not changed: %s", error)
            return
        self._quotas.connections.set_broker_rate(broker_rate)
        for name, rate in listener_rates.items():
            self._quotas.connections.set_listener_rate(name, rate)


def _listener_rate(props: dict[str, str], listener_name: str) -> int:
    name = f"listener.name.{listener_name.lower()}.{CONNECTION_RATE_CONFIG}"
    text = str(props.get(name, UNLIMITED)).strip()
    if not text.isdecimal() or int(text) == 0:
        raise ConfigError(f"Invalid {name} {text}")
    return int(text)


def _name_of(names: dict[str, str | None], kind: str) -> EntityName:
    if kind not in names:
        return None
    name = names[kind]
    return DEFAULT if name is None else name
