"""What the herders have in common: how one life of a connector goes, and what a connector or task does
that its users have paused or stopped.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

from kmirror.mirrormaker.herder.connector_plan import ConnectorPlan
from kmirror.mirrormaker.herder.herder import TargetState
from kmirror.mirrormaker.kept_running import Status
from kmirror.mirrormaker.scheduler import run_regularly
from kmirror.mirrormaker.state_times import State
from kmirror.runtime.api import Runtime

IDLE_MS: Final = 60_000

Publish = Callable[[list[dict[str, str]]], Awaitable[object]]
"""Gets the properties of all tasks that a connector wants, its own properties included."""


async def run_connector(runtime: Runtime, label: str, plan: ConnectorPlan, status: Status, publish: Publish) -> None:
    """Runs a connector until it is cancelled. `publish` is called when it has started, and after each
    job in which it asked for other tasks.
    """
    changed = False

    def reconfigure() -> None:
        nonlocal changed
        changed = True

    async def publish_tasks() -> None:
        await publish([{**plan.properties, **own} for own in connector.task_properties()])

    async def after() -> None:
        nonlocal changed
        if changed:
            changed = False
            await publish_tasks()

    connector = plan.make(reconfigure)
    try:
        await connector.start()
        status.heard()
        await publish_tasks()
        await run_regularly(
            runtime, label, connector.jobs(), timeout_ms=plan.admin_timeout_ms, heard=status.heard, after=after, ended=status.job_ended
        )
    finally:
        connector.close()


async def idle(runtime: Runtime, status: Status, target_state: TargetState) -> NoReturn:
    """Does nothing until it is cancelled, as its users have told it."""
    status.rest(State.PAUSED if target_state is TargetState.PAUSED else State.STOPPED)
    while True:
        await runtime.sleep_ms(IDLE_MS)
