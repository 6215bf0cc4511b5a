"""Config sync as a pure function (C16, C17, SYN6), and configs of a source that are not valid
here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from support.mirrors.mirror_sync_doubles import SyncBench
from support.mirrors.source_double import SourceDouble, SourceGroupDouble

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.mirror.sync.config_sync import compare_configs, excluded_properties
from kmirror.mirror.topic_creation import create_missing_topics
from kmirror.wire.messages import create_topics

DEFAULT = excluded_properties({})


def test_differences_are_set_and_local_extras_deleted() -> None:
    source = {"retention.ms": "1", "cleanup.policy": "compact"}
    local = {"retention.ms": "2", "segment.ms": "9"}
    assert compare_configs(source, local, DEFAULT).changes == {"retention.ms": "1", "cleanup.policy": "compact", "segment.ms": None}


def test_excluded_properties_are_neither_set_nor_deleted() -> None:
    assert compare_configs({"min.insync.replicas": "3"}, {"unclean.leader.election.enable": "true"}, DEFAULT).changes == {}


def test_c16_mirror_configs_are_always_excluded() -> None:
    local = {"mirror.name": "m", "mirror.replication.throttled.replicas": "*", "mirror.support.unclean.leader.election": "true"}
    assert compare_configs({"mirror.name": "theirs"}, local, excluded_properties({"mirror.topic.properties.exclude": "x"})).changes == {}


def test_own_patterns_replace_the_default_and_match_whole_names() -> None:
    pattern = excluded_properties({"mirror.topic.properties.exclude": ".*throttled.*, retention"})
    source = {"leader.replication.throttled.replicas": "*", "retention.ms": "5", "min.insync.replicas": "2"}
    assert compare_configs(source, {}, pattern).changes == {"retention.ms": "5", "min.insync.replicas": "2"}


def test_empty_exclude_list_excludes_nothing() -> None:
    assert compare_configs({"retention.ms": "5"}, {}, excluded_properties({"mirror.topic.properties.exclude": ""})).changes == {
        "retention.ms": "5"
    }


# --- values that are not valid here

ODD = {"segment.bytes": "524288", "remote.storage.enable": "true", "compression.type": "brotli", "min.cleanable.dirty.ratio": "none"}
"""Of a Kafka before 4.0, of a tiered topic, of a broker to come, and of none."""


@pytest.fixture
def bench() -> Iterator[SyncBench]:
    made = SyncBench()
    yield made
    made.close()


def test_a_value_that_is_not_valid_here_kept_the_topics_other_configs_away(bench: SyncBench, caplog: pytest.LogCaptureFixture) -> None:
    source = bench.make_mirror("m", SourceDouble())
    for name in ("t", "u"):
        source.topic(name).configs = {**ODD, "retention.ms": "5"}
        bench.topic(name, mirror="m", segment_bytes="2097152", segment_ms="9")
    with caplog.at_level(logging.WARNING):
        assert bench.cycle(times=3) == {}
    assert bench.configs("t") == bench.configs("u") == {"retention.ms": "5", "segment.bytes": "2097152"}
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == len(ODD)
    assert "mirror m: topic config segment.bytes=524288 of the source (topic t) is not copied: " in told[0]
    assert "Value must be at least 1048576" in told[0]


@pytest.mark.parametrize("state", [MirrorPartitionState.FAILED, Errors.COORDINATOR_NOT_AVAILABLE])
def test_a_topic_that_failed_took_the_retention_of_the_sources_new_topic(bench: SyncBench, state: MirrorPartitionState | Errors) -> None:
    """A source without topic ids has another topic of the name, whose retention would delete the
    copy that a FAILED partition keeps (D1).
    """
    source = bench.make_mirror("m", SourceDouble())
    for name in ("t", "u"):
        source.topic(name)
        bench.topic(name, 2, mirror="m", retention_ms="-1")
    bench.states[TopicPartition("t", 1)] = state
    bench.cycle()
    assert (bench.configs("t"), bench.configs("u")) == ({"retention.ms": "-1"}, {})
    bench.states[TopicPartition("t", 1)] = MirrorPartitionState.MIRRORING
    bench.cycle()
    assert bench.configs("t") == {}


def test_a_tiered_source_topic_could_not_be_made_here(bench: SyncBench) -> None:
    """The records that are local at the source are mirrored (FEA11)."""
    source = bench.make_mirror("m", SourceDouble())
    source.topic("t").configs = {**ODD, "cleanup.policy": "delete"}

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
    errors = bench.run(create_missing_topics(manager, bench.runtime, bench, "m", ["t"], timeout_ms=1_000))
    (made,) = [topic for request in bench.requests if isinstance(request, create_topics.CreateTopicsRequest) for topic in request.topics]
    assert (errors, [(config.name, config.value) for config in made.configs]) == ({}, [("cleanup.policy", "delete")])


def test_a_value_that_contradicts_what_holds_here_kept_the_topics_other_configs_away() -> None:
    """min.compaction.lag.ms may not exceed max.compaction.lag.ms, which may be lower here: by the
    brokers' default, or by an excluded config.
    """
    source = {"min.compaction.lag.ms": "7200000", "retention.ms": "5"}
    found = compare_configs(source, {}, DEFAULT, {"max.compaction.lag.ms": "3600000"})
    assert found.changes == {"retention.ms": "5"}
    assert [(left_out.name, left_out.value) for left_out in found.left_out] == [("min.compaction.lag.ms", "7200000")]
    assert "min.compaction.lag.ms (7200000) > max.compaction.lag.ms (3600000)" in found.left_out[0].problem
    excluded = excluded_properties({"mirror.topic.properties.exclude": "max.compaction.*"})
    assert compare_configs(source, {"max.compaction.lag.ms": "9"}, excluded).changes == {"retention.ms": "5"}
    both = source | {"max.compaction.lag.ms": "7200001"}
    assert compare_configs(both, {"max.compaction.lag.ms": "9"}, DEFAULT, {"max.compaction.lag.ms": "3600000"}).changes == both


def test_an_excluded_value_is_not_told_of(bench: SyncBench, caplog: pytest.LogCaptureFixture) -> None:
    source = bench.make_mirror("m", SourceDouble(), mirror_topic_properties_exclude=".*")
    source.topic("t").configs = dict(ODD)
    bench.topic("t", mirror="m")
    with caplog.at_level(logging.WARNING):
        assert bench.cycle() == {}
    assert caplog.records == []


# --- answers that do not fit the question


def changing(source: SourceDouble, name: str, change: Callable[[Any], None]) -> None:
    """Changes the source's answers in this method."""
    answer = getattr(source, name)

    def changed(*request: Any) -> Any:
        response = answer(*request)
        change(response)
        return response

    setattr(source, name, changed)


