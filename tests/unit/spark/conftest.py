"""One Spark session for all tests of this folder; without pyspark or any Java they are skipped, and say so."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    for name in ("pyspark", "pyarrow"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed (kmirror[spark])")
    from kmirror.spark import spark_session

    session = spark_session("kmirror-tests", 2)
    yield session
    session.stop()
