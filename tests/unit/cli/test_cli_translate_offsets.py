"""`kmirror translate-offsets`: from numbers and from files."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from kmirror.cli.kmirror import main
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.formats import OffsetSync

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "MIRRORMAKER.md"


def answers(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[tuple[int, int | None, int | None]]:
    """Offset, what it becomes, how many records are read again."""
    assert main(["translate-offsets", *arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["translations"]
    return [(row["upstreamOffset"], row["downstreamOffset"], row["readAgain"]) for row in found]


def test_cp5_the_pages_example_reads_1499_again(capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--records", "1000000", "--sync-every", "100", "--offset", "998400", "--offset", "50")
    assert answers(capsys, *given) == [(998_400, 996_901, 1_499), (50, -1, None)]


def test_by_kafkas_own_rules_it_is_1327(capsys: pytest.CaptureFixture[str]) -> None:
    assert answers(capsys, "--records", "1000000", "--offset", "998400") == [(998_400, 997_073, 1_327)]


def test_every_record_synced_leaves_nothing_to_read_again_near_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert answers(capsys, "--records", "50", "--lag-max", "0", "--offset", "49", "--offset", "50") == [(49, 49, 0), (50, 50, 0)]


def test_syncs_of_a_file_as_pairs_or_as_the_console_consumer_prints_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = tmp_path / "pairs"
    pairs.write_text("# source target\n3 12\n\n20, 17\n")
    assert answers(capsys, "--syncs", str(pairs), "--offset", "3", "--offset", "19") == [(3, 12, 0), (19, 13, 15)]
    printed = tmp_path / "printed"
    printed.write_text("".join(f"{OffsetSync(TopicPartition('t-1', number), 3, 12)}\n" for number in range(2)))
    assert main(["translate-offsets", "--syncs", str(printed), "--offset", "5"]) == 0
    assert [line.split()[1:5] for line in capsys.readouterr().out.splitlines()[1:3]] == [
        ["t-1-0", "5", "13", "1"],
        ["t-1-1", "5", "13", "1"],
    ]


def test_the_picture_shows_commits_between_the_syncs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate-offsets", "--records", "1000000", "--sync-every", "100", "--offset", "998400"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("   o "))
    assert lines[at] == "   o   998400 - -> 996901, 1499 read again"
    assert lines[at - 1].startswith("  [11]  998500 -> 998500 ") and lines[at + 1].startswith("  [12]  996900 -> 996900 ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--records", "5"], "give at least one --offset"),
        (["--records", "5", "--sync-every", "0", "--offset", "1"], "--sync-every must be at least 1"),
        (["--syncs", "nowhere", "--offset", "1"], "cannot read nowhere"),
        (["--config", "nowhere", "--group", "g"], "--config needs --source, --target and at least one --group"),
        (["--config", "nowhere", "--source", "A", "--target", "B", "--group", "g"], "cannot read nowhere"),
    ],
)
def test_a_wrong_command_line_is_one_clear_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate-offsets", *arguments]) == 1
    printed = capsys.readouterr().err
    assert message in printed and printed.count("\n") == 1


def test_a_line_that_is_no_sync_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "syncs").write_text("3 12\nthree twelve\n")
    assert main(["translate-offsets", "--syncs", str(tmp_path / "syncs"), "--offset", "1"]) == 1
    assert "line 2: neither two offsets nor" in capsys.readouterr().err


def test_without_a_sync_nothing_is_translated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "syncs").write_text("")
    assert answers(capsys, "--syncs", str(tmp_path / "syncs"), "--offset", "1") == [(1, None, None)]


def test_every_example_of_the_page_prints_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    examples = re.findall(r"```console\n\$ kmirror (translate-offsets .*?)\n(.*?)```", PAGE.read_text(), re.S)
    assert examples
    for command, expected in examples:
        assert main(shlex.split(command)) == 0
        assert capsys.readouterr().out.strip() == expected.strip()
