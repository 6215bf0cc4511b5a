"""Rows, CPU seconds, medians, pairs: what every bench shares.

Machines that run benches are shared and their speed drifts, so nothing is judged by wall time
alone: a figure and what it is held against are measured in turn (A B A B ...) in the same run, and
what is compared are medians. CPU seconds are user and system time: of children that ended, from
`wait4`; of servers that go on, the difference in `/proc/<pid>/stat`.
"""

from __future__ import annotations

import mmap
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")
MB = 1_000_000
_TICKS = os.sysconf("SC_CLK_TCK")
_ROOT = pathlib.Path(__file__).resolve().parent.parent


@dataclass
class Row:
    """One figure.

    `met` is None where nothing was promised; `note` says what one must know to read it.
    """

    bench: str
    metric: str
    value: float | None
    unit: str
    target: str
    met: bool | None
    peer: str | None = None
    peer_value: float | None = None
    roofline: float | None = None
    note: str = field(default="")


@dataclass(frozen=True)
class Context:
    """What a bench is given: where it may write (removed afterwards), and whether small sizes will
    do.
    """

    folder: pathlib.Path
    quick: bool

    def choose(self, quick: int, full: int) -> int:
        return quick if self.quick else full

    def say(self, text: str) -> None:
        sys.stderr.write(f"  {text}\n")


Bench = Callable[[Context], Iterator[Row]]


@dataclass(frozen=True)
class Usage:
    """Seconds."""

    wall: float
    cpu: float


def cpu_seconds(pid: int) -> float:
    """User and system time of a live process with all its threads, without its children."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def descendants(pid: int) -> list[int]:
    """The processes below `pid`, without it."""
    parents: dict[int, int] = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = {pid}
    grown = True
    while grown:
        below = {child for child, parent in parents.items() if parent in found} | found
        grown, found = len(below) > len(found), below
    return sorted(found - {pid})


def warm_memory(size: int) -> None:
    """Touch and free so many bytes.

    A virtual machine gives free memory back to its host, and what is written to such a page first
    (the page cache of a log, say) costs several times as much as the same again; who is measured
    first must not pay for it.
    """
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE):
        pass


def _environment() -> dict[str, str]:
    """Ours, but an installed package has its bytecode: pip compiles it, and so does a first run
    from a checkout.
    """
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def run_command(command: Sequence[str], *, expected: Sequence[int] = (0,)) -> Usage:
    """Run to its end, output thrown away; what it used.

    AssertionError with its error output for another exit code.
    """
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=_ROOT, env=_environment()) as process:
        assert process.stderr is not None
        errors = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in expected, f"{command[0]} ended with {process.returncode}: {errors.decode(errors='replace')[-500:]}"
    return Usage(time.perf_counter() - began, used.ru_utime + used.ru_stime)


def in_turn(rounds: int, *measures: Callable[[], T]) -> list[list[T]]:
    """Each of `measures`, one after the other, `rounds` times; the results of each."""
    results: list[list[T]] = [[] for _ in measures]
    for _ in range(rounds):
        for kept, measure in zip(results, measures, strict=True):
            kept.append(measure())
    return results


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def median_ratio(left: Sequence[float], right: Sequence[float]) -> float:
    """The median of the ratios pair by pair: drift of the machine falls out."""
    return statistics.median(a / b for a, b in zip(left, right, strict=True))


def wait_until(condition: Callable[[], object], what: str, timeout_s: float = 120) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s} s for {what}"
        time.sleep(0.1)
