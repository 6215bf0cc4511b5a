"""The clients' own integration tests, pointed at a cluster of ours. `NAME.allow` lists what must pass; the list only grows.

What does not pass, and why, stands in `NAME.findings.md`. `tools/foreign_suites.py` brings the suites.
"""

from __future__ import annotations

import pathlib
import sys

import pytest

from kmirror.embedded import EmbeddedCluster

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "tools"))

import foreign_suites
from foreign_runs import CONFIG, HERE, KILL_THE_RUNNER, RACES, allowed, run_kafka_python, run_librdkafka

pytestmark = [pytest.mark.foreign, pytest.mark.timeout(900)]


def broken(outcomes: dict[str, str], tests: list[str]) -> dict[str, str]:
    """Allowed tests that did not pass, with what happened instead."""
    return {name: outcomes.get(name, "did not run") for name in tests if outcomes.get(name) != "passed"}


def test_kafka_python():
    folder = foreign_suites.kafka_python()
    with EmbeddedCluster(config=CONFIG) as cluster:
        outcomes = run_kafka_python(folder, cluster.bootstrap_servers, allowed("kafka_python"))
    assert broken(outcomes, allowed("kafka_python")) == {}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_librdkafka(protocol):
    folder = foreign_suites.librdkafka()
    tests = allowed("librdkafka" if protocol == "classic" else "librdkafka_consumer_protocol")
    with EmbeddedCluster(3, config=CONFIG) as cluster:
        together = [name for name in tests if name not in KILL_THE_RUNNER]
        outcomes = run_librdkafka(folder, cluster.bootstrap_servers, together, consumer_protocol=protocol)
        for name in broken(outcomes, tests):  # these tests have limits of seconds, and eight at a time on two cores may miss them
            for _ in range(RACES.get(name, 1)):
                alone = run_librdkafka(folder, cluster.bootstrap_servers, [name], consumer_protocol=protocol, at_a_time=1)
                outcomes[name] = alone[name]
                if outcomes[name] == "passed":
                    break
    assert broken(outcomes, tests) == {}


@pytest.mark.parametrize("name", ["kafka_python", "librdkafka", "librdkafka_consumer_protocol"])
def test_lists_name_each_test_once_and_have_findings(name):
    tests = allowed(name)
    assert tests and len(set(tests)) == len(tests)
    assert (HERE / f"{name.removesuffix('_consumer_protocol')}.findings.md").exists()
