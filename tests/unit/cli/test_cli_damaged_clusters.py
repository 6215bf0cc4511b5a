"""Pairs of clusters, each damaged in one place: the tools find and name it; of the same clusters
before nothing is said. All 200: tools.damaged_clusters.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.logs.cluster_damage import DAMAGES

from tools import damaged_clusters


@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_is_found_and_named_and_nothing_is_said_of_sound_clusters(tmp_path: Path, kind: str) -> None:
    outcome = damaged_clusters.damaged(tmp_path / "clusters", kind, 7)
    assert outcome.sound.lines == []
    assert outcome.is_named, f"expected {outcome.expected}, found {outcome.said.lines}"


def test_the_table_counts_what_was_found_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert damaged_clusters.main(["--count", "1", "--kind", "tail missing", "--seed", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[1:3]] == [["tail", "missing", "1", "1", "1"], ["all", "1", "1", "1"]]
    assert lines[3] == "sound clusters: 1, of 0 of them something was said"


def test_what_is_not_named_is_a_line_and_exit_code_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(damaged_clusters, "is_named", lambda *said: False)
    assert damaged_clusters.main(["--count", "1", "--kind", ".index wrong", "--seed", "5", "--keep", str(tmp_path / "kept")]) == 1
    out = capsys.readouterr().out
    assert "seed 5, .index wrong: expected " in out and "indexes wrong: " in out
    assert (tmp_path / "kept" / "5" / "A" / "node-1").is_dir()
