"""Which state a write follows on, and in which leader epoch its sender leads: between kmirror's brokers.

A WriteMirrorStates that was given up may be carried out when the partition has moved on, and nothing in the KIP's fields says how old it is.
So ReadMirrorStates' answer tells of each partition the offset of the last record that changed anything about it, a write tells the
offset that its sender knew, and its answer the one that is stored now. A coordinator that stored another record since refuses the
write, unless there is nothing left to do for it (`mirror_coordinator_shard`).

A leader that was deposed and does not know it yet may know the newest record all the same: the next leader writes none while it finds
MIRRORING or PAUSED (D3-27, D3-30). So a write also tells the epoch in which its sender leads the partition, and is refused where metadata has a
later one (D3-26).

The KIP's schemas have no such fields. They travel as tagged fields that they do not define, which Kafka's readers skip; where one is
missing nothing is compared.
"""

from __future__ import annotations

from kmirror.wire.primitives import TaggedFields

NOTHING_STORED = -1
NOT_TOLD = -2

ANY_LEADER_EPOCH = -1

STATE_OFFSET_TAG = 1279
_SIZE_BYTES = 8
LEADER_EPOCH_TAG = 1280
_EPOCH_SIZE_BYTES = 4


def state_offset_tag(offset: int) -> TaggedFields:
    """The tag section of a partition; empty for NOT_TOLD."""
    return () if offset == NOT_TOLD else ((STATE_OFFSET_TAG, offset.to_bytes(_SIZE_BYTES, "big", signed=True)),)


def state_offset_of(fields: TaggedFields) -> int:
    """What a tag section tells; NOT_TOLD where it tells nothing that can be read."""
    for tag, value in fields:
        if tag == STATE_OFFSET_TAG and len(value) == _SIZE_BYTES:
            return int.from_bytes(value, "big", signed=True)
    return NOT_TOLD


def leader_epoch_tag(epoch: int) -> TaggedFields:
    """To be appended to `state_offset_tag`; empty for ANY_LEADER_EPOCH."""
    return () if epoch == ANY_LEADER_EPOCH else ((LEADER_EPOCH_TAG, epoch.to_bytes(_EPOCH_SIZE_BYTES, "big", signed=True)),)


def leader_epoch_of(fields: TaggedFields) -> int:
    """The sender's leader epoch; ANY_LEADER_EPOCH where a tag section tells none that can be read."""
    for tag, value in fields:
        if tag == LEADER_EPOCH_TAG and len(value) == _EPOCH_SIZE_BYTES:
            return int.from_bytes(value, "big", signed=True)
    return ANY_LEADER_EPOCH
