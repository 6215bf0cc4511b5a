"""What the mirrored partitions that this broker leads share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kmirror.common.lasting_conditions import SharedConditions
from kmirror.metadata.image import MetadataImage
from kmirror.mirror.coordination.mirror_state_client import MirrorStateClient
from kmirror.mirror.fetch.mirror_fetcher_manager import MirrorFetcherManager
from kmirror.mirror.mirror_safeguards import MirrorSafeguards
from kmirror.mirror.partition.leader_epoch_bumper import LeaderEpochBumper
from kmirror.mirror.ports import MirrorConfig
from kmirror.mirror.source.mirror import Mirror
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
    align_configs: Callable[[str, str], Awaitable[None]]
    """Makes a mirror's topic what it is at the source, as far as that is shown (`sync.first_configs`)."""
    scope: TaskScope
    conditions: SharedConditions
    """Why partitions do not go on, for the log: what keeps many from it is one line."""
