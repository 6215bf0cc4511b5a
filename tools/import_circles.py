"""Finds files of kmirror that import each other in a circle.

    .venv/bin/python tools/import_circles.py

Imports for type checkers only and imports inside functions count, because a reader who follows
names from file to file follows them, too. The contracts of import-linter keep the packages in
order; this keeps the files inside a package in order. The exit code is 1 if there is a circle.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

import grimp

PACKAGE = "kmirror"


def imports(package: str) -> dict[str, set[str]]:
    """Returns the modules that each module of the package imports from the package."""
    graph = grimp.build_graph(package, exclude_type_checking_imports=False, cache_dir=None)
    return {module: set(graph.find_modules_directly_imported_by(module)) for module in graph.modules}


def circles(imported: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Returns circles until none is left, each as the modules along it.

    The last import of a circle is removed before the next circle is looked for.
    """
    left = {module: set(others) for module, others in imported.items()}
    found = []
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            # The exception names the modules from the imported to the importing one.
            circle: list[str] = error.args[1][::-1]
            found.append(circle)
            left[circle[-2]].discard(circle[-1])
        else:
            return found


def main() -> int:
    found = circles(imports(PACKAGE))
    for circle in found:
        print("circle: " + " -> ".join(module.removeprefix(f"{PACKAGE}.") for module in circle))
    print(f"{len(found)} circles of imports" if found else "no circle of imports")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
