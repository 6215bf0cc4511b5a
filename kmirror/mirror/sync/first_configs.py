"""A topic is what its source is from the first record on: before a partition of it is fetched, its
configs are made equal to the source's (SYN6).

The sync owner would do so within a refresh interval. Until then a topic that was here before would
have its old configs, also if it is failed over at once. Every leader of a partition asks, for all
its topics together. A cluster that has taken the source's place, or another topic of the name, has
nothing to say here (C13, D3-16). What the source does not show us (an ACL, an old release) holds nobody up:
nothing that the source has is deleted here anyway while the topic is mirrored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kmirror.metadata.image import MetadataImage
from kmirror.mirror.request_batcher import RequestBatcher
from kmirror.mirror.source.mirror import Mirror
from kmirror.mirror.sync.config_sync import ConfigSync
from kmirror.mirror.sync.sync_cycle import is_same_topic
from kmirror.network.client import UnsupportedVersionError
from kmirror.runtime.api import Runtime

MAX_TOPICS_AT_ONCE = 500

_log = logging.getLogger(__name__)


class FirstConfigs:
    """Owns the topics that wait for their configs, by mirror."""

    def __init__(self, runtime: Runtime, configs: ConfigSync, mirror: Callable[[str], Mirror], image: Callable[[], MetadataImage]) -> None:
        self._configs = configs
        self._mirror = mirror
        self._image = image
        self._batcher: RequestBatcher[str, str, None] = RequestBatcher(
            runtime, "first-configs", self._align, max_in_flight=1, max_items=MAX_TOPICS_AT_ONCE
        )

    async def align(self, mirror_name: str, topic: str) -> None:
        """Returns when the topic's configs are the source's, or the source does not show them.
        SourceError: no answer; NotYetError: the mirror is suspended.
        """
        await self._batcher.submit(mirror_name, topic)

    async def close(self) -> None:
        await self._batcher.close()

    async def _align(self, mirror_name: str, topics: list[str]) -> list[None]:
        mirror = self._mirror(mirror_name)
        mirror.check_not_suspended()
        source = mirror.source
        metadata = await source.refresh(set(topics))
        await mirror.learn_cluster_id(metadata.cluster_id)
        mirror.check_not_suspended()
        ours = [topic for topic in sorted(set(topics)) if is_same_topic(self._image(), topic, metadata)]
        try:
            failures = await self._configs.align(mirror, source, ours)
        except UnsupportedVersionError:
            failures = []
        for text in failures:
            _log.warning("mirror %s: %s; the topic is mirrored without that", mirror_name, text)
        return [None for _ in topics]
