"""Checkpoint files: text, replacement, and every way in which the text can be wrong."""

from __future__ import annotations

import pathlib

import pytest

from kmirror.common.errors import ApiException, CorruptFileError, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.clean_shutdown_file import CleanShutdownFile
from kmirror.storage.java_properties import decode_properties, encode_properties
from kmirror.storage.leader_epoch_checkpoint_file import EpochEntry, LeaderEpochCheckpointFile
from kmirror.storage.meta_properties import MetaProperties, random_directory_id, read_meta_properties
from kmirror.storage.offset_checkpoint_file import OffsetCheckpointFile
from kmirror.storage.partition_metadata_file import PartitionMetadataFile

FILES = OsFileSystem()


def offsets_file(tmp_path: pathlib.Path, data: bytes) -> OffsetCheckpointFile:
    (tmp_path / "checkpoint").write_bytes(data)
    return OffsetCheckpointFile(FILES, str(tmp_path / "checkpoint"))


def test_write_then_read(tmp_path: pathlib.Path) -> None:
    checkpoint = offsets_file(tmp_path, b"")
    checkpoint.write({TopicPartition("a", 0): 5, TopicPartition("b.c", 12): 1 << 60})
    assert sorted((tmp_path / "checkpoint").read_bytes().splitlines()) == sorted([b"0", b"2", b"a 0 5", b"b.c 12 1152921504606846976"])
    assert checkpoint.read() == {TopicPartition("a", 0): 5, TopicPartition("b.c", 12): 1 << 60}
    assert not (tmp_path / "checkpoint.tmp").exists()


def test_missing_and_empty_files_have_no_entries(tmp_path: pathlib.Path) -> None:
    checkpoint = OffsetCheckpointFile(FILES, str(tmp_path / "checkpoint"))
    assert (tmp_path / "checkpoint").read_bytes() == b""
    assert checkpoint.read() == {}
    (tmp_path / "checkpoint").unlink()
    assert checkpoint.read() == {}
    assert offsets_file(tmp_path, b"0\n").read() == {}
    assert offsets_file(tmp_path, b"0\n0\n").read() == {}


def test_a_leftover_temporary_file_is_ignored(tmp_path: pathlib.Path) -> None:
    (tmp_path / "checkpoint.tmp").write_bytes(b"0\n1\nhalf")
    checkpoint = offsets_file(tmp_path, b"0\n1\na 0 7\n")
    assert checkpoint.read() == {TopicPartition("a", 0): 7}
    checkpoint.write({TopicPartition("a", 0): 8})
    assert checkpoint.read() == {TopicPartition("a", 0): 8}


@pytest.mark.parametrize(
    ("data", "position", "reason"),
    [
        (b"1\n0\n", 0, "unrecognised version 1"),
        (b"x\n0\n", 0, "malformed line 'x'"),
        (b"0\n-\n", 2, "malformed line '-'"),
        (b"0\n2\na 0 7\n", 10, "expected 2 entries but found 1"),
        (b"0\n1\na 0 7\nb 0 7\n", 16, "expected 1 entries but found 2"),
        (b"0\n1\na 0\n", 4, "malformed line 'a 0'"),
        (b"0\n1\na 0 7 8\n", 4, "malformed line 'a 0 7 8'"),
        (b"0\n1\na 0 \xc3\xa9\n", 4, "malformed line"),
        (b"0\n1\na 0 \xff\n", 8, "not UTF-8"),
    ],
)
def test_broken_text_names_file_and_position(tmp_path: pathlib.Path, data: bytes, position: int, reason: str) -> None:
    with pytest.raises(CorruptFileError, match=reason) as caught:
        offsets_file(tmp_path, data).read()
    assert (caught.value.path, caught.value.position) == (str(tmp_path / "checkpoint"), position)


