"""What several files of the storage's tests use."""

from __future__ import annotations

import pathlib

import pytest
from support.logs.log_scenes import Logs


@pytest.fixture
def logs(tmp_path: pathlib.Path) -> Logs:
    return Logs(tmp_path)
