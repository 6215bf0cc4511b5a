"""Helpers for tools that read large logs: a progress bar, and a process for each core.

Their libraries are imported only where they are used, because small inputs are read faster than
these load.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final, TypeVar

from kmirror.common.errors import KmirrorError

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

T = TypeVar("T")

POOL_THRESHOLD_BYTES: Final = 512 << 20
PROGRESS_THRESHOLD_BYTES: Final = 256 << 20
COMPARE_FEWER: Final = "; use --topics and --partitions to compare fewer partitions at once"


def progress_when_large(total_bytes: int, what: str) -> AbstractContextManager[Callable[[int], None]]:
    """Yields the function that takes the number of bytes read.

    On a terminal, if there is much to read, it shows a bar named `what`.
    """
    if total_bytes < PROGRESS_THRESHOLD_BYTES or not sys.stderr.isatty():
        return nullcontext(_ignore)
    from kmirror.cli.log_diff_progress import progress_bar

    return progress_bar(total_bytes, what)


def _ignore(size: int) -> None:
    """Shows nothing: there is no terminal, or not much to wait for."""


def process_pool(tasks: int | None = None) -> ProcessPoolExecutor:
    """Returns a pool of processes that inherit nothing: one per core, or per task if fewer."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    cores = os.cpu_count() or 1
    return ProcessPoolExecutor(cores if tasks is None else min(tasks, cores), mp_context=multiprocessing.get_context("spawn"))


def result_of(done: Future[T], what: str, advice: str = "") -> T:
    """Returns the result; KmirrorError, with `advice`, if the process for `what` was killed."""
    from concurrent.futures.process import BrokenProcessPool

    try:
        return done.result()
    except BrokenProcessPool as error:
        raise KmirrorError(f"a process that {what} was killed, either by hand or because the machine ran out of memory{advice}") from error
