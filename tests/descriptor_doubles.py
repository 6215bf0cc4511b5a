"""A process that has no file descriptor left."""

from __future__ import annotations

import gc
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_HEADROOM = 16


@contextmanager
def all_descriptors_taken() -> Iterator[None]:
    """The limit is lowered to what is open and a little more, and the rest is taken, as by clients' connections."""
    gc.collect()  # what earlier tests left open would be closed at any moment
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + _HEADROOM, limits[1]))
    taken: list[int] = []
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
