"""How much one request may change, from the controller's side: a recorder of partition mutations
(KIP-599).

Creating, deleting or adding partitions costs one permit per partition. `record` may refuse with
THROTTLING_QUOTA_EXCEEDED, which becomes that topic's error; `throttle_time_ms` goes into the
response. The rates are kept above this room: `server.quota.ControllerMutationQuotaManager` gives
the controller its `MutationQuotas`.
"""

from __future__ import annotations

from typing import Protocol

from kmirror.common.kafka_principal import KafkaPrincipal

STRICT_SINCE_CREATE_TOPICS, STRICT_SINCE_DELETE_TOPICS, STRICT_SINCE_CREATE_PARTITIONS = 6, 5, 3
NEVER_STRICT = 1 << 15
"""For requests whose clients do not know THROTTLING_QUOTA_EXCEEDED: they are throttled, never
refused."""


class ControllerMutationQuota(Protocol):
    """The quota of one request."""

    def record(self, permits: int) -> None:
        """Takes `permits`; raises ApiException(THROTTLING_QUOTA_EXCEEDED) if the quota is strict
        and exhausted."""
        ...

    @property
    def throttle_time_ms(self) -> int: ...


class UnboundedControllerMutationQuota:
    """A quota without a limit."""

    throttle_time_ms = 0

    def record(self, permits: int) -> None:
        return


UNBOUNDED = UnboundedControllerMutationQuota()


class MutationQuotas(Protocol):
    def new_quota_for(self, principal: KafkaPrincipal, client_id: str, *, is_strict: bool) -> ControllerMutationQuota: ...
