"""CreateDelegationToken (key 38), RenewDelegationToken (39), ExpireDelegationToken (40),
DescribeDelegationToken (41).

Served: v1-v3, v1-v2, v1-v2, v1-v3 (v2 flexible; v3 tokens on behalf of another user, and the
requester in descriptions). The first three are forwarded; the last is answered from the metadata.
All four answer DELEGATION_TOKEN_REQUEST_NOT_ALLOWED on a PLAINTEXT listener, to an anonymous client
of an SSL listener, and to a client that logged in with a token. A token is shown to its owner, its
requester and its renewers, and to those with DESCRIBE on the token or DESCRIBE_TOKENS on its owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kmirror.common.acl import AclOperation, ResourceType
from kmirror.common.errors import ApiException, Errors
from kmirror.common.kafka_principal import ANONYMOUS, USER_TYPE
from kmirror.metadata.delegation_tokens import is_party_of, token_hmac
from kmirror.metadata.image import DelegationToken
from kmirror.server.request import Request
from kmirror.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from kmirror.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kmirror.wire.messages.expire_delegation_token import ExpireDelegationTokenResponse
from kmirror.wire.messages.renew_delegation_token import RenewDelegationTokenResponse

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis

ERROR_TIMESTAMP = -1


def _may_ask(request: Request) -> bool:
    principal, protocol = request.principal, request.security_protocol
    is_anonymous = (principal.principal_type, principal.name) == (ANONYMOUS.principal_type, ANONYMOUS.name)
    return not (principal.token_authenticated or protocol == "PLAINTEXT" or (protocol == "SSL" and is_anonymous))


async def handle_create_delegation_token(apis: KafkaApis, request: Request) -> Any:
    message: CreateDelegationTokenRequest = request.message
    error = Errors.NONE
    owner_type, owner_name = request.principal.principal_type, request.principal.name
    if message.owner_principal_name:
        owner_type, owner_name = message.owner_principal_type or "", message.owner_principal_name
    owner = f"{owner_type}:{owner_name}"
    if not _may_ask(request):
        error = Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    elif owner != str(request.principal) and not apis.auth.authorize(request, AclOperation.CREATE_TOKENS, ResourceType.USER, owner):
        error = Errors.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    elif any(renewer.principal_type != USER_TYPE for renewer in message.renewers):
        error = Errors.INVALID_PRINCIPAL_TYPE
    if error is Errors.NONE:
        return await apis.controller.forward(request)
    return CreateDelegationTokenResponse(
        error_code=error,
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=request.principal.principal_type,
        token_requester_principal_name=request.principal.name,
        issue_timestamp_ms=ERROR_TIMESTAMP,
        expiry_timestamp_ms=ERROR_TIMESTAMP,
        max_timestamp_ms=ERROR_TIMESTAMP,
    )


async def handle_renew_delegation_token(apis: KafkaApis, request: Request) -> Any:
    if _may_ask(request):
        return await apis.controller.forward(request)
    return RenewDelegationTokenResponse(error_code=Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=ERROR_TIMESTAMP)


async def handle_expire_delegation_token(apis: KafkaApis, request: Request) -> Any:
    if _may_ask(request):
        return await apis.controller.forward(request)
    return ExpireDelegationTokenResponse(error_code=Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=ERROR_TIMESTAMP)


async def handle_describe_delegation_token(apis: KafkaApis, request: Request) -> DescribeDelegationTokenResponse:
    message: DescribeDelegationTokenRequest = request.message
    if not _may_ask(request):
        raise ApiException(Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    secret_key = apis.config.delegation_token_secret_key
    if secret_key is None:
        raise ApiException(Errors.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None if message.owners is None else [f"{owner.principal_type}:{owner.principal_name}" for owner in message.owners]
    tokens = apis.metadata_cache.image.delegation_tokens.values()
    shown = [token for token in tokens if (owners is None or token.owner in owners) and _may_see(apis, request, token)]
    return DescribeDelegationTokenResponse(tokens=[_described(token, secret_key) for token in shown])


def _may_see(apis: KafkaApis, request: Request, token: DelegationToken) -> bool:
    return (
        is_party_of(token, str(request.principal))
        or apis.auth.authorize(request, AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
        or apis.auth.authorize(request, AclOperation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)
    )


def _described(token: DelegationToken, secret_key: str) -> DescribedDelegationToken:
    owner_type, _, owner = token.owner.partition(":")
    requester_type, _, requester = token.requester.partition(":")
    renewers = [renewer.partition(":") for renewer in token.renewers]
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=token_hmac(secret_key, token.token_id),
        renewers=[DescribedDelegationTokenRenewer(kind, name) for kind, _, name in renewers],
    )
