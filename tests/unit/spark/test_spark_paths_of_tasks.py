"""Relative paths mean the driver's folder wherever a task runs. The tests' JVM, and with it every
task, runs in another folder than this process.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.logs.log_folders import batch, batches, write_log
from support.tools.spark_rows import read_rows

from kmirror import EmbeddedCluster
from kmirror.cli import log_diff
from kmirror.cli.kmirror import main
from kmirror.cli.replay import state_folder, with_absolute_files
from kmirror.cli.replay_spark import check_mark
from kmirror.common.errors import KmirrorError
from kmirror.spark.job_progress import collected, reason_of


@pytest.fixture
def here(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for side in ("a", "b"):
        for number in range(2):
            write_log(tmp_path / side / f"t-{number}", *(batch(first, text=f"p{number}") for first in range(0, 50, 5)))
    return tmp_path


def test_a_replay_with_a_relative_state_repeats_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The progress was written into each executor's own folder: the next run replayed everything
    again."""
    with EmbeddedCluster() as cluster:
        to = ["--to", cluster.bootstrap_servers, "--create-topics", "--speed", "max"]
        arguments = ["replay", "a", *to, "--engine", "spark", "--state", "progress"]
        assert main(arguments) == 0
        assert "replayed 100 records" in capsys.readouterr().out
        assert sorted(one.name for one in (here / "progress").iterdir()) == ["t-0.replay.json", "t-1.replay.json"]
        assert main(arguments) == 0
        assert "replayed 0 records" in capsys.readouterr().out
        assert main(["replay", "a", *to, "--state", "progress"]) == 0, "without Spark it is the same folder"
        assert "replayed 0 records" in capsys.readouterr().out


def test_a_diff_and_a_check_of_relative_paths_are_those_of_one_machine(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """log-diff said "No such file"; verify-logs ended with 45 lines and 1, which means findings."""
    for command, code in ((["a", "b"], 0), (["a", "b", "--output", "tables"], 0), (["a", "b", "--output", "tables", "--full"], 0)):
        assert log_diff.main([*command, "--engine", "spark", "--json"]) == code
        report = json.loads(capsys.readouterr().out)
        assert [report["left"], report["right"], report["status"]] == ["a", "b", "equal"], report
    assert (here / "tables" / "report.html").exists()
    for options in ([], ["--output", "checked"], ["--compacted", "t"]):
        code = main(["verify-logs", "a", "--engine", "spark", *options])
        on_spark = capsys.readouterr().out.replace(f"{here}/", "")
        assert (code, on_spark) == (main(["verify-logs", "a", *options]), capsys.readouterr().out)
        assert on_spark.startswith("t-0: ")


def test_a_task_that_does_not_see_the_drivers_folder_sends_nothing(tmp_path: Path) -> None:
    check_mark(None)
    (tmp_path / "mark").touch()
    check_mark(tmp_path / "mark")
    with pytest.raises(KmirrorError, match="does not see what the driver has written to .*nothing was sent from there"):
        check_mark(tmp_path / "other" / "mark", within_s=0.1)


def test_paths_of_a_client_are_absolute_and_a_state_is_no_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"ssl.truststore.location": "certs/ca.pem", "ssl.keystore.location": "/etc/key.pem", "client.id": "a.location"}
    made = with_absolute_files(given)
    assert made == {**given, "ssl.truststore.location": f"{tmp_path}/certs/ca.pem"}
    assert state_folder("progress", of_tasks=True) == f"{tmp_path}/progress" and state_folder("progress", of_tasks=False) == "progress"
    with pytest.raises(KmirrorError, match="--state s3://b/progress: the progress is kept on a disk"):
        state_folder("s3://b/progress", of_tasks=False)