def test_offsets_of_a_group_that_was_not_asked_for_were_committed(bench: SyncBench) -> None:
    source = bench.make_mirror("m", SourceDouble(), mirror_groups_include="asked.*")
    source.topic("t")
    bench.topic("t", mirror="m")
    for name in ("asked", "asked-too"):
        source.groups[name] = SourceGroupDouble({TopicPartition("t", 0): (7, "")})

    def rename(response: Any) -> None:
        response.groups[1].group_id = "private"

    changing(source, "_offset_fetch", rename)
    assert bench.cycle() == {"group_offset": 1}
    assert [group for group, _ in bench.groups.commits] == ["asked"]


def test_a_topic_that_an_answer_leaves_out_was_taken_for_well(bench: SyncBench, caplog: pytest.LogCaptureFixture) -> None:
    source = bench.make_mirror("m", SourceDouble())
    for name in ("t", "u"):
        source.topic(name, retention_ms="5")
        bench.topic(name, mirror="m", segment_ms="9")
    changing(source, "_configs", lambda response: response.results.pop(0))
    with caplog.at_level(logging.WARNING):
        assert bench.cycle() == {"topic_config": 1}
    assert (bench.configs("t"), bench.configs("u")) == ({"segment.ms": "9"}, {"retention.ms": "5"})
    assert [record.getMessage() for record in caplog.records] == [
        "mirror m, topic_config: configs of source topic t: the response lacks the topic"
    ]


def test_a_condition_that_lasts_was_told_in_every_refresh_cycle(bench: SyncBench, caplog: pytest.LogCaptureFixture) -> None:
    """Once, a source without an authorizer was two lines a minute, for ever."""
    source = bench.make_mirror("m", SourceDouble())
    source.topic("t", retention_ms="5")
    bench.topic("t", mirror="m")
    caplog.set_level(logging.INFO)
    missing = [True]
    changing(source, "_configs", lambda response: response.results.pop(0) if missing else None)
    for _ in range(20):
        bench.cycle()
    told = [record for record in caplog.records if "topic_config" in record.getMessage()]
    assert [record.levelname for record in told] == ["WARNING"]
    missing.clear()
    for _ in range(3):
        bench.cycle()
    told = [record for record in caplog.records if "topic_config" in record.getMessage()]
    assert [record.levelname for record in told] == ["WARNING", "INFO"]
    assert "over after" in told[1].getMessage() and "the response lacks the topic" in told[1].getMessage()


def test_two_steps_that_share_a_gauge_told_the_same_failure_in_every_cycle(bench: SyncBench, caplog: pytest.LogCaptureFixture) -> None:
    """The offsets of groups and of share groups count as one: what is well with the one said
    nothing of the other.
    """
    source = bench.make_mirror("m", SourceDouble(), mirror_groups_include="asked.*")
    source.topic("t")
    bench.topic("t", mirror="m")
    for name in ("asked", "asked-too"):
        source.groups[name] = SourceGroupDouble({TopicPartition("t", 0): (7, "")})

    def rename(response: Any) -> None:
        response.groups[1].group_id = "private"

    changing(source, "_offset_fetch", rename)
    caplog.set_level(logging.INFO)
    for _ in range(10):
        bench.cycle()
    told = [record.levelname for record in caplog.records if "group_offset" in record.getMessage()]
    assert told == ["WARNING"]
