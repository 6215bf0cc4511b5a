"""The tests that the crates rskafka and rdkafka carry, against clusters of ours.

rskafka's compare it with librdkafka, too. The crate's own test helper for that wants zstd, which
the librdkafka of the C tests is built without; the one inside of confluent-kafka has it.
"""

from __future__ import annotations

import pathlib
import sys
import warnings
from collections.abc import Callable

import confluent_kafka
import pytest

from kmirror import EmbeddedCluster
from kmirror.embedded_security import Security

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "tools"))

import foreign_suites
from foreign_runs import CONFIG, PASSWORD, USER, allowed, broken, run_rust

pytestmark = [pytest.mark.foreign, pytest.mark.timeout(900)]


def twice(run: Callable[[list[str]], dict[str, str]], tests: list[str]) -> dict[str, str]:
    """Runs them; what did not pass runs again alone, with a warning: their limits are seconds."""
    outcomes = run(tests)
    for name in broken(outcomes, tests):
        warnings.warn(f"{name} is run again alone: {outcomes.get(name)}", stacklevel=1)
        outcomes |= run([name])
    return outcomes


def librdkafka_with_zstd(folder: pathlib.Path) -> pathlib.Path:
    """A folder in which the loader finds confluent-kafka's library under its plain name."""
    libraries = pathlib.Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs"
    (library,) = libraries.glob("librdkafka-*.so.1")
    (folder / "librdkafka.so.1").symlink_to(library)
    return folder


def test_rskafka(tmp_path: pathlib.Path) -> None:
    folder, tests = foreign_suites.rskafka(), allowed("rskafka")
    plain = Security.sasl_plaintext({USER: PASSWORD}, mechanism="PLAIN")
    settings = CONFIG | {"auto.create.topics.enable": "false"}
    with EmbeddedCluster(3, config=settings) as cluster, EmbeddedCluster(security=plain) as secure:
        environment = {
            "TEST_INTEGRATION": "1",
            "TEST_BROKER_IMPL": "kafka",
            "KAFKA_CONNECT": cluster.bootstrap_servers,
            "KAFKA_SASL_CONNECT": secure.bootstrap_servers,
            "LD_LIBRARY_PATH": str(librdkafka_with_zstd(tmp_path)),
        }
        outcomes = twice(lambda names: run_rust(folder, environment, names), tests)
    assert broken(outcomes, tests) == {}


def test_rdkafka() -> None:
    folder, tests = foreign_suites.rdkafka(), allowed("rdkafka")
    with EmbeddedCluster(config=CONFIG | {"num.partitions": "3"}) as cluster:
        environment = {
            "KAFKA_HOST": cluster.bootstrap_servers,
            "LD_LIBRARY_PATH": str(foreign_suites.librdkafka() / "src"),
        }
        outcomes = twice(lambda names: run_rust(folder, environment, names), tests)
    assert broken(outcomes, tests) == {}
