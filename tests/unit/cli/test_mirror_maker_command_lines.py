"""How MirrorMaker's programs end for command lines and files that they cannot use."""

from __future__ import annotations

from pathlib import Path

import pytest

from kmirror.cli import connect_mirror_maker, mirror_maker


@pytest.mark.parametrize("arguments", [[], ["--bogus", "f"], ["f", "g"], ["f", "--clusters"]])
def test_dg12_a_wrong_command_line_has_the_exit_code_of_apaches_program(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert connect_mirror_maker.main(arguments) == 255
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("usage: connect-mirror-maker") and lines[-1].startswith("connect-mirror-maker: error: ")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_file_in_utf_16_is_told(tmp_path: Path, encoding: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It had no property that anybody knew, so the first one that is required was said to be missing."""
    path = tmp_path / "mm.properties"
    mark = "" if encoding == "utf-16" else "\ufeff"
    path.write_bytes((mark + "bootstrap.servers = a:1\nclusters = A, B\n").encode(encoding))
    text = f"{path} is in UTF-16: a file of properties is in ISO-8859-1 or UTF-8"
    assert connect_mirror_maker.main([str(path)]) == 2
    assert capsys.readouterr().err == f"connect-mirror-maker: {text}\n"
    legacy = ["--consumer.config", str(path), "--producer.config", str(path), "--include", "t"]
    assert mirror_maker.main(legacy) == 1
    assert capsys.readouterr().err == f"Exception when starting mirror maker. {text}\n"
