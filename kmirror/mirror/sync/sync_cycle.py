"""One cycle of one mirror's metadata sync: what its steps are given, and how they say what failed.

    MetadataRefreshError            cluster id, topics, leaders, partition counts        MET12
    TopicConfigMetadataSyncError    topic configs                                        MET13
    ConsumerGroupOffsetSyncError    offsets of groups, share groups included             MET14
    AclSyncError                    access rules                                         MET15

A gauge grows by one for a cycle in which something of it failed, however much that was (C37). A
step that fails does not keep the others from running. What the source has no API for is no failure:
the mirror of an old source does without (UPG6).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from kmirror.metadata.image import MetadataImage
from kmirror.metadata.mirror_names import association_of
from kmirror.mirror.source.mirror import Mirror
from kmirror.mirror.source.source_cluster import SourceCluster, SourceMetadata


@dataclass(slots=True)
class SyncErrors:
    """In how many cycles of a mirror each gauge's steps failed so far."""

    metadata_refresh: int = 0
    topic_config: int = 0
    group_offset: int = 0
    acl: int = 0

    def count(self, gauges: Iterable[SyncGauge]) -> None:
        """One cycle in which these had a failure."""
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
    """The connections over which its cluster id was compared.

    The mirror has others as soon as its configs change, maybe to another cluster: those are for the
    next cycle, after a comparison of its own (C13).
    """
    metadata: SourceMetadata
    topics: list[str]
    """Active topics (neither paused nor removed) that the source has, with our topic id where it
    has ids; sorted.
    """
    idle_topics: list[str]
    """Paused and removed ones: nothing of theirs is synced (SYN18, B48)."""


def is_active(image: MetadataImage, mirror_name: str, topic: str) -> bool:
    """Whether the topic is in the mirror, neither paused nor removed.

    The source may answer late: a step looks again before it changes what this cluster's operators
    may have in their hands since (SYN18).
    """
    association = association_of(image.configs.topic(topic))
    return association is not None and association.mirror_name == mirror_name and association.active


class SyncStep(Protocol):
    """A part of the cycle that only the mirror's sync owner runs."""

    @property
    def gauge(self) -> SyncGauge: ...

    async def sync(self, cycle: SyncCycle) -> Sequence[str]:
        """Do it, and tell what of it failed, in words.

        May raise KmirrorError or ApiException when nothing of it could be done,
        UnsupportedVersionError when the source cannot do it.
        """
        ...

    def forget(self, mirror_name: str) -> None:
        """The mirror is gone, or another broker's: drop what is remembered of it."""
        ...
