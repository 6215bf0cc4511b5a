"""The rules of metadata sync, as far as one broker shows them (E3): a scripted source, the real
steps.

Whole clusters are in test_e14_synced_clusters.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from support.mirrors.mirror_sync_doubles import BROKER_ID, INTERVAL_MS, SourceDouble, SourceGroupDouble, SyncBench, topic_id

from kmirror.common.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from kmirror.common.errors import ApiException, ConfigError, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import StandardAcl
from kmirror.metadata.mirror_filters import acl_rules
from kmirror.metadata.resource_configs import parse_acl_rule, validate_mirror_configs
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.mirror.sync.acl_sync import selected
from kmirror.mirror.topic_creation import create_missing_topics
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages import create_partitions, create_topics, incremental_alter_configs
from kmirror.wire.messages.config_record import ConfigRecord

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Driver:
    """A led partition, as the manager sees it."""

    def __init__(self, topic: str, state: MirrorPartitionState = MirrorPartitionState.MIRRORING) -> None:
        self.id = type("Id", (), {"topic": topic, "topic_id": topic_id(topic)})
        self.status = type("Status", (), {"state": state})
        self.events: list[str] = []

    def on_source_deleted(self) -> None:
        self.events.append("deleted")

    def on_source_present(self) -> None:
        self.events.append("present")

    def on_refresh(self) -> None:
        self.events.append("refresh")

    def on_rejected(self, reason: str) -> None:
        self.events.append(f"rejected: {reason}")


# --- owner, connections, cluster id (SYN1 to SYN3)


@pytest.mark.item("B35")
def test_syn1_only_the_owner_syncs_and_leaders_still_look(bench: SyncBench, source: SourceDouble) -> None:
    source.topics["t"].configs = {"retention.ms": "5"}
    bench.owner = BROKER_ID + 1
    bench.cycle()
    assert (source.asked, bench.requests) == ([], [])
    bench.led["m"] = [Driver("t")]
    bench.cycle()
    assert [key for _, key, _ in source.asked] == [ApiKeys.METADATA]
    assert bench.configs("t") == {}
    bench.owner = BROKER_ID
    bench.cycle()
    assert bench.configs("t") == {"retention.ms": "5"}


def test_syn1_cfg14_a_cycle_every_interval_for_each_mirror(bench: SyncBench, source: SourceDouble) -> None:
    other = bench.make_mirror("n", SourceDouble("OTHER"))
    other.topic("u")
    bench.topic("u", mirror="n")
    bench.start()
    bench.run_for_ms(INTERVAL_MS - 1_000)
    assert source.asked == other.asked == []
    bench.run_for_ms(2 * INTERVAL_MS)
    assert len(source.asked_for(ApiKeys.METADATA)) == len(other.asked_for(ApiKeys.METADATA)) == 2


def test_cfg14_interval_0_runs_a_cycle_only_when_the_mirror_or_its_topics_change() -> None:
    bench = SyncBench(interval_ms=0)
    source = bench.make_mirror("m", SourceDouble())
    source.topic("t")
    bench.topic("t", mirror="m")
    bench.start()
    bench.run_for_ms(10 * INTERVAL_MS)
    assert source.asked == []
    for record in (ConfigRecord(2, "t", "mirror.name", "m"), ConfigRecord(64, "m", "mirror.groups.include", "x")):
        delta = MetadataDelta(bench.image())
        delta.replay(record)
        bench.manager.on_metadata_update(delta, ["m"])
        bench.run_for_ms(INTERVAL_MS)
    unrelated = MetadataDelta(bench.image())
    unrelated.replay(ConfigRecord(2, "t", "retention.ms", "5"))
    bench.manager.on_metadata_update(unrelated, ["m"])
    bench.run_for_ms(INTERVAL_MS)
    assert len(source.asked_for(ApiKeys.METADATA)) == 2
    bench.close()


def test_syn2_one_set_of_connections_per_mirror_made_for_its_first_topic_and_kept(bench: SyncBench) -> None:
    first = bench.make_mirror("m", SourceDouble(), sasl_mechanism="SCRAM-SHA-256")
    second = bench.make_mirror("n", SourceDouble("OTHER"), sasl_mechanism="PLAIN")
    bench.cycle("m")
    assert bench.clients == []
    for name, mirror, source in (("t", "m", first), ("u", "n", second)):
        source.topic(name)
        bench.topic(name, mirror=mirror)
    for _ in range(4):
        bench.cycle("m")
        bench.cycle("n")
    ids = [(client_id, configs["sasl.mechanism"]) for client_id, configs in bench.clients]
    assert ids == [("broker-1-mirror-metadata-manager-m", "SCRAM-SHA-256"), ("broker-1-mirror-metadata-manager-n", "PLAIN")]
    assert (first.closed, second.closed) == (0, 0)


def test_syn3_nothing_is_synced_from_another_cluster_in_any_cycle(bench: SyncBench, source: SourceDouble) -> None:
    bench.cycle()
    source.cluster_id = "REPLACED"
    source.topics["t"].configs = {"retention.ms": "5"}
    source.topics["t"].partitions = 3
    source.groups["g"] = SourceGroupDouble({T0: (1, "")})
    before = len(bench.requests)
    for _ in range(3):
        assert bench.cycle() == {"metadata_refresh": 1}
    assert bench.requests[before:] == [] and bench.groups.commits == []
    source.cluster_id = "SRC"
    assert bench.cycle() == {}
    assert bench.configs("t") == {"retention.ms": "5"}


def test_syn3_c13_nothing_is_synced_from_a_cluster_that_the_mirror_is_pointed_at_in_the_midst_of_a_cycle(
    bench: SyncBench, source: SourceDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its configs were set, and the rules that it does not have deleted, for only the first step's
    connections had been compared.
    """
    source.topics["t"].configs = {"retention.ms": "5"}
    source.acls = {acl(name="t"), acl(name="t", principal="User:b")}
    bench.cycle()
    other = SourceDouble("OTHER")
    other.topic("t", retention_ms="1")
    other.groups["theirs"] = SourceGroupDouble({T0: (1, "")})

    async def point_at_another(cycle: Any) -> list[str]:
        bench.sources["m"] = other
        bench.alter_mirror("m", bootstrap_servers="b:2")
        return []

    steps = bench.manager._steps
    first = SimpleNamespace(gauge=steps[0].gauge, sync=point_at_another, forget=lambda name: None)
    monkeypatch.setattr(bench.manager, "_steps", (first, *steps))
    for grown in ({}, {"metadata_refresh": 1}):
        assert bench.cycle() == grown
        assert (bench.configs("t"), bench.acls, bench.groups.commits) == ({"retention.ms": "5"}, source.acls, [])
    assert {key for _, key, _ in other.asked} == {ApiKeys.METADATA}


