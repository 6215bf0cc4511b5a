"""Progress of a replay: a bar on a terminal, a line every ten seconds elsewhere, or JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

LINE_EVERY_S: Final = 10.0
BAR_EVERY_S: Final = 0.1
MB: Final = 1_000_000


class Progress:
    """Counts what is written; call `told` for each batch. `now`: seconds of a monotonic clock."""

    def __init__(
        self, total_bytes: int, done_bytes: int, show: Callable[[Progress], None], every_s: float, *, now: Callable[[], float]
    ) -> None:
        self.total_bytes = max(total_bytes, done_bytes)
        self.done_bytes = done_bytes
        """Bytes that earlier runs sent."""
        self.records = 0
        self.size = 0
        self.lag_ms = 0.0
        self._now = now
        self._began_s = now()
        self._show = show
        self._every_s = every_s
        self._shown_s = self._began_s
        self._worst_lag_ms = 0.0

    def told(self, records: int, size: int, lag_ms: float) -> None:
        self.records += records
        self.size += size
        self._worst_lag_ms = max(self._worst_lag_ms, lag_ms)
        self.tick()

    def tick(self) -> None:
        """Show the progress if it is time to."""
        if self._now() - self._shown_s >= self._every_s:
            self.show()

    def show(self) -> None:
        self._shown_s = self._now()
        self.lag_ms, self._worst_lag_ms = self._worst_lag_ms, 0.0
        self._show(self)

    @property
    def elapsed_s(self) -> float:
        return self._now() - self._began_s

    def facts(self) -> dict[str, Any]:
        """Returns the figures of this run.

        The lag is how far it is behind the schedule: the worst since the previous display.
        """
        seconds = max(self.elapsed_s, 1e-3)
        return {
            "records": self.records,
            "bytes": self.size,
            "bytes_done": self.done_bytes + self.size,
            "bytes_total": self.total_bytes,
            "seconds": round(self.elapsed_s, 3),
            "records_per_s": round(self.records / seconds, 1),
            "mb_per_s": round(self.size / MB / seconds, 3),
            "lag_ms": round(self.lag_ms),
        }


def rates(progress: Progress, *, is_paced: bool) -> str:
    facts = progress.facts()
    behind = f", {facts['lag_ms'] / 1000:,.1f} s behind the schedule" if is_paced else ""
    size = f"{facts['bytes'] / MB:,.1f} MB" if facts["bytes"] >= MB else f"{facts['bytes']:,} bytes"
    return f"{facts['records']:,} records, {size}, {facts['records_per_s']:,.0f} records/s, {facts['mb_per_s']:,.2f} MB/s{behind}"


@contextmanager
def shown(total_bytes: int, done_bytes: int, *, as_json: bool, is_paced: bool) -> Iterator[Progress]:
    """Yields the progress of a replay, which shows itself in the way that fits here."""
    if as_json:
        yield Progress(total_bytes, done_bytes, lambda one: print_event("progress", one.facts()), LINE_EVERY_S, now=time.monotonic)
    elif sys.stderr.isatty():
        with _bar(total_bytes, done_bytes, is_paced=is_paced) as progress:
            yield progress
    else:

        def line(one: Progress) -> None:
            percent = 100 * (one.done_bytes + one.size) // max(1, one.total_bytes)
            print(f"{min(percent, 100)} %: {rates(one, is_paced=is_paced)}", file=sys.stderr, flush=True)

        yield Progress(total_bytes, done_bytes, line, LINE_EVERY_S, now=time.monotonic)


def counted(number: int, noun: str) -> str:
    """`1 topic`, `2 topics`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def say(text: str) -> None:
    """Print a line for whoever is watching, on stderr; only the result goes to stdout."""
    print(text, file=sys.stderr, flush=True)


def print_event(event: str, facts: dict[str, Any]) -> None:
    """Print one JSON object as a line."""
    print(json.dumps({"event": event, **facts}), flush=True)


@contextmanager
def _bar(total_bytes: int, done_bytes: int, *, is_paced: bool) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn
    from rich.progress import Progress as Bar

    with Bar(
        TextColumn("replaying"),
        BarColumn(),
        DownloadColumn(),
        TextColumn("{task.description}"),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task("", total=total_bytes, completed=done_bytes)

        def show(one: Progress) -> None:
            facts = one.facts()
            behind = f" {facts['lag_ms'] / 1000:,.1f} s behind" if is_paced else ""
            text = f"{facts['records_per_s']:,.0f} records/s {facts['mb_per_s']:,.1f} MB/s{behind}"
            bar.update(task, completed=facts["bytes_done"], description=text)

        yield Progress(total_bytes, done_bytes, show, BAR_EVERY_S, now=time.monotonic)
