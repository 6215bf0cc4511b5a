"""The questions of request handlers to the authorizer, on brokers and on the controller (Kafka's
`AuthHelper`). Without an authorizer everything is allowed."""

from __future__ import annotations

from collections.abc import Iterable

from kmirror.common.acl import CLUSTER_NAME, SUPPORTED_OPERATIONS, AclOperation, ResourceType
from kmirror.common.errors import ApiException, Errors
from kmirror.metadata.authorizer.authorizer import Action, AuthorizableRequestContext, Authorizer
from kmirror.wire.api_keys import API_TABLE


class AuthHelper:
    """`authorizer` is None if `authorizer.class.name` is not set."""

    def __init__(self, authorizer: Authorizer | None) -> None:
        self.authorizer = authorizer

    def authorize(
        self,
        context: AuthorizableRequestContext,
        operation: AclOperation,
        resource_type: ResourceType,
        resource_name: str,
        *,
        log_if_allowed: bool = True,
        log_if_denied: bool = True,
        count: int = 1,
    ) -> bool:
        if self.authorizer is None:
            return True
        action = Action(operation, resource_type, resource_name, count, log_if_allowed, log_if_denied)
        return self.authorizer.authorize(context, action)

    def may_on_cluster(self, context: AuthorizableRequestContext, operation: AclOperation, *, log_if_denied: bool = True) -> bool:
        return self.authorize(context, operation, ResourceType.CLUSTER, CLUSTER_NAME, log_if_denied=log_if_denied)

    def authorize_cluster_operation(self, context: AuthorizableRequestContext, operation: AclOperation) -> None:
        """Raises ApiException CLUSTER_AUTHORIZATION_FAILED unless `operation` on the cluster is
        allowed."""
        if not self.may_on_cluster(context, operation):
            asked = f"{API_TABLE[context.api_key].name} of {context.principal} from {context.client_address}"
            raise ApiException(Errors.CLUSTER_AUTHORIZATION_FAILED, f"Request {asked} needs {operation.name} permission.")

    def authorize_by_resource_type(self, context: AuthorizableRequestContext, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether the operation is allowed on at least one resource of the type."""
        return self.authorizer is None or self.authorizer.authorize_by_resource_type(context, operation, resource_type)

    def filter_by_authorized(
        self,
        context: AuthorizableRequestContext,
        operation: AclOperation,
        resource_type: ResourceType,
        names: Iterable[str],
        *,
        log_if_denied: bool = True,
    ) -> set[str]:
        """Returns those of `names` on which the operation is allowed. The authorizer is asked once
        per name, with the number of times that the name occurs."""
        counts: dict[str, int] = {}
        for name in names:
            counts[name] = counts.get(name, 0) + 1
        return {
            name
            for name, count in counts.items()
            if self.authorize(context, operation, resource_type, name, log_if_denied=log_if_denied, count=count)
        }

    def authorized_operations(self, context: AuthorizableRequestContext, resource_type: ResourceType, resource_name: str) -> int:
        """Returns the bit field of Metadata, DescribeCluster and the group APIs: bit n is set if
        operation n is allowed."""
        bits = 0
        for operation in SUPPORTED_OPERATIONS[resource_type]:
            if self.authorize(context, operation, resource_type, resource_name, log_if_allowed=False, log_if_denied=False):
                bits |= 1 << operation
        return bits
