"""What tools that read logs do for large inputs: a progress bar, and a process for each core. What that needs is imported where it is used, for
small inputs are read sooner than it loads."""

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
COMPARE_FEWER: Final = "; --topics and --partitions compare fewer at once"


def progress_when_large(total_bytes: int, what: str) -> AbstractContextManager[Callable[[int], None]]:
    """Gives the function to be told of bytes that were read; it shows a bar, named `what`, on a terminal that has much to wait for."""
    if total_bytes < PROGRESS_THRESHOLD_BYTES or not sys.stderr.isatty():
        return nullcontext(_ignore)
    from kmirror.cli.log_diff_progress import progress_bar

    return progress_bar(total_bytes, what)


def _ignore(size: int) -> None:
    """No terminal, or not much to wait for."""


def process_pool(tasks: int | None = None) -> ProcessPoolExecutor:
    """Processes that inherit nothing: one for each core, or for each task if there are fewer."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    cores = os.cpu_count() or 1
    return ProcessPoolExecutor(cores if tasks is None else min(tasks, cores), mp_context=multiprocessing.get_context("spawn"))


def result_of(done: Future[T], what: str, advice: str = "") -> T:
    """KmirrorError where the process that did `what` was killed, with the `advice` behind it."""
    from concurrent.futures.process import BrokenProcessPool

    try:
        return done.result()
    except BrokenProcessPool as error:
        raise KmirrorError(f"a process that {what} was killed, by hand or because no memory was left{advice}") from error
