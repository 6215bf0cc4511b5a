"""AdminClient calls about delegation tokens (KIP-48).

Times are milliseconds since the epoch; periods are milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kmirror.admin.admin_requests import AdminRequests, raise_for
from kmirror.common.kafka_principal import KafkaPrincipal
from kmirror.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from kmirror.wire.messages.describe_delegation_token import DescribeDelegationTokenOwner, DescribeDelegationTokenRequest
from kmirror.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kmirror.wire.messages.renew_delegation_token import RenewDelegationTokenRequest


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token and its secret (`hmac`)."""

    token_id: str
    owner: KafkaPrincipal
    token_requester: KafkaPrincipal
    renewers: tuple[KafkaPrincipal, ...]
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int
    hmac: bytes


async def create_delegation_token(
    cluster: AdminRequests, *, owner: KafkaPrincipal | None = None, renewers: Iterable[KafkaPrincipal] = (), max_lifetime_ms: int = -1
) -> DelegationToken:
    """Creates a token for the caller, or for `owner`; -1 is the broker's maximum lifetime."""
    wanted = tuple(renewers)
    request = CreateDelegationTokenRequest(
        owner_principal_type=owner.principal_type if owner else None,
        owner_principal_name=owner.name if owner else None,
        renewers=[CreatableRenewers(principal_type=p.principal_type, principal_name=p.name) for p in wanted],
        max_lifetime_ms=max_lifetime_ms,
    )
    row = await cluster.ask_any(request)
    raise_for(row.error_code, None)
    return DelegationToken(
        row.token_id,
        KafkaPrincipal(row.principal_type, row.principal_name),
        KafkaPrincipal(row.token_requester_principal_type, row.token_requester_principal_name),
        wanted,
        row.issue_timestamp_ms,
        row.expiry_timestamp_ms,
        row.max_timestamp_ms,
        bytes(row.hmac),
    )


async def renew_delegation_token(cluster: AdminRequests, hmac: bytes, *, renew_period_ms: int = -1) -> int:
    """Renews a token; returns its new expiry time."""
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=renew_period_ms)
    response = await cluster.ask_any(request)
    raise_for(response.error_code, None)
    return int(response.expiry_timestamp_ms)


async def expire_delegation_token(cluster: AdminRequests, hmac: bytes, *, expiry_time_period_ms: int = -1) -> int:
    """Changes a token's expiry time, and returns it; a negative period expires the token at
    once.
    """
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=expiry_time_period_ms)
    response = await cluster.ask_any(request)
    raise_for(response.error_code, None)
    return int(response.expiry_timestamp_ms)


async def describe_delegation_token(cluster: AdminRequests, owners: Iterable[KafkaPrincipal] | None = None) -> list[DelegationToken]:
    """Returns the tokens of `owners`, or all that the caller may see."""
    wanted = None
    if owners is not None:
        wanted = [DescribeDelegationTokenOwner(principal_type=owner.principal_type, principal_name=owner.name) for owner in owners]
    response = await cluster.ask_any(DescribeDelegationTokenRequest(owners=wanted))
    raise_for(response.error_code, None)
    return [
        DelegationToken(
            row.token_id,
            KafkaPrincipal(row.principal_type, row.principal_name),
            KafkaPrincipal(row.token_requester_principal_type, row.token_requester_principal_name),
            tuple(KafkaPrincipal(p.principal_type, p.principal_name) for p in row.renewers),
            row.issue_timestamp,
            row.expiry_timestamp,
            row.max_timestamp,
            bytes(row.hmac),
        )
        for row in response.tokens
    ]
