"""What the drivers of mirrored partitions share, and what each of them knows and shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kmirror.metadata.image import MetadataImage
from kmirror.mirror.leader_epoch_bumper import LeaderEpochBumper
from kmirror.mirror.mirror import Mirror
from kmirror.mirror.mirror_fetcher_manager import MirrorFetcherManager
from kmirror.mirror.mirror_safeguards import MirrorSafeguards
from kmirror.mirror.mirror_state_client import MirrorStateClient
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.mirror.ports import MirrorConfig
from kmirror.mirror.state_offset_tag import NOT_TOLD
from kmirror.replica.replica_manager import ReplicaManager
from kmirror.runtime.api import Runtime, TaskScope


@dataclass(slots=True)
class MirrorServices:
    """What every partition of this broker's mirrors shares."""

    runtime: Runtime
    config: MirrorConfig
    safeguards: MirrorSafeguards
    cluster_id: str
    states: MirrorStateClient
    fetchers: MirrorFetcherManager
    replica_manager: ReplicaManager
    image: Callable[[], MetadataImage]
    mirror: Callable[[str], Mirror]
    bumper: LeaderEpochBumper
    scope: TaskScope


@dataclass(slots=True)
class MirrorPartitionStatus:
    """What the driver knows and others show."""

    state: MirrorPartitionState = MirrorPartitionState.UNKNOWN
    loaded: bool = False
    last_mirror_epoch: int = -1
    reason: str | None = None
    has_mirrored: bool = False
    """Whether the partition was MIRRORING since it last was PREPARING: only then its epochs are the source's (F6). A new leader in STOPPING
    learns it from a local coordinator; a remote one tells the epoch that was stored with STOPPING (`stopping.enter`), and no more."""
    stored_offset: int = NOT_TOLD
    """Of the record that the next write follows on."""
    reset_written: tuple[int, int] | None = None
    """Offset of the last MIRROR_PID_RESET that this driver appended, and the leader epoch in which it did."""
    missing_since_ms: int | None = None
    is_prepared_again: bool = False
    """Whether the partition was MIRRORING before it is PREPARING now, by an unclean election here (D3-31)."""
