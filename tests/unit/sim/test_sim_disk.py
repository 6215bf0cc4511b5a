"""SimDisk: the port's promises, and what is left after a crash and after a power loss."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kmirror.runtime.os_files import OsFileSystem
from kmirror.runtime.system_ports import SeededRandom
from kmirror.sim.disk import SimDisk
from kmirror.sim.disk_contents import SECTOR_BYTES
from kmirror.sim.loop import SimLoop
from kmirror.sim.owners import NodeKilledError
from kmirror.sim.runtime import SimClock


def new_disk(seed: int = 1, **options) -> SimDisk:
    return SimDisk(SimClock(SimLoop(seed)), SeededRandom(seed), note=lambda text: None, **options)


def power_cycle(disk: SimDisk) -> None:
    disk.detach(power_loss=True)
    disk.attach()


def durable(disk: SimDisk, path: str, data: bytes) -> None:
    disk.write_bytes(path, data)
    disk.fsync_path(path)
    disk.fsync_path("/")


def test_a_crash_of_the_process_keeps_everything():
    disk = new_disk()
    disk.make_dirs("/d")
    disk.write_bytes("/d/a", b"content")
    disk.detach(power_loss=False)
    disk.attach()
    assert disk.read_bytes("/d/a") == b"content"


def test_what_was_synced_survives_every_power_loss():
    for seed in range(50):
        disk = new_disk(seed)
        disk.make_dirs("/d")
        disk.write_bytes("/d/a", b"content")
        disk.fsync_path("/d/a")
        disk.fsync_path("/d")
        disk.fsync_path("/")
        file = disk.open("/d/a")
        file.pwrite(b" lost?", 7)
        power_cycle(disk)
        assert disk.read_bytes("/d/a")[:7] == b"content"


def test_what_was_not_synced_is_kept_lost_or_torn():
    old, new = b"o" * SECTOR_BYTES * 4, b"n" * SECTOR_BYTES * 4
    outcomes = set()
    for seed in range(200):
        disk = new_disk(seed)
        durable(disk, "/a", old)
        disk.open("/a").pwrite(new, 0)
        power_cycle(disk)
        content = disk.read_bytes("/a")
        assert len(content) == len(old)
        outcomes.add("old" if content == old else "new" if content == new else "torn")
    assert outcomes == {"old", "new", "torn"}


def test_a_later_write_may_survive_an_earlier_one():
    seen = set()
    for seed in range(100):
        disk = new_disk(seed)
        durable(disk, "/a", b"")
        file = disk.open("/a")
        file.pwrite(b"11", 0)
        file.pwrite(b"22", 2)
        power_cycle(disk)
        seen.add(disk.read_bytes("/a"))
    assert {b"", b"11", b"1122", b"\0\x0022"} <= seen


def test_a_synced_file_may_lose_its_name_unless_its_directory_is_synced():
    def survives(seed: int, *, sync_directory: bool) -> bool:
        disk = new_disk(seed)
        disk.write_bytes("/a", b"x")
        disk.fsync_path("/a")
        if sync_directory:
            disk.fsync_path("/")
        power_cycle(disk)
        return disk.exists("/a")

    assert {survives(seed, sync_directory=False) for seed in range(50)} == {True, False}
    assert all(survives(seed, sync_directory=True) for seed in range(50))


def test_an_atomic_replace_leaves_the_old_or_the_new_file():
    seen = set()
    for seed in range(100):
        disk = new_disk(seed)
        durable(disk, "/checkpoint", b"old")
        disk.write_bytes("/checkpoint.tmp", b"new")
        disk.fsync_path("/checkpoint.tmp")
        disk.rename("/checkpoint.tmp", "/checkpoint")
        power_cycle(disk)
        seen.add(disk.read_bytes("/checkpoint"))
    assert seen == {b"old", b"new"}


def test_renames_of_directories_keep_what_is_inside():
    disk = new_disk()
    disk.make_dirs("/d/e")
    disk.write_bytes("/d/e/a", b"x")
    disk.rename("/d/e", "/d/f")
    assert disk.list_dir("/d") == ["f"]
    assert disk.read_bytes("/d/f/a") == b"x"
    with pytest.raises(FileNotFoundError):
        disk.read_bytes("/d/e/a")


def test_files_of_an_earlier_life_kill_whoever_uses_them():
    disk = new_disk()
    file = disk.open("/a", create=True)
    disk.detach(power_loss=False)
    with pytest.raises(NodeKilledError):
        disk.exists("/a")
    disk.attach()
    with pytest.raises(NodeKilledError):
        file.pwrite(b"x", 0)
    file.close()
    assert disk.size("/a") == 0


def test_locks_end_with_the_life_of_their_holder():
    disk = new_disk()
    held = disk.lock("/.lock")
    with pytest.raises(BlockingIOError):
        disk.lock("/.lock")
    held.close()
    disk.lock("/.lock")
    disk.detach(power_loss=False)
    disk.attach()
    disk.lock("/.lock")


def test_a_full_disk_takes_what_fits():
    disk = new_disk(capacity_bytes=10)
    file = disk.open("/a", create=True)
    file.pwrite(b"1234567", 0)
    with pytest.raises(OSError, match="No space left") as caught:
        file.pwritev([b"89", b"0ab"], 7)
    assert caught.value.errno == errno.ENOSPC
    assert disk.read_bytes("/a") == b"1234567890"
    file.pwrite(b"x", 0)
    assert disk.free_bytes("/") == (10, 0)


def test_after_a_failed_fsync_the_data_may_never_become_durable():
    disk = new_disk()
    durable(disk, "/a", b"old")
    file = disk.open("/a")
    file.pwrite(b"new", 0)
    disk.volumes.root.fail(errno.EIO, ["fsync"])
    with pytest.raises(OSError):
        file.fsync()
    disk.volumes.root.mend()
    file.fsync()
    assert disk.read_bytes("/a") == b"new"
    power_cycle(disk)
    assert disk.read_bytes("/a") == b"old"


def test_rot_flips_bits_for_good():
    disk = new_disk()
    durable(disk, "/a", b"\x00\x00")
    disk.corrupt("/a", 1, 0x81)
    power_cycle(disk)
    assert disk.read_bytes("/a") == b"\x00\x81"


def test_there_is_no_descriptor_for_sendfile():
    with pytest.raises(OSError, match="no descriptor"):
        new_disk().open("/a", create=True).fileno()


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from("ab"), st.integers(0, 20), st.binary(max_size=12)),
        st.tuples(st.just("truncate"), st.sampled_from("ab"), st.integers(0, 20)),
        st.tuples(st.just("rename"), st.sampled_from("abd"), st.sampled_from("abd")),
        st.tuples(st.just("remove"), st.sampled_from("ab")),
        st.tuples(st.just("mkdir"), st.sampled_from(["d", "d/e", "a"])),
        st.tuples(st.just("list"), st.sampled_from(["", "d"])),
        st.tuples(st.just("tree"), st.sampled_from(["d", "a"])),
    ),
    max_size=25,
)


def perform(files, root: str, operation: tuple) -> object:
    """What one operation gives, or the kind of error it raises."""
    name, path, *rest = operation
    path = f"{root}/{path}"
    try:
        if name in ("write", "truncate"):
            file = files.open(path, create=True)
            try:
                return (file.pwrite(rest[1], rest[0]) if name == "write" else file.truncate(rest[0])), file.pread(99, 0)
            finally:
                file.close()
        if name == "rename":
            return files.rename(path, f"{root}/{rest[0]}")
        actions = {"remove": files.remove, "mkdir": files.make_dirs, "list": files.list_dir, "tree": files.remove_tree}
        return actions[name](path)
    except OSError as error:
        return type(error)


@settings(max_examples=60, deadline=None)
@given(OPERATIONS)
def test_it_behaves_like_the_operating_system(tmp_path_factory, operations):
    root = str(tmp_path_factory.mktemp("disk"))
    simulated = new_disk()
    simulated.make_dirs(root)
    real = OsFileSystem()
    for operation in operations:
        assert perform(simulated, root, operation) == perform(real, root, operation), operation
