"""The rules of group sync, as far as one broker shows them (E3, SYN14 to SYN19), and sources of every
age (UPG6): a scripted source, the real steps.
"""

from __future__ import annotations

import pytest
from support.mirrors.mirror_sync_doubles import INTERVAL_MS, SyncBench
from support.mirrors.source_double import SourceDouble, SourceGroupDouble
from support.mirrors.synced_things import BOB, T0, T1, acl

from kmirror.common.acl import PatternType, ResourceType
from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.metadata.resource_configs import validate_mirror_configs
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.wire.api_keys import ApiKeys


def test_syn14_groups_of_every_kind_and_state_at_every_source_broker(bench: SyncBench, source: SourceDouble) -> None:
    source.groups = {
        "stable": SourceGroupDouble({T0: (1, ""), T1: (2, "note")}),
        "empty": SourceGroupDouble({T0: (3, "")}, state="Empty", coordinator=11),
        "new": SourceGroupDouble({T0: (4, "")}, type="Consumer", coordinator=11),
        "share": SourceGroupDouble({T0: (5, "")}, type="Share"),
        "elsewhere": SourceGroupDouble({TopicPartition("unmirrored", 0): (6, "")}),
    }
    assert bench.cycle() == {}
    assert {group: dict(rows) for group, rows in bench.groups.commits} == {
        "stable": {T0: (1, -1, ""), T1: (2, -1, "note")},
        "empty": {T0: (3, -1, "")},
        "new": {T0: (4, -1, "")},
    }
    assert sorted(source.asked_for(ApiKeys.LIST_GROUPS)) == [10, 11]
    assert sorted(source.asked_for(ApiKeys.OFFSET_FETCH)) == [10, 11]


def test_syn14_only_included_groups(bench: SyncBench, source: SourceDouble) -> None:
    bench.alter_mirror("m", mirror_groups_include="app-.*, billing")
    for name in ("app-1", "my-app-1", "billing", "billing-2"):
        source.groups[name] = SourceGroupDouble({T0: (1, "")})
    bench.cycle()
    assert sorted(group for group, _ in bench.groups.commits) == ["app-1", "billing"]


def test_syn14_cfg3_each_entry_is_a_regex_of_its_own(bench: SyncBench, source: SourceDouble) -> None:
    """Flags, group names and references to groups are allowed, and ended the sync of the mirror for
    good: all entries were joined into one.
    """
    include = r"(?i)APP-.*,(?P<n>a)+,(?P<n>b)+,(x)\1,(y)\1"
    validate_mirror_configs({"bootstrap.servers": "a:1", "mirror.groups.include": include})
    bench.alter_mirror("m", mirror_groups_include=include, mirror_topic_properties_exclude="(?i)RETENTION.*,(?i)segment.MS")
    for name in ("App-1", "aa", "bb", "xx", "yy", "yx", "ab", "AA"):
        source.groups[name] = SourceGroupDouble({T0: (1, "")})
    source.topics["t"].configs = {"retention.ms": "5", "segment.ms": "6", "max.message.bytes": "7"}
    assert bench.cycle() == {}
    assert sorted(group for group, _ in bench.groups.commits) == ["App-1", "aa", "bb", "xx", "yy"]
    assert bench.configs("t") == {"max.message.bytes": "7"}


def test_syn14_all_groups_are_all_groups(bench: SyncBench, source: SourceDouble) -> None:
    """A group id may be any text."""
    for name in ("", "two\nlines", "\u2028", "nul\0", "\U0001f600"):
        source.groups[name] = SourceGroupDouble({T0: (1, "")})
    assert bench.cycle() == {}
    assert sorted(group for group, _ in bench.groups.commits) == sorted(source.groups)


def test_syn1_a_cycle_that_a_program_error_ends_is_not_the_last_one(bench: SyncBench, source: SourceDouble) -> None:
    bench.start()
    found, source.nodes = source.nodes, {}  # (the double has no answer to that but StopIteration)
    bench.run_for_ms(INTERVAL_MS + 1)
    assert len(bench.world.loop.failures) == 1
    bench.world.loop.failures.clear()
    source.nodes = found
    bench.run_for_ms(INTERVAL_MS)
    assert source.asked_for(ApiKeys.METADATA)


