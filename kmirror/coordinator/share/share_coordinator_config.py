"""Settings of the share coordinator (Kafka's `ShareCoordinatorConfig`), with Kafka's defaults
(`share.coordinator.*`)."""

from __future__ import annotations

from msgspec import Struct


class ShareCoordinatorConfig(Struct, frozen=True):
    snapshot_update_records_per_snapshot: int = 500
    """The number of updates of a share partition after which the next write is a snapshot."""
    write_timeout_ms: int = 5_000
    prune_interval_ms: int = 300_000
    """How often records that newer snapshots have made superfluous are deleted."""
    cold_partition_snapshot_interval_ms: int = 300_000
    """How often, and after which age, a share partition that is not written gets a new snapshot, so
    that its old one can be deleted."""
