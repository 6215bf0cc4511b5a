"""The results of the demonstration: a table for the terminal, JSON, and one HTML page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from kmirror.cli.html_page import (
    NOT_LOOKED_AT,
    RED,
    Provenance,
    Rect,
    axis,
    escaped,
    html_page,
    lane,
    legend,
    provenance,
    table,
    verdict_box,
)

STATE_COLOURS = {
    "PREPARING": "#9a6a17",
    "MIRRORING": "#358252",
    "PAUSING": "#737373",
    "PAUSED": "#546e7a",
    "STOPPING": "#b55a2d",
    "STOPPED": "#4a6fa5",
    "FAILED": "#bf2323",
}
"""Of known states. UNKNOWN, and what nobody looked at, is not drawn: the striped ground shows."""
UNSEEN: Final = "UNSEEN"
"""The state of a partition from the moment on at which nobody looked any more."""
LOOKED_FOR_S: Final = 1.0
"""A reading of the lag says nothing of what is longer ago."""
_WIDTH: Final = 1000
_LAG_HEIGHT: Final = 110
_TICKS: Final = 4
_SOFT: Final = "#8883"


@dataclass(frozen=True, slots=True)
class Sample:
    """State, offsets and lag of one partition at one moment (seconds since the start).

    The state is UNSEEN where watching ended or failed.
    """

    at_s: float
    cluster: str
    topic: str
    partition: int
    state: str
    source_offset: int
    destination_offset: int
    lag: int


@dataclass(frozen=True, slots=True)
class LagSample:
    """Number of records, in all partitions, that the destination was not yet seen to have."""

    at_s: float
    records: int


@dataclass
class DemoReport:
    """All figures. Sizes are bytes, times seconds, counts records."""

    topics: list[str]
    story: list[tuple[float, str]] = field(default_factory=list)
    timeline: list[Sample] = field(default_factory=list)
    lag: list[LagSample] = field(default_factory=list)
    first_copy_bytes: int = 0
    first_copy_s: float = 0.0
    killed_at_s: float = 0.0
    acked_by_source: int = 0
    failover_s: float = 0.0
    failover_preview: str = ""
    written_after_failover: int = 0
    failback_s: float = 0.0
    failback_preview: str = ""
    failback_bytes: int = 0
    log_bytes: int = 0
    truncated_records: int = 0
    truncated_bytes: int = 0
    comparison: str = ""
    compared: str = ""
    """What the comparison looked at, in a sentence."""
    logs_equal: bool = False
    duration_s: float = 0.0

    def rows(self) -> list[tuple[str, str]]:
        """Returns the summary as pairs of name and value."""
        share = 100 * self.failback_bytes / self.log_bytes if self.log_bytes else 0.0
        return [
            ("first copy", f"{self.first_copy_bytes / 1e6:.1f} MB in {self.first_copy_s:.2f} s"),
            ("acknowledged by north before it died", f"{self.acked_by_source:,} records"),
            ("time to fail over (remove -> first write acknowledged everywhere)", f"{self.failover_s:.2f} s"),
            ("written to south after the failover", f"{self.written_after_failover:,} records"),
            ("time to fail back (add -> lag 0)", f"{self.failback_s:.2f} s"),
            (
                "truncated at north, as the dry run counted (acknowledged, never mirrored)",
                f"{self.truncated_records:,} records, {self.truncated_bytes / 1e6:.2f} MB",
            ),
            ("transferred at failback", f"{self.failback_bytes / 1e6:.2f} MB of {self.log_bytes / 1e6:.2f} MB ({share:.1f} %)"),
            ("logs", f"{'equal, byte for byte' if self.logs_equal else 'DIFFERENT'}: {self.compared}"),
            ("whole demonstration", f"{self.duration_s:.1f} s"),
        ]


def print_summary(report: DemoReport) -> None:
    """Print the table on the terminal."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="kmirror demo", show_header=False)
    for name, value in report.rows():
        table.add_row(name, value)
    Console().print(table)


