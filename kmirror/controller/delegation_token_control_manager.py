"""Delegation tokens (KIP-48; Kafka's `DelegationTokenControlManager`): creates, renews, expires,
and removes expired ones.

A token has an id, an owner whom it represents, principals that may renew it, and two times: it is
valid until `expiration_timestamp` and can be renewed until `max_timestamp`. Its secret is never
stored: it is the HMAC of the id with `delegation.token.secret.key`, which every node has. Requests
identify a token by that HMAC. Without the key, tokens are disabled
(DELEGATION_TOKEN_AUTH_DISABLED).
"""

from __future__ import annotations

import logging

from kmirror.common.errors import ApiException, Errors
from kmirror.common.kafka_principal import USER_TYPE, KafkaPrincipal
from kmirror.common.uuid import Uuid
from kmirror.controller.controller_result import ControllerResult
from kmirror.controller.controller_state import ControllerState
from kmirror.metadata.delegation_tokens import token_hmac
from kmirror.metadata.image import DelegationToken
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from kmirror.wire.messages.delegation_token_record import DelegationTokenRecord
from kmirror.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from kmirror.wire.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from kmirror.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

_LAST_TIMESTAMP = (1 << 63) - 1
_log = logging.getLogger(__name__)


class DelegationTokenControlManager:
    def __init__(self, state: ControllerState) -> None:
        self._state = state

    @property
    def is_enabled(self) -> bool:
        return self._state.config.delegation_token_secret_key is not None

    def create_token(
        self, request: CreateDelegationTokenRequest, requester: KafkaPrincipal
    ) -> ControllerResult[CreateDelegationTokenResponse]:
        """Creates a token for the owner that the request names, or else for the requester."""
        owner = (
            KafkaPrincipal(request.owner_principal_type or "", request.owner_principal_name) if request.owner_principal_name else requester
        )
        response = CreateDelegationTokenResponse(
            principal_type=owner.principal_type,
            principal_name=owner.name,
            token_requester_principal_type=requester.principal_type,
            token_requester_principal_name=requester.name,
        )
        secret_key = self._state.config.delegation_token_secret_key
        if secret_key is None:
            response.error_code = Errors.DELEGATION_TOKEN_AUTH_DISABLED
        elif any(renewer.principal_type != USER_TYPE for renewer in request.renewers):
            response.error_code = Errors.INVALID_PRINCIPAL_TYPE
        if secret_key is None or response.error_code:
            return ControllerResult([], response)
        config, now_ms = self._state.config, self._state.clock.time_ms()
        lifetime_ms = config.delegation_token_max_lifetime_ms
        if request.max_lifetime_ms > 0:
            lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
        response.issue_timestamp_ms = now_ms
        response.max_timestamp_ms = _sum(now_ms, lifetime_ms)
        response.expiry_timestamp_ms = min(response.max_timestamp_ms, _sum(now_ms, config.delegation_token_expiry_time_ms))
        response.token_id = str(Uuid.random(self._state.random))
        response.hmac = token_hmac(secret_key, response.token_id)
        token = DelegationToken(
            owner=str(owner),
            requester=str(requester),
            renewers=tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in request.renewers),
            issue_timestamp=now_ms,
            max_timestamp=response.max_timestamp_ms,
            expiration_timestamp=response.expiry_timestamp_ms,
            token_id=response.token_id,
        )
        return ControllerResult([_record(token)], response)

    def renew_token(
        self, request: RenewDelegationTokenRequest, principal: KafkaPrincipal
    ) -> ControllerResult[RenewDelegationTokenResponse]:
        now_ms = self._state.clock.time_ms()
        try:
            token = self._find(bytes(request.hmac))
            if _has_expired(token, now_ms):
                raise ApiException(Errors.DELEGATION_TOKEN_EXPIRED)
            _check_may_renew(token, principal)
        except ApiException as error:
            return ControllerResult([], RenewDelegationTokenResponse(error_code=error.error))
        period_ms = self._state.config.delegation_token_expiry_time_ms
        if request.renew_period_ms > 0:
            period_ms = min(period_ms, request.renew_period_ms)
        renewed = token._replace(expiration_timestamp=min(token.max_timestamp, _sum(now_ms, period_ms)))
        return ControllerResult([_record(renewed)], RenewDelegationTokenResponse(expiry_timestamp_ms=renewed.expiration_timestamp))

    def expire_token(
        self, request: ExpireDelegationTokenRequest, principal: KafkaPrincipal
    ) -> ControllerResult[ExpireDelegationTokenResponse]:
        """Sets a token's expiration; a negative period removes the token at once."""
        now_ms = self._state.clock.time_ms()
        try:
            token = self._find(bytes(request.hmac))
            _check_may_renew(token, principal)
            if request.expiry_time_period_ms < 0:
                return ControllerResult([_removal(token)], ExpireDelegationTokenResponse(expiry_timestamp_ms=now_ms))
            if _has_expired(token, now_ms):
                raise ApiException(Errors.DELEGATION_TOKEN_EXPIRED)
        except ApiException as error:
            return ControllerResult([], ExpireDelegationTokenResponse(error_code=error.error))
        ending = token._replace(expiration_timestamp=min(token.max_timestamp, _sum(now_ms, request.expiry_time_period_ms)))
        return ControllerResult([_record(ending)], ExpireDelegationTokenResponse(expiry_timestamp_ms=ending.expiration_timestamp))

    def sweep_expired_tokens(self) -> ControllerResult[None]:
        now_ms = self._state.clock.time_ms()
        expired = [token for token in self._state.image.delegation_tokens.values() if _has_expired(token, now_ms)]
        for token in expired:
            _log.info("Delegation token expired for token: %s for owner: %s", token.token_id, token.owner)
        return ControllerResult([_removal(token) for token in expired], None)

    def _find(self, wanted: bytes) -> DelegationToken:
        if not self.is_enabled:
            raise ApiException(Errors.DELEGATION_TOKEN_AUTH_DISABLED)
        token_id = self._state.lookups.token_id(wanted)
        if token_id is None:
            raise ApiException(Errors.DELEGATION_TOKEN_NOT_FOUND)
        return self._state.image.delegation_tokens[token_id]


def _check_may_renew(token: DelegationToken, principal: KafkaPrincipal) -> None:
    if str(principal) not in (token.owner, *token.renewers):
        raise ApiException(Errors.DELEGATION_TOKEN_OWNER_MISMATCH)


def _has_expired(token: DelegationToken, now_ms: int) -> bool:
    return token.max_timestamp < now_ms or token.expiration_timestamp < now_ms


def _record(token: DelegationToken) -> ApiMessageAndVersion:
    return ApiMessageAndVersion(DelegationTokenRecord(**token._asdict() | {"renewers": list(token.renewers)}), 0)


def _removal(token: DelegationToken) -> ApiMessageAndVersion:
    return ApiMessageAndVersion(RemoveDelegationTokenRecord(token_id=token.token_id), 0)


def _sum(now_ms: int, duration_ms: int) -> int:
    return min(_LAST_TIMESTAMP, now_ms + duration_ms)
