"""How the tests of this tree run: an `async def` test runs on an event loop of its own, and files
whose single tests take long come first, so that no worker is left alone with one of them at the end.

Workers of pytest-xdist take whole files. Files that use Spark go to one worker together, because a
session is a JVM, and a JVM that has just started takes ten times the CPU for the same query.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
from pathlib import Path
from typing import Any

import pytest

SPARK_TESTS = "tests/unit/spark"
"""The folder whose tests share one Spark session."""
LONG = (
    SPARK_TESTS,
    "tests/tidy",
    "tests/conformance/test_e15",
    "tests/conformance/test_checklist",
    "tests/integration",
    "tests/simulation",
)
"""Files whose tests start clusters, a JVM or programs; `make test` hands them out before others, the
longest first."""
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
    """Long files first, in the order of LONG; otherwise the order stays."""
    items.sort(key=lambda item: next((rank for rank, folder in enumerate(LONG) if item.nodeid.startswith(folder)), len(LONG)))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Has the garbage collector leave the collected tests alone: each full collection of a test would walk
    through their 400,000 objects.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Returns a scheduler for `--dist loadfile` alone; None leaves the choice to pytest-xdist."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class RoomScheduling(LoadFileScheduling):
        """`_split_scope` is what pytest-xdist asks its users to override."""

        def _split_scope(self, nodeid: str) -> str:
            return SPARK_TESTS if nodeid.startswith(SPARK_TESTS) else str(super()._split_scope(nodeid))

    return RoomScheduling(config, log)
