"""Destructive campaigns on real processes: clusters, a mirror, load, and a hand that kills, stalls,
fills and cuts.

    python -m tools.campaigns kills --rounds 100 --seed 1        SIGKILL and SIGSTOP of the destination's nodes, its controller among them
    python -m tools.campaigns failovers --rounds 10              failover and failback between the reference and us
    python -m tools.campaigns fronts --rounds 10                 a destination whose defaults keep less, and failovers before the configs came
    python -m tools.campaigns disks --rounds 12                  tmpfs: full, read-only, emptied, removed, one of two, the metadata's (root)
    python -m tools.campaigns topics --rounds 3 --topics 1000    a thousand mirrored topics
    python -m tools.campaigns link --rounds 30                   a link that delays, resets, goes silent
    python -m tools.campaigns workers --rounds 50 --seed 1       MirrorMaker 2: its workers, and brokers of both clusters

A campaign has rounds and a seed; the same seed chooses the same victims at the same places, but
real processes take their own time, so it repeats the plan and not the run. (What must repeat is
`kmirror sim`'s.) At the end stand the same promises each time (`checks`): every acknowledged record
is there, all replicas have the same bytes, nobody is out of the ISR a minute later, every mirror
goes on.

The last line is the verdict. The exit code is 1 when a promise is broken, and 2 when the campaign
cannot run here. Data and logs of all nodes stay in a folder that the verdict names, unless every
promise held.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for _folder in (ROOT, ROOT / "tests"):  # foreign brokers as processes are the interop tests' (peers, mirror_harness)
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))
