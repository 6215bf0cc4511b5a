"""The progress bar of `kafka-mirrors --wait`, `--reverse` and `--verify`, on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


@contextmanager
def bar(title: str) -> Iterator[Callable[[int, int, str], None]]:
    """Yields the function that takes how much is done, the total, and a text."""
    columns = (TextColumn(title), BarColumn(), TextColumn("{task.fields[text]}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=None, text="")

        def update(done: int, total: int, text: str) -> None:
            progress.update(task, completed=done, total=max(total, 1), text=text)

        yield update
