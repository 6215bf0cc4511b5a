"""The grammar of a driver's file, mm2.properties (Kafka's `MirrorMakerConfig`).

    clusters = A, B                          the aliases; required (DG1)
    A.bootstrap.servers = a:9092             `<alias>.x`: the cluster's clients and workers (DG2)
    A->B.enabled = true                      `<source>-><target>.x`: every connector of the flow (DG3)
    topics = orders.*                        anything else: a default for all flows (DG4)

What a connector gets, from weak to strong (DG6): defined properties of the top level; those of both
clusters, under `source.cluster.` and `target.cluster.`, or under `source.consumer.` and the like for
settings of one kind of client; what the flow says.

The clients' security follows from where its settings stand. `A.security.protocol` becomes
`source.cluster.` and also `source.producer.`, `source.consumer.` and `source.admin.security.protocol`
(DG7), and the latter are the strongest of a client. So a cluster's setting beats a flow's
`source.cluster.security.protocol`, and only a flow's `source.consumer.security.protocol` (and so on)
beats the cluster's. A flow's bare `A->B.security.protocol` reaches no client at all. A top-level
`security.protocol` is every cluster's default.

`A->B.connector.class = MirrorSinkConnector` swaps the roles of a flow's clusters (MC2): its workers
are at A, and so are their group and topics; records go to B all the same.

`transforms.` and `predicates.` count at the top level, too; Apache takes only the lists of aliases from
there, and then refuses them.

Two of Kafka's habits are kept. A flow is enabled by exactly `true`, in any case: blanks behind it
switch it off, without a word. Old names are the exception to "as Kafka does": here they count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from kmirror.common.abstract_config import AbstractConfig
from kmirror.common.config import NO_DEFAULT, ConfigDef, ConfigType, Importance, parse_value, valid_list
from kmirror.common.errors import ConfigError
from kmirror.mirrormaker.client_configs import CLIENT_CONFIG_NAMES, define_security, shown
from kmirror.mirrormaker.connector_config import CLIENT_KINDS, CONNECTORS, KAFKA_4, PACKAGE, connector_config_def, with_prefix
from kmirror.mirrormaker.cycles import SourceAndTarget
from kmirror.mirrormaker.file_warnings import file_warnings
from kmirror.mirrormaker.property_names import current_names
from kmirror.mirrormaker.recreated_topics import RECREATED_POLICY_CONFIG
from kmirror.mirrormaker.rest.rest_config import define_internal

CLUSTERS_CONFIG: Final = "clusters"
ENABLE_INTERNAL_REST_CONFIG: Final = "dedicated.mode.enable.internal.rest"
CONFIG_PROVIDERS_CONFIG: Final = "config.providers"
EMIT_HEARTBEATS_ENABLED_CONFIG: Final = "emit.heartbeats.enabled"
CONNECTOR_CLASS_CONFIG: Final = "connector.class"
SOURCE_CONNECTOR, SINK_CONNECTOR = "MirrorSourceConnector", "MirrorSinkConnector"
BYTE_ARRAY_CONVERTER: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
WORKER_PREFIXES: Final = (
    "offset.storage", "config.storage", "status.storage", "key.converter", "value.converter", "header.converter", "task", "worker",
    "replication.policy",
)  # fmt: skip
"""Top-level properties that go to workers (DG9)."""
_OF_A_CLIENT: Final = re.compile(r"consumer.*|producer.*|admin.*")

Transform = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Replaces `${provider:path:key}` (`network.config_providers`)."""


