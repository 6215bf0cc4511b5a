"""Config sync as a pure function: C16, C17, SYN6."""

from __future__ import annotations

from kmirror.mirror.config_sync import config_changes, excluded_properties

DEFAULT = excluded_properties({})


def test_differences_are_set_and_local_extras_deleted() -> None:
    source = {"retention.ms": "1", "cleanup.policy": "compact"}
    local = {"retention.ms": "2", "segment.ms": "9"}
    assert config_changes(source, local, DEFAULT) == {"retention.ms": "1", "cleanup.policy": "compact", "segment.ms": None}


def test_excluded_properties_are_neither_set_nor_deleted() -> None:
    assert config_changes({"min.insync.replicas": "3"}, {"unclean.leader.election.enable": "true"}, DEFAULT) == {}


def test_c16_mirror_configs_are_always_excluded() -> None:
    local = {"mirror.name": "m", "mirror.replication.throttled.replicas": "*", "mirror.support.unclean.leader.election": "true"}
    assert config_changes({"mirror.name": "theirs"}, local, excluded_properties({"mirror.topic.properties.exclude": "x"})) == {}


def test_own_patterns_replace_the_default_and_match_whole_names() -> None:
    pattern = excluded_properties({"mirror.topic.properties.exclude": ".*throttled.*, retention"})
    source = {"leader.replication.throttled.replicas": "*", "retention.ms": "5", "min.insync.replicas": "2"}
    assert config_changes(source, {}, pattern) == {"retention.ms": "5", "min.insync.replicas": "2"}


def test_empty_exclude_list_excludes_nothing() -> None:
    assert config_changes({"retention.ms": "5"}, {}, excluded_properties({"mirror.topic.properties.exclude": ""})) == {"retention.ms": "5"}
