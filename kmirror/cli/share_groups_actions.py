"""The actions of `kafka-share-groups`, over `AdminClient`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from kmirror.admin.admin_client import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, AdminClient
from kmirror.admin.groups import GroupListing
from kmirror.admin.share_groups import ShareGroupDescription, ShareMemberDescription, SharePartitionOffset
from kmirror.cli.consumer_groups_reset import Offsets, end_offsets, named_partitions, offsets_at_time, reset_table
from kmirror.cli.group_results import described, print_deletion, print_error
from kmirror.cli.java_names import java_exception
from kmirror.cli.java_texts import parse_datetime_ms
from kmirror.cli.tool_client import with_admin
from kmirror.cli.tool_options import CommandError, UsageError, print_json
from kmirror.common.errors import ApiException, Errors
from kmirror.common.java_hash_map import hash_map_order, topic_partition_order
from kmirror.common.topic_partition import TopicPartition

STATES = {"empty": "Empty", "stable": "Stable", "dead": "Dead"}
SHARE_TYPE = "share"
MISSING = "-"
_TOLD_AT_THE_TOP = (Errors.INVALID_GROUP_ID, Errors.GROUP_ID_NOT_FOUND, Errors.GROUP_AUTHORIZATION_FAILED, Errors.NON_EMPTY_GROUP)


class ShareGroupCommand:
    """One invocation."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options

    def run(self) -> int:
        options = self._options
        actions: dict[str, Callable[[AdminClient], Any]] = {
            "list": self._list,
            "describe": self._describe,
            "delete": self._delete,
            "reset-offsets": self._reset_offsets,
            "delete-offsets": self._delete_offsets,
        }
        action = next(actions[name] for name in actions if name in options.given)
        with_admin(options.bootstrap_server, options.command_config, action)
        return 0

    # -- list and describe
    # ----------------------------------------------------------------------------------------------

    async def _listed(self, admin: AdminClient, states: list[str]) -> list[GroupListing]:
        return await admin.list_groups(states=states, types=[SHARE_TYPE])

    async def _list(self, admin: AdminClient) -> None:
        options = self._options
        listed = {row.group_id: row for row in await self._listed(admin, _states(options.state))}
        if options.json:
            print_json([{"group": row.group_id, "state": row.state} for row in listed.values()])
            return
        rows = [listed[group_id] for group_id in hash_map_order(listed)]
        if options.state is None:
            for row in rows:
                print(row.group_id)
            return
        width = max([15, *(len(row.group_id) for row in rows)])
        for cells in (("GROUP", "STATE"), *((row.group_id, row.state or "Unknown") for row in rows)):
            print(f"{cells[0]:<{width}} {cells[1]}")

    async def _groups(self, admin: AdminClient, group_ids: list[str]) -> dict[str, ShareGroupDescription]:
        return described(await admin.describe_share_groups(group_ids, timeout_ms=self._options.timeout))

    async def _describe(self, admin: AdminClient) -> None:
        options = self._options
        wanted = [row.group_id for row in await self._listed(admin, [])] if options.all_groups else list(dict.fromkeys(options.group))
        groups = await self._groups(admin, wanted)
        if options.json:
            print_json([_group_json(group, await admin.list_share_group_offsets(group_id)) for group_id, group in groups.items()])
            return
        for group_id, group in groups.items():
            if options.members:
                _print_members(group, is_verbose=options.verbose)
            elif options.state is not None:
                _print_state(group, is_verbose=options.verbose)
            else:
                _print_offsets(group_id, await admin.list_share_group_offsets(group_id), is_verbose=options.verbose)

    # -- delete
    # -----------------------------------------------------------------------------------------------------------

    async def _delete(self, admin: AdminClient) -> None:
        options = self._options
        listed = {row.group_id: row for row in await self._listed(admin, [])}
        failed: dict[str, str] = {}
        for group_id in dict.fromkeys(listed if options.all_groups else options.group):
            if group_id not in listed:
                failed[group_id] = f"java.lang.IllegalArgumentException: Group '{group_id}' is not a share group."
            elif listed[group_id].state != "Empty":
                failed[group_id] = f"org.apache.kafka.common.errors.GroupNotEmptyException: Share group '{group_id}' is not EMPTY."
        wanted = [group_id for group_id in dict.fromkeys(listed if options.all_groups else options.group) if group_id not in failed]
        results = await admin.delete_share_groups(wanted) if wanted else {}
        failed |= {group_id: java_exception(error) for group_id, error in results.items() if error is not None}
        print_deletion("share", (group_id for group_id in results if group_id not in failed), failed)

    async def _delete_offsets(self, admin: AdminClient) -> None:
        options = self._options
        topics = sorted(set(options.topic))
        try:
            results = await admin.delete_share_group_offsets(options.group[0], topics)
        except ApiException as error:
            results = dict.fromkeys(topics, error)
            if error.error in _TOLD_AT_THE_TOP:
                print_error(error.message)
            elif error.error not in (Errors.TOPIC_AUTHORIZATION_FAILED, Errors.UNKNOWN_TOPIC_OR_PARTITION):
                print_error(f"Encounter some unknown error: {java_exception(error)}")
        width = max([15, *map(len, topics)])
        lines = [f"{'TOPIC':<{width}} STATUS"]
        for topic in topics:
            problem = results[topic]
            lines.append(f"{topic:<{width}} {'Successful' if problem is None else f'Error: {problem.message}'}")
        print("\n" + "\n".join(lines))

    # -- reset
    # ------------------------------------------------------------------------------------------------------------

    async def _reset_offsets(self, admin: AdminClient) -> None:
        options = self._options
        group_id = options.group[0]
        found = (await admin.describe_share_groups([group_id], timeout_ms=options.timeout))[group_id]
        if isinstance(found, ApiException):
            if found.error is not Errors.GROUP_ID_NOT_FOUND:
                raise CommandError(found.message)
        elif found.state not in ("Empty", "Dead"):
            raise CommandError(f"Share group '{group_id}' is not empty.")
        names = await named_partitions(admin, options.topic) if options.topic else list(await admin.list_share_group_offsets(group_id))
        offsets = await self._target(admin, names)
        if options.execute and offsets:
            for error in (await admin.alter_share_group_offsets(group_id, offsets)).values():
                if error is not None:
                    raise error
        rows = [(group_id, name, offsets[name]) for name in topic_partition_order(offsets)]
        if options.json:
            keys = ("group", "topic", "partition", "newOffset")
            print_json([dict(zip(keys, (group_id, name.topic, name.partition, offset), strict=True)) for _, name, offset in rows])
        else:
            print(reset_table({group_id: offsets}, rows))

    async def _target(self, admin: AdminClient, names: list[TopicPartition]) -> Offsets:
        options = self._options
        if options.to_earliest:
            return await end_offsets(admin, names, EARLIEST_TIMESTAMP)
        if options.to_latest:
            return await end_offsets(admin, names, LATEST_TIMESTAMP)
        return await offsets_at_time(admin, names, parse_datetime_ms(options.to_datetime))


