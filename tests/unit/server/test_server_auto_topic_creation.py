"""What a broker remembers of the topics that clients asked for and nobody could create."""

from __future__ import annotations

from typing import Any

from kmirror.common.errors import ApiException, Errors
from kmirror.server.auto_topic_creation import MAX_REFUSED, AutoTopicCreationManager


class Clock:
    def monotonic_ms(self) -> int:
        return 0


class World:
    clock = Clock()


def test_names_that_clients_make_up_stay_in_memory_for_ever() -> None:
    world: Any = World()
    manager = AutoTopicCreationManager(world, world, world)
    for start in range(0, 5 * MAX_REFUSED, MAX_REFUSED // 2):
        names = [f"made-up-{start + number}" for number in range(MAX_REFUSED // 2)]
        manager._note(names, dict.fromkeys(names, str(ApiException(Errors.INVALID_REPLICATION_FACTOR))))
    assert len(manager._conditions) == MAX_REFUSED
    assert "made-up-0" not in manager._conditions and f"made-up-{5 * MAX_REFUSED - 1}" in manager._conditions
