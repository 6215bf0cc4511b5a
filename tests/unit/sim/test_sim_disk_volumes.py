"""Volumes of a simulated machine, and what a node's watcher and its life make of them."""

from __future__ import annotations

import errno

import pytest

from kmirror.common.topic_partition import TopicPartition
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.runtime.system_ports import SeededRandom
from kmirror.sim.disk import SimDisk
from kmirror.sim.disk_volumes import WRITING
from kmirror.sim.events import Appended, History, Recovered, Removed
from kmirror.sim.faults import FaultInjector, FaultRates
from kmirror.sim.fleet import SimFleet
from kmirror.sim.log_watch import DISK_LOST, MOVE, KnownChains, LogWatch
from kmirror.sim.loop import SimLoop
from kmirror.sim.runtime import SimClock, SimWorld

ORDERS = TopicPartition("orders", 0)
FUTURE = f"/two/orders-0.{'0' * 32}-future"


def new_disk() -> SimDisk:
    disk = SimDisk(SimClock(SimLoop(1)), SeededRandom(1), note=lambda text: None)
    disk.mount("/one")
    disk.mount("/two")
    return disk


def power_cycle(disk: SimDisk) -> None:
    disk.detach(power_loss=True)
    disk.attach()


def test_a_full_volume_takes_what_fits_and_the_other_takes_all():
    disk = new_disk()
    disk.volumes.at("/one/a").capacity_bytes = 3
    with pytest.raises(OSError) as caught:
        disk.write_bytes("/one/a", b"12345")
    assert caught.value.errno == errno.ENOSPC
    disk.write_bytes("/two/a", b"12345")
    assert (disk.read_bytes("/one/a"), disk.read_bytes("/two/a")) == (b"123", b"12345")
    assert disk.free_bytes("/one") == (3, 0)


def test_a_preallocated_file_takes_room_when_it_is_written():
    disk = new_disk()
    disk.volumes.at("/one").capacity_bytes = 3
    file = disk.open("/one/index", create=True)
    file.truncate(100)
    assert disk.free_bytes("/one") == (3, 3)
    file.pwrite(b"12", 0)
    with pytest.raises(OSError, match="No space"):
        file.pwrite(b"34", 2)


