"""What workers of a flow agree on: the topic of configs, in every order that compaction and dying
leaders leave, and the bytes of the group protocol.
"""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kmirror.common.errors import ConfigError
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.herder.cluster_config_state import (
    ClusterConfigState,
    Record,
    connector_record,
    task_count_record,
    task_records,
)
from kmirror.mirrormaker.herder.connect_protocol import (
    CONFIG_MISMATCH,
    Assignment,
    ConnectorTaskId,
    WorkerState,
    deserialize_assignment,
    deserialize_metadata,
    serialize_assignment,
    serialize_metadata,
)
from kmirror.mirrormaker.herder.leader_assignor import assign_eagerly
from kmirror.mirrormaker.herder.status_backing_store import status_key, status_value
from kmirror.mirrormaker.state_times import State
from kmirror.mirrormaker.task_configs import assigned_groups, assigned_partitions, checkpoint_task_properties, source_task_properties
from kmirror.wire.primitives import ProtocolReadError

C = "MirrorSourceConnector"


def read(records: list[Record]) -> ClusterConfigState:
    state = ClusterConfigState()
    for key, value in records:
        state.handle_record(key, value)
    return state


def compacted(records: list[Record], clean_to: int) -> list[Record]:
    """The topic after the cleaner: of the records before `clean_to` the last one of each key is left."""
    last = {key: number for number, (key, _) in enumerate(records[:clean_to])}
    return [row for number, row in enumerate(records) if number >= clean_to or last[row[0]] == number]


def tasks(*names: str) -> list[dict[str, str]]:
    return [{"task.assigned.partitions": name} for name in names]


class TestConfigs:
    def test_records_are_those_of_connect(self) -> None:
        (key, value), *rest = [connector_record(C, {"name": C}), *task_records(C, [{"a": "1"}]), task_count_record(C, 2)]
        assert (key, json.loads(value or b"")) == (b"connector-MirrorSourceConnector", {"properties": {"name": C}})
        assert [(key, json.loads(value or b"")) for key, value in rest] == [
            (b"task-MirrorSourceConnector-0", {"properties": {"a": "1"}}),
            (b"commit-MirrorSourceConnector", {"tasks": 1}),
            (b"tasks-fencing-MirrorSourceConnector", {"task-count": 2}),
        ]

    def test_tasks_count_when_they_are_committed(self) -> None:
        first = [connector_record(C, {}), *task_records(C, tasks("t-0", "t-1"))]
        assert read(first).task_configs(C) == tasks("t-0", "t-1")
        assert read(first[:-1]).task_configs(C) is None
        half = [*first, task_records(C, tasks("u-0", "u-1"))[0]]
        assert read(half).task_configs(C) == tasks("t-0", "t-1"), "a leader died between two tasks"
        again = [*half, *task_records(C, tasks("v-0"))]
        assert read(again).tasks(C) == [ConnectorTaskId(C, 0)]
        assert read(again).task_configs(C) == tasks("v-0")

    def test_a_commit_without_its_tasks_has_none_until_the_next(self) -> None:
        torn = [connector_record(C, {}), *task_records(C, tasks("t-0", "t-1"))[1:]]
        state = read(torn)
        assert state.inconsistent == {C} and state.tasks(C) == [] and state.task_configs(C) is None
        assert read([*torn, *task_records(C, tasks("t-0"))]).task_configs(C) == tasks("t-0")

    def test_a_connector_that_was_deleted_has_nothing(self) -> None:
        key, _ = connector_record(C, {})
        rows = [connector_record(C, {}), *task_records(C, tasks("t-0")), (key, None)]
        assert read(rows).connectors == {} and read(rows).tasks(C) == []
        assert read(rows[1:]).tasks(C) == [], "compaction has removed the connector"
        assert read([*rows, connector_record(C, {"a": "b"})]).task_configs(C) is None

    def test_former_tasks_are_shut_out_after_each_commit(self) -> None:
        rows = [connector_record(C, {}), *task_records(C, tasks("t-0"))]
        assert read(rows).pending_fencing(C)
        assert not read([*rows, task_count_record(C, 1)]).pending_fencing(C)
        assert read([*rows, task_count_record(C, 1), *task_records(C, tasks("t-0"))]).pending_fencing(C)

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            (None, b"{}"), (b"\xff", b"1"), (b"task-x", b"{}"), (b"task-c-x", b'{"properties":{}}'), (b"connector-" + C.encode(), b"["),
            (b"connector-" + C.encode(), b'{"properties":3}'), (b"commit-" + C.encode(), b'{"tasks":"many"}'), (b"commit-" + C.encode(), None),
            (b"tasks-fencing-" + C.encode(), b'{"task-count":true}'), (b"session-key", b'{"key":"x"}'), (b"target-state-" + C.encode(), b"x"),
            (b"task-" + C.encode() + b"-0", None), ("task-c-\u00b2".encode(), b'{"properties":{}}'), (b"task-c-" + b"9" * 5_000, b'{"properties":{}}'),
            (b"connector-" + C.encode(), b"[" * 100_000), (b"connector-" + C.encode(), b'{"properties":{"a":"\\ud800"}}'),
        ],
    )  # fmt: skip
    def test_what_is_no_config_changes_nothing(self, key: bytes | None, value: bytes | None) -> None:
        rows = [connector_record(C, {"a": "b"}), *task_records(C, tasks("t-0"))]
        state = read(rows)
        state.handle_record(key, value)
        assert state.connectors == {C: {"a": "b"}} and state.task_configs(C) == tasks("t-0")

    @given(st.integers(0, 10_000))
    def test_compaction_loses_no_set_of_tasks_that_was_written_whole(self, seed: int) -> None:
        chance = random.Random(seed)
        rows = [connector_record(C, {})]
        expected = None
        for turn in range(chance.randint(1, 6)):
            wanted = tasks(*(f"{turn}-{number}" for number in range(chance.randint(0, 4))))
            written = task_records(C, wanted)
            died = chance.random() < 0.3
            rows += written[: chance.randrange(len(written))] if died else written
            if not died:
                expected, end = wanted, len(rows)
            if chance.random() < 0.3:
                rows.append(connector_record(C, {"turn": str(turn)}))
        if expected is None:
            assert read(rows).task_configs(C) is None
            return
        state = read(compacted(rows, chance.randint(0, end)))
        assert state.task_configs(C) in (expected, None)
        assert state.task_configs(C) == expected or C in state.inconsistent
        assert read(rows).task_configs(C) == expected


