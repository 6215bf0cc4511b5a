"""CRC-32C (Castagnoli): polynomial 0x1EDC6F41, reflected, as record batches and producer snapshots
carry it.

The `crc32c` package uses the processor's instruction and reads any contiguous buffer in place, so
callers pass `memoryview` slices and nothing is copied. Only its extension module is loaded: the
package itself looks up its own version when imported, which costs 40 ms, a third of what a tool may
take to start.
"""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder
from importlib.util import find_spec, module_from_spec
from typing import Final, Protocol, cast

from kmirror.common.ports import Buffer


class Crc32c(Protocol):
    """The type of this module's `crc32c`."""

    def __call__(self, data: Buffer, value: int = 0, /) -> int:
        """The unsigned CRC of `data`; `value` is the CRC of what came before it, 0 at the start."""


def _load() -> Crc32c:
    package = find_spec("crc32c")
    for folder in package.submodule_search_locations or () if package is not None else ():
        spec = FileFinder(folder, (ExtensionFileLoader, EXTENSION_SUFFIXES)).find_spec("_crc32c")
        if spec is not None and spec.loader is not None:
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            extension: Crc32c = module.crc32c
            return extension
    from crc32c import crc32c as from_package

    return cast(Crc32c, from_package)


crc32c: Final = _load()
"""The extension's own function: a wrapper would cost as much as the CRC of a small batch."""
