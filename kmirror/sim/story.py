"""Story: what a turn of the mirrors' storm needs of the story in which it is taken
(`sim.mirror_storm`).
"""

from __future__ import annotations

from typing import Protocol


class Story(Protocol):
    """`active` is the cluster that clients write to, `passive` mirrors it."""

    active: str
    passive: str

    async def start_mirror(self) -> None:
        """Create the passive cluster's mirror, unless it is there, and add the topic."""

    async def delete_topic(self) -> None:
        """Deletes the passive cluster's topic; the next add brings it back."""

    async def fail_over(self) -> None:
        """Makes the passive cluster the active one; the other mirrors nothing yet."""
