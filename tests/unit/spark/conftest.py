"""One JVM for all tests of this folder; without pyspark or any Java they are skipped, and say so.

A JVM runs one SparkContext at a time. Tests share a session. A test whose program needs a session
of its own gets the JVM for it (`free_jvm`), and the next test that asks for `spark` a new session.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from multiprocessing.connection import wait
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
PYTHON = ROOT / "tests" / "support" / "spark_conf" / "python"


class SparkJvm:
    """The JVM, and the session that uses it, if any."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        """Relative paths begin here."""
        self._session: Any = None

    def session(self) -> Any:
        """Returns the session that tests share."""
        if self._session is None:
            from pyspark.java_gateway import ensure_callback_server_started

            from kmirror.spark import spark_session

            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(self.folder)
                # Workers find at the top what the wheel has there, as with an installed package.
                patch.setenv("PYTHONPATH", os.pathsep.join([str(self.folder), *filter(None, [os.environ.get("PYTHONPATH")])]))
                patch.setenv("PYSPARK_PYTHON", str(PYTHON))
                patch.setenv("SPARK_LAUNCHER_OPTS", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")
                self._session = spark_session("kmirror-tests", 2)
            ensure_callback_server_started(self._session.sparkContext._gateway)
        return self._session

    def stop(self) -> None:
        if self._session is not None:
            self._session.stop()
            self._session = None


@pytest.fixture(scope="session")
def spark_jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkJvm]:
    for name in ("pyspark", "pyarrow"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed (kmirror[spark])")
    folder = tmp_path_factory.mktemp("jvm")
    shutil.copy(ROOT / "kmirror" / "spark" / "pyspark_kafka_log.py", folder)
    with pytest.MonkeyPatch.context() as patch:
        # Tests leave logs open, and py4j's server of foreachBatch waits with select(), which knows
        # no descriptor above 1023.
        patch.setattr("py4j.java_gateway.select", SimpleNamespace(select=lambda r, w, x, s=None: (wait(r, s), [], [])))
        jvm = SparkJvm(folder)
        yield jvm
        jvm.stop()


@pytest.fixture
def spark(spark_jvm: SparkJvm) -> Any:
    return spark_jvm.session()


@pytest.fixture
def free_jvm(spark_jvm: SparkJvm, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Programs that this test starts make their sessions in the JVM, one after the other. Each has to
    stop its own. They run in the folder that this fixture gives.
    """
    gateway = spark_jvm.session().sparkContext._gateway
    spark_jvm.stop()
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", str(gateway.gateway_parameters.port))
    monkeypatch.setenv("PYSPARK_GATEWAY_SECRET", gateway.gateway_parameters.auth_token)
    yield spark_jvm.folder
    left = gateway.jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession()
    if left.isDefined():
        left.get().stop()
        pytest.fail("the program did not stop its session")
