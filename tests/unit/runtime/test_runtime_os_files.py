"""OsFileSystem: what the port promises, on a temporary directory."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys

import pytest

from kmirror.runtime.os_files import IOV_MAX, WRITE_BYTES, OsFileSystem


@pytest.fixture
def files() -> OsFileSystem:
    return OsFileSystem()


def test_reads_and_writes_are_by_position(files, tmp_path):
    file = files.open(str(tmp_path / "a"), create=True)
    assert file.pwrite(b"world", 6) == 5
    assert file.pwrite(memoryview(b"hello "), 0) == 6
    assert file.pread(100, 0) == b"hello world"
    assert file.pread(5, 6) == b"world"
    assert file.pread(5, 11) == b""
    assert file.size() == 11


def test_more_buffers_than_one_call_takes_are_written_in_order(files, tmp_path):
    file = files.open(str(tmp_path / "a"), create=True)
    buffers = [bytes([index % 251]) * (index % 3) for index in range(IOV_MAX * 2 + 5)]
    assert file.pwritev(buffers, 3) == sum(map(len, buffers))
    assert file.pread(1 << 20, 0) == bytes(3) + b"".join(buffers)


def test_short_writes_of_the_kernel_are_finished(files, tmp_path, monkeypatch):
    file = files.open(str(tmp_path / "a"), create=True)
    real_pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, position: real_pwrite(descriptor, bytes(data)[:2], position))
    monkeypatch.setattr(os, "pwritev", lambda descriptor, buffers, position: real_pwrite(descriptor, bytes(buffers[0])[:1], position))
    assert file.pwrite(b"abcdefg", 0) == 7
    assert file.pwritev([b"hij", b"klm"], 7) == 6
    assert file.pread(100, 0) == b"abcdefghijklm"


def test_a_large_write_goes_in_pieces(tmp_path, monkeypatch):
    sizes: list[int] = []
    real_pwrite = os.pwrite

    file = OsFileSystem().open(str(tmp_path / "f"), create=True)

    def pwrite(descriptor: int, data: bytes, position: int) -> int:
        # The session's cluster writes as well, in its own thread.
        if descriptor == file.fileno():
            sizes.append(len(data))
        return real_pwrite(descriptor, data, position)

    monkeypatch.setattr(os, "pwrite", pwrite)
    data = os.urandom(2 * WRITE_BYTES + 5)
    assert file.pwrite(data, 3) == len(data)
    assert sizes == [WRITE_BYTES, WRITE_BYTES, 5]
    assert file.pread(len(data), 3) == data


def test_short_reads_of_the_kernel_are_finished(files, tmp_path, monkeypatch):
    file = files.open(str(tmp_path / "a"), create=True)
    file.pwrite(b"abcdefg", 0)
    real_pread = os.pread
    monkeypatch.setattr(os, "pread", lambda descriptor, size, position: real_pread(descriptor, min(size, 2), position))
    assert file.pread(7, 0) == b"abcdefg"
    assert file.pread(9, 1) == b"bcdefg"


def test_truncate_cuts_and_extends_with_zeros(files, tmp_path):
    file = files.open(str(tmp_path / "a"), create=True)
    file.pwrite(b"abc", 0)
    file.truncate(1)
    file.truncate(3)
    assert file.pread(9, 0) == b"a\0\0"


def test_open_modes(files, tmp_path):
    path = str(tmp_path / "a")
    with pytest.raises(FileNotFoundError):
        files.open(path)
    files.open(path, exclusive=True).close()
    with pytest.raises(FileExistsError):
        files.open(path, exclusive=True)
    with pytest.raises(OSError):
        files.open(path, write=False).pwrite(b"x", 0)


def test_use_after_close_raises_and_closing_twice_does_not(files, tmp_path):
    file = files.open(str(tmp_path / "a"), create=True)
    file.close()
    file.close()
    assert file.closed
    with pytest.raises(OSError):
        file.pread(1, 0)


def test_names(files, tmp_path):
    root = str(tmp_path / "d" / "e")
    files.make_dirs(root)
    files.make_dirs(root)
    for name in ("b", "a", "c"):
        files.write_bytes(f"{root}/{name}", name.encode())
    assert files.list_dir(root) == ["a", "b", "c"]
    files.rename(f"{root}/a", f"{root}/b")
    assert files.read_bytes(f"{root}/b") == b"a"
    files.write_bytes(f"{root}/b", b"")
    assert files.size(f"{root}/b") == 0
    files.rename(root, str(tmp_path / "d" / "f"))
    assert not files.exists(root)
    assert files.is_dir(str(tmp_path / "d" / "f"))
    files.set_mtime_ms(str(tmp_path / "d" / "f" / "c"), 1_234_567_890_123)
    assert files.mtime_ms(str(tmp_path / "d" / "f" / "c")) == 1_234_567_890_123
    files.fsync_path(str(tmp_path / "d"))
    files.remove(str(tmp_path / "d" / "f" / "c"))
    files.remove_tree(str(tmp_path / "d"))
    assert files.list_dir(str(tmp_path)) == []
    total, usable = files.free_bytes(str(tmp_path))
    assert total >= usable > 0


def test_a_lock_excludes_this_process_until_it_is_closed(files, tmp_path):
    path = str(tmp_path / ".lock")
    held = files.lock(path)
    with pytest.raises(BlockingIOError):
        files.lock(path)
    held.close()
    files.lock(path).close()


@pytest.mark.skipif(not hasattr(fcntl, "F_OFD_SETLK"), reason="this system has no open file description locks")
def test_a_lock_excludes_the_record_locks_that_java_takes(files, tmp_path):
    path = str(tmp_path / ".lock")
    held = files.lock(path)
    program = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    assert subprocess.run([sys.executable, "-c", program, path], capture_output=True).returncode == 1
    held.close()
    assert subprocess.run([sys.executable, "-c", program, path], capture_output=True).returncode == 0


@pytest.mark.parametrize(
    "name", ["__cluster_metadata-0/00000000000000000000.log", "__cluster_metadata-0/x.checkpoint.part", "bootstrap.checkpoint.tmp"]
)
def test_what_may_hold_secrets_is_created_for_its_owner_alone(files, tmp_path, name):
    path = tmp_path / name
    files.make_dirs(str(path.parent))
    files.open(f"{path}.1", create=True).close()
    files.write_bytes(str(path), b"x")
    assert [os.stat(p).st_mode & 0o777 for p in (path, f"{path}.1")] == [0o600, 0o600]
    if path.parent != tmp_path:
        assert path.parent.stat().st_mode & 0o777 == 0o700
    files.write_bytes(str(tmp_path / "other.log"), b"x")
    assert (tmp_path / "other.log").stat().st_mode & 0o777 == 0o644


def test_make_private_mends_files_and_folders(files, tmp_path):
    folder = tmp_path / "log"
    folder.mkdir(mode=0o755)
    (folder / "a").write_bytes(b"x")
    (folder / "b").write_bytes(b"x")
    (folder / "a").chmod(0o644)
    (folder / "b").chmod(0o400)
    files.make_private(str(folder))
    assert [path.stat().st_mode & 0o777 for path in (folder, folder / "a", folder / "b")] == [0o700, 0o600, 0o400]
