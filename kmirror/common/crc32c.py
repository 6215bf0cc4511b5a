"""CRC-32C (Castagnoli): polynomial 0x1EDC6F41, reflected, as record batches and producer snapshots carry it.

The `crc32c` package uses the processor's instruction and reads any contiguous buffer in place, so callers pass
`memoryview` slices and nothing is copied.
"""

from __future__ import annotations

from typing import Final, Protocol

from crc32c import crc32c as _extend

from kmirror.common.ports import Buffer


class _Crc32c(Protocol):
    def __call__(self, data: Buffer, value: int = 0, /) -> int:
        """The unsigned CRC of `data`; `value` is the CRC of what came before it, 0 at the start."""
        ...


crc32c: Final[_Crc32c] = _extend
"""The C function itself: a Python wrapper would cost as much as the CRC of a small batch."""
