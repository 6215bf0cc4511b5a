"""One cycle of one mirror's metadata sync: what its steps are given, and how they report failures.

    MetadataRefreshError            cluster id, topics, leaders, partition counts        MET12
    TopicConfigMetadataSyncError    topic configs                                        MET13
    ConsumerGroupOffsetSyncError    offsets of groups, share groups included             MET14
    AclSyncError                    access rules                                         MET15

A gauge grows by one for each cycle with any failure of its kind, however many there were (C37). A
failed step does not keep the others from running. A missing API at the source is no failure: the
mirror of an old source does without it (UPG6).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from kmirror.common.errors import Errors
from kmirror.metadata.image import MetadataImage
from kmirror.metadata.mirror_names import association_of
from kmirror.mirror.source.mirror import Mirror
from kmirror.mirror.source.source_cluster import SourceCluster, SourceMetadata


@dataclass(slots=True)
class SyncErrors:
    """Owns the counts: in how many cycles each gauge's steps have failed so far, over all
    mirrors.
    """

    metadata_refresh: int = 0
    topic_config: int = 0
    group_offset: int = 0
    acl: int = 0

    def count(self, gauges: Iterable[SyncGauge]) -> None:
        """Counts one cycle in which these gauges had a failure."""
        for gauge in gauges:
            setattr(self, gauge.value, getattr(self, gauge.value) + 1)


class SyncGauge(Enum):
    """The fields of `SyncErrors`."""

    METADATA_REFRESH = "metadata_refresh"
    TOPIC_CONFIG = "topic_config"
    GROUP_OFFSET = "group_offset"
    ACL = "acl"


@dataclass(frozen=True, slots=True)
class SyncCycle:
    """What a step may rely on: the source is the one that the mirror belongs to."""

    mirror: Mirror
    source: SourceCluster
    """The connections over which the source's cluster id was compared. When the mirror's configs
    change, it gets new connections, maybe to another cluster: those are for the next cycle, which
    compares the id again (C13).
    """
    metadata: SourceMetadata
    topics: list[str]
    """Active topics (neither paused nor removed) that the source has, with our topic id where it
    has ids; sorted.
    """
    idle_topics: list[str]
    """Paused and removed topics, for which nothing is synced (SYN18, B48)."""


def is_active(image: MetadataImage, mirror_name: str, topic: str) -> bool:
    """Whether the topic is in the mirror, neither paused nor removed.

    The source may answer late: a step checks this again before it changes a topic that this
    cluster's operators may control by now (SYN18).
    """
    association = association_of(image.configs.topic(topic))
    return association is not None and association.mirror_name == mirror_name and association.active


def is_same_topic(image: MetadataImage, name: str, metadata: SourceMetadata) -> bool:
    """Whether the source has the topic, with our id if it has ids: another topic of that name is
    not ours (D3-16).
    """
    found, local = metadata.topics.get(name), image.topics.topic(name)
    if found is None or local is None or found.error is not Errors.NONE:
        return False
    return not found.topic_id or found.topic_id == local.id


class SyncStep(Protocol):
    """A part of the cycle that only the mirror's sync owner runs."""

    @property
    def gauge(self) -> SyncGauge: ...

    async def sync(self, cycle: SyncCycle) -> Sequence[str]:
        """Does the step, and returns its failures as texts. May raise KmirrorError or ApiException
        if nothing could be done, and UnsupportedVersionError if the source does not support it.
        """
        ...

    def forget(self, mirror_name: str) -> None:
        """Drops what is remembered about a mirror that is gone, or that another broker
        syncs now.
        """
        ...
