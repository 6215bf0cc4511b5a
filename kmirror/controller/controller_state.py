"""The state that all managers of the controller read: the image, the settings, and the few facts
derived from both."""

from __future__ import annotations

from dataclasses import dataclass, field

from kmirror.common.ports import Clock, Random
from kmirror.common.topic_partition import MIRROR_STATE_TOPIC_NAME
from kmirror.common.uuid import Uuid
from kmirror.controller.broker_heartbeat_manager import BrokerHeartbeatManager
from kmirror.controller.controller_config import ControllerConfig
from kmirror.controller.image_lookups import ImageLookups
from kmirror.controller.topic_name_collisions import TopicNameCollisions
from kmirror.metadata.configs import topic_config
from kmirror.metadata.features import ELIGIBLE_LEADER_REPLICAS_VERSION, MIRROR_VERSION, MV_DIRECTORY_ASSIGNMENT
from kmirror.metadata.image import ConfigurationsImage, MetadataImage
from kmirror.metadata.registrations import DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED, PartitionRegistration


@dataclass(slots=True)
class ControllerState:
    """Owned by `QuorumController`, which replaces `image` and `log_end_offset` after each append;
    managers only read it."""

    config: ControllerConfig
    clock: Clock
    random: Random
    heartbeats: BrokerHeartbeatManager
    image: MetadataImage = field(default_factory=lambda: MetadataImage.EMPTY)
    log_end_offset: int = 0
    kraft_version: int = 0
    name_collisions: TopicNameCollisions = field(default_factory=TopicNameCollisions)
    lookups: ImageLookups = field(init=False)
    _effective: dict[tuple[str, str], str] = field(default_factory=dict)
    _effective_in: ConfigurationsImage | None = None

    def __post_init__(self) -> None:
        self.lookups = ImageLookups(self.config.delegation_token_secret_key)

    @property
    def metadata_version(self) -> int:
        return self.image.features.metadata_version

    @property
    def elr_enabled(self) -> bool:
        return self.image.features.level(ELIGIBLE_LEADER_REPLICAS_VERSION) >= 1

    @property
    def mirroring_enabled(self) -> bool:
        return self.image.features.level(MIRROR_VERSION) >= 1

    def is_active(self, broker_id: int) -> bool:
        return self.image.cluster.is_active(broker_id)

    def topic_config(self, topic: str, name: str) -> str:
        """Returns an effective topic config as text ("" if it has no value). The result is cached
        until any config changes, because elections ask for each partition."""
        if self._effective_in is not self.image.configs:
            self._effective_in, self._effective = self.image.configs, {}
        value = self._effective.get((topic, name))
        if value is None:
            value = self._effective[topic, name] = topic_config(self.image, topic, name, self.config.static_topic_configs) or ""
        return value

    def min_isr(self, topic: str, partition: PartitionRegistration) -> int:
        """Returns min.insync.replicas of a topic, but at most the partition's number of
        replicas."""
        return min(int(self.topic_config(topic, "min.insync.replicas")), len(partition.replicas))

    def unclean_election_enabled(self, topic: str) -> bool:
        """Returns unclean.leader.election.enable of a topic; always false for `__mirror_state`,
        whatever is set or inherited (`mirror_state_topic`)."""
        return topic != MIRROR_STATE_TOPIC_NAME and self.topic_config(topic, "unclean.leader.election.enable").lower() == "true"

    def default_directory(self, broker_id: int) -> Uuid:
        """Returns the directory of a new replica: the broker's only usable directory, or
        unassigned, so that the broker chooses."""
        if self.metadata_version < MV_DIRECTORY_ASSIGNMENT:
            return DIRECTORY_MIGRATING
        broker = self.image.cluster.broker(broker_id)
        if broker is None or not broker.directories:
            return DIRECTORY_MIGRATING
        usable = [directory for directory in broker.directories if directory not in (broker.cordoned_directories or ())]
        return usable[0] if len(usable) == 1 and len(broker.directories) == 1 else DIRECTORY_UNASSIGNED

    def has_online_directory(self, broker_id: int, directory: Uuid) -> bool:
        broker = self.image.cluster.broker(broker_id)
        return broker is not None and broker.has_online_dir(directory)
