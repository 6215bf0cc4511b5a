"""The group protocol of Connect's workers: its bytes and names in all versions, and what a leader gives to
whom, over random histories. `tests/interop/mirrormaker` asks Apache's own classes the same.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.mirrormaker.connect_group_histories import GroupHistory

from kmirror.common.errors import ConfigError
from kmirror.common.java_hash_map import java_string_key_hash
from kmirror.mirrormaker.herder.assigned_work import AssignedWork
from kmirror.mirrormaker.herder.cluster_config_state import ClusterConfigState, connector_record, task_records
from kmirror.mirrormaker.herder.connect_protocol import (
    NOT_USED,
    Assignment,
    ConnectorTaskId,
    ConnectProtocol,
    WorkerState,
    connect_protocol,
    deserialize_assignment,
    deserialize_metadata,
    of_group_protocol,
    serialize_assignment,
    serialize_metadata,
)
from kmirror.mirrormaker.herder.incremental_cooperative_assignor import RebalanceMemory, Round, assign, assign_around_leader, backoff_ms
from kmirror.mirrormaker.herder.java_hash_order import in_hash_order
from kmirror.mirrormaker.herder.leader_assignor import GroupRound, LeaderAssignor, held_after
from kmirror.mirrormaker.startups import WorkerStartups
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.wire.primitives import ProtocolReadError

MINUTE_MS = 60_000
T = [ConnectorTaskId("c", number) for number in range(6)]


class TestBytes:
    @given(st.sampled_from(ConnectProtocol), st.lists(st.sampled_from("abc"), unique=True), st.integers(0, 2**31 - 1))
    def test_what_is_written_is_read(self, protocol: ConnectProtocol, names: list[str], delay_ms: int) -> None:
        told = Assignment("m", "u", 3, names, T[:2], 0, names[1:], T[2:], delay_ms)
        eager = Assignment("m", "u", 3, names, T[:2])
        expected = told if protocol.is_cooperative else eager
        read = deserialize_assignment(serialize_assignment(told, protocol))
        assert sorted(read.connectors) == sorted(names) and read == Assignment(**{**vars(expected), "connectors": read.connectors})
        state = WorkerState("u", 9, told)
        read_state = deserialize_metadata(serialize_metadata(state, protocol))
        assert read_state[:2] == ("u", 9) and (read_state.assignment is None) is not protocol.is_cooperative

    def test_a_new_member_has_no_assignment(self) -> None:
        data = serialize_metadata(WorkerState("u", 9), ConnectProtocol.SESSIONED)
        assert data.endswith(b"\xff\xff\xff\xff") and deserialize_metadata(data).assignment is None
        with pytest.raises(ProtocolReadError):
            deserialize_metadata(data[:-1])

    def test_names(self) -> None:
        assert [one.group_protocol for one in connect_protocol("Sessioned").offered] == ["sessioned", "compatible", "default"]
        assert [one.group_protocol for one in connect_protocol("compatible").offered] == ["compatible", "default"]
        assert connect_protocol("EAGER").offered == (ConnectProtocol.EAGER,) == (of_group_protocol("default"),)
        with pytest.raises(ConfigError, match="Invalid value x for configuration connect.protocol: Invalid Connect protocol compatibility"):
            connect_protocol("x")
        with pytest.raises(ProtocolReadError):
            of_group_protocol("range")


def test_strings_come_in_the_order_of_javas_tables() -> None:
    assert java_string_key_hash("polygenelubricants") == 0x80000000, "as Java has it, which calls it negative"
    assert java_string_key_hash("Aa") == java_string_key_hash("BB"), "strings that Java cannot tell apart"
    assert in_hash_order(["BB", "Aa"]) == ["BB", "Aa"] and in_hash_order(["Aa", "BB"]) == ["Aa", "BB"]
    assert in_hash_order(["b", "a"]) == ["a", "b"]
    many = [chr(0x41 + number) for number in range(24)]
    assert in_hash_order(reversed(many)) == many, "32 buckets"


class TestAssignor:
    @given(st.integers(0, 100_000))
    def test_no_work_is_given_to_two_and_calm_shares_all_of_it(self, seed: int) -> None:
        history = GroupHistory(seed)
        for _ in history.rounds(6):
            pass
        for turn in itertools.count():
            history.generation += 1
            history.now_ms += max(history.max_delay_ms, 1)
            history.memory, found = assign(history.memory, history.facts())
            given_now = [unit for units in found.given.values() for unit in units]
            assert len(given_now) == len(set(given_now))
            for member, units in history.work.items():
                history.work[member] = [*found.given[member], *(unit for unit in units if unit not in found.revoked[member])]
            history.last_generation = history.generation
            if not given_now and not any(found.revoked.values()) and not found.delay_ms:
                break
            assert turn < 20, "the group never comes to rest"
        runs = sorted(map(str, itertools.chain(*history.work.values())))
        facts = history.facts()
        assert runs == sorted(map(str, [*facts.connectors, *facts.tasks])), "each is run once"
        for kind in (str, ConnectorTaskId):
            sizes = [sum(isinstance(unit, kind) for unit in units) for units in history.work.values()]
            assert max(sizes) - min(sizes) <= 1

    def test_what_a_killed_member_had_waits_for_it_and_goes_to_who_came_in_between(self) -> None:
        facts = Round(0, 1, -1, {"a": [], "b": []}, [], T[:4], 5 * MINUTE_MS)
        memory, found = assign(RebalanceMemory(), facts)
        assert {member: len(units) for member, units in found.given.items()} == {"a": 2, "b": 2} and found.delay_ms == 0
        had = found.given["b"]
        memory, found = assign(memory, Round(0, 2, 1, {"a": found.given["a"]}, [], T[:4], 5 * MINUTE_MS))
        assert found.given == {"a": []} and found.delay_ms == 5 * MINUTE_MS
        a = found.all["a"]
        memory, found = assign(memory, Round(MINUTE_MS, 3, 2, {"a": a, "new": []}, [], T[:4], 5 * MINUTE_MS))
        assert found.given == {"a": [], "new": []} and found.delay_ms == 4 * MINUTE_MS
        _, later = assign(memory, Round(5 * MINUTE_MS, 4, 3, {"a": a, "new": []}, [], T[:4], 5 * MINUTE_MS))
        assert later.given == {"a": [], "new": had} and later.delay_ms == 0
        _, back = assign(memory, Round(2 * MINUTE_MS, 4, 3, {"a": a, "b": had, "new": []}, [], T[:4], 5 * MINUTE_MS))
        assert back.given["new"] == [] and back.delay_ms == 0, "it came back with its work"

    def test_connectors_stay_with_a_leader_that_nobody_can_tell_anything(self) -> None:
        facts = Round(0, 1, -1, {"a": [], "b": []}, ["c", "d"], T[:4], MINUTE_MS)
        memory, found = assign_around_leader(RebalanceMemory(), facts, "b")
        assert found.given["b"][:2] == ["c", "d"] and not any(isinstance(unit, str) for unit in found.given["a"])
        work = {"a": [*found.given["b"][:2], *found.given["a"]], "b": found.given["b"][2:]}
        memory, found = assign_around_leader(memory, Round(0, 2, 1, work, ["c", "d"], T[:4], MINUTE_MS), "b")
        assert found.revoked == {"a": ["c", "d"], "b": []} and found.given == {"a": [], "b": []}, "another leader had given them away"
        work = {"a": found.all["a"], "b": found.all["b"]}
        _, found = assign_around_leader(memory, Round(0, 3, 2, work, ["d"], T[:4], MINUTE_MS), "b")
        assert found.given["b"] == ["d"]

    def test_the_backoff_of_moves_grows_up_to_the_delay(self) -> None:
        assert [backoff_ms(attempts, 5 * MINUTE_MS) for attempts in range(1, 5)] == [40, 1_600, 64_000, 5 * MINUTE_MS]
        assert (backoff_ms(3, 0), backoff_ms(3, 1)) == (0, 1)


def told(
    leader: str, *, urls: Mapping[str, str], protocol: ConnectProtocol, held: Mapping[str, Assignment] = MappingProxyType({})
) -> GroupRound:
    return GroupRound(protocol, leader, 1, -1, {member: WorkerState(url, 5, held.get(member)) for member, url in urls.items()})


class TestLeader:
    def test_connectors_are_dealt_where_every_member_can_tell_the_leader(self) -> None:
        everybody = {"a": "http://a", "b": "http://b"}
        for urls, protocol, leaders in (
            (everybody, ConnectProtocol.SESSIONED, 1),
            (everybody, ConnectProtocol.COMPATIBLE, 1),
            (everybody, ConnectProtocol.EAGER, 2),
            ({"a": "http://a", "b": NOT_USED}, ConnectProtocol.SESSIONED, 2),
            ({"a": NOT_USED, "b": NOT_USED}, ConnectProtocol.COMPATIBLE, 2),
        ):
            assignor = LeaderAssignor("http://a", MINUTE_MS)
            found = assignor.assign(told("a", urls=urls, protocol=protocol), 5, ["c", "d"], T[:4], 0)
            assert len(found["a"].connectors) == leaders and {len(one.tasks) for one in found.values()} == {2}
            assert all((one.leader, one.leader_url, one.offset) == ("a", "http://a", 5) for one in found.values())
            assert assignor.owners == {unit: urls[member] for member, one in found.items() for unit in (*one.connectors, *one.tasks)}

    def test_a_member_keeps_what_is_not_taken_away(self) -> None:
        held = Assignment("a", "u", 5, ["c"], T[:2])
        change = Assignment("b", "v", 6, ["d"], T[2:3], revoked_connectors=["c"], revoked_tasks=T[:1], delay_ms=9)
        assert held_after(held, change) == Assignment("b", "v", 6, ["d"], [T[2], T[1]], delay_ms=9)
        assert held_after(None, change) == Assignment("b", "v", 6, ["d"], [T[2]], delay_ms=9)

    def test_a_group_without_its_eager_member_goes_on_with_what_members_had(self) -> None:
        held = {"a": Assignment("a", "", 5, ["c", "d"], T[:2]), "b": Assignment("a", "", 5, [], T[2:4])}
        urls = {"a": NOT_USED, "b": NOT_USED}
        assignor = LeaderAssignor(NOT_USED, MINUTE_MS)
        found = assignor.assign(told("a", urls=urls, protocol=ConnectProtocol.SESSIONED, held=held), 5, ["c", "d"], T, 0)
        assert found["a"].connectors == [] and not found["a"].revokes and not found["b"].revokes
        assert (found["a"].tasks, found["b"].tasks) == ([T[4]], [T[5]])


class TestAssignedWork:
    def test_what_is_configured_otherwise_stops_and_the_rest_goes_on(self) -> None:
        begun: list[str] = []

        async def live(runtime: AsyncioRuntime, name: str) -> None:
            begun.append(name)
            while True:
                await runtime.sleep_ms(60_000)

        async def main() -> None:
            runtime = AsyncioRuntime()
            state = ClusterConfigState()

            def commit(*texts: str) -> None:
                for key, value in (connector_record("c", {}), *task_records("c", [{"of": text} for text in texts])):
                    state.handle_record(key, value)

            work = AssignedWork(
                runtime,
                "w",
                lambda name, status: live(runtime, name),
                lambda task, properties, status: live(runtime, f"{task} {properties['of']}"),
                WorkerStartups(runtime.clock),
            )
            commit("t", "u", "v")
            held = Assignment("w", "", 1, ["c"], T[:3])
            await work.run(held, state)
            await runtime.sleep_ms(0)
            commit("t", "x")
            await work.stop_changed(state, [])
            assert work.tasks == T[:1], "one is another, and one is gone"
            await work.run(held, state)
            assert work.tasks == T[:2]
            await work.stop_changed(state, ["c"])
            assert work.tasks == [] and work.connectors == ["c"], "all of a connector that was committed anew"
            await work.run(held, state)
            ended = await work.stop_revoked(Assignment("w", "", 1, revoked_connectors=["c", "d"], revoked_tasks=[T[1], T[4]]))
            assert ended == ["c", T[1]] and (work.connectors, work.tasks) == ([], T[:1])
            await work.run_on(state)
            assert work.connectors == [], "what was taken away began again when a config changed"
            await work.stop_all()

        asyncio.run(main())
        assert begun[:4] == ["c", "c-0 t", "c-1 u", "c-2 v"]
