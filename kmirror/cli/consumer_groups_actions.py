"""The actions of `kafka-consumer-groups`, over `AdminClient`: list, describe, delete; resets are in
`consumer_groups_reset`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from kmirror.admin.admin_client import AdminClient
from kmirror.admin.groups import CONSUMER, ConsumerGroupDescription
from kmirror.cli.consumer_groups_describe import MemberTable, OffsetRow, offsets_table, should_print, state_table
from kmirror.cli.consumer_groups_reset import ResetOffsets, parse_partitions
from kmirror.cli.group_results import described, print_deletion, print_error
from kmirror.cli.java_names import java_exception
from kmirror.cli.tool_client import with_admin
from kmirror.cli.tool_options import UsageError, print_json
from kmirror.common.errors import ApiException, Errors
from kmirror.common.java_hash_map import hash_map_order
from kmirror.common.topic_partition import TopicPartition

STATES = ("Empty", "Stable", "PreparingRebalance", "Assigning", "Reconciling", "CompletingRebalance", "Dead")
TYPES = ("Consumer", "Classic", "Share", "Streams")


class ConsumerGroupCommand:
    """One invocation."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options

    def run(self) -> int:
        options = self._options
        if options.validate_regex is not None:
            return _validate_regex(options.validate_regex)
        actions: dict[str, Callable[[AdminClient], Any]] = {
            "list": self._list,
            "describe": self._describe,
            "delete": self._delete,
            "reset-offsets": ResetOffsets(options).run,
            "delete-offsets": self._delete_offsets,
        }
        action = next(actions[name] for name in actions if name in options.given)
        with_admin(options.bootstrap_server, options.command_config, action)
        return 0

    async def _list(self, admin: AdminClient) -> None:
        options = self._options
        types = _words(options.type, TYPES, "Invalid types list '{}'. Valid types are: Consumer, Classic", valid=("Consumer", "Classic"))
        states = _words(options.state, STATES, "Invalid state list '{}'. Valid states are: {}", valid=STATES)
        listed = await admin.list_consumer_groups(states=states, types=types)
        by_id = {row.group_id: row for row in listed}
        rows = [by_id[group_id] for group_id in hash_map_order(by_id)]
        if options.json:
            print_json([{"group": row.group_id, "type": row.type, "state": row.state, "protocolType": row.protocol_type} for row in listed])
            return
        if options.type is None and options.state is None:
            for row in rows:
                print(row.group_id)
            return
        width = max([15, *(len(row.group_id) for row in rows)]) + 10
        header = ["GROUP", *(["TYPE"] if options.type is not None else []), *(["STATE"] if options.state is not None else [])]
        print(_padded(header, width))
        for row in rows:
            cells = [row.group_id]
            cells += [row.type or "Unknown"] if options.type is not None else []
            cells += [row.state or "Unknown"] if options.state is not None else []
            print(_padded(cells, width))

    async def _group_ids(self, admin: AdminClient) -> list[str]:
        if not self._options.all_groups:
            return list(dict.fromkeys(self._options.group))
        return [row.group_id for row in await admin.list_consumer_groups()]

    async def _describe(self, admin: AdminClient) -> None:
        options = self._options
        found = await admin.describe_consumer_groups(await self._group_ids(admin), timeout_ms=options.timeout)
        groups = described(found)
        if options.json:
            print_json([_group_json(group, await self._offset_rows(admin, group)) for group in groups.values()])
            return
        for group in groups.values():
            if options.members:
                if should_print(group, 1):
                    print(MemberTable(group, verbose=options.verbose).text())
            elif options.state is not None:
                if should_print(group, 1):
                    print(state_table(group, verbose=options.verbose))
            else:
                rows = await self._offset_rows(admin, group)
                if should_print(group, len(rows)):
                    print(offsets_table(group.group_id, rows, verbose=options.verbose))

    async def _offset_rows(self, admin: AdminClient, group: ConsumerGroupDescription) -> list[OffsetRow]:
        """Returns a row for each partition that a member has, members with most first.

        Rows for partitions that only have a committed offset come last.
        """
        committed = await admin.list_consumer_group_offsets(group.group_id)
        assigned: set[TopicPartition] = set()
        shares: list[tuple[str, str, str, list[TopicPartition]]] = []
        for member in sorted(group.members, key=lambda member: -len(member.assignment)):
            if member.assignment:
                assigned |= set(member.assignment)
                shares.append((member.member_id, member.host, member.client_id, list(member.assignment)))
        shares.append(("-", "-", "-", [name for name in committed if name not in assigned]))
        everything = [name for *_, names in shares for name in names]
        ends = await admin.list_offsets_by_spec(dict.fromkeys(everything, -1)) if everything else {}
        rows = []
        for member_id, host, client_id, names in shares:
            for name in sorted(names):
                end = ends[name]
                offset = committed.get(name)
                rows.append(OffsetRow(name, offset, None if isinstance(end, ApiException) else end.offset, member_id, host, client_id))
        return rows

    async def _delete(self, admin: AdminClient) -> None:
        results = await admin.delete_consumer_groups(await self._group_ids(admin))
        failed = {group_id: java_exception(error) for group_id, error in results.items() if error is not None}
        print_deletion("consumer", (group_id for group_id in results if group_id not in failed), failed)

    async def _delete_offsets(self, admin: AdminClient) -> None:
        options = self._options
        group_id = options.group[0]
        names, failed = await _partitions_to_delete(admin, options.topic)
        top = Errors.NONE
        results: dict[TopicPartition, ApiException | None] = dict.fromkeys(names)
        try:
            results |= await admin.delete_consumer_group_offsets(group_id, names)
            top = next((error.error for error in results.values() if error is not None), Errors.NONE)
        except ApiException as error:
            top = error.error
            results = dict.fromkeys(names, error)
        results |= failed
        _print_deletion(group_id, top)
        width = max([15, *(len(name.topic) for name in results)])
        lines = [f"{'TOPIC':<{width}} {'PARTITION':<10} {'STATUS':<15}"]
        for name in sorted(results, key=lambda name: f"{name.topic}{name.partition}"):
            status = "Successful" if (problem := results[name]) is None else f"Error: {java_exception(problem)}"
            partition = str(name.partition) if name.partition >= 0 else "-"
            lines.append(f"{name.topic:<{width}} {partition:<10} {status:<15}")
        print("\n" + "\n".join(lines))


