"""What a run keeps for the next: tomorrow's run says what a full one says, and reads nothing of a
segment that has not changed.
"""

from __future__ import annotations

import os
import pathlib
import random
from typing import Any

import pytest
from support.logs.replay_stories import PARTITION, Story, the_partition

from kmirror.cli.kmirror import main
from kmirror.cli.verify_logs import read_kept
from kmirror.common.errors import KmirrorError
from kmirror.runtime.os_files import OsFileSystem
from kmirror.verify.planner import list_input
from kmirror.verify.replay import kept
from kmirror.verify.replay.folder import DEFAULTS, ReplaySettings, replay_cluster, replay_partition
from kmirror.verify.replay.kept import Known, KnownSegment
from kmirror.verify.replay.plan import merge_all
from kmirror.verify.replay.tables import ReplayTables

LIFE = ("roll", "epoch", "reset", "restart", "crash", "truncate")
PURE = ReplaySettings(compacted_topics=("t",))


class CountingFiles(OsFileSystem):
    """Notes which `.log` files were opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []

    def open(self, path: str, *args: Any, **options: Any) -> Any:
        if path.endswith(".log"):
            self.opened.append(path)
        return super().open(path, *args, **options)


def run(folder: pathlib.Path, known: Known | None, settings: ReplaySettings = DEFAULTS) -> tuple[ReplayTables, list[str]]:
    files = CountingFiles()
    tables = replay_cluster(files, list_input(files, str(folder)), settings, known=known)
    return tables, sorted(set(files.opened))


def kept_of(tables: ReplayTables) -> dict[tuple[str, int | None], tuple[str, str]]:
    return {(row.log, row.base_offset): (row.identity, row.kept) for row in tables.kept}


def logs_of(folder: pathlib.Path) -> list[str]:
    return sorted(str(path) for path in (folder / str(PARTITION)).glob("*.log") if path.stat().st_size)


@pytest.mark.parametrize("seed", range(6))
def test_the_kept_partials_of_segments_are_the_whole_again(tmp_path: pathlib.Path, seed: int) -> None:
    story = Story(tmp_path, seed, others=LIFE)
    story.tell(100)
    story.end()
    tables, _ = run(tmp_path, {})
    parts = [KnownSegment("", row.base_offset or 0, row.kept).partial() for row in tables.kept]
    assert len(parts) == len(logs_of(tmp_path)) > 1
    assert merge_all(parts) == replay_partition(OsFileSystem(), the_partition(tmp_path))


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("seed", range(5))
def test_day_after_day_the_tables_are_those_of_a_full_run(tmp_path: pathlib.Path, seed: int, policy: str) -> None:
    others = (*LIFE, "clean", "clean", "wait") if policy == "compact" else (*LIFE, "retention", "delete_records")
    settings = PURE if policy == "compact" else DEFAULTS
    story = Story(tmp_path, seed, others=others, policy=policy)
    known: Known = {}
    spared = 0
    for day in range(5):
        story.tell(40)
        if day % 2:
            story.end()
        full, _ = run(tmp_path, {}, settings)
        tables, opened = run(tmp_path, known, settings)
        assert tables == full
        spared += len(logs_of(tmp_path)) - len(opened)
        again, nothing = run(tmp_path, kept_of(tables), settings)
        if not tables.findings:
            assert nothing == [] and again == full
        known = kept_of(tables)
        if day % 2:
            story.manager, story.log = story._start()
            story.look()
    story.end()
    assert spared > 0 or policy == "compact"


def a_rolled_log(folder: pathlib.Path) -> pathlib.Path:
    story = Story(folder, 5, others=("roll",))
    story.tell(60)
    story.end()
    return folder / str(PARTITION)


def test_a_segment_that_changed_in_any_way_is_read_again(tmp_path: pathlib.Path) -> None:
    path = a_rolled_log(tmp_path)
    known = kept_of(run(tmp_path, {})[0])
    assert run(tmp_path, known)[1] == []
    first, second = (pathlib.Path(name) for name in logs_of(tmp_path)[:2])
    os.utime(first, (1, 1))
    assert run(tmp_path, known)[1] == [str(first)]
    known = kept_of(run(tmp_path, known)[0])
    with second.with_suffix(".index").open("ab") as file:
        file.write(bytes(8))
    assert run(tmp_path, known)[1] == [str(second)]
    known = kept_of(run(tmp_path, known)[0])
    (path / f"{int(second.stem) + 1:020d}.snapshot").write_bytes(next(path.glob("*.snapshot")).read_bytes())
    assert run(tmp_path, known)[1] == [str(second)]
    assert run(tmp_path, known, ReplaySettings(check_crc=False))[1] == logs_of(tmp_path)


def test_an_append_under_way_is_damage_once_another_segment_follows(tmp_path: pathlib.Path) -> None:
    path = a_rolled_log(tmp_path)
    (tmp_path / ".kafka_cleanshutdown").unlink()
    last = pathlib.Path(logs_of(tmp_path)[-1])
    last.write_bytes(last.read_bytes()[:-3])
    known = kept_of(run(tmp_path, {})[0])
    (path / f"{int(last.stem) + 500:020d}.log").touch()
    tables, opened = run(tmp_path, known)
    assert opened == [str(last)] and "corrupt" in {finding.kind for finding in tables.findings}
    assert tables == run(tmp_path, {})[0]


def test_a_pass_of_the_cleaner_that_leaves_size_and_time_is_seen(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that only sets a delete horizon: Kafka's cleaner gives its copy the time of the original."""
    monkeypatch.setattr(OsFileSystem, "file_identity", lambda self, path: "")  # as where files have no inode and ctime
    path = a_rolled_log(tmp_path)
    known = kept_of(run(tmp_path, {})[0])
    first = pathlib.Path(logs_of(tmp_path)[0])
    before = first.stat()
    data = bytearray(first.read_bytes())
    data[-1] ^= 1
    first.write_bytes(data)
    os.utime(first, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert run(tmp_path, known)[0].findings == []
    (tmp_path / "cleaner-offset-checkpoint").write_text(f"0\n1\n{path.name.rpartition('-')[0]} 0 1\n")
    tables, opened = run(tmp_path, known)
    assert [finding.kind for finding in tables.findings] == ["crc"] and str(first) in opened
    assert tables.kept == [], "of a damaged log nothing is kept"


def test_what_was_kept_must_make_sense(tmp_path: pathlib.Path) -> None:
    a_rolled_log(tmp_path)
    known = {key: (identity, "{}x") for key, (identity, _) in kept_of(run(tmp_path, {})[0]).items()}
    with pytest.raises(KmirrorError, match="use --full to read all segments again"):
        run(tmp_path, known)


def test_the_command_keeps_and_knows(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OsFileSystem, "file_identity", lambda self, path: "")  # so that what is damaged below is not noticed
    logs, out = tmp_path / "logs", tmp_path / "out"
    story = Story(logs, chance := 3, others=("roll",))
    story.tell(50)
    story.end()
    arguments = ["verify-logs", str(logs), "--output", str(out)]
    assert main(arguments) == 0
    first = capsys.readouterr().out
    assert read_kept(str(out))
    victim = pathlib.Path(random.Random(chance).choice(logs_of(logs)))
    before = victim.stat()
    data = bytearray(victim.read_bytes())
    data[-1] ^= 1
    victim.write_bytes(data)
    os.utime(victim, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert main(arguments) == 0
    assert capsys.readouterr().out == first
    assert main([*arguments, "--full"]) == 1
    assert main(arguments) == 1
    capsys.readouterr()
    for path in out.glob("kept.*"):
        path.write_bytes(b"not a table")
    assert main(arguments) == 1
    assert "structure crc" in capsys.readouterr().out


def test_another_version_is_not_known(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_rolled_log(tmp_path)
    known = kept_of(run(tmp_path, {})[0])
    monkeypatch.setattr(kept, "VERSION", kept.VERSION + 1)
    assert run(tmp_path, known)[1] == logs_of(tmp_path)
