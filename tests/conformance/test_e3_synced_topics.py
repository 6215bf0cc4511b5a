"""The rules of topic sync, as far as one broker shows them (E3, SYN1 to SYN7): who syncs, which source
it is, and what becomes of topics. A scripted source, the real steps.

Whole clusters are in test_e14_synced_clusters.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from support.mirrors.mirror_sync_doubles import BROKER_ID, INTERVAL_MS, SyncBench
from support.mirrors.source_double import SourceDouble, SourceGroupDouble
from support.mirrors.synced_things import T0, LedPartition, acl

from kmirror.common.errors import Errors
from kmirror.common.uuid import Uuid
from kmirror.metadata.delta import MetadataDelta
from kmirror.mirror.topic_creation import create_missing_topics
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages import create_partitions, create_topics, incremental_alter_configs
from kmirror.wire.messages.config_record import ConfigRecord


@pytest.mark.item("B35")
def test_syn1_only_the_owner_syncs_and_leaders_still_look(bench: SyncBench, source: SourceDouble) -> None:
    source.topics["t"].configs = {"retention.ms": "5"}
    bench.owner = BROKER_ID + 1
    bench.cycle()
    assert (source.asked, bench.requests) == ([], [])
    bench.led["m"] = [LedPartition("t")]
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


def create(bench: SyncBench, *names: str) -> tuple[dict[str, Errors], list[create_topics.CreatableTopic]]:
    """Add topics that are not here to mirror m: the errors, and what the controller was asked to
    create.
    """

    async def read(partitions: Any) -> dict[Any, Any]:
        return {}

    states = SimpleNamespace(read=read)
    manager: Any = SimpleNamespace(
        image=bench.image,
        mirror=bench.mirror,
        states=states,
        mirror_partitions=lambda mirror, names: names,
        topic_configs=bench.topic_configs,
    )
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
    led = LedPartition("t")
    bench.led["m"] = [led]
    bench.cycle()
    gone = source.topics.pop("t")
    bench.cycle()
    source.topics["t"] = gone
    bench.cycle()
    assert "deleted" not in led.events
    del source.topics["t"]
    assert bench.cycle(times=2) == {}
    assert led.events.count("deleted") == 1


def test_d3_22_another_topic_in_the_place_of_a_missing_one_is_not_ours_come_back(bench: SyncBench, source: SourceDouble) -> None:
    led = LedPartition("t")
    bench.led["m"] = [led]
    ours = source.topics.pop("t")
    bench.cycle()
    source.topic("t").id = Uuid(b"\x07" * 16)
    assert "deleted" not in led.events
    bench.cycle()
    assert led.events.count("deleted") == 1
    bench.cycle()
    assert "present" not in led.events
    source.topics["t"] = ours
    bench.cycle()
    assert led.events[-2:] == ["present", "refresh"]


def test_d3_22_another_id_alone_is_no_deletion(bench: SyncBench, source: SourceDouble) -> None:
    """A source without topic ids gets some when it is upgraded.

    A mirrored partition handles another id by itself (D3-16).
    """
    led = LedPartition("t")
    bench.led["m"] = [led]
    source.topics["t"].id = Uuid.ZERO
    bench.cycle()
    assert led.events == ["present", "refresh"]
    source.topics["t"].id = Uuid(b"\x07" * 16)
    bench.cycle(times=3)
    assert "deleted" not in led.events


def test_syn7_a_topic_that_may_not_be_seen_is_not_a_deleted_one(bench: SyncBench, source: SourceDouble) -> None:
    led = LedPartition("t")
    bench.led["m"] = [led]
    source.topics["t"].error = Errors.TOPIC_AUTHORIZATION_FAILED
    assert bench.cycle(times=4) == {"metadata_refresh": 4}
    assert "deleted" not in led.events


def test_d3_22_a_refresh_that_may_not_see_the_topic_is_between_two_that_do_not_find_it(bench: SyncBench, source: SourceDouble) -> None:
    led = LedPartition("t")
    bench.led["m"] = [led]
    topic = source.topics.pop("t")
    bench.cycle()
    source.topics["t"] = topic
    topic.error = Errors.TOPIC_AUTHORIZATION_FAILED
    bench.cycle()
    del source.topics["t"]
    bench.cycle()
    assert "deleted" not in led.events
    bench.cycle()
    assert led.events.count("deleted") == 1


def test_syn6_a_topic_that_was_made_anew_at_the_source_is_none_of_ours(bench: SyncBench, source: SourceDouble) -> None:
    source.topics["t"].id = Uuid(b"\x07" * 16)
    source.topics["t"].configs = {"retention.ms": "5"}
    source.topics["t"].partitions = 4
    bench.cycle()
    assert (bench.configs("t"), len(bench.image().topics.by_name["t"].partitions)) == ({}, 2)
    source.topics["t"].id = Uuid.ZERO
    bench.cycle()
    assert (bench.configs("t"), len(bench.image().topics.by_name["t"].partitions)) == ({"retention.ms": "5"}, 4)


def test_d3_16_logins_that_fail_are_counted_and_fail_nothing(bench: SyncBench, source: SourceDouble) -> None:
    """They failed what was being mirrored after two intervals, and the way out of FAILED copied
    everything again.
    """
    led = LedPartition("t")
    bench.led["m"] = [led]
    bench.start()
    bench.run_for_ms(INTERVAL_MS + 1_000)
    source.refuses_login = True
    bench.run_for_ms(10 * INTERVAL_MS)
    assert bench.manager.errors.metadata_refresh == 10
    assert not any(event.startswith("rejected") for event in led.events)