# --- topics (SYN4 to SYN7)


def create(bench: SyncBench, *names: str) -> tuple[dict[str, Errors], list[create_topics.CreatableTopic]]:
    """Add topics that are not here to mirror m: the errors, and what the controller was asked to
    create.
    """

    async def read(partitions: Any) -> dict[Any, Any]:
        return {}

    states = SimpleNamespace(read=read)
    manager: Any = SimpleNamespace(image=bench.image, mirror=bench.mirror, states=states, mirror_partitions=lambda mirror, names: names)
    errors = bench.run(create_missing_topics(manager, bench.runtime, bench, "m", list(names), timeout_ms=1_000))
    return errors, [
        topic for request in bench.requests if isinstance(request, create_topics.CreateTopicsRequest) for topic in request.topics
    ]


def test_syn4_a_missing_topic_is_made_with_the_sources_id_count_and_configs(bench: SyncBench, source: SourceDouble) -> None:
    source.topic("new", 7, retention_ms="5", min_insync_replicas="3", message_format_version="2.8-IV1")
    errors, (made,) = create(bench, "t", "new")
    assert errors == {}
    assert (made.name, made.num_partitions, made.replication_factor) == ("new", 7, -1)
    assert made.mirror_info is not None and made.mirror_info.topic_id == source.topics["new"].id
    assert [(config.name, config.value) for config in made.configs] == [("retention.ms", "5")]


def test_syn4_b20_a_source_without_topic_ids_gives_a_topic_with_an_id_of_its_own(bench: SyncBench, source: SourceDouble) -> None:
    source.topic("new").id = Uuid.ZERO
    errors, (made,) = create(bench, "new")
    assert (errors, made.mirror_info) == ({}, None)


