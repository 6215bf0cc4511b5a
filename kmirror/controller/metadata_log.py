"""The `__cluster_metadata` log of a one-voter quorum (Kafka's `KafkaMetadataLog` and the leader half of `KafkaRaftClient`).

Skeleton; see the methods for the contract.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kmirror.common.ports import FileSlice
from kmirror.metadata.record import ApiMessageAndVersion


class MetadataLog:
    """`open` -> `become_leader` -> `append`* / `flush` -> `close`."""

    @property
    def leader_epoch(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int:
        """The end of what is flushed."""
        ...

    def append(self, records: Sequence[ApiMessageAndVersion], *, time_ms: int) -> int:
        """Append one batch; the offset of its last record."""
        ...

    def flush(self) -> None:
        """fsync and move the high watermark (blocking)."""
        ...

    def read(self, start_offset: int, max_bytes: int) -> FileSlice | None: ...

    def latest_snapshot(self) -> Any: ...
