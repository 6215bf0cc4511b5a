"""`kmirror spark-package`: what is in the archive, and that nothing but the tree decides about its
bytes. No Spark is started.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path, PurePosixPath

import pytest
from support.logs.log_folders import batches, write_log
from support.waiting import PROGRAM_S

from kmirror.cli.kmirror import main
from kmirror.common.errors import KmirrorError
from kmirror.spark import package
from kmirror.spark.package import following, imported_libraries, is_needed, library_files, module_files, packed_modules, write_package

pytest.importorskip("pyarrow", reason="pyarrow is not installed (kmirror[spark])")


def test_the_same_tree_gives_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for suffix, without in ((".zip", ()), (".tar.gz", ("cramjam", "lz4", "numpy", "pyarrow", "zstandard"))):
        first = write_package(tmp_path / f"first{suffix}", without=without).path.read_bytes()
        monkeypatch.setenv("TZ", "Asia/Tokyo")
        os.umask(os.umask(0o077))
        assert write_package(tmp_path / f"second{suffix}", without=without).path.read_bytes() == first


def test_an_installed_wheel_makes_the_archive_of_the_checkout(tmp_path: Path) -> None:
    """A wheel has pyspark_kafka_log.py at the top and nowhere else: the command failed in every
    one."""
    root = Path(package.__file__).parents[2]
    ours = shutil.ignore_patterns("__pycache__", "pyspark_kafka_log.py")
    shutil.copytree(root / "kmirror", tmp_path / "site" / "kmirror", ignore=ours)
    shutil.copy(root / "kmirror" / "spark" / "pyspark_kafka_log.py", tmp_path / "site")
    program = "import sys\nfrom kmirror.cli.kmirror import main\nsys.exit(main(['spark-package', '--output', 'a.zip']))"
    command = [sys.executable, "-c", program]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PROGRAM_S)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.zip").read_bytes() == write_package(tmp_path / "b.zip").path.read_bytes()
    assert "pyspark_kafka_log.py" in zipfile.ZipFile(tmp_path / "a.zip").namelist()
    (tmp_path / "site" / "pyspark_kafka_log.py").unlink()
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PROGRAM_S)
    assert done.returncode == 2 and "kmirror is not installed as a whole" in done.stderr, done.stderr


def test_the_modules_are_those_that_tasks_and_tools_import_and_no_broker() -> None:
    names = set(packed_modules())
    assert {"kmirror.spark.data_source", "kmirror.spark.log_diff", "kmirror.verify.replay.folder", "kmirror.cli.log_diff_run"} <= names
    assert "kmirror.cli.replay_partition" in names, "what a task of `kmirror replay` runs"
    assert {"kmirror", "kmirror.cli", "kmirror.verify"} <= names, "packages above a module are imported with it"
    rooms = {".".join(name.split(".")[:2]) for name in names}
    assert not rooms & {f"kmirror.{room}" for room in ("server", "replica", "controller", "mirror", "coordinator", "sim", "metadata")}
    assert imported_libraries(packed_modules()) == ["cramjam", "crc32c", "lz4", "msgspec", "numpy", "pyarrow", "zstandard"]
    assert not {name for name in following(["kmirror.spark.log_diff"]) if name.startswith(("kmirror.cli", "kmirror.runtime"))}


def test_a_type_checkers_imports_do_not_count(tmp_path: Path) -> None:
    """`kmirror.runtime` is named by rooms below it for their types alone."""
    from kmirror.spark.package import imports_of

    source = tmp_path / "x.py"
    source.write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import a\nelse:\n    import b\ndef f():\n    from c.d import e\n"
    )
    assert imports_of(source) == {"typing", "typing.TYPE_CHECKING", "b", "c.d", "c.d.e"}


def test_what_only_builds_and_tests_libraries_need_stays_out() -> None:
    kept = (
        "numpy/_core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so",
        "numpy.libs/libscipy_openblas64_-1.so",
        "pyarrow/libarrow_s3.so.26",
    )
    out = (
        "numpy/tests/test_lib.py",
        "pyarrow/include/arrow/api.h",
        "numpy/__init__.pyi",
        "../../bin/f2py",
        "pyarrow/libarrow_flight.so.2600",
    )
    assert [is_needed(PurePosixPath(path)) for path in kept] == [True] * 3
    assert [is_needed(PurePosixPath(path)) for path in out] == [False] * 5


def test_an_empty_python_reads_a_log_with_what_is_in_the_archive(tmp_path: Path) -> None:
    """As an executor does: unpacked beside it, named by PYTHONPATH; pyspark is Spark's own."""
    import pyspark

    modules = packed_modules()
    for name, path in (module_files(modules) | library_files(imported_libraries(modules), ())[0]).items():
        place = tmp_path / "kmirror_env" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
    venv.EnvBuilder(with_pip=False, symlinks=True).create(tmp_path / "python")
    python = str(tmp_path / "python" / "bin" / "python3")
    write_log(tmp_path / "data" / "t-0", *batches(4))
    program = (
        "import sys, pyspark_kafka_log\nfrom kmirror.spark.data_source import KafkaLogReader\nfrom kmirror.spark.options import ReadOptions\n"
        "reader = KafkaLogReader(ReadOptions.parse({'path': 'data'}))\n"
        "print(sum(table.num_rows for task in reader.partitions() for table in reader.read(task)), pyspark_kafka_log.__file__)\n"
    )
    libraries = Path(pyspark.__file__).parent / "python" / "lib"
    spark = os.pathsep.join(str(path) for path in sorted(libraries.glob("*.zip")))
    bare = subprocess.run(
        [python, "-c", program], cwd=tmp_path, env={"PYTHONPATH": spark}, capture_output=True, text=True, timeout=PROGRAM_S
    )
    assert "No module named 'pyspark_kafka_log'" in bare.stderr
    paths = os.pathsep.join(["kmirror_env", spark])
    done = subprocess.run(
        [python, "-c", program], cwd=tmp_path, env={"PYTHONPATH": paths}, capture_output=True, text=True, timeout=PROGRAM_S
    )
    assert done.stdout.split() == ["20", str(tmp_path / "kmirror_env" / "pyspark_kafka_log.py")], done.stderr