def test_syn14_nothing_is_committed_again_until_it_would_expire(bench: SyncBench, source: SourceDouble) -> None:
    """Offsets of a group without members expire here however often its consumers commit the same
    ones at the source.
    """
    source.groups["g"] = SourceGroupDouble({T0: (7, "")})
    bench.cycle(times=5)
    assert len(bench.groups.commits) == 1
    bench.run_for_ms(604_800_000 // 2)
    bench.cycle(times=2)
    assert len(bench.groups.commits) == 2


def test_syn14_an_offset_that_differs_here_is_set_again(bench: SyncBench, source: SourceDouble) -> None:
    source.groups["g"] = SourceGroupDouble({T0: (7, "")})
    bench.cycle()
    shard = bench.groups.harness.shard
    bench.groups.harness.run(shard.delete_groups(["g"]))
    assert bench.groups.offset("g", "t") is None
    bench.cycle()
    assert bench.groups.offset("g", "t") == (7, -1, "")


def test_syn14_a_coordinator_that_is_loading_is_asked_again_in_the_same_cycle(bench: SyncBench, source: SourceDouble) -> None:
    source.groups["g"] = SourceGroupDouble({T0: (7, "")})
    bench.groups.refuse = [Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.NOT_COORDINATOR]
    assert bench.cycle() == {}
    assert bench.groups.offset("g", "t") == (7, -1, "")


def test_syn14_one_dead_source_broker_costs_its_groups_only(bench: SyncBench, source: SourceDouble) -> None:
    source.groups = {"here": SourceGroupDouble({T0: (1, "")}), "there": SourceGroupDouble({T0: (2, "")}, coordinator=11)}
    bench.cycle()
    source.groups["here"].offsets[T0] = (5, "")
    source.groups["there"].error = Errors.COORDINATOR_LOAD_IN_PROGRESS
    assert bench.cycle() == {"group_offset": 1}
    assert bench.groups.offset("here", "t") == (5, -1, "")
    assert bench.groups.offset("there", "t") == (2, -1, "")


KAFKA_2_1 = {ApiKeys.METADATA: 7, ApiKeys.DESCRIBE_CONFIGS: 2, ApiKeys.DESCRIBE_ACLS: 1, ApiKeys.LIST_GROUPS: 2, ApiKeys.OFFSET_FETCH: 5}
KAFKA_2_8 = {ApiKeys.METADATA: 11, ApiKeys.DESCRIBE_CONFIGS: 4, ApiKeys.DESCRIBE_ACLS: 2, ApiKeys.LIST_GROUPS: 4, ApiKeys.OFFSET_FETCH: 7}
KAFKA_3_9 = {ApiKeys.METADATA: 12, ApiKeys.DESCRIBE_CONFIGS: 4, ApiKeys.DESCRIBE_ACLS: 3, ApiKeys.LIST_GROUPS: 5, ApiKeys.OFFSET_FETCH: 9}


@pytest.mark.parametrize("versions", [KAFKA_2_1, KAFKA_2_8, KAFKA_3_9, {}], ids=["2.1", "2.8", "3.9", "4.3"])
def test_upg6_sources_of_every_age_are_synced(bench: SyncBench, source: SourceDouble, versions: dict[ApiKeys, int]) -> None:
    """Requests and answers go through the bytes of these versions.

    Before Metadata v10 there are no topic ids.
    """
    source.highest = dict(versions)
    source.topics["t"].configs = {"retention.ms": "5"}
    source.topics["t"].partitions = 3
    source.acls = {acl(), acl(ResourceType.GROUP, pattern=PatternType.PREFIXED)}
    source.groups = {"a": SourceGroupDouble({T0: (3, "x")}), "b": SourceGroupDouble({T1: (4, "")}, coordinator=11, state="Empty")}
    assert bench.cycle() == {}
    assert (bench.configs("t"), len(bench.image().topics.by_name["t"].partitions)) == ({"retention.ms": "5"}, 3)
    assert bench.acls == source.acls
    assert (bench.groups.offset("a", "t"), bench.groups.offset("b", "t", 1)) == ((3, -1, "x"), (4, -1, ""))


@pytest.mark.parametrize("version", [5, 7, 8, 9])
def test_syn14_upg6_offset_fetch_of_old_and_new_sources(bench: SyncBench, source: SourceDouble, version: int) -> None:
    source.highest = {ApiKeys.OFFSET_FETCH: version, ApiKeys.LIST_GROUPS: 2 if version < 6 else 5}
    for name in ("a", "b"):
        source.groups[name] = SourceGroupDouble({T0: (3, "x")})
    assert bench.cycle() == {}
    assert {group for group, _ in bench.groups.commits} == {"a", "b"}
    assert len(source.asked_for(ApiKeys.OFFSET_FETCH)) == (2 if version < 8 else 1)


@pytest.mark.parametrize("api_key", [ApiKeys.DESCRIBE_CONFIGS, ApiKeys.DESCRIBE_ACLS, ApiKeys.LIST_GROUPS, ApiKeys.OFFSET_FETCH])
def test_upg6_what_the_source_has_no_api_for_is_left_out_without_an_error(bench: SyncBench, source: SourceDouble, api_key: ApiKeys) -> None:
    source.topics["t"].partitions = 3
    source.groups["g"] = SourceGroupDouble({T0: (1, "")})
    source.highest[api_key] = -1
    assert bench.cycle() == {}
    assert len(bench.image().topics.by_name["t"].partitions) == 3


@pytest.mark.item("ERR69")
def test_syn16_fm13_a_group_id_of_another_kind_here_fails_alone_and_is_counted(bench: SyncBench, source: SourceDouble) -> None:
    source.groups = {"taken": SourceGroupDouble({T0: (1, "")}), "zz": SourceGroupDouble({T0: (2, "")})}
    bench.groups.taken = {"taken"}
    assert bench.cycle() == {"group_offset": 1}
    assert sorted(group for group, _ in bench.groups.commits) == ["taken", "zz"]
    assert bench.groups.offset("zz", "t") == (2, -1, "")


def test_syn17_offsets_are_verbatim_also_beyond_the_end(bench: SyncBench, source: SourceDouble) -> None:
    values = {T0: (0, ""), T1: ((1 << 62) + 1, "meta é ☃")}
    source.groups["g"] = SourceGroupDouble(dict(values))
    bench.cycle()
    assert bench.groups.commits == [("g", {tp: (offset, -1, text) for tp, (offset, text) in values.items()})]


@pytest.mark.parametrize("suffix", [".paused", ".removed", ".paused.removed"])
@pytest.mark.item("B48")
def test_syn18_nothing_is_synced_for_paused_and_removed_topics(bench: SyncBench, source: SourceDouble, suffix: str) -> None:
    idle = source.topic("idle", 3, retention_ms="5")
    bench.topic("idle", 1, mirror=f"m{suffix}")
    source.acls = {acl(name="idle", principal=BOB), acl(name="idle", pattern=PatternType.PREFIXED)}
    bench.add_acls(acl(name="idle"))
    source.groups["g"] = SourceGroupDouble({TopicPartition("idle", 0): (4, ""), T0: (5, "")})
    assert bench.cycle() == {}
    assert (bench.configs("idle"), len(bench.image().topics.by_name["idle"].partitions)) == ({}, 1)
    assert bench.acls == {acl(name="idle"), acl(name="idle", pattern=PatternType.PREFIXED)}
    assert bench.groups.commits == [("g", {T0: (5, -1, "")})]
    assert idle.partitions == 3


@pytest.mark.parametrize("state", [MirrorPartitionState.STOPPED, MirrorPartitionState.FAILED])
def test_syn18_no_offsets_for_stopped_and_failed_partitions(bench: SyncBench, source: SourceDouble, state: MirrorPartitionState) -> None:
    bench.states[T0] = state
    source.groups["g"] = SourceGroupDouble({T0: (4, ""), T1: (5, "")})
    bench.cycle()
    assert bench.groups.commits == [("g", {T1: (5, -1, "")})]


def test_syn19_changed_filters_hold_from_the_next_cycle_on(bench: SyncBench, source: SourceDouble) -> None:
    bench.alter_mirror("m", mirror_groups_include="none", mirror_acl_include="GROUP;none", mirror_topic_properties_exclude=".*")
    source.groups["g"] = SourceGroupDouble({T0: (4, "")})
    source.acls = {acl(name="t")}
    source.topics["t"].configs = {"retention.ms": "5"}
    bench.cycle()
    assert (bench.groups.commits, bench.acls, bench.configs("t")) == ([], set(), {})
    bench.alter_mirror("m", mirror_groups_include="g", mirror_acl_include="TOPIC", mirror_topic_properties_exclude="x")
    bench.cycle()
    assert (len(bench.groups.commits), bench.acls, bench.configs("t")) == (1, source.acls, {"retention.ms": "5"})


def test_syn14_the_first_commit_makes_the_offsets_topic(bench: SyncBench, source: SourceDouble) -> None:
    """The reference implementation syncs nothing until a consumer has come to the destination."""
    source.groups["g"] = SourceGroupDouble({T0: (4, "")}, state="Empty")
    assert "__consumer_offsets" not in bench.image().topics.by_name
    assert bench.cycle() == {}
    assert "__consumer_offsets" in bench.image().topics.by_name
    assert bench.groups.offset("g", "t") == (4, -1, "")
