"""Every config of a broker, a topic, a group and a client-metrics subscription, with its synonyms
and in its place, where units compete: the hours of the properties file, the minutes of the cluster,
the milliseconds of one broker.

Only values that say where a broker runs are left out (`WHERE_THEY_RUN`); their places count.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from harness import Pair, is_mirror_config
from known_differences import is_known
from peer_pairs import COMMON, both
from steps import create_topic
from test_differential_configs import (
    BROKER,
    DELETE,
    GROUP,
    METRICS,
    SET,
    TOPIC,
    await_topic_config,
    describe,
    drop_places,
    incremental,
)

pytestmark = pytest.mark.interop

UNITS = {
    "log.retention.hours": "100",
    "log.retention.minutes": "7000",
    "log.roll.hours": "50",
    "log.roll.jitter.hours": "2",
    "log.flush.scheduler.interval.ms": "70000",
    "log.cleanup.policy": "delete",
    "offsets.topic.segment.bytes": "1048576",
    "group.consumer.session.timeout.ms": "46000",
    "ssl.keystore.password": "of-the-file",
    "listener.name.plaintext.connections.max.reauth.ms": "0",
}

STEPS = {
    "of the file alone": [],
    "of the cluster": [
        (BROKER, "", ("log.retention.minutes", SET, "6000")),
        (BROKER, "", ("log.retention.ms", SET, "300000000")),
        (BROKER, "", ("log.roll.ms", SET, "90000000"), ("log.cleaner.threads", SET, "2")),
        (BROKER, "", ("log.retention.hours", SET, "90")),
        (BROKER, "", ("nobody.knows.either", SET, "2")),
        (BROKER, "", ("message.max.bytes", SET, "200000"), ("max.connections", SET, "900")),
        (BROKER, "", ("log.flush.interval.ms", SET, "80000"), ("min.insync.replicas", SET, "1")),
    ],
    "of the broker": [
        (BROKER, "1", ("log.retention.minutes", SET, "5000")),
        (BROKER, "1", ("log.roll.jitter.ms", SET, "3000"), ("log.cleaner.threads", SET, "1")),
        (BROKER, "1", ("listener.name.plaintext.max.connections", SET, "800")),
        (BROKER, "1", ("listener.name.external.ssl.keystore.type", SET, "PKCS12")),
        (BROKER, "1", ("log.retention.ms", SET, "200000000")),
    ],
    "of topics and groups": [
        (TOPIC, "syn", ("retention.ms", SET, "99"), ("segment.ms", SET, "98000")),
        (GROUP, "g", ("consumer.session.timeout.ms", SET, "47000")),
        (METRICS, "m", ("metrics", SET, "a.,b."), ("match", SET, "client_id=a")),
    ],
    "when the broker's are gone": [
        (BROKER, "1", ("log.retention.ms", DELETE, None)),
        (BROKER, "1", ("log.roll.jitter.ms", DELETE, None)),
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with both(tmp_path_factory.mktemp("units"), COMMON | UNITS) as pair:
        create_topic(pair, "syn", cleanup_policy="compact")
        yield pair


def settle(pair: Pair, number: int) -> None:
    """Waits until both brokers have read what was changed before."""
    pair.same(incremental(BROKER, "", ("log.segment.delete.delay.ms", SET, str(60001 + number))), 1)
    value = str(60001 + number)
    pair.each(lambda side: await_topic_config(side, "syn", "file.delete.delay.ms", value))


def names(pair: Pair, kind: int, name: str) -> list[list[str]]:
    answers = pair.ask(describe(kind, name), 4)
    return [[config.name for config in answer.results[0].configs if not is_mirror_config(config)] for answer in answers]


def test_each_config_has_kafkas_synonyms_and_place(units: Pair) -> None:
    units.report()
    for number, (when, steps) in enumerate(STEPS.items()):
        for step in steps:
            units.same(incremental(*step), 1, note=repr(step))
        settle(units, number)
        for kind, name in ((BROKER, "1"), (BROKER, ""), (TOPIC, "syn"), (GROUP, "g"), (METRICS, "m")):
            units.same(describe(kind, name), 4, edit=drop_places, note=f"{when} {kind} {name!r}")
            theirs, ours = names(units, kind, name)
            assert len(theirs) > (6 if kind != METRICS else 2) or (kind, name) == (BROKER, "")
            units.note(f"{when} {kind} {name!r} order", theirs, ours)
    found = [line for line in units.report() if not is_known(line)]
    assert not found, f"{len(found)} differences:\n" + "\n".join(found)
