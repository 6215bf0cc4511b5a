"""How the tests of this tree run: an `async def` test runs on an event loop of its own, and files
whose single tests take long come first, so that no worker is left alone with one of them at the end.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from pathlib import Path

import pytest

LONG = (
    "tests/tidy",
    "tests/conformance/test_e15",
    "tests/conformance/test_checklist",
    "tests/unit/spark",
    "tests/integration",
    "tests/simulation",
)
"""Files whose tests start clusters, a JVM or programs; `make test` hands files out in this order."""
SPARK_CONF = Path(__file__).parent / "support" / "spark_conf"
"""Spark's settings for every JVM that the tests start, in their own process or in a program's."""


def pytest_configure(config: pytest.Config) -> None:
    os.environ.setdefault("SPARK_CONF_DIR", str(SPARK_CONF))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a coroutine test to its end, and cancels the tasks that it left, as `asyncio.run` does."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first; otherwise the order stays."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))
