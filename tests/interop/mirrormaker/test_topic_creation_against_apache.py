"""`topic.creation.*` of a connector against Apache Kafka's own classes: which group makes a topic, with what, and
what is refused.
"""

from __future__ import annotations

import json
import pathlib
import random
import re

import pytest
from support.mirrormaker.apaches_rules import run_program

from kmirror.common.errors import ConfigError
from kmirror.mirrormaker.topic_creation_groups import topic_creation_groups

pytestmark = pytest.mark.interop

PROGRAM = pathlib.Path(__file__).parent / "TopicCreationGroups.java"
CONNECTOR = {"name": "c", "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector"}
TOPICS = ("", "t", "tt", "A.orders", "A.orders-dead", "parcels", "b.c")
ALIASES = ("big", "small", "b.c", "default", "")
VALUES = {
    "include": (".*", "A\\..*", "t, tt", "t,,parcels", "", "(?i)T", "\\Qb.c\\E", "(", "t|tt"),
    "exclude": (".*-dead", "t", "", "*", "A\\.orders"),
    "replication.factor": ("1", "3", "-1", "-1", "0", "-2", "40000", "x", "", " 2 "),
    "partitions": ("1", "12", "-1", "-1", "0", "-3", "1.5", "3000000000", " 7 "),
    "retention.ms": ("1", " 5 ", ""),
    "cleanup.policy": ("compact",),
}
GOOD = {"topic.creation.default.replication.factor": "1", "topic.creation.default.partitions": "3"}


def random_props(source: random.Random) -> dict[str, str]:
    """Mostly good ones."""
    props = dict(GOOD) if source.random() < 0.93 else dict(source.sample(sorted(GOOD.items()), source.randrange(2)))
    named = source.sample(ALIASES, source.randrange(4)) + (["big"] if source.random() < 0.1 else [])
    if named or source.random() < 0.1:
        props["topic.creation.groups"] = ",".join(named)
    for alias in [*named, *source.sample(ALIASES, 1)]:
        for name in source.sample(sorted(VALUES), source.randrange(4)):
            values = VALUES[name]
            props[f"topic.creation.{alias}.{name}"] = values[int(len(values) * source.random() ** 2)]
    if source.random() < 0.05:
        props = {"topic.creation.enable": "true"} if source.random() < 0.5 else {}
    return props


def ours(props: dict[str, str], enabled: bool) -> dict[str, str]:
    try:
        groups = topic_creation_groups({**CONNECTOR, **props}, is_enabled=enabled)
    except ConfigError as error:
        return {"refused": str(error)}
    if groups is None:
        return dict.fromkeys(TOPICS, "-")
    answer = {}
    for topic in TOPICS:
        group = groups.find_first(topic)
        new = group.new_topic(topic)
        configs = ", ".join(f"{name}={value}" for name, value in sorted(new.configs.items()))
        answer[topic] = f"{group.name} {new.num_partitions} {new.replication_factor} {{{configs}}}"
    return answer


def without_reasons(answer: dict[str, str]) -> dict[str, str]:
    """Java says otherwise than Python what is wrong about a regular expression."""
    return {name: re.sub(r"(Syntax error in regular expression: )[\s\S]*", r"\1", text) for name, text in answer.items()}


def test_each_topic_is_made_as_apaches_classes_say(tmp_path: pathlib.Path) -> None:
    source = random.Random(7)
    cases = [(random_props(source), source.random() < 0.95) for _ in range(3_000)]
    asked = [json.dumps({"props": CONNECTOR | props, "enabled": enabled, "topics": TOPICS}) for props, enabled in cases]
    theirs = [json.loads(answer) for answer in run_program(PROGRAM, tmp_path, asked)]
    wrong = [
        f"{case}\n    {one}\n    {ours(*case)}"
        for case, one in zip(cases, theirs, strict=True)
        if without_reasons(one) != without_reasons(ours(*case))
    ]
    assert not wrong, f"{len(wrong)} of {len(cases)} differ\n" + "\n".join(wrong[:10])
    assert 300 < sum("refused" in one for one in theirs) < 2_000
