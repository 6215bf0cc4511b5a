"""An immutable mapping whose successors share the unchanged entries; an image's large maps are of
this type.

A `SharedMap` is a base dict, shared with its predecessors and never changed, and a small dict of
changes over it. A successor copies only the changes; when their number has grown to the square root
of the base's size, they are folded into a new base. So a change of a few keys costs about the
square root of the map's size on average, while copying a dict costs its size. Iteration folds first
(it costs the size anyway), so it runs at a dict's speed.

Iteration is in a dict's order: a changed key keeps its place, new ones come last. Folding may
happen on a worker while the loop reads: the new base is put in place before the changes go, and
readers take the changes first.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, Final, TypeVar, cast, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

_GONE: Final[Any] = object()
_MIN_CHANGES: Final = 16


class SharedMap(Mapping[K, V]):
    """Made from any mapping, which is copied unless it is a SharedMap; `updated` returns the
    successor."""

    __slots__ = ("_base", "_changes", "_size")

    def __init__(self, items: Mapping[K, V] | None = None) -> None:
        self._base: dict[K, V] = dict(items) if items else {}
        self._changes: dict[K, Any] = {}
        self._size = len(self._base)

    def updated(self, changes: Mapping[K, V], removed: Iterable[K] = ()) -> SharedMap[K, V]:
        """Returns this map without `removed`, then with `changes`."""
        merged = dict(self._changes)
        size = self._size
        for key in removed:
            if merged.get(key, self._base.get(key, _GONE)) is not _GONE:
                merged[key] = _GONE
                size -= 1
        for key, value in changes.items():
            before = merged.get(key, self._base.get(key, _GONE))
            size += before is _GONE
            merged[key] = value
        result: SharedMap[K, V] = SharedMap.__new__(SharedMap)
        result._base, result._changes, result._size = self._base, merged, size
        if len(merged) > _MIN_CHANGES and len(merged) ** 2 > len(self._base):
            result._fold()
        return result

    def _fold(self) -> dict[K, V]:
        changes = self._changes
        if not changes:
            return self._base
        base = {**self._base, **changes}
        for key, value in changes.items():
            if value is _GONE:
                del base[key]
        self._base = base
        self._changes = {}
        return base

    def __getitem__(self, key: K) -> V:
        changes = self._changes
        if changes:
            value = changes.get(key, self)
            if value is _GONE:
                raise KeyError(key)
            if value is not self:
                return cast("V", value)
        return self._base[key]

    @overload
    def get(self, key: K, /) -> V | None: ...

    @overload
    def get(self, key: K, default: V | D, /) -> V | D: ...

    def get(self, key: K, default: Any = None, /) -> Any:
        changes = self._changes
        if changes:
            value = changes.get(key, self)
            if value is _GONE:
                return default
            if value is not self:
                return value
        return self._base.get(key, default)

    def __contains__(self, key: object) -> bool:
        changes = self._changes
        if changes and key in changes:
            return changes[key] is not _GONE
        return key in self._base

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        return iter(self._fold())

    def keys(self) -> KeysView[K]:
        return self._fold().keys()

    def values(self) -> ValuesView[V]:
        return self._fold().values()

    def items(self) -> ItemsView[K, V]:
        return self._fold().items()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SharedMap):
            return bool(self._fold() == other._fold())
        return bool(self._fold() == other)

    def __repr__(self) -> str:
        return f"SharedMap({self._fold()!r})"


def shared(items: Mapping[K, V]) -> SharedMap[K, V]:
    return items if isinstance(items, SharedMap) else SharedMap(items)


def changed_map(items: Mapping[K, V], changes: dict[K, V | None]) -> Mapping[K, V]:
    """Returns the mapping with `changes`, in which None removes a key; the same object if nothing
    changes."""
    if not changes:
        return items
    kept = {key: value for key, value in changes.items() if value is not None}
    return shared(items).updated(kept, [key for key, value in changes.items() if value is None])