def test_a_failing_volume_fails_what_it_was_told_to():
    disk = new_disk()
    disk.write_bytes("/one/a", b"1")
    disk.volumes.at("/one").fail(errno.EROFS, WRITING)
    assert disk.read_bytes("/one/a") == b"1"
    with pytest.raises(OSError) as caught:
        disk.write_bytes("/one/a", b"2")
    assert caught.value.errno == errno.EROFS
    disk.volumes.at("/one").fail(errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        disk.exists("/one/a")
    with pytest.raises(OSError, match="Input/output"):
        disk.list_dir("/one")
    disk.volumes.at("/one").mend()
    assert disk.read_bytes("/one/a") == b"1"


def test_bad_sectors_are_those_of_files_with_the_suffix_until_they_are_mended():
    disk = new_disk()
    for name in ("1.log", "1.index"):
        disk.write_bytes(f"/one/{name}", b"12345")
    disk.volumes.at("/one").fail(errno.EIO, {"pread"}, suffix=".log")
    assert disk.read_bytes("/one/1.index") == b"12345"
    with pytest.raises(OSError, match="Input/output") as caught:
        disk.read_bytes("/one/1.log")
    assert caught.value.filename == "/one/1.log"
    disk.volumes.at("/one").mend()
    assert disk.read_bytes("/one/1.log") == b"12345"


@pytest.mark.parametrize("lies", [False, True])
def test_what_a_lying_volume_says_is_synced_goes_with_the_power(lies):
    kept = 0
    for _ in range(20):
        disk = new_disk()
        disk.volumes.at("/one").lies = lies
        disk.write_bytes("/one/a", b"content")
        disk.fsync_path("/one/a")
        disk.fsync_path("/one")
        power_cycle(disk)
        kept += disk.exists("/one/a") and disk.read_bytes("/one/a") == b"content"
    assert kept == (20 if not lies else 0)


def test_a_disk_that_is_lost_is_empty_also_after_a_power_loss():
    disk = new_disk()
    for path in ("/one/a", "/two/a"):
        disk.write_bytes(path, b"1")
        disk.fsync_path(path)
        disk.fsync_path(path[:4])
    disk.write_bytes("/one/b", b"1")
    disk.lose("/one")
    power_cycle(disk)
    assert (disk.list_dir("/one"), disk.list_dir("/two")) == ([], ["a"])


def batch(offset: int, value: bytes) -> bytes:
    return bytes(build_batch([Record(offset, 0, None, value, [])], base_offset=offset))


def watched() -> tuple[SimDisk, LogWatch, History]:
    """A log of two batches in /one, its future one of a single batch in /two."""
    disk, history = new_disk(), History()
    watch = disk.watcher = LogWatch("a1", ["/one", "/two"], disk, history, KnownChains(), lambda: 0)
    for folder in ("/one/orders-0", FUTURE):
        disk.make_dirs(folder)
    disk.write_bytes("/one/orders-0/00.log", batch(0, b"first") + batch(1, b"second"))
    disk.write_bytes(f"{FUTURE}/00.log", batch(0, b"first") + batch(1, b"other"))
    return disk, watch, history


def test_a_future_log_counts_when_it_takes_the_place_of_the_current_one():
    disk, watch, history = watched()
    assert watch.moving() == [ORDERS] and watch.data_dir_of(ORDERS) == "/one"
    open_before = disk.open(f"{FUTURE}/00.log")
    del history.events[:]
    disk.rename(FUTURE, "/two/orders-0")
    disk.rename("/one/orders-0", f"/one/orders-0.{'1' * 32}-delete")
    removed, appended = history.events
    assert isinstance(removed, Removed) and removed.cause == MOVE and removed.batches[0].values == (b"second",)
    assert isinstance(appended, Appended) and appended.batch.values == (b"other",)
    open_before.pwrite(batch(2, b"third"), open_before.size())
    assert [entry.values for entry in watch.logs[ORDERS]] == [(b"first",), (b"other",), (b"third",)]
    assert watch.moving() == [] and watch.data_dir_of(ORDERS) == "/two"


def test_a_log_whose_disk_is_lost_has_lost_all():
    disk, watch, history = watched()
    disk.lose("/one")
    watch.after_disk_loss("/one")
    removed = history.events[-1]
    assert isinstance(removed, Removed) and removed.cause == DISK_LOST and len(removed.batches) == 2
    assert watch.logs[ORDERS] == [] and watch.data_dir_of(ORDERS) is None


def test_a_torn_log_counts_against_a_node_that_uses_its_directory_and_against_no_other():
    """A node that fills its last bytes while it starts has a torn log in a directory that it does
    not use any more.
    """
    disk, watch, history = watched()
    disk.make_dirs("/two/orders-1")
    disk.write_bytes("/two/orders-1/00.log", batch(0, b"first"))
    torn = disk.open("/one/orders-0/00.log")
    whole_bytes = torn.size()
    torn.pwrite(batch(2, b"third")[:28], whole_bytes)
    for unused, expected in ((["/one"], [(1, None)]), ([], [(0, whole_bytes), (1, None)])):
        del history.events[:]
        watch.after_start(unused)
        recovered = [event for event in history.events if isinstance(event, Recovered)]
        assert [(event.log.partition.partition, event.invalid_position) for event in recovered] == expected
        assert [entry.values for entry in watch.logs[ORDERS]] == [(b"first",), (b"second",)]


@pytest.mark.parametrize("torn", [batch(2, b"third")[:28], bytes(42), batch(2, b"third")[:-1] + b"x"], ids=["short", "zeros", "flipped"])
@pytest.mark.parametrize("folder", ["keys-0", "__cluster_metadata-0"])
def test_a_torn_log_is_found_in_any_segment_of_any_topic(torn, folder):
    disk, watch, _ = watched()
    disk.make_dirs(f"/two/{folder}")
    disk.write_bytes(f"/two/{folder}/00.log", batch(0, b"first") + batch(1, b"second"))
    disk.write_bytes(f"/two/{folder}/03.log", batch(3, b"fourth"))
    assert not watch.is_torn("/one") and not watch.is_torn("/two")
    disk.write_bytes(f"/two/{folder}/00.log", batch(0, b"first") + batch(1, b"second") + torn)
    assert not watch.is_torn("/one") and watch.is_torn("/two")
    disk.rename(f"/two/{folder}", f"/two/{folder}.{'1' * 32}-delete")
    assert not watch.is_torn("/two"), "it is no log any more"


def fleet() -> tuple[SimWorld, SimFleet]:
    world = SimWorld(SimLoop(1))
    made = SimFleet(world, History(), KnownChains(), brokers=1, log_dirs=2)
    for server in made.servers:
        server.start()
    for server in made.servers:
        world.loop.run_until_complete(server.wait_started())
    return world, made


def test_a_node_may_refuse_to_start_on_a_bad_disk_and_starts_when_it_is_mended():
    world, made = fleet()
    (broker,) = made.brokers.values()
    broker.crash()
    for volume in broker.volumes:
        volume.fail(errno.EIO)
    broker.start()
    world.loop.run_for_us(1_000_000)
    assert broker.refused is not None and broker.start_failed is None and not broker.alive
    broker.mend_disks()
    broker.start()
    world.loop.run_until_complete(broker.wait_started())
    assert broker.refused is None and not broker.needs_restart
    world.close()


@pytest.mark.parametrize(
    ("path", "name", "goes_on"),
    [
        ("/data", "meta.properties", False),
        ("/data2", "meta.properties", False),
        ("/data2", "recovery-point-offset-checkpoint", True),
    ],
)
def test_a_disk_that_lied_to_a_node_that_does_not_use_it_is_replaced(path, name, goes_on):
    """Where a meta.properties makes no sense the node refuses to start; without the directory of
    another such file it goes on.
    """
    world, made = fleet()
    (broker,) = made.brokers.values()
    volume = broker.node.disk.volumes.at(path)
    volume.lies = True
    broker.node.disk.write_bytes(f"{path}/torn", b"1")
    broker.node.disk.fsync_path(f"{path}/torn")
    broker.crash()
    broker.node.disk.attach()
    broker.node.disk.write_bytes(f"{path}/{name}", b"version=1")
    broker.start()
    world.loop.run_for_us(10_000_000)
    assert broker.start_failed is None and broker.needs_restart and broker.alive is goes_on
    if broker.alive:
        broker.crash()
    broker.mend_disks()
    broker.start()
    world.loop.run_until_complete(broker.wait_started())
    assert not volume.lies and not volume.has_lied and not broker.needs_restart
    assert not broker.node.disk.exists(f"{path}/torn")
    world.close()


@pytest.mark.parametrize(("name", "goes_on"), [("meta.properties", False), ("recovery-point-offset-checkpoint", True)])
def test_a_disk_that_lied_is_looked_after_when_everything_else_has_healed(name, goes_on):
    """Seed 201366 found a torn partition.metadata at a restart, seed 284387 a torn checkpoint a
    second after the last fault had been mended.
    """
    world, made = fleet()
    (broker,) = made.brokers.values()
    faults = FaultInjector(world, [broker], [broker.name], FaultRates({"disk_lies": 1}), History(), disks=[broker])
    running = world.loop.create_task(faults.run())
    faults.active = True
    while not any(volume.lies for volume in broker.volumes):
        world.loop.run_for_us(10_000)
    (volume,) = [volume for volume in broker.volumes if volume.lies]
    broker.node.disk.write_bytes(f"{volume.path}/torn", b"1")
    broker.node.disk.fsync_path(f"{volume.path}/torn")
    running.cancel()
    world.loop.run_until_complete(faults.mend())
    broker.crash()
    broker.node.disk.attach()
    broker.node.disk.write_bytes(f"{volume.path}/{name}", b"version=1")
    broker.start()
    world.loop.run_for_us(2_000_000)
    assert broker.needs_restart and broker.alive is goes_on
    world.loop.run_for_us(10_000_000)
    assert broker.is_serving and not broker.needs_restart and not volume.has_lied
    world.close()


def test_of_a_replica_in_two_directories_the_operator_removes_the_one_it_left():
    disk, watch, _ = watched()
    disk.rename(FUTURE, "/two/orders-0")
    assert watch.former_folders() == ["/one/orders-0"]
    disk.lose_tree("/one/orders-0")
    assert watch.former_folders() == [] and disk.list_dir("/one") == []


def test_a_node_that_does_not_start_on_good_disks_is_a_finding():
    world, made = fleet()
    (broker,) = made.brokers.values()
    broker.crash()
    broker.node.disk.attach()
    for path in ("/data/meta.properties", "/data2/meta.properties"):
        broker.node.disk.remove(path)
    broker.start()
    world.loop.run_for_us(1_000_000)
    assert broker.start_failed is not None and "format them first" in broker.start_failed
    world.close()
