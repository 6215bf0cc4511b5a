"""Which state a write follows on, and in which leader epoch its sender leads: between kmirror's
brokers.

A WriteMirrorStates that was given up may be carried out when the partition has moved on, and
nothing in the KIP's fields says how old it is. So ReadMirrorStates' answer tells of each partition
the offset of the last record that changed anything about it, a write tells the offset that its
sender knew, and its answer the one that is stored now. A coordinator that stored another record
since refuses the write, unless there is nothing left to do for it (`mirror_coordinator_shard`).

A leader that was deposed and does not know it yet may know the newest record all the same: the next
leader writes none while it finds MIRRORING or PAUSED (D3-27, D3-30). So a write also tells the
epoch in which its sender leads the partition, and is refused where metadata has a later one
(D3-26).

The KIP's schemas have no such fields. They travel as tagged fields that they do not define, which
Kafka's readers skip; where one is missing nothing is compared.
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
    """What a tag section tells; NOT_TOLD where it tells nothing that can be read."""
    return _told(fields, STATE_OFFSET_TAG, _OFFSET, NOT_TOLD)


def leader_epoch_tag(epoch: int) -> TaggedFields:
    """To be appended to `state_offset_tag`; empty for ANY_LEADER_EPOCH."""
    return () if epoch == ANY_LEADER_EPOCH else ((LEADER_EPOCH_TAG, _EPOCH.pack(epoch)),)


def leader_epoch_of(fields: TaggedFields) -> int:
    """The sender's leader epoch; ANY_LEADER_EPOCH where a tag section tells none that can be read."""
    return _told(fields, LEADER_EPOCH_TAG, _EPOCH, ANY_LEADER_EPOCH)


def _told(fields: TaggedFields, wanted: int, layout: Struct, otherwise: int) -> int:
    for tag, value in fields:
        if tag == wanted and len(value) == layout.size:
            number: int = layout.unpack(value)[0]
            return number
    return otherwise
