"""What a driver's file says that means nothing, or something else than it seems to."""

from __future__ import annotations

import pytest

from kmirror.cli.mm2_converter import convert
from kmirror.mirrormaker.file_warnings import alias_warnings, unmatched_entries
from kmirror.mirrormaker.herder.connector_plan import ConnectorPlan, file_differences
from kmirror.mirrormaker.mirror_maker_config import MirrorMakerConfig, names_of_connectors

FILE = {"clusters": "A, B", "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1", "A->B.enabled": "true", "A->B.topics": "t"}


def warnings(**other: str) -> list[str]:
    return MirrorMakerConfig(FILE | {name.replace("__", "->").replace("_", "."): value for name, value in other.items()}).warnings()


def test_a_sound_file_has_no_warning() -> None:
    sound = {
        "tasks.max": "3", "replication.factor": "1", "B.offset.flush.interval.ms": "100", "A.consumer.fetch.min.bytes": "1",
        "A->B.transforms": "x", "A->B.transforms.x.type": "Filter", "A->B.source.consumer.isolation.level": "read_committed",
        "A->B.sync.group.offsets.enabled": "true", "A->B.kmirror.recreated.topic.policy": "stop", "offset.storage.replication.factor": "1",
        "ssl.protocol": "TLSv1.3", "kmirror.http.listener": ":0", "A->B.topic.creation.default.partitions": "3",
        "A->B.use.defaults.from": "source", "A->B.offset-syncs.topic.location": "target", "B->A.emit.heartbeats.enabled": "false",
    }  # fmt: skip
    assert MirrorMakerConfig(FILE | sound).warnings() == []


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("A->B.topics", "a, b # both", "has a '#' in its value"),
        ("groups", "#none", "has a '#' in its value"),
        ("A->B.enabled", "true ", "switches it off"),
        ("A->C.topics", "a", "not both in clusters = A, B"),
        ("A->B.ssl.protocol", "TLSv1.3", "no client reads it there; set A.ssl.protocol or B.ssl.protocol"),
        ("A->B.offset.flush.interval.ms", "1", "a worker's setting stands with its cluster, B.offset.flush.interval.ms"),
        ("A->B.topcs", "a", "no connector has it"),
        ("C.bootstrap.servers", "c:1", "C is not in clusters = A, B"),
        ("us.east.ssl.truststore.location", "x", "us.east is not in clusters = A, B"),
        ("A.bootstrap.server", "a:1", "did you mean A.bootstrap.servers?"),
        ("B.ssl.trustore.location", "x", "did you mean B.ssl.truststore.location?"),
        ("consumer.fetch.min.bytes", "1", "clients read it behind an alias (A.consumer.fetch.min.bytes)"),
    ],
)
def test_what_means_nothing_is_named(name: str, value: str, said: str) -> None:
    (warning,) = MirrorMakerConfig(FILE | {name: value}).warnings()
    assert said in warning and warning.startswith(name)


def test_from_mm2_notes_a_comment_in_a_list() -> None:
    (flow,) = convert(FILE | {"A->B.topics": "a, b # both"})
    assert [note for note in flow.notes if note.startswith("topics = a, b # both has a '#'")]


@pytest.mark.parametrize(
    "name",
    [
        "listeners.https.ssl.keystore.location", "admin.listeners.https.ssl.key.password", "A.consumer.ssl.truststore.location",
        "A.producer.linger.ms", "A->B.target.producer.security.protocol", "kmirror.http.listener", "config.providers.file.ssl.protocol",
        "A.config.storage.replication.factor", "A.status.storage.partitions", "A.retry.backoff.ms", "A.group.id", "A.plugin.of.mine",
    ],
)  # fmt: skip
def test_what_may_stand_before_a_setting_is_no_alias(name: str) -> None:
    assert not list(alias_warnings({name: "1"}, ["A", "B"], names_of_connectors()))


def test_from_mm2_notes_what_stands_behind_no_clusters_alias() -> None:
    (flow,) = convert(FILE | {"C.bootstrap.servers": "c:1", "A.bootstrap.server": "a:2"})
    assert [note for note in flow.notes if "C is not in clusters" in note] and [note for note in flow.notes if "did you mean" in note]


def test_entries_that_match_nothing_are_found() -> None:
    assert unmatched_entries(["t", "orders.*", "gone", r"\p{Alpha}", "("], ["t", "orders-1"]) == ["gone"]


def test_entries_are_javas_and_flags_hold_for_the_later_ones() -> None:
    """They were read as Python's, one by one: `pay` was said to match nothing, and `[\\p{Digit}]` was not looked at."""
    names = ["ORDERS-1", "PAY"]
    assert unmatched_entries(["gone", "(?i)orders.*", "pay", r"[\p{Digit}]"], names) == ["gone", r"[\p{Digit}]"]
    assert unmatched_entries(["pay", "(?i)orders.*"], names) == ["pay"]


def test_a_file_that_differs_from_the_groups_is_named_without_values() -> None:
    plan = ConnectorPlan("c", {"topics": "a", "secret": "x"}, None, None, 0, True)  # type: ignore[arg-type]
    (line,) = file_differences("A->B", {"c": plan}, {"c": {"topics": "b", "secret": "y", "more": "1"}})
    assert "in more, secret, topics:" in line and "x" not in line.split("secret")[1].split("topics")[0]
    assert file_differences("A->B", {"c": plan}, {"c": dict(plan.properties)}) == []
