"""Apache's classes, compiled once."""

from __future__ import annotations

import pytest
from support.mirrormaker.apaches_rules import Apache, compiled


@pytest.fixture(scope="session")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Apache:
    return compiled(tmp_path_factory.mktemp("classes"))
