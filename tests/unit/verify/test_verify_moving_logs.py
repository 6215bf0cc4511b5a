"""Folders whose files come, go and get other names while they are listed, verified and compared."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.logs.changing_files import WatchedFiles
from support.logs.log_folders import batch, write_log, write_segments

from kmirror.cli import log_diff_again, log_diff_inputs
from kmirror.cli.kmirror import main
from kmirror.cli.log_diff import main as log_diff
from kmirror.common.errors import KmirrorError
from kmirror.runtime.os_files import OsFileSystem
from kmirror.spark.files import LocalFiles
from kmirror.spark.inputs import find_partitions
from kmirror.verify.planner import list_input
from kmirror.verify.replay.folder import replay_folder

FILES = OsFileSystem()
BASES = (0, 10, 20, 30)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A log of four segments in a data dir, and another log."""
    write_segments(tmp_path / "data" / "t-0", *((base, [batch(base), batch(base + 5)]) for base in BASES))
    write_log(tmp_path / "data" / "t-1", batch(0))
    for name in ("t-0", "t-1"):
        (tmp_path / "data" / name / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    return tmp_path / "data" / "t-0"


def segment(folder: Path, base: int) -> Path:
    return folder / f"{base:020d}.log"


def bases(folder: Path, files: OsFileSystem | LocalFiles) -> dict[int, list[int]]:
    partitions = list_input(files, str(folder.parent)).partitions
    return {one.topic_partition.partition: [each.base_offset for each in one.segments] for one in partitions}


class Once:
    """Does something before the first call that fits."""

    def __init__(self, call: str, path: str, what: object) -> None:
        self.call, self.path, self.what, self.times = call, path, what, 0

    def __call__(self, call: str, path: str) -> None:
        if call == self.call and path == self.path and not self.times:
            self.times = 1
            assert callable(self.what)
            self.what()


def test_a_file_that_vanishes_between_the_names_and_its_size_hides_no_other(folder: Path) -> None:
    gone = folder / f"{5:020d}.log.deleted"
    gone.write_bytes(b"")
    files = WatchedFiles(Once("is_dir", str(gone), gone.unlink))
    assert bases(folder, files) == {0: list(BASES), 1: [0]}


def test_a_segment_that_retention_takes_while_it_is_listed_moves_the_log_start(
    folder: Path,
) -> None:
    first = segment(folder, 0)
    files = WatchedFiles(Once("size", str(first), lambda: first.rename(f"{first}.deleted")))
    assert bases(folder, files) == {0: [10, 20, 30], 1: [0]}


def test_a_segment_that_is_swapped_while_it_is_listed_is_listed(folder: Path) -> None:
    cleaned = Path(f"{segment(folder, 10)}.swap")

    def swap() -> None:
        shutil.copy(segment(folder, 10), cleaned)
        segment(folder, 10).rename(f"{segment(folder, 10)}.deleted")

    def end() -> None:
        cleaned.rename(segment(folder, 10))

    start, done = Once("size", str(segment(folder, 10)), swap), Once("exists", str(cleaned), end)

    def before(call: str, path: str) -> None:
        start(call, path)
        done(call, path)

    listed = replay_folder(WatchedFiles(before), str(folder.parent))
    assert start.times == done.times == 1 and listed.findings == []
    assert [(row.segments, row.log_end_offset) for row in listed.logs if row.partition == 0] == [(4, 40)]


def test_a_folder_that_gets_another_name_and_this_one_again_is_listed(folder: Path) -> None:
    aside = Path(f"{folder}.0123456789abcdef0123456789abcdef-delete")

    def move() -> None:
        folder.rename(aside)
        shutil.copytree(aside, folder)

    def vanish() -> None:
        folder.rename(aside)

    assert bases(folder, WatchedFiles(Once("list_dir", str(folder), move))) == {
        0: list(BASES),
        1: [0],
    }
    shutil.rmtree(aside)
    assert bases(folder, WatchedFiles(Once("list_dir", str(folder), vanish))) == {1: [0]}, "the topic was deleted"


@pytest.mark.parametrize("files", [FILES, LocalFiles()], ids=["local", "executors"])
def test_a_segment_that_is_a_broken_link_is_told_and_hides_no_other(
    folder: Path, files: OsFileSystem | LocalFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = folder.parent.parent / "whole"
    shutil.copytree(folder.parent, whole)
    segment(folder, 20).unlink()
    segment(folder, 20).symlink_to("/nowhere")
    assert bases(folder, files) == {0: [0, 10, 30], 1: [0]}
    assert main(["verify-logs", str(folder.parent)]) == 1
    out = capsys.readouterr().out
    assert f"structure gone: {segment(folder, 20)}: the folder lists this name, but no file is behind it" in out
    assert "t-1: sound" in out
    assert log_diff([str(whole), str(folder.parent)]) == 2
    assert f"{segment(folder, 20)}: the folder lists this segment, but no file is behind its name" in capsys.readouterr().out
    with pytest.raises(KmirrorError, match="no file is behind its name"):
        find_partitions([str(folder.parent)], replica="longest")


def test_a_partition_whose_folder_is_a_broken_link_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder.parent / "t-2").symlink_to("/nowhere")
    assert main(["verify-logs", str(folder.parent)]) == 1
    assert f"structure gone: {folder.parent}/t-2: " in capsys.readouterr().out


def test_a_log_that_lost_a_segment_while_it_was_compared_is_compared_again(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = folder.parent.parent / "other"
    shutil.copytree(folder.parent, other)
    first = segment(folder, 0)
    files = WatchedFiles(Once("open", str(first), lambda: first.rename(f"{first}.deleted")))
    monkeypatch.setattr(log_diff_inputs, "OsFileSystem", lambda: files)
    assert log_diff([str(folder.parent), str(other)]) == 0
    assert "t-0: equal, compared from offset 10" in capsys.readouterr().out


def test_a_log_that_changes_each_time_is_no_verdict(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = folder.parent.parent / "other"
    shutil.copytree(folder.parent, other)
    monkeypatch.setattr(log_diff_again, "PAUSE_S", 0.0)

    def before(call: str, path: str) -> None:
        """Before a segment is read, it makes place for one that is longer."""
        if call == "open" and path == str(segment(folder, 10)):
            segment(folder, 10).write_bytes(segment(folder, 10).read_bytes()[:-1] + b"xx")

    monkeypatch.setattr(log_diff_inputs, "OsFileSystem", lambda: WatchedFiles(before))
    assert log_diff([str(folder.parent), str(other)]) == 2
    assert "replaced or deleted each of the 10 times that they were compared, so nothing is known" in capsys.readouterr().out
    assert main(["verify-logs", str(folder.parent)]) == 1
    out = capsys.readouterr().out
    assert "t-0: 1 found" in out and "structure moving" in out and "so the log is not judged" in out
