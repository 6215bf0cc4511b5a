"""What holds at this cluster for a topic without overrides: the defaults of each of its brokers.

Dynamic defaults are in the metadata. What stands in another broker's properties is asked of that
broker, once for each of its starts. A broker that does not answer, or does not let us describe it,
counts as one with our own properties until it does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from kmirror.common.errors import Errors, KmirrorError
from kmirror.metadata.image import RESOURCE_BROKER, MetadataImage
from kmirror.metadata.lossy_configs import LOSSY_CONFIGS
from kmirror.metadata.topic_configs import TOPIC_CONFIG_SYNONYMS, inherited_topic_configs
from kmirror.mirror.ports import MirrorConfig
from kmirror.network.node_channels import BrokerChannel
from kmirror.wire.messages import describe_configs

CONFIG_SOURCE_STATIC_BROKER = 4
BROKER_CONFIGS = [synonym.broker_config for name in LOSSY_CONFIGS for synonym in TOPIC_CONFIG_SYNONYMS[name]]

_log = logging.getLogger(__name__)


class DestinationDefaults:
    """Owns what other brokers' properties say, by broker id and epoch."""

    def __init__(self, brokers: BrokerChannel, image: Callable[[], MetadataImage], config: MirrorConfig) -> None:
        self._brokers = brokers
        self._image = image
        self._config = config
        self._static: dict[tuple[int, int], dict[str, str]] = {}

    @property
    def own(self) -> dict[str, str]:
        """This broker's defaults."""
        return self._over(self._config.static_topic_configs, self._config.broker_id)

    async def of_all(self) -> list[dict[str, str]]:
        """The defaults of every broker that is in service, our own first, each once."""
        found = [self.own]
        for broker in self._image().cluster.unfenced_brokers():
            if broker.id != self._config.broker_id:
                defaults = self._over(await self._static_of(broker.id, broker.epoch), broker.id)
                found += [] if defaults in found else [defaults]
        return found

    def _over(self, static: Mapping[str, str], broker_id: int) -> dict[str, str]:
        configs = self._image().configs
        dynamic = inherited_topic_configs({**configs.cluster_default(), **configs.broker(broker_id)})
        return {**static, **dynamic}

    async def _static_of(self, broker_id: int, epoch: int) -> Mapping[str, str]:
        known = self._static.get((broker_id, epoch))
        if known is not None:
            return known
        request = describe_configs.DescribeConfigsRequest(
            resources=[
                describe_configs.DescribeConfigsResource(
                    resource_type=RESOURCE_BROKER, resource_name=str(broker_id), configuration_keys=BROKER_CONFIGS
                )
            ],
            include_synonyms=True,
        )
        try:
            (row,) = (await self._brokers.send(broker_id, request)).results
        except (KmirrorError, OSError) as error:
            _log.debug("the topic defaults of broker %d are not known: %s", broker_id, error)
            return self._config.static_topic_configs
        if row.error_code:
            text = row.error_message or Errors.for_code(row.error_code).message
            _log.warning("the topic defaults of broker %d are not known, and ours count as its own: %s", broker_id, text)
        props = {
            synonym.name: synonym.value
            for entry in row.configs
            for synonym in entry.synonyms
            if synonym.source == CONFIG_SOURCE_STATIC_BROKER and synonym.value is not None
        }
        static = dict(self._config.static_topic_configs) if row.error_code else inherited_topic_configs(props)
        self._static = {key: value for key, value in self._static.items() if key[0] != broker_id}
        self._static[broker_id, epoch] = static
        return static
