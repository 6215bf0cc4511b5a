"""Filters of topics, groups and configs, in Java's regular expressions."""

from __future__ import annotations

import re

import pytest

from kmirror.common.errors import ConfigError
from kmirror.common.java_patterns import compile_pattern
from kmirror.mirrormaker.topic_filters import DefaultConfigPropertyFilter, DefaultGroupFilter, DefaultTopicFilter


def topics(**props: str) -> DefaultTopicFilter:
    return DefaultTopicFilter.from_props({name.replace("_", "."): value for name, value in props.items()})


def test_fi1_a_whole_name_must_match_and_excludes_win() -> None:
    taken = topics(topics="orders, pay.*", topics_exclude="pay-test")
    assert [name for name in ("orders", "orders2", "payments", "pay-test", "xorders") if taken.should_replicate_topic(name)] == [
        "orders",
        "payments",
    ]


def test_fi1_by_default_everything_but_internal_topics_and_replicas_is_taken() -> None:
    default = topics()
    names = ("orders", "mm2-offset-syncs.B.internal", "x.replica", "__consumer_offsets", "connect-offsets.internal")
    assert [name for name in names if default.should_replicate_topic(name)] == ["orders", "connect-offsets.internal"]


def test_fi1_a_blank_list_matches_nothing() -> None:
    assert not topics(topics="").should_replicate_topic("") and not topics(topics=" ").should_replicate_topic("a")
    assert topics(topics_exclude="").should_replicate_topic("__x")


@pytest.mark.parametrize("text", ["a,,b", ",", "a, "])
def test_fi1_an_empty_entry_of_a_list_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape("Configuration 'topics' values must not be empty.")):
        topics(topics=text)


def test_fi2_groups_of_tools_and_connect_are_left_out_by_default() -> None:
    groups = DefaultGroupFilter.from_props({})
    assert [name for name in ("app", "console-consumer-17", "connect-sink", "__x") if groups.should_replicate_group(name)] == ["app"]


def test_fi3_excluded_configs_and_defaults_of_the_source() -> None:
    configs = DefaultConfigPropertyFilter.from_props({})
    assert configs.should_replicate_config_property("retention.ms") and not configs.should_replicate_source_default("retention.ms")
    for name in ("min.insync.replicas", "message.timestamp.type", "unclean.leader.election.enable"):
        assert not configs.should_replicate_config_property(name)
    assert DefaultConfigPropertyFilter.from_props({"use.defaults.from": "source"}).should_replicate_source_default("x")
    assert not DefaultConfigPropertyFilter.from_props({"use.defaults.from": "nowhere"}).should_replicate_source_default("x")


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("logs|(?i)orders.*|pay", ["logs", "ORDERS-1", "Pay"], ["LOGS", "pays"]),
        ("a(?i)b|c", ["aB", "ab", "C"], ["AB"]),
        ("((?i)a)b", ["Ab"], ["aB"]),
        ("(?i:a)b", ["Ab"], ["AB"]),
        ("(?i)a(?-i)b", ["Ab"], ["AB"]),
        (r"\Qa.b*\E.", ["a.b*x"], ["axb*x"]),
        (r"\Qa.b1\E?-[\Q^]\E]", ["a.b-^", "a.b1-]"], ["-^", "axb-]"]),
        (r"\A?a\Z{1}", ["a"], ["aa"]),
        (r"\p{Upper}\p{Digit}+", ["A12"], ["a12"]),
        ("[a-c&&[^b]]+", ["ac"], ["b", "abc"]),
        ("[a[xy]]", ["a", "x"], ["[", "z"]),
        ("[^a[xy]]", ["b"], ["a", "x"]),
        ("[]a]", ["]", "a"], ["b"]),
        (r"[\w&&[^\d]]+", ["ab_"], ["a1"]),
        (r"[\W]", ["-"], ["a"]),
        ("(?<x>a+)-\\k<x>", ["aa-aa"], ["aa-a"]),
        ("a++b", ["aab"], ["aa"]),
        (r"\x41\u0042\x{43}\0104", ["ABCD"], ["abcd"]),
        (r"\d+", ["12"], ["\u0663"]),
        ("x.y", ["x.y", "x-y"], ["x\ny", "x\u2028y"]),
        ("(?s)x.y", ["x\ny"], ["xy"]),
        ("a|", ["a", ""], ["b"]),
        (r"mm2.*\.internal", ["mm2-x.internal"], ["mm2-x-internal"]),
        ("a{2,3}", ["aa", "aaa"], ["a"]),
        ("(?=.*-eu)orders.*", ["orders-eu"], ["orders-us"]),
        ("orders(?!-test).*", ["orders-eu"], ["orders-test"]),
    ],
)
def test_javas_syntax_means_the_same(pattern: str, matching: list[str], other: list[str]) -> None:
    compiled = compile_pattern(pattern, config="topics")
    assert [name for name in matching if compiled.fullmatch(name) is None] == []
    assert [name for name in other if compiled.fullmatch(name) is not None] == []


@pytest.mark.parametrize("pattern", ["a[", "a(", "a)", "*a", "a{", r"\y", r"\p{Nonsense}", "(?x)a", "a\\", "(?P<x>a)", "a**", "[b-a]"])
def test_what_is_no_expression_is_one_clear_line(pattern: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compile_pattern(pattern, config="topics")
    assert str(caught.value).startswith(f"Invalid value {pattern} for configuration topics: ") and "\n" not in str(caught.value)
