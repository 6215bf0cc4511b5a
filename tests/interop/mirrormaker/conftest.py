"""Apache's classes, compiled once."""

from __future__ import annotations

import pytest
from support.mirrormaker.apaches_rules import CONNECT_GROUP_RULES, Apache, compiled


@pytest.fixture(scope="session")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Apache:
    return compiled(tmp_path_factory.mktemp("classes"))


@pytest.fixture(scope="session")
def apaches_group(tmp_path_factory: pytest.TempPathFactory) -> Apache:
    return compiled(tmp_path_factory.mktemp("group-classes"), CONNECT_GROUP_RULES)
