"""Errors as one line, where Spark would show twenty.

Spark's Python worker sends its driver the whole traceback of an error. What is wrong with an option
or a file is in its last line. So for errors that are meant for the user (KmirrorError, OSError),
the worker, which ends anyway, is told to leave the traceback out. Bugs in the program keep theirs.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from kmirror.common.errors import KmirrorError, disk_error_text

F = TypeVar("F", bound=Callable[..., Any])


def in_one_line(method: F) -> F:
    """Decorates a method that a worker calls: its KmirrorErrors and OSErrors come out as one line.
    For a generator function this covers its iteration."""
    if inspect.isgeneratorfunction(method):

        @functools.wraps(method)
        def generate(*arguments: Any, **options: Any) -> Iterator[Any]:
            with _one_line():
                yield from method(*arguments, **options)

        return generate  # type: ignore[return-value]

    @functools.wraps(method)
    def call(*arguments: Any, **options: Any) -> Any:
        with _one_line():
            return method(*arguments, **options)

    return call  # type: ignore[return-value]


@contextmanager
def _one_line() -> Iterator[None]:
    try:
        yield
    except KmirrorError as error:
        _hide_traceback()
        raise error from None
    except OSError as error:
        _hide_traceback()
        raise KmirrorError(disk_error_text(error)) from None


def _hide_traceback() -> None:
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None and spec.name.startswith("pyspark."):
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
