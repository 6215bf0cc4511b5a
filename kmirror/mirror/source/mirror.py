"""One mirror on one broker: its configuration, its connections to the source, and what is known
about the source.

The source is recognised by its cluster id, an opaque string that is compared with the stored one.
If none is stored, it is stored for good, as the hidden key `source.cluster.id` of the mirror's
configs in the metadata log (C13). While another cluster answers, the mirror is suspended: no
fetching, no metadata sync, states unchanged (B36, D3-35).

What many partitions ask the source at a time is asked once for all of them: `survey` (the last
mirror epochs, D5 step 1) and `source_metadata` (where a topic's leaders are). Each mirror asks
separately, so a source that does not answer delays no other mirror.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from kmirror.common.addresses import parse_bootstrap_servers
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import MIRROR_STATE_TOPIC_NAME
from kmirror.common.uuid import Uuid
from kmirror.metadata.image import RESOURCE_MIRROR, RESOURCE_TOPIC
from kmirror.metadata.mirror_names import MIRROR_STATE_PARTITIONS_CONFIG
from kmirror.mirror.ports import MirrorConfig, SourceClientFactory
from kmirror.mirror.request_batcher import RequestBatcher
from kmirror.mirror.source.last_mirror_epoch import NotYetError, SourceAnswers, ask_source
from kmirror.mirror.source.source_cluster import SourceCluster, SourceMetadata
from kmirror.network.client import UnsupportedVersionError
from kmirror.network.node_channels import ControllerChannel
from kmirror.runtime.api import Runtime
from kmirror.wire.messages import describe_mirrors, incremental_alter_configs

MAX_TOPICS_A_QUESTION = 20_000
SOURCE_CLUSTER_ID_CONFIG = "source.cluster.id"
BOOTSTRAP_SERVERS_CONFIG = "bootstrap.servers"

_log = logging.getLogger(__name__)


class Mirror:
    """Owns one mirror's configs, its source connections, its batched questions, and whether it is
    suspended. Created when this broker first leads or syncs part of the mirror; call `reconfigure`
    when its configs change.
    """

    def __init__(
        self,
        runtime: Runtime,
        config: MirrorConfig,
        name: str,
        configs: dict[str, str],
        *,
        client_factory: SourceClientFactory,
        controller: ControllerChannel,
    ) -> None:
        self.name = name
        self.configs = dict(configs)
        self.suspended_reason: str | None = None
        self._runtime = runtime
        self.config = config
        self._client_factory = client_factory
        self._controller = controller
        self._learned_cluster_id = ""
        self._source: SourceCluster | None = None
        self._chained_topics: set[str] = set()
        self._storing_cluster_id = False
        self.surveys: RequestBatcher[str, str, SourceAnswers] = RequestBatcher(
            runtime, f"survey-{name}", self._survey, max_in_flight=1, max_items=MAX_TOPICS_A_QUESTION
        )
        self.lookups: RequestBatcher[None, str, SourceMetadata] = RequestBatcher(
            runtime, f"source-metadata-{name}", self._look_up, max_in_flight=1, max_items=MAX_TOPICS_A_QUESTION
        )

    @property
    def source(self) -> SourceCluster:
        """The connections, created when first needed."""
        if self._source is None:
            client_id = f"broker-{self.config.broker_id}-mirror-metadata-manager-{self.name}"
            client = self._client_factory(client_id, self.configs)
            servers = parse_bootstrap_servers(self.configs.get(BOOTSTRAP_SERVERS_CONFIG, ""))
            self._source = SourceCluster(client, servers, request_timeout_ms=self.config.request_timeout_ms)
        return self._source

    @property
    def source_cluster_id(self) -> str:
        """ "" until the source was reached once."""
        return self.configs.get(SOURCE_CLUSTER_ID_CONFIG) or self._learned_cluster_id

    @property
    def is_suspended(self) -> bool:
        return self.suspended_reason is not None

    def check_not_suspended(self) -> None:
        if self.suspended_reason is not None:
            raise NotYetError(self.suspended_reason)

    def reconfigure(self, configs: dict[str, str], *, altered: Iterable[str]) -> bool:
        """Takes new configs, of which `altered` were set or removed; returns whether an operator
        altered any, even to what it was before. If so, the connections are closed, and new ones are
        made when needed (D3-32): what configs only point to, a file or a name, may be another one.
        """
        self.configs = dict(configs)
        is_altered = any(name != SOURCE_CLUSTER_ID_CONFIG for name in altered)
        if is_altered:
            self.close()
        return is_altered

    async def learn_cluster_id(self, cluster_id: str | None) -> None:
        """Compares an answer's cluster id with the stored one; stores it if there is none yet."""
        if not cluster_id:
            return
        known = self.source_cluster_id
        if known and known != cluster_id:
            reason = f"the source's cluster id is {cluster_id}, but mirror {self.name} belongs to {known}"
            if self.suspended_reason != reason:
                _log.error("mirror %s is suspended: %s", self.name, reason)
            self.suspended_reason = reason
            return
        if self.suspended_reason is not None:
            _log.info("mirror %s is no longer suspended: its own source cluster answers again", self.name)
            self.suspended_reason = None
        if not known:
            self._learned_cluster_id = cluster_id
        if SOURCE_CLUSTER_ID_CONFIG not in self.configs and not self._storing_cluster_id:
            self._storing_cluster_id = True
            try:
                await self._alter_config(RESOURCE_MIRROR, self.name, SOURCE_CLUSTER_ID_CONFIG, cluster_id)
            finally:
                self._storing_cluster_id = False
            self.configs.setdefault(SOURCE_CLUSTER_ID_CONFIG, cluster_id)

    async def survey(self, topic: str, *, own_cluster_id: str) -> SourceAnswers:
        """What every broker of the source says about the mirrors that `topic` may be in, asked
        after this call began. SourceError: no answer.
        """
        return await self.surveys.submit(own_cluster_id, topic)

    async def source_metadata(self, topic: str) -> SourceMetadata:
        """Metadata of the source that covers `topic`, asked for after this call began; its cluster
        id is checked. SourceError: no answer; NotYetError: the mirror is suspended.
        """
        metadata = await self.lookups.submit(None, topic)
        self.check_not_suspended()
        return metadata

    async def _survey(self, own_cluster_id: str, topics: list[str]) -> list[SourceAnswers | Exception]:
        names = set(topics)
        answers = await ask_source(self._runtime, self.source, mirror_name=self.name, topics=names, own_cluster_id=own_cluster_id)
        await self.learn_cluster_id(answers.before.cluster_id)
        return [answers for _ in topics]

    async def _look_up(self, key: None, topics: list[str]) -> list[SourceMetadata | Exception]:
        metadata = await self.source.refresh(set(topics))
        await self.learn_cluster_id(metadata.cluster_id)
        return [metadata for _ in topics]

    async def source_has_topic(self, topic: str, topic_id: Uuid) -> bool:
        """Whether the source has the topic, with our id or without ids (D3-4, C14).

        SourceError when it does not answer.
        """
        metadata = await self.source_metadata(topic)
        found = metadata.topics.get(topic)
        if found is None or found.error is not Errors.NONE:
            return False
        return not found.topic_id or found.topic_id == topic_id

    async def is_source_topic_mirrored(self, topic: str) -> bool:
        """Whether the topic is also in a mirror at the source (a chain): then its batches may have
        higher epochs than the source's own (D3-12).
        """
        for node in self.source.nodes():
            try:
                response = await self.source.send(node, describe_mirrors.DescribeMirrorsRequest())
            except UnsupportedVersionError:
                continue
            if any(described.topic_name == topic for mirror in response.mirrors for described in mirror.topics):
                self._chained_topics.add(topic)
                return True
        return False

    def is_known_chain(self, topic: str) -> bool:
        return topic in self._chained_topics

    async def pause_name(self, topic: str) -> None:
        """Has the controller set `mirror.name` to `X.paused`, without the checks of an operator's
        pause (B5).
        """
        await self._alter_config(RESOURCE_TOPIC, topic, "mirror.name", f"{self.name}.paused")

    async def record_state_partitions(self, count: int) -> None:
        """Has the controller record the number of `__mirror_state` partitions that states are
        placed by.
        """
        await self._alter_config(RESOURCE_TOPIC, MIRROR_STATE_TOPIC_NAME, MIRROR_STATE_PARTITIONS_CONFIG, str(count))

    async def shutdown(self) -> None:
        """Closes the connections for good, and ends all questions."""
        self.close()
        await self.surveys.close()
        await self.lookups.close()

    def close(self) -> None:
        """Closes the connections; new ones are made when they are needed."""
        source, self._source = self._source, None
        if source is not None:
            source.close()

    async def _alter_config(self, resource_type: int, name: str, key: str, value: str) -> None:
        config = incremental_alter_configs.AlterableConfig(name=key, config_operation=0, value=value)
        resource = incremental_alter_configs.AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=[config])
        response = await self._controller.send(incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource]))
        for row in response.responses:
            if row.error_code:
                raise ApiException(Errors.for_code(row.error_code), row.error_message)
