"""Which topics belong to which mirror, kept up to date from metadata deltas: the cost of a delta
depends on its changes, not on the number of topics.
"""

from __future__ import annotations

from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import RESOURCE_MIRROR, RESOURCE_TOPIC, MetadataImage
from kmirror.metadata.mirror_names import MirrorAssociation, association_of
from kmirror.metadata.resource_configs import SOURCE_CLUSTER_ID_CONFIG

ALL_PARTITIONS = None


class MirroredTopics:
    """The topics with a `mirror.name`, whether or not the mirror exists, and the names of the
    mirrors.
    """

    def __init__(self) -> None:
        self.associations: dict[str, MirrorAssociation] = {}
        self.mirror_names: set[str] = set()
        self._topics: dict[str, dict[str, None]] = {}

    def topics_of(self, mirror_name: str) -> list[str]:
        """Topics whose `mirror.name` names this mirror, with or without a suffix, sorted."""
        return sorted(self._topics.get(mirror_name, ()))

    def load(self, image: MetadataImage) -> dict[str, set[int] | None]:
        """Takes everything from `image`; returns all mirrored topics."""
        self.mirror_names = set(image.configs.mirror_names())
        names = {resource.name for resource in image.configs.resources if resource.type == RESOURCE_TOPIC}
        for name in names | set(self.associations):
            self._take(name, image)
        return dict.fromkeys(self.associations, ALL_PARTITIONS)

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> dict[str, set[int] | None]:
        """Takes what the delta changed.

        Returns the mirrored topics (before or after) that it touched, and which of their partitions
        (None: all).
        """
        touched: dict[str, set[int] | None] = {}
        for resource in delta.configs.changed:
            if resource.type == RESOURCE_MIRROR:
                self._take_mirror(resource.name, image, touched)
            elif resource.type == RESOURCE_TOPIC and self._take(resource.name, image):
                touched[resource.name] = ALL_PARTITIONS
        for topic in delta.topics.deleted_ids.values():
            if topic in self.associations or topic in touched:
                self._take(topic, image)
                touched[topic] = ALL_PARTITIONS
        for changed in delta.topics.changed.values():
            if changed.name in self.associations and touched.get(changed.name, set()) is not ALL_PARTITIONS:
                numbers = touched.setdefault(changed.name, set())
                assert numbers is not None
                numbers.update(changed.partition_changes)
        return touched

    def recreated(self, delta: MetadataDelta, image: MetadataImage) -> set[str]:
        """Mirrors that existed before and exist now, but were deleted and created again within one
        delta. A snapshot shows no deletions; there, a mirror whose stored source cluster id changed
        or is gone counts as a new one.
        """
        found = set()
        for resource in delta.configs.changed:
            if resource.type != RESOURCE_MIRROR or resource.name not in self.mirror_names:
                continue
            before, after = (of.configs.mirror(resource.name) for of in (delta.image, image))
            if after:
                source_id = before.get(SOURCE_CLUSTER_ID_CONFIG)
                is_another = source_id is not None and after.get(SOURCE_CLUSTER_ID_CONFIG) != source_id
                if is_another or resource in delta.configs.emptied:
                    found.add(resource.name)
        return found

    def _take_mirror(self, mirror_name: str, image: MetadataImage, touched: dict[str, set[int] | None]) -> None:
        exists = bool(image.configs.mirror(mirror_name))
        if exists == (mirror_name in self.mirror_names):
            return
        if exists:
            self.mirror_names.add(mirror_name)
        else:
            self.mirror_names.discard(mirror_name)
        touched.update(dict.fromkeys(self._topics.get(mirror_name, ()), ALL_PARTITIONS))

    def _take(self, topic: str, image: MetadataImage) -> bool:
        """Takes one topic; returns whether it is or was mirrored."""
        before = self.associations.get(topic)
        after = association_of(image.configs.topic(topic)) if image.topics.topic(topic) is not None else None
        if before is not None and (after is None or after.mirror_name != before.mirror_name):
            self._drop(topic, before.mirror_name)
        if after is not None:
            self.associations[topic] = after
            self._topics.setdefault(after.mirror_name, {})[topic] = None
        return before is not None or after is not None

    def _drop(self, topic: str, mirror_name: str) -> None:
        del self.associations[topic]
        topics = self._topics[mirror_name]
        del topics[topic]
        if not topics:
            del self._topics[mirror_name]

    def active_count(self, mirror_name: str) -> int:
        """The number of topics with `X` or `X.paused` (RS4)."""
        return sum(1 for topic in self._topics.get(mirror_name, ()) if not self.associations[topic].removed)
