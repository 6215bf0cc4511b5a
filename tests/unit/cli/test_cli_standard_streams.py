"""Where a command writes to: a full disk, nothing at all, a terminal that lacks a character."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.logs.golden_vectors import golden_dir
from support.waiting import REACHED_S

GOLDEN_LOG = "01-plain-java-none/log/00000000000000000000.log"
SCRIPTS = sorted(script.name for script in importlib.metadata.distribution("kmirror").entry_points if script.group == "console_scripts")
NO_ROOM = "No space left on device"


def run(command: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    words = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", **environment}
    return subprocess.run(["bash", "-c", command], capture_output=True, timeout=REACHED_S, env=os.environ | words, check=False)


def python(statements: str) -> str:
    """A command whose `run` is these statements, which may use `os` and `sys`."""
    body = "\n    ".join(statements.split("; "))
    program = f"import os, sys\nfrom kmirror.cli.user_errors import exit_code\ndef run():\n    {body}\nsys.exit(exit_code(run))"
    return f"{sys.executable} -c '{program}'"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_command_whose_output_has_no_room_says_so(script: str) -> None:
    done = run(f"{script} --version > /dev/full")
    said = done.stderr.decode()
    assert done.returncode != 0 and "Traceback" not in said
    assert NO_ROOM in said or "required" in said or "too few arguments" in said, "where a command needs more words, it asks for them"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("size", [10, 100_000], ids=["flushed at the end", "more than a buffer"])
def test_there_is_one_line_whenever_the_room_ends(size: int) -> None:
    done = run(f"{python(f'print(chr(97) * {size}); print(chr(97)); return 0')} > /dev/full")
    assert (done.returncode, done.stderr.decode()) == (1, f"{NO_ROOM}\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_dump_whose_output_has_no_room_was_a_traceback() -> None:
    done = run(f"kafka-dump-log --print-data-log --files {golden_dir() / GOLDEN_LOG} > /dev/full")
    assert (done.returncode, done.stderr.decode()) == (1, f"{NO_ROOM}\n")
    missing = run("kafka-dump-log --print-data-log --files /nonexistent.log > /dev/full")
    assert missing.returncode == 1 and len(missing.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "command", ["kafka-topics --version", "kafka-dump-log --version", "kafka-mirrors --help", "kafka-log-diff --help", "kmirror --help"]
)
@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_a_command_without_standard_streams_was_a_traceback(command: str, closed: str) -> None:
    done = run(f"{command} {closed}")
    assert done.stderr == done.stdout == b""
    assert done.returncode == run(command).returncode


def test_what_a_command_opens_never_takes_the_place_of_a_standard_stream(tmp_path: Path) -> None:
    """A client's connection, or a segment, was descriptor 2: whatever libraries print went there."""
    segment = tmp_path / "segment"
    opens = f'opened = os.open("{segment}", os.O_CREAT | os.O_WRONLY); print("to whom?"); os.write(2, b"to whom?"); return opened'
    done = run(f"{python(opens)} <&- >&- 2>&-")
    assert done.returncode == 3 and segment.read_bytes() == b""


@pytest.mark.parametrize(
    "encoding, text, shown",
    [
        ({"PYTHONIOENCODING": "ascii"}, "chr(252)", b"\\xfc"),
        ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, "chr(252)", b"\\xfc"),
        ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, "chr(0xDCFF)", b"\xff"),
        ({"PYTHONIOENCODING": "utf-8"}, "chr(252)", "ü".encode()),
        ({"PYTHONIOENCODING": "utf-8"}, "chr(0xDCFF)", b"\xff"),
        ({"PYTHONIOENCODING": "utf-8"}, "chr(0xD800)", b"\\ud800"),
    ],
    ids=["ascii", "locale C", "a file name in locale C", "utf-8", "a file name", "half a character"],
)
def test_a_character_that_cannot_be_shown_ended_the_listing(encoding: dict[str, str], text: str, shown: bytes) -> None:
    done = run(python(f"print({text}); print(chr(97)); return 0"), **encoding)
    assert (done.returncode, done.stdout, done.stderr) == (0, shown + b"\na\n", b"")
