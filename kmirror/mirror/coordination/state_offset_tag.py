"""Tagged fields between kmirror's brokers: which record a write follows, and in which leader epoch
its sender leads the partition.

A WriteMirrorStates whose sender gave up on it may be carried out after the partition has moved on,
and nothing in the KIP's fields says how old it is. So the answer to ReadMirrorStates gives each
partition the offset of the last record that changed anything about it, a write names the offset
that its sender knew, and its answer gives the one that is stored now. A coordinator that has stored
another record since refuses the write, unless there is nothing left to do for it
(`mirror_coordinator_shard`).

A leader that was deposed without knowing it may still know the newest record, because the next
leader writes none when it finds MIRRORING or PAUSED (D3-27, D3-30). So a write also carries the
epoch in which its sender leads the partition, and is refused if metadata has a later one (D3-26).

The KIP's schemas have no such fields. They travel as tagged fields that the schemas do not define,
which Kafka's readers skip. If one is missing, nothing is compared.
"""

from __future__ import annotations

from struct import Struct

from kmirror.wire.primitives import TaggedFields

NOTHING_STORED = -1
NOT_TOLD = -2

ANY_LEADER_EPOCH = -1

STATE_OFFSET_TAG = 1279
LEADER_EPOCH_TAG = 1280
_OFFSET = Struct(">q")
_EPOCH = Struct(">i")


def state_offset_tag(offset: int) -> TaggedFields:
    """The tag section of a partition; empty for NOT_TOLD."""
    return () if offset == NOT_TOLD else ((STATE_OFFSET_TAG, _OFFSET.pack(offset)),)


def state_offset_of(fields: TaggedFields) -> int:
    """The offset in a tag section; NOT_TOLD if it has none that can be read."""
    return _told(fields, STATE_OFFSET_TAG, _OFFSET, NOT_TOLD)


def leader_epoch_tag(epoch: int) -> TaggedFields:
    """The tag to append to `state_offset_tag`; empty for ANY_LEADER_EPOCH."""
    return () if epoch == ANY_LEADER_EPOCH else ((LEADER_EPOCH_TAG, _EPOCH.pack(epoch)),)


def leader_epoch_of(fields: TaggedFields) -> int:
    """The sender's leader epoch; ANY_LEADER_EPOCH if the tag section has none that can be read."""
    return _told(fields, LEADER_EPOCH_TAG, _EPOCH, ANY_LEADER_EPOCH)


def _told(fields: TaggedFields, wanted: int, layout: Struct, otherwise: int) -> int:
    for tag, value in fields:
        if tag == wanted and len(value) == layout.size:
            number: int = layout.unpack(value)[0]
            return number
    return otherwise
