"""Every request of a broker listener comes in here: version check, decoding, routing, error answers (Kafka's `KafkaApis`).

A handler is `async def handle_x(apis, request) -> message | NO_RESPONSE | CLOSE_CONNECTION`; a file of handlers ends with
`HANDLERS`, a dict by API key. What is registered, and no more, is what ApiVersions advertises, in the versions that
`ServedVersions` gives; `register` adds the handlers of rooms that are present on this broker (groups, mirror).

What goes wrong, and the answer that Kafka gives
* a version that is not served, an API without a handler, a body that does not decode: the connection is closed, with one
  line in the log. ApiVersions above our version is answered in version 0 with UNSUPPORTED_VERSION, so a client can step down
* an `ApiException` out of a handler: the API's response with that error everywhere an error goes (`error_responses`)
* an answer that the version cannot carry: the connection is closed, with a line in the log
* bytes behind the last field are ignored (librdkafka sends some)

Requests that change metadata go to the controller (`apis.forwarded`). After the handler `RequestThrottler` asks the quotas, and the
`Answer` carries the throttle time to the connection; when the response is sent, `RequestMetrics` and the request log hear of it.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

from kmirror.common.acl import AclOperation, ResourceType
from kmirror.common.errors import ApiException, Errors
from kmirror.common.metrics import MetricsRegistry
from kmirror.coordinator.share.share_coordinator import ShareCoordinator
from kmirror.metadata.authorizer.auth_helper import AuthHelper
from kmirror.metadata.authorizer.authorizer import Authorizer
from kmirror.network.request_context import CLOSE, Answer, CloseType, RequestContext
from kmirror.replica.fetch_session import FetchManager, FetchSessionCache
from kmirror.replica.replica_manager import ReplicaManager
from kmirror.runtime.api import Runtime
from kmirror.server.apis.forwarded import FORWARDED
from kmirror.server.auto_topic_creation import AutoTopicCreationManager
from kmirror.server.client_metrics_manager import ClientMetricsManager
from kmirror.server.controller_channel import ControllerChannel
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.metadata_cache import MetadataCache
from kmirror.server.producer_id_manager import ProducerIdManager
from kmirror.server.quota.quota_managers import QuotaManagers
from kmirror.server.request_context import CLOSE_CONNECTION, NO_RESPONSE, Request
from kmirror.server.request_frames import Parts, decode, encode
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


DELEGATION_TOKEN_APIS = (
    ApiKeys.CREATE_DELEGATION_TOKEN,
    ApiKeys.RENEW_DELEGATION_TOKEN,
    ApiKeys.EXPIRE_DELEGATION_TOKEN,
    ApiKeys.DESCRIBE_DELEGATION_TOKEN,
)
SHARE_GROUP_STATE_APIS = (
    ApiKeys.INITIALIZE_SHARE_GROUP_STATE,
    ApiKeys.READ_SHARE_GROUP_STATE,
    ApiKeys.WRITE_SHARE_GROUP_STATE,
    ApiKeys.DELETE_SHARE_GROUP_STATE,
    ApiKeys.READ_SHARE_GROUP_STATE_SUMMARY,
)
HANDLER_MODULES: dict[ApiKeys, str] = {
    ApiKeys.PRODUCE: "produce",
    ApiKeys.FETCH: "fetch",
    ApiKeys.LIST_OFFSETS: "list_offsets",
    ApiKeys.METADATA: "metadata",
    ApiKeys.FIND_COORDINATOR: "find_coordinator",
    ApiKeys.API_VERSIONS: "api_versions",
    **dict.fromkeys((ApiKeys.SASL_HANDSHAKE, ApiKeys.SASL_AUTHENTICATE), "sasl"),
    **dict.fromkeys((ApiKeys.DESCRIBE_USER_SCRAM_CREDENTIALS, ApiKeys.ALTER_USER_SCRAM_CREDENTIALS), "scram"),
    **dict.fromkeys(DELEGATION_TOKEN_APIS, "delegation_tokens"),
    ApiKeys.DELETE_RECORDS: "delete_records",
    **dict.fromkeys((ApiKeys.INIT_PRODUCER_ID, ApiKeys.ADD_PARTITIONS_TO_TXN, ApiKeys.ADD_OFFSETS_TO_TXN, ApiKeys.END_TXN), "transactions"),
    ApiKeys.TXN_OFFSET_COMMIT: "txn_offset_commit",
    ApiKeys.WRITE_TXN_MARKERS: "write_txn_markers",
    **dict.fromkeys((ApiKeys.DESCRIBE_TRANSACTIONS, ApiKeys.LIST_TRANSACTIONS), "describe_transactions"),
    **dict.fromkeys(SHARE_GROUP_STATE_APIS, "share_group_state"),
    ApiKeys.OFFSET_FOR_LEADER_EPOCH: "offset_for_leader_epoch",
    ApiKeys.DESCRIBE_CONFIGS: "describe_configs",
    ApiKeys.DESCRIBE_LOG_DIRS: "describe_log_dirs",
    ApiKeys.ALTER_REPLICA_LOG_DIRS: "alter_replica_log_dirs",
    ApiKeys.DESCRIBE_CLUSTER: "describe_cluster",
    ApiKeys.DESCRIBE_PRODUCERS: "describe_producers",
    ApiKeys.LIST_CONFIG_RESOURCES: "list_config_resources",
    ApiKeys.DESCRIBE_CLIENT_QUOTAS: "describe_client_quotas",
    ApiKeys.DESCRIBE_TOPIC_PARTITIONS: "describe_topic_partitions",
    **dict.fromkeys((ApiKeys.DESCRIBE_ACLS, ApiKeys.CREATE_ACLS, ApiKeys.DELETE_ACLS), "acls"),
    **dict.fromkeys(FORWARDED, "forwarded"),
}
"""The APIs of every broker and the file in `server/apis` that handles each; imported with the first request for it, so that
a broker does not start more slowly because of what nobody asks."""


class KafkaApis:
    """What handlers work on. `group_coordinator` and `mirror` are None on a broker that has none; their rooms set them."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        config: KafkaConfig,
        cluster_id: str,
        replica_manager: ReplicaManager,
        metadata_cache: MetadataCache,
        controller: ControllerChannel,
        metrics: MetricsRegistry,
        authorizer: Authorizer | None = None,
        group_coordinator: Any = None,
        transaction_coordinator: Any = None,
        add_partitions_to_txn: Any = None,
        share_coordinator: ShareCoordinator | None = None,
        mirror: Any = None,
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
        self.client_metrics: ClientMetricsManager | None = None
        self.auth = AuthHelper(authorizer)
        self.group_coordinator = group_coordinator
        self.transaction_coordinator = transaction_coordinator
        self.add_partitions_to_txn = add_partitions_to_txn
        self.share_coordinator = share_coordinator
        self.mirror = mirror
        self.served = ServedVersions(unstable=config.unstable_api_versions_enable)
        self.auto_topic_creation = AutoTopicCreationManager(runtime, config, controller)
        self.producer_ids = ProducerIdManager(config.node_id, controller)
        changes = replica_manager.purgatories.follower_fetches.changes
        cache = FetchSessionCache(config.max_incremental_fetch_session_cache_slots, runtime.clock, runtime.random, changes=changes)
        self.fetch_manager = FetchManager(cache, metrics)
        self._handlers: dict[ApiKeys, Handler] = {}
        self.served.add(HANDLER_MODULES)

    def register(self, handlers: Mapping[ApiKeys, Handler]) -> None:
        """Serve (and advertise) these APIs, too."""
        self._handlers.update(handlers)
        self.served.add(handlers)

    async def handle(self, context: RequestContext) -> Answer | CloseType:
        """The handler of a `SocketServer`: an `Answer` (without parts where none is sent), or CLOSE."""
        now_ns = self.runtime.clock.monotonic_ns
        timing = RequestTiming(arrived_ns=context.arrived_ns, started_ns=now_ns())
        return await timed(self._handle(context, timing), timing, now_ns)

    async def _handle(self, context: RequestContext, timing: RequestTiming) -> Answer | CloseType:
        api_key = ApiKeys(context.header.api_key)
        handler = self._handler(api_key)
        request = decode(context, timing, is_served=handler is not None and self.served.is_served(api_key, context.header.api_version))
        if handler is None or not isinstance(request, Request):
            assert not isinstance(request, Request), f"{api_key!r} is served without a handler"
            return request
        response = await self.respond(handler, request)
        throttle_time_ms = self.throttler.throttle(request, response) if self.quotas.enabled else 0
        if response is CLOSE_CONNECTION:
            self._completed(request, response, 0, 0)
            return CLOSE
        parts: Parts | None = None
        if response is not NO_RESPONSE:
            encoded = encode(context, request, response)
            if encoded is CLOSE:
                return CLOSE
            parts = encoded
        return Answer(parts, throttle_time_ms, lambda send_ns: self._completed(request, response, throttle_time_ms, send_ns))

    def _completed(self, request: Request, response: Any, throttle_time_ms: int, send_ns: int) -> None:
        """The response was sent (or the connection closed instead): count, and log where that is asked for."""
        if self.quotas.enabled:
            self.throttler.sent(request, send_ns)
        self.request_metrics.completed(request, response, throttle_time_ms=throttle_time_ms, send_ns=send_ns)
        if REQUEST_LOGGER.isEnabledFor(logging.DEBUG):
            log_completed(request, response, throttle_time_ms=throttle_time_ms, send_ns=send_ns)

    async def respond(self, handler: Handler, request: Request) -> Any:
        """The handler's answer, or the API's answer to the error that it raised."""
        try:
            return await handler(self, request)
        except ApiException as error:
            if error.error is Errors.UNKNOWN_SERVER_ERROR:
                _log.error("Unexpected error handling %s from %s: %s", request.api_key.name, request.client_address, error.message)
            return self._error_response(request, error)

    def _error_response(self, request: Request, error: ApiException) -> Any:
        """What the API has for an error of the whole request; an API that has nothing loses its connection, as in Kafka."""
        try:
            return error_response(request.api_key, request.api_version, request.message, error)
        except ApiException:
            _log.warning("Closing socket for %s: %s cannot answer %s", request.connection_id, request.api_key.name, error)
            return CLOSE_CONNECTION

    async def handle_message(self, request: Request) -> Any:
        """A decoded request, answered without a socket (requests between roles of one process, tests)."""
        handler = self._handler(request.api_key)
        assert handler is not None, f"{request.api_key!r} has no handler"
        return await self.respond(handler, request)

    def _handler(self, api_key: ApiKeys) -> Handler | None:
        handler = self._handlers.get(api_key)
        if handler is None and api_key in HANDLER_MODULES:
            module = importlib.import_module(f"kmirror.server.apis.{HANDLER_MODULES[api_key]}")
            handlers: dict[ApiKeys, Handler] = module.HANDLERS
            handler = self._handlers[api_key] = handlers[api_key]
        return handler

    def authorize(self, request: Request, operation: AclOperation, resource_type: ResourceType, resource_name: str) -> bool:
        return self.auth.authorize(request, operation, resource_type, resource_name)
