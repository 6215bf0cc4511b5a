"""Topic names that differ only in `.` and `_`, which collide in metrics names: a second one is
refused (Kafka's `topicsWithCollisionChars`).

The index follows the image's changes, so that creating a topic does not look at all names.
"""

from __future__ import annotations

from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import MetadataImage
from kmirror.metadata.loader import LoaderManifest


class TopicNameCollisions:
    """A `MetadataPublisher` of the controller's own loader."""

    name = "TopicNameCollisions"

    def __init__(self) -> None:
        self._names: dict[str, dict[str, None]] = {}

    def on_metadata_update(self, delta: MetadataDelta, image: MetadataImage, manifest: LoaderManifest | None) -> None:
        for name in delta.topics.deleted_ids.values():
            alike = self._names.get(_unified(name), {})
            alike.pop(name, None)
            if not alike:
                self._names.pop(_unified(name), None)
        for name in delta.topics.created:
            if _may_collide(name):
                self._names.setdefault(_unified(name), {})[name] = None

    def other_than(self, name: str) -> str | None:
        """Returns a topic whose name collides with this one, or None."""
        if not _may_collide(name):
            return None
        return next((other for other in self._names.get(_unified(name), ()) if other != name), None)


def _may_collide(name: str) -> bool:
    return "." in name or "_" in name


def _unified(name: str) -> str:
    return name.replace(".", "_")
