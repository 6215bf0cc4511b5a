"""The requests of a classic group's member: who it is, what it sends in each version, and what the
coordinator's errors do to the client's knowledge of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from kmirror.clients.client_config import ClientConfig
from kmirror.clients.cluster_client import GROUP, ClusterClient, Node
from kmirror.clients.consumer.offset_commits import OFFSETS_CONNECTION
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.wire.messages.heartbeat import HeartbeatRequest
from kmirror.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kmirror.wire.messages.leave_group import LeaveGroupRequest
from kmirror.wire.messages.leave_group import MemberIdentity as LeavingMember
from kmirror.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

COORDINATOR_CONNECTION: Final = "coordinator"
JOIN_SLACK_MS: Final = 5_000
"""How much longer than the rebalance timeout a JoinGroup is waited for, as in Kafka."""
MOVED: Final = (Errors.NOT_COORDINATOR, Errors.COORDINATOR_NOT_AVAILABLE, Errors.NETWORK_EXCEPTION)
GONE: Final = (Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION)
"""The coordinator does not know the member or its generation; it joins anew."""
AGAIN: Final = (*MOVED, Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.REBALANCE_IN_PROGRESS)
NO_GENERATION: Final = -1


class ClassicMemberIdentity:
    """Who the member is to its coordinator; `ClassicMembership` writes it."""

    __slots__ = ("generation", "id", "protocol_name", "rejoin_reason")

    def __init__(self) -> None:
        self.id = ""
        self.generation = NO_GENERATION
        self.protocol_name = ""
        self.rejoin_reason = ""


class ClassicRequests:
    """Each request is made from what `member` is when it is sent, not when it was asked for.
    `on_refused` is told if the broker refuses the login. `protocol_type` is the group's: "consumer",
    or "connect" of workers.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        config: ClientConfig,
        member: ClassicMemberIdentity,
        *,
        protocol_type: str,
        group_id: str,
        group_instance_id: str | None = None,
        rebalance_timeout_ms: int,
        on_refused: Callable[[KmirrorError], None],
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._member = member
        self._on_refused = on_refused
        self._protocol_type = protocol_type
        self._group_id = group_id
        self._group_instance_id = group_instance_id
        self._rebalance_timeout_ms = rebalance_timeout_ms

    async def heartbeat(self) -> Errors:
        def message(version: int) -> HeartbeatRequest:
            return HeartbeatRequest(
                group_id=self._group_id,
                generation_id=self._member.generation,
                member_id=self._member.id,
                group_instance_id=self._group_instance_id if version >= 3 else None,
            )

        error, _ = await self._ask(HeartbeatRequest.API_KEY, message, self._config.get_int("request.timeout.ms"))
        return error

    async def join(self, protocols: Callable[[], Sequence[tuple[str, bytes]]]) -> tuple[Errors, Any]:
        """Returns (error, response); the response is None if there is none. `protocols` is asked
        for the assignors' names and their metadata.
        """

        def message(version: int) -> JoinGroupRequest:
            return JoinGroupRequest(
                group_id=self._group_id,
                session_timeout_ms=self._config.get_int("session.timeout.ms"),
                rebalance_timeout_ms=self._rebalance_timeout_ms if version >= 1 else -1,
                member_id=self._member.id,
                group_instance_id=self._group_instance_id if version >= 5 else None,
                protocol_type=self._protocol_type,
                protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols()],
                reason=self._member.rejoin_reason[:255] if version >= 8 else None,
            )

        return await self._ask(JoinGroupRequest.API_KEY, message, self._join_timeout_ms)

    async def sync(self, generation_id: int, assignments: list[SyncGroupRequestAssignment]) -> tuple[Errors, Any]:
        """Returns (error, response), as `join` does."""

        def message(version: int) -> SyncGroupRequest:
            return SyncGroupRequest(
                group_id=self._group_id,
                generation_id=generation_id,
                member_id=self._member.id,
                group_instance_id=self._group_instance_id if version >= 3 else None,
                protocol_type=self._protocol_type if version >= 5 else None,
                protocol_name=self._member.protocol_name if version >= 5 else None,
                assignments=assignments,
            )

        return await self._ask(SyncGroupRequest.API_KEY, message, self._join_timeout_ms)

    @property
    def _join_timeout_ms(self) -> int:
        return max(self._config.get_int("request.timeout.ms"), self._rebalance_timeout_ms + JOIN_SLACK_MS)

    async def leave(self, member_id: str, *, timeout_ms: float, reason: str) -> None:
        """Leaves as `member_id`. A failure is of no consequence: the session times out."""
        try:
            async with asyncio.timeout(max(1.0, timeout_ms) / 1000):
                node = await self._cluster.coordinator(self._group_id, GROUP)
                version = await self._cluster.api_version(node, LeaveGroupRequest.API_KEY, connection_key=OFFSETS_CONNECTION)
                if version >= 3:
                    member = LeavingMember(member_id=member_id, reason=reason if version >= 5 else None)
                    request = LeaveGroupRequest(group_id=self._group_id, members=[member])
                else:
                    request = LeaveGroupRequest(group_id=self._group_id, member_id=member_id)
                await self._cluster.ask(node, request, timeout_ms=int(timeout_ms), version=version, connection_key=OFFSETS_CONNECTION)
        except (KmirrorError, TimeoutError):
            return

    async def _ask(self, api_key: int, message: Callable[[int], Any], timeout_ms: float) -> tuple[Errors, Any]:
        """(error, response); the response is None if there is none."""
        node: Node | None = None
        try:
            node = await self._cluster.coordinator(self._group_id, GROUP)
            version = await self._cluster.api_version(node, api_key, connection_key=COORDINATOR_CONNECTION)
            response = await self._cluster.ask(
                node, message(version), timeout_ms=int(timeout_ms), version=version, connection_key=COORDINATOR_CONNECTION
            )
            error = Errors.for_code(response.error_code)
        except ApiException as failure:
            response = None
            error = Errors.COORDINATOR_NOT_AVAILABLE if failure.error.retriable else failure.error
        except KmirrorError as failure:
            self._on_refused(failure)  # the login was refused
            return Errors.UNKNOWN_SERVER_ERROR, None
        if error in MOVED:
            self._cluster.forget_coordinator(self._group_id, GROUP, node)
        return error, response

    def told(self, error: Errors) -> ApiException:
        """What the application is told of an error."""
        if error is Errors.GROUP_AUTHORIZATION_FAILED:
            return ApiException(error, f"Not authorized to access group: {self._group_id}")
        return ApiException(error)
