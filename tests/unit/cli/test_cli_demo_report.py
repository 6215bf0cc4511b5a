"""The page of the demonstration: what its pictures show, and where they end."""

from __future__ import annotations

import re
from pathlib import Path

from kmirror.cli.demo_report import DemoReport, LagSample, Sample, write_reports


def page(report: DemoReport, folder: Path) -> str:
    _, written = write_reports(report, folder)
    return written.read_text()


def sample(at_s: float, state: str, cluster: str = "north", topic: str = "t") -> Sample:
    return Sample(at_s, cluster, topic, 0, state, 10, 10, 0)


def test_the_pictures_hold_every_sample_and_end_with_the_last(tmp_path: Path) -> None:
    report = DemoReport(["t"], killed_at_s=7.0, duration_s=400.0)
    report.timeline += [sample(5.0, "PREPARING"), sample(5.5, "MIRRORING"), sample(9.0, "STOPPED", "south")]
    report.lag += [LagSample(5.1, 1000), LagSample(6.0, 0)]
    text = page(report, tmp_path)
    bars = re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)" height="16"', text)
    assert len(bars) == 3 and all(float(x) >= 150 and float(x) + float(width) <= 920 for x, width in bars)
    assert float(bars[1][0]) + float(bars[1][1]) > 900, "the last state lasts to the end of the picture"
    assert "1,000 records" in text and ">5 s<" in text and ">9 s<" in text and ">400 s<" not in text
    assert text.count("north is killed") == 2


def test_the_legend_names_the_states_that_were_seen(tmp_path: Path) -> None:
    report = DemoReport(["t"])
    report.timeline.append(sample(1.0, "MIRRORING"))
    text = page(report, tmp_path)
    assert "</i>MIRRORING" in text and "</i>FAILED" not in text


def test_names_from_outside_are_text(tmp_path: Path) -> None:
    report = DemoReport(["t"])
    report.timeline.append(sample(1.0, "MIRRORING", topic="<b>"))
    report.story.append((1.0, "wrote <script>"))
    text = page(report, tmp_path)
    assert "<b>" not in text and "<script>" not in text


def test_a_report_without_samples_is_a_page(tmp_path: Path) -> None:
    assert "The source was not asked." in page(DemoReport(["t"]), tmp_path)
