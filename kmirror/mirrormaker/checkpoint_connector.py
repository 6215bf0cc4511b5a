"""Finds the groups whose offsets are translated (Kafka's `MirrorCheckpointConnector`).

`start` makes the checkpoints topic at the target and finds the groups: those that the group filter
takes, and that have an offset in a topic that is copied. They are looked for again each
refresh.groups.interval.seconds; when there are others, the tasks are configured anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kmirror.common.errors import ApiException
from kmirror.mirrormaker.checkpoints import CommittedOffsets, groups_to_checkpoint
from kmirror.mirrormaker.connector_config import MirrorCheckpointConfig
from kmirror.mirrormaker.file_warnings import unmatched_entries
from kmirror.mirrormaker.internal_topics import KeptTopic
from kmirror.mirrormaker.scheduler import Job, Step
from kmirror.mirrormaker.task_configs import checkpoint_task_properties
from kmirror.mirrormaker.topic_creation import task_groups
from kmirror.mirrormaker.topic_filters import GROUPS_DEFAULT
from kmirror.mirrormaker.worker_config import open_admin
from kmirror.runtime.api import Runtime

_log = logging.getLogger(__name__)


class MirrorCheckpointConnector:
    """One flow's. Owns two admin clients. `reconfigure` is called when the tasks are to be asked for
    again.
    """

    def __init__(self, runtime: Runtime, config: MirrorCheckpointConfig, reconfigure: Callable[[], object]) -> None:
        self.config = config
        self._reconfigure = reconfigure
        self._topic_filter, self._group_filter = config.topic_filter(), config.group_filter()
        self._source = open_admin(runtime, config.client_config("source", "admin", "checkpoint-source-admin"))
        self._target = open_admin(runtime, config.client_config("target", "admin", "checkpoint-target-admin"))
        factor = config.get_int("checkpoints.topic.replication.factor")
        self._topic = KeptTopic(self._target, config.checkpoints_topic(), factor, "checkpoints")
        self._known_groups: list[str] = []
        self._told_unmatched: list[str] = []

    def close(self) -> None:
        self._source.close()
        self._target.close()

    async def start(self) -> None:
        """KmirrorError if a cluster cannot be asked, or refuses."""
        await self._topic.make()
        self._known_groups = await self._find_groups()
        _log.info("[%s] %d groups are checkpointed", self.config.entity_label, len(self._known_groups))

    def jobs(self) -> list[Job]:
        refresh_ms = self.config.interval_ms("refresh.groups")
        return [Job(self.refresh_consumer_groups, refresh_ms, "refreshing consumer groups", delayed=True, is_vital=True), self._topic.job()]

    def task_properties(self) -> list[dict[str, str]]:
        """Returns which groups each task has; none if the flow, or its checkpoints, are disabled.
        Groups are sorted, so that the same ones give the same tasks.
        """
        if not self.config.enabled or self.config.interval_ms("emit.checkpoints") is None:
            return []
        dealt = task_groups(sorted(self._known_groups), self.config.get_int("tasks.max"))
        return [checkpoint_task_properties(index, groups) for index, groups in enumerate(dealt)]

    async def refresh_consumer_groups(self, step: Step) -> None:
        groups = await self._find_groups(step)
        if groups != self._known_groups:
            _log.info("[%s] %d groups are checkpointed now, %d before", self.config.entity_label, len(groups), len(self._known_groups))
            self._known_groups = groups
            self._reconfigure()

    def _tell_unmatched(self, groups: list[str]) -> None:
        """The log says it once, and again after a change. All groups may be none yet."""
        entries = [entry for entry in self.config.get_list("groups") if entry != GROUPS_DEFAULT]
        unmatched = unmatched_entries(entries, groups)
        if unmatched and unmatched != self._told_unmatched:
            _log.warning(
                "[%s] No consumer group of %s has the name, or matches the expression: %s (groups)",
                self.config.entity_label,
                self.config.flow.source,
                ", ".join(unmatched),
            )
        self._told_unmatched = unmatched

    async def _find_groups(self, step: Step = lambda: None) -> list[str]:
        """A group whose offsets the source refuses is logged, and stays known if it was: it keeps no
        other group from its checkpoints (in Kafka it does).
        """
        listed = [row.group_id for row in await self._source.list_consumer_groups()]
        self._tell_unmatched(listed)
        offsets: dict[str, CommittedOffsets] = {}
        refused: list[str] = []
        for group in filter(self._group_filter.should_replicate_group, listed):
            try:
                offsets[group] = await self._source.list_consumer_group_offsets(group)
            except ApiException as error:
                _log.warning("[%s] Error querying offsets for consumer group %s: %s", self.config.entity_label, group, error)
                refused.append(group)
            step()
        found = {*groups_to_checkpoint(offsets, self._group_filter, self._topic_filter), *(set(refused) & set(self._known_groups))}
        return [group for group in listed if group in found]
