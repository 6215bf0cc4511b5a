"""Paths into structs (KIP-821): `a.b`, and `` `a.b`.c `` for names that have dots."""

from __future__ import annotations

from kmirror.common.errors import ConfigError
from kmirror.mirrormaker.transforms.connect_data import Struct, Value, require_struct


def steps_of(path: str) -> tuple[str, ...]:
    """ConfigError for a backtick without its end."""
    steps: list[str] = []
    position = 0
    while position < len(path):
        if path[position] == "`":
            step, position = _quoted(path, position)
        else:
            end = path.find(".", position)
            step, position = (path[position:], len(path)) if end < 0 else (path[position:end], end + 1)
        steps.append(step)
    if path.endswith("."):
        steps.append("")
    return tuple(steps)


def _quoted(path: str, start: int) -> tuple[str, int]:
    """A step in backticks, and where the path goes on. Only a backtick before a dot, or at the end, ends it; one
    behind a backslash does not.
    """
    step, begin, position = "", start + 1, start + 1
    while True:
        position = path.find("`", position)
        is_escaped = position > 0 and path[position - 1] == "\\"
        if position < 0 or (position == len(path) - 1 and is_escaped):
            raise ConfigError(
                f"Incomplete backtick pair in path: [{path}], consider adding a backslash before backtick at position {start} to escape it"
            )
        if position == len(path) - 1:
            return step + path[begin:position], position + 1
        if path[position + 1] == ".":
            if not is_escaped:
                return step + path[begin:position], position + 2
            step, begin = step + path[begin : position - 1] + "`", position + 1
        position += 1


def value_at(struct: Struct, steps: tuple[str, ...]) -> Value:
    """None where a struct on the way is null. DataException for one that is no struct."""
    current = struct
    for step in steps[:-1]:
        found = current.get(step)
        if found is None:
            return None
        current = require_struct(found, "nested field access")
    return current.get(steps[-1])