# -- output
# ---------------------------------------------------------------------------------------------------------------


def _states(text: str | None) -> list[str]:
    """Parse states in any case; UsageError for what is not a state of share groups."""
    if not text:
        return []
    words = [word.strip().lower() for word in text.split(",")]
    if any(word not in STATES for word in words):
        raise UsageError(f"Invalid state list '{text}'. Valid states are: {', '.join(STATES.values())}")
    return [STATES[word] for word in words]


def _has_something(group: ShareGroupDescription, row_count: int) -> bool:
    """Print a note if the group is missing or empty; returns whether there are rows to print."""
    if group.state == "Dead":
        print_error(f"Share group '{group.group_id}' does not exist.")
    elif group.state == "Empty":
        print(f"\nShare group '{group.group_id}' has no active members.", file=sys.stderr)
    return group.state != "Dead" and row_count > 0


def _print_table(rows: list[tuple[Any, ...]], widths: tuple[int, ...]) -> None:
    """Print columns with these minimum widths; the last column has none."""
    for row in rows:
        cells = [f"{cell!s:<{width}}" for cell, width in zip(row, widths, strict=False)]
        print("\n" + " ".join([*cells, str(row[-1])]), end="")
    print()


def _print_offsets(group_id: str, offsets: dict[TopicPartition, SharePartitionOffset | None], *, is_verbose: bool) -> None:
    if not offsets:
        print(f"\nShare group '{group_id}' has no offset information.")
        return
    group, topic = max(15, len(group_id)), max([15, *(len(name.topic) for name in offsets)])
    rows: list[tuple[Any, ...]] = [("GROUP", "TOPIC", "PARTITION", *(["LEADER-EPOCH"] if is_verbose else []), "START-OFFSET", "LAG")]
    for name in sorted(offsets):
        row = offsets[name]
        cells = (
            (MISSING, MISSING, MISSING) if row is None else (row.leader_epoch, row.start_offset, MISSING if row.lag is None else row.lag)
        )
        rows.append((group_id, name.topic, name.partition, *(cells if is_verbose else cells[1:])))
    _print_table(rows, (group, topic, 10, 13, 13) if is_verbose else (group, topic, 10, 13))


