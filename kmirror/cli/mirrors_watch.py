"""`kafka-mirrors --watch`: shows states and lags again and again.

On a terminal it redraws one table in place, below a headline with totals. If the table is longer
than the terminal, it shows what is not MIRRORING and what lags most. When piped, it prints a line
for each partition that changed since the previous look, with the time in front. With `--json` it
prints a line for each look, an object with all rows. RATE is offsets per second since the previous
look. A broker that goes away costs only a few looks, which is reported once. Ctrl-C ends it with
exit code 0.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TextIO

from kmirror.admin.results import DescribeMirrorsOptions, MirrorDescription
from kmirror.cli.mirrors_clients import SHORT_TIMEOUT_MS, MirrorClients
from kmirror.cli.mirrors_source import SourceEnds, verbose_ends
from kmirror.cli.mirrors_tables import describe_rows, describe_table, in_order, notes, silent_for_ms
from kmirror.cli.mirrors_topics import of_topics
from kmirror.cli.mirrors_wait import MIRRORING, answered

DEFAULT_INTERVAL_MS = 1_000
OTHER_LINES = 3
"""The headline, the number left out, and the cursor's line; the table's header comes on top."""
CLEAR = "\x1b[H\x1b[J"
"""Moves to the upper left corner and clears from there on."""

Key = tuple[str, str, int]


class MirrorWatch:
    """What has been seen so far, and how a look is shown.

    `looked` and `failed` print; they know no clock and no network.
    """

    def __init__(self, out: TextIO, *, as_json: bool, size: Callable[[], os.terminal_size] = shutil.get_terminal_size) -> None:
        self._out = out
        self._size = size
        self._as_json = as_json
        self._is_terminal = out.isatty() and not as_json
        self._before: dict[Key, dict[str, Any]] = {}
        self._before_ms: int | None = None
        self._failure: str | None = None

    def looked(self, now_ms: int, mirrors: list[MirrorDescription], ends: SourceEnds | None) -> None:
        """Show a look that succeeded."""
        rows = describe_rows(mirrors, ends)
        for row in rows:
            row["ratePerSecond"] = self._rate(now_ms, row)
        if self._failure is not None and not self._is_terminal and not self._as_json:
            self._print(f"{_time(now_ms)} the cluster answers again")
        self._failure = None
        if self._as_json:
            self._print(json.dumps({"timestampMs": now_ms, "partitions": rows}))
        elif self._is_terminal:
            first = f"{_time(now_ms)}  {silent_sources(mirrors)}{headline(rows)}"
            self._print(f"{CLEAR}{first[: self._size().columns]}\n{self._table(mirrors, ends)}")
        else:
            for row in rows:
                if _shown(row) != _shown(self._before.get(_key(row), {})):
                    self._print(_line(now_ms, row))
        self._before = {_key(row): row for row in rows}
        self._before_ms = now_ms

    def failed(self, now_ms: int, reason: str) -> None:
        """Show a look that failed; as plain text, only once until one succeeds."""
        if self._as_json:
            self._print(json.dumps({"timestampMs": now_ms, "error": reason}))
        elif self._is_terminal:
            self._print(f"{CLEAR}{_time(now_ms)}  no answer: {reason}")
        elif self._failure is None:
            self._print(f"{_time(now_ms)} no answer: {reason}")
        self._failure = reason

    def _rate(self, now_ms: int, row: dict[str, Any]) -> float | None:
        before = self._before.get(_key(row))
        if before is None or self._before_ms is None or now_ms <= self._before_ms:
            return None
        moved = int(row["destinationOffset"] - before["destinationOffset"])
        return round(max(0, moved) * 1000 / (now_ms - self._before_ms), 1)

    def _table(self, mirrors: list[MirrorDescription], ends: SourceEnds | None) -> str:
        """Returns as much of the table as fits now.

        Names are cut to the terminal's width. A row that it wraps all the same counts as several
        lines.
        """
        size = self._size()
        table = describe_table(mirrors, ends, columns=size.columns, is_narrow=True)
        lines_per_row = math.ceil(len(table.splitlines()[0]) / size.columns)
        shown, left_out = worst(mirrors, (size.lines - OTHER_LINES) // lines_per_row - 1)
        if left_out:
            fitted = describe_table(shown, ends, columns=size.columns, is_narrow=True)
            return f"{fitted}\n... and {left_out} more"
        room = (size.lines - OTHER_LINES) - len(table.splitlines()) * lines_per_row
        return "\n".join([table, *(line[: size.columns] for line in notes(mirrors)[: max(room, 0)])])

    def _print(self, text: str) -> None:
        print(text, file=self._out, flush=True)


async def watch(clients: MirrorClients) -> int:
    """Look until Ctrl-C."""
    options, clock = clients.options, clients.runtime.clock
    shown = MirrorWatch(sys.stdout, as_json=options.json)
    interval_ms = DEFAULT_INTERVAL_MS if options.interval is None else options.interval
    while True:
        seen, problem = await answered(look(clients))
        if seen is None:
            shown.failed(clock.time_ms(), problem or "")
        else:
            shown.looked(clock.time_ms(), *seen)
        await clients.runtime.sleep_ms(interval_ms)


async def look(clients: MirrorClients) -> tuple[list[MirrorDescription], SourceEnds | None]:
    """Look once: at the requested mirrors, and with --verbose at their sources' ends."""
    options = clients.options
    request = DescribeMirrorsOptions(timeout_ms=SHORT_TIMEOUT_MS)
    mirrors = list((await clients.admin.describe_mirrors([options.mirror] if options.mirror else [], request)).values())
    if options.topic:
        mirrors = of_topics(mirrors, options.topic)
    return mirrors, await verbose_ends(clients, mirrors, _ignore) if options.verbose else None


