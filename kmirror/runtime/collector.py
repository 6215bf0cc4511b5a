"""Python's cycle collector in a process that is a node.

Reference counts free nearly all that a node makes; the collector is for the rest, cycles of tasks, exceptions and connections. By
Python's defaults it walks the whole heap each time that this has grown by a quarter, and the heap of a broker is large and stays: 3,000
new mirrored partitions cost 9 such walks, 40 % of the CPU and pauses of up to 0.2 s, and 3,000 objects were freed. So what is there
when a node has started is not walked any more, and a walk begins after many more new objects.

For processes of our own only (`node_main.serve`): the collector belongs to the whole process, and `EmbeddedCluster` lives in other people's.
"""

from __future__ import annotations

import gc
from typing import Final

THRESHOLDS: Final = (10_000, 10, 20)
"""A young collection per so many new objects that were not freed, a middle one per so many of those, a full one per so many of these (and
not before the heap has grown by a quarter, which is Python's own rule)."""


def collect_rarely() -> None:
    """From now on; call it before the node allocates."""
    gc.set_threshold(*THRESHOLDS)


def leave_alone_what_is_there() -> None:
    """Everything that lives now is never walked again; cycles among it that die later are not freed."""
    gc.freeze()
