"""Share groups in metadata sync (SYN15, E3): a scripted source, the real step, a group
coordinator's shard.

Whole clusters are in test_e3_share_groups_on_clusters.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.mirrors.mirror_sync_doubles import SyncBench
from support.mirrors.source_double import SourceDouble, SourceGroupDouble

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.coordinator.group.share_group import ShareGroupMember
from kmirror.coordinator.group.share_group_offsets import EndOffset
from kmirror.coordinator.share.persister import InitialState
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.wire.api_keys import ApiKeys

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def bench() -> Iterator[SyncBench]:
    made = SyncBench()
    made.share_version = 1
    yield made
    made.close()


def share_group(coordinator: int = 10, **offsets: int) -> SourceGroupDouble:
    """A share group that begins at these offsets: `t0` is partition 0 of t."""
    named = {TopicPartition(name[:-1], int(name[-1])): (offset, "") for name, offset in offsets.items()}
    return SourceGroupDouble(named, type="Share", coordinator=coordinator)


def starts(bench: SyncBench, group: str = "g") -> dict[int, int]:
    """Start offsets of the group in t here."""
    rows = bench.run(bench.share.offsets.describe_all(group)).topics
    return {row.partition_index: row.start_offset for topic in rows for row in topic.partitions}


def test_syn15_the_start_offsets_of_the_source_make_the_group_and_its_state_here(bench: SyncBench, source: SourceDouble) -> None:
    source.groups = {"g": share_group(t0=7, t1=9), "h": share_group(coordinator=11, t0=3), "classic": SourceGroupDouble({T0: (5, "")})}
    assert bench.cycle() == {}
    assert (starts(bench), starts(bench, "h")) == ({0: 7, 1: 9}, {0: 3})
    listed = bench.groups.harness.shard.groups.list_groups([], [])
    assert sorted((group.group_id, group.group_type) for group in listed) == [("classic", "classic"), ("g", "share"), ("h", "share")]
    assert [group for group, _ in bench.groups.commits] == ["classic"]


def test_syn15_b37_a_group_is_copied_in_whatever_state_and_follows_the_source_also_down(bench: SyncBench, source: SourceDouble) -> None:
    source.groups["g"] = share_group(t0=7)
    source.groups["g"].state = "Empty"
    bench.cycle()
    source.groups["g"].offsets[T0] = (2, "")
    bench.cycle()
    assert starts(bench) == {0: 2}


def test_syn15_cfg3_only_included_groups(bench: SyncBench, source: SourceDouble) -> None:
    bench.alter_mirror("m", mirror_groups_include="app-.*, g")
    source.groups = {name: share_group(t0=7) for name in ("app-1", "my-app-1", "g", "g-2")}
    assert bench.cycle() == {}
    listed = bench.groups.harness.shard.groups.list_groups([], [])
    assert sorted(group.group_id for group in listed) == ["app-1", "g"]


def test_syn15_nothing_is_altered_when_nothing_differs(bench: SyncBench, source: SourceDouble) -> None:
    source.groups["g"] = share_group(t0=7)
    bench.cycle()
    records = len(bench.groups.harness.log)
    bench.cycle(times=3)
    assert len(bench.groups.harness.log) == records


def test_syn15_a_start_that_the_source_does_not_know_yet_is_left_alone(bench: SyncBench, source: SourceDouble) -> None:
    source.groups["g"] = share_group(t0=-1, t1=4)
    bench.cycle()
    assert starts(bench) == {1: 4}


def test_syn15_a_start_that_is_not_told_here_is_not_set_again_and_again(bench: SyncBench, source: SourceDouble) -> None:
    """Without a leader of the partition its lag is not known, and the coordinator tells an error in
    the place of the offset.
    """
    source.groups["g"] = share_group(t0=7, t1=8)
    bench.cycle()
    bench.share.ends[T0] = EndOffset(-1, Errors.NOT_LEADER_OR_FOLLOWER)
    source.groups["g"].offsets = {T0: (9, ""), T1: (9, "")}
    assert bench.cycle() == {}
    del bench.share.ends[T0]
    assert starts(bench) == {0: 7, 1: 9}
    bench.cycle()
    assert starts(bench) == {0: 9, 1: 9}


@pytest.mark.parametrize("highest", [{ApiKeys.DESCRIBE_SHARE_GROUP_OFFSETS: -1}, {ApiKeys.LIST_GROUPS: 4}])
def test_syn15_upg6_a_source_without_share_groups_is_skipped_without_an_error(
    bench: SyncBench, source: SourceDouble, highest: dict[ApiKeys, int]
) -> None:
    source.groups = {"g": share_group(t0=7), "classic": SourceGroupDouble({T0: (5, "")})}
    source.highest = highest
    assert bench.cycle() == {}
    assert bench.groups.offset("classic", "t") == (5, -1, "")
    assert starts(bench) == {}


def test_syn15_nothing_is_asked_while_share_groups_are_off_here(bench: SyncBench, source: SourceDouble) -> None:
    bench.share_version = 0
    source.groups["g"] = share_group(t0=7)
    assert bench.cycle() == {}
    assert source.asked_for(ApiKeys.DESCRIBE_SHARE_GROUP_OFFSETS) == []


def test_syn15_syn19_only_included_groups_as_the_filter_is_now(bench: SyncBench, source: SourceDouble) -> None:
    bench.alter_mirror("m", mirror_groups_include="app-.*")
    source.groups = {"app-1": share_group(t0=1), "g": share_group(t0=2)}
    bench.cycle()
    assert (starts(bench, "app-1"), starts(bench)) == ({0: 1}, {})
    bench.alter_mirror("m", mirror_groups_include="g")
    bench.cycle()
    assert starts(bench) == {0: 2}


@pytest.mark.parametrize("state", [MirrorPartitionState.STOPPED, MirrorPartitionState.FAILED, MirrorPartitionState.PREPARING])
def test_syn15_syn18_only_partitions_that_are_mirroring(bench: SyncBench, source: SourceDouble, state: MirrorPartitionState) -> None:
    bench.states[T0] = state
    bench.topic("idle", 1, mirror="m.paused")
    source.topic("idle")
    source.groups["g"] = share_group(t0=7, t1=8, idle0=1)
    bench.cycle()
    assert starts(bench) == {1: 8}


def test_syn15_a_group_with_members_here_keeps_what_it_has(bench: SyncBench, source: SourceDouble) -> None:
    source.groups["g"] = share_group(t0=7)
    bench.cycle()
    group = bench.groups.harness.shard.groups.groups.share_group("g")
    group.members["m"] = ShareGroupMember("m")
    source.groups["g"].offsets[T0] = (9, "")
    assert bench.cycle() == {}
    assert starts(bench) == {0: 7}


def test_syn16_fm13_a_share_group_whose_id_another_kind_of_group_has_here_fails_alone(bench: SyncBench, source: SourceDouble) -> None:
    source.groups["taken"] = SourceGroupDouble({T0: (5, "")})
    bench.cycle()
    source.groups["taken"] = share_group(t0=7)
    source.groups["zz"] = share_group(t0=8)
    assert bench.cycle() == {"group_offset": 1}
    assert starts(bench, "zz") == {0: 8}
    assert bench.groups.offset("taken", "t") == (5, -1, "")


def test_syn16_fm13_a_classic_group_whose_id_a_share_group_has_here_fails_alone(bench: SyncBench, source: SourceDouble) -> None:
    source.groups["g"] = share_group(t0=7)
    bench.cycle()
    source.groups["g"] = SourceGroupDouble({T0: (5, "")})
    source.groups["zz"] = SourceGroupDouble({T0: (6, "")})
    assert bench.cycle() == {"group_offset": 1}
    assert bench.groups.offset("g", "t") is None
    assert bench.groups.offset("zz", "t") == (6, -1, "")
    assert starts(bench) == {0: 7}


def test_syn15_met14_errors_are_counted_once_a_cycle_and_the_rest_goes_on(bench: SyncBench, source: SourceDouble) -> None:
    source.groups = {name: share_group(t0=7, t1=8) for name in ("a", "b")}
    source.groups["b"].error = Errors.COORDINATOR_LOAD_IN_PROGRESS
    bench.share.persister.refuse[1] = Errors.FENCED_STATE_EPOCH
    assert bench.cycle() == {"group_offset": 1}
    assert bench.share.persister.states["a"] == {bench.share.image.topic_id("t"): {0: InitialState(1, 7)}}
    bench.share.persister.refuse.clear()
    source.groups["b"].error = Errors.NONE
    assert bench.cycle() == {}
    assert (starts(bench, "a"), starts(bench, "b")) == ({0: 7, 1: 8}, {0: 7, 1: 8})
