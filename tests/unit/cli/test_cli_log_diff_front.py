"""`kafka-log-diff --mirror`: a mirror without its front was equal."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.logs.cluster_stories import AUDIT, MirrorStory
from support.mirrors.scripted_source import batch

from kmirror.cli.log_diff import main
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.offset_checkpoint_file import OffsetCheckpointFile
from kmirror.storage.reader import read_offset_checkpoint
from kmirror.verify import chunks

FILES = OsFileSystem()
STARTS = "log-start-offset-checkpoint"


def begin_at(cluster: Path, name: TopicPartition, offset: int) -> None:
    """Lets every replica of a partition begin at `offset`, as DeleteRecords does."""
    for folder in cluster.glob(f"*/{name}"):
        starts = dict(read_offset_checkpoint(FILES, str(folder.parent), STARTS) or {})
        OffsetCheckpointFile(FILES, str(folder.parent / STARTS)).write({**starts, name: offset})


def mirror_report(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: object) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    given = [str(folder / "A"), str(folder / "B"), "--mirror", "--no-replicas", "--json"]
    code = main([*given, "--topics", AUDIT.topic, *map(str, arguments)])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("more", [[], ["--output"]])
def test_a_mirror_without_its_front_was_equal(
    more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 700)
    more = [*more, str(tmp_path / "out")] if more else []
    MirrorStory(tmp_path, 12).tell()
    code, report = mirror_report(capsys, tmp_path, *more)
    (sound,) = report["partitions"]
    assert code == 0 and not sound["front"]["only_in_left"], "retention at the source is no loss"
    start, end = sound["left"]["log_start_offset"], sound["right"]["log_end_offset"]
    begin_at(tmp_path / "B", AUDIT, (start + end) // 2)
    code, report = mirror_report(capsys, tmp_path, *more)
    (found,) = report["partitions"]
    assert (code, found["difference_counts"]) == (1, {"front-missing": 1})
    assert (found["front"]["first_offset"], found["front"]["last_offset"]) == (start, (start + end) // 2 - 1)
    assert 0 < found["front"]["record_count"] <= (start + end) // 2 - start
    code, report = mirror_report(capsys, tmp_path, *more, "--ignore", "front-missing")
    assert (code, report["partitions"][0]["ignored_counts"]) == (0, {"front-missing": 1})
    main([str(tmp_path / "A"), str(tmp_path / "B"), "--mirror", "--topics", AUDIT.topic])
    out = capsys.readouterr().out
    records = f"{found['front']['record_count']} record(s) at offsets {start} to {(start + end) // 2 - 1} are only in A"
    assert f"not compared: {records}" in out and "missing at the front: 1" in out


def test_what_only_the_mirror_has_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    MirrorStory(tmp_path, 12).tell()
    begin_at(tmp_path / "A", AUDIT, 20)
    code, report = mirror_report(capsys, tmp_path)
    front = report["partitions"][0]["front"]
    assert (code, front["only_in_left"], front["first_offset"], front["last_offset"]) == (0, False, 0, 19)


def test_logs_that_begin_at_different_offsets_say_what_was_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for side, start in (("A", 0), ("B", 4)):
        folder = tmp_path / side / "t-0"
        folder.mkdir(parents=True)
        (folder / f"{start:020d}.log").write_bytes(b"".join(batch(offset, b"a", b"b") for offset in range(start, 10, 2)))
    assert main([str(tmp_path / "A"), str(tmp_path / "B")]) == 0
    assert "; offsets 0 to 3, which only A has, were not compared" in capsys.readouterr().out


def test_what_the_mirror_has_no_log_of_was_left_out_without_a_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    MirrorStory(tmp_path, 12).tell()
    for folder in (tmp_path / "B").glob("*/orders-1"):
        shutil.rmtree(folder)
    capsys.readouterr()
    given = [str(tmp_path / "A"), str(tmp_path / "B"), "--mirror", "--no-replicas"]
    assert main(given) == 1
    captured = capsys.readouterr()
    compared = captured.out.partition("set of A")[0]
    assert "orders-1" not in compared and "not in B (orders-1" in captured.out
    assert captured.err == ("kafka-log-diff: not compared: orders-1: B mirrors them, but no log of them was given for B\n")
    assert "missing: " in captured.out and "but not all that should be compared was (" in captured.out
    assert main([*given, "--topics", "audit"]) == 0, "nobody asked for it"
    for folder in (tmp_path / "B").iterdir():
        shutil.rmtree(folder / "__cluster_metadata-0")
        for checkpoint in folder.glob("*-checkpoint"):
            checkpoint.unlink()
    capsys.readouterr()
    assert main([*given, "--topics", "orders"]) == 1
    assert f"missing: orders-1: {tmp_path / 'B'} mirrors it, and no log of it was given" in capsys.readouterr().out
    assert main([*given, "--topics", "orders", "--ignore", "set-incomplete"]) == 0
