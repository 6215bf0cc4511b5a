"""Every fault of the simulator, each declared in one place: its name, its weight, what it does, how
it heals, and what the story says about it.

A fault is a function of the scene (`sim.fault_scene`) under `@fault`, and an entry of `FAULTS`. To
add one, write it here and add it there. The fault has the function's name; `kmirror sim --list`
shows its docstring. Draw from the scene only, and always in the same order: one seed is one run.

A disk fault breaks one volume of a broker at a time, while its others are healthy. It is mended
after a while, as an operator does it: the node is off, space is freed or the disk is repaired or
formatted, and the node starts again. Until then the node may refuse to start, or go on with what is
healthy. A lie simply ends, but what was synced meanwhile may be lost with the power at any later
time, so the operator looks after a node whose disk ever lied for the rest of the story. To a fleet
each disk fault is a loss of power at the most. So it comes only when a loss of power may
(`way_to_die`), and no other broker of the fleet dies until all is whole again.
"""

from __future__ import annotations

import asyncio
import errno

from kmirror.sim.disk_volumes import WRITING, Volume
from kmirror.sim.fault_scene import Fault, FaultScene, Mending, fault
from kmirror.sim.links import Link
from kmirror.sim.server import SimServer

SLOW = Link(20_000, 250_000, 2_000_000)
MIN_DISK_MS, MAX_DISK_MS = 300, 2_500
MAX_ROOM_BYTES = 3_000
CANNOT_BE_READ = (errno.EIO, frozenset({"pread"}), "cannot be read")
RUNNING = ((errno.EIO, None, "fails"), CANNOT_BE_READ, (errno.EROFS, WRITING, "is read-only"))
AT_START = (
    (errno.EIO, None, "fails"),
    CANNOT_BE_READ,
    (errno.EMFILE, frozenset({"open"}), "has no file opened, for there are too many"),
    (errno.EACCES, frozenset({"open"}), "has no file opened, for want of rights"),
)

# Nodes


@fault(weight=3)
def crash(scene: FaultScene) -> Mending | None:
    """The process of a node is killed; it starts again a little later."""
    return _kill(scene, power_loss=False)


@fault(weight=3)
def power_loss(scene: FaultScene) -> Mending | None:
    """A node loses its power, and with it what was not synced (a crash, where the fleet would not
    survive that); it starts again a little later.
    """
    return _kill(scene, power_loss=True)


def _kill(scene: FaultScene, *, power_loss: bool) -> Mending | None:
    server = scene.one_that_may_die(scene.servers)
    way = scene.way_to_die(server, power_loss) if server is not None else None
    if server is None or way is None:
        return None
    if way:
        server.lose_power()
    else:
        server.crash()
    return Mending("restart", scene.between(50, 700), lambda: scene.start_again(server))


@fault(weight=1)
def node_pause(scene: FaultScene) -> None:
    """A node stops running for a while, as in a long garbage collection."""
    server = scene.any_server()
    duration_ms = scene.between(50, 800)
    server.node.pause(duration_ms * 1000)
    scene.tell(f"{server.name} stands still for {duration_ms} ms")


@fault(weight=1)
def clock_jump(scene: FaultScene) -> None:
    """The wall clock of a node is up to ten seconds off from now on."""
    server = scene.any_server()
    server.node.clock.offset_ms = scene.between(0, 20_000) - 10_000
    scene.tell(f"the wall clock of {server.name} is off by {server.node.clock.offset_ms} ms")


# The network


@fault(weight=3)
def partition(scene: FaultScene) -> Mending:
    """Two hosts cannot reach each other for a while, or only one of them can reach the other."""
    first, second = scene.two_hosts()
    both_ways = scene.coin()
    scene.world.network.partition([first], [second], both_ways=both_ways)
    scene.tell(f"{first} and {second} are cut off from each other" if both_ways else f"nothing from {first} reaches {second}")
    return Mending("heal", scene.between(100, 1_800), scene.heal_network)


@fault(weight=3)
def reset(scene: FaultScene) -> None:
    """All connections between two hosts are reset."""
    first, second = scene.two_hosts()
    count = scene.world.network.reset(first, second)
    if count:
        scene.tell(f"{count} connections between {first} and {second} are reset")