class TestProtocol:
    def test_bytes_are_those_of_connect(self) -> None:
        assert serialize_metadata(WorkerState("NOTUSED", 7)) == bytes.fromhex("000000074e4f54555345440000000000000007")
        one = Assignment("m", "u", 9, ["c"], [ConnectorTaskId("c", 1), ConnectorTaskId("d", 0)])
        expected = "0000000000016d00017500000000000000090000000200016300000002ffffffff000000010001640000000100000000"
        assert serialize_assignment(one) == bytes.fromhex(expected)

    @given(st.text(max_size=9), st.integers(0, 2**40), st.lists(st.tuples(st.text(max_size=5), st.integers(0, 9)), unique=True))
    def test_what_is_written_is_read(self, url: str, offset: int, rows: list[tuple[str, int]]) -> None:
        assert deserialize_metadata(serialize_metadata(WorkerState(url, offset), 1) + b"newer") == WorkerState(url, offset)
        wanted = [ConnectorTaskId(connector, task) for connector, task in rows]
        read_back = deserialize_assignment(serialize_assignment(Assignment("l", url, offset, ["c"], wanted, CONFIG_MISMATCH)))
        assert (read_back.error, read_back.connectors, sorted(read_back.tasks)) == (CONFIG_MISMATCH, ["c"], sorted(wanted))

    @given(st.binary(max_size=60))
    def test_garbage_is_told(self, data: bytes) -> None:
        for parse in (deserialize_metadata, deserialize_assignment):
            try:
                parse(data)
            except ProtocolReadError:
                continue

    @given(st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=6, unique=True), st.integers(0, 30))
    def test_each_task_has_one_worker_and_none_is_idle(self, members: list[str], count: int) -> None:
        every = [ConnectorTaskId(C, number) for number in range(count)]
        dealt = assign_eagerly(members[0], "u", 3, members, [C], every)
        assert sorted(task for one in dealt.values() for task in one.tasks) == every
        sizes = [len(one.tasks) for one in dealt.values()]
        assert max(sizes) - min(sizes) <= 1
        assert [member for member, one in dealt.items() if one.connectors] == [members[0]]


def test_statuses_are_those_of_connect() -> None:
    assert (status_key(C), status_key(ConnectorTaskId(C, 3))) == (b"status-connector-" + C.encode(), b"status-task-" + C.encode() + b"-3")
    value = json.loads(status_value(State.FAILED, "why", "A->B", 4))
    assert value == {"state": "FAILED", "trace": "why", "worker_id": "A->B", "generation": 4}


def test_a_tasks_share_is_read_as_it_was_written() -> None:
    partitions = [TopicPartition("a-b", 3), TopicPartition("t", 0)]
    assert assigned_partitions(source_task_properties(0, partitions)) == partitions
    assert assigned_partitions({}) == []
    with pytest.raises(ConfigError, match=r"Invalid value t for configuration task\.assigned\.partitions"):
        assigned_partitions({"task.assigned.partitions": "t"})
    for groups in (["shop", "desk"], ["a,b", " c ", "d"], []):
        assert assigned_groups(checkpoint_task_properties(1, groups)) == groups
    assert assigned_groups({"task.assigned.groups": "shop, desk"}) == ["shop", "desk"]
    with pytest.raises(ConfigError, match="not a list of groups"):
        assigned_groups({"kmirror.task.assigned.groups": "{"})
