"""What the REST interface asks of a worker (Connect's `Herder`), and what it answers with.

A herder is one worker's. It answers by itself what the topics of configs and status say; what only
the leader, or the worker that runs a connector, may do is refused elsewhere with RequestTargetError,
and the REST layer sends the request there.

    HerderError            the status of HTTP and the message that Connect answers with
    RequestTargetError     another worker does it: its URL, None while nobody knows

Names of connectors are Connect's; configs are as written, references of config providers included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, Protocol

from kmirror.common.errors import KmirrorError
from kmirror.mirrormaker.herder.connect_protocol import ConnectorTaskId
from kmirror.mirrormaker.herder.request_signatures import RequestSignature
from kmirror.mirrormaker.state_times import State

BAD_REQUEST: Final = 400
NOT_FOUND: Final = 404
CONFLICT: Final = 409
INTERNAL_SERVER_ERROR: Final = 500


class HerderError(KmirrorError):
    """A request that cannot be met. `status` is that of HTTP, the text Connect's message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class RequestTargetError(KmirrorError):
    """Another worker must do it (Connect's `RequestTargetException`, `NotLeaderException`,
    `NotAssignedException`). `forward_url` is None if it is not known.
    """

    def __init__(self, message: str, forward_url: str | None) -> None:
        super().__init__(message)
        self.forward_url = forward_url


class TargetState(Enum):
    """What its users want of a connector (Connect's `TargetState`)."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


@dataclass(frozen=True)
class ConnectorInfo:
    """`type` is "source" for every connector of MirrorMaker, MirrorSinkConnector included."""

    name: str
    config: Mapping[str, str]
    tasks: Sequence[ConnectorTaskId]
    type: str = "source"


@dataclass(frozen=True)
class TaskInfo:
    id: ConnectorTaskId
    config: Mapping[str, str]


@dataclass(frozen=True)
class WorkerStatus:
    """What the topic of status says of a connector or a task. `state` is Connect's name:
    UNASSIGNED, RUNNING, PAUSED, STOPPED, FAILED, RESTARTING, DESTROYED.
    """

    state: str
    worker_id: str
    trace: str | None = None


@dataclass(frozen=True)
class ConnectorStateInfo:
    """`tasks` is by the tasks' numbers."""

    name: str
    connector: WorkerStatus
    tasks: Mapping[int, WorkerStatus] = field(default_factory=dict)
    type: str = "source"


@dataclass(frozen=True)
class RestartRequest:
    """Which of a connector and its tasks begin again (KIP-745)."""

    connector: str
    only_failed: bool = False
    include_tasks: bool = False

    def concerns(self, state: str) -> bool:
        """Whether what is in this state begins again."""
        return not self.only_failed or state == State.FAILED.value


def after_restart(info: ConnectorStateInfo, request: RestartRequest) -> ConnectorStateInfo:
    """Returns the states with RESTARTING for what begins again."""

    def after(before: WorkerStatus) -> WorkerStatus:
        return replace(before, state=State.RESTARTING.value) if request.concerns(before.state) else before

    tasks = {number: after(task) for number, task in info.tasks.items()} if request.include_tasks else info.tasks
    return replace(info, connector=after(info.connector), tasks=tasks)


def not_stopped(connector: str) -> HerderError:
    """Offsets may only be changed while nothing runs that writes them (KIP-875)."""
    return HerderError(
        BAD_REQUEST,
        "Connectors must be in the STOPPED state before their offsets can be modified. This can be done "
        f"for the specified connector by issuing a 'PUT' request to the '/connectors/{connector}/stop' endpoint",
    )


def patched(config: Mapping[str, str], patch: Mapping[str, str | None]) -> dict[str, str]:
    """Returns a config with some properties set, and those removed that the patch has None for."""
    return {name: value for name, value in {**config, **patch}.items() if value is not None}


SourceOffset = tuple[Mapping[str, Any], Mapping[str, Any] | None]
"""A source partition and its offset; None as the offset removes it."""


class Herder(Protocol):
    """HerderError with Connect's status and message, RequestTargetError where another worker does it."""

    async def connectors(self) -> list[str]: ...
    async def connector_info(self, connector: str) -> ConnectorInfo: ...
    async def put_connector_config(
        self, connector: str, config: Mapping[str, str], *, allow_replace: bool, target_state: TargetState | None = None
    ) -> tuple[bool, ConnectorInfo]:
        """Validates and stores a config. Returns whether the connector is new, and what it is now."""
        ...

    async def patch_connector_config(self, connector: str, patch: Mapping[str, str | None]) -> ConnectorInfo:
        """Sets some properties; None removes one (KIP-477)."""
        ...

    async def delete_connector_config(self, connector: str) -> None: ...
    async def task_infos(self, connector: str) -> list[TaskInfo]: ...
    async def connector_status(self, connector: str) -> ConnectorStateInfo: ...
    async def task_status(self, task: ConnectorTaskId) -> WorkerStatus: ...
    async def set_target_state(self, connector: str, state: TargetState) -> None:
        """Pauses, resumes or stops (KIP-875) a connector."""
        ...

    async def restart_connector(self, connector: str) -> None: ...
    async def restart_task(self, task: ConnectorTaskId) -> None: ...
    async def restart_connector_and_tasks(self, request: RestartRequest) -> ConnectorStateInfo:
        """Returns the states with RESTARTING for what will begin again."""
        ...

    async def connector_active_topics(self, connector: str) -> list[str]: ...
    async def reset_connector_active_topics(self, connector: str) -> None: ...
    async def connector_offsets(self, connector: str) -> list[SourceOffset]: ...
    async def alter_connector_offsets(self, connector: str, offsets: Sequence[SourceOffset]) -> str:
        """Changes offsets of a stopped connector (KIP-875). Returns Connect's message."""
        ...

    async def reset_connector_offsets(self, connector: str) -> str: ...

    # Between workers

    async def put_task_configs(self, connector: str, configs: Sequence[Mapping[str, str]], signature: RequestSignature | None) -> None:
        """What a connector that runs elsewhere wants its tasks to be; for the leader."""
        ...

    async def fence_zombie_source_tasks(self, connector: str, signature: RequestSignature | None) -> None:
        """Shuts out the tasks before those of the last commit (KIP-618); for the leader."""
        ...

    async def kafka_cluster_id(self) -> str: ...
    def health(self) -> str | None:
        """Returns None for a worker that has joined its group and answers, or why it has not (KIP-1017)."""
        ...

    def is_ready(self) -> bool:
        """Whether the worker has started, that is, was in its group once (KIP-1017)."""
        ...

    async def set_cluster_logger_level(self, namespace: str, level: str) -> None:
        """Changes the level of a logger at all workers (KIP-976)."""
        ...