@fault(weight=2)
def slow_link(scene: FaultScene) -> Mending:
    """The link from one host to another is slow for a while."""
    first, second = scene.two_hosts()
    scene.world.network.links.set(first, second, SLOW)
    scene.tell(f"the link from {first} to {second} is slow")
    return Mending("heal", scene.between(300, 1_500), scene.heal_network)


# Disks


@fault(weight=3, of_disks=True)
def disk_fails(scene: FaultScene) -> Mending | None:
    """Every operation of a log directory fails, or only reads, or only writes; or the node is
    restarted and cannot open its files.
    """
    drawn = _draw_volume(scene)
    if drawn is None:
        return None
    server, volume = drawn
    restarts = scene.coin()
    if restarts:
        server.crash()
    ways = AT_START if restarts else RUNNING
    error_number, operations, what = ways[scene.random.randrange(len(ways))]
    volume.fail(error_number, operations)
    scene.tell(f"{volume.path} of {server.name} {what}")
    return _until_mended(scene, server)


@fault(weight=3, of_disks=True)
def disk_fills(scene: FaultScene) -> Mending | None:
    """A log directory has room for a little more, and then none; half of the time the node is also
    restarted.
    """
    drawn = _draw_volume(scene)
    if drawn is None:
        return None
    server, volume = drawn
    if scene.coin():
        server.crash()
    volume.capacity_bytes = server.node.disk.used_bytes(volume) + scene.random.randrange(MAX_ROOM_BYTES)
    scene.tell(f"{volume.path} of {server.name} is full")
    return _until_mended(scene, server)


@fault(weight=2, of_disks=True)
def disk_lies(scene: FaultScene) -> Mending | None:
    """For a while, what is synced to a log directory is not durable, so a later loss of power
    forgets it.
    """
    drawn = _draw_volume(scene)
    if drawn is None:
        return None
    server, volume = drawn
    volume.lies = True
    scene.tell(f"{volume.path} of {server.name} says that it is synced, and is not")
    return Mending("disk", scene.between(MIN_DISK_MS, MAX_DISK_MS), lambda: _end_lie(scene, server, volume), watched=server)


@fault(weight=2, of_disks=True)
def disk_lost(scene: FaultScene) -> Mending | None:
    """A node goes down, and when it starts again the disk of one of its log directories is an empty
    one.
    """
    drawn = _draw_volume(scene)
    if drawn is None:
        return None
    server, volume = drawn
    scene.coin()  # (unused; without it every later draw of a seed would change)
    server.crash()
    server.replace_disk(volume.path)
    return _until_mended(scene, server)


def _draw_volume(scene: FaultScene) -> tuple[SimServer, Volume] | None:
    """Draws one volume of a server that might lose its power now; None if there is no such server."""
    server = scene.one_that_may_die(scene.with_disks)
    if server is None or server.needs_restart or not scene.way_to_die(server, True):
        return None
    return server, server.volumes[scene.random.randrange(len(server.volumes))]


def _until_mended(scene: FaultScene, server: SimServer) -> Mending:
    server.note_bad_disk()
    if not server.alive:
        scene.world.loop.create_task(_start_on_bad_disk(scene, server), name="start-on-bad-disk")
    return Mending("disk", scene.between(MIN_DISK_MS, MAX_DISK_MS), lambda: mend_disks(scene, server))


async def _start_on_bad_disk(scene: FaultScene, server: SimServer) -> None:
    await asyncio.sleep((20 + scene.random.randrange(200)) / 1000)
    scene.start_again(server)


def mend_disks(scene: FaultScene, server: SimServer) -> None:
    """Mends the server's broken disks and starts it again, as its operator does; does nothing if
    nothing is broken.
    """
    for volume in server.volumes:
        _end_lie(scene, server, volume)
    if not server.needs_restart:
        return
    if server.alive:
        server.crash()
    server.mend_disks()
    if not scene.is_held(server):
        server.start()


def _end_lie(scene: FaultScene, server: SimServer, volume: Volume) -> None:
    if volume.lies:
        volume.lies = False
        scene.tell(f"{volume.path} of {server.name} lies no more")


FAULTS: tuple[Fault, ...] = (
    crash,
    power_loss,
    partition,
    reset,
    slow_link,
    node_pause,
    clock_jump,
    disk_fails,
    disk_fills,
    disk_lies,
    disk_lost,
)
"""In the order in which they are drawn. Add a new one at the end of its kind, or every seed becomes
another run.
"""
