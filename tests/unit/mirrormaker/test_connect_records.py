"""Records of Connect's topics that users' requests lead to (RE1, RE2): target states, restarts, levels of
loggers, statuses, active topics, offsets.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from kmirror.mirrormaker.connect_offsets import offset_key, offset_value
from kmirror.mirrormaker.herder.cluster_config_state import (
    ClusterConfigState,
    ConfigChanges,
    Record,
    connector_record,
    logger_record,
    removal_records,
    restart_record,
    target_state_record,
    task_records,
)
from kmirror.mirrormaker.herder.connect_protocol import ConnectorTaskId
from kmirror.mirrormaker.herder.herder import HerderError, RestartRequest, TargetState, WorkerStatus
from kmirror.mirrormaker.herder.source_offsets import ConnectorOffsets, check_offsets
from kmirror.mirrormaker.herder.status_backing_store import (
    StoredStatuses,
    active_topic_key,
    active_topic_value,
    status_key,
    status_value,
)
from kmirror.mirrormaker.kept_running import Status
from kmirror.mirrormaker.state_times import State

C = "mirror"
PAUSED, STOPPED, STARTED = TargetState.PAUSED, TargetState.STOPPED, TargetState.STARTED


def read(records: Sequence[Record]) -> ClusterConfigState:
    state = ClusterConfigState()
    for key, value in records:
        state.handle_record(key, value)
    return state


def parsed(record: Record) -> Any:
    return json.loads(record[1] or b"null")


class TestTargetStates:
    def test_a_worker_that_does_not_know_stopped_pauses(self) -> None:
        assert parsed(target_state_record(C, STOPPED)) == {"state": "PAUSED", "state.v2": "STOPPED"}
        assert parsed(target_state_record(C, PAUSED)) == {"state": "PAUSED", "state.v2": "PAUSED"}
        assert target_state_record(C, STARTED)[0] == b"target-state-mirror"

    def test_the_newer_field_counts_and_the_older_one_without_it(self) -> None:
        assert read([target_state_record(C, STOPPED)]).target_state(C) is STOPPED
        assert read([(b"target-state-mirror", b'{"state":"PAUSED"}')]).target_state(C) is PAUSED
        assert read([(b"target-state-mirror", b'{"state":"PAUSED","state.v2":null}')]).target_state(C) is PAUSED

    @pytest.mark.parametrize("value", [b"?", b'{"state":"ASLEEP"}', b"[]", b"{}"])
    def test_nonsense_changes_nothing(self, value: bytes) -> None:
        state = read([target_state_record(C, PAUSED), (b"target-state-mirror", value)])
        assert state.target_state(C) is PAUSED

    def test_a_deleted_connector_is_wanted_running_when_it_is_made_anew(self) -> None:
        records = [connector_record(C, {"a": "b"}), target_state_record(C, STOPPED), *removal_records(C), connector_record(C, {"a": "b"})]
        assert read(records).target_state(C) is STARTED


class TestChanges:
    def test_what_has_changed_is_said_once(self) -> None:
        state = read([connector_record(C, {"a": "b"}), *task_records(C, [{"t": "0"}])])
        assert (state.changes.added_or_removed, state.changes.tasks) == ({C}, {C})
        state.changes = ConfigChanges()
        for key, value in [connector_record(C, {"a": "c"}), target_state_record(C, PAUSED), target_state_record("other", STARTED)]:
            state.handle_record(key, value)
        assert state.changes == ConfigChanges(connectors={C}, target_states={C})
        state.changes = ConfigChanges()
        for key, value in removal_records(C):
            state.handle_record(key, value)
        assert (state.changes.added_or_removed, state.tasks(C)) == ({C}, [])

    @pytest.mark.parametrize(
        ("first", "second"),
        [((False, True), (True, True)), ((False, False), (True, True)), ((False, True), (False, False)), ((True, True), (True, False))],
    )
    def test_of_two_restarts_the_one_with_more_effect_counts(self, first: tuple[bool, bool], second: tuple[bool, bool]) -> None:
        stronger, weaker = (RestartRequest(C, only_failed=only, include_tasks=tasks) for only, tasks in (first, second))
        for order in ((stronger, weaker), (weaker, stronger)):
            assert read([restart_record(one) for one in order]).changes.restarts == {C: stronger}

    def test_a_restart_and_a_level_are_as_connect_writes_them(self) -> None:
        request = restart_record(RestartRequest(C, only_failed=True, include_tasks=False))
        assert (request[0], parsed(request)) == (b"restart-connector-mirror", {"include-tasks": False, "only-failed": True})
        level = logger_record("kmirror.mirrormaker", "DEBUG")
        assert (level[0], parsed(level)) == (b"logger-cluster-kmirror.mirrormaker", {"level": "DEBUG"})
        assert read([level]).changes.logger_levels == {"kmirror.mirrormaker": "DEBUG"}


class TestStatuses:
    def test_the_newest_status_counts_and_none_removes_it(self) -> None:
        stored, task = StoredStatuses(), ConnectorTaskId("a-b", 12)
        stored.handle_record(status_key("a-b"), status_value(State.RUNNING, None, "w:1", 3))
        stored.handle_record(status_key(task), status_value(State.FAILED, "why", "w:2", 3))
        assert stored.connectors == {"a-b": WorkerStatus("RUNNING", "w:1")}
        assert stored.tasks == {task: WorkerStatus("FAILED", "w:2", "why")}
        stored.handle_record(status_key(task), None)
        stored.handle_record(status_key("a-b"), b"[1]")
        assert stored.tasks == {} and stored.connectors == {}

    def test_active_topics_are_those_of_a_connector(self) -> None:
        stored = StoredStatuses()
        for topic in ("A.t", "A.u"):
            stored.handle_record(active_topic_key(topic, C), active_topic_value(topic, ConnectorTaskId(C, 1), 5))
        stored.handle_record(active_topic_key("A.t", "other"), active_topic_value("A.t", ConnectorTaskId("other", 0), 5))
        stored.handle_record(active_topic_key("A.t", C), None)
        assert (stored.topics(C), stored.topics("other"), stored.topics("unknown")) == (["A.u"], ["A.t"], [])
        assert json.loads(active_topic_value("A.t", ConnectorTaskId(C, 1), 5)) == {
            "topic": {"name": "A.t", "connector": C, "task": 1, "discoverTimestamp": 5}
        }


class Still:
    def monotonic_ms(self) -> int:
        return 0

    def time_ms(self) -> int:
        return 0


def test_what_its_users_have_paused_is_well() -> None:
    status = Status("x", Still())  # type: ignore[arg-type]
    assert not status.is_well
    status.rest(State.PAUSED)
    assert status.is_well
    status.change(State.FAILED, "why")
    assert not status.is_well


class TestOffsets:
    SOURCE = {"cluster": "A", "topic": "t", "partition": 0}

    def test_those_of_one_connector_are_found_in_any_order_of_names(self) -> None:
        offsets = ConnectorOffsets(C)
        offsets.handle_record(offset_key(C, self.SOURCE), offset_value(3))
        offsets.handle_record(offset_key("other", self.SOURCE), offset_value(9))
        offsets.handle_record(b"nonsense", offset_value(9))
        offsets.handle_record(b'["mirror",{"topic":"t","partition":0,"cluster":"A"}]', offset_value(4))
        assert offsets.offsets() == [(self.SOURCE, {"offset": 4})]
        offsets.handle_record(offset_key(C, self.SOURCE), None)
        assert offsets.offsets() == []

    @pytest.mark.parametrize(
        ("kind", "source", "offset", "message"),
        [
            ("MirrorSourceConnector", {"topic": "t", "partition": 0}, 1, "is missing the 'cluster' key, which is required"),
            ("MirrorSourceConnector", {**SOURCE, "topic": 3}, 1, "has an invalid value 3 for the 'topic' key, which must be a string"),
            ("MirrorSourceConnector", {**SOURCE, "partition": -1}, 1, "which cannot be negative"),
            ("MirrorSourceConnector", {**SOURCE, "partition": 2**31}, 1, "which must be an integer"),
            ("MirrorSourceConnector", SOURCE, -1, "has an invalid value -1 for the 'offset' key, which cannot be negative"),
            ("MirrorSourceConnector", SOURCE, "1", "which must be an integer"),
            ("MirrorCheckpointConnector", {"group": "g", "topic": "t", "partition": 0}, 1, "the only accepted value is 0"),
            ("MirrorHeartbeatConnector", {"sourceClusterAlias": "A"}, 0, "is missing the 'targetClusterAlias' key"),
        ],
    )
    def test_what_a_connector_cannot_have_is_refused(self, kind: str, source: dict[str, Any], offset: Any, message: str) -> None:
        with pytest.raises(HerderError, match=message) as refused:
            check_offsets(kind, [(source, {"offset": offset})])
        assert refused.value.status == 500
        check_offsets(kind, [(source, None)])

    def test_what_a_connector_can_have_is_taken(self) -> None:
        check_offsets("MirrorSourceConnector", [(self.SOURCE, {"offset": 7})])
        check_offsets("MirrorCheckpointConnector", [({"group": "g", "topic": "t", "partition": 0}, {"offset": 0})])
        check_offsets("MirrorHeartbeatConnector", [({"sourceClusterAlias": "A", "targetClusterAlias": "B"}, {"offset": 0})])
