"""What one request changes in a group, collected step by step: records, and the soft state that
goes with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord, CoordinatorResult

R = TypeVar("R")


class GroupChange:
    """`on_appended` functions run in order, once the records are appended and replayed; never if
    the append is refused."""

    def __init__(self) -> None:
        self.records: list[CoordinatorRecord] = []
        self.on_appended: list[Callable[[], None]] = []
        self.session_timeouts_ms: dict[str, int] = {}
        """Members that an upgrade brought, and when their sessions end."""
        self.needs_new_epoch = False
        """Whether the group epoch must go up even if the member's subscription is unchanged,
        because the present assignment is incomplete."""

    def result(self, response: R) -> CoordinatorResult[R]:
        """Returns all of it in one batch, so that no crash leaves half of it."""
        return CoordinatorResult(self.records, response, atomic=True, on_appended=self._run)

    def _run(self) -> None:
        for function in self.on_appended:
            function()
