"""The clients' own integration tests, pointed at a cluster of ours.

`NAME.allow` lists what must pass; the list only grows.

What does not pass, and why, stands in `NAME.findings.md`. `tools/foreign_suites.py` brings the
suites.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
import warnings
from collections.abc import Iterator

import pytest

from kmirror.embedded import EmbeddedCluster
from kmirror.embedded_security import Security

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "tools"))

import foreign_suites
from foreign_runs import (
    CONFIG,
    HERE,
    KILL_THE_RUNNER,
    LOST_UPDATE,
    OTHER,
    OTHER_PASSWORD,
    PASSWORD,
    RACES,
    SECURE_CONFIG,
    USER,
    allowed,
    broken,
    run_franz_go,
    run_kafka_python,
    run_librdkafka,
    run_round,
)

pytestmark = [pytest.mark.foreign, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def secure_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Three brokers whose listeners want SCRAM, with `USER` and `OTHER`."""
    security = Security.sasl_plaintext({USER: PASSWORD})
    with EmbeddedCluster(3, config=SECURE_CONFIG, security=security) as cluster:
        properties = tmp_path_factory.mktemp("secure") / "admin.properties"
        lines = [f"{key}={value}\n" for key, value in cluster.client_properties(USER, style="java").items()]
        properties.write_text("".join(lines))
        credential = f"SCRAM-SHA-512=[iterations=4096,password={OTHER_PASSWORD}]"
        command = [sys.executable, "-m", "kmirror.cli.configs", "--bootstrap-server", cluster.bootstrap_servers]
        command += ["--command-config", str(properties), "--alter", "--user", OTHER, "--add-config", credential]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        yield cluster.bootstrap_servers


def test_franz_go(secure_brokers: str) -> None:
    program = foreign_suites.franz_go()
    tests = allowed("franz_go")
    with EmbeddedCluster(3, config=CONFIG) as cluster:
        outcomes = run_franz_go(program, cluster.bootstrap_servers, secure_brokers, tests)
        for name in broken(outcomes, tests):  # as below: limits of seconds, beside two pipelines
            warnings.warn(f"{name} is run again alone: {outcomes.get(name)}", stacklevel=1)
            outcomes |= run_franz_go(program, cluster.bootstrap_servers, secure_brokers, [name])
    assert broken(outcomes, tests) == {}


def test_sarama(secure_brokers: str) -> None:
    outcomes = run_round([str(foreign_suites.sarama()), secure_brokers, USER, PASSWORD])
    assert broken(outcomes, allowed("sarama")) == {}
    assert set(outcomes) == set(allowed("sarama"))


def test_kafkajs(secure_brokers: str) -> None:
    users = [USER, PASSWORD, OTHER, OTHER_PASSWORD]
    outcomes = run_round(["node", str(foreign_suites.kafkajs()), secure_brokers, *users])
    assert broken(outcomes, allowed("kafkajs")) == {}
    assert set(outcomes) == set(allowed("kafkajs"))


@pytest.mark.parametrize("client", ["aiokafka", "confluent_kafka"])
def test_python_round(client: str, secure_brokers: str) -> None:
    program = HERE / "python_rounds" / f"{client}_round.py"
    users = [USER, PASSWORD, OTHER, OTHER_PASSWORD]
    outcomes = run_round([sys.executable, str(program), secure_brokers, *users])
    assert broken(outcomes, allowed(client)) == {}
    assert set(outcomes) == set(allowed(client))


def test_kafka_python():
    folder = foreign_suites.kafka_python()
    with EmbeddedCluster(config=CONFIG) as cluster:
        tests = allowed("kafka_python")
        outcomes = run_kafka_python(folder, cluster.bootstrap_servers, tests)
        for name, outcome in broken(outcomes, tests).items():
            if LOST_UPDATE in outcome:
                warnings.warn(f"{name} is run again: {outcome}", stacklevel=1)
                outcomes |= run_kafka_python(folder, cluster.bootstrap_servers, [name])
    assert broken(outcomes, tests) == {}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_librdkafka(protocol):
    folder = foreign_suites.librdkafka()
    tests = allowed("librdkafka" if protocol == "classic" else "librdkafka_consumer_protocol")
    with EmbeddedCluster(3, config=CONFIG) as cluster:
        together = [name for name in tests if name not in KILL_THE_RUNNER]
        outcomes = run_librdkafka(folder, cluster.bootstrap_servers, together, consumer_protocol=protocol)
    for name in broken(outcomes, tests):  # these tests have limits of seconds, and eight at a time on two cores may miss them
        for _ in range(RACES.get(name, 1)):
            with EmbeddedCluster(3, config=CONFIG) as cluster:  # 0033 matches the topics that its failed run left behind
                alone = run_librdkafka(folder, cluster.bootstrap_servers, [name], consumer_protocol=protocol, at_a_time=1)
            outcomes[name] = alone[name]
            if outcomes[name] == "passed":
                break
    assert broken(outcomes, tests) == {}


@pytest.mark.parametrize("name", sorted(path.stem for path in HERE.glob("*.allow")))
def test_lists_name_each_test_once_and_have_findings(name):
    tests = allowed(name)
    assert tests and len(set(tests)) == len(tests)
    assert (HERE / f"{name.removesuffix('_consumer_protocol')}.findings.md").exists()
