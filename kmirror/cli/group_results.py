"""How `kafka-consumer-groups` and `kafka-share-groups` treat the answers for several groups.

Only this is common to both; their tables differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from kmirror.cli.java_names import java_exception
from kmirror.common.errors import ApiException, KmirrorError
from kmirror.common.java_hash_map import hash_map_order

T = TypeVar("T")


def print_error(text: str) -> None:
    print(f"\nError: {text}")


def described(found: Mapping[str, T | ApiException]) -> dict[str, T]:
    """Returns the descriptions, sorted by group.

    KmirrorError with Kafka's words for the first group that has an error instead.
    """
    groups: dict[str, T] = {}
    for group_id, group in sorted(found.items(), key=lambda item: item[0]):
        if isinstance(group, ApiException):
            raise KmirrorError(java_exception(group))
        groups[group_id] = group
    return groups


def print_deletion(kind: str, deleted: Iterable[str], failed: Mapping[str, str]) -> None:
    """Print the result. `kind` is "consumer" or "share"; `failed` has the reason by group."""
    succeeded = ", ".join(f"'{group_id}'" for group_id in hash_map_order(deleted))
    if not failed:
        print(f"Deletion of requested {kind} groups ({succeeded}) was successful.")
        return
    print_error(f"Deletion of some {kind} groups failed:")
    for group_id in hash_map_order(failed):
        print(f"* Group '{group_id}' could not be deleted due to: {failed[group_id]}")
    if succeeded:
        print(f"\nThese {kind} groups were deleted successfully: {succeeded}")
