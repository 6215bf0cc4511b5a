"""Frames of a byte stream: a 4-byte big-endian size, then that many bytes, in both directions.

Bytes arrive in one of two places. Between frames they go to a scratch buffer, which all connections
of one owner may share because nothing in it outlives `buffer_updated`. Complete small frames are
copied out of it (a handler keeps views of its frame for as long as it likes). The beginning of an
incomplete frame moves to a buffer of its own. From then on the socket receives into that buffer, so
the kernel makes the only copy of all but the largest frames.

A server does not trust the size that a frame announces: 20 connections that claimed 90 MB each cost
1.9 GB. With a `FrameMemory`, the buffer begins with a megabyte at most and is doubled when its bytes
have come.

Fresh memory for a frame of megabytes costs about as much as receiving it, because the kernel maps
and clears it page by page. A reader whose large frames are finished with soon (a fetcher's responses)
therefore keeps the buffers of the last ones and reuses the newest that nothing refers to any more.
Whoever keeps a view of a frame keeps its buffer.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from typing import Final

from kmirror.common.errors import KmirrorError
from kmirror.network.frame_memory import FrameMemory

SIZE_BYTES: Final = 4
SCRATCH_BYTES: Final = 1 << 16
MIN_REUSED_BYTES: Final = 1 << 18
MAX_KEPT_BYTES: Final = 1 << 23
"""Together; the last frame's buffer is kept in any case."""
MAX_UNUSED_SHARE: Final = 8
"""A kept buffer serves frames down to this fraction of its size."""

_SIZE = struct.Struct(">i")


class InvalidReceiveError(KmirrorError):
    """A frame announces an impossible size, so the stream cannot be read any further (Kafka's
    InvalidReceiveException).
    """


def new_scratch() -> memoryview:
    """A buffer that the frame readers of one loop's thread can share."""
    return memoryview(bytearray(SCRATCH_BYTES))


class FrameReader:
    """Cuts one stream into frames and passes each to `on_frame`, without its size prefix.

    Owns the bytes of the frame that is incomplete. `stop` ends it from inside `on_frame`.
    """

    __slots__ = (
        "_filled",
        "_frame",
        "_kept",
        "_keeps",
        "_max_size",
        "_memory",
        "_on_begin",
        "_on_frame",
        "_scratch",
        "_size",
        "_size_prefix",
        "_stopped",
    )

    def __init__(
        self,
        on_frame: Callable[[memoryview], None],
        *,
        max_size: int,
        scratch: memoryview,
        reuse_large_frames: bool = False,
        memory: FrameMemory | None = None,
        on_begin: Callable[[int], None] | None = None,
    ) -> None:
        """`memory` counts the incomplete frame, and `on_begin` is called with its size."""
        self._memory = memory
        self._on_begin = on_begin
        self._size = 0
        self._keeps = reuse_large_frames
        self._kept: deque[bytearray] = deque()
        self._on_frame = on_frame
        self._max_size = max_size
        self._scratch = scratch
        self._size_prefix = b""
        self._frame: memoryview | None = None
        self._filled = 0
        self._stopped = False

    @property
    def in_frame(self) -> bool:
        """Whether an incomplete frame has begun."""
        return self._frame is not None or bool(self._size_prefix)

    def stop(self) -> None:
        self._stopped = True

    def close(self) -> None:
        """No more bytes come: releases the incomplete frame and the buffer kept for the next one. A
        lost connection is part of reference cycles, which a node's collector finds late
        (`runtime.collector`), and a client may have announced a hundred megabytes.
        """
        self._stopped = True
        if self._frame is not None:
            self._hold(-len(self._frame))
        self._frame = None
        self._kept.clear()

    def set_max_size(self, max_size: int) -> None:
        """Applies to the frames that begin from now on."""
        self._max_size = max_size

    def get_buffer(self, _size_hint: int) -> memoryview:
        """The buffer to receive into. `buffer_updated` must follow before another reader of the
        same scratch is used.
        """
        if self._frame is not None:
            if self._filled == len(self._frame):
                self._grow(self._frame)
            return self._frame[self._filled :]
        prefix = self._size_prefix
        if not prefix:
            return self._scratch
        self._scratch[: len(prefix)] = prefix
        return self._scratch[len(prefix) :]

    def buffer_updated(self, size: int) -> None:
        frame = self._frame
        if frame is None:
            received = len(self._size_prefix) + size
            self._size_prefix = b""
            self._cut(received)
            return
        self._filled += size
        if self._filled == self._size:
            self._frame = None
            self._hold(-len(frame))
            self._on_frame(frame)

    def _grow(self, frame: memoryview) -> None:
        grown = memoryview(bytearray(min(self._size, 2 * len(frame))))
        grown[: len(frame)] = frame
        self._hold(len(grown) - len(frame))
        self._frame = grown

    def _hold(self, size: int) -> None:
        if self._memory is not None:
            self._memory.hold(size)

    def _cut(self, end: int) -> None:
        """Delivers the frames in scratch[:end] and keeps the rest."""
        scratch = self._scratch
        start = 0
        while end - start >= SIZE_BYTES and not self._stopped:
            size: int = _SIZE.unpack_from(scratch, start)[0]
            if not 0 < size <= self._max_size:
                raise InvalidReceiveError(f"Invalid receive (size = {size}{f' larger than {self._max_size}' if size > 0 else ''})")
            start += SIZE_BYTES
            if end - start < size:
                self._begin_frame(size, scratch[start:end])
                return
            frame = memoryview(bytes(scratch[start : start + size]))
            start += size
            self._on_frame(frame)
        self._size_prefix = bytes(scratch[start:end]) if start < end else b""

    def _begin_frame(self, size: int, received: memoryview) -> None:
        frame = self._new_frame(size if self._memory is None else self._memory.first_piece(size))
        frame[: len(received)] = received
        self._hold(len(frame))
        self._frame = frame
        self._filled = len(received)
        self._size = size
        if self._on_begin is not None:
            self._on_begin(size)

    def _new_frame(self, size: int) -> memoryview:
        if not self._keeps or size < MIN_REUSED_BYTES:
            return memoryview(bytearray(size))
        kept = self._kept
        for index in range(len(kept) - 1, -1, -1):
            found = kept[index]
            if size <= len(found) <= MAX_UNUSED_SHARE * size and _is_unused(found):
                del kept[index]
                break
        else:
            found = bytearray(size)
        kept.append(found)
        while len(kept) > 1 and sum(map(len, kept)) > MAX_KEPT_BYTES:
            del kept[0]
        return memoryview(found)[:size]


def _is_unused(buffer: bytearray) -> bool:
    """Whether no view refers to the buffer: only then can its size be changed."""
    try:
        buffer.append(buffer.pop())
    except BufferError:
        return False
    return True
