"""The consumer's configuration: Kafka's `ConsumerConfig`, with its defaults and error texts.

Keys and values are bytes here, so deserializers are not configured; the names are accepted and
listed among `unknown_names`, as every name that no key has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kmirror.clients.client_config import ClientConfig, common_config_def
from kmirror.clients.consumer.auto_offset_reset_strategy import AutoOffsetResetStrategy, check_auto_offset_reset
from kmirror.clients.consumer.partition_assignor import ConsumerPartitionAssignor, RebalanceProtocol
from kmirror.clients.consumer.range_assignor import RangeAssignor
from kmirror.clients.consumer.round_robin_assignor import RoundRobinAssignor
from kmirror.clients.consumer.sticky_assignor import CooperativeStickyAssignor, StickyAssignor
from kmirror.common.config import ConfigDef, ConfigType, at_least, non_empty_string, valid_list, valid_string
from kmirror.common.errors import ConfigError
from kmirror.common.sentinels import READ_COMMITTED, READ_UNCOMMITTED
from kmirror.runtime.api import Runtime

_PACKAGE: Final = "org.apache.kafka.clients.consumer."
ASSIGNORS: Final[dict[str, Callable[[], ConsumerPartitionAssignor]]] = {
    "RangeAssignor": RangeAssignor,
    "RoundRobinAssignor": RoundRobinAssignor,
    "StickyAssignor": StickyAssignor,
    "CooperativeStickyAssignor": CooperativeStickyAssignor,
}
"""By the simple name of Kafka's class; `partition.assignment.strategy` takes that, the full name,
and the strategy's own name."""
ONLY_CLASSIC: Final = ("partition.assignment.strategy", "heartbeat.interval.ms", "session.timeout.ms")
ONLY_CONSUMER: Final = ("group.remote.assignor",)


def consumer_config_def() -> ConfigDef:
    """All keys. Times are ms, sizes bytes."""
    definition = common_config_def(receive_buffer_bytes=65_536)
    define = definition.define
    define("group.id", ConfigType.STRING, None)
    define("group.instance.id", ConfigType.STRING, None, validator=non_empty_string)
    define("group.protocol", ConfigType.STRING, "classic", validator=valid_string("CONSUMER", "CLASSIC", ignore_case=True))
    define("group.remote.assignor", ConfigType.STRING, None)
    define("session.timeout.ms", ConfigType.INT, 45_000)
    define("heartbeat.interval.ms", ConfigType.INT, 3_000)
    define("max.poll.interval.ms", ConfigType.INT, 300_000, validator=at_least(1))
    define("max.poll.records", ConfigType.INT, 500, validator=at_least(1))
    define(
        "partition.assignment.strategy",
        ConfigType.LIST,
        f"{_PACKAGE}RangeAssignor,{_PACKAGE}CooperativeStickyAssignor",
        validator=valid_list(duplicates_allowed=True),
    )
    define("enable.auto.commit", ConfigType.BOOLEAN, default=True)
    define("auto.commit.interval.ms", ConfigType.INT, 5_000, validator=at_least(0))
    define("auto.offset.reset", ConfigType.STRING, "latest", validator=check_auto_offset_reset)
    define("client.rack", ConfigType.STRING, "")
    define("fetch.min.bytes", ConfigType.INT, 1, validator=at_least(0))
    define("fetch.max.bytes", ConfigType.INT, 50 * 1024 * 1024, validator=at_least(0))
    define("fetch.max.wait.ms", ConfigType.INT, 500, validator=at_least(0))
    define("max.partition.fetch.bytes", ConfigType.INT, 1024 * 1024, validator=at_least(0))
    define("check.crcs", ConfigType.BOOLEAN, default=True)
    define("isolation.level", ConfigType.STRING, "read_uncommitted", validator=valid_string("read_committed", "read_uncommitted"))
    define("exclude.internal.topics", ConfigType.BOOLEAN, default=True)
    define("allow.auto.create.topics", ConfigType.BOOLEAN, default=True)
    define("default.api.timeout.ms", ConfigType.INT, 60_000, validator=at_least(0))
    define("internal.leave.group.on.close", ConfigType.BOOLEAN, default=True, internal=True)
    return definition


class ConsumerConfig(ClientConfig):
    """One consumer's checked settings. ConfigError with Kafka's text for the first wrong one."""

    def __init__(self, props: Mapping[str, Any], runtime: Runtime) -> None:
        super().__init__(consumer_config_def(), props, runtime)
        self.group_id = self.get_string("group.id")
        self.group_instance_id = self.get_string("group.instance.id")
        self.uses_consumer_protocol = (self.get_string("group.protocol") or "").lower() == "consumer"
        unsupported = [name for name in (ONLY_CLASSIC if self.uses_consumer_protocol else ONLY_CONSUMER) if props.get(name) is not None]
        if unsupported:
            protocol = "CONSUMER" if self.uses_consumer_protocol else "CLASSIC"
            raise ConfigError(f"{', '.join(unsupported)} cannot be set when group.protocol={protocol}")
        self.enable_auto_commit = self.get_bool("enable.auto.commit")
        if self.group_id is None:
            if "enable.auto.commit" in props and self.enable_auto_commit:
                raise ConfigError("enable.auto.commit cannot be set to true when default group id (null) is used.")
            self.enable_auto_commit = False
        self.auto_offset_reset = AutoOffsetResetStrategy.from_string(self.get_string("auto.offset.reset") or "")
        self.read_committed = self.get_string("isolation.level") == "read_committed"
        self.isolation_level = READ_COMMITTED if self.read_committed else READ_UNCOMMITTED
        self.assignors = [assignor_of(name) for name in dict.fromkeys(self.get_list("partition.assignment.strategy"))]
        self.rebalance_protocol = common_protocol(self.assignors)
        if self.get_int("heartbeat.interval.ms") >= self.get_int("session.timeout.ms"):
            raise ConfigError("Heartbeat must be set lower than the session timeout")


def assignor_of(name: str) -> ConsumerPartitionAssignor:
    """The assignor that a value of partition.assignment.strategy names."""
    simple = name.removeprefix(_PACKAGE)
    for class_name, make in ASSIGNORS.items():
        assignor = make()
        if simple in (class_name, assignor.name):
            return assignor
    known = ", ".join(_PACKAGE + class_name for class_name in ASSIGNORS)
    raise ConfigError(f"Invalid value {name} for configuration partition.assignment.strategy: class not found; known are {known}")


def common_protocol(assignors: list[ConsumerPartitionAssignor]) -> RebalanceProtocol:
    """The highest protocol that all assignors support."""
    common = [protocol for protocol in RebalanceProtocol if all(protocol in one.supported_protocols for one in assignors)]
    if not common:
        raise ConfigError("Specified assignors do not have commonly supported rebalance protocol")
    return common[-1]
