"""Creates topics because somebody asked for them (`auto.create.topics.enable`), and the
coordinators' own topics (Kafka's `AutoTopicCreationManager`).

The controller creates them. The request is sent once, however many clients ask. The clients are
told UNKNOWN_TOPIC_OR_PARTITION (or COORDINATOR_NOT_AVAILABLE) and ask again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import replace

from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.lasting_conditions import LastingConditions
from kmirror.common.topic_partition import (
    GROUP_METADATA_TOPIC_NAME,
    MIRROR_STATE_TOPIC_NAME,
    SHARE_GROUP_STATE_TOPIC_NAME,
    TRANSACTION_STATE_TOPIC_NAME,
)
from kmirror.runtime.api import Runtime
from kmirror.runtime.turns import in_turns
from kmirror.server.forwarding_channel import ForwardingChannel
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.request import Request
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse

CREATE_TOPICS_VERSION = 7
MAX_REFUSED = 1_000
"""Topics whose refusal is remembered, so that it is told once as long as it lasts."""
_log = logging.getLogger(__name__)


class AutoTopicCreationManager:
    """Owns the creations under way, by topic name, and their tasks."""

    def __init__(self, runtime: Runtime, config: KafkaConfig, controller: ForwardingChannel) -> None:
        self._runtime = runtime
        self._config = config
        self._controller = controller
        self._in_flight: dict[str, None] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._conditions = LastingConditions(_log, runtime.clock.monotonic_ms)

    def create_topics(self, names: Iterable[str], asker: Request | None = None) -> None:
        """Asks the controller for the topics that are not being created yet; returns at once.

        With `asker` the request is that client's: it needs the client's permissions and counts
        against its quota.
        """
        missing = [name for name in names if name not in self._in_flight]
        if not missing:
            return
        self._in_flight.update(dict.fromkeys(missing))
        self._tasks = [task for task in self._tasks if not task.done()]
        self._tasks.append(self._runtime.spawn(self._create(missing, asker), name="auto-topic-creation"))

    async def _create(self, names: list[str], asker: Request | None) -> None:
        try:
            topics = [self._creatable(name) async for name in in_turns(self._runtime, names)]
            request = CreateTopicsRequest(topics=topics, timeout_ms=self._config.request_timeout_ms)
            response: CreateTopicsResponse
            if asker is None:
                response = await self._controller.send(request)
            else:
                forwarded = replace(asker, api_key=ApiKeys.CREATE_TOPICS, api_version=CREATE_TOPICS_VERSION, message=request)
                response = await self._controller.forward(forwarded)
        except KmirrorError as error:
            text = str(error.message if isinstance(error, ApiException) else error)
            self._note(names, dict.fromkeys(names, text))
            return
        finally:
            for name in names:
                del self._in_flight[name]
        refused = {
            topic.name: f"{Errors.for_code(topic.error_code).name}: {topic.error_message}"
            for topic in response.topics
            if topic.error_code not in (Errors.NONE, Errors.TOPIC_ALREADY_EXISTS)
        }
        self._note(names, refused)

    def _note(self, names: list[str], refused: dict[str, str]) -> None:
        """Remembers the newest refusals only: clients name topics as they like."""
        self._conditions.replace(names, refused, subject="Auto topic creation failed")
        for name in list(self._conditions)[:-MAX_REFUSED]:
            self._conditions.forget(name)

    def _creatable(self, name: str) -> CreatableTopic:
        config = self._config
        if name == GROUP_METADATA_TOPIC_NAME:
            configs = {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            }
            return _topic(name, config.offsets_topic_num_partitions, config.offsets_topic_replication_factor, configs)
        if name == TRANSACTION_STATE_TOPIC_NAME:
            configs = {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config.get_int("transaction.state.log.min.isr")),
                "segment.bytes": str(config.get_int("transaction.state.log.segment.bytes")),
                "unclean.leader.election.enable": "false",
            }
            partitions = config.get_int("transaction.state.log.num.partitions")
            return _topic(name, partitions, config.get_int("transaction.state.log.replication.factor"), configs)
        if name == SHARE_GROUP_STATE_TOPIC_NAME:
            configs = {
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "min.insync.replicas": str(config.get_int("share.coordinator.state.topic.min.isr")),
                "retention.ms": "-1",
                "segment.bytes": str(config.get_int("share.coordinator.state.topic.segment.bytes")),
            }
            partitions = config.get_int("share.coordinator.state.topic.num.partitions")
            return _topic(name, partitions, config.get_int("share.coordinator.state.topic.replication.factor"), configs)
        if name == MIRROR_STATE_TOPIC_NAME:
            configs = {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "flush.messages": "1",
                "retention.ms": "-1",
                "unclean.leader.election.enable": "false",
            }
            return _topic(name, config.mirror_topic_num_partitions, config.mirror_topic_replication_factor, configs)
        return _topic(name, config.num_partitions, config.default_replication_factor, {})


def _topic(name: str, num_partitions: int, replication_factor: int, configs: dict[str, str]) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=num_partitions,
        replication_factor=replication_factor,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
