"""What `kafka-consumer-groups --describe` prints: offsets, members, state; the columns of Kafka's
tool.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kmirror.admin.groups import CONSUMER, ConsumerGroupDescription, MemberDescription, OffsetAndMetadata
from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition

MISSING = "-"
REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


@dataclass(frozen=True, slots=True)
class OffsetRow:
    """One partition: its committed offset, the end of its log, and its reader."""

    name: TopicPartition
    committed: OffsetAndMetadata | None
    log_end_offset: int | None
    member_id: str
    host: str
    client_id: str

    @property
    def lag(self) -> int | None:
        if self.committed is None or self.log_end_offset is None:
            return None
        return self.log_end_offset - self.committed.offset

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.name.topic,
            "partition": self.name.partition,
            "currentOffset": None if self.committed is None else self.committed.offset,
            "leaderEpoch": None if self.committed is None or self.committed.leader_epoch < 0 else self.committed.leader_epoch,
            "logEndOffset": self.log_end_offset,
            "lag": self.lag,
            "consumerId": None if self.member_id == MISSING else self.member_id,
            "host": None if self.host == MISSING else self.host,
            "clientId": None if self.client_id == MISSING else self.client_id,
        }


def should_print(group: ConsumerGroupDescription, rows: int) -> bool:
    """Print what the group's state means for the table; returns whether a table follows."""
    if group.state == "Dead":
        print(f"\nError: Consumer group '{group.group_id}' does not exist.")
    elif group.state == "Empty":
        print(f"\nConsumer group '{group.group_id}' has no active members.", file=sys.stderr)
    elif group.state in REBALANCING:
        print(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.", file=sys.stderr)
    elif group.state != "Stable":
        raise KmirrorError(f"Expected a valid consumer group state, but found '{group.state or 'Unknown'}'.")
    return group.state != "Dead" and rows > 0


def _width(texts: Iterable[str], least: int = 15) -> int:
    return max([least, *map(len, texts)])


def _text(value: object) -> str:
    return MISSING if value is None else str(value)


def offsets_table(group_id: str, rows: list[OffsetRow], *, verbose: bool) -> str:
    group, topic = _width([group_id]), _width(row.name.topic for row in rows)
    member, host = _width(row.member_id for row in rows), _width(row.host for row in rows)

    def line(cells: list[str]) -> str:
        first = f"\n{cells[0]:<{group}} {cells[1]:<{topic}} {cells[2]:<10}"
        epoch = f" {cells[3]:<15}" if verbose else ""
        return f"{first}{epoch} {cells[4]:<15} {cells[5]:<15} {cells[6]:<15} {cells[7]:<{member}} {cells[8]:<{host}} {cells[9]}"

    header = ["GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"]
    lines = [line(header)]
    for row in rows:
        committed = row.committed
        offset = None if committed is None else committed.offset
        epoch = None if committed is None or committed.leader_epoch < 0 else committed.leader_epoch
        values = (row.name.topic, row.name.partition, epoch, offset, row.log_end_offset, row.lag, row.member_id, row.host, row.client_id)
        lines.append(line([group_id, *map(_text, values)]))
    return "".join(lines)


def state_table(group: ConsumerGroupDescription, *, verbose: bool) -> str:
    coordinator = f"{group.coordinator.host}:{group.coordinator.port}  ({group.coordinator.id})"
    name, place = _width([group.group_id]), _width([coordinator], 25)

    def line(cells: list[str]) -> str:
        epochs = f" {cells[4]:<15} {cells[5]:<25}" if verbose else ""
        state = f"{cells[3]:<20}"
        return f"\n{cells[0]:<{name}} {cells[1]:<{place}} {cells[2]:<20} {state}{epochs} {cells[6]}"

    header = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH", "#MEMBERS"]
    epochs = [_text(group.group_epoch), _text(group.target_assignment_epoch)]
    cells = [group.group_id, coordinator, group.partition_assignor or MISSING, group.state, *epochs, str(len(group.members))]
    return line(header) + line(cells)


class MemberTable:
    """The members of one group."""

    def __init__(self, group: ConsumerGroupDescription, *, verbose: bool) -> None:
        self._group = group
        self._members = group.members
        self._verbose = verbose
        self._has_instances = any(member.group_instance_id for member in group.members)
        self._is_mixed = group.type == CONSUMER and any(member.is_classic for member in group.members)
        self._current = _width((assignment_text(m.assignment) for m in self._members), 20)
        self._target = _width((assignment_text(m.target_assignment or ()) for m in self._members), 20)

    def text(self) -> str:
        lines = [self._line("GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS", self._verbose_header())]
        for member in self._members:
            lines.append(
                self._line(
                    self._group.group_id,
                    member.member_id,
                    member.group_instance_id or "",
                    member.host,
                    member.client_id,
                    str(len(member.assignment)),
                    self._verbose_cells(member),
                )
            )
        return "\n" + "\n".join(lines)

    def _line(self, group: str, member: str, instance: str, host: str, client: str, count: str, more: str) -> str:
        members = self._members
        cells = [f"{group:<{_width([self._group.group_id])}}", f"{member:<{_width(m.member_id for m in members)}}"]
        if self._has_instances:
            cells.append(f"{instance:<{_width((m.group_instance_id or '' for m in members), 17)}}")
        cells += [f"{host:<{_width(m.host for m in members)}}", f"{client:<{_width(m.client_id for m in members)}}", f"{count:<15}"]
        return " ".join(cells) + " " + more

    def _verbose_header(self) -> str:
        if not self._verbose:
            return ""
        columns = (
            f"{'CURRENT-EPOCH':<15} {'CURRENT-ASSIGNMENT':<{self._current}} {'TARGET-EPOCH':<15} {'TARGET-ASSIGNMENT':<{self._target}}"
        )
        return f"{columns} UPGRADED" if self._is_mixed else columns

    def _verbose_cells(self, member: MemberDescription) -> str:
        if not self._verbose:
            return ""
        target_epoch = _text(self._group.target_assignment_epoch)
        current, target = assignment_text(member.assignment), assignment_text(member.target_assignment or ())
        epoch = _text(member.member_epoch)
        columns = f"{epoch:<15} {current:<{self._current}} {target_epoch:<15} {target:<{self._target}}"
        return f"{columns} {str(not member.is_classic).lower()}" if self._is_mixed else columns


def assignment_text(partitions: Iterable[TopicPartition]) -> str:
    """`t1:0,1;t2:0`, sorted; "-" for no partitions."""
    topics: dict[str, list[int]] = {}
    for name in sorted(partitions):
        topics.setdefault(name.topic, []).append(name.partition)
    return ";".join(f"{topic}:{','.join(map(str, rows))}" for topic, rows in topics.items()) or MISSING
