"""kafka-dump-log over every file that Apache Kafka wrote: the text of Kafka's own tool, byte for
byte.
"""

from __future__ import annotations

import gzip
import io
import pathlib
import re
import shutil
import sys
import tarfile

import pytest
from support.logs.golden_vectors import golden_cases, golden_dir

from kmirror.cli import dump_log_batches
from kmirror.cli.dump_log import main

_PART = re.compile(rb"^##### kafka-dump-log (.*)\n", re.MULTILINE)


def parts_of(path: pathlib.Path) -> list[tuple[list[str], bytes]]:
    """(arguments, output) of each call in a dump.txt; standard error follows standard output there."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    pieces = _PART.split(text)
    return [(arguments.decode().split(), output) for arguments, output in zip(pieces[1::2], pieces[2::2])]


def root_of(case: str, scratch: pathlib.Path) -> pathlib.Path:
    """The folder that file names in the dump begin from; a case whose log is packed is unpacked
    into `scratch`.
    """
    packed = golden_dir() / case / "log.tar.gz"
    if not packed.exists():
        return golden_dir()
    shutil.copytree(golden_dir() / case, scratch / case)
    with tarfile.open(packed) as archive:
        archive.extractall(scratch / case, filter="data")
    return scratch


def run(arguments: list[str], folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, bytes]:
    """(exit status, what was printed) with file names made absolute and back."""
    root = f"{folder}/"
    at = arguments.index("--files") + 1
    stream = io.TextIOWrapper(io.BytesIO(), write_through=True)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        patch.setattr(sys, "stderr", stream)
        status = main([*arguments[:at], root + arguments[at], *arguments[at + 1 :], "--show-secrets"])  # Kafka's shows them
    assert isinstance(stream.buffer, io.BytesIO)
    return status, stream.buffer.getvalue().replace(root.encode(), b"")


def expected_lines(output: bytes) -> tuple[bytes, bytes | None]:
    """(what was printed, the message of the exception that ended it or None)."""
    text, mark, failure = output.rstrip(b"\n").rpartition(b"!!! ")
    return (text, failure.partition(b": ")[2]) if mark else (output.rstrip(b"\n"), None)


@pytest.mark.parametrize("case", golden_cases())
def test_dump_is_kafkas(case: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = next((golden_dir() / case).glob("dump.txt*"), None)
    if path is None:
        pytest.skip("no dump of this case was recorded")
    root = root_of(case, tmp_path)
    for arguments, output in parts_of(path):
        expected, failure = expected_lines(re.sub(rb"( in |:)/\S*/(%b/)" % case.encode(), rb"\1\2", output))
        status, got = run(arguments, root, monkeypatch)
        if was_cut_by_kafkas_tool(root / arguments[1], arguments):
            assert (status, b"is corrupt, found" in got) == (1, True), arguments
        elif failure is None:
            assert (status, got.rstrip(b"\n")) == (0, expected), arguments
        else:
            printed, _, line = got.rstrip(b"\n").rpartition(b"\n")
            assert (status, printed) == (1, expected.rstrip(b"\n")), arguments
            assert says_the_same(line, failure), (arguments, line, failure)


@pytest.mark.parametrize("case", golden_cases())
def test_dump_in_bulk_is_kafkas_too(case: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large files are decoded into columns; here every file is."""
    monkeypatch.setattr(dump_log_batches, "_SMALL_BYTES", -1)
    path = next((golden_dir() / case).glob("dump.txt*"), None)
    root = root_of(case, tmp_path)
    for arguments, output in [] if path is None else parts_of(path):
        expected, failure = expected_lines(re.sub(rb"( in |:)/\S*/(%b/)" % case.encode(), rb"\1\2", output))
        if "--deep-iteration" in arguments and failure is None:
            assert run(arguments, root, monkeypatch)[1].rstrip(b"\n") == expected, arguments


def was_cut_by_kafkas_tool(path: pathlib.Path, arguments: list[str]) -> bool:
    """An odd-sized index: the plain dump, which was recorded first, cut it, so that Kafka's sanity
    check passed. Ours never writes.
    """
    return "--index-sanity-check" in arguments and path.suffix == ".index" and path.stat().st_size % 8 != 0


def says_the_same(line: bytes, failure: bytes) -> bool:
    """Our line names the cause that Kafka's exception names; Kafka names no cause where it runs
    into the end of a log.
    """
    numbers = re.findall(rb"-?\d+", re.sub(rb"\S*/\S*|file=\S*", b"", failure))
    return all(number in line for number in numbers) and len(line) > 20


def test_secrets_of_kafkas_own_metadata_are_hidden_without_the_decoder(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """A record is printed as Kafka prints it; of what is secret in it only `(redacted)` is."""
    path = str(golden_dir() / "09-metadata-static-quorum/logs/__cluster_metadata-0/00000000000000000000.log")
    printed = {}
    for flags in ((), ("--show-secrets",)):
        assert main(["--files", path, "--print-data-log", *flags]) == 0
        printed[flags] = capfdbinary.readouterr().out.split(b"| offset: ")
    hidden, shown = printed.values()
    differing = [line for line, whole in zip(hidden, shown, strict=True) if line != whole]
    assert 0 < len(differing) < len(hidden) and all(b"(redacted)" in line for line in differing)
    assert not any(b"(redacted)" in line for line in shown)
