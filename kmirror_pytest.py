"""The pytest plugin's entry point: a module of its own, so that a run's assertions are rewritten in
this file and not in the broker.

pytest rewrites the assertions of every module of a distribution that has a plugin: of the wheel,
some 650 modules, which each run would parse and compile anew where no bytecode is written (most
container images). pytest's import hook asks no plugin whether it should. So this file puts a finder
before it, which has Python's own machinery import `kmirror` and what is in it, from the bytecode
that pip compiled. The plugin itself is `kmirror.pytest_plugin`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


class _PlainImports:
    """A finder for `kmirror` and its modules alone; it leaves all others to the next one."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        is_ours = name == "kmirror" or name.startswith("kmirror.")
        return PathFinder.find_spec(name, path, target) if is_ours else None


sys.meta_path.insert(0, _PlainImports)

from kmirror.pytest_plugin import (  # noqa: E402
    _kmirror_options,
    _kmirror_session_clusters,
    kmirror_admin,
    kmirror_cluster,
    kmirror_cluster_factory,
    kmirror_name,
    kmirror_topic,
    pytest_addoption,
    pytest_configure,
)

__all__ = [
    "_kmirror_options",
    "_kmirror_session_clusters",
    "kmirror_admin",
    "kmirror_cluster",
    "kmirror_cluster_factory",
    "kmirror_name",
    "kmirror_topic",
    "pytest_addoption",
    "pytest_configure",
]
