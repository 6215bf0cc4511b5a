"""The page of the demonstration: what its pictures show, and where they end."""

from __future__ import annotations

import re
from pathlib import Path

from support.tools.html_pages import Page

from kmirror.cli.demo import compared_text
from kmirror.cli.demo_report import UNSEEN, DemoReport, LagSample, Sample, write_reports
from kmirror.cli.html_page import Provenance

MADE = Provenance("2026-11-28T12:00:00Z", "kmirror demo", "0.1.0", 60.0)


def page(report: DemoReport, folder: Path) -> str:
    """The written page, which is well formed."""
    _, written = write_reports(report, folder, MADE)
    text = written.read_text()
    Page(text)
    return text


def lanes(text: str) -> dict[str, list[tuple[float, float, str]]]:
    """x, width and title of each rectangle, by lane."""
    found = re.findall(r'<div class="lane"><span>([^<]+)</span>(<svg class="unseen".*?</svg>)', text)
    rect = r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"[^>]*><title>([^<]*)'
    return {name: [(float(x), float(width), title) for x, width, title in re.findall(rect, svg)] for name, svg in found}


def sample(at_s: float, state: str, cluster: str = "north", topic: str = "t") -> Sample:
    return Sample(at_s, cluster, topic, 0, state, 10, 10, 0)


def test_the_pictures_hold_every_sample_and_end_with_the_last(tmp_path: Path) -> None:
    report = DemoReport(["t"], killed_at_s=7.0, duration_s=400.0)
    report.timeline += [sample(5.0, "PREPARING"), sample(5.5, "MIRRORING"), sample(9.0, "STOPPED", "south")]
    report.lag += [LagSample(5.1, 1000), LagSample(6.0, 0)]
    text = page(report, tmp_path)
    (_, _, preparing), (x, width, mirroring), kill = lanes(text)["north t-0"]
    assert preparing.startswith("PREPARING from 5.00 s") and mirroring.startswith("MIRRORING") and kill[2] == "north is killed at 7.0 s"
    assert 990 < x + width <= 1000, "who is watched to the end keeps the last state to the end of the picture"
    assert "1,000 records at 5.10 s" in text and ">5 s<" in text and ">10 s<" in text and ">400 s<" not in text
    assert text.count("north is killed at") == 3


def test_the_time_in_which_nobody_looked_has_no_state(tmp_path: Path) -> None:
    """A state that was last seen at the failover was drawn up to the end of the failback."""
    report = DemoReport(["t"], killed_at_s=1.0)
    report.timeline += [sample(0.0, "STOPPED"), sample(4.0, UNSEEN), sample(7.5, "STOPPED"), sample(9.5, UNSEEN)]
    first, second, _ = lanes(page(report, tmp_path))["north t-0"]
    assert (first[:2], second[:2]) == ((0.0, 400.0), (750.0, 200.0))


def test_a_partition_whose_state_is_unknown_is_drawn_as_unknown(tmp_path: Path) -> None:
    report = DemoReport(["t"], killed_at_s=1.0)
    report.timeline += [sample(0.0, "UNKNOWN"), sample(4.0, "MIRRORING"), sample(9.5, UNSEEN)]
    assert [title.split()[0] for _, _, title in lanes(page(report, tmp_path))["north t-0"]] == ["MIRRORING", "north"]


def test_a_reading_of_the_lag_ends_when_it_is_old(tmp_path: Path) -> None:
    report = DemoReport(["t"], killed_at_s=0.0)
    report.lag += [LagSample(0.0, 10), LagSample(5.0, 20), LagSample(9.5, 0)]
    drawn = [(x, width) for x, width, title in lanes(page(report, tmp_path))["records, at most 20"] if title.startswith("10 records")]
    assert drawn == [(0.0, 100.0)] * 2, "one of ten seconds, not the five until the next reading"


def test_the_verdict_comes_first_and_names_what_was_compared(tmp_path: Path) -> None:
    compared = compared_text(
        "t-0: equal, compared from offset 0, 1200 bytes equal, ends at offset 9\nt-1: 34 bytes equal\n2 partitions: 2 equal\n"
    )
    text = Page(page(DemoReport(["t"], compared=compared, logs_equal=True), tmp_path)).text
    assert compared == "2 partitions: 2 equal; 1,234 bytes compared equal"
    assert text.index(f"The logs are equal, byte for byte. {compared}") < text.index("first copy")
    assert "Command kmirror demo" in text and "2026-11-28T12:00:00Z" in text


def test_the_legend_names_the_states_that_were_seen(tmp_path: Path) -> None:
    report = DemoReport(["t"])
    report.timeline.append(sample(1.0, "MIRRORING"))
    text = page(report, tmp_path)
    assert "</i>MIRRORING" in text and "</i>FAILED" not in text and "</i>not looked at" in text


def test_names_from_outside_are_text(tmp_path: Path) -> None:
    report = DemoReport(["t"])
    report.timeline.append(sample(1.0, "MIRRORING", topic="<b>"))
    report.story.append((1.0, "wrote <script>"))
    text = page(report, tmp_path)
    assert "<b>" not in text and "<script>" not in text


def test_a_report_without_samples_is_a_page(tmp_path: Path) -> None:
    assert "The source was not asked." in page(DemoReport(["t"]), tmp_path)