def test_the_zip_is_imported_as_it_is_and_its_program_runs_the_tools(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = tmp_path / "out" / "modules.zip"
    assert main(["spark-package", "--output", str(archive)]) == 0
    said = capsys.readouterr().out
    program = tmp_path / "out" / "modules.py"
    assert f"--py-files {archive} {program} kafka-log-diff A B --engine spark" in said.splitlines()[-1]
    assert archive.stat().st_size < 1_000_000 and "the workers' Python must have what kmirror[spark] installs" in said
    names = zipfile.ZipFile(archive).namelist()
    assert names == sorted(names) and "pyspark_kafka_log.py" in names and "kmirror/spark/log4j2.properties" in names
    for side in "ab":
        write_log(tmp_path / side / "t-0", *batches(4))
    environment = os.environ | {"PYTHONPATH": str(archive)}
    command = [sys.executable, str(program), "kafka-log-diff", str(tmp_path / "a"), str(tmp_path / "b"), "--engine", "local"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=PROGRAM_S)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "1 partition: 1 equal"), done.stderr
    verify = [*command[:2], "verify-logs", str(tmp_path / "a")]
    done = subprocess.run(verify, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=PROGRAM_S)
    assert (done.returncode, done.stdout.splitlines()[-1].startswith("1 log, ")) == (1, True), done.stderr  # it has no index


def test_what_cannot_be_packed_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        (["--output", "x.rar"], "x.rar: the name must end with .zip (modules, for --py-files) or .tar.gz (with libraries, for --archives)"),
        (["--output", str(tmp_path / "x.zip"), "--without", "numpy"], f"--without leaves out libraries, but {tmp_path / 'x.zip'} has none"),
        (
            ["--output", str(tmp_path / "x.tgz"), "--without", "scipy"],
            "--without: 'scipy' is not one of the packed libraries, which are cramjam, ",
        ),
    ):
        assert main(["spark-package", *arguments]) == 2
        assert capsys.readouterr().err.startswith(f"kmirror spark-package: {message}")
    assert not list(tmp_path.iterdir())
    (tmp_path / "notes.py").write_text("mine")
    assert main(["spark-package", "--output", str(tmp_path / "notes.zip")]) == 2
    assert "notes.py exists" in capsys.readouterr().err and (tmp_path / "notes.py").read_text() == "mine"


def test_a_library_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.packages_distributions", lambda: {"numpy": ["numpy"]})
    with pytest.raises(KmirrorError, match="^cramjam is not installed here, and tasks import it; install kmirror"):
        write_package(tmp_path / "x.tar.gz")
