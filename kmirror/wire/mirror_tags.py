"""What kmirror's brokers say about mirror partitions beyond the KIP's fields: tagged fields outside
its schemas, which other readers skip.

    1281  UTF-8 text             why the partition is FAILED, or makes no progress
                                 (WriteMirrorStates, ReadMirrorStates, DescribeMirrors)
    1282  two int64, big-endian  the last known lag, and its age in ms (DescribeMirrors)

1279 and 1280 are in `mirror.state_offset_tag`.
"""

from __future__ import annotations

from struct import Struct

from kmirror.wire.primitives import TaggedFields

REASON_TAG = 1281
LAST_KNOWN_LAG_TAG = 1282
MAX_REASON_BYTES = 2_000
_LAG = Struct(">qq")


def reason_tag(reason: str | None) -> TaggedFields:
    """Returns no tag without a reason; a long reason is cut."""
    return () if not reason else ((REASON_TAG, reason.encode()[:MAX_REASON_BYTES]),)


def reason_of(fields: TaggedFields) -> str | None:
    """Returns None if there is no reason."""
    return next((bytes(value).decode(errors="ignore") for tag, value in fields if tag == REASON_TAG), None)


def last_known_lag_tag(records: int, age_ms: int) -> TaggedFields:
    """Returns a tag section to append to that of `reason_tag`; empty if the lag was never known."""
    return () if records < 0 else ((LAST_KNOWN_LAG_TAG, _LAG.pack(records, age_ms)),)


def last_known_lag_of(fields: TaggedFields) -> tuple[int, int] | None:
    """Returns the lag in records and its age in ms; None if it is not there."""
    for tag, value in fields:
        if tag == LAST_KNOWN_LAG_TAG and len(value) == _LAG.size:
            records, age_ms = _LAG.unpack(value)
            return int(records), int(age_ms)
    return None
