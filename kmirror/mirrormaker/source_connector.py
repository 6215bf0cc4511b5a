"""Decides what is copied, makes topics at the target, and keeps their configs and access rules
(Kafka's `MirrorSourceConnector`).

`start` makes the topic of offset syncs, finds the source's topics, and makes what the target lacks
(RT4). Then, each at its interval: access rules and configs of topics are synced (SY1 to SY4), and new
topics and partitions are looked for (SC13). If there are any, or some vanished, the tasks are
configured anew: partitions are dealt round robin (MC10, MC11).

In Kafka a connector that cannot reach a cluster at its start has no topics until the next refresh,
ten minutes later. Here `start` raises, and the connector begins again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kmirror.admin.admin_client import AdminClient
from kmirror.admin.results import ConfigEntry, ConfigResourceType, NewTopic
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.acl_sync import ANY_TOPIC_ACL, NO_AUTHORIZER, is_without_authorizer, target_acls
from kmirror.mirrormaker.config_sync import config_changes, new_topic_configs, topics_to_configure
from kmirror.mirrormaker.connector_config import MirrorSourceConfig
from kmirror.mirrormaker.file_warnings import unmatched_entries
from kmirror.mirrormaker.internal_topics import KeptTopic
from kmirror.mirrormaker.scheduler import Job, Step
from kmirror.mirrormaker.task_configs import offset_syncs_side, source_task_properties
from kmirror.mirrormaker.topic_creation import (
    NewRemoteTopic,
    source_topics,
    target_topics,
    task_partitions,
    topic_changes,
    topics_changed,
)
from kmirror.mirrormaker.worker_config import open_admin
from kmirror.runtime.api import Runtime

_log = logging.getLogger(__name__)


class MirrorSourceConnector:
    """One flow's. Owns two admin clients. `reconfigure` is called when the tasks are to be asked for
    again.
    """

    def __init__(self, runtime: Runtime, config: MirrorSourceConfig, reconfigure: Callable[[], object]) -> None:
        self.config = config
        self._runtime = runtime
        self._reconfigure = reconfigure
        self._topics = config.topics()
        self._filter = config.config_property_filter()
        self._source = open_admin(runtime, config.client_config("source", "admin", "replication-source-admin"))
        self._target = open_admin(runtime, config.client_config("target", "admin", "replication-target-admin"))
        self._known_source: dict[str, int] = {}
        self._known_target: dict[str, int] = {}
        self._told_no_authorizer = False
        self._told_unmatched: list[str] = []
        self._syncs_topic = self._own_topic() if config.get_bool("emit.offset-syncs.enabled") else None

    def close(self) -> None:
        self._source.close()
        self._target.close()

    async def start(self) -> None:
        """Makes what is missing; ApiException or another KmirrorError if a cluster cannot be asked,
        or refuses.
        """
        if self._syncs_topic is not None:
            await self._syncs_topic.make()
        self._known_source, self._known_target = await self._find_source(), await self._find_target()
        await self._create_topics_and_partitions()
        self._known_target = await self._find_target()
        _log.info("[%s] %d topics are copied", self.config.entity_label, len(self._known_source))

    def jobs(self) -> list[Job]:
        interval = self.config.interval_ms
        return [
            Job(self.sync_topic_acls, interval("sync.topic.acls"), "syncing topic ACLs"),
            Job(self.sync_topic_configs, interval("sync.topic.configs"), "syncing topic configs"),
            Job(self.refresh_topic_partitions, interval("refresh.topics"), "refreshing topics", delayed=True, is_vital=True),
            *([] if self._syncs_topic is None else [self._syncs_topic.job()]),
        ]

    def task_properties(self) -> list[dict[str, str]]:
        """Returns what each task copies; none if there is nothing, or the flow is disabled. Partitions
        are sorted, so that the same ones give the same tasks.
        """
        if not self.config.enabled:
            return []
        partitions = sorted(TopicPartition(topic, number) for topic, count in self._known_source.items() for number in range(count))
        dealt = task_partitions(partitions, self.config.get_int("tasks.max"))
        return [source_task_properties(index, one) for index, one in enumerate(dealt)]

    # Topics

    def _own_topic(self) -> KeptTopic:
        admin = self._source if offset_syncs_side(self.config) == "source" else self._target
        factor = self.config.get_int("offset-syncs.topic.replication.factor")
        return KeptTopic(admin, self.config.offset_syncs_topic(), factor, "offset syncs")

    async def _find_source(self) -> dict[str, int]:
        names = await self._source.list_topics(include_internal=True)
        self._tell_unmatched(list(names))
        return await _partition_counts(self._source, source_topics(self._topics, names))

    def _tell_unmatched(self, names: list[str]) -> None:
        """The log says it once, and again after a change."""
        unmatched = unmatched_entries(self.config.get_list("topics"), names)
        if unmatched and unmatched != self._told_unmatched:
            _log.warning(
                "[%s] No topic of %s has the name, or matches the expression: %s (topics)",
                self.config.entity_label,
                self.config.flow.source,
                ", ".join(unmatched),
            )
        self._told_unmatched = unmatched

    async def _find_target(self) -> dict[str, int]:
        return await _partition_counts(self._target, target_topics(self._topics, await self._target.list_topics(include_internal=True)))

    async def refresh_topic_partitions(self, step: Step) -> None:
        """Looks for new and vanished topics and partitions. What could not be made counts as not known, so
        that the next refresh has the tasks configured for it, whoever has made it by then.
        """
        source = await self._find_source()
        step()
        target = await self._find_target()
        step()
        changed = topics_changed(self._topics, self._known_source, source, target)
        before, self._known_target = self._known_source, target
        if not changed:
            return
        _log.info(
            "[%s] topics or partitions changed: %d topics are copied now, %d before", self.config.entity_label, len(source), len(before)
        )
        self._known_source = source
        try:
            await self._create_topics_and_partitions()
        except BaseException:
            self._known_source = before
            raise
        self._reconfigure()

    async def _create_topics_and_partitions(self) -> None:
        factor = self.config.get_int("replication.factor")
        changes = topic_changes(self._topics, self._known_source, self._known_target, replication_factor=factor)
        if changes.new_topics:
            await self._create_topics(changes.new_topics)
        if not changes.new_partitions:
            return
        outcome = await self._target.create_partitions(changes.new_partitions)
        for topic, error in outcome.failed.items():
            if error.error is not Errors.INVALID_PARTITIONS:  # somebody else was faster
                _log.warning("[%s] Could not create topic-partitions for %s: %s", self.config.entity_label, topic, error)
        for topic in outcome.errors.keys() - outcome.failed.keys():
            _log.info("Increased size of %s to %d partitions.", topic, changes.new_partitions[topic])

    async def _create_topics(self, wanted: list[NewRemoteTopic]) -> None:
        topics = []
        described = await self._describe([topic.source_topic for topic in wanted])
        for topic in wanted:
            if topic.source_topic not in described:
                continue
            configs = new_topic_configs(described[topic.source_topic], self._filter)
            set_configs = {name: value for name, value in configs.items() if value is not None}
            topics.append(NewTopic(topic.name, topic.partitions, topic.replication_factor, set_configs))
        outcome = await self._target.create_topics(topics)
        for made in topics:
            error = outcome.errors.get(made.name)
            if error is None:
                _log.info("Created remote topic %s with %d partitions.", made.name, made.num_partitions)
            elif error.error is not Errors.TOPIC_ALREADY_EXISTS:
                _log.warning("[%s] Could not create topic %s: %s", self.config.entity_label, made.name, error)

    # Configs and access rules

    async def _describe(self, topics: list[str]) -> dict[str, list[ConfigEntry]]:
        """Returns the entries of the source's topics. A topic that the source refuses is logged and
        left out, so that it keeps no other topic from its configs (in Kafka it does).
        """
        described: dict[str, list[ConfigEntry]] = {}
        for topic, entries in (await self._source.describe_topic_configs(topics)).items():
            if isinstance(entries, ApiException):
                _log.warning("[%s] Could not describe configuration of topic %s: %s", self.config.entity_label, topic, entries)
            else:
                described[topic] = entries
        return described

    async def sync_topic_configs(self, step: Step) -> None:
        """Brings the configs of remote topics in line with the source's (SY1).

        UNSUPPORTED_VERSION if the target is older than IncrementalAlterConfigs.
        """
        remote_names = {topic: self._topics.remote_topic(topic) for topic in self._known_source}
        described = await self._describe(topics_to_configure(remote_names, self._known_target))
        for topic, entries in described.items():
            step()
            changes = config_changes(entries, self._filter)
            try:
                if changes:
                    await self._target.incremental_alter_configs(ConfigResourceType.TOPIC, remote_names[topic], changes)
            except ApiException as error:
                if error.error is Errors.UNSUPPORTED_VERSION:
                    raise
                _log.warning("[%s] Could not alter configuration of topic %s: %s", self.config.entity_label, remote_names[topic], error)

    async def sync_topic_acls(self, _: Step) -> None:
        """Adds the source's access rules to remote topics (SY2 to SY4)."""
        try:
            bindings = await self._source.describe_acls(ANY_TOPIC_ACL)
        except ApiException as error:
            if not is_without_authorizer(error):
                raise
            if not self._told_no_authorizer:
                self._told_no_authorizer = True
                _log.info("[%s] %s", self.config.entity_label, NO_AUTHORIZER)
            return
        wanted = target_acls(bindings, self._topics)
        if not wanted:
            return
        for binding, failure in (await self._target.create_acls(wanted)).items():
            if failure is not None:
                _log.warning("[%s] Could not sync ACL of topic %s: %s", self.config.entity_label, binding.name, failure)


async def _partition_counts(admin: AdminClient, topics: list[str]) -> dict[str, int]:
    described = await admin.describe_topics(topics)
    return {name: len(topic.partitions) for name, topic in described.items()}
