"""`kafka-log-diff` of equal clusters: on Spark against one process, and with `--output` run after
run.

Spark's Python CPU is that of its worker (the daemon and its child), without the JVM and without
what it costs on two logs of a batch each: starting. Bytes that a run reads for fingerprints are
those that its own table says.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator

from benches.data import batch, json_records
from benches.harness import MB, Context, Row, Usage, in_turn, median, median_ratio, run_command

SEGMENT_BYTES = 32 * MB
PROGRAM = """
import os, pathlib, sys
from benches.harness import descendants
from kmirror.cli.log_diff import main
code = main(sys.argv[1:])
ticks = 0
for pid in descendants(os.getpid()):
    try:
        if "pyspark.daemon" in pathlib.Path(f"/proc/{pid}/cmdline").read_text():
            stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(stat[11]) + int(stat[12]) + int(stat[13]) + int(stat[14])
    except OSError:
        pass
print(ticks / os.sysconf("SC_CLK_TCK"), file=sys.stderr)
sys.exit(code)
"""


def run(context: Context) -> Iterator[Row]:
    total = context.choose(64, 1024) * MB
    sides = [context.folder / side for side in "ab"]
    size = 2 * write_partition(sides[0] / "t-0", total)
    shutil.copytree(sides[0], sides[1])
    tiny = [context.folder / f"tiny-{side}" for side in "ab"]
    for folder in tiny:
        write_partition(folder / "t-0", 1)
    tool = os.path.join(os.path.dirname(sys.executable), "kafka-log-diff")
    rounds = context.choose(1, 3)
    one, many, start = in_turn(
        rounds,
        lambda: run_command([tool, "--engine", "local", *map(str, sides)]).cpu,
        lambda: workers_cpu(sides),
        lambda: workers_cpu(tiny),
    )
    extra = [max(cpu - fixed, 0.0) for cpu, fixed in zip(many, start)]
    own = run_command([tool, "--engine", "local", *map(str, tiny)]).cpu
    ratio = median_ratio(extra, [max(cpu - own, 0.01) for cpu in one])
    note = f"{size / MB:.0f} MB; workers {median(many):.2f} s, of that {median(start):.2f} s to start; one process {median(one):.2f} s, {own:.2f} s to start"
    yield Row(
        "spark_diff",
        "equal logs, Spark's Python CPU",
        ratio,
        "x one process",
        "<= 1.3",
        ratio <= 1.3,
        "one process",
        median(one),
        None,
        note,
    )
    yield from _outputs(context, tool, sides, size)


def _outputs(context: Context, tool: str, sides: list[pathlib.Path], size: int) -> Iterator[Row]:
    out = context.folder / "out"
    command = [tool, "--engine", "local", *map(str, sides), "--output", str(out)]
    first = run_command(command)
    yield _output_row("first run", first, size, out, size, None)
    yield _output_row("unchanged", run_command(command), size, out, size, 0.0)
    for side in sides:
        last = max((side / "t-0").glob("*.log"))
        with last.open("ab") as file:
            file.write(_batches(int(last.stem) + 10_000_000, size // 200))
    yield _output_row("1 % new", run_command(command), size, out, size, 0.02)


def _output_row(what: str, used: Usage, size: int, out: pathlib.Path, total: int, limit: float | None) -> Row:
    read = bytes_read(out)
    target, met = ("", None) if limit is None else (f"<= {limit:.0%} read", read <= limit * total)
    note = f"{read / MB:.1f} of {size / MB:.0f} MB read, {used.cpu:.2f} CPU-s with start; tables of {sum(path.stat().st_size for path in out.iterdir()):,} bytes"
    return Row("spark_diff", f"--output, {what}", 100 * read / total, "% of the log read", target, met, note=note)


def bytes_read(out: pathlib.Path) -> int:
    import pyarrow.parquet as pq

    table = pq.read_table(out / "partitions.parquet")
    return sum(sum(table.column(name).to_pylist()) for name in ("left_bytes_read", "right_bytes_read"))


def workers_cpu(sides: list[pathlib.Path]) -> float:
    """CPU seconds of Spark's one Python worker: a second one would have a start of its own."""
    command = [sys.executable, "-c", PROGRAM, *map(str, sides), "--engine", "spark", "--master", "local[1]"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=pathlib.Path(__file__).resolve().parent.parent)
    assert done.returncode == 0, done.stderr[-500:]
    return float(done.stderr.split()[-1])


def _batches(offset: int, size: int) -> bytes:
    """Different batches at rising offsets, of about `size` bytes."""
    values = json_records(4_000)
    made = [batch(values[first : first + 1_000]) for first in range(0, len(values), 1_000)]
    parts: list[bytes] = []
    written = 0
    while written < size or not parts:
        each = made[len(parts) % len(made)]
        each[:8] = offset.to_bytes(8, "big")
        parts.append(bytes(each))
        offset += 1_000
        written += len(each)
    return b"".join(parts)


def write_partition(folder: pathlib.Path, size: int) -> int:
    """Segments with an offset index; bytes written."""
    folder.mkdir(parents=True)
    written, offset = 0, 0
    while written < size:
        data = _batches(offset, min(SEGMENT_BYTES, size - written))
        base, position, entries = offset, 0, b""
        while position < len(data):
            length = int.from_bytes(data[position + 8 : position + 12], "big") + 12
            if position:
                entries += struct.pack(">ii", offset - base, position)
            position += length
            offset += 1_000
        (folder / f"{base:020d}.log").write_bytes(data)
        (folder / f"{base:020d}.index").write_bytes(entries)
        written += len(data)
    return written