def test_syn4_b17_what_the_source_does_not_have_or_does_not_say_is_unknown(bench: SyncBench, source: SourceDouble) -> None:
    source.topic("new")
    errors, made = create(bench, "new", "nowhere")
    assert (errors, [topic.name for topic in made]) == ({"nowhere": Errors.UNKNOWN_TOPIC_OR_PARTITION}, ["new"])
    source.down = {10, 11}
    errors, made = create(bench, "unreachable")
    assert (errors, [topic.name for topic in made]) == ({"unreachable": Errors.UNKNOWN_TOPIC_OR_PARTITION}, ["new"])


def test_syn4_syn5_many_partitions_are_asked_for_in_several_requests(bench: SyncBench, source: SourceDouble) -> None:
    """A controller refuses a request for more than 10,000 partitions, and then none of them was
    made.
    """
    names = [f"many-{number:02}" for number in range(25)]
    for name in names:
        source.topic(name, 500)
    errors, made = create(bench, *names)
    requests = [request for request in bench.requests if isinstance(request, create_topics.CreateTopicsRequest)]
    assert (errors, [topic.name for topic in made]) == ({}, names)
    assert max(sum(topic.num_partitions for topic in request.topics) for request in requests) == 1_000
    for name in names:
        bench.topic(name, 1, mirror="m")
    assert bench.cycle() == {}
    assert {len(bench.image().topics.by_name[name].partitions) for name in names} == {500}


def test_syn4_the_controllers_refusal_is_the_topics_error(bench: SyncBench, source: SourceDouble) -> None:
    source.topic("new")
    bench.refuse["new"] = Errors.INVALID_REPLICATION_FACTOR
    assert create(bench, "new")[0] == {"new": Errors.INVALID_REPLICATION_FACTOR}


def test_c13_syn3_an_id_that_could_not_be_stored_is_compared_all_the_same(bench: SyncBench, source: SourceDouble) -> None:
    """The controller does not take it; the next cluster that answers is not the source for that."""
    first = source.cluster_id
    bench.refuse["m"] = Errors.REQUEST_TIMED_OUT
    assert bench.cycle() == {"metadata_refresh": 1}
    bench.refuse.clear()
    source.cluster_id = "impostor"
    source.topics["t"].configs = {"retention.ms": "5"}
    assert bench.cycle(times=2) == {"metadata_refresh": 2}
    assert bench.configs("t") == {} and bench.image().configs.mirror("m").get("source.cluster.id") is None
    source.cluster_id = first
    assert bench.cycle() == {}
    assert bench.configs("t") == {"retention.ms": "5"} and bench.image().configs.mirror("m")["source.cluster.id"] == first


def test_syn3_nothing_is_made_from_another_cluster(bench: SyncBench, source: SourceDouble) -> None:
    bench.cycle()
    source.cluster_id = "REPLACED"
    source.topic("new")
    assert create(bench, "new") == ({"new": Errors.UNKNOWN_TOPIC_OR_PARTITION}, [])


def test_syn5_partitions_grow_to_the_sources_count_and_never_shrink(bench: SyncBench, source: SourceDouble) -> None:
    source.topics["t"].partitions = 5
    bench.cycle()
    assert len(bench.image().topics.by_name["t"].partitions) == 5
    source.topics["t"].partitions = 3
    assert bench.cycle() == {}
    assert len(bench.image().topics.by_name["t"].partitions) == 5
    assert len([request for request in bench.requests if isinstance(request, create_partitions.CreatePartitionsRequest)]) == 1


def test_syn6_configs_are_aligned_in_each_cycle_but_for_the_excluded_ones(bench: SyncBench, source: SourceDouble) -> None:
    source.topics["t"].configs = {"retention.ms": "5", "min.insync.replicas": "3", "cleanup.policy": "compact"}
    bench.cycle()
    assert bench.configs("t") == {"retention.ms": "5", "cleanup.policy": "compact"}
    bench.set_config("t", "retention.ms", "999")
    bench.set_config("t", "segment.ms", "60000")
    bench.set_config("t", "min.insync.replicas", "1")
    bench.cycle()
    assert bench.configs("t") == {"retention.ms": "5", "cleanup.policy": "compact", "min.insync.replicas": "1"}