async def _partitions_to_delete(
    admin: AdminClient, topics: list[str]
) -> tuple[list[TopicPartition], dict[TopicPartition, ApiException | None]]:
    """Returns the partitions that are meant, and the missing topics, with partition -1."""
    names: list[TopicPartition] = []
    failed: dict[TopicPartition, ApiException | None] = {}
    for text in topics:
        if ":" in text:
            names += parse_partitions(text)
            continue
        described = await admin.describe_topics([text])
        if text not in described:
            failed[TopicPartition(text, -1)] = ApiException(Errors.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            names += [TopicPartition(text, row.partition) for row in described[text].partitions]
    return names, failed


def _print_deletion(group_id: str, top: Errors) -> None:
    if top is Errors.NONE:
        print(f"Request succeeded for deleting offsets from group {group_id}.")
    elif top is Errors.INVALID_GROUP_ID:
        print_error(f"'{group_id}' is not valid.")
    elif top is Errors.GROUP_ID_NOT_FOUND:
        print_error(Errors.GROUP_ID_NOT_FOUND.message)
    elif top is Errors.GROUP_AUTHORIZATION_FAILED:
        print_error(f"Access to '{group_id}' is not authorized.")
    elif top is Errors.NON_EMPTY_GROUP:
        print_error(f"Deleting offsets of a consumer group '{group_id}' is forbidden if the group is not empty.")
    elif top in (Errors.GROUP_SUBSCRIBED_TO_TOPIC, Errors.TOPIC_AUTHORIZATION_FAILED, Errors.UNKNOWN_TOPIC_OR_PARTITION):
        print_error("Encountered some partition-level error, see the follow-up details.")
    else:
        print_error(f"Encountered some unknown error: {top.name}")


def _words(text: str | None, known: tuple[str, ...], problem: str, *, valid: tuple[str, ...]) -> list[str]:
    """Parse a list of states or types, in any case, with or without underscores."""
    if not text:
        return []
    by_name = {name.lower(): name for name in known}
    found = [by_name.get(word.strip().lower().replace("_", "")) for word in text.split(",")]
    if None in found or any(name not in valid for name in found):
        raise UsageError(problem.format(text, ", ".join(valid)))
    return [name for name in found if name is not None]


def _padded(cells: list[str], width: int) -> str:
    return " ".join([f"{cells[0]:<{width}}", *(f"{cell:<20}" for cell in cells[1:])])


def _group_json(group: ConsumerGroupDescription, rows: list[OffsetRow]) -> dict[str, Any]:
    def names(partitions: tuple[TopicPartition, ...]) -> list[dict[str, Any]]:
        return [{"topic": name.topic, "partition": name.partition} for name in sorted(partitions)]

    described: dict[str, Any] = {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "assignor": group.partition_assignor,
        "coordinator": {"id": group.coordinator.id, "host": group.coordinator.host, "port": group.coordinator.port},
        "members": [
            {
                "memberId": member.member_id,
                "groupInstanceId": member.group_instance_id,
                "clientId": member.client_id,
                "host": member.host,
                "assignment": names(member.assignment),
            }
            for member in group.members
        ],
        "offsets": [row.as_json() for row in rows],
    }
    if group.type == CONSUMER:
        described |= {"groupEpoch": group.group_epoch, "targetAssignmentEpoch": group.target_assignment_epoch}
    return described


def _validate_regex(pattern: str) -> int:
    """Print what a broker would say of a subscription to this pattern."""
    from kmirror.coordinator.group.topic_regex import throw_if_regular_expression_is_invalid

    try:
        throw_if_regular_expression_is_invalid(pattern)
    except ApiException as error:
        reason = error.message.rpartition("is not a valid regular expression: ")[2].rstrip(".")
        print(f"The regular expression `{pattern}` is invalid: {reason}.")
        return 0
    print(f"The regular expression `{pattern}` is valid.")
    return 0
