"""Topics that a task makes before it first writes to them, as `topic.creation.*` of its connector says
(Connect's `AbstractWorkerSourceTask.maybeCreateTopic`).

Remote topics, heartbeats and checkpoints are made by connectors; what is left are topics that a
transformation names, and those that a connector could not make. Each topic is asked for once in a life of a
task. A topic that cannot be made ends the task, whatever errors.tolerance says.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from kmirror.admin.admin_client import AdminClient
from kmirror.admin.results import NewTopic
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.mirrormaker.connector_config import MirrorConnectorConfig, with_prefix
from kmirror.mirrormaker.topic_creation_groups import (
    DEFAULT_GROUP,
    OF_THE_BROKER,
    TopicCreationGroups,
    group_names,
    topic_creation_groups,
    uses_topic_creation,
)
from kmirror.mirrormaker.worker_config import WorkerConfig, open_admin
from kmirror.runtime.api import Runtime

_MAY_NOT: Final = (Errors.UNSUPPORTED_VERSION, Errors.CLUSTER_AUTHORIZATION_FAILED, Errors.TOPIC_AUTHORIZATION_FAILED)
_log = logging.getLogger(__name__)


class TopicCreationConfig(NamedTuple):
    """`admin` are the settings of a client of the cluster that a task writes to."""

    groups: TopicCreationGroups
    admin: Mapping[str, str]


def require_valid_topic_creation(config: MirrorConnectorConfig, worker: WorkerConfig) -> None:
    """ConfigError for `topic.creation.*` that is wrong, if the worker reads it; says so if it does not."""
    groups = topic_creation_groups(config.originals, is_enabled=worker.topic_creation_enable)
    if groups is not None and DEFAULT_GROUP in group_names(config.originals):
        _log.warning(
            "[%s] '%s' topic creation group always exists and does not need to be listed explicitly", config.entity_label, DEFAULT_GROUP
        )
    if groups is None and uses_topic_creation(config.originals):
        _log.warning("[%s] topic.creation.* is not read: the worker has topic.creation.enable=false", config.entity_label)


def topic_creation_config(config: MirrorConnectorConfig, worker: WorkerConfig, index: int) -> TopicCreationConfig | None:
    """Of the task with this number. None if the connector has no `topic.creation.*`, or its worker does not
    read it.
    """
    groups = topic_creation_groups(config.originals, is_enabled=worker.topic_creation_enable)
    if groups is None:
        return None
    label = f"connector-adminclient-{config.entity_label}-{index}"
    is_sink = worker.is_sink or config.is_sink
    admin = config.client_config("target", "admin", label) if is_sink else worker.connector_client("admin", label)
    return TopicCreationConfig(groups, admin | with_prefix(config.originals, "admin.override."))


class MissingTopics:
    """Of one life of a task. Owns a client, from the first topic on; without a `config` it makes none."""

    def __init__(self, runtime: Runtime, name: str, config: TopicCreationConfig | None) -> None:
        self._runtime = runtime
        self._name = name
        self._config = config
        self._known: set[str] = set()
        self._admin: AdminClient | None = None

    def is_required(self, topic: str) -> bool:
        """Whether `make` has to be called before the topic is written to."""
        return self._config is not None and topic not in self._known

    async def make(self, topic: str) -> None:
        """Makes the topic unless it is there. KmirrorError if it is not there after all; no ApiException, which
        would be one of a record.
        """
        config = self._config
        assert config is not None, "is_required"
        if self._admin is None:
            self._admin = open_admin(self._runtime, config.admin)
        try:
            if not await self._admin.describe_topics([topic]):
                group = config.groups.find_first(topic)
                await self._create(self._admin, group.new_topic(topic), group.name)
        except ApiException as error:
            raise KmirrorError(f"Unable to create topic(s) '{topic}': {error}") from error
        self._known.add(topic)

    async def _create(self, admin: AdminClient, wanted: NewTopic, group: str) -> None:
        error = (await admin.create_topics([wanted])).errors.get(wanted.name)
        if error is None:
            _log.info("[%s] Created topic '%s' using creation group %s", self._name, _described(wanted), group)
        elif error.error in _MAY_NOT:
            raise KmirrorError(
                f"Task failed to create new topic {_described(wanted)}. Ensure that the task is authorized to create topics or that the "
                f"topic exists and restart the task ({error})"
            )
        elif error.error is not Errors.TOPIC_ALREADY_EXISTS:
            raise error

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()


def _described(topic: NewTopic) -> str:
    configs = ", ".join(f"{name}={value}" for name, value in topic.configs.items())
    partitions, factor = ("default" if one == OF_THE_BROKER else str(one) for one in (topic.num_partitions, topic.replication_factor))
    return f"(name={topic.name}, numPartitions={partitions}, replicationFactor={factor}, configs={{{configs}}})"