def test_cfg2_syn6_excluded_properties_are_regexes_for_the_whole_name(bench: SyncBench, source: SourceDouble) -> None:
    bench.alter_mirror("m", mirror_topic_properties_exclude="retention, segment\\..*,cleanup.policy")
    source.topics["t"].configs = {"retention.ms": "5", "segment.ms": "60000", "cleanup.policy": "compact"}
    assert bench.cycle() == {}
    assert bench.configs("t") == {"retention.ms": "5"}


def test_syn6_configs_that_kafka_4_removed_are_left_out_without_an_error(bench: SyncBench, source: SourceDouble) -> None:
    """A 2.8 source's message.format.version made every alteration of the topic fail."""
    source.topics["t"].configs = {"message.format.version": "2.8-IV1", "retention.ms": "5"}
    assert bench.cycle() == {}
    assert bench.configs("t") == {"retention.ms": "5"}


def test_syn6_nothing_is_written_when_nothing_differs(bench: SyncBench, source: SourceDouble) -> None:
    source.topics["t"].configs = {"retention.ms": "5"}
    bench.cycle(times=4)
    about_topics = [
        request
        for request in bench.requests
        if isinstance(request, incremental_alter_configs.IncrementalAlterConfigsRequest) and request.resources[0].resource_type == 2
    ]
    assert len(about_topics) == 1


def test_syn7_fm9_a_topic_counts_as_deleted_after_two_cycles_without_it(bench: SyncBench, source: SourceDouble) -> None:
    driver = Driver("t")
    bench.led["m"] = [driver]
    bench.cycle()
    gone = source.topics.pop("t")
    bench.cycle()
    source.topics["t"] = gone
    bench.cycle()
    assert "deleted" not in driver.events
    del source.topics["t"]
    assert bench.cycle(times=2) == {}
    assert driver.events.count("deleted") == 1


def test_d3_22_another_topic_in_the_place_of_a_missing_one_is_not_ours_come_back(bench: SyncBench, source: SourceDouble) -> None:
    driver = Driver("t")
    bench.led["m"] = [driver]
    ours = source.topics.pop("t")
    bench.cycle()
    source.topic("t").id = Uuid(b"\x07" * 16)
    assert "deleted" not in driver.events
    bench.cycle()
    assert driver.events.count("deleted") == 1
    bench.cycle()
    assert "present" not in driver.events
    source.topics["t"] = ours
    bench.cycle()
    assert driver.events[-2:] == ["present", "refresh"]


def test_d3_22_another_id_alone_is_no_deletion(bench: SyncBench, source: SourceDouble) -> None:
    """A source without topic ids gets some when it is upgraded.

    A mirrored partition handles another id by itself (D3-16).
    """
    driver = Driver("t")
    bench.led["m"] = [driver]
    source.topics["t"].id = Uuid.ZERO
    bench.cycle()
    assert driver.events == ["present", "refresh"]
    source.topics["t"].id = Uuid(b"\x07" * 16)
    bench.cycle(times=3)
    assert "deleted" not in driver.events


def test_syn7_a_topic_that_may_not_be_seen_is_not_a_deleted_one(bench: SyncBench, source: SourceDouble) -> None:
    driver = Driver("t")
    bench.led["m"] = [driver]
    source.topics["t"].error = Errors.TOPIC_AUTHORIZATION_FAILED
    assert bench.cycle(times=4) == {"metadata_refresh": 4}
    assert "deleted" not in driver.events


def test_d3_22_a_refresh_that_may_not_see_the_topic_is_between_two_that_do_not_find_it(bench: SyncBench, source: SourceDouble) -> None:
    driver = Driver("t")
    bench.led["m"] = [driver]
    topic = source.topics.pop("t")
    bench.cycle()
    source.topics["t"] = topic
    topic.error = Errors.TOPIC_AUTHORIZATION_FAILED
    bench.cycle()
    del source.topics["t"]
    bench.cycle()
    assert "deleted" not in driver.events
    bench.cycle()
    assert driver.events.count("deleted") == 1


