"""`kafka-log-diff --mirror --output DIR`: the verdicts, differences and exit codes of a run without
tables, on sound and on damaged mirrors, and a second run that reads no log of a running mirror.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.logs.cluster_damage import DAMAGES, Clusters, Nowhere
from support.logs.cluster_stories import AUDIT, MIRRORED, MirrorStory

from kmirror.cli.log_diff import main
from kmirror.runtime.os_files import OsFileSystem
from kmirror.verify import chunks


def mirror_report(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: object) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = main([str(folder / "A"), str(folder / "B"), "--mirror", "--json", *map(str, arguments)])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("kind", [None, "byte flipped", "tail missing", "batches swapped", "epoch wrong", "reset missing", "segment deleted",
                                  "leader-epoch-checkpoint wrong", "replica diverged", "mirror diverged", "group beyond the end"])  # fmt: skip
def test_the_verdicts_on_a_mirror_are_those_of_a_run_without_tables(
    kind: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 700)
    for seed in range(11, 40):
        folder = tmp_path / str(seed)
        MirrorStory(folder, seed).tell()
        try:
            if kind is not None:
                DAMAGES[kind](Clusters(folder, seed))
            break
        except Nowhere:
            continue
    plain = mirror_report(capsys, folder)
    if kind is None:
        compared = {(one["topic"], one["partition"]) for one in plain[1]["partitions"] if one["replicas_of"] is None}
        assert plain[0] == 0 and compared == set(MIRRORED)
    for _ in range(2):
        assert mirror_report(capsys, folder, "--output", tmp_path / "out") == plain
    assert (tmp_path / "out" / "report.html").exists()
    ignored = "--ignore", "mirror-rule"
    assert mirror_report(capsys, folder, *ignored, "--output", tmp_path / "out") == mirror_report(capsys, folder, *ignored)


def test_no_log_of_a_mirror_that_did_not_change_is_read_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "clusters"
    MirrorStory(folder, 12).tell()
    source, *others = (folder / "A").glob(f"*/{AUDIT.topic}-0")
    mirror, *more = (folder / "B").glob(f"*/{AUDIT.topic}-0")
    for path in (mirror, *others, *more):  # which of several replicas would be elected is looked up in each run
        shutil.rmtree(path)
    shutil.copytree(source, mirror, ignore=shutil.ignore_patterns("partition.metadata"))
    given = "--output", tmp_path / "out", "--topics", AUDIT.topic, "--no-replicas"
    assert mirror_report(capsys, folder, *given)[0] == 0
    opened: list[str] = []
    original = OsFileSystem.open

    def noted(self: OsFileSystem, path: str, **options: Any) -> Any:
        opened.append(path)
        return original(self, path, **options)

    monkeypatch.setattr(OsFileSystem, "open", noted)
    code, report = mirror_report(capsys, folder, *given)
    assert (code, [one["bytes_compared"] > 0 for one in report["partitions"]]) == (0, [True])
    assert not [path for path in opened if path.endswith(".log") and f"/{AUDIT.topic}-0/" in path]
