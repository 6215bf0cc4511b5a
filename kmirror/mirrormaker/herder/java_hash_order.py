"""The order in which Connect walks over a `HashMap` or `HashSet` of strings (`common.java_hash_map`).

Connect's assignor walks over such maps of members where nothing else puts them in an order: which worker
keeps one more task than others, and which of several new workers gets what a lost one had. A leader of
ours decides the same as one of Apache's, so the order counts. Connectors stand in this order in the bytes
of an assignment, too.
"""

from __future__ import annotations

from collections.abc import Iterable

from kmirror.common.java_hash_map import DEFAULT_TABLE_SIZE, java_hash_map_order, java_string_key_hash, table_size_for_copy


def in_hash_order(strings: Iterable[str], *, copied: bool = False) -> list[str]:
    """Returns the strings as Java walks over them once they were put into a map in the order given. With
    `copied` the set was made of a collection (`new HashSet<>(collection)`), and has buckets for one more.
    """
    given = list(strings)
    table_size = max(DEFAULT_TABLE_SIZE, table_size_for_copy(len(given))) if copied else DEFAULT_TABLE_SIZE
    return java_hash_map_order(dict.fromkeys(given), java_string_key_hash, table_size=table_size)
