"""The latency from one simulated host to another, drawn by the seed, and which hosts cannot reach
each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

US_PER_S = 1_000_000


@dataclass(slots=True)
class Link:
    """Latency and bandwidth from one host to another."""

    min_latency_us: int = 200
    max_latency_us: int = 2_000
    bytes_per_s: int = 1_000_000_000


class Links:
    """The links in each direction between two hosts; `default` where none was set.

    `blocked` holds the pairs (source, destination) between which nothing gets through. `chance`
    draws from [0, 1).
    """

    def __init__(self, chance: Callable[[], float]) -> None:
        self.default = Link()
        self.blocked: dict[tuple[str, str], None] = {}
        self._chance = chance
        self._links: dict[tuple[str, str], Link] = {}

    def set(self, source: str, destination: str, link: Link) -> None:
        """Sets the link in one direction."""
        self._links[source, destination] = link

    def block(self, sources: Sequence[str], destinations: Sequence[str], *, both_ways: bool) -> None:
        for source in sources:
            for destination in destinations:
                if source != destination:
                    self.blocked[source, destination] = None
                    if both_ways:
                        self.blocked[destination, source] = None

    def unblock(self) -> None:
        """Lets every host reach every other."""
        self.blocked.clear()

    def latency_us(self, source: str, destination: str, size: int) -> int:
        """Draws the time that `size` bytes need."""
        link = self._links.get((source, destination), self.default)
        spread = max(1, link.max_latency_us - link.min_latency_us)
        return link.min_latency_us + int(self._chance() * spread) + size * US_PER_S // link.bytes_per_s
