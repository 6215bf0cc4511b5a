"""Files of properties as Java reads them: random ones of escapes, continued lines, comments, separators and odd
bytes. Names and values must be ours, and what Java refuses we refuse. A value without a name is nobody's.
"""

from __future__ import annotations

import pathlib
import random

import pytest
from support.mirrormaker.apaches_rules import run_program

from kmirror.common.errors import KmirrorError
from kmirror.storage.java_properties import decode_properties

pytestmark = pytest.mark.interop

PROGRAM = pathlib.Path(__file__).parent / "PropertiesFiles.java"
PIECES = (
    *(b"a", b"b.c", b"x", b"=", b":", b" ", b"\t", b"\f", b"#", b"!", b"=v", b"k=v\n"),
    *(b"\n", b"\r", b"\r\n", b"\\", b"\\\n", b"\\\r\n", b"\\\\", b"\\t", b"\\n", b"\\:", b"\\=", b"\\ ", b"\\z"),
    *(b"\\u0061", b"\\u00", b"\\u000a", b"\\uD83D\\uDE00", b"\\u+061"),
    *(b"\xe9", b"\xef\xbb\xbf", b"\x00", b"\x85", b"\xa0", b"\x1c", b"\x0b"),
)


def ours(file: bytes) -> str:
    try:
        read = decode_properties("file", file)
    except KmirrorError:
        return "refused"
    return ";".join(sorted(f"{name.encode('utf-16-be').hex()}={value.encode('utf-16-be').hex()}" for name, value in read.items() if name))


def test_every_file_is_read_as_java_reads_it(tmp_path: pathlib.Path) -> None:
    source = random.Random(3)
    files = [b"".join(source.choice(PIECES) for _ in range(source.randrange(14))) for _ in range(20_000)]
    theirs = run_program(PROGRAM, tmp_path, [file.hex() for file in files])
    wrong = [f"{file!r}: Java {one}, kmirror {ours(file)}" for file, one in zip(files, theirs, strict=True) if one != ours(file)]
    assert not wrong, f"{len(wrong)} differ\n" + "\n".join(sorted(wrong, key=len)[:20])
    assert 500 < theirs.count("refused") < 15_000
