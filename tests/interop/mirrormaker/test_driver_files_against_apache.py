"""Random files of `connect-mirror-maker` against Apache Kafka's own classes: which flows they have, what
workers and connectors get, and what is refused.

Aliases are prefixes of one another, have dots, dashes and arrows, or are words that the grammar uses.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from support.mirrormaker.apaches_rules import Apache, Question, compare

from kmirror.common.errors import KmirrorError
from kmirror.mirrormaker.connector_config import CONNECTORS
from kmirror.mirrormaker.cycles import SourceAndTarget
from kmirror.mirrormaker.mirror_maker_config import MirrorMakerConfig

pytestmark = pytest.mark.interop

ALIASES = ["A", "A.B", "AB", "B", "a-b", "us-west", "us-west-1", "A->B", "x", "source", "target", "admin", "consumer", "B.consumer", "A ",
           "clusters", "topics", "all", "", "a\\1"]  # fmt: skip
NAMES = [
    "bootstrap.servers", "security.protocol", "ssl.protocol", "consumer.ssl.protocol", "consumer.client.id", "producer.acks", "admin.retries",
    "enabled", "topics", "topics.exclude", "groups", "tasks.max", "emit.heartbeats.enabled", "replication.policy.separator",
    "replication.policy.class.x", "offset.storage.topic", "offset.storage.replication.factor", "group.id", "client.id", "key.converter",
    "header.converter", "config.providers", "config.providers.file.class", "source.cluster.bootstrap.servers", "source.consumer.ssl.protocol",
    "target.producer.linger.ms", "source.admin.x", "sasl.jaas.config", "retries", "client.dns.lookup", "worker.x", "task.y",
    "use.defaults.from", "metric.reporters", "config.storage.topic", "listeners", "rest.advertised.port", "name", "connector.class",
    "source.cluster.alias", "admins.x", "producer", "consumer", ".",
]  # fmt: skip
VALUES = ["1", "true", "true ", "TRUE", " false", "x", "a, b", "a,,b", "SSL", "PLAINTEXT", "h:1,g:2", "", "http://:1", "-1", "org.X"]
OF_THE_DRIVER = ["listeners", "rest.advertised.host.name", "rest.advertised.port", "rest.advertised.listener", "ssl.client.auth", "clusters",
                 "admin.listeners", "response.http.headers.config", "dedicated.mode.enable.internal.rest", "config.providers",
                 "security.protocol", "ssl.enabled.protocols", "sasl.login.refresh.window.factor", "emit.heartbeats.enabled"]  # fmt: skip
WRONG = ["", " ", "x", "0", "-1", "65536", "true", "ftp://h:1", "http://h", "https://h:1,", "none", "set a:b", "add x", "bogus a: b", "set a b",
         "a,a", "ssl", "1.5", "99999999999", " http://h:1 "]  # fmt: skip
SERVICE_LOAD = {"plugin.discovery": "service_load"}
"""Without it Apache's class looks into each jar for each question."""


def file_of(source: random.Random) -> dict[str, str]:
    aliases = [source.choice(ALIASES) for _ in range(source.randint(1, 3))]
    file = {"clusters": source.choice((", ", ",", " ,")).join(aliases)} | SERVICE_LOAD
    file |= {f"{alias}.bootstrap.servers": "h:1" for alias in aliases if source.random() < 0.9}
    flows = [f"{one}->{other}." for one in aliases for other in aliases]
    for _ in range(source.randint(0, 14)):
        prefix = source.choice(["", *(f"{alias}." for alias in aliases), *flows, "A->B.", "Z."])
        file[prefix + source.choice(NAMES)] = source.choice(VALUES)
    return file


def answered(ask: Callable[[], str]) -> str:
    try:
        return ask()
    except KmirrorError as error:
        return f"error {error}"


def pairs(file: dict[str, str]) -> str:
    return answered(lambda: " ".join(sorted(map(str, MirrorMakerConfig(file).cluster_pairs()))))


def text(props: dict[str, str]) -> str:
    return "\t".join(f"{name}={value}" for name, value in sorted(props.items()))


@pytest.mark.parametrize("seed", range(2))
def test_dg1_to_dg9_random_files_mean_the_same(apache: Apache, seed: int) -> None:
    source = random.Random(seed)
    questions: list[Question] = []
    ours = []
    for _ in range(500):
        file = file_of(source)
        given = [f"{name}={value}" for name, value in file.items()]
        questions.append(("pairs", *given))
        ours.append(pairs(file))
        aliases = [alias.strip() for alias in file["clusters"].split(",")]
        for flow in [SourceAndTarget(one, other) for one in aliases for other in aliases if one != other]:
            name = source.choice(list(CONNECTORS))
            questions += [("worker", *flow, *given), ("connector", *flow, name, *given)]
            ours.append(answered(lambda flow=flow, file=file: text(MirrorMakerConfig(file).worker_config(flow))))
            ours.append(answered(lambda flow=flow, file=file, name=name: text(MirrorMakerConfig(file).connector_base_config(flow, name))))
    compare(questions, apache(questions), ours)


def test_wrong_values_of_a_drivers_own_properties_get_the_same_error(apache: Apache) -> None:
    """Those of the REST interface are checked although there is none."""
    base = {"clusters": "A,B", "A.bootstrap.servers": "h:1", "B.bootstrap.servers": "h:1"} | SERVICE_LOAD
    files = [base | {name: value} for name in OF_THE_DRIVER for value in WRONG]
    questions = [("pairs", *(f"{name}={value}" for name, value in file.items())) for file in files]
    compare(questions, apache(questions), [pairs(file) for file in files])
