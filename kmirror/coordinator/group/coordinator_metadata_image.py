"""What groups need to know about topics, and a hash that shows whether it changed (Kafka's
`CoordinatorMetadataImage`, group `Utils`).

A consumer group keeps a hash of the topics that it subscribes to: ids, names, partition counts and
the racks of replicas. When the hash of the present image differs, the group gets a new epoch. The
hash is Kafka's, bit by bit, so a group that moves between brokers of both kinds is not rebalanced
because of it:

    topic   XXH3-64 of   0x00, id (two int64), text(name), int32 partition count,
                         and for each partition int32 number and, sorted, each replica's rack: int32 length, text(rack)
    group   XXH3-64 of   the topic hashes (int64) in order of the topics' names; 0 without topics
    text    UTF-16 units, then their number as int32; all numbers little-endian
"""

from __future__ import annotations

from collections.abc import Iterable

from kmirror.common.uuid import Uuid
from kmirror.metadata.image import MetadataImage

_TOPIC_HASH_MAGIC = b"\x00"


class CoordinatorMetadataImage:
    """Topics of one metadata image. Hashes are computed once."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._hashes: dict[str, int] = {}

    @property
    def version(self) -> int:
        """The offset of the metadata log that the image belongs to."""
        return self._image.highest_offset

    def topic_names(self) -> Iterable[str]:
        return self._image.topics.by_name

    def topic_id(self, name: str) -> Uuid | None:
        topic = self._image.topics.topic(name)
        return None if topic is None else topic.id

    def topic_name(self, topic_id: Uuid) -> str | None:
        topic = self._image.topics.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def topic_ids(self, names: Iterable[str]) -> tuple[Uuid, ...]:
        """Returns the ids of those of `names` that exist, sorted."""
        found = (self._image.topics.topic(name) for name in names)
        return tuple(sorted({topic.id for topic in found if topic is not None}, key=lambda topic_id: topic_id.raw))

    def partition_count(self, topic_id: Uuid) -> int | None:
        topic = self._image.topics.topic_by_id(topic_id)
        return None if topic is None else len(topic.partitions)

    def topic_hash(self, name: str) -> int | None:
        """Returns the topic's hash as an unsigned number; None if there is no such topic."""
        if name not in self._hashes:
            topic = self._image.topics.topic(name)
            if topic is None:
                return None
            self._hashes[name] = self._compute_topic_hash(name)
        return self._hashes[name]

    def _compute_topic_hash(self, name: str) -> int:
        from xxhash import xxh3_64_intdigest

        topic = self._image.topics.by_name[name]
        most, least = topic.id.raw[:8], topic.id.raw[8:]
        parts = [_TOPIC_HASH_MAGIC, most[::-1], least[::-1], _text(name), _int32(len(topic.partitions))]
        for partition in range(len(topic.partitions)):
            parts.append(_int32(partition))
            for rack in sorted(self._racks(name, partition)):
                parts += [_int32(_utf16_length(rack)), _text(rack)]
        return xxh3_64_intdigest(b"".join(parts))

    def _racks(self, name: str, partition: int) -> list[str]:
        registration = self._image.topics.partition(name, partition)
        brokers = [] if registration is None else [self._image.cluster.broker(replica) for replica in registration.replicas]
        return [broker.rack for broker in brokers if broker is not None and broker.rack is not None]

    def metadata_hash(self, names: Iterable[str]) -> int:
        """Returns the group hash over those of `names` that exist, as the signed number that
        records hold."""
        from xxhash import xxh3_64_intdigest

        hashes = [topic_hash for name in sorted(names, key=_java_order) if (topic_hash := self.topic_hash(name)) is not None]
        if not hashes:
            return 0
        digest = xxh3_64_intdigest(b"".join(topic_hash.to_bytes(8, "little") for topic_hash in hashes))
        return digest - (1 << 64) if digest >= 1 << 63 else digest


EMPTY_IMAGE = CoordinatorMetadataImage(MetadataImage.EMPTY)


def _int32(number: int) -> bytes:
    return number.to_bytes(4, "little", signed=True)


def _utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _text(text: str) -> bytes:
    return text.encode("utf-16-le") + _int32(_utf16_length(text))


def _java_order(text: str) -> bytes:
    """Sort key for text by UTF-16 units, the order of Java's string comparison."""
    return text.encode("utf-16-be")
