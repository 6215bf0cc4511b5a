"""What a broker knows about its cluster: the metadata log, fetched and applied, and questions about
it.

The image is as old as the last answer of the controller. A broker that cannot apply a record must
The image is as old as the controller's last answer. A broker that cannot apply a record must not go
on with what it knew before, so this failure is fatal for the node (Kafka's fatal fault handler).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kmirror.common.errors import KmirrorError
from kmirror.common.metrics import MetricsRegistry
from kmirror.metadata.image import MetadataImage
from kmirror.metadata.loader import MetadataLoader
from kmirror.metadata.replay_error import MetadataReplayError
from kmirror.runtime.api import Runtime, TaskScope
from kmirror.server.broker_metadata_publisher import is_stray_replica
from kmirror.server.broker_metrics import metadata_batch_listener
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.metadata_fetcher import MetadataFetcher, MetadataProgress
from kmirror.server.node_to_controller_channel import NodeToControllerChannel
from kmirror.storage.unified_log import UnifiedLog


class BrokerMetadata:
    """Owns the metadata loader, the task that feeds it, and the progress of loading."""

    def __init__(self, runtime: Runtime, config: KafkaConfig, cluster_id: str, *, on_fatal: Callable[[str], None]) -> None:
        self._runtime = runtime
        self._broker_id = config.node_id
        self._listener_name = config.inter_broker_listener_name
        self._cluster_id = cluster_id
        self._on_fatal = on_fatal
        self._scope = TaskScope(runtime, f"broker-{config.node_id}-metadata", on_failure=self._failed)
        self.loader = MetadataLoader()
        self.progress = MetadataProgress(runtime)
        self._fetcher: MetadataFetcher | None = None
        self.errors = {"metadata-load-error-count": 0, "metadata-apply-error-count": 0}

    # -- questions
    # --------------------------------------------------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        return self.loader.image

    @property
    def records_behind(self) -> int:
        """Number of records of the controller's log that this broker knows of and has not applied
        yet.
        """
        return max(0, self.progress.high_watermark - self.loader.next_offset)

    def topic_config(self, topic: str) -> Mapping[str, str]:
        return self.image.configs.topic(topic)

    def broker_epoch_of(self, broker_id: int) -> int:
        broker = self.image.cluster.broker(broker_id)
        return -1 if broker is None else broker.epoch

    def address_of(self, broker_id: int) -> tuple[str, int] | None:
        """Returns host and port of a broker's inter-broker endpoint."""
        broker = self.image.cluster.broker(broker_id)
        endpoint = None if broker is None else broker.listeners.get(self._listener_name)
        return None if endpoint is None else (endpoint.host, endpoint.port)

    def is_stray(self, log: UnifiedLog) -> bool:
        return is_stray_replica(self.image.topics, log, broker_id=self._broker_id)

    # -- life
    # -------------------------------------------------------------------------------------------------------

    def start_fetching(self, channel: NodeToControllerChannel, metrics: MetricsRegistry) -> None:
        self._fetcher = MetadataFetcher(
            self._runtime,
            channel,
            self.loader,
            node_id=self._broker_id,
            cluster_id=self._cluster_id,
            on_progress=self.progress.update,
            on_batch=metadata_batch_listener(metrics),
        )
        self._scope.spawn(self._fetcher.run(), name="metadata-fetcher")

    @property
    def problem(self) -> str | None:
        """Why no metadata comes from the controller; None if nothing is known to be the matter."""
        return None if self._fetcher is None else self._fetcher.problem

    async def stop_fetching(self) -> None:
        await self._scope.cancel()

    def _failed(self, name: str, error: BaseException) -> None:
        is_loading = isinstance(error, KmirrorError) and not isinstance(error, MetadataReplayError)
        self.errors["metadata-load-error-count" if is_loading else "metadata-apply-error-count"] += 1
        self._runtime.report_failure(f"task {name} failed", error)
        self._on_fatal(f"Error applying metadata: {error!r}")
