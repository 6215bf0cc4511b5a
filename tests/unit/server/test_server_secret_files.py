"""Files with secrets that another program left readable for all, when a node starts."""

from __future__ import annotations

import pathlib

import pytest

from kmirror.runtime.os_files import OsFileSystem
from kmirror.server.secret_files import make_secret_files_private


def test_older_files_are_mended_in_every_directory(tmp_path: pathlib.Path) -> None:
    for name in ("a", "b"):
        folder = tmp_path / name / "__cluster_metadata-0"
        folder.mkdir(parents=True)
        for path in (folder / "00000000000000000000.log", tmp_path / name / "bootstrap.checkpoint", tmp_path / name / "other"):
            path.write_bytes(b"x")
            path.chmod(0o644)
    make_secret_files_private(OsFileSystem(), [str(tmp_path / name) for name in ("a", "b", "not-there")])
    modes = {str(path.relative_to(tmp_path)): oct(path.stat().st_mode & 0o777) for path in tmp_path.rglob("*") if path.is_file()}
    for name in ("a", "b"):
        assert modes[f"{name}/__cluster_metadata-0/00000000000000000000.log"] == modes[f"{name}/bootstrap.checkpoint"] == "0o600"
        assert modes[f"{name}/other"] == "0o644"


def test_a_file_of_somebody_else_is_logged_and_left(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    class Foreign(OsFileSystem):
        def make_private(self, path: str) -> None:
            raise PermissionError(1, "Operation not permitted", path)

    (tmp_path / "bootstrap.checkpoint").write_bytes(b"x")
    make_secret_files_private(Foreign(), [str(tmp_path)])
    assert "bootstrap.checkpoint may hold secrets, but its file mode cannot be changed: Operation not permitted" in caplog.text
