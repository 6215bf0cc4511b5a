"""The memory that requests of all connections may hold while they are read and handled
(`queued.max.request.bytes`, Kafka's `MemoryPool`).

A frame announces its size before its bytes come, and nobody has to send them. So two things are
counted apart. *Held* is the memory of frames that are not complete: it grows as their bytes come
(`network.frames`), and the first piece is small while many frames are incomplete. *Claimed* is what
frames announced, from their first byte until their request was handled. A claim is granted as long
as anything is left, even if it is larger than what is left, as in Kafka: then every connection that
has begun a frame can finish it. A connection whose claim is not granted is not read until another
request was handled.

Frames that fit into a connection's scratch buffer are not counted: a connection has at most one
scratch buffer of them.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

UNLIMITED: Final = -1
FIRST_PIECE_BYTES: Final = 1 << 20
SMALL_PIECE_BYTES: Final = 1 << 16
MANY_BYTES: Final = 1 << 26
"""From this much memory of incomplete frames on, a new one begins with a small piece."""


class Claimant(Protocol):
    """A connection that waits for its claim."""

    def claim_granted(self, size: int) -> None: ...


class FrameMemory:
    """Owner of the two counts, and of the connections that wait, in the order in which they
    came.
    """

    def __init__(self, limit_bytes: int = UNLIMITED) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self.claimed_bytes = 0
        self._waiting: deque[tuple[Claimant, int]] = deque()

    @property
    def waiting_connections(self) -> int:
        return len(self._waiting)

    def first_piece(self, size: int) -> int:
        """The bytes to allocate at first for a frame that announces `size`."""
        return min(size, FIRST_PIECE_BYTES if self.held_bytes < MANY_BYTES else SMALL_PIECE_BYTES)

    def hold(self, size: int) -> None:
        """Counts memory of an incomplete frame; a negative size gives it back."""
        self.held_bytes += size

    def claim(self, claimant: Claimant, size: int) -> bool:
        """Returns whether the claim is granted; if not, `claimant` is told later."""
        if self._waiting or not self._has_any():
            self._waiting.append((claimant, size))
            return False
        self.claimed_bytes += size
        return True

    def give_up(self, claimant: Claimant) -> None:
        """Forgets a claim that was not granted."""
        self._waiting = deque(entry for entry in self._waiting if entry[0] is not claimant)

    def release(self, size: int) -> None:
        """Gives a granted claim back, and grants those that wait for it."""
        self.claimed_bytes -= size
        while self._waiting and self._has_any():
            claimant, wanted = self._waiting.popleft()
            self.claimed_bytes += wanted
            claimant.claim_granted(wanted)

    def _has_any(self) -> bool:
        return self.limit_bytes <= 0 or self.claimed_bytes < self.limit_bytes
