"""What `kafka-consumer-groups` computes without a cluster: tables, plans, times."""

from __future__ import annotations

import pytest

from kmirror.admin.groups import ConsumerGroupDescription, MemberDescription, OffsetAndMetadata
from kmirror.admin.results import Node
from kmirror.cli.consumer_groups_describe import MemberTable, OffsetRow, offsets_table, should_print, state_table
from kmirror.cli.consumer_groups_reset import csv_text, parse_partitions, parse_reset_plan
from kmirror.cli.tool_options import UsageError
from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition


def group(state: str = "Stable", **changes: object) -> ConsumerGroupDescription:
    member = MemberDescription("m-1", None, "c", "/1.2.3.4", (TopicPartition("t", 1), TopicPartition("t", 0)))
    values: dict[str, object] = {"members": [member], "type": "Classic", "partition_assignor": "range"} | changes
    return ConsumerGroupDescription("g", "consumer", state=state, coordinator=Node(1, "h", 9092), **values)  # type: ignore[arg-type]


def test_offsets_are_a_table() -> None:
    rows = [
        OffsetRow(TopicPartition("t", 0), OffsetAndMetadata(3, "", 7), 10, "m-1", "/1.2.3.4", "c"),
        OffsetRow(TopicPartition("t", 1), None, None, "-", "-", "-"),
    ]
    assert [line.split() for line in offsets_table("g", rows, verbose=True).splitlines() if line] == [
        ["GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"],
        ["g", "t", "0", "7", "3", "10", "7", "m-1", "/1.2.3.4", "c"],
        ["g", "t", "1", "-", "-", "-", "-", "-", "-", "-"],
    ]
    assert rows[0].as_json()["lag"] == 7 and rows[1].as_json()["consumerId"] is None


def test_members_are_a_table_with_instances_only_where_there_are_some() -> None:
    assert MemberTable(group(), verbose=False).text().splitlines()[1].split() == [
        "GROUP",
        "CONSUMER-ID",
        "HOST",
        "CLIENT-ID",
        "#PARTITIONS",
    ]
    static = MemberDescription("m-1", "me", "c", "/h", (), target_assignment=(TopicPartition("t", 2),), member_epoch=4, is_classic=True)
    text = MemberTable(group(members=[static], type="Consumer", target_assignment_epoch=5), verbose=True).text()
    assert text.splitlines()[1].split()[2] == "GROUP-INSTANCE-ID" and text.splitlines()[1].split()[-1] == "UPGRADED"
    assert text.splitlines()[2].split() == ["g", "m-1", "me", "/h", "c", "0", "4", "-", "5", "t:2", "false"]


def test_states_are_a_table_with_epochs_when_verbose() -> None:
    assert state_table(group(), verbose=False).splitlines()[2].split() == ["g", "h:9092", "(1)", "range", "Stable", "1"]
    newer = group(type="Consumer", group_epoch=3, target_assignment_epoch=2)
    assert state_table(newer, verbose=True).splitlines()[2].split()[-3:] == ["3", "2", "1"]


@pytest.mark.parametrize(
    ("state", "rows", "shown", "text"),
    [
        ("Stable", 1, True, ""),
        ("Stable", 0, False, ""),
        ("Empty", 1, True, "\nConsumer group 'g' has no active members.\n"),
        ("Assigning", 1, True, "\nWarning: Consumer group 'g' is rebalancing.\n"),
        ("Dead", 1, False, "\nError: Consumer group 'g' does not exist.\n"),
    ],
)
def test_what_a_state_means_for_a_description(state: str, rows: int, shown: bool, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert should_print(group(state), rows) is shown
    captured = capsys.readouterr()
    assert captured.out + captured.err == text


def test_reset_plans_are_read_with_and_without_groups() -> None:
    assert parse_reset_plan("t,0,1\nt,1,2\n", ["g"]) == {"g": {TopicPartition("t", 0): 1, TopicPartition("t", 1): 2}}
    assert parse_reset_plan('"g,1",t,0,1\n', ["x", "y"]) == {"g,1": {TopicPartition("t", 0): 1}}
    with pytest.raises(KmirrorError, match="line 1 of the reset plan"):
        parse_reset_plan("t,zero,1\n", ["g"])


def test_reset_plans_are_written_as_they_are_read() -> None:
    rows = [("a-group-with-more-than-24-characters", TopicPartition("t", 0), 5), ("g", TopicPartition("t", 1), 6)]
    text = csv_text(rows, with_group=True)
    assert text == '"a-group-with-more-than-24-characters",t,0,5\ng,t,1,6\n'
    assert parse_reset_plan(text, []) == {name: {partition: offset} for name, partition, offset in rows}


def test_topics_with_partitions_are_read() -> None:
    assert parse_partitions("t:0,2") == [TopicPartition("t", 0), TopicPartition("t", 2)]
    with pytest.raises(UsageError, match="Invalid partition 'x' specified in topic arg 't:x''"):
        parse_partitions("t:x")
