"""CRC-32C (Castagnoli): polynomial 0x1EDC6F41, reflected, as record batches and producer snapshots carry it.

The `crc32c` package uses the processor's instruction and reads any contiguous buffer in place, so callers pass
`memoryview` slices and nothing is copied.
"""

from __future__ import annotations

from crc32c import crc32c as _extend

from kmirror.common.ports import Buffer


def crc32c(data: Buffer, value: int = 0) -> int:
    """The unsigned CRC of `data`; `value` is the CRC of what came before it, 0 at the start."""
    checksum: int = _extend(data, value)
    return checksum
