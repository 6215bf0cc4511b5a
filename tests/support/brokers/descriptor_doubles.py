"""A process without any free file descriptor.

Descriptors are counted by process. Threads that earlier tests left (a client of librdkafka lives on
for a while, and connects) take and free them at any moment, so such a test has a process of its
own.
"""

from __future__ import annotations

import functools
import gc
import os
import pathlib
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import ParamSpec

P = ParamSpec("P")
_HEADROOM = 16
_ALONE = "KMIRROR_TEST_ALONE"


def in_a_process_of_its_own(test: Callable[P, None]) -> Callable[P, None]:
    """Runs the test in a pytest of its own that runs nothing else."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        if _ALONE in os.environ:
            return test(*args, **kwargs)
        node_id = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")} | {_ALONE: "yes"}
        command = [sys.executable, "-m", "pytest", "-q", node_id]
        root = pathlib.Path(__file__).parents[3]
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
        assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
        return None

    return run


def open_files_below(folder: pathlib.Path | str) -> list[str]:
    """Returns the paths of the files in `folder` that this process has open, removed ones included."""
    found: list[str] = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the descriptor of the listing itself
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return [path for path in found if path.startswith(f"{folder}/")]


@contextmanager
def all_descriptors_taken() -> Iterator[None]:
    """Lowers the limit to a little more than what is open, and takes the rest, as clients'
    connections would.
    """
    gc.collect()  # what earlier tests left open would be closed at any moment
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + _HEADROOM, limits[1]))
    taken: list[int] = []
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
