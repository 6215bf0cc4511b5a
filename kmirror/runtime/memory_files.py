"""A file that lives in memory, for libraries that accept only paths (OpenSSL for private keys, for
example).

On Linux it is an anonymous file of the kernel's, readable through /proc for as long as the block
runs; elsewhere a file in the temporary folder that only its owner can read, removed at the block's
end.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def memory_file(data: bytes) -> Iterator[str]:
    """Yields the path of a file that contains `data`."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("kmirror")
        try:
            with os.fdopen(os.dup(descriptor), "wb") as out:
                out.write(data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as out:  # made with mode 0600
        out.write(data)
        out.flush()
        yield out.name
