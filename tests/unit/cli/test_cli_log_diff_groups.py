"""`kafka-log-diff` of folders that have `__consumer_offsets`: groups beyond the end of a log are
told, on either side, whatever the way of comparing.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.logs.cluster_damage import Clusters, commit, end_of
from support.logs.cluster_stories import AUDIT, ORDERS, MirrorStory

from kmirror.cli.log_diff import main
from kmirror.common.topic_partition import TopicPartition


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two clusters; among their commits are some far beyond the logs, of transactions that were
    aborted.
    """
    folder = tmp_path_factory.mktemp("clusters")
    MirrorStory(folder, 3).tell(chapters=3)
    return folder


def told(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: object) -> tuple[int, list[tuple[str, int, int, int, str]]]:
    capsys.readouterr()
    code = main([str(folder / "A"), str(folder / "B"), "--json", *map(str, arguments)])
    verdicts: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["partitions"]
    differences = [one for verdict in verdicts for one in verdict["differences"] if one["kind"] == "group-beyond-end"]
    return code, [(one["topic"], one["partition"], one["first_offset"], one["last_offset"], one["detail"]) for one in differences]


@pytest.mark.parametrize("arguments", [(), ("--mirror",), ("--output", "DIR")])
@pytest.mark.parametrize(("side", "name"), [("A", ORDERS[1]), ("B", AUDIT)])
def test_a_group_beyond_the_end_of_a_log_is_told(
    sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], side: str, name: TopicPartition, arguments: tuple[str, ...]
) -> None:
    folder = tmp_path / "clusters"
    shutil.copytree(sound, folder)
    given = [tmp_path / "out" if word == "DIR" else word for word in arguments]
    assert told(capsys, folder, *given)[1] == []
    clusters = Clusters(folder, 1)
    end = end_of(clusters, side, name)
    commit(clusters, side, name, end)
    assert told(capsys, folder, *given)[1] == [], "the next record is its own"
    record = commit(clusters, side, name, end + 7)
    code, found = told(capsys, folder, *given)
    log = folder / side / "node-1" / "__consumer_offsets-0"
    text = f"group late of {side} has committed {end + 7} (offset {record} of {log}), and its log ends at {end}"
    assert (code, found) == (1, [(name.topic, name.partition, end, end + 6, text)])
    if arguments == ("--mirror",):
        assert told(capsys, folder, "--mirror", "--ignore", "group-beyond-end") == (0, [])
    if "DIR" in arguments:
        tables = {path.stem for path in (tmp_path / "out").iterdir()}
        assert "differences" in tables


def test_a_log_that_grew_since_is_not_held_against_newer_commits(
    sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "clusters"
    shutil.copytree(sound, folder)
    clusters = Clusters(folder, 1)
    commit(clusters, "B", AUDIT, end_of(clusters, "B", AUDIT) + 7)
    assert told(capsys, folder, "--mirror")[0] == 1
    from kmirror.cli.log_diff_inputs import FolderInput

    monkeypatch.setattr(FolderInput, "has_grown", lambda self, log: "audit-0" in log)
    assert told(capsys, folder, "--mirror") == (0, [])
