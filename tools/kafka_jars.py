"""Brings Apache Kafka's jars into the cache folder: the one script that resolves foreign programs
for interop and benches.

    python tools/kafka_jars.py [--version 4.3.0] [--print-classpath]
    python tools/kafka_jars.py --all
    python tools/kafka_jars.py --spark
    python tools/kafka_jars.py --hadoop
    python tools/kafka_jars.py --system-tests

Maven resolves the pinned versions from the pom below into `.cache/kafka/<version>/`, which git
ignores. A second run finds the folder complete for the same pom and does nothing. `--all` also
brings the old brokers that mirrors have as sources: the last of 3.x, and one from before KRaft
(with its ZooKeeper) and before Fetch by topic id. `--spark` brings only Spark's own Kafka source,
for the bench beside ours. `--hadoop` brings a small HDFS, on which the Spark pipeline is tested;
`--all` includes it. `--system-tests` brings, beside 4.3.0, the jars with the programs of
Kafka Streams' system tests, for `make foreign`. Nothing of Kafka, Spark or Hadoop is committed.
"""

from __future__ import annotations

import argparse
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEFAULT_VERSION = "4.3.0"
ARTIFACTS = ("kafka_2.13", "kafka-clients", "kafka-tools", "kafka-shell", "connect-mirror", "connect-runtime", "kafka-streams")
LOGGING = (("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.1"), ("org.apache.logging.log4j", "log4j-core", "2.25.1"))
SPARK_KAFKA = ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0")
"""Spark's own Kafka source, the newest that Maven has; it runs on Spark 4.3, too."""
SPARK_HAS = ("slf4j-api-", "jsr305-", "scala-parallel-collections_", "spark-tags_", "lz4-java-", "snappy-java-")
HADOOP_VERSION = "3.5.0"
HADOOP_ARTIFACTS = (
    ("org.apache.hadoop", "hadoop-client-minicluster", HADOOP_VERSION),
    ("org.mockito", "mockito-core", "4.11.0"),  # its name node needs both, even outside of tests
    ("junit", "junit", "4.13.2"),
    ("org.slf4j", "slf4j-nop", "2.0.17"),
)
SYSTEM_TESTS = tuple(("org.apache.kafka", name, DEFAULT_VERSION) for name in ("kafka-streams", "kafka-clients"))
"""The modules whose tests have StreamsSmokeTest and its helpers; what these need beside is in
ARTIFACTS.
"""
ASSERTIONS = ("org.junit.jupiter", "junit-jupiter-api", "5.13.1")
OLD_VERSIONS = ("3.9.1", "2.8.2")
OLD_ARTIFACTS = ("kafka_2.13", "kafka-clients")
OLD_LOGGING = (("org.slf4j", "slf4j-reload4j", "1.7.36"), ("ch.qos.reload4j", "reload4j", "1.2.25"))


def jars_dir(version: str = DEFAULT_VERSION) -> pathlib.Path:
    """The folder that holds the jars of one Kafka version once `main` has run."""
    return ROOT / ".cache" / "kafka" / version


def pom(version: str) -> str:
    """Returns a throw-away Maven project that depends on what we run."""
    artifacts, logging = (OLD_ARTIFACTS, OLD_LOGGING) if version in OLD_VERSIONS else (ARTIFACTS, LOGGING)
    return project([("org.apache.kafka", name, version) for name in artifacts] + list(logging))


def project(wanted: Sequence[tuple[str, str, str]]) -> str:
    """Returns a throw-away Maven project that depends on these: (group, artifact, version)."""
    return _project([_dependency(artifact) for artifact in wanted])


def spark_pom() -> str:
    excluded = (("org.apache.hadoop", "*"), ("org.scala-lang", "scala-library"))
    return _project([_dependency(SPARK_KAFKA, excluded)])


def system_tests_pom() -> str:
    """Returns a project with the jars of tests alone, and the assertions that these call."""
    everything = (("*", "*"),)
    tests = [_dependency(artifact, everything, "test") for artifact in SYSTEM_TESTS]
    return _project([*tests, _dependency(ASSERTIONS)])