def test_syn6_a_topic_that_was_made_anew_at_the_source_is_none_of_ours(bench: SyncBench, source: SourceDouble) -> None:
    source.topics["t"].id = Uuid(b"\x07" * 16)
    source.topics["t"].configs = {"retention.ms": "5"}
    source.topics["t"].partitions = 4
    bench.cycle()
    assert (bench.configs("t"), len(bench.image().topics.by_name["t"].partitions)) == ({}, 2)
    source.topics["t"].id = Uuid.ZERO
    bench.cycle()
    assert (bench.configs("t"), len(bench.image().topics.by_name["t"].partitions)) == ({"retention.ms": "5"}, 4)


# --- ACLs (SYN8 to SYN13)


def acl(
    kind: ResourceType = ResourceType.TOPIC,
    name: str = "orders",
    operation: AclOperation = AclOperation.READ,
    permission: AclPermissionType = AclPermissionType.ALLOW,
    principal: str = "User:alice",
    pattern: PatternType = PatternType.LITERAL,
) -> StandardAcl:
    return StandardAcl(kind, name, pattern, principal, "*", operation, permission)


def takes(filter_text: str, *acls: StandardAcl) -> list[bool]:
    rules = acl_rules({"mirror.acl.include": filter_text})
    return [selected(each, rules) for each in acls]


def test_syn8_trailing_fields_may_be_left_out_and_wrong_rules_are_invalid_config() -> None:
    assert parse_acl_rule("TOPIC") == ("TOPIC", None, None, None, None)
    assert parse_acl_rule("TOPIC;;;;") == parse_acl_rule("TOPIC;*;*;*;*") == parse_acl_rule(" topic ; ; * ")
    wrong = ["a;b;c;d;e;f", "TOPICS", "TOPIC;*;FLY", "TOPIC;*;READ;MAYBE", "TOPIC;[", "*;*;*;*;User:(", "UNKNOWN"]
    for text in wrong:
        with pytest.raises(ConfigError):
            parse_acl_rule(text)
        with pytest.raises(ApiException) as caught:
            validate_mirror_configs({"bootstrap.servers": "a:1", "mirror.acl.include": f"*,{text}"})
        assert caught.value.error is Errors.INVALID_CONFIG, text


@pytest.mark.item("B33")
def test_syn9_enums_ignore_case_names_and_principals_are_regexes_for_the_whole_text() -> None:
    assert takes("tOpIc;order.;read;Allow;User:al.*", acl(), acl(name="orders-eu"), acl(name="my-orders")) == [True, False, False]
    assert takes("TOPIC;orders;READ;ALLOW;User:ali", acl()) == [False]
    assert takes("any;*;Any", acl(ResourceType.GROUP)) == [True]
    assert takes("*;*;DESCRIBE_CONFIGS", acl(operation=AclOperation.DESCRIBE_CONFIGS), acl()) == [True, False]
    with pytest.raises(ApiException) as caught:
        validate_mirror_configs({"bootstrap.servers": "a:1", "mirror.acl.include": "TOPIC;a{1,2}"})
    assert caught.value.error is Errors.INVALID_CONFIG


def test_syn10_a_rule_is_synced_if_any_entry_takes_it(bench: SyncBench, source: SourceDouble) -> None:
    bench.alter_mirror("m", mirror_acl_include="GROUP;*;READ , *;*;*;*;User:bob")
    group, of_bob = acl(ResourceType.GROUP, "g"), acl(principal="User:bob")
    source.acls = {group, of_bob, acl()}
    bench.cycle()
    assert bench.acls == {group, of_bob}


ALICE, BOB, APP = "User:alice", "User:bob", "User:app-7"
EXAMPLES = {
    "*": (acl(), acl(ResourceType.CLUSTER, "kafka-cluster", AclOperation.ALTER, AclPermissionType.DENY, BOB)),
    "TOPIC;orders.*": (acl(name="orders-eu", principal=BOB, operation=AclOperation.WRITE),),
    "*;*;*;*;User:alice": (acl(ResourceType.GROUP, "g"), acl()),
    "*;*;*;*;User:app-.*": (acl(principal=APP),),
    "TOPIC;*;READ;ALLOW": (acl(name="x", principal=BOB),),
    "GROUP;consumer-.*;READ;ALLOW;User:bob": (acl(ResourceType.GROUP, "consumer-1", principal=BOB),),
    "TOPIC;orders.*,*;*;*;*;User:alice": (acl(name="orders-eu", principal=BOB), acl(ResourceType.GROUP, "g")),
}
LEFT_OUT = {
    "*": (),
    "TOPIC;orders.*": (acl(ResourceType.GROUP, "orders"), acl(name="my-orders")),
    "*;*;*;*;User:alice": (acl(principal=BOB), acl(principal="User:alice2")),
    "*;*;*;*;User:app-.*": (acl(principal="User:my-app-7"), acl()),
    "TOPIC;*;READ;ALLOW": (acl(permission=AclPermissionType.DENY), acl(operation=AclOperation.WRITE), acl(ResourceType.GROUP)),
    "GROUP;consumer-.*;READ;ALLOW;User:bob": (acl(ResourceType.GROUP, "consumer-1"), acl(ResourceType.GROUP, "other", principal=BOB)),
    "TOPIC;orders.*,*;*;*;*;User:alice": (acl(ResourceType.GROUP, "g", principal=BOB),),
}


