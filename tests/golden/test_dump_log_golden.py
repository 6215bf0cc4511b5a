"""kafka-dump-log over every file that Apache Kafka wrote: the text of Kafka's own tool, byte for byte."""

from __future__ import annotations

import gzip
import io
import pathlib
import re
import sys

import pytest
from golden_vectors import golden_cases, golden_dir

from kmirror.cli.dump_log import main

_PART = re.compile(rb"^##### kafka-dump-log (.*)\n", re.MULTILINE)


def parts_of(path: pathlib.Path) -> list[tuple[list[str], bytes]]:
    """(arguments, output) of each call in a dump.txt; standard error follows standard output there."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    pieces = _PART.split(text)
    return [(arguments.decode().split(), output) for arguments, output in zip(pieces[1::2], pieces[2::2])]


def run(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> tuple[int, bytes]:
    """(exit status, what was printed) with file names made absolute and back."""
    root = f"{golden_dir()}/"
    at = arguments.index("--files") + 1
    stream = io.TextIOWrapper(io.BytesIO(), write_through=True)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        patch.setattr(sys, "stderr", stream)
        status = main([*arguments[:at], root + arguments[at], *arguments[at + 1 :]])
    assert isinstance(stream.buffer, io.BytesIO)
    return status, stream.buffer.getvalue().replace(root.encode(), b"")


def expected_lines(output: bytes) -> tuple[bytes, bytes | None]:
    """(what was printed, the message of the exception that ended it or None)."""
    text, mark, failure = output.rstrip(b"\n").rpartition(b"!!! ")
    return (text, failure.partition(b": ")[2]) if mark else (output.rstrip(b"\n"), None)


@pytest.mark.parametrize("case", golden_cases())
def test_dump_is_kafkas(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = next((golden_dir() / case).glob("dump.txt*"), None)
    if path is None:
        return
    for arguments, output in parts_of(path):
        expected, failure = expected_lines(output)
        status, got = run(arguments, monkeypatch)
        if failure is None:
            assert (status, got.rstrip(b"\n")) == (0, expected), arguments
        else:
            printed, _, line = got.rstrip(b"\n").rpartition(b"\n")
            assert (status, printed) == (1, expected.rstrip(b"\n")), arguments
            assert line
