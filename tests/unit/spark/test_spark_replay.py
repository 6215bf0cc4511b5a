"""`kmirror verify-logs --engine spark`: the tables do not depend on the engine, whatever the tree
of merges looks like.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.logs.replay_stories import Story

from kmirror.cli.kmirror import main
from kmirror.cli.verify_engines import SparkEngine
from kmirror.runtime.os_files import OsFileSystem
from kmirror.spark import replay, replay_keys
from kmirror.spark.replay import SparkReplay
from kmirror.verify.replay import compaction
from kmirror.verify.replay import folder as replay_folders
from kmirror.verify.replay.plan import plan_tasks
from kmirror.verify.replay.tables import ReplayTables

FILES = OsFileSystem()
LIFE = ("roll", "epoch", "reset", "restart", "crash", "truncate")


def several_logs(folder: Path, seed: int, *, damaged: bool) -> Path:
    """A cluster of log.dirs: large and small partitions, an empty one, one that was cleaned, and
    damage of some kinds.
    """
    chance = random.Random(seed)
    for number, steps in enumerate((100, 3, 0, 90)):
        policy = "compact" if number == 3 else "delete"
        story = Story(
            folder / f"node-{number}", seed * 10 + number, others=("clean", "clean", "roll") if number == 3 else LIFE, policy=policy
        )
        story.tell(steps)
        story.end()
        path = folder / f"node-{number}" / "t-0"
        shutil.copytree(path, folder / f"node-{number}" / f"copy-{number}")
        if damaged and steps and number < 3:
            victim = chance.choice(sorted([*path.glob("*.log"), *path.glob("*.snapshot"), *path.glob("*.txnindex")]))
            data = bytearray(victim.read_bytes())
            if data:
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
                victim.write_bytes(data)
    return folder


def in_small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        replay_folders,
        "plan_tasks",
        lambda *args, **kwargs: [[piece] for task in plan_tasks(*args, task_bytes=300, **kwargs) for piece in task],
    )


def tables_on_spark(spark: Any, folder: Path, progress: list[int] | None = None) -> ReplayTables:
    tables = ReplayTables()
    engine = SparkReplay(lambda: spark, (progress if progress is not None else []).append)
    for cluster in replay_folders.clusters_of(FILES, replay_folders.list_input(FILES, str(folder))):
        tables.extend(replay_folders.replay_cluster(FILES, cluster, engine=engine, known={}))
    return tables


def tables_here(folder: Path) -> ReplayTables:
    (cluster,) = replay_folders.clusters_of(FILES, replay_folders.list_input(FILES, str(folder)))
    return replay_folders.replay_cluster(FILES, cluster, known={})


@pytest.mark.parametrize(("seed", "fan_in"), [(1, 2), (2, 16)])
def test_the_tables_are_those_of_one_process(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, fan_in: int) -> None:
    logs = several_logs(tmp_path / "logs", seed, damaged=seed > 1)
    expected = tables_here(logs)
    assert bool(expected.findings) == (seed > 1) and len(expected.logs) == 8 and len(expected.compaction) == 1
    in_small_tasks(monkeypatch)
    monkeypatch.setattr(replay, "FAN_IN", fan_in)
    if seed > 1:
        monkeypatch.setattr(compaction, "BUCKET_ROWS", 10)
        monkeypatch.setattr(replay_keys, "TASK_ROWS", 25)
    told: list[int] = []
    assert tables_on_spark(spark, logs, told) == expected
    keyed = expected.compaction[0].log
    assert sum(told) == sum(path.stat().st_size * (1 + (str(path.parent) == keyed)) for path in logs.rglob("*.log"))


def test_a_huge_partition_is_a_tree_of_merges_and_the_driver_gets_its_rows(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(tmp_path / "logs", 7, others=("roll",))
    story.tell(120)
    story.end()
    expected = tables_here(tmp_path / "logs")
    in_small_tasks(monkeypatch)
    monkeypatch.setattr(replay, "FAN_IN", 3)
    levels: list[int] = []
    original = replay._levels

    def counted(*arguments: Any) -> Any:
        for level in original(*arguments):
            levels.append(level.groups)
            yield level

    monkeypatch.setattr(replay, "_levels", counted)
    assert tables_on_spark(spark, tmp_path / "logs") == expected
    assert len(levels) > 2 and levels[-1] == 1
    assert all(below >= above for below, above in zip(levels, levels[1:]))


def test_the_command_prints_the_same(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = str(several_logs(tmp_path / "logs", 4, damaged=True))
    code = main(["verify-logs", logs, "--json"])
    here = capsys.readouterr().out
    in_small_tasks(monkeypatch)
    out = str(tmp_path / "out")
    arguments = ["verify-logs", logs, "--json", "--engine", "spark", "--output", out]
    assert main(arguments) == code == 1
    assert capsys.readouterr().out == here
    assert main(arguments) == 1, "with what the run before kept"
    assert capsys.readouterr().out == here


def test_a_run_that_reads_nothing_starts_no_session(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(tmp_path / "logs", 6, others=("clean", "roll"), policy="compact")
    story.tell(60)
    story.end()
    arguments = ["verify-logs", str(tmp_path / "logs"), "--output", str(tmp_path / "out")]
    assert main(arguments) == 0
    here = capsys.readouterr().out

    def never(engine: SparkEngine) -> Any:
        raise AssertionError("a session was started")

    monkeypatch.setattr(SparkEngine, "_session", never)
    assert main([*arguments, "--engine", "spark"]) == 0
    assert capsys.readouterr().out == here


def test_what_an_executor_cannot_read_is_one_line(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story = Story(tmp_path / "logs", 7)
    story.tell(20)
    story.end()
    assert main(["verify-logs", str(tmp_path / "logs"), "--engine", "local", "--master", "local[2]"]) == 2
    assert (
        capsys.readouterr().err
        == "kmirror verify-logs: --master can only be used with --engine spark; --engine local runs on this machine\n"
    )
    (tmp_path / "logs" / "t-0" / "leader-epoch-checkpoint").unlink()
    (tmp_path / "logs" / "t-0" / "leader-epoch-checkpoint").mkdir()
    (tmp_path / "logs" / "t-0" / "leader-epoch-checkpoint" / "x").touch()
    local = main(["verify-logs", str(tmp_path / "logs")])
    said = capsys.readouterr()
    assert main(["verify-logs", str(tmp_path / "logs"), "--engine", "spark"]) == local
    assert capsys.readouterr() == said
