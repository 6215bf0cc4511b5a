"""Every fault of the simulator, each declared in one place: name, weight, what it does, how it
heals, what the story tells of it.

A fault is a function of the scene (`sim.fault_scene`) under `@fault`, and a line of `FAULTS`. To
add one, write it here and name it there. The name is the function's; `kmirror sim --list` shows its
docstring. Draw from the scene only, and in one order: one seed is one run.

A disk breaks one volume of a broker at a time, while its others are healthy, and is mended after a
while, as an operator does it: the node is off, space is freed or the disk is repaired or formatted,
and the node starts again. Until then the node may refuse to start, or go on with what is healthy. A
lie just ends, but what was synced meanwhile is lost with the power at any later time: a node whose
disk ever lied the operator looks after for the rest of the story. To a fleet all of these are a
loss of power at the most, so they come only when that may (`way_to_die`), and no other broker of
the fleet dies until all is whole again.
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
    """A node stands still, as in a long garbage collection."""
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
    """Two hosts do not reach each other, or one of them not the other, for a while."""
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
    """Every operation of a log directory fails, or reading, or writing; or the node is restarted
    and may not open its files.
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
    """A log directory has room for a little more, and then none; half of the time the node is
    restarted meanwhile.
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
    """What is synced to a log directory is not durable for a while, so that a later loss of power
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
    """The node goes down, and another disk, an empty one, stands in the place of a log directory's
    when it starts again.
    """
    drawn = _draw_volume(scene)
    if drawn is None:
        return None
    server, volume = drawn
    scene.coin()  # (nothing hangs on it; without it every later draw of a seed would be another)
    server.crash()
    server.replace_disk(volume.path)
    return _until_mended(scene, server)


def _draw_volume(scene: FaultScene) -> tuple[SimServer, Volume] | None:
    """One disk of a server at a time, and only where the server might lose its power."""
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
    """The operator mends what is broken of the server's disks, and starts it again; nothing where
    nothing is.
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
"""In the order in which they are drawn: a new one goes to the end of its kind, or every seed is
another run.
"""
