"""Hazards of metadata sync (section C): what is synced, what is never touched, and what counts as a
failure.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest
from support.brokers.metadata_doubles import ControllerDouble
from support.mirrors.mirror_sync_doubles import BROKER_ID, INTERVAL_MS, SyncBench
from support.mirrors.source_double import SourceDouble, SourceGroupDouble

from kmirror.common.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.metadata.image import StandardAcl
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages import create_acls, delete_acls
from kmirror.wire.messages import create_mirror as messages
from kmirror.wire.messages import incremental_alter_configs as alter
from kmirror.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def rule(
    name: str,
    user: str = "alice",
    *,
    kind: ResourceType = ResourceType.TOPIC,
    pattern: PatternType = PatternType.LITERAL,
    operation: AclOperation = AclOperation.READ,
) -> StandardAcl:
    return StandardAcl(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)


# --- ACLs (C15)


def test_c15_local_rules_survive_and_a_rule_that_goes_at_the_source_goes_here(bench: SyncBench, source: SourceDouble) -> None:
    local = {
        rule("other"),
        rule("t", pattern=PatternType.PREFIXED),
        rule("g", kind=ResourceType.GROUP),
        rule("kafka-cluster", kind=ResourceType.CLUSTER, operation=AclOperation.ALTER),
    }
    bench.add_acls(*local)
    synced = {rule("t", "bob"), rule("app-", "bob", kind=ResourceType.GROUP, pattern=PatternType.PREFIXED)}
    source.acls = set(synced)
    assert bench.cycle() == {}
    assert bench.acls == local | synced
    source.acls = set()
    assert bench.cycle(times=3) == {}
    assert bench.acls == local


def test_c15_a_rule_on_a_mirrored_topic_that_the_source_does_not_have_goes(bench: SyncBench, source: SourceDouble) -> None:
    bench.add_acls(rule("t", "mallory"), rule("t", "kept", operation=AclOperation.WRITE))
    bench.alter_mirror("m", mirror_acl_include="TOPIC;*;READ")
    bench.cycle()
    assert bench.acls == {rule("t", "kept", operation=AclOperation.WRITE)}


@pytest.mark.parametrize("kind", [ResourceType.CLUSTER, ResourceType.CLUSTER_MIRROR, ResourceType.DELEGATION_TOKEN, ResourceType.USER])
def test_c15_rules_on_cluster_mirrors_tokens_and_users_are_created_but_never_deleted(
    bench: SyncBench, source: SourceDouble, kind: ResourceType
) -> None:
    source.acls = {rule("x", kind=kind, operation=AclOperation.DESCRIBE)}
    bench.cycle()
    assert bench.acls == source.acls
    source.acls = set()
    bench.cycle(times=2)
    assert bench.acls == {rule("x", kind=kind, operation=AclOperation.DESCRIBE)}


def test_c15_what_an_owner_saw_ends_with_its_ownership(bench: SyncBench, source: SourceDouble) -> None:
    """A rule that goes at the source meanwhile looks like one of this cluster's own, which must
    survive; one on the mirror's topic does not.
    """
    of_topic, of_group = rule("t", "bob"), rule("app-", "bob", kind=ResourceType.GROUP, pattern=PatternType.PREFIXED)
    source.acls = {of_topic, of_group}
    bench.cycle()
    bench.owner = BROKER_ID + 1
    bench.cycle()
    source.acls = set()
    bench.owner = BROKER_ID
    assert bench.cycle(times=2) == {}
    assert bench.acls == {of_group}
    source.acls = {of_group}
    bench.cycle()
    source.acls = set()
    bench.cycle()
    assert bench.acls == set(), "seen by this owner, and gone"


def test_c15_rules_of_another_mirror_survive(bench: SyncBench, source: SourceDouble) -> None:
    other = bench.make_mirror("n", SourceDouble("OTHER"))
    other.topic("u")
    bench.topic("u", mirror="n")
    source.acls, other.acls = {rule("t")}, {rule("u"), rule("g", kind=ResourceType.GROUP)}
    for _ in range(3):
        assert (bench.cycle("m"), bench.cycle("n")) == ({}, {})
    assert bench.acls == source.acls | other.acls
    assert len([request for request in bench.requests if isinstance(request, delete_acls.DeleteAclsRequest)]) == 0


def test_c15_a_deletion_that_was_refused_is_tried_again(bench: SyncBench, source: SourceDouble) -> None:
    source.acls = {rule("app")}
    bench.cycle()
    source.acls = set()
    bench.refuse["app"] = Errors.UNKNOWN_SERVER_ERROR
    assert bench.cycle() == {"acl": 1}
    bench.refuse.clear()
    assert bench.cycle() == {}
    assert bench.acls == set()


# --- topic configs (C16, C17)


def test_c16_mirror_configs_of_topics_survive_a_cycle(bench: SyncBench, source: SourceDouble) -> None:
    own = {"mirror.replication.throttled.replicas": "*", "mirror.support.unclean.leader.election": "true"}
    for name, value in own.items():
        bench.set_config("t", name, value)
    source.topics["t"].configs = {"mirror.replication.throttled.replicas": "0:1", "mirror.name": "theirs", "retention.ms": "5"}
    bench.alter_mirror("m", mirror_topic_properties_exclude="retention.bytes")
    assert bench.cycle() == {}
    assert bench.configs("t") == own | {"retention.ms": "5"}


def test_c17_an_override_that_is_removed_there_is_removed_here_and_defaults_that_only_tune_stay_there(
    bench: SyncBench, source: SourceDouble
) -> None:
    source.defaults = {"flush.ms": "1000", "retention.ms": "604800000"}
    source.topics["t"].configs = {"retention.ms": "5"}
    bench.cycle()
    assert bench.configs("t") == {"retention.ms": "5"}
    source.topics["t"].configs = {}
    bench.cycle()
    assert bench.configs("t") == {}


def test_c16_a_topic_that_was_stopped_while_the_source_answered_keeps_its_configs_and_rules(bench: SyncBench, source: SourceDouble) -> None:
    """The cycle began while it was mirrored; what its operators have set since is theirs (SYN18)."""
    source.topics["t"].configs = {"retention.ms": "5"}
    bench.add_acls(rule("t", "ours"))
    answer = source.send

    async def stop_then_answer(host: str, port: int, request: Any, **options: Any) -> Any:
        if ApiKeys(request.API_KEY) in (ApiKeys.DESCRIBE_CONFIGS, ApiKeys.DESCRIBE_ACLS):
            bench.set_config("t", "mirror.name", "m.removed")
        return await answer(host, port, request, **options)

    source.send = stop_then_answer
    bench.set_config("t", "retention.ms", "77")
    assert bench.cycle() == {}
    assert (bench.configs("t"), bench.acls) == ({"retention.ms": "77"}, {rule("t", "ours")})


# --- group offsets (C18, C19)


@pytest.mark.parametrize("state", [state for state in MirrorPartitionState if state is not MirrorPartitionState.MIRRORING])
def test_c18_only_partitions_in_mirroring_get_offsets(bench: SyncBench, source: SourceDouble, state: MirrorPartitionState) -> None:
    source.groups["g"] = SourceGroupDouble({T0: (10, ""), T1: (20, "")})
    bench.states[T1] = state
    assert bench.cycle() == {}
    assert (bench.groups.offset("g", "t", 0), bench.groups.offset("g", "t", 1)) == ((10, -1, ""), None)


def test_c18_offsets_committed_after_a_failover_are_not_overwritten(bench: SyncBench, source: SourceDouble) -> None:
    source.groups["g"] = SourceGroupDouble({T0: (10, "")})
    bench.cycle()
    bench.states[T0] = bench.states[T1] = MirrorPartitionState.STOPPED
    bench.groups.harness.run(bench.groups.harness.shard.offsets.commit(_commit("g", 15), 10, 0))
    source.groups["g"].offsets[T0] = (12, "")
    bench.cycle(times=3)
    assert bench.groups.offset("g", "t") == (15, -1, "")


@pytest.mark.parametrize("kind", ["classic", "share"])
def test_c18_a_coordinator_that_comes_back_after_the_failover_gets_nothing(bench: SyncBench, source: SourceDouble, kind: str) -> None:
    """The commit is tried again while the coordinator loads; what the group has when it has loaded
    may be its own.
    """
    bench.share_version = 1
    source.groups["g"] = SourceGroupDouble({T0: (10, "")}, type="Share" if kind == "share" else "Consumer")
    asked = 0

    async def loading(*arguments: Any, **options: Any) -> Any:
        nonlocal asked
        asked += 1
        bench.states[T0] = MirrorPartitionState.STOPPED
        raise ApiException(Errors.COORDINATOR_LOAD_IN_PROGRESS)

    if kind == "share":
        bench.share.offsets.alter = loading
    else:
        bench.groups.commit_offsets = loading
    assert bench.cycle() == {"group_offset": 1}
    assert asked == 1


def test_c18_a_group_with_members_here_keeps_its_offsets_and_is_no_error(bench: SyncBench, source: SourceDouble) -> None:
    source.groups["g"] = SourceGroupDouble({T0: (10, "")})
    bench.groups.refuse = [Errors.UNKNOWN_MEMBER_ID]
    assert bench.cycle() == {}
    assert bench.groups.offset("g", "t") is None
    assert bench.cycle() == {}
    assert bench.groups.offset("g", "t") == (10, -1, "")


def test_c18_values_are_copied_back_and_forth_without_a_monotonic_filter(bench: SyncBench, source: SourceDouble) -> None:
    group = source.groups["g"] = SourceGroupDouble({T0: (10, "mark")})
    bench.cycle()
    group.offsets[T0] = (3, "again")
    bench.cycle()
    assert bench.groups.offset("g", "t") == (3, -1, "again")


def test_c19_synced_commits_carry_no_leader_epoch(bench: SyncBench, source: SourceDouble) -> None:
    """The source committed in epoch 9."""
    source.groups["g"] = SourceGroupDouble({T0: (10, "mark")})
    bench.cycle()
    assert bench.groups.commits == [("g", {T0: (10, -1, "mark")})]


def _commit(group: str, offset: int) -> OffsetCommitRequest:

    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=-1, topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])]
    )


# --- offsets beyond the end, overlapping filters (C32, C33)


def test_c32_offsets_beyond_the_mirrored_end_are_copied_as_they_are(bench: SyncBench, source: SourceDouble) -> None:
    """Nothing here asks how long the log is: the double has none."""
    source.groups["g"] = SourceGroupDouble({T0: (1 << 40, "")})
    bench.cycle()
    assert bench.groups.offset("g", "t") == (1 << 40, -1, "")


def _create(double: ControllerDouble, name: str, address: str, **configs: str) -> None:
    values = {"bootstrap.servers": address} | {key.replace("_", "."): value for key, value in configs.items()}
    config = [messages.MirrorConfig(name=key, value=value) for key, value in values.items()]
    assert not double.run(double.mirrors.create_mirror(messages.CreateMirrorRequest(mirror_name=name, config=config))).error_code


def _alter(double: ControllerDouble, mirror: str, name: str, value: str) -> None:
    resource = alter.AlterConfigsResource(64, mirror, [alter.AlterableConfig(name, 0, value)])
    response = double.run(double.configuration.incremental_alter_configs(alter.IncrementalAlterConfigsRequest(resources=[resource])))
    assert not response.responses[0].error_code


def test_c33_filters_that_overlap_with_another_sources_are_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    double = ControllerDouble(mirroring=True, mirror_topic_num_partitions=1, mirror_topic_replication_factor=1)
    double.start_brokers(1)

    def warned() -> list[str]:
        texts = [record.getMessage() for record in caplog.records if "will overwrite" in record.getMessage()]
        caplog.clear()
        return texts

    with caplog.at_level(logging.WARNING):
        _create(double, "one", "a:1", mirror_groups_include="orders-.*", mirror_acl_include="TOPIC;orders")
        assert warned() == []
        _create(double, "apart", "b:1", mirror_groups_include="bills-.*", mirror_acl_include="GROUP;*")
        assert warned() == []
        _create(double, "same-source", "a:1")
        assert [text.split(" have ")[0] for text in warned()] == ["mirror same-source and mirror apart"]
        _alter(double, "apart", "mirror.groups.include", "orders-eu,.*-x")
        (text,) = (text for text in warned() if "mirror one " in text)
        assert "mirror.groups.include" in text and "mirror.acl.include" not in text


# --- failed steps are counted (C37)


def test_c37_a_source_without_controller_or_leader_counts_as_a_failed_refresh_once_a_cycle(bench: SyncBench, source: SourceDouble) -> None:
    assert bench.cycle() == {}
    source.topics["t"].leader = -1
    assert bench.cycle() == {"metadata_refresh": 1}
    source.topics["t"].leader, source.controller_id = 10, -1
    assert bench.cycle() == {"metadata_refresh": 1}
    source.topics["t"].leader = -1
    assert bench.cycle() == {"metadata_refresh": 1}
    source.topics["t"].leader, source.controller_id = 10, 10
    assert bench.cycle() == {}


def test_c37_every_failed_step_counts_once_in_its_gauge_and_the_others_go_on(bench: SyncBench, source: SourceDouble) -> None:
    source.topic("u", 1, retention_ms="1").config_error = Errors.TOPIC_AUTHORIZATION_FAILED
    source.topic("v", 1).config_error = Errors.TOPIC_AUTHORIZATION_FAILED
    bench.topic("u", mirror="m")
    bench.topic("v", mirror="m")
    source.topics["t"].configs = {"retention.ms": "5"}
    source.acl_error = Errors.CLUSTER_AUTHORIZATION_FAILED
    source.groups["bad"] = SourceGroupDouble({T0: (1, "")}, error=Errors.GROUP_AUTHORIZATION_FAILED)
    source.groups["good"] = SourceGroupDouble({T0: (2, "")})
    bench.refuse["t"] = Errors.INVALID_PARTITIONS
    source.topics["t"].partitions = 3
    assert bench.cycle() == {"metadata_refresh": 1, "topic_config": 1, "acl": 1, "group_offset": 1}
    assert bench.groups.offset("good", "t") == (2, -1, "")
    bench.refuse.clear()
    assert bench.cycle() == {"topic_config": 1, "acl": 1, "group_offset": 1}
    assert bench.configs("t") == {"retention.ms": "5"}


def test_c37_a_dead_source_counts_once_and_delays_no_other_mirror(bench: SyncBench, source: SourceDouble) -> None:
    other = bench.make_mirror("n", SourceDouble("OTHER"))
    other.topic("u", 2)
    bench.topic("u", 1, mirror="n")
    source.down = {10, 11}
    bench.start()
    bench.run_for_ms(3 * INTERVAL_MS + 1_000)
    assert bench.manager.errors.metadata_refresh == 3
    assert len(other.asked_for(ApiKeys.METADATA)) == 3
    assert len(bench.image().topics.by_name["u"].partitions) == 2


def test_c37_many_failures_of_one_cycle_are_one_count_and_one_line(
    bench: SyncBench, source: SourceDouble, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(200):
        source.groups[f"g{number}"] = SourceGroupDouble({T0: (1, "")}, error=Errors.GROUP_AUTHORIZATION_FAILED)
    with caplog.at_level(logging.WARNING):
        assert bench.cycle() == {"group_offset": 1}
    (line,) = [record.getMessage() for record in caplog.records if "group_offset" in record.getMessage()]
    assert line.startswith("mirror m, group_offset: cannot read the offsets of source group g0: ")
    assert line.count("cannot read the offsets of source group") == 10
    assert line.endswith("; and 190 more")


def test_c37_a_controller_that_refuses_rules_counts_once_however_many(bench: SyncBench, source: SourceDouble) -> None:
    source.acls = {rule("x"), rule("y"), rule("z")}
    bench.refuse = {"x": Errors.INVALID_REQUEST, "y": Errors.INVALID_REQUEST}
    assert bench.cycle() == {"acl": 1}
    assert bench.acls == {rule("z")}
    assert len([request for request in bench.requests if isinstance(request, create_acls.CreateAclsRequest)]) == 1
