"""Python's cycle collector in a process that is a node.

Reference counts free nearly all objects of a node; the collector is for the rest, cycles of tasks,
exceptions and connections. By Python's defaults it walks the whole heap each time the heap has
grown by a quarter, and the heap of a broker is large and long-lived: 3,000 new mirrored partitions
cost 9 such walks, 40 % of the CPU and pauses of up to 0.2 s, and freed 3,000 objects. So the
objects that exist when a node has started are not walked any more, and a walk begins only after
many more new objects.

This is only for kmirror's own processes (`node_main.serve`): the collector belongs to the whole
process, and `EmbeddedCluster` lives in its user's process.
"""

from __future__ import annotations

import gc
from typing import Final

THRESHOLDS: Final = (10_000, 10, 20)
"""A young collection begins after so many new objects that were not freed, a middle one after so
many young ones, a full one after so many middle ones (and, by Python's own rule, not before the
heap has grown by a quarter)."""


def collect_rarely() -> None:
    """Sets the thresholds; call it before the node allocates."""
    gc.set_threshold(*THRESHOLDS)


def leave_alone_what_is_there() -> None:
    """Excludes all objects that exist now from collections; cycles among them that die later are
    not freed."""
    gc.freeze()
