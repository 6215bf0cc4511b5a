"""One Spark session for all tests of this folder; without pyspark or any Java they are skipped, and
say so.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from multiprocessing.connection import wait
from types import SimpleNamespace
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    for name in ("pyspark", "pyarrow"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed (kmirror[spark])")
    from pyspark.java_gateway import ensure_callback_server_started

    from kmirror.spark import spark_session

    # Tests leave logs open, and py4j's server of foreachBatch waits with select(), which knows no
    # descriptor above 1023.
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr("py4j.java_gateway.select", SimpleNamespace(select=lambda r, w, x, s=None: (wait(r, s), [], [])))
    session = spark_session("kmirror-tests", 2)
    ensure_callback_server_started(session.sparkContext._gateway)
    yield session
    session.stop()
    monkeypatch.undo()