def _print_state(group: ShareGroupDescription, *, is_verbose: bool) -> None:
    _has_something(group, 1)
    node = group.coordinator
    coordinator = f"{node.host}:{node.port}  ({node.id})"
    widths = (max(15, len(group.group_id)), max(25, len(coordinator)), 15)
    epochs = (("GROUP-EPOCH", "ASSIGNMENT-EPOCH"), (group.group_epoch, group.assignment_epoch)) if is_verbose else ((), ())
    header = ("GROUP", "COORDINATOR (ID)", "STATE", *epochs[0], "#MEMBERS")
    row = (group.group_id, coordinator, group.state, *epochs[1], len(group.members))
    _print_table([header, row], (*widths, 12, 17) if is_verbose else widths)


def _print_members(group: ShareGroupDescription, *, is_verbose: bool) -> None:
    if not _has_something(group, len(group.members)):
        return
    members = sorted(group.members, key=lambda member: member.member_id)
    widths = (
        max(15, len(group.group_id)),
        max([15, *(len(member.member_id) for member in members)]),
        max([15, *(len(member.host) for member in members)]),
        max([15, *(len(member.client_id) for member in members)]),
        12,
    )
    epoch = ("MEMBER-EPOCH",) if is_verbose else ()
    rows: list[tuple[Any, ...]] = [("GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", *epoch, "ASSIGNMENT")]
    for member in members:
        facts = (group.group_id, member.member_id, member.host, member.client_id, len(member.assignment))
        rows.append((*facts, *((member.member_epoch,) if is_verbose else ()), _assignment(member)))
    _print_table(rows, (*widths, 13) if is_verbose else widths)


def _assignment(member: ShareMemberDescription) -> str:
    by_topic: dict[str, list[int]] = {}
    for name in member.assignment:
        by_topic.setdefault(name.topic, []).append(name.partition)
    return ";".join(sorted(f"{topic}:{','.join(map(str, sorted(numbers)))}" for topic, numbers in by_topic.items()))


def _group_json(group: ShareGroupDescription, offsets: dict[TopicPartition, SharePartitionOffset | None]) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "state": group.state,
        "coordinator": group.coordinator.id,
        "groupEpoch": group.group_epoch,
        "assignmentEpoch": group.assignment_epoch,
        "members": [
            {
                "memberId": member.member_id,
                "clientId": member.client_id,
                "host": member.host,
                "assignment": list(map(str, member.assignment)),
            }
            for member in group.members
        ],
        "offsets": [
            {
                "topic": name.topic,
                "partition": name.partition,
                "startOffset": row.start_offset,
                "leaderEpoch": row.leader_epoch,
                "lag": row.lag,
            }
            for name, row in sorted(offsets.items())
            if row is not None
        ],
    }
