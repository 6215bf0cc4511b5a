"""The HTML pages of `kafka-log-diff` and `kmirror verify-logs`: all that differs is on them,
nothing from outside becomes markup, and they stay small.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from support.logs.log_folders import batch, batches, write_log
from support.logs.replay_stories import Story
from support.tools.html_pages import Page

from kmirror.cli import html_page, log_diff_html, verify_logs_html
from kmirror.cli.html_page import Mark, Share, cells, offsets_bar, stacked_bar
from kmirror.cli.kmirror import main as kmirror
from kmirror.cli.log_diff import main
from kmirror.cli.log_diff_html import report_html
from kmirror.cli.log_diff_output import write_pages
from kmirror.cli.verify_logs_html import findings_html
from kmirror.verify.replay.findings import Finding
from kmirror.verify.replay.folder import replay_folder
from kmirror.verify.replay.tables import LogRow, ReplayTables
from kmirror.verify.verdict import Difference, DifferenceKind, LogFacts, PartitionVerdict, Status, make_report

HOSTILE = "\"><script>alert(1)</script><img src=x onerror=alert(2)>&lt;b&gt;'</title></style>"


def verdict(number: int, status: Status = Status.DIFFERENT, *, topic: str = "t", count: int = 1, text: str = "x") -> PartitionVerdict:
    facts = [LogFacts(f"/{side}/{topic}-{number}", 0, 1000, 900, 5000, 3) for side in "ab"]
    kinds = list(DifferenceKind)
    differences = [
        Difference(kinds[(number + each) % len(kinds)], topic, number, 10 * each, 10 * each + 5, [], [], f"{text} {number}.{each}")
        for each in range(count if status is Status.DIFFERENT else 0)
    ]
    counts: dict[str, int] = {}
    for one in differences:
        counts[one.kind.value] = counts.get(one.kind.value, 0) + 1
    error = f"{text}: cannot be read" if status is Status.ERROR else None
    return PartitionVerdict(topic, number, status, 0, *facts, counts, differences, {}, 100, error)


def test_every_partition_and_difference_is_on_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    parts = batches(30)
    for number in range(6):
        other = [*parts[:number], batch(5 * number, text="other"), *parts[number + 1 : 30 - number]]
        write_log(a / f"t-{number}", *parts)
        write_log(b / f"t-{number}", *(parts if number == 5 else other))
    write_log(a / "torn-0", *parts[:3])
    write_log(b / "torn-0", parts[0], b"\xff" * 80)
    assert main([str(a), str(b), "--output", str(tmp_path / "out"), "--report", str(tmp_path / "page.html")]) == 2
    text = (tmp_path / "page.html").read_text()
    assert (tmp_path / "out" / "report.html").read_text() == text
    page = Page(text)
    for number in range(5):
        offsets = ", ".join(str(5 * number + each) for each in range(5))
        assert f"t-{number}" in page.words and f"offsets {5 * number} to {5 * number + 4}: records differ at offsets {offsets}" in page.text
        assert number == 0 or f"missing offsets {150 - 5 * number} to 149: {number} batch" in page.text
    assert page.ids == [f"p{number}" for number in range(6)] and sorted(page.links) == sorted(f"#{name}" for name in page.ids)
    assert page.words.index("torn-0") < page.words.index("t-4"), "what cannot be read comes first"
    assert f"{b}/torn-0/{0:020d}.log" in page.text and "equal 1" in page.text and "error 1" in page.text
    assert "base offset" in page.text and page.tags.count("details") >= 6 + 9


@pytest.mark.parametrize("status", [Status.DIFFERENT, Status.ERROR])
def test_no_name_and_no_reason_becomes_markup(status: Status) -> None:
    report = make_report(HOSTILE, HOSTILE, "local", [verdict(0, status, topic=HOSTILE, text=HOSTILE)])
    page = Page(report_html(report))
    assert HOSTILE in page.text and f"{HOSTILE}-0" in page.text


def test_a_page_of_ten_thousand_partitions_stays_small_and_names_them_all() -> None:
    states = [Status.DIFFERENT] * 6000 + [Status.EQUAL] * 3990 + [Status.ERROR] * 10
    verdicts = [verdict(number, status, topic=f"topic-{number % 700}", count=10) for number, status in enumerate(states)]
    text = report_html(make_report("a", "b", "spark", verdicts))
    assert len(text) < 4_000_000
    page = Page(text)
    words = set(page.words)
    assert all(one.name in words for one in verdicts if one.status is not Status.EQUAL)
    assert len(page.ids) == log_diff_html.MAX_UNFOLDED and "5,810 more partitions that are not equal" in page.text
    assert "400 more topics, counted but not shown" in page.text and "different 6,000" in page.text
    assert page.tags.count("rect") < 2 * html_page.MAX_CELLS + 200 * 50


def test_batches_and_ranges_are_shown_as_long_as_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(log_diff_html, "MAX_RANGES", 2)
    monkeypatch.setattr(log_diff_html, "MAX_BATCHES", 3)
    parts = batches(10)
    write_log(tmp_path / "a" / "t-0", *parts)
    write_log(tmp_path / "b" / "t-0", *(batch(5 * number, epoch=2) for number in range(10)))
    assert main([str(tmp_path / "a"), str(tmp_path / "b"), "--report", str(tmp_path / "page.html")]) == 1
    page = Page((tmp_path / "page.html").read_text())
    assert (
        page.words.count("base offset") == 3
        and "... and 8 more, counted but not shown" in page.text
        and "... and 1 more batches" in page.text
    )


def test_verify_logs_shows_every_log_and_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story = Story(tmp_path / "data", 5, others=("roll", "epoch"))
    story.tell(100)
    story.end()
    assert kmirror(["verify-logs", str(tmp_path / "data"), "--report", str(tmp_path / "page.html")]) == 0
    assert "What was looked at is sound." in Page((tmp_path / "page.html").read_text()).text
    path = max((tmp_path / "data" / "t-0").glob("*.log"), key=lambda path: path.stat().st_size)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    (tmp_path / "data" / "recovery-point-offset-checkpoint").write_text("?")
    assert kmirror(["verify-logs", str(tmp_path / "data"), "--output", str(tmp_path / "out")]) == 1
    page = Page((tmp_path / "out" / "report.html").read_text())
    (crc, checkpoint) = sorted(replay_folder(story.world.files, str(tmp_path / "data")).findings, key=lambda one: one.table != "structure")
    assert f"{path}, byte {crc.position}, offset" in page.text and crc.text in page.text and "structure crc" in page.words
    assert checkpoint.file in page.text and checkpoint.text in page.text and page.ids == ["l0"]


def test_a_page_of_many_findings_stays_small_and_hostile_names_are_text() -> None:
    tables = ReplayTables()
    row = LogRow("/x", HOSTILE, 0, 0, 100, None, None, 1, 10, 1, 1, 0, 0, None, 0, 30)
    finding = Finding("/x", HOSTILE, 0, "structure", HOSTILE, HOSTILE, 0, 5, 3, 90, HOSTILE)
    for number in range(4000):
        log = f"/{HOSTILE}/{number}"
        tables.logs.append(replace(row, log=log, partition=number))
        tables.findings += [replace(finding, log=log, partition=number)] * 30
    text = findings_html("/", tables)
    page = Page(text)
    assert len(text) < 12_000_000 and len(page.ids) == verify_logs_html.MAX_UNFOLDED
    assert "3,800 more logs with findings" in page.text and f"structure {HOSTILE}: 30" in page.text


def test_pictures_keep_within_their_frames() -> None:
    marks = [Mark(0, 99, "#000", "a"), Mark(199, 500, "#000", "b"), Mark(199, 500, "#111", "another kind in the same place")] * 3
    body = offsets_bar(100, 200, [("A", 100, 150), ("B", 120, 200), ("C", 5, 5)], marks)
    body += stacked_bar([Share("a", 0, "#000"), Share("b", 3, "#111")]) + cells([("#000", "x")] * 12_345) + cells([]) + stacked_bar([])
    page = Page(html_page.html_page("t", body))
    assert page.tags.count("rect") == 2 + 3 + 1 + -(-12_345 // 7)


def test_one_of_ten_thousand_is_seen_on_the_bar() -> None:
    picture = stacked_bar([Share("different", 1, "#c0392b"), Share("equal", 9_999, "#27ae60")])
    Page(html_page.html_page("t", picture))
    assert 'width="4.0"' in picture and 'width="996.0"' in picture


@pytest.mark.parametrize("is_remote", [False, True])
def test_the_page_lies_beside_the_tables_whatever_names_are_in_it(tmp_path: Path, is_remote: bool) -> None:
    folder = f"file://{tmp_path}" if is_remote else str(tmp_path)
    write_pages(None, folder, lambda: html_page.html_page("t", html_page.escaped("name \udcff")))
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert "name \\udcff" in Page((tmp_path / "report.html").read_text()).text


def test_a_range_far_beyond_both_logs_is_drawn_at_the_edge() -> None:
    one = verdict(0)
    far = msgspec.structs.replace(one.differences[0], kind=DifferenceKind.GROUP_BEYOND_END, first_offset=1000, last_offset=1 << 62)
    page = Page(report_html(make_report("a", "b", "local", [msgspec.structs.replace(one, differences=[far])])))
    assert "1,000" in page.words and "group beyond the end at offsets 1000 to 4611686018427387904" in page.words
