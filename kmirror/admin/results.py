"""Results and options of `AdminClient`, named as in Kafka's admin package and the KIP (E6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from kmirror.common.errors import ApiException
from kmirror.common.uuid import Uuid


class ConfigResourceType(IntEnum):
    """`ConfigResource.Type`, with the KIP's MIRROR."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
    MIRROR = 64


class ConfigOperation(IntEnum):
    """`AlterConfigOp.OpType`."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigSource(IntEnum):
    """`ConfigEntry.ConfigSource`, by the numbers of the wire."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A place where a configuration has a value, the one in force first."""

    name: str
    value: str | None
    source: int


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One described configuration; the value of a sensitive one is None."""

    name: str
    value: str | None
    source: int
    is_sensitive: bool = False
    is_read_only: bool = False
    is_default: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str | None
    controller_id: int
    nodes: list[Node]
    fenced: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    elr: list[int] | None = None
    last_known_elr: list[int] | None = None


@dataclass(frozen=True, slots=True)
class TopicDescription:
    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: list[PartitionDescription]


@dataclass(frozen=True, slots=True)
class TopicListing:
    name: str
    topic_id: Uuid
    is_internal: bool


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """The number of partitions that a topic is to have; `new_assignments` are the replicas of each
    new one.
    """

    total_count: int
    new_assignments: list[list[int]] | None = None


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 is the broker's default.

    `mirror_topic_id`: create it as a mirror of the source's topic with that id.
    """

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    configs: dict[str, str] = field(default_factory=dict)
    replicas_assignments: dict[int, list[int]] | None = None
    mirror_topic_id: Uuid | None = None


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """Options of every call: the time until it fails with REQUEST_TIMED_OUT (None: the client's
    default).
    """

    timeout_ms: int | None = None


class CreateMirrorOptions(RequestOptions):
    """Options of `create_mirror`."""


class AddTopicsToMirrorOptions(RequestOptions):
    """Options of `add_topics_to_mirror`."""


class RemoveTopicsFromMirrorOptions(RequestOptions):
    """Options of `remove_topics_from_mirror`."""


class PauseMirrorTopicsOptions(RequestOptions):
    """Options of `pause_mirror_topics`."""


class ResumeMirrorTopicsOptions(RequestOptions):
    """Options of `resume_mirror_topics`."""


class DeleteMirrorOptions(RequestOptions):
    """Options of `delete_mirror`."""


class ListMirrorsOptions(RequestOptions):
    """Options of `list_mirrors`."""


@dataclass(frozen=True, slots=True)
class DescribeMirrorsOptions(RequestOptions):
    """Options of `describe_mirrors`; the flag is sent and ignored by brokers (B24)."""

    include_authorized_operations: bool = False


@dataclass(frozen=True, slots=True)
class TopicResults:
    """One outcome per topic: None, or why it failed.

    A failure of the whole request is raised instead.
    """

    errors: dict[str, ApiException | None]

    @property
    def failed(self) -> dict[str, ApiException]:
        return {topic: error for topic, error in self.errors.items() if error is not None}

    @property
    def succeeded(self) -> list[str]:
        return [topic for topic, error in self.errors.items() if error is None]

    def all(self) -> None:
        """Raises the first failure, if there is one."""
        for error in self.errors.values():
            if error is not None:
                raise error


class AddTopicsToMirrorResult(TopicResults):
    """Result of `add_topics_to_mirror`."""


class RemoveTopicsFromMirrorResult(TopicResults):
    """Result of `remove_topics_from_mirror`."""


class PauseMirrorTopicsResult(TopicResults):
    """Result of `pause_mirror_topics`."""


class ResumeMirrorTopicsResult(TopicResults):
    """Result of `resume_mirror_topics`."""


@dataclass(frozen=True, slots=True)
class MirrorListing:
    """One mirror as any broker lists it; the cluster id is "" until it is known."""

    mirror_name: str
    source_bootstrap: str
    source_cluster_id: str
    topic_count: int


@dataclass(frozen=True, slots=True)
class MirrorPartitionDescription:
    """One mirrored partition as its leader describes it; -1 is unknown."""

    topic: str
    partition: int
    source_offset: int
    destination_offset: int
    lag: int
    state: str
    last_mirror_epoch: int
    reason: str | None = None
    """Why it does not move, and what to do, if a kmirror broker says so."""
    last_known_lag: int = -1
    """The last lag that the source told; `lag` is -1 when that is too old to rely on."""
    lag_age_ms: int = -1
    """How long ago `last_known_lag` was told, in ms."""


@dataclass(frozen=True, slots=True)
class MirrorDescription:
    """One mirror, merged over all brokers; partitions sorted by topic and number."""

    mirror_name: str
    partitions: list[MirrorPartitionDescription]