def worst(mirrors: list[MirrorDescription], count: int) -> tuple[list[MirrorDescription], int]:
    """Returns up to `count` partitions, the worst ones, and how many are left out.

    Those not MIRRORING come first, then those whose lag is not known, then those with the highest
    lag.
    """
    rows = in_order(mirrors)
    if len(rows) <= count:
        return mirrors, 0
    chosen = sorted(rows, key=lambda pair: (pair[1].state == MIRRORING, pair[1].lag >= 0, -pair[1].lag))[: max(count, 1)]
    names = sorted({name for name, _ in chosen})
    return [MirrorDescription(name, [row for of, row in chosen if of == name]) for name in names], len(rows) - len(chosen)


def _ignore(warning: str) -> None:
    """Drop the warning: the columns already show that the source did not answer."""


def headline(rows: list[dict[str, Any]]) -> str:
    """`4 partitions: 3 MIRRORING, 1 PAUSED; lag 12; 840.0 offsets/s`"""
    states = Counter(row["state"] for row in rows)
    counted = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    lag = sum(max(0, row["lag"]) for row in rows)
    unknown = sum(row["lag"] < 0 for row in rows)
    rate = sum(row["ratePerSecond"] or 0 for row in rows)
    known = f"lag {lag}" if not unknown else f"lag {lag}, not known of {unknown}"
    return f"{len(rows)} partition(s): {counted or 'none'}; {known}; {rate:.1f} offsets/s"


def silent_sources(mirrors: list[MirrorDescription]) -> str:
    """`the source of m is silent for 42 s; `, of each mirror whose source does not answer."""
    silent: dict[str, int] = {}
    for mirror in mirrors:
        ages = [age for row in mirror.partitions if (age := silent_for_ms(row)) is not None]
        if ages:
            silent[mirror.mirror_name] = max(ages) // 1000
    return "".join(f"the source of {name} is silent for {seconds} s; " for name, seconds in sorted(silent.items()))


def _key(row: dict[str, Any]) -> Key:
    return row["mirror"], row["topic"], row["partition"]


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields whose change prints a new line; ages and rates change all the time."""
    return {name: value for name, value in row.items() if name not in ("ratePerSecond", "timeLagMs", "lagAgeMs")}


def _line(now_ms: int, row: dict[str, Any]) -> str:
    def number(value: float | None) -> str:
        return "-" if value is None or value < 0 else str(value)

    offsets = f"source {number(row['sourceOffset'])} destination {number(row['destinationOffset'])} lag {number(row['lag'])}"
    if row["lag"] < 0 <= row["lastKnownLag"]:
        offsets += f" ({row['lastKnownLag']}, as of {row['lagAgeMs'] // 1000} s ago)"
    in_time = f" time-lag-ms {number(row['timeLagMs'])}" if "timeLagMs" in row else ""
    why = f": {row['reason']}" if row["reason"] else ""
    name = f"{row['mirror']} {row['topic']}-{row['partition']}"
    return f"{_time(now_ms)} {name} {row['state']} {offsets}{in_time} rate {number(row['ratePerSecond'])}{why}"


def _time(now_ms: int) -> str:
    return datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
