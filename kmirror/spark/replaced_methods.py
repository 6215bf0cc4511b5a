"""Methods of PySpark's classes that `register` replaces by its own, once in a process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

_REPLACED: Final = "replaced_by_kmirror"


def replace_once(owner: type, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replaces a method by what `make` returns for it, unless that has happened; keeps its docstring."""
    original = getattr(owner, name)
    if hasattr(original, _REPLACED):
        return
    ours = make(original)
    ours.__doc__ = original.__doc__
    setattr(ours, _REPLACED, True)
    setattr(owner, name, ours)