def write_reports(report: DemoReport, folder: Path, made: Provenance) -> tuple[Path, Path]:
    """Write report.json and report.html into `folder`; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    json_path, html_path = folder / "report.json", folder / "report.html"
    json_path.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2))
    html_path.write_text(_page(report, made))
    return json_path, html_path


def _page(report: DemoReport, made: Provenance) -> str:
    status, sentence = ("equal", "The logs are equal, byte for byte.") if report.logs_equal else ("different", "The logs are different.")
    return html_page(
        "kmirror demo",
        f"<h1>Mirror, failover, failback</h1>{verdict_box(status, sentence, report.compared)}",
        table((), ((escaped(name), escaped(value)) for name, value in report.rows())),
        f"<h2>States over time</h2>{_legend(report)}{_states(report)}",
        f"<h2>Lag over time</h2>{_lag(report)}",
        f"<h2>What happened</h2>{_story(report.story)}",
        f"<h2>Dry run of the failover</h2><pre>{escaped(report.failover_preview)}</pre>",
        f"<h2>Dry run of the failback</h2><pre>{escaped(report.failback_preview)}</pre>",
        f"<h2>Comparison of the logs</h2><pre>{escaped(report.comparison)}</pre>",
        provenance(made, report.compared),
    )


def _story(story: Iterable[tuple[float, str]]) -> str:
    return table((), ((f"{at:.1f} s", escaped(text)) for at, text in story), layout="timed")


@dataclass(frozen=True, slots=True)
class _TimeAxis:
    """Maps seconds to the pictures' width, from the first sample to the last.

    Comparing the logs, which follows, would take half of the width.
    """

    begin_s: int
    end_s: float
    killed_at_s: float

    def x(self, at_s: float) -> float:
        return _WIDTH * (at_s - self.begin_s) / (self.end_s - self.begin_s)

    def extent(self, begin_s: float, end_s: float) -> tuple[float, float]:
        """Returns where an interval begins, and how wide it is, at least visible."""
        x = min(self.x(begin_s), _WIDTH - 2)
        return x, min(max(self.x(end_s) - x, 2), _WIDTH - x)

    @property
    def kill(self) -> Rect:
        return Rect(*self.extent(self.killed_at_s, self.killed_at_s), RED, f"north is killed at {self.killed_at_s:.1f} s")

    def picture(self, *lanes: str) -> str:
        """Returns the lanes, and seconds below them."""
        labels = (f"{self.begin_s + number * (self.end_s - self.begin_s) / _TICKS:.0f} s" for number in range(_TICKS + 1))
        below = f'<div class="lane"><span></span>{axis(*labels)}</div>'
        return f"{''.join(lanes)}{below}"


def _axis(report: DemoReport) -> _TimeAxis:
    seen = [*(sample.at_s for sample in report.timeline), *(sample.at_s for sample in report.lag), report.killed_at_s]
    return _TimeAxis(int(min(seen)), max(seen) + 0.5, report.killed_at_s)


def _legend(report: DemoReport) -> str:
    """Returns an entry for each state that the pictures show."""
    seen = {sample.state for sample in report.timeline}
    states = [(state, colour) for state, colour in STATE_COLOURS.items() if state in seen]
    return legend([*states, ("not looked at, or no such mirror", NOT_LOOKED_AT), ("north is killed", RED)])


def _lanes(report: DemoReport) -> dict[tuple[str, str, int], list[Sample]]:
    lanes: dict[tuple[str, str, int], list[Sample]] = {}
    for sample in report.timeline:
        lanes.setdefault((sample.cluster, sample.topic, sample.partition), []).append(sample)
    return dict(sorted(lanes.items()))


def _states(report: DemoReport) -> str:
    """Returns one bar per partition, coloured by state as long as somebody looked."""
    times = _axis(report)
    lanes = []
    for (cluster, topic, partition), samples in _lanes(report).items():
        ends = [sample.at_s for sample in samples[1:]] + [times.end_s]
        rects = [
            Rect(
                *times.extent(sample.at_s, end),
                STATE_COLOURS[sample.state],
                f"{sample.state} from {sample.at_s:.2f} s, lag {'unknown' if sample.lag < 0 else f'{sample.lag:,}'}",
            )
            for sample, end in zip(samples, ends, strict=True)
            if sample.state in STATE_COLOURS
        ]
        lanes.append(lane(f"{cluster} {topic}-{partition}", [*rects, times.kill]))
    return times.picture(*lanes)


def _lag(report: DemoReport) -> str:
    """Returns a graph of the records by which the source was ahead, over all partitions."""
    points = sorted((sample.at_s, sample.records) for sample in report.lag)
    if not points:
        return "<p>The source was not asked.</p>"
    times, top = _axis(report), max(max(records for _, records in points), 1)
    rects = []
    for (at_s, records), next_s in zip(points, [at_s for at_s, _ in points[1:]] + [points[-1][0]], strict=True):
        x, width = times.extent(at_s, min(next_s, at_s + LOOKED_FOR_S))
        size = 2 + (_LAG_HEIGHT - 2) * records / top
        title = f"{records:,} records at {at_s:.2f} s"
        rects.append(Rect(x, width, _SOFT, title))
        rects.append(Rect(x, width, STATE_COLOURS["STOPPED"], title, y=_LAG_HEIGHT - size, height=size))
    return times.picture(lane(f"records, at most {top:,}", [*rects, times.kill], height=_LAG_HEIGHT))
