"""The files at the top of a log dir, as Apache Kafka 4.3 wrote them, read and written back the
same.
"""

from __future__ import annotations

import pathlib

import pytest
from support.logs.golden_vectors import COMMITTED, golden_cases, golden_dir

from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.clean_shutdown_file import CleanShutdownFile
from kmirror.storage.java_properties import decode_properties
from kmirror.storage.leader_epoch_checkpoint_file import LeaderEpochCheckpointFile
from kmirror.storage.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from kmirror.storage.offset_checkpoint_file import OffsetCheckpointFile
from kmirror.storage.partition_metadata_file import PartitionMetadataFile

FILES = OsFileSystem()
OFFSET_CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)


def golden_files(name: str) -> list[pathlib.Path]:
    """Those that a broker wrote: `before` of a damaged case may hold anything."""
    paths = sorted(path for case in golden_cases() for path in (golden_dir() / case).rglob(name) if COMMITTED or not is_damaged(path))
    if not paths and not COMMITTED:
        pytest.skip(f"no {name} in this folder of vectors")
    assert paths
    return paths


def is_damaged(path: pathlib.Path) -> bool:
    folders = path.relative_to(golden_dir()).parts
    return folders[0].startswith("11-") and folders[1] in ("before", "top.before", "after.failed-start")


def is_whole(path: pathlib.Path) -> bool:
    """Damaged ones (11-damage) may say another number of entries than they have."""
    lines = path.read_bytes().split(b"\n")
    return lines == [b""] or (len(lines) > 2 and lines[1].isdigit() and int(lines[1]) == len(lines) - 3)


@pytest.mark.parametrize("name", OFFSET_CHECKPOINTS)
def test_offset_checkpoints_are_rewritten_with_the_same_lines(name: str, tmp_path: pathlib.Path) -> None:
    paths = golden_files(name)
    for path in paths:
        offsets = OffsetCheckpointFile(FILES, str(path)).read()
        written = OffsetCheckpointFile(FILES, str(tmp_path / "checkpoint"))
        written.write(offsets)
        lines, expected = (tmp_path / "checkpoint").read_bytes().split(b"\n"), path.read_bytes().split(b"\n")
        if not path.read_bytes():
            expected = [b"0", b"0", b""]
        assert lines[:2] == expected[:2], path
        assert sorted(lines) == sorted(expected), path


def test_log_start_checkpoint_order_is_javas(tmp_path: pathlib.Path) -> None:
    """Files with many lines come out byte for byte, in the order of Kafka's map."""
    exact = 0
    for path in golden_files("log-start-offset-checkpoint") + golden_files("cleaner-offset-checkpoint"):
        OffsetCheckpointFile(FILES, str(tmp_path / "checkpoint")).write(OffsetCheckpointFile(FILES, str(path)).read())
        exact += (tmp_path / "checkpoint").read_bytes() == path.read_bytes() and path.read_bytes().count(b"\n") > 5
    assert exact or not COMMITTED


def test_leader_epoch_checkpoints_byte_for_byte(tmp_path: pathlib.Path) -> None:
    paths = [path for path in golden_files("leader-epoch-checkpoint") if is_whole(path) or not path.parent.parent.name.startswith("11-")]
    for path in paths:
        expected = path.read_bytes()
        entries = LeaderEpochCheckpointFile(FILES, str(path.parent)).read()
        written = LeaderEpochCheckpointFile(FILES, str(tmp_path))
        written.write(entries)
        assert (tmp_path / "leader-epoch-checkpoint").read_bytes() == (expected or b"0\n0\n"), path


def test_partition_metadata_byte_for_byte(tmp_path: pathlib.Path) -> None:
    paths = golden_files("partition.metadata")
    for path in paths:
        written = PartitionMetadataFile(FILES, str(tmp_path))
        written.record(PartitionMetadataFile(FILES, str(path.parent)).read())
        written.maybe_flush()
        assert (tmp_path / "partition.metadata").read_bytes() == path.read_bytes(), path


def test_meta_properties_byte_for_byte_without_the_date(tmp_path: pathlib.Path) -> None:
    paths = golden_files("meta.properties")
    for path in paths:
        properties = read_meta_properties(FILES, str(path.parent))
        assert isinstance(properties, MetaProperties)
        assert properties.to_properties() == decode_properties(str(path), path.read_bytes())
        write_meta_properties(FILES, str(tmp_path), properties, time_ms=1_795_224_325_000)
        lines, expected = (tmp_path / "meta.properties").read_bytes().split(b"\n"), path.read_bytes().split(b"\n")
        assert lines[0] == expected[0] == b"#"
        assert lines[2:] == expected[2:], path


def test_clean_shutdown_marker_byte_for_byte(tmp_path: pathlib.Path) -> None:
    paths = golden_files(".kafka_cleanshutdown")
    for path in paths:
        epoch = CleanShutdownFile(FILES, str(path.parent)).read()
        assert epoch is not None
        CleanShutdownFile(FILES, str(tmp_path)).write(epoch)
        assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == path.read_bytes(), path