def test_a_job_that_fails_is_one_line_and_not_findings(
    here: Path, spark: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(number: int) -> int:
        raise KmirrorError("the disk: is gone")

    def stumble(number: int) -> int:
        return {0: 1}[number]

    context = spark.sparkContext
    with pytest.raises(KmirrorError, match=r"^Spark's job failed: the disk: is gone$"):
        collected(context.parallelize([1], 1).map(fail))
    with pytest.raises(KmirrorError, match=r"^Spark's job failed: KeyError: 7$"):
        collected(context.parallelize([7], 1).map(stumble))
    assert collected(context.parallelize([0], 1).map(stumble)) == [1]

    def fails(jobs: Any) -> Any:
        return collected(context.parallelize([1], 1).map(fail))

    monkeypatch.setattr("kmirror.spark.replay.collected", fails)
    assert main(["verify-logs", "a", "--engine", "spark"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "kmirror verify-logs: Spark's job failed: the disk: is gone"


class Hidden:
    """Hides a path while Spark's tasks run."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
        self.path = path
        for module in modules:
            monkeypatch.setattr(f"kmirror.spark.{module}.collected", self.collected)

    def collected(self, jobs: Any) -> Any:
        hidden = self.path.parent.parent / f"{self.path.name}.hidden"
        self.path.rename(hidden)
        try:
            return collected(jobs)
        finally:
            hidden.rename(self.path)


@pytest.mark.parametrize("what", ["a", "a/t-0/00000000000000000000.log"])
def test_an_executor_without_the_drivers_disk_found_every_segment_gone(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Nothing was looked at, so that is no finding about the logs."""
    Hidden(here / what, monkeypatch, "replay", "replay_keys")
    monkeypatch.setattr("kmirror.cli.verify_logs.PAUSE_S", 0)
    assert main(["verify-logs", "a", "--engine", "spark"]) == 2
    told = capsys.readouterr()
    assert "structure gone" not in told.out + told.err
    words = "does not exist on" if what == "a" else "is there, but not where it was read"
    assert words in told.err.splitlines()[-1] and told.err.splitlines()[-1].startswith("kmirror verify-logs: ")


def test_a_diff_on_an_executor_without_the_drivers_disk_says_so(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Hidden(here / "b", monkeypatch, "log_diff")
    for options in ([], ["--output", "tables"]):
        assert log_diff.main(["a", "b", "--engine", "spark", *options]) == 2
        assert f"{here}/b does not exist on" in capsys.readouterr().err.splitlines()[-1]


def test_a_segment_that_is_gone_for_all_is_a_finding(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(jobs: Any) -> Any:
        (here / "a" / "t-0" / f"{0:020d}.log").unlink(missing_ok=True)
        return collected(jobs)

    (here / "a" / "t-0" / f"{50:020d}.log").write_bytes(batch(50))
    (here / "a" / ".kafka_cleanshutdown").write_text("{}")
    monkeypatch.setattr("kmirror.spark.replay.collected", lose)
    monkeypatch.setattr("kmirror.cli.verify_logs.PAUSE_S", 0)
    code = main(["verify-logs", "a", "--engine", "spark"])
    assert code == 1, capsys.readouterr()


def test_the_reason_of_a_failed_job_is_found_between_java_and_python() -> None:
    older = (
        "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
        ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent failure: "
        "Lost task 0.3 (TID 3) (host executor 0): org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        '  File "worker.py", line 1, in main\nkmirror.common.errors.CorruptFileError: a.log: at byte 7: torn\n\n\tat org.apache.X.y(Z:1)\n'
    )
    assert reason_of(older) == "a.log: at byte 7: torn"
    lost = (
        ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed, most recent failure: ExecutorLostFailure (x)"
    )
    assert reason_of(lost) == "ExecutorLostFailure (x)"
    parse = (
        "An error occurred while calling None.x.JavaSparkContext.\n: org.apache.spark.SparkException: Could not parse Master URL\n\tat x"
    )
    assert reason_of(parse) == "Could not parse Master URL"
    assert reason_of("") == "no reason was given"


def test_a_relative_folder_is_read_where_spark_reads_relative_folders(spark_jvm: Any, spark: Any) -> None:
    write_log(spark_jvm.folder / "relative" / "t-0", *batches(2))
    assert spark.read.format("kafka-log").load("relative").count() == len(read_rows(spark_jvm.folder / "relative")) == 10