def _definition() -> ConfigDef:
    definition = ConfigDef()
    definition.define(
        CLUSTERS_CONFIG, ConfigType.LIST, NO_DEFAULT, "Aliases of the clusters.",
        validator=valid_list(duplicates_allowed=True), importance=Importance.HIGH,
    )  # fmt: skip
    definition.define(
        ENABLE_INTERNAL_REST_CONFIG, ConfigType.BOOLEAN, "false", "Whether nodes talk to each other, for more than one (DG11).",
        importance=Importance.HIGH,
    )  # fmt: skip
    definition.define(
        CONFIG_PROVIDERS_CONFIG, ConfigType.LIST, "", "Providers of secrets, by the names that references use.",
        validator=valid_list(duplicates_allowed=True),
    )  # fmt: skip
    return define_internal(define_security(definition))


class MirrorMakerConfig(AbstractConfig):
    """A driver's file. ConfigError, in Kafka's words, for what is missing or wrong.

    `raw` has all properties under their current names, values as they were written.
    """

    def __init__(self, props: Mapping[str, str], profile: str = KAFKA_4) -> None:
        clusters = parse_value(CLUSTERS_CONFIG, props.get(CLUSTERS_CONFIG, ""), ConfigType.LIST)
        self.raw = current_names(props, [alias for alias in clusters if alias])
        self.profile = profile
        super().__init__(_definition(), self.raw)
        self.clusters: tuple[str, ...] = tuple(dict.fromkeys(self.get_list(CLUSTERS_CONFIG)))

    def __repr__(self) -> str:
        """Secrets are hidden."""
        return f"MirrorMakerConfig({ {name: shown(name, value) for name, value in self.raw.items()} })"

    @property
    def enable_internal_rest(self) -> bool:
        return self.get_bool(ENABLE_INTERNAL_REST_CONFIG)

    def cluster_pairs(self) -> list[SourceAndTarget]:
        """Returns the flows that have workers: those that are enabled, and those that may emit
        heartbeats (DG5).
        """
        default = _parse_boolean(self.raw.get(EMIT_HEARTBEATS_ENABLED_CONFIG, "true"))
        pairs = []
        for flow in self._ordered_pairs():
            heartbeats = self.raw.get(f"{flow}.{EMIT_HEARTBEATS_ENABLED_CONFIG}")
            if self.is_enabled(flow) or (default if heartbeats is None else _parse_boolean(heartbeats)):
                pairs.append(flow)
        return pairs

    def is_enabled(self, flow: SourceAndTarget) -> bool:
        """Whether the flow copies records."""
        return _parse_boolean(self.raw.get(f"{flow}.enabled", "false"))

    def is_sink(self, flow: SourceAndTarget) -> bool:
        """Whether the flow has MirrorSinkConnector (MC2)."""
        return self.raw.get(f"{flow}.{CONNECTOR_CLASS_CONFIG}", "").strip() in (SINK_CONNECTOR, PACKAGE + SINK_CONNECTOR)

    def workers_cluster(self, flow: SourceAndTarget) -> str:
        """Returns the cluster that has the group and the topics of the flow's workers."""
        return flow.source if self.is_sink(flow) else flow.target

    def pairs_of_node(self, targets: list[str] | None = None) -> list[SourceAndTarget]:
        """Returns the flows of a node with `--clusters targets` (DG12).

        ConfigError if there is none.
        """
        pairs = [flow for flow in self.cluster_pairs() if not targets or self.workers_cluster(flow) in targets]
        if not pairs:
            raise ConfigError("No source->target replication flows.")
        return pairs

    def cluster_props(self, cluster: str) -> dict[str, str]:
        """Returns a cluster's own properties (`<alias>.x`), with its clients' settings repeated for
        each kind of client that has none of its own (DG2, DG7).
        """
        props = with_prefix(self.raw, f"{cluster}.")
        for name in CLIENT_CONFIG_NAMES:
            if name in props:
                for kind in CLIENT_KINDS:
                    props.setdefault(f"{kind}.{name}", props[name])
        for name in CLIENT_CONFIG_NAMES:
            if name in self.raw:
                for kind in CLIENT_KINDS:
                    props.setdefault(f"{kind}.{name}", self.raw[name])
                props.setdefault(name, self.raw[name])
        return props

    def client_config(self, cluster: str, kind: str, transform: Transform = dict) -> dict[str, str]:
        """Returns what a tool needs to reach a cluster (`MirrorClientConfig`)."""
        props = transform(self.raw | self.cluster_props(cluster))
        found = {name: props[name] for name in CLIENT_CONFIG_NAMES if name in props}
        return found | {name: value for name, value in with_prefix(props, f"{kind}.").items() if name in CLIENT_CONFIG_NAMES}

    def worker_config(self, flow: SourceAndTarget, transform: Transform = dict) -> dict[str, str]:
        """Returns the properties of the flow's workers (DG8, DG9), references resolved (DG10)."""
        props = self.cluster_props(self.workers_cluster(flow))
        other, name = (flow.target, "mm2-sink") if self.is_sink(flow) else (flow.source, "mm2")
        for prefix in WORKER_PREFIXES:
            props |= self._starting_with(prefix)
        props = dict(transform(props)) | self._starting_with(CONFIG_PROVIDERS_CONFIG)
        defaults = {"client.id": str(flow), "group.id": f"{other}-{name}"}
        defaults |= {f"{kind}.storage.topic": f"{name}-{what}.{other}.internal" for kind, what in
                     (("offset", "offsets"), ("status", "status"), ("config", "configs"))}  # fmt: skip
        defaults |= {f"{part}.converter": BYTE_ARRAY_CONVERTER for part in ("key", "value", "header")}
        return defaults | props

    def connector_base_config(self, flow: SourceAndTarget, connector: str) -> dict[str, str]:
        """Returns the properties of one of CONNECTORS, references as they are (DG10)."""
        known = names_of_connectors(self.profile)
        props = {name: value for name, value in self.raw.items() if name in known}
        for prefix in (CONFIG_PROVIDERS_CONFIG, "replication.policy", "transforms.", "predicates.", RECREATED_POLICY_CONFIG):
            props |= self._starting_with(prefix)
        for role, cluster in (("source", flow.source), ("target", flow.target)):
            for name, value in self.cluster_props(cluster).items():
                # Kafka takes every name that only begins so for one of a client's: admins.x too.
                prefix = f"{role}." if _OF_A_CLIENT.fullmatch(name) else f"{role}.cluster."
                props[prefix + name] = value
        name = SINK_CONNECTOR if connector == SOURCE_CONNECTOR and self.is_sink(flow) else connector
        defaults = {
            "name": name,
            CONNECTOR_CLASS_CONFIG: PACKAGE + name,
            "source.cluster.alias": flow.source,
            "target.cluster.alias": flow.target,
        }
        own = with_prefix(self.raw, f"{flow}.")
        if self.is_sink(flow):
            own.pop(CONNECTOR_CLASS_CONFIG)  # of one connector, not of all three
        return {"enabled": "false"} | defaults | props | own

    def warnings(self) -> list[str]:
        """Returns what the file says that means nothing, or something else than it seems to."""
        return file_warnings(self.raw, self.clusters, names_of_connectors(self.profile))

    def _ordered_pairs(self) -> list[SourceAndTarget]:
        return [SourceAndTarget(source, target) for source in self.clusters for target in self.clusters if source != target]

    def _starting_with(self, prefix: str) -> dict[str, str]:
        return {name: value for name, value in self.raw.items() if name.startswith(prefix)}


def names_of_connectors(profile: str = KAFKA_4) -> frozenset[str]:
    """Returns what the connectors of a flow define."""
    rows = [connector_config_def(config.connector, profile) for config in CONNECTORS.values()]
    # Only Kafka's filter knows use.defaults.from: at the top level of a file it is lost.
    return frozenset(name for row in rows for name in row.names())


def _parse_boolean(text: str) -> bool:
    """Java's `Boolean.parseBoolean`: anything but `true` is false."""
    return text.lower() == "true"
