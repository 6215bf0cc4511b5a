"""Spare descriptors: files are opened also when connections have taken all that the process may
have.
"""

from __future__ import annotations

import errno
import os
import pathlib
import resource
import subprocess
import sys
from collections.abc import Iterator

import pytest
from support.brokers.descriptor_doubles import all_descriptors_taken, in_a_process_of_its_own

from kmirror.runtime.descriptors import SPARES, SpareDescriptors
from kmirror.runtime.os_files import OsFileSystem


@pytest.fixture
def spares() -> Iterator[SpareDescriptors]:
    SPARES.keep(3)
    yield SPARES
    SPARES.keep(0)


@in_a_process_of_its_own
def test_without_spares_nothing_can_be_opened(tmp_path: pathlib.Path) -> None:
    files = OsFileSystem()
    with all_descriptors_taken(), pytest.raises(OSError, match="open files") as caught:
        files.open(str(tmp_path / "a"), create=True)
    assert caught.value.errno == errno.EMFILE


@in_a_process_of_its_own
def test_all_that_files_need_goes_on_with_spares_which_come_back(tmp_path: pathlib.Path, spares: SpareDescriptors) -> None:
    files = OsFileSystem()
    files.make_dirs(str(tmp_path / "folder"))
    path = str(tmp_path / "folder" / "a")
    with all_descriptors_taken():
        file = files.open(path, create=True)
        file.pwrite(b"abc", 0)
        file.fsync()
        assert spares.count == 2
        file.close()
        files.write_bytes(path, b"abcd")
        files.fsync_path(path)
        files.fsync_path(str(tmp_path))
        assert files.read_bytes(path) == b"abcd"
        assert files.list_dir(str(tmp_path / "folder")) == ["a"]
        files.lock(str(tmp_path / ".lock")).close()
        files.remove_tree(str(tmp_path / "folder"))
        assert spares.count == 3


@in_a_process_of_its_own
def test_files_that_stay_open_use_the_spares_up_and_one_that_closes_fills_them(tmp_path: pathlib.Path, spares: SpareDescriptors) -> None:
    files = OsFileSystem()
    with all_descriptors_taken():
        held = [files.open(str(tmp_path / str(number)), create=True) for number in range(3)]
        with pytest.raises(OSError, match="open files"):
            files.open(str(tmp_path / "more"), create=True)
        held[0].close()
        assert spares.count == 1
    for file in held[1:]:
        file.close()
    assert spares.count == 3


def test_other_errors_cost_no_spare(tmp_path: pathlib.Path, spares: SpareDescriptors) -> None:
    with pytest.raises(FileNotFoundError):
        OsFileSystem().open(str(tmp_path / "none"))
    assert spares.count == 3


def test_a_server_takes_as_many_descriptors_as_the_machine_allows() -> None:
    script = (
        "import resource; from kmirror.runtime.descriptors import SPARES, SPARE_DESCRIPTORS, prepare_for_a_server; prepare_for_a_server();"
        "soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE); print(soft == hard, SPARES.count == SPARE_DESCRIPTORS)"
    )
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]

    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))

    done = subprocess.run(
        [sys.executable, "-c", script], preexec_fn=lower, capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert done.stdout.split() == ["True", "True"]
