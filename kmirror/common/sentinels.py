"""Numbers with a special meaning in Kafka's protocol, defined once, so that -1 has a name wherever
it stands.

    isolation levels        what a consumer, or a follower, may read
    times of ListOffsets    negative timestamps that ask for an offset of the log
    absent                  no offset, no epoch, no leader
"""

from __future__ import annotations

from typing import Final

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL_TIMESTAMP: Final = -4
LATEST_TIERED_TIMESTAMP: Final = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP: Final = -6

UNKNOWN_OFFSET: Final = -1
NO_OFFSET: Final = -1
NO_EPOCH: Final = -1
"""No leader epoch, or no epoch of a member or a group."""
NO_LAST_MIRROR_EPOCH: Final = -1
NO_PARTITION_LEADER_EPOCH: Final = -1
"""The leader epoch of a batch that no leader has appended yet."""
NO_LEADER: Final = -1
