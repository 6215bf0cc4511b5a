"""What a node does with log directories that are not all its own: Apache's cases and messages.

A directory that lost its `meta.properties` was used unformatted; its replicas never joined the ISR
again.
"""

from __future__ import annotations

import errno
import pathlib

import pytest
from support.logs.failing_files import FailingFiles
from support.logs.storage_doubles import ManualClock, SeededRandom

from kmirror.common.errors import ConfigError
from kmirror.common.uuid import Uuid
from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from kmirror.storage.meta_properties_ensemble import MetaPropertiesEnsemble

FILES = OsFileSystem()
IDS = [Uuid(bytes(14) + b"\x01" + bytes([number])) for number in range(3)]


class Dirs:
    def __init__(self, root: pathlib.Path) -> None:
        self.paths = [str(root / name) for name in ("meta", "a", "b")]
        for number, path in enumerate(self.paths):
            self.write(number, directory_id=IDS[number])
            assert pathlib.Path(path).is_dir()

    def write(self, number: int, *, cluster_id: str = "c", node_id: int = 1, directory_id: Uuid | None = None, version: int = 1) -> None:
        FILES.make_dirs(self.paths[number])
        properties = MetaProperties(cluster_id, node_id, directory_id, version)
        write_meta_properties(FILES, self.paths[number], properties, time_ms=0)

    def file(self, number: int) -> pathlib.Path:
        return pathlib.Path(self.paths[number], "meta.properties")

    def load(self, files: FailingFiles | OsFileSystem = FILES) -> MetaPropertiesEnsemble:
        return MetaPropertiesEnsemble.load(files, self.paths[0], self.paths[1:])

    def refusal(self, *, keeps_metadata: bool = False) -> str:
        with pytest.raises(ConfigError) as caught:
            self.load().verify(FILES, node_id=1, keeps_metadata=keeps_metadata)
        return str(caught.value)


@pytest.fixture
def dirs(tmp_path: pathlib.Path) -> Dirs:
    return Dirs(tmp_path)


def test_directories_of_one_node_are_taken(dirs: Dirs) -> None:
    assert dirs.load().verify(FILES, node_id=1, keeps_metadata=True) == MetaProperties("c", 1, IDS[0])


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("how", ["lost", "emptied", "removed"])
def test_a_directory_without_meta_properties_is_refused(dirs: Dirs, number: int, how: str) -> None:
    dirs.file(number).unlink()
    if how == "removed":
        pathlib.Path(dirs.paths[number]).rmdir()
    elif how == "lost":
        pathlib.Path(dirs.paths[number], "t-0").mkdir()
    said = dirs.refusal()
    begin = f"No `meta.properties` found in {dirs.paths[number]} (have you run `kafka-storage.sh` to format the directory?)"
    assert said.startswith(begin)
    assert "kmirror format --ignore-formatted --cluster-id c --config FILE" in said


def test_who_lost_the_metadata_is_not_told_to_begin_an_empty_cluster(dirs: Dirs) -> None:
    """Formatted anew it started empty, and made strays of the topics in the other directories."""
    dirs.file(0).unlink()
    said = dirs.refusal(keeps_metadata=True)
    assert said.startswith(f"No `meta.properties` found in {dirs.paths[0]} (have you run `kafka-storage.sh` to format the directory?)")
    assert "--ignore-formatted" not in said and "backup" in said and "-stray" in said


def test_a_node_that_was_never_formatted_says_so(dirs: Dirs) -> None:
    for number in range(3):
        dirs.file(number).unlink()
    assert dirs.refusal().startswith("No readable meta.properties files found")


def test_directories_of_two_clusters(dirs: Dirs) -> None:
    dirs.write(2, cluster_id="d", directory_id=IDS[2])
    dirs.write(1, cluster_id="d", directory_id=IDS[1])
    assert dirs.refusal() == f"Invalid cluster.id in: {dirs.paths[0]}/meta.properties. Expected d, but read c"


