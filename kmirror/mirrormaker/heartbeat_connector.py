"""Makes the topic of heartbeats, and asks for one task (Kafka's `MirrorHeartbeatConnector`)."""

from __future__ import annotations

from kmirror.mirrormaker.connector_config import MirrorHeartbeatConfig
from kmirror.mirrormaker.internal_topics import KeptTopic
from kmirror.mirrormaker.scheduler import Job
from kmirror.mirrormaker.task_configs import heartbeat_task_properties
from kmirror.mirrormaker.worker_config import open_admin
from kmirror.runtime.api import Runtime


class MirrorHeartbeatConnector:
    """One flow's. Owns an admin client."""

    def __init__(self, runtime: Runtime, config: MirrorHeartbeatConfig) -> None:
        self.config = config
        self._target = open_admin(runtime, config.client_config("target", "admin", "heartbeats-target-admin"))
        self._topic = KeptTopic(
            self._target, config.heartbeats_topic(), config.get_int("heartbeats.topic.replication.factor"), "heartbeats"
        )

    def close(self) -> None:
        self._target.close()

    async def start(self) -> None:
        """KmirrorError if the target cannot be asked, or refuses."""
        await self._topic.make()

    def jobs(self) -> list[Job]:
        return [self._topic.job()]

    def task_properties(self) -> list[dict[str, str]]:
        """Returns the one task, none if heartbeats are disabled."""
        return [] if self.config.interval_ms("emit.heartbeats") is None else [heartbeat_task_properties()]
