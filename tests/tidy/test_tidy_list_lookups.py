"""No list is searched in a loop over a request: 40,000 names stopped a broker for 13 seconds.

A request of one frame may have tens of thousands of elements. A list that was made in a function and
is asked `in`, `count`, `index` or `remove` inside one of its loops costs their product; a dict or a
Counter costs their sum. `python -m benches many_elements` measures what this cannot see.
"""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ROOMS = ("server", "controller", "coordinator", "metadata")
SEARCHES = {"count", "index", "remove"}
LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
SHORT = {
    "cluster_control_manager.py: _directory_records: offline",
    "config_views.py: broker: names",
    "kafka_config_validation.py: _validate_broker_listeners: listening",
}
"""Lists that are short whatever the request has."""


def lists_made_in(function: ast.AST) -> set[str]:
    """The names that are bound to a list and to nothing else."""
    bound: dict[str, list[bool]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            bound.setdefault(node.targets[0].id, []).append(_is_list(node.value))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            is_list = node.value is not None and _is_list(node.value)
            bound.setdefault(node.target.id, []).append(is_list)
    return {name for name, values in bound.items() if all(values)}


def _is_list(value: ast.AST) -> bool:
    if isinstance(value, ast.BinOp):
        return _is_list(value.left) or _is_list(value.right)
    is_call = isinstance(value, ast.Call) and isinstance(value.func, ast.Name)
    return isinstance(value, (ast.List, ast.ListComp)) or (is_call and value.func.id in ("list", "sorted"))


def searches_in_loops(source: str) -> Iterator[str]:
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        lists = lists_made_in(function)
        for loop in ast.walk(function):
            if isinstance(loop, LOOPS):
                yield from (f"{function.name}: {name}" for name in _searched(loop) if name in lists)


def _searched(loop: ast.AST) -> Iterator[str]:
    for node in ast.walk(loop):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            name = node.comparators[0]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SEARCHES:
            name = node.func.value
        else:
            continue
        if isinstance(name, ast.Name):
            yield name.id


def found_in_rooms() -> set[str]:
    files = [path for room in ROOMS for path in sorted((ROOT / "kmirror" / room).rglob("*.py"))]
    return {f"{path.name}: {found}" for path in files for found in searches_in_loops(path.read_text())}


def test_no_list_is_searched_in_a_loop() -> None:
    assert found_in_rooms() - SHORT == set()


@pytest.mark.parametrize(
    "source",
    [
        "def f(names):\n    allowed = [n for n in names if ok(n)]\n    return [n for n in names if n not in allowed]",
        "def f(names):\n    known = sorted(names)\n    for n in names:\n        g(known.count(n))",
    ],
)
def test_what_stopped_the_broker_is_found(source: str) -> None:
    assert len(set(searches_in_loops(source))) == 1
