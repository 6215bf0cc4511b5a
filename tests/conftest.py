"""How the tests of this tree run: an `async def` test runs on an event loop of its own, and files
whose single tests take long come first, so that no worker is left alone with one of them at the end.
Then files whose tests mostly wait, for clusters and programs, take turns with files that compute.

Workers of pytest-xdist take whole files. Files that use Spark go to one worker together, because a
session is a JVM, and a JVM that has just started takes ten times the CPU for the same query.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

SPARK_TESTS = "tests/unit/spark"
"""The folder whose tests share one Spark session."""
LONG = (SPARK_TESTS, "tests/tidy", "tests/conformance/test_e15", "tests/conformance/test_checklist")
"""Files whose tests start a JVM, programs or many clusters; `make test` hands them out before others,
the longest first."""
WAITING = {"tests/integration/mirrormaker": 30, "tests/integration": 9, "tests/conformance": 5, "tests/interop": 7}
"""Folders of tests that start clusters and programs, and mostly wait for them: seconds a file."""
COMPUTING = {"tests/simulation": 20, "tests/property": 4, "tests": 1}
"""Folders of tests that mostly compute: seconds a file."""
SPARK_CONF = Path(__file__).parent / "support" / "spark_conf"
"""Spark's settings for every JVM that the tests start, in their own process or in a program's."""


def pytest_configure(config: pytest.Config) -> None:
    os.environ.setdefault("SPARK_CONF_DIR", str(SPARK_CONF))
    gc.disable()  # until the tests are collected, nothing is given up


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a coroutine test to its end, and cancels the tasks that it left, as `asyncio.run` does."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, then files that wait and files that compute in turns."""
    places = {file: place for place, file in enumerate(_in_turns(list(dict.fromkeys(map(_file, items)))))}
    items.sort(key=lambda item: places[_file(item)])


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _in_turns(files: list[str]) -> list[str]:
    """Within each of the two kinds the order is that of the folders above, and at all times both have had
    the same part of their time.
    """
    long = sorted((file for file in files if file.startswith(LONG)), key=partial(_rank, LONG))
    waiting = [file for file in files if file.startswith(tuple(WAITING)) and file not in long]
    computing = [file for file in files if file not in (*long, *waiting)]
    turns = [*_turns(waiting, WAITING), *_turns(computing, COMPUTING)]
    return [*long, *(file for _, file in sorted(turns))]


def _turns(files: list[str], seconds: dict[str, int]) -> list[tuple[float, str]]:
    """Returns each file with the part of the time that has gone before it."""
    folders = tuple(seconds)
    ordered = sorted(files, key=partial(_rank, folders))
    before = list(accumulate((seconds[folders[_rank(folders, file)]] for file in ordered), initial=0))
    return [(start / before[-1], file) for start, file in zip(before, ordered, strict=False)]


def _rank(folders: tuple[str, ...], file: str) -> int:
    return next(rank for rank, folder in enumerate(folders) if file.startswith(folder))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Has the garbage collector leave the collected tests alone: each full collection of a test would walk
    through their 400,000 objects.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


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