@pytest.mark.parametrize("example", EXAMPLES)
def test_syn11_the_examples_of_the_kip_parse_and_select(example: str) -> None:
    validate_mirror_configs({"bootstrap.servers": "a:1", "mirror.acl.include": example})
    assert all(takes(example, *EXAMPLES[example]))
    assert not any(takes(example, *LEFT_OUT[example]))


def test_syn12_missing_rules_are_created_with_their_pattern_type(bench: SyncBench, source: SourceDouble) -> None:
    source.acls = {acl(), acl(pattern=PatternType.PREFIXED), acl(permission=AclPermissionType.DENY, principal=BOB)}
    assert bench.cycle() == {}
    assert bench.acls == source.acls
    requests = len(bench.requests)
    bench.cycle(times=3)
    assert len(bench.requests) == requests


def test_syn13_rules_that_the_filter_does_not_take_are_never_deleted(bench: SyncBench, source: SourceDouble) -> None:
    bench.alter_mirror("m", mirror_acl_include="GROUP")
    local = {acl(name="t"), acl(ResourceType.GROUP, "local")}
    bench.add_acls(*local)
    source.acls = {acl(ResourceType.GROUP, "synced")}
    bench.cycle()
    source.acls = set()
    bench.cycle()
    assert bench.acls == local


def test_syn12_a_cluster_without_an_authorizer_has_nothing_to_do_and_does_not_ask() -> None:
    bench = SyncBench(has_authorizer=False)
    source = bench.make_mirror("m", SourceDouble())
    source.topic("t")
    bench.topic("t", mirror="m")
    source.acls = {acl()}
    assert bench.cycle() == {}
    assert source.asked_for(ApiKeys.DESCRIBE_ACLS) == []
    bench.close()


def test_cfg4_an_empty_filter_takes_no_rule_and_the_source_is_not_asked(bench: SyncBench, source: SourceDouble) -> None:
    """What to set for a source without an authorizer, so that nothing is counted."""
    validate_mirror_configs({"bootstrap.servers": "a:1", "mirror.acl.include": ""})
    source.acl_error = Errors.SECURITY_DISABLED
    assert bench.cycle() == {"acl": 1}
    bench.alter_mirror("m", mirror_acl_include="")
    assert bench.cycle() == {}


@pytest.mark.parametrize("error", [Errors.SECURITY_DISABLED, Errors.CLUSTER_AUTHORIZATION_FAILED])
def test_syn13_a_source_that_does_not_show_its_rules_is_an_error_and_deletes_nothing(
    bench: SyncBench, source: SourceDouble, error: Errors
) -> None:
    source.acls = {acl(name="t")}
    bench.cycle()
    source.acl_error = error
    assert bench.cycle(times=2) == {"acl": 2}
    assert bench.acls == source.acls


# --- groups (SYN14 to SYN19)


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


# --- logins that fail (D3-16)


def test_d3_16_logins_that_fail_are_counted_and_fail_nothing(bench: SyncBench, source: SourceDouble) -> None:
    """They failed what was being mirrored after two intervals, and the way out of FAILED copied
    everything again.
    """
    driver = Driver("t")
    bench.led["m"] = [driver]
    bench.start()
    bench.run_for_ms(INTERVAL_MS + 1_000)
    source.refuses_login = True
    bench.run_for_ms(10 * INTERVAL_MS)
    assert bench.manager.errors.metadata_refresh == 10
    assert not any(event.startswith("rejected") for event in driver.events)
