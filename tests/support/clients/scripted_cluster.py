"""A cluster of scripted brokers on the simulated network, and a client's runtime beside it.

Each broker answers ApiVersions with the ranges that a test allows, Metadata and FindCoordinator
from this object's fields, and everything else with the handler that the test has set for the API.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kmirror.clients.client_config import ClientConfig, common_config_def
from kmirror.common.errors import Errors
from kmirror.common.uuid import Uuid
from kmirror.network.request_context import Answer, RequestContext
from kmirror.network.socket_server import SocketServer
from kmirror.sim.loop import SimLoop
from kmirror.sim.runtime import SimWorld
from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.framing import encode_response, read_request
from kmirror.wire.messages.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from kmirror.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from kmirror.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

PORT = 9092
NO_ANSWER = object()
"""What a handler returns to leave a request without an answer; the connection stays open."""


@dataclass
class ScriptedTopic:
    """Leaders by partition, with their epochs."""

    leaders: dict[int, int]
    epochs: dict[int, int] = field(default_factory=dict)
    topic_id: Uuid = Uuid.ZERO
    error: Errors = Errors.NONE


class ScriptedCluster:
    """Brokers `broker-<id>`, and a client on the node "client". Close it at a test's end."""

    def __init__(self, brokers: int = 1, *, seed: int = 5) -> None:
        self.world = SimWorld(SimLoop(seed))
        self.topics: dict[str, ScriptedTopic] = {}
        self.ranges: dict[int, tuple[int, int]] = {int(key): (spec.lowest, spec.highest) for key, spec in API_TABLE.items()}
        self.features: dict[str, int] = {}
        self.handlers: dict[int, Callable] = {}
        self.coordinator_of: Callable[[str], int] = lambda key: 0
        self.coordinator_error = Errors.NONE
        self.metadata_error = Errors.NONE
        self.named: list[int] = list(range(brokers))
        self.requests: list[tuple[int, RequestContext, object]] = []
        self.runtime = self.world.node("client").boot()
        for node_id in range(brokers):
            self.start(node_id)

    def start(self, node_id: int) -> None:
        node = self.world.node(f"broker-{node_id}")
        runtime = node.boot()

        async def handle(context: RequestContext):
            return await self._handle(node_id, runtime, context)

        server = SocketServer(runtime, "PLAINTEXT", "", PORT, handle)
        self.world.loop.run_until_complete(runtime.spawn(server.start(), name="start"))

    def stop(self, node_id: int) -> None:
        self.world.node(f"broker-{node_id}").kill()

    def run(self, coroutine):
        """The coroutine's result, on the client's node."""
        return self.world.loop.run_until_complete(self.runtime.spawn(coroutine, name="test"))

    def run_ms(self, duration_ms: int) -> None:
        self.world.loop.run_for_us(duration_ms * 1000)

    def config(self, *bootstrap: int, **settings) -> ClientConfig:
        """A client's configuration; an underscore in a name stands for a dot."""
        return ClientConfig(common_config_def(), self.props(*bootstrap, **settings), self.runtime)

    def props(self, *bootstrap: int, **settings) -> dict[str, str]:
        servers = ",".join(f"broker-{node_id}:{PORT}" for node_id in bootstrap or (0,))
        return {"bootstrap.servers": servers} | {name.replace("_", "."): str(value) for name, value in settings.items()}

    def asked(self, api_key: int) -> list:
        """Requests of this API so far: (broker, message)."""
        return [(node_id, message) for node_id, context, message in self.requests if context.header.api_key == api_key]

    def close(self) -> None:
        failures = self.world.loop.failures
        self.world.close()
        assert failures == [], failures

    async def _handle(self, node_id: int, runtime, context: RequestContext):
        header = context.header
        if header.api_key == ApiKeys.API_VERSIONS:
            rows = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in self.ranges.items()]
            features = [FinalizedFeatureKey(name=name, max_version_level=level) for name, level in self.features.items()]
            return self._encoded(header, ApiVersionsResponse(api_keys=rows, finalized_features=features))
        message = read_request(header, context.buffer, context.position)
        self.requests.append((node_id, context, message))
        if header.api_key in self.handlers:
            answer = self.handlers[header.api_key](node_id, message)
            if hasattr(answer, "__await__"):
                answer = await answer
        elif header.api_key == ApiKeys.METADATA:
            answer = self.metadata_response(message)
        elif header.api_key == ApiKeys.FIND_COORDINATOR:
            answer = self._coordinator_response(header.api_version, message)
        else:
            raise AssertionError(f"no handler for API {header.api_key}")
        if answer is None:
            return Answer(None)
        if answer is NO_ANSWER:
            await runtime.sleep_ms(3_600_000)
        return self._encoded(header, answer)

    def _encoded(self, header, message) -> list:
        return encode_response(header.api_key, header.api_version, header.correlation_id, message)

    def metadata_response(self, request) -> MetadataResponse:
        names = sorted(self.topics) if request.topics is None else [topic.name for topic in request.topics]
        return MetadataResponse(
            error_code=self.metadata_error,
            cluster_id="scripted",
            brokers=[MetadataResponseBroker(node_id=node_id, host=f"broker-{node_id}", port=PORT) for node_id in self.named],
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        topic = self.topics.get(name)
        if topic is None:
            return MetadataResponseTopic(error_code=Errors.UNKNOWN_TOPIC_OR_PARTITION, name=name)
        if topic.error:
            return MetadataResponseTopic(error_code=topic.error, name=name)
        partitions = [
            MetadataResponsePartition(
                partition_index=number,
                leader_id=leader,
                leader_epoch=topic.epochs.get(number, 0),
                replica_nodes=list(self.named),
                isr_nodes=list(self.named),
            )
            for number, leader in sorted(topic.leaders.items())
        ]
        return MetadataResponseTopic(name=name, topic_id=topic.topic_id, partitions=partitions)

    def _coordinator_response(self, version: int, request) -> FindCoordinatorResponse:
        keys = request.coordinator_keys or [request.key]
        rows = [self._coordinator(key) for key in keys]
        if version >= 4:
            return FindCoordinatorResponse(coordinators=rows)
        row = rows[0]
        return FindCoordinatorResponse(
            error_code=row.error_code, error_message=row.error_message, node_id=row.node_id, host=row.host, port=row.port
        )

    def _coordinator(self, key: str) -> Coordinator:
        if self.coordinator_error:
            return Coordinator(key=key, node_id=-1, error_code=self.coordinator_error, error_message=None)
        node_id = self.coordinator_of(key)
        return Coordinator(key=key, node_id=node_id, host=f"broker-{node_id}", port=PORT)
