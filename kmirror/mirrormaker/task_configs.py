"""What a task is told to do, as Connect's topic of configs has it: the connector's properties, and the
task's own share of the work (Kafka's `MirrorSourceTaskConfig`, `MirrorCheckpointTaskConfig`).

    task.class                  of Apache's MirrorMaker, for its workers
    task.index                  the number of the task; not of the heartbeat task
    task.assigned.partitions    source task: `topic-partition`, separated by commas
    task.assigned.groups        checkpoint task: names of groups, separated by commas

A group whose name holds a comma, or begins or ends with a blank, cannot be told apart there: Apache's
workers read other names. So all groups of such a task also stand in `kmirror.task.assigned.groups`,
as a JSON list, which kmirror's workers prefer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from kmirror.common.errors import ConfigError
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.checkpoint_task import CheckpointTaskConfig
from kmirror.mirrormaker.connector_config import (
    PACKAGE,
    MirrorCheckpointConfig,
    MirrorConnectorConfig,
    MirrorHeartbeatConfig,
    MirrorSourceConfig,
)
from kmirror.mirrormaker.heartbeats import HeartbeatTaskConfig
from kmirror.mirrormaker.herder.connect_protocol import is_task_number
from kmirror.mirrormaker.missing_topics import topic_creation_config
from kmirror.mirrormaker.recreated_topics import recreated_policy
from kmirror.mirrormaker.source_records import RecordsConfig
from kmirror.mirrormaker.source_task_config import SourceTaskConfig
from kmirror.mirrormaker.task_transactions import boundary_ms, transactional_id
from kmirror.mirrormaker.worker_config import WorkerConfig

TASK_CLASS: Final = "task.class"
TASK_INDEX: Final = "task.index"
TASK_TOPIC_PARTITIONS: Final = "task.assigned.partitions"
TASK_CONSUMER_GROUPS: Final = "task.assigned.groups"
OWN_CONSUMER_GROUPS: Final = "kmirror.task.assigned.groups"


def source_task_properties(index: int, partitions: Sequence[TopicPartition]) -> dict[str, str]:
    names = ",".join(f"{one.topic}-{one.partition}" for one in partitions)
    return {TASK_CLASS: f"{PACKAGE}MirrorSourceTask", TASK_INDEX: str(index), TASK_TOPIC_PARTITIONS: names}


def checkpoint_task_properties(index: int, groups: Sequence[str]) -> dict[str, str]:
    props = {TASK_CLASS: f"{PACKAGE}MirrorCheckpointTask", TASK_INDEX: str(index), TASK_CONSUMER_GROUPS: ",".join(groups)}
    if any("," in group or group != group.strip() for group in groups):
        props[OWN_CONSUMER_GROUPS] = json.dumps(list(groups), ensure_ascii=False)
    return props


def heartbeat_task_properties() -> dict[str, str]:
    """As Apache's: there is one task, which has no number. Other properties would have the tasks of a flow
    written anew whenever the other program's worker runs the connector.
    """
    return {TASK_CLASS: f"{PACKAGE}MirrorHeartbeatTask"}


def assigned_partitions(props: Mapping[str, str]) -> list[TopicPartition]:
    """ConfigError for what is no list of partitions."""
    found = []
    for name in filter(None, props.get(TASK_TOPIC_PARTITIONS, "").split(",")):
        topic, separator, number = name.strip().rpartition("-")
        if not separator or not is_task_number(number):
            raise ConfigError(f"Invalid value {name} for configuration {TASK_TOPIC_PARTITIONS}: not a partition")
        found.append(TopicPartition(topic, int(number)))
    return found


def assigned_groups(props: Mapping[str, str]) -> list[str]:
    own = props.get(OWN_CONSUMER_GROUPS)
    if own is not None:
        try:
            return [str(group) for group in json.loads(own)]
        except (ValueError, TypeError, RecursionError) as error:
            raise ConfigError(f"Invalid value {own} for configuration {OWN_CONSUMER_GROUPS}: not a list of groups") from error
    return [group.strip() for group in props.get(TASK_CONSUMER_GROUPS, "").split(",") if group.strip()]


def offset_syncs_side(config: MirrorSourceConfig | MirrorCheckpointConfig) -> str:
    """`source` or `target`: where the topic of offset syncs is."""
    return config.get_string("offset-syncs.topic.location") or "source"


def source_task_config(config: MirrorSourceConfig, worker: WorkerConfig, index: int) -> SourceTaskConfig:
    """Of a task whose properties `config` was made from."""
    label, side = f"{config.entity_label}-{index}", offset_syncs_side(config)
    syncs = config.client_config(side, "producer", f"offset-syncs-{side}-producer-{index}")
    return SourceTaskConfig(
        connector=config.connector_name,
        flow=config.flow,
        policy=config.replication_policy,
        partitions=assigned_partitions(config.originals),
        consumer=config.client_config("source", "consumer", f"replication-consumer-{index}"),
        producer=worker.producer_of(config, f"connector-producer-{label}"),
        sync_producer=syncs if config.get_bool("emit.offset-syncs.enabled") else None,
        offset_syncs_topic=config.offset_syncs_topic(),
        offset_lag_max=config.get_int("offset.lag.max"),
        poll_timeout_ms=config.get_int("consumer.poll.timeout.ms"),
        offset_flush_interval_ms=worker.offset_flush_interval_ms,
        offset_flush_timeout_ms=worker.offset_flush_timeout_ms,
        transactional_id=_transactional_id(config, worker, index),
        transaction_ms=boundary_ms(config.originals, worker.offset_flush_interval_ms),
        topic_creation=topic_creation_config(config, worker, index),
        recreated_policy=recreated_policy(config.originals),
    )


def checkpoint_task_config(config: MirrorCheckpointConfig, worker: WorkerConfig, index: int) -> CheckpointTaskConfig:
    """Of a task whose properties `config` was made from."""
    side = offset_syncs_side(config)
    return CheckpointTaskConfig(
        flow=config.flow,
        policy=config.replication_policy,
        topic_filter=config.topic_filter(),
        groups=assigned_groups(config.originals),
        checkpoints_topic=config.checkpoints_topic(),
        offset_syncs_topic=config.offset_syncs_topic(),
        source_admin=config.client_config("source", "admin", f"checkpoint-source-admin-{index}"),
        target_admin=config.client_config("target", "admin", f"checkpoint-target-admin-{index}"),
        checkpoints_consumer=config.client_config("target", "consumer", f"checkpoints-target-consumer-{index}"),
        syncs_consumer=config.client_config(side, "consumer", f"offset-syncs-{side}-consumer-{index}"),
        records=_records_config(config, worker, index),
        emit_interval_ms=config.interval_ms("emit.checkpoints"),
        sync_interval_ms=config.interval_ms("sync.group.offsets"),
        admin_timeout_ms=config.get_int("admin.timeout.ms"),
    )


def heartbeat_task_config(config: MirrorHeartbeatConfig, worker: WorkerConfig) -> HeartbeatTaskConfig:
    """ConfigError if heartbeats are disabled: then there is no task."""
    interval_ms = config.interval_ms("emit.heartbeats")
    if interval_ms is None:
        raise ConfigError("heartbeats are disabled (emit.heartbeats.enabled, emit.heartbeats.interval.seconds)")
    return HeartbeatTaskConfig(config.flow, config.heartbeats_topic(), _records_config(config, worker, 0), interval_ms)


def _transactional_id(config: MirrorConnectorConfig, worker: WorkerConfig, index: int) -> str | None:
    """None for a task that copies at least once."""
    is_exactly_once = worker.is_exactly_once and not config.is_sink
    return transactional_id(worker.group_id, config.connector_name, index) if is_exactly_once else None


def _records_config(config: MirrorConnectorConfig, worker: WorkerConfig, index: int) -> RecordsConfig:
    return RecordsConfig(
        connector=config.connector_name,
        producer=worker.producer_of(config, f"connector-producer-{config.entity_label}-{index}"),
        flush_interval_ms=worker.offset_flush_interval_ms,
        flush_timeout_ms=worker.offset_flush_timeout_ms,
        transactional_id=_transactional_id(config, worker, index),
        transaction_ms=boundary_ms(config.originals, worker.offset_flush_interval_ms),
        topic_creation=topic_creation_config(config, worker, index),
    )
