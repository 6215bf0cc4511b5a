"""Settings of a flow's workers and their clients (Connect's `WorkerConfig`, as far as it counts
here).

What connectors copy is written by the worker's producer: the target's `bootstrap.servers` and
`producer.*`, and `producer.override.*` of a connector above them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import ClassVar, Final

from kmirror.admin.admin_client import AdminClient
from kmirror.clients.client_config import ClientConfig, common_config_def
from kmirror.common.abstract_config import AbstractConfig
from kmirror.common.config import ConfigDef, ConfigType, at_least, valid_string
from kmirror.mirrormaker.connector_config import MirrorConnectorConfig, with_prefix
from kmirror.mirrormaker.task_transactions import SUPPORT_CONFIG
from kmirror.mirrormaker.transforms.converters import BYTE_ARRAY_CLASS
from kmirror.runtime.api import Runtime

DEFAULT_API_TIMEOUT_MS: Final = 60_000
PRODUCER_DEFAULTS: Final = {
    "acks": "all",
    "delivery.timeout.ms": str(2**31 - 1),
    "max.block.ms": str(2**63 - 1),
}
"""As Connect's workers have them, but idempotent: a partition's batches may then be in flight side by
side. `enable.idempotence=false` makes it one request at a time."""
GROUP_CONFIGS: Final = (
    "group.id",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "rebalance.timeout.ms",
    "connect.protocol",
    "scheduled.rebalance.max.delay.ms",
    "inter.worker.key.generation.algorithm",
    "inter.worker.key.size",
    "inter.worker.key.ttl.ms",
    "inter.worker.signature.algorithm",
    "inter.worker.verification.algorithms",
)

_log = logging.getLogger(__name__)


def _definition() -> ConfigDef:
    definition = ConfigDef()
    define = definition.define
    define("bootstrap.servers", ConfigType.LIST, "localhost:9092")
    define("offset.storage.topic", ConfigType.STRING)
    define("offset.storage.partitions", ConfigType.INT, "25", validator=at_least(1))
    define("offset.storage.replication.factor", ConfigType.SHORT, "3")
    define("config.storage.topic", ConfigType.STRING)
    define("config.storage.replication.factor", ConfigType.SHORT, "3")
    define("status.storage.topic", ConfigType.STRING)
    define("status.storage.partitions", ConfigType.INT, "5", validator=at_least(1))
    define("status.storage.replication.factor", ConfigType.SHORT, "3")
    define("offset.flush.interval.ms", ConfigType.LONG, "60000", validator=at_least(1))
    define("offset.flush.timeout.ms", ConfigType.LONG, "5000", validator=at_least(0))
    define("group.id", ConfigType.STRING)
    define("topic.creation.enable", ConfigType.BOOLEAN, "true")
    define(SUPPORT_CONFIG, ConfigType.STRING, "disabled", validator=valid_string("disabled", "preparing", "enabled", ignore_case=True))
    return definition


class WorkerConfig(AbstractConfig):
    """A flow's worker. ConfigError, in Kafka's words, for what is missing or wrong."""

    default_header_converter: ClassVar[str] = BYTE_ARRAY_CLASS

    def __init__(self, props: Mapping[str, str], *, is_sink: bool = False) -> None:
        """`is_sink`: the worker is at the flow's source, and writes to another cluster (MC2)."""
        super().__init__(_definition(), props)
        self.is_sink = is_sink
        self.originals = dict(props)
        self.offset_storage_topic = self.get_string("offset.storage.topic") or ""
        self.offset_storage_partitions = self.get_int("offset.storage.partitions")
        self.offset_storage_replication_factor = self.get_int("offset.storage.replication.factor")
        self.config_storage_topic = self.get_string("config.storage.topic") or ""
        self.config_storage_replication_factor = self.get_int("config.storage.replication.factor")
        self.status_storage_topic = self.get_string("status.storage.topic") or ""
        self.status_storage_partitions = self.get_int("status.storage.partitions")
        self.status_storage_replication_factor = self.get_int("status.storage.replication.factor")
        self.offset_flush_interval_ms = self.get_int("offset.flush.interval.ms")
        self.offset_flush_timeout_ms = self.get_int("offset.flush.timeout.ms")
        self.group_id = self.get_string("group.id") or ""
        self.topic_creation_enable = self.get_bool("topic.creation.enable")
        self.header_converter = props.get("header.converter") or self.default_header_converter
        self.is_exactly_once = not is_sink and (self.get_string(SUPPORT_CONFIG) or "").lower() == "enabled"
        """`preparing` copies at least once: it is for workers that do not know transactions yet. A sink
        does, too: what it has copied stands in another cluster than its records."""

    def client(self, kind: str, client_id: str) -> dict[str, str]:
        """Returns the settings of a `producer`, `consumer` or `admin` of the target."""
        own = with_prefix(self.originals, f"{kind}.")
        return {"bootstrap.servers": ",".join(self.get_list("bootstrap.servers")), "client.id": client_id, **own}

    def connector_client(self, kind: str, client_id: str) -> dict[str, str]:
        """Returns the settings of a client that a connector of this worker has, before its own."""
        return self.client(kind, client_id)

    def group_props(self, client_id: str) -> dict[str, str]:
        """Returns the settings of the worker's membership in its group."""
        own = {name: self.originals[name] for name in GROUP_CONFIGS if name in self.originals}
        return self.client("admin", client_id) | own

    def storage_consumer(self, client_id: str) -> dict[str, str]:
        """Returns the settings of what reads source offsets, or configs. With exactly-once support those
        of aborted transactions never count, whatever the file says: a task would go on behind records
        that the target does not show.
        """
        props = self.client("consumer", client_id)
        if self.is_exactly_once:
            if props.get("isolation.level", "read_committed") != "read_committed":
                _log.warning(
                    "[%s] isolation.level=%s is ignored: this topic is read with read_committed", client_id, props["isolation.level"]
                )
            props["isolation.level"] = "read_committed"
        return props

    def producer_of(self, config: MirrorConnectorConfig, client_id: str) -> dict[str, str]:
        """Returns the settings of the producer that writes what a connector copies."""
        is_sink = self.is_sink or config.is_sink
        own = config.client_config("target", "producer", client_id) if is_sink else self.connector_client("producer", client_id)
        props = PRODUCER_DEFAULTS | own | with_prefix(config.originals, "producer.override.")
        if props.get("enable.idempotence", "").strip().lower() == "false":
            props.setdefault("max.in.flight.requests.per.connection", "1")
        return props


def open_admin(runtime: Runtime, props: Mapping[str, str]) -> AdminClient:
    """Returns an admin client; ConfigError for wrong settings."""
    definition = common_config_def()
    definition.define("default.api.timeout.ms", ConfigType.INT, DEFAULT_API_TIMEOUT_MS, validator=at_least(0))
    config = ClientConfig(definition, props, runtime)
    return AdminClient(
        runtime,
        config.bootstrap_servers,
        client_id=config.client_id or "adminclient",
        timeout_ms=config.get_int("default.api.timeout.ms"),
        security=config.security,
    )


async def kafka_cluster_id(runtime: Runtime, props: Mapping[str, str]) -> str:
    """Returns the id of the cluster that these settings of an admin client lead to; empty if it has none."""
    admin = open_admin(runtime, props)
    try:
        return (await admin.describe_cluster()).cluster_id or ""
    finally:
        admin.close()
