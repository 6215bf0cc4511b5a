"""Leader epochs of batches, hidden in a copy of the bytes.

A batch's partition leader epoch (bytes 12 to 16) lies before the bytes that its CRC covers, so it
can be replaced without touching anything else. Every reader takes -1 for "not known". Messages of
the formats v0 and v1 have their CRC in that place, and no epoch.
"""

from __future__ import annotations

import struct
from typing import Final

from kmirror.common.ports import Buffer
from kmirror.common.sentinels import NO_PARTITION_LEADER_EPOCH
from kmirror.record.record_batch import CURRENT_MAGIC, HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD, MIN_LEGACY_RECORD_SIZE

_LENGTH_EPOCH_MAGIC: Final = struct.Struct(">8xiib")
_EPOCH: Final = struct.Struct(">i")
_HIDDEN: Final = _EPOCH.pack(NO_PARTITION_LEADER_EPOCH)


def hide_leader_epochs_above(data: bytes, leader_epoch: int) -> Buffer:
    """`data` with every epoch above `leader_epoch` replaced by -1; `data` itself if there is none.

    `data` holds whole batches, of which the last may be cut. Each batch's header is read once, its
    records are not. From the first bytes that are not a batch on, everything is left as it is.
    """
    copy: bytearray | None = None
    position = 0
    last = len(data) - HEADER_SIZE_UP_TO_MAGIC
    unpack = _LENGTH_EPOCH_MAGIC.unpack_from
    while position <= last:
        length, epoch, magic = unpack(data, position)
        end_of_overhead = position + LOG_OVERHEAD
        if epoch > leader_epoch and magic == CURRENT_MAGIC:
            if copy is None:
                copy = bytearray(data)
            copy[end_of_overhead : end_of_overhead + _EPOCH.size] = _HIDDEN
        if length < MIN_LEGACY_RECORD_SIZE:
            break
        position = end_of_overhead + length
    return data if copy is None else copy
