"""Which state a write follows on: the offset of its record in `__mirror_state`, between kmirror's brokers.

A WriteMirrorStates that was given up may be carried out when the partition has moved on, and nothing in the KIP's fields says how old it is.
So ReadMirrorStates' answer tells of each partition the offset of the last record that changed anything about it, a write tells the
offset that its sender knew, and its answer the one that is stored now. A coordinator that stored another record since refuses the
write, unless there is nothing left to do for it (`mirror_coordinator_shard`).

The KIP's schemas have no such field. It travels as a tagged field that they do not define, which Kafka's readers skip; where it is
missing nothing is compared.
"""

from __future__ import annotations

from kmirror.wire.primitives import TaggedFields

NOTHING_STORED = -1
NOT_TOLD = -2

STATE_OFFSET_TAG = 1279
_SIZE_BYTES = 8


def state_offset_tag(offset: int) -> TaggedFields:
    """The tag section of a partition; empty for NOT_TOLD."""
    return () if offset == NOT_TOLD else ((STATE_OFFSET_TAG, offset.to_bytes(_SIZE_BYTES, "big", signed=True)),)


def state_offset_of(fields: TaggedFields) -> int:
    """What a tag section tells; NOT_TOLD where it tells nothing that can be read."""
    for tag, value in fields:
        if tag == STATE_OFFSET_TAG and len(value) == _SIZE_BYTES:
            return int.from_bytes(value, "big", signed=True)
    return NOT_TOLD
