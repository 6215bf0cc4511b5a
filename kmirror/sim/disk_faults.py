"""What goes wrong with disks, by the seed: one volume of a broker fails, fills, lies, or comes back empty, while its others are healthy.

    disk_fails   every operation, reading, or writing fails from now on; or the node is restarted and may not open its files
    disk_fills   there is room for a little more, and then none; half of the time the node is restarted meanwhile
    disk_lies    what is synced is not durable, so that the next power loss forgets it
    disk_lost    the node goes down, and another disk, an empty one, stands in the place of the old one when it starts again

Each is mended after a while, as an operator does it: the node is off, space is freed or the disk is repaired or formatted, and the node
starts again. Until then the node may refuse to start, or go on with what is healthy. A lie just ends, but what was synced meanwhile is lost
with the power at any later time: a node whose disk ever lied the operator looks after for the rest of the story (`faults`). To a fleet all of these are
a loss of power at the most, so they come only when that may (`way_to_die`), and no other broker of the fleet dies until all is whole again.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

from kmirror.common.ports import Random
from kmirror.sim.disk_volumes import WRITING, Volume
from kmirror.sim.events import History, Told
from kmirror.sim.loop import SimLoop
from kmirror.sim.server import SimServer

KINDS = ("disk_fails", "disk_fills", "disk_lies", "disk_lost")
MAX_ROOM_BYTES = 3_000
RUNNING = ((errno.EIO, None, "fails"), (errno.EIO, frozenset({"pread"}), "cannot be read"), (errno.EROFS, WRITING, "is read-only"))
AT_START = (
    (errno.EIO, None, "fails"),
    (errno.EIO, frozenset({"pread"}), "cannot be read"),
    (errno.EMFILE, frozenset({"open"}), "has no file opened, for there are too many"),
    (errno.EACCES, frozenset({"open"}), "has no file opened, for want of rights"),
)


class DiskFaults:
    """Breaks and mends. `is_held(server)`: whether the story owns its life, and starts it itself."""

    def __init__(self, loop: SimLoop, random: Random, history: History, is_held: Callable[[SimServer], bool]) -> None:
        self._loop = loop
        self._random = random
        self._history = history
        self._is_held = is_held

    def happen(self, kind: str, server: SimServer) -> Callable[[], object]:
        """Now; what mends it is returned, for whoever knows when. The server runs."""
        volume = server.volumes[self._random.randrange(len(server.volumes))]
        if kind == "disk_lies":
            volume.lies = True
            self._tell(f"{volume.path} of {server.name} says that it is synced, and is not")
            return lambda: self._end_lie(server, volume)
        restarts = self._random.randrange(2) == 0
        if kind == "disk_lost" or restarts:
            server.crash()
        if kind == "disk_lost":
            server.replace_disk(volume.path)
        elif kind == "disk_fills":
            volume.capacity_bytes = server.node.disk.used_bytes(volume) + self._random.randrange(MAX_ROOM_BYTES)
            self._tell(f"{volume.path} of {server.name} is full")
        else:
            ways = AT_START if restarts else RUNNING
            error_number, operations, what = ways[self._random.randrange(len(ways))]
            volume.fail(error_number, operations)
            self._tell(f"{volume.path} of {server.name} {what}")
        server.note_bad_disk()
        if not server.alive:
            self._loop.create_task(self._start(server), name="start-on-bad-disk")
        return lambda: self.mend(server)

    def mend(self, server: SimServer) -> None:
        """The operator does it, unless it is done."""
        for volume in server.volumes:
            self._end_lie(server, volume)
        if not server.needs_restart:
            return
        if server.alive:
            server.crash()
        server.mend_disks()
        if not self._is_held(server):
            server.start()

    async def _start(self, server: SimServer) -> None:
        await asyncio.sleep((20 + self._random.randrange(200)) / 1000)
        if not server.alive and not self._is_held(server):
            server.start()

    def _end_lie(self, server: SimServer, volume: Volume) -> None:
        if volume.lies:
            volume.lies = False
            self._tell(f"{volume.path} of {server.name} lies no more")

    def _tell(self, what: str) -> None:
        self._history.add(Told(self._loop.now_us, "faults", what))