def _dependency(artifact: tuple[str, str, str], excluded: Sequence[tuple[str, str]] = (), classifier: str = "") -> str:
    group, name, version = artifact
    which = f"<classifier>{classifier}</classifier>" if classifier else ""
    exclusions = "".join(f"<exclusion><groupId>{group}</groupId><artifactId>{name}</artifactId></exclusion>" for group, name in excluded)
    without = f"<exclusions>{exclusions}</exclusions>" if exclusions else ""
    return f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>{which}{without}</dependency>"


def _project(dependencies: Sequence[str]) -> str:
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>kmirror</groupId><artifactId>peers</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{''.join(dependencies)}</dependencies></project>"
    )


def resolve(version: str) -> pathlib.Path:
    """Resolves the jars unless they are there; exits with one line when Maven is missing or
    fails.
    """
    return _resolve(jars_dir(version), pom(version), f"Apache Kafka {version}")


def resolve_spark() -> pathlib.Path:
    """Resolves Spark's Kafka source, without the jars that Spark itself has."""
    target = _resolve(jars_dir(f"spark-{SPARK_KAFKA[2]}"), spark_pom(), f"{SPARK_KAFKA[1]} {SPARK_KAFKA[2]}")
    for path in target.glob("*.jar"):
        if path.name.startswith(SPARK_HAS):
            path.unlink()
    return target


def resolve_hadoop() -> pathlib.Path:
    """Resolves a name node and a data node, with everything that they need."""
    return _resolve(jars_dir(f"hadoop-{HADOOP_VERSION}"), project(HADOOP_ARTIFACTS), f"Hadoop {HADOOP_VERSION}")


def resolve_system_tests() -> pathlib.Path:
    """Resolves the programs of Kafka Streams' system tests: few jars."""
    folder = jars_dir(f"{DEFAULT_VERSION}-tests")
    return _resolve(folder, system_tests_pom(), f"Kafka's system tests {DEFAULT_VERSION}")


def _resolve(target: pathlib.Path, pom_text: str, what: str) -> pathlib.Path:
    complete = target / ".complete"
    if complete.exists() and complete.read_text() == pom_text:
        return target
    maven = shutil.which("mvn")
    if maven is None:
        raise SystemExit("kafka_jars: Maven (mvn) is not on the PATH; it is needed to resolve Apache Kafka's jars")
    target.mkdir(parents=True, exist_ok=True)
    (target / "pom.xml").write_text(pom_text)
    command = [maven, "-q", "-B", "-f", str(target / "pom.xml"), "dependency:copy-dependencies", f"-DoutputDirectory={target}"]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    if outcome.returncode:
        raise SystemExit(f"kafka_jars: Maven could not resolve {what}:\n{(outcome.stdout + outcome.stderr)[-2000:]}")
    complete.write_text(pom_text)
    return target


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--version", default=DEFAULT_VERSION, help="the Kafka version to resolve (default %(default)s)")
    parser.add_argument("--print-classpath", action="store_true", help="print the Java class path and nothing else")
    parser.add_argument("--spark", action="store_true", help="resolve Spark's Kafka source, and nothing else")
    parser.add_argument("--hadoop", action="store_true", help="resolve a small HDFS, and nothing else")
    parser.add_argument("--system-tests", action="store_true", help="resolve the programs of Kafka's system tests, and nothing else")
    parser.add_argument("--all", action="store_true", help="resolve the old brokers and the HDFS, too")
    options = parser.parse_args(arguments)
    if options.spark:
        print(f"Spark's Kafka source {SPARK_KAFKA[2]}: {len(list(resolve_spark().glob('*.jar')))} jars")
        return 0
    if options.system_tests:
        print(f"Kafka's system tests {DEFAULT_VERSION}: {len(list(resolve_system_tests().glob('*.jar')))} jars")
        return 0
    if options.hadoop or options.all:
        print(f"Hadoop {HADOOP_VERSION}: {len(list(resolve_hadoop().glob('*.jar')))} jars")
    if options.hadoop:
        return 0
    for version in (options.version, *(OLD_VERSIONS if options.all else ())):
        target = resolve(version)
        print(f"{target}/*" if options.print_classpath else f"Apache Kafka {version}: {len(list(target.glob('*.jar')))} jars")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
