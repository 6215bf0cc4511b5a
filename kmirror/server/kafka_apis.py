"""Handles every request of a broker listener: versions, decoding, routing, errors (Kafka's
`KafkaApis`).

`broker_api_table` says for each API who answers it, by which handler, and behind which gate. A
handler is `async def handle_x(apis, request) -> message | NO_RESPONSE | CLOSE_CONNECTION`.
ApiVersions advertises exactly what the table serves with this broker's settings, in the versions
that `ServedVersions` gives.

What goes wrong, and the answer that Kafka gives
* a version that is not served, an API that is not served, a body that does not decode: the connection is closed, with one
  line in the log. ApiVersions above our version is answered in version 0 with UNSUPPORTED_VERSION, so a client can step down
* an `ApiException` of the gate, of the authorization or of the handler: the API's response with that error everywhere an
  error goes (`error_responses`)
* an answer that the version cannot carry: the connection is closed, with a line in the log
* bytes behind the last field are ignored (librdkafka sends some)

After the handler, `RequestThrottler` asks the quotas, and the `Answer` carries the throttle time to
the connection. When the response is sent, `RequestMetrics` and the request log record it.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Awaitable, Mapping
from typing import Any, Protocol, cast

from kmirror.common.acl import CLUSTER_NAME, AclOperation, ResourceType
from kmirror.common.errors import ApiException, Errors, IllegalArgumentException
from kmirror.common.metrics import MetricsRegistry
from kmirror.coordinator.group.group_coordinator import GroupCoordinator
from kmirror.coordinator.share.share_coordinator import ShareCoordinator
from kmirror.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from kmirror.metadata.authorizer.auth_helper import AuthHelper
from kmirror.metadata.authorizer.authorizer import Authorizer
from kmirror.mirror.mirror_manager import MirrorManager
from kmirror.network.request_context import CLOSE, Answer, CloseType, RequestContext
from kmirror.replica.fetch_session import FetchManager, FetchSessionCache
from kmirror.replica.replica_manager import ReplicaManager
from kmirror.runtime.api import Runtime
from kmirror.server.add_partitions_to_txn_manager import AddPartitionsToTxnManager
from kmirror.server.auto_topic_creation import AutoTopicCreationManager
from kmirror.server.broker_api_table import BROKER_API_TABLE, ROWS
from kmirror.server.client_metrics_manager import ClientMetricsManager
from kmirror.server.forwarding_channel import ForwardingChannel
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.metadata_cache import MetadataCache
from kmirror.server.producer_id_manager import ProducerIdManager
from kmirror.server.quota.quota_managers import QuotaManagers
from kmirror.server.request import CLOSE_CONNECTION, NO_RESPONSE, Request
from kmirror.server.request_frames import Parts, decode_fairly, encode_fairly
from kmirror.server.request_log import REQUEST_LOGGER, log_completed
from kmirror.server.request_metrics import RequestChannelMetrics
from kmirror.server.request_throttling import RequestThrottler
from kmirror.server.request_timing import RequestTiming, timed
from kmirror.server.served_versions import ServedVersions
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.error_responses import error_response

_log = logging.getLogger(__name__)


class Handler(Protocol):
    def __call__(self, apis: KafkaApis, request: Request, /) -> Awaitable[Any]: ...


class KafkaApis:
    """What handlers work on; owns fetch sessions, topic creations, producer ids and throttling.

    Coordinators and mirror are None on a broker without them (tests).
    """

    def __init__(
        self,
        *,
        runtime: Runtime,
        config: KafkaConfig,
        cluster_id: str,
        replica_manager: ReplicaManager,
        metadata_cache: MetadataCache,
        controller: ForwardingChannel,
        metrics: MetricsRegistry,
        authorizer: Authorizer | None = None,
        group_coordinator: GroupCoordinator | None = None,
        transaction_coordinator: TransactionCoordinator | None = None,
        add_partitions_to_txn: AddPartitionsToTxnManager | None = None,
        share_coordinator: ShareCoordinator | None = None,
        mirror: MirrorManager | None = None,
        client_metrics: ClientMetricsManager | None = None,
        quotas: QuotaManagers | None = None,
        request_metrics: RequestChannelMetrics | None = None,
    ) -> None:
        self.runtime = runtime
        self.config = config
        self.cluster_id = cluster_id
        self.replica_manager = replica_manager
        self.metadata_cache = metadata_cache
        self.controller = controller
        self.metrics = metrics
        self.quotas = quotas or QuotaManagers(config, metrics, runtime.clock)
        self.throttler = RequestThrottler(self.quotas, runtime.clock)
        self.request_metrics = request_metrics or RequestChannelMetrics(metrics, runtime.clock)
        self.client_metrics = client_metrics
        self.auth = AuthHelper(authorizer)
        self.group_coordinator = group_coordinator
        self.transaction_coordinator = transaction_coordinator
        self.add_partitions_to_txn = add_partitions_to_txn
        self.share_coordinator = share_coordinator
        self.mirror = mirror
        api_keys = [row.api_key for row in ROWS if row.is_served(config)]
        self.served = ServedVersions(api_keys, unstable=config.unstable_api_versions_enable)
        self.auto_topic_creation = AutoTopicCreationManager(runtime, config, controller)
        self.producer_ids = ProducerIdManager(config.node_id, controller)
        changes = replica_manager.purgatories.follower_fetches.changes
        cache = FetchSessionCache(config.max_incremental_fetch_session_cache_slots, runtime.clock, runtime.random, changes=changes)
        self.fetch_manager = FetchManager(cache, metrics)
        self._handlers: dict[ApiKeys, Handler] = {}

    def replace_handlers(self, handlers: Mapping[ApiKeys, Handler]) -> None:
        """Answers these APIs with other handlers than the table's, for example with a recorder."""
        self._handlers.update(handlers)

    async def handle(self, context: RequestContext) -> Answer | CloseType:
        """Handles a frame of a `SocketServer`: returns an `Answer` (without parts if none is sent)
        or CLOSE.
        """
        now_ns = self.runtime.clock.monotonic_ns
        timing = RequestTiming(arrived_ns=context.arrived_ns, started_ns=now_ns())
        return await timed(self._handle(context, timing), timing, now_ns)

    async def _handle(self, context: RequestContext, timing: RequestTiming) -> Answer | CloseType:
        header = context.header
        is_served = self.served.is_served(ApiKeys(header.api_key), header.api_version)
        request = await decode_fairly(self.runtime, context, timing, is_served=is_served)
        if not isinstance(request, Request):
            return request
        response = await self.respond(request)
        throttle_time_ms = self.throttler.throttle(request, response) if self.quotas.enabled else 0
        if response is CLOSE_CONNECTION:
            self._completed(request, response, 0, 0)
            return CLOSE
        parts: Parts | None = None
        if response is not NO_RESPONSE:
            encoded = await encode_fairly(self.runtime, context, request, response)
            if encoded is CLOSE:
                return CLOSE
            parts = encoded
        return Answer(parts, throttle_time_ms, lambda send_ns: self._completed(request, response, throttle_time_ms, send_ns))

    def _completed(self, request: Request, response: Any, throttle_time_ms: int, send_ns: int) -> None:
        """Counts a request whose response was sent or whose connection was closed instead.

        Logs it if the request log is on.
        """
        if self.quotas.enabled:
            self.throttler.sent(request, send_ns)
        self.request_metrics.completed(request, response, throttle_time_ms=throttle_time_ms, send_ns=send_ns)
        if REQUEST_LOGGER.isEnabledFor(logging.DEBUG):
            log_completed(request, response, throttle_time_ms=throttle_time_ms, send_ns=send_ns)

    async def respond(self, request: Request) -> Any:
        """Returns the answer to a decoded request, or the API's answer to its error.

        Tests also pass requests here that came over no socket.
        """
        row = BROKER_API_TABLE[request.api_key]
        try:
            if row.gate is not None:
                row.gate.check(self.config, self.metadata_cache.image)
            if row.is_cluster_action and not self.authorize(request, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
                raise ApiException(Errors.CLUSTER_AUTHORIZATION_FAILED)
            return await self.handler_of(request.api_key)(self, request)
        except ApiException as error:
            if error.error is Errors.UNKNOWN_SERVER_ERROR and not isinstance(error, IllegalArgumentException):
                _log.error("Unexpected error handling %s from %s: %s", request.api_key.name, request.client_address, error.message)
            return self._error_response(request, error)

    def _error_response(self, request: Request, error: ApiException) -> Any:
        """Returns the API's response to an error of the whole request.

        For an API without such a response the connection is closed, as in Kafka.
        """
        try:
            return error_response(request.api_key, request.api_version, request.message, error)
        except ApiException:
            _log.warning("Closing socket for %s: %s has no response for the error %s", request.connection_id, request.api_key.name, error)
            return CLOSE_CONNECTION

    def handler_of(self, api_key: ApiKeys) -> Handler:
        """Returns the table's handler, or the one that replaces it."""
        handler = self._handlers.get(api_key)
        if handler is None:
            name = BROKER_API_TABLE[api_key].handler_name
            assert name, f"{api_key!r} is served without a handler"
            file, _, function = name.partition(".")
            module = importlib.import_module(f"kmirror.server.apis.{file}")
            handler = self._handlers[api_key] = cast(Handler, getattr(module, function))
        return handler

    def authorize(self, request: Request, operation: AclOperation, resource_type: ResourceType, resource_name: str) -> bool:
        return self.auth.authorize(request, operation, resource_type, resource_name)