def test_a_failed_write_leaves_the_old_text(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = offsets_file(tmp_path, b"0\n1\na 0 7\n")

    def broken(self: OsFileSystem, path: str) -> None:
        raise OSError(5, "broken disk", path)

    monkeypatch.setattr(OsFileSystem, "fsync_path", broken)
    with pytest.raises(OSError, match="broken disk"):
        checkpoint.write({})
    assert checkpoint.read() == {TopicPartition("a", 0): 7}


def test_leader_epochs(tmp_path: pathlib.Path) -> None:
    checkpoint = LeaderEpochCheckpointFile(FILES, str(tmp_path))
    assert (tmp_path / "leader-epoch-checkpoint").read_bytes() == b""
    checkpoint.write([EpochEntry(0, 0), EpochEntry(4, 17)])
    assert (tmp_path / "leader-epoch-checkpoint").read_bytes() == b"0\n2\n0 0\n4 17\n"
    assert checkpoint.read() == [EpochEntry(0, 0), EpochEntry(4, 17)]


def test_a_deleted_partitions_epochs_are_not_brought_back(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    checkpoint = LeaderEpochCheckpointFile(FILES, str(folder))
    folder.rename(tmp_path / "t-0-delete")
    checkpoint.write_if_dir_exists([EpochEntry(0, 0)])
    assert not folder.exists()


TOPIC_ID = Uuid.from_string("PgqoX827SVK-vrR6PNWqHQ")


def test_partition_metadata(tmp_path: pathlib.Path) -> None:
    metadata = PartitionMetadataFile(FILES, str(tmp_path))
    metadata.maybe_flush()
    assert not metadata.exists()
    metadata.record(TOPIC_ID)
    assert not metadata.exists()
    with pytest.raises(ApiException) as caught:
        metadata.record(Uuid(b"x" * 16))
    assert caught.value.error is Errors.INCONSISTENT_TOPIC_ID
    metadata.maybe_flush()
    assert (tmp_path / "partition.metadata").read_bytes() == b"version: 0\ntopic_id: PgqoX827SVK-vrR6PNWqHQ"
    assert metadata.read() == TOPIC_ID
    metadata.delete()
    with pytest.raises(FileNotFoundError):
        metadata.read()


@pytest.mark.parametrize(
    ("data", "position", "reason"),
    [
        (b"", 0, "expected the lines"),
        (b"version: 0\n", 11, "expected the lines"),
        (b"version 0\ntopic_id: PgqoX827SVK-vrR6PNWqHQ", 0, "malformed line 'version 0'"),
        (b"version: 0\ntopicid: PgqoX827SVK-vrR6PNWqHQ", 11, "malformed line 'topicid"),
        (b"version: -1\ntopic_id: PgqoX827SVK-vrR6PNWqHQ", 0, "unrecognised version -1"),
        (b"version: x\ntopic_id: PgqoX827SVK-vrR6PNWqHQ", 0, "malformed version 'x'"),
        (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", 11, "invalid topic id"),
        (b"version: 0\ntopic_id: short", 11, "malformed topic id"),
        (b"version: 0\ntopic_id: \xff", 21, "not UTF-8"),
    ],
)
def test_broken_partition_metadata(tmp_path: pathlib.Path, data: bytes, position: int, reason: str) -> None:
    (tmp_path / "partition.metadata").write_bytes(data)
    with pytest.raises(CorruptFileError, match=reason) as caught:
        PartitionMetadataFile(FILES, str(tmp_path)).read()
    assert caught.value.position == position


def test_later_versions_of_partition_metadata_are_read(tmp_path: pathlib.Path) -> None:
    (tmp_path / "partition.metadata").write_bytes(b"version: 3\ntopic_id: PgqoX827SVK-vrR6PNWqHQ\nmore: 1\n")
    assert PartitionMetadataFile(FILES, str(tmp_path)).read() == TOPIC_ID


def test_clean_shutdown_marker(tmp_path: pathlib.Path) -> None:
    marker = CleanShutdownFile(FILES, str(tmp_path))
    assert not marker.exists()
    assert marker.read() is None
    marker.delete()
    marker.write(42)
    assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == b'{"version":0,"brokerEpoch":42}'
    assert marker.read() == 42
    marker.delete()
    assert not marker.exists()


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"version":0}', b'{"version":0,"brokerEpoch":true}', b"\xff"])
def test_an_unreadable_marker_still_counts_as_clean(tmp_path: pathlib.Path, data: bytes) -> None:
    (tmp_path / ".kafka_cleanshutdown").write_bytes(data)
    marker = CleanShutdownFile(FILES, str(tmp_path))
    assert marker.exists()
    assert marker.read() is None


def test_properties_round_trip_javas_escapes() -> None:
    properties = {"a key": " leading and \\ back", "k:=#!": "tab\tline\nüñ😀", "": "empty key"}
    data = encode_properties(properties, time_ms=1_750_000_000_000)
    assert data.startswith(b"#\n#Sun Jun 15 15:06:40 UTC 2025\n")
    assert decode_properties("p", data) == properties


def test_properties_as_java_reads_them() -> None:
    text = b"! comment\r\n  k1 : v1 \nk2   v2\nk3=a\\\n   b\\\\\nk4\n\n# x\\\nk5=\\u00e9"
    assert decode_properties("p", text) == {"k1": "v1 ", "k2": "v2", "k3": "ab\\", "k4": "", "k5": "é"}
    for wrong in (b"a=\\u00g1", b"a=\\u00", b"a\\u00e\n", b"a=\\u 0e9", b"a=\\u+061"):
        with pytest.raises(CorruptFileError, match="uxxxx"):
            decode_properties("p", wrong)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"version=2\n", "version is 2"),
        (b"version=1\nnode.id=1\n", "cluster.id was not found"),
        (b"version=1\ncluster.id=x\n", "node.id was not found"),
        (b"version=1\ncluster.id=x\nnode.id=one\n", "'one' is not a decimal number"),
        (b"version=1\ncluster.id=x\nnode.id=1\ndirectory.id=short\n", "short"),
    ],
)
def test_broken_meta_properties(tmp_path: pathlib.Path, data: bytes, reason: str) -> None:
    (tmp_path / "meta.properties").write_bytes(data)
    with pytest.raises(CorruptFileError, match=reason):
        read_meta_properties(FILES, str(tmp_path))


def test_version_0_of_meta_properties_is_read(tmp_path: pathlib.Path) -> None:
    assert read_meta_properties(FILES, str(tmp_path)) is None
    (tmp_path / "meta.properties").write_bytes(b"version=0\nbroker.id=7\ncluster.id=x\n")
    assert read_meta_properties(FILES, str(tmp_path)) == MetaProperties(cluster_id="x", node_id=7, version=0)


class ScriptedRandom:
    """Gives out the byte strings it was made with, in order."""

    def __init__(self, *tokens: bytes) -> None:
        self.tokens = list(tokens)

    def random(self) -> float:
        return 0.0

    def randrange(self, stop: int) -> int:
        return 0

    def token_bytes(self, size: int) -> bytes:
        return self.tokens.pop(0)


def test_a_random_directory_id_is_not_reserved() -> None:
    assert int.from_bytes(random_directory_id(ScriptedRandom(b"\1" * 16)).raw, "big") >= 100


def test_errors_name_the_partitions_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_bytes(b"0\n2\n0 0\n")
    with pytest.raises(CorruptFileError, match=r"leader-epoch-checkpoint: at byte 8: expected 2 entries but found 1"):
        LeaderEpochCheckpointFile(FILES, str(tmp_path)).read()