def test_a_directory_of_another_node(dirs: Dirs) -> None:
    dirs.write(1, node_id=4, directory_id=IDS[1])
    said = dirs.refusal()
    assert said.startswith(f"Stored node id 4 doesn't match previous node id 1 in {dirs.paths[1]}/meta.properties. If you moved your data")


def test_a_copy_of_a_directory(dirs: Dirs) -> None:
    dirs.write(2, directory_id=IDS[1])
    expected = f"Duplicate directory ID {IDS[1]} found. It was the ID of {dirs.paths[1]}, but also of {dirs.paths[2]}"
    assert dirs.refusal().startswith(expected)


def test_one_directory_by_two_names_is_not_called_a_copy_to_remove(dirs: Dirs) -> None:
    """Whoever did as he was told removed the only data that there was."""
    dirs.file(2).unlink()
    pathlib.Path(dirs.paths[2]).rmdir()
    pathlib.Path(dirs.paths[2]).symlink_to(dirs.paths[1])
    said = dirs.refusal()
    assert "remove the copy" not in said and "take one of them out of log.dirs" in said


@pytest.mark.parametrize(("text", "missing"), [("version=0\ncluster.id=c\n", "node ID"), ("version=0\nbroker.id=1\n", "cluster ID")])
def test_an_old_file_that_does_not_say_whose_directory_it_is(dirs: Dirs, text: str, missing: str) -> None:
    """It was given an id, as a file of version 1 that lacked the same, and could not be read at the
    next start.
    """
    dirs.file(1).write_text(text)
    assert dirs.refusal() == f"Error: {missing} not found in {dirs.paths[1]}"


def test_a_directory_id_that_has_a_meaning_of_its_own(dirs: Dirs) -> None:
    dirs.write(2, directory_id=Uuid(bytes(15) + b"\x02"))
    assert dirs.refusal().startswith("Invalid reserved directory ID ")


def test_the_metadata_log_in_another_directory(dirs: Dirs) -> None:
    folder = pathlib.Path(dirs.paths[1], "__cluster_metadata-0")
    folder.mkdir()
    expected = f"Found unexpected metadata location in data directory `{folder}` (the configured metadata directory is {dirs.paths[0]})."
    assert dirs.refusal() == expected


def test_an_unreadable_file_of_the_metadata_log_dir_ends_the_start(dirs: Dirs) -> None:
    dirs.file(0).write_text("version=9\n")
    said = dirs.refusal()
    assert said.startswith(f"Encountered I/O error in metadata log directory {dirs.paths[0]}. Cannot continue.")
    assert "version is 9" in said


@pytest.mark.parametrize("data", [b"", b"version=9\n", b"\xff\xfe\0garbage", b"version=1\nnode.id=1\ncluster.id=c\ndirectory.id=AB"])
def test_a_file_of_another_directory_that_makes_no_sense_ends_the_start(dirs: Dirs, data: bytes) -> None:
    """Whose directory it is, nobody knows. Kafka refuses too: "node ID not found"."""
    dirs.file(2).write_bytes(data)
    assert str(dirs.paths[2]) in dirs.refusal()


@pytest.mark.parametrize("error_number", [errno.EIO, errno.EACCES, errno.EMFILE])
def test_an_unreadable_file_of_another_directory_is_that_directorys(dirs: Dirs, error_number: int) -> None:
    files = FailingFiles(FILES)
    files.fail(0, error_number, goes_on=True, path_part=dirs.paths[2])
    ensemble = dirs.load(files)
    assert ensemble.verify(FILES, node_id=1, keeps_metadata=True).directory_id == IDS[0]
    assert list(ensemble.errors) == [dirs.paths[2]] and not ensemble.empty


def test_a_directory_that_was_formatted_before_there_were_ids_gets_one(dirs: Dirs) -> None:
    dirs.write(1)
    ensemble = dirs.load()
    ensemble.verify(FILES, node_id=1, keeps_metadata=True)
    ensemble.complete(FILES, ManualClock(), SeededRandom())
    written = read_meta_properties(FILES, dirs.paths[1])
    assert written == ensemble.properties[dirs.paths[1]]
    assert written is not None and written.directory_id is not None
