"""The requests of the controller listener (Kafka's `ControllerApis`), without sockets.

Brokers forward client requests by Envelope, as Kafka's do: the envelope carries the client's
principal and address and the request's bytes with its header; the answer carries the response's
bytes with its header. Requests that brokers make for themselves (registration, heartbeat,
AlterPartition, AllocateProducerIds, Fetch of the metadata log, BumpLeaderEpochs) come without an
envelope. A request without an envelope counts as a broker's own: it may change topics that a mirror
owns, and internal configs.

`ControllerServer` (in `server`) owns the socket: it reads header and message with `wire.framing`
and calls `handle`.

`ControllerServer` answers DescribeConfigs (`register`). The requests among several voters (Vote,
BeginQuorumEpoch ...) are not served, since there is one voter; `raft_voters` answers AddRaftVoter,
RemoveRaftVoter and UpdateRaftVoter.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from kmirror.common.acl import AclOperation
from kmirror.common.errors import ApiException, Errors
from kmirror.common.kafka_principal import KafkaPrincipal
from kmirror.common.topic_partition import CLUSTER_METADATA_TOPIC_NAME
from kmirror.controller.controller_authorization import check_request
from kmirror.controller.controller_result import ControllerResult
from kmirror.controller.metadata_log_apis import MetadataLogApis
from kmirror.controller.mutation_quota import (
    NEVER_STRICT,
    STRICT_SINCE_CREATE_PARTITIONS,
    STRICT_SINCE_CREATE_TOPICS,
    STRICT_SINCE_DELETE_TOPICS,
    UNBOUNDED,
    ControllerMutationQuota,
    MutationQuotas,
)
from kmirror.controller.quorum_controller import QuorumController
from kmirror.controller.raft_voters import RaftVoters
from kmirror.controller.request_context import ControllerRequestContext
from kmirror.metadata.authorizer.acl_descriptions import NO_AUTHORIZER, describe_acls
from kmirror.metadata.authorizer.auth_helper import AuthHelper
from kmirror.metadata.authorizer.authorizer import Authorizer
from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.error_responses import error_response
from kmirror.wire.framing import RequestHeader, encode_response, read_request, read_request_header
from kmirror.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey
from kmirror.wire.messages.default_principal_data import DefaultPrincipalData
from kmirror.wire.messages.delete_topics import DeleteTopicState
from kmirror.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from kmirror.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse
from kmirror.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from kmirror.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from kmirror.wire.messages.sasl_handshake import SaslHandshakeResponse
from kmirror.wire.mirror_dialect import MIRROR_API_KEYS, mirror_dialect
from kmirror.wire.primitives import ProtocolReadError

Request = TypeVar("Request")
Handler = Callable[[RequestHeader, Any, ControllerRequestContext], Awaitable[Any]]
FIRST_DELETE_TOPICS_WITH_CODE = 3
"""The first version whose clients know TOPIC_DELETION_DISABLED."""
HEED_TIMEOUT = (
    ApiKeys.CREATE_TOPICS,
    ApiKeys.DELETE_TOPICS,
    ApiKeys.CREATE_PARTITIONS,
    ApiKeys.ELECT_LEADERS,
    ApiKeys.ALTER_PARTITION_REASSIGNMENTS,
)
"""A `timeout_ms` of 0 or less leaves these requests no time to do anything."""
ENDPOINT_TYPE_BROKERS, ENDPOINT_TYPE_CONTROLLERS = 1, 2


class ControllerApis:
    """`await handle(header, message, context)` returns the response message of the same API and
    version."""

    def __init__(
        self, controller: QuorumController, authorizer: Authorizer | None = None, mutation_quotas: MutationQuotas | None = None
    ) -> None:
        self.controller = controller
        self.mutation_quotas = mutation_quotas
        self.auth = AuthHelper(authorizer)
        self.metadata_log = MetadataLogApis(controller)
        self._handlers = self._make_handlers()
        self._versions = self._served_versions()

    def _make_handlers(self) -> dict[ApiKeys, Handler]:
        c, log, voters = self.controller, self.metadata_log, RaftVoters(self.controller)
        decide: dict[ApiKeys, Callable[[RequestHeader, Any, bool], ControllerResult[Any]]] = {
            ApiKeys.ALTER_CLIENT_QUOTAS: lambda header, request, by_broker: c.client_quotas.alter_client_quotas(request),
            ApiKeys.ELECT_LEADERS: lambda header, request, by_broker: c.replication.elections.elect_leaders(request),
            ApiKeys.ALTER_PARTITION_REASSIGNMENTS: lambda header, request, by_broker: (
                c.replication.reassignments.alter_partition_reassignments(request)
            ),
            ApiKeys.LIST_PARTITION_REASSIGNMENTS: lambda header, request, by_broker: ControllerResult(
                [], c.replication.reassignments.list_partition_reassignments(request)
            ),
            ApiKeys.ALTER_PARTITION: lambda header, request, by_broker: c.replication.reports.alter_partition(request, header.api_version),
            ApiKeys.ASSIGN_REPLICAS_TO_DIRS: lambda header, request, by_broker: c.replication.reports.assign_replicas_to_dirs(request),
            ApiKeys.INCREMENTAL_ALTER_CONFIGS: lambda header, request, by_broker: c.configuration.incremental_alter_configs(
                request, by_broker=by_broker
            ),
            ApiKeys.ALTER_CONFIGS: lambda header, request, by_broker: c.configuration.alter_configs(request, by_broker=by_broker),
            ApiKeys.UPDATE_FEATURES: lambda header, request, by_broker: c.features.update_features(request, header.api_version),
            ApiKeys.BROKER_REGISTRATION: lambda header, request, by_broker: c.cluster.register_broker(request),
            ApiKeys.BROKER_HEARTBEAT: lambda header, request, by_broker: c.cluster.heartbeat(request),
            ApiKeys.UNREGISTER_BROKER: lambda header, request, by_broker: c.cluster.unregister_broker(request.broker_id),
            ApiKeys.CONTROLLER_REGISTRATION: lambda header, request, by_broker: c.cluster.register_controller(request),
            ApiKeys.ALLOCATE_PRODUCER_IDS: lambda header, request, by_broker: c.producer_ids.allocate(request),
            ApiKeys.ALTER_USER_SCRAM_CREDENTIALS: lambda header, request, by_broker: c.scram.alter_credentials(request),
            ApiKeys.CREATE_ACLS: lambda header, request, by_broker: c.acls.create_acls(_with_authorizer(self.auth, request)),
            ApiKeys.DELETE_ACLS: lambda header, request, by_broker: c.acls.delete_acls(_with_authorizer(self.auth, request)),
            ApiKeys.DELETE_MIRROR: lambda header, request, by_broker: c.mirrors.delete_mirror(request),
            ApiKeys.ADD_TOPICS_TO_MIRROR: lambda header, request, by_broker: c.mirrors.add_topics(request),
            ApiKeys.REMOVE_TOPICS_FROM_MIRROR: lambda header, request, by_broker: c.mirrors.remove_topics(request),
            ApiKeys.PAUSE_MIRROR_TOPICS: lambda header, request, by_broker: c.mirrors.pause_topics(request),
            ApiKeys.RESUME_MIRROR_TOPICS: lambda header, request, by_broker: c.mirrors.resume_topics(request),
            ApiKeys.BUMP_LEADER_EPOCHS: lambda header, request, by_broker: c.mirrors.bump_leader_epochs(request),
        }
        handlers: dict[ApiKeys, Handler] = {key: self._write_handler(key.name, decision) for key, decision in decide.items()}
        handlers |= {
            ApiKeys.CREATE_TOPICS: self._mutation_handler(
                STRICT_SINCE_CREATE_TOPICS, lambda request, by_broker, quota: c.replication.create_topics(request, quota=quota)
            ),
            ApiKeys.DELETE_TOPICS: self._unless_deletion_is_disabled(
                self._mutation_handler(
                    STRICT_SINCE_DELETE_TOPICS,
                    lambda request, by_broker, quota: c.replication.delete_topics(request, by_broker=by_broker, quota=quota),
                )
            ),
            ApiKeys.CREATE_PARTITIONS: self._mutation_handler(
                STRICT_SINCE_CREATE_PARTITIONS,
                lambda request, by_broker, quota: c.replication.create_partitions(request, by_broker=by_broker, quota=quota),
            ),
            ApiKeys.CREATE_MIRROR: self._mutation_handler(
                NEVER_STRICT, lambda request, by_broker, quota: c.mirrors.create_mirror(request, quota=quota)
            ),
            ApiKeys.READ_MIRROR_STATES: self._mirror_states,
            ApiKeys.WRITE_MIRROR_STATES: self._mirror_states,
            ApiKeys.FETCH: lambda header, request, context: log.fetch(request),
            ApiKeys.FETCH_SNAPSHOT: lambda header, request, context: log.fetch_snapshot(request),
            ApiKeys.DESCRIBE_QUORUM: lambda header, request, context: log.describe_quorum(request, header.api_version),
            ApiKeys.ADD_RAFT_VOTER: lambda header, request, context: voters.add(request),
            ApiKeys.REMOVE_RAFT_VOTER: lambda header, request, context: voters.remove(request),
            ApiKeys.UPDATE_RAFT_VOTER: lambda header, request, context: voters.update(request),
            ApiKeys.CREATE_DELEGATION_TOKEN: self._token_handler("createDelegationToken", c.delegation_tokens.create_token),
            ApiKeys.RENEW_DELEGATION_TOKEN: self._token_handler("renewDelegationToken", c.delegation_tokens.renew_token),
            ApiKeys.EXPIRE_DELEGATION_TOKEN: self._token_handler("expireDelegationToken", c.delegation_tokens.expire_token),
            ApiKeys.SASL_HANDSHAKE: self._sasl_handshake,
            ApiKeys.SASL_AUTHENTICATE: self._sasl_authenticate,
            ApiKeys.API_VERSIONS: self._api_versions,
            ApiKeys.DESCRIBE_CLUSTER: self._describe_cluster,
            ApiKeys.DESCRIBE_ACLS: self._describe_acls,
            ApiKeys.ENVELOPE: self._envelope,
        }
        return handlers

    def _unless_deletion_is_disabled(self, delete_topics: Handler) -> Handler:
        """delete.topic.enable=false refuses the whole request."""

        async def handle(header: RequestHeader, request: Any, context: ControllerRequestContext) -> Any:
            if self.controller.config.delete_topic_enable:
                return await delete_topics(header, request, context)
            has_code = header.api_version >= FIRST_DELETE_TOPICS_WITH_CODE
            error = Errors.TOPIC_DELETION_DISABLED if has_code else Errors.INVALID_REQUEST
            raise ApiException(error, Errors.TOPIC_DELETION_DISABLED.message)

        return handle

    def register(self, key: ApiKeys, handler: Handler) -> None:
        """Serves an API that another room answers."""
        self._handlers[key] = handler
        self._versions = self._served_versions()

    def _write_handler(self, name: str, decision: Callable[[RequestHeader, Any, bool], ControllerResult[Any]]) -> Handler:
        async def handle(header: RequestHeader, request: Any, context: ControllerRequestContext) -> Any:
            return await self.controller.write(name, lambda: decision(header, request, context.is_broker))

        return handle

    def _token_handler(self, name: str, decision: Callable[[Any, KafkaPrincipal], ControllerResult[Any]]) -> Handler:
        async def handle(header: RequestHeader, request: Any, context: ControllerRequestContext) -> Any:
            return await self.controller.write(name, lambda: decision(request, context.principal))

        return handle

    async def _mirror_states(self, header: RequestHeader, request: Any, context: ControllerRequestContext) -> Any:
        """Refuses ReadMirrorStates and WriteMirrorStates: their schemas list this listener, but
        brokers hold the states (KIP-1279)."""
        raise ApiException(Errors.UNSUPPORTED_VERSION, "The states of mirrors are kept by brokers.")

    async def _sasl_handshake(self, header: RequestHeader, request: Any, context: ControllerRequestContext) -> SaslHandshakeResponse:
        """Refuses the request: `network` handles the login, so one that comes here was not
        expected."""
        return SaslHandshakeResponse(error_code=Errors.ILLEGAL_SASL_STATE)

    async def _sasl_authenticate(self, header: RequestHeader, request: Any, context: ControllerRequestContext) -> SaslAuthenticateResponse:
        text = "SaslAuthenticate request received after successful authentication"
        return SaslAuthenticateResponse(error_code=Errors.ILLEGAL_SASL_STATE, error_message=text)

    def _mutation_handler(
        self, strict_since: int, decision: Callable[[Any, bool, ControllerMutationQuota], ControllerResult[Any]]
    ) -> Handler:
        """Wraps a write that takes permits of the client's controller mutation quota, strictly from
        version `strict_since` on (KIP-599)."""

        async def handle(header: RequestHeader, request: Any, context: ControllerRequestContext) -> Any:
            quota: ControllerMutationQuota = UNBOUNDED
            if self.mutation_quotas is not None and not context.is_broker:
                is_strict = header.api_version >= strict_since
                quota = self.mutation_quotas.new_quota_for(context.principal, header.client_id or "", is_strict=is_strict)
            name = ApiKeys(header.api_key).name
            response = await self.controller.write(name, lambda: decision(request, context.is_broker, quota))
            response.throttle_time_ms = max(response.throttle_time_ms, quota.throttle_time_ms)
            return response

        return handle

    async def handle(self, header: RequestHeader, request: Any, context: ControllerRequestContext) -> Any:
        """Answers a request. It never raises for a bad request; every failure becomes a response
        with Kafka's error code."""
        key = ApiKeys(header.api_key)
        handler = self._handlers.get(key)
        try:
            if handler is None or key not in self.versions():
                raise ApiException(Errors.UNSUPPORTED_VERSION, f"The controller does not serve {key.name}.")
            if not self.controller.is_active and key is not ApiKeys.API_VERSIONS:
                raise ApiException(Errors.NOT_CONTROLLER, Errors.NOT_CONTROLLER.message)
            return await self._authorized(handler, header, request, replace(context, api_key=key))
        except ApiException as error:
            return error_response(key, header.api_version, request, error)

    async def _authorized(self, handler: Handler, header: RequestHeader, request: Any, context: ControllerRequestContext) -> Any:
        """Removes from the request what the context may not ask for, and answers it beside the
        rest."""
        if context.is_broker and not self.auth.may_on_cluster(context, AclOperation.CLUSTER_ACTION, log_if_denied=False):
            context = replace(context, is_broker=False)
        is_late = context.api_key in HEED_TIMEOUT and request.timeout_ms <= 0
        timed_out = _timed_out(context.api_key, header.api_version, request) if is_late else None
        refuse = check_request(self.auth, context.api_key, context, request, self.controller.image)
        if timed_out is not None and _asks_for_anything(context.api_key, request):
            return timed_out
        response = await handler(header, request, context)
        if refuse is not None:
            refuse(response)
        return response

    def versions(self) -> dict[ApiKeys, tuple[int, int]]:
        """API -> lowest and highest version that the controller listener serves and advertises."""
        return self._versions

    def _served_versions(self) -> dict[ApiKeys, tuple[int, int]]:
        unstable = self.controller.config.unstable_api_versions_enable
        served: dict[ApiKeys, tuple[int, int]] = {}
        for key in sorted(self._handlers):
            spec = API_TABLE[key]
            if key in MIRROR_API_KEYS and not unstable:
                continue
            highest = mirror_dialect().highest_version(key, mirroring=unstable)
            if spec.latest_unstable and highest == spec.highest and not unstable:
                highest -= 1
            served[key] = (spec.lowest, highest)
        return served

    def api_keys(self) -> list[int]:
        """Returns the keys that ApiVersions on this listener advertises."""
        return [int(key) for key in self.versions()]

    async def _api_versions(
        self, header: RequestHeader, request: ApiVersionsRequest, context: ControllerRequestContext
    ) -> ApiVersionsResponse:
        controller = self.controller
        image = controller.image
        supported = [
            SupportedFeatureKey(name=name, min_version=levels.min, max_version=levels.max)
            for name, levels in sorted(controller.features.supported().items())
            if levels.min > 0 or header.api_version >= 4
        ]
        finalized = sorted(controller.features.finalized().items())
        return ApiVersionsResponse(
            api_keys=[ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in self.versions().items()],
            supported_features=supported,
            finalized_features_epoch=image.highest_offset,
            finalized_features=[
                FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level) for name, level in finalized
            ],
        )

    async def _describe_cluster(
        self, header: RequestHeader, request: DescribeClusterRequest, context: ControllerRequestContext
    ) -> DescribeClusterResponse:
        controller = self.controller
        if request.endpoint_type != ENDPOINT_TYPE_CONTROLLERS:
            if request.endpoint_type != ENDPOINT_TYPE_BROKERS:
                raise ApiException(Errors.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {request.endpoint_type}")
            text = "The request was sent to an endpoint of type CONTROLLER, but we wanted an endpoint of type BROKER"
            raise ApiException(Errors.MISMATCHED_ENDPOINT_TYPE, text)
        endpoint = next((e for e in controller.config.listeners if e.name == context.listener_name), None)
        nodes = (
            [] if endpoint is None else [DescribeClusterBroker(broker_id=controller.config.node_id, host=endpoint.host, port=endpoint.port)]
        )
        return DescribeClusterResponse(
            endpoint_type=ENDPOINT_TYPE_CONTROLLERS,
            cluster_id=controller.config.cluster_id,
            controller_id=controller.config.node_id,
            brokers=nodes,
        )

    async def _describe_acls(
        self, header: RequestHeader, request: DescribeAclsRequest, context: ControllerRequestContext
    ) -> DescribeAclsResponse:
        if self.auth.authorizer is None:
            raise ApiException(Errors.SECURITY_DISABLED, NO_AUTHORIZER)
        return describe_acls(request, self.controller.image.acls.values())

    async def _envelope(self, header: RequestHeader, request: EnvelopeRequest, context: ControllerRequestContext) -> EnvelopeResponse:
        """Runs the enclosed request under the client's principal; the answer is the whole response
        as the client will read it."""
        data = memoryview(request.request_data)
        try:
            inner, position = read_request_header(data)
            if not API_TABLE[ApiKeys(inner.api_key)].forwardable:
                return EnvelopeResponse(error_code=Errors.INVALID_REQUEST)
            message = read_request(inner, data, position)
            principal = _read_principal(request.request_principal)
            address = str(ipaddress.ip_address(bytes(request.client_host_address)))
        except ValueError:
            return EnvelopeResponse(error_code=Errors.INVALID_REQUEST)
        except ProtocolReadError:
            return EnvelopeResponse(error_code=Errors.INVALID_REQUEST)
        except ApiException as error:
            return EnvelopeResponse(error_code=error.error)
        forwarded = replace(context, principal=principal, is_broker=False, forwarded=True, client_address=address)
        try:
            response = await self.handle(inner, message, forwarded)
        except ApiException as error:
            return EnvelopeResponse(error_code=error.error)
        if getattr(response, "error_code", 0) == Errors.NOT_CONTROLLER:
            return EnvelopeResponse(error_code=Errors.NOT_CONTROLLER)
        parts = encode_response(inner.api_key, inner.api_version, inner.correlation_id, response)
        frame = b"".join(bytes(part) if isinstance(part, (bytes, bytearray, memoryview)) else part.to_bytes() for part in parts)
        return EnvelopeResponse(response_data=frame[4:])


def _timed_out(api_key: ApiKeys, api_version: int, request: Any) -> Any:
    """The answer to a request that may not take any time: nothing is done, as in Kafka."""
    response = error_response(api_key, api_version, request, ApiException(Errors.REQUEST_TIMED_OUT))
    _clear_texts(response)
    return response


def _asks_for_anything(api_key: ApiKeys, request: Any) -> bool:
    """Whether a request of HEED_TIMEOUT has anything left to do; what is refused is not late.

    No list of partitions in ElectLeaders means all of them. Kafka refuses topics that come twice
    before it looks at the time.
    """
    if hasattr(request, "topic_partitions"):
        return request.topic_partitions is None or bool(request.topic_partitions)
    if api_key is ApiKeys.ALTER_PARTITION_REASSIGNMENTS:
        return bool(request.topics)
    return any(count == 1 for count in Counter(_topics_of(api_key, request)).values())


def _topics_of(api_key: ApiKeys, request: Any) -> Iterator[object]:
    """The names or ids that a request is about, without a name that nobody may create."""
    if api_key is ApiKeys.DELETE_TOPICS:
        named = request.topics or [DeleteTopicState(name) for name in request.topic_names]
        return (topic.topic_id if topic.name is None else topic.name for topic in named)
    names = (topic.name for topic in request.topics)
    is_creation = api_key is ApiKeys.CREATE_TOPICS
    return (name for name in names if not (is_creation and name == CLUSTER_METADATA_TOPIC_NAME))


def _clear_texts(value: Any) -> None:
    """Clears every `error_message`, since Kafka's answer has none."""
    for name in getattr(value, "__struct_fields__", ()):
        field = getattr(value, name)
        if name == "error_message":
            value.error_message = None
        for element in field if isinstance(field, list) else ():
            _clear_texts(element)


def _with_authorizer(auth: AuthHelper, request: Request) -> Request:
    """Returns `request`, which is about ACLs; raises ApiException if there is no authorizer to
    apply them."""
    if auth.authorizer is None:
        raise ApiException(Errors.SECURITY_DISABLED, "No Authorizer is configured.")
    return request


def _read_principal(data: bytes | None) -> KafkaPrincipal:
    """Reads a serialized principal (an int16 version and the message); raises
    PRINCIPAL_DESERIALIZATION_FAILURE for anything else."""
    if data is None or len(data) < 2:
        raise ApiException(Errors.PRINCIPAL_DESERIALIZATION_FAILURE, "The envelope has no principal.")
    view = memoryview(data)
    version = int.from_bytes(view[:2], "big")
    if not DefaultPrincipalData.LOWEST_VERSION <= version <= DefaultPrincipalData.HIGHEST_VERSION:
        raise ApiException(Errors.PRINCIPAL_DESERIALIZATION_FAILURE, f"Invalid principal data version {version}")
    principal = DefaultPrincipalData.read(view, 2, version)[0]
    return KafkaPrincipal(principal.type, principal.name, principal.token_authenticated)
