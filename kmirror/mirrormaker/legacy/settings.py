"""What a MirrorMaker is told, and the properties that it sets so that nothing is lost.

A property that a file sets itself is left alone, whatever it means for the data; Kafka only says so
in its log, and so do we.

What only Java can load is refused if records would go elsewhere without it (`partitioner.class`);
other properties that no client here knows are told by `tell_unknown`, as Kafka tells them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kmirror.clients.client_config import ClientConfig
from kmirror.clients.consumer.consumer_types import ConsumerRebalanceListener
from kmirror.common.errors import ConfigError
from kmirror.common.java_patterns import compile_pattern
from kmirror.mirrormaker.legacy.message_handler import DefaultMirrorMakerMessageHandler, MirrorMakerMessageHandler
from kmirror.mirrormaker.recreated_topics import OFFSET, RECREATED_POLICY_CONFIG, STOP, recreated_policy

NO_LOSS_PRODUCER: Final = {
    "delivery.timeout.ms": str(2**31 - 1),
    "max.block.ms": str(2**63 - 1),
    "acks": "all",
    "max.in.flight.requests.per.connection": "1",
}
NO_LOSS_CONSUMER: Final = {"enable.auto.commit": "false"}
SERIALIZERS: Final = ("key.serializer", "value.serializer")
DESERIALIZERS: Final = ("key.deserializer", "value.deserializer")
PRODUCER_TYPE: Final = "producer.type"
PARTITIONER: Final = "partitioner.class"
BUILT_IN_PARTITIONER: Final = "org.apache.kafka.clients.producer.internals.DefaultPartitioner"
"""Kafka 3.9 has it as a deprecated class; it is what a producer does without one.
"""
DEFAULT_COMMIT_INTERVAL_MS: Final = 60_000
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MirrorMakerSettings:
    """`include` matches whole names of topics. The properties are those of the two files."""

    consumer_properties: Mapping[str, str]
    producer_properties: Mapping[str, str]
    include: re.Pattern[str]
    num_streams: int = 1
    offset_commit_interval_ms: int = DEFAULT_COMMIT_INTERVAL_MS
    abort_on_send_failure: bool = True
    message_handler: MirrorMakerMessageHandler = field(default_factory=DefaultMirrorMakerMessageHandler)
    rebalance_listener: ConsumerRebalanceListener | None = None

    @property
    def is_sync(self) -> bool:
        """producer.type=sync: each send is awaited before the next record."""
        return self.producer_properties.get(PRODUCER_TYPE, "async") == "sync"

    @property
    def stops_at_topics_made_anew(self) -> bool:
        """ConfigError for an unknown policy. The tool has no `beginning`: kafka-consumer-groups resets
        a group's offsets."""
        return recreated_policy(self.consumer_properties, (OFFSET, STOP)) == STOP


def producer_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """The file's properties, and those that guard against loss unless the file has others.
    ConfigError for a partitioner of the user's.
    """
    partitioner = properties.get(PARTITIONER)
    if partitioner and partitioner != BUILT_IN_PARTITIONER:
        raise ConfigError(
            f"Invalid value {partitioner} for configuration {PARTITIONER}: classes of Java cannot be loaded; a message handler "
            "(--message.handler) can give each record its partition"
        )
    made = with_defaults(properties, NO_LOSS_PRODUCER)
    return {name: value for name, value in made.items() if name not in (PRODUCER_TYPE, PARTITIONER, *SERIALIZERS)}


def consumer_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """As `producer_settings`."""
    made = with_defaults(properties, NO_LOSS_CONSUMER)
    return {name: value for name, value in made.items() if name not in (RECREATED_POLICY_CONFIG, *DESERIALIZERS)}


def with_client_id(properties: Mapping[str, str], stream: int) -> dict[str, str]:
    """One stream's properties: each consumer is named after the group and its number."""
    return {**properties, "client.id": f"{properties.get('group.id', 'null')}-{stream}"}


def with_defaults(properties: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    for name, default in defaults.items():
        value = properties.get(name, default)
        if value != default:
            _log.warning("Property %s is overridden to %s - data loss or message reordering is possible.", name, value)
    return {**defaults, **properties}


def tell_unknown(client: str, config: ClientConfig) -> None:
    """Logs what a file has and no client reads: a misspelt name, or a class of Java's."""
    for name in config.unknown_names:
        _log.warning("Property %s of the %s is unknown and changes nothing.", name, client)


def include_pattern(text: str) -> re.Pattern[str]:
    """Reads --include as Kafka's `IncludeList` does: commas mean "or", blanks and surrounding
    quotes go away. The syntax is Java's. ConfigError if it is no regular expression, or if nothing
    is left: no consumer subscribes to that.
    """
    regex = re.sub(r"[\"']+$", "", re.sub(r"^[\"']+", "", text.strip().replace(",", "|").replace(" ", "")))
    if not regex:
        raise ConfigError(f"Invalid expression syntax: {text}: Topic pattern to subscribe to cannot be empty")
    try:
        return compile_pattern(regex, config="include")
    except ConfigError as error:
        raise ConfigError(f"Invalid expression syntax: {text}: {regex} is an invalid regex. ({error.__cause__})") from error
