"""What is said of a foreign runner that dies; the runner is a script here, so nothing has to be
built.
"""

from __future__ import annotations

import concurrent.futures
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from foreign_runs import LOST_UPDATE, run_franz_go, run_kafka_python, run_librdkafka, run_round, run_rust
from system_programs import EXACTLY_ONCE, remaining, smoke_failure

DYING = """#!/bin/sh
echo died >> deaths
for number in $(seq 60); do echo "line $number"; done
echo "the last words" >&2
kill -ABRT $$
"""
REPORT = '{"tests": {"0001_a": {"state": "PASSED"}, "0002_b": {"state": "FAILED"}, "<MAIN>": {"state": "RUNNING"}}}'


def runner(folder: pathlib.Path, script: str) -> pathlib.Path:
    (folder / "tests").mkdir()
    path = folder / "tests" / "test-runner"
    path.write_text(script)
    path.chmod(0o755)
    return folder


def test_a_death_without_a_report_was_told_without_its_signal_and_its_last_words(tmp_path: pathlib.Path) -> None:
    folder = runner(tmp_path, DYING)
    with pytest.raises(AssertionError) as failure:
        run_librdkafka(folder, "localhost:9092", ["0001_a"])
    text = str(failure.value)
    assert text.count("the runner ended with SIGABRT and no report") == 2, "it is run once more, and both deaths are told"
    assert "line 12\n" in text and "line 10\n" not in text and "the last words" in text


def test_a_death_that_does_not_come_again_is_a_warning(tmp_path: pathlib.Path) -> None:
    folder = runner(tmp_path, DYING.replace("kill", f"[ $(wc -l < deaths) -gt 1 ] && echo '{REPORT}' > $TEST_REPORT\nkill"))
    with pytest.warns(UserWarning, match="SIGABRT"):
        assert run_librdkafka(folder, "localhost:9092", ["0001_a"]) == {"0001_a": "passed", "0002_b": "failed"}


def test_an_exit_without_a_report_is_no_accident(tmp_path: pathlib.Path) -> None:
    folder = runner(tmp_path, "#!/bin/sh\necho wrong option\nexit 1\n")
    with pytest.raises(AssertionError, match=r"(?s)\Athe runner ended with exit code 1 and no report.*wrong option\Z"):
        run_librdkafka(folder, "localhost:9092", ["0001_a"])


MEETING = """#!/bin/sh
touch "started-$TEST_CONSUMER_GROUP_PROTOCOL"
while [ "$(ls started-* | wc -l)" -lt 2 ]; do sleep 0.05; done
echo '{"tests": {"'"$(cat "$RDKAFKA_TEST_CONF")"'": {"state": "PASSED"}}}' > "$TEST_REPORT"
"""


def test_two_runs_at_once_went_to_the_cluster_of_the_later_one(tmp_path: pathlib.Path) -> None:
    folder = runner(tmp_path, MEETING)
    with concurrent.futures.ThreadPoolExecutor() as threads:
        runs = [threads.submit(run_librdkafka, folder, to, ["0001_a"], consumer_protocol=to) for to in ("classic", "consumer")]
        assert [run.result(60) for run in runs] == [{f"metadata.broker.list={to}": "passed"} for to in ("classic", "consumer")]


def program(folder: pathlib.Path, script: str) -> pathlib.Path:
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


GO_TESTS = """cat <<'END'
=== RUN   TestOne
=== RUN   TestTwo
=== NAME  TestTwo
    two_test.go:7: saw offset 5 twice
--- PASS: TestOne (0.01s)
=== RUN   TestThree
    three_test.go:1: not here
--- SKIP: TestThree (0.00s)
--- FAIL: TestTwo (1.20s)
    --- FAIL: TestTwo/part (1.10s)
END
exit 1"""


def test_outcomes_of_go_tests_are_told_with_what_the_failed_one_said(tmp_path: pathlib.Path) -> None:
    outcomes = run_franz_go(program(tmp_path, GO_TESTS), "b:1", "s:1", ["TestOne", "TestTwo"])
    failed = outcomes.pop("TestTwo")
    assert outcomes == {"TestOne": "passed", "TestThree": "skip"}
    assert failed.startswith("fail: two_test.go:7: saw offset 5 twice")


def test_go_tests_get_their_brokers_and_their_names(tmp_path: pathlib.Path) -> None:
    script = f'echo "$KGO_SEEDS $KGO_TEST_SCRAM_SEEDS $*" > {tmp_path}/asked; echo "--- PASS: T (0s)"'
    run_franz_go(program(tmp_path, script), "b:1", "s:1", ["TestOne", "TestTwo"])
    asked = (tmp_path / "asked").read_text()
    assert asked.startswith("b:1 s:1 ") and "-test.run=^(TestOne|TestTwo)$" in asked


def test_a_run_without_any_outcome_tells_its_last_words(tmp_path: pathlib.Path) -> None:
    silent = program(tmp_path, "echo unable to connect; exit 2")
    with pytest.raises(AssertionError, match="unable to connect"):
        run_franz_go(silent, "b:1", "s:1", [])
    with pytest.raises(AssertionError, match="unable to connect"):
        run_round([str(silent)])


def test_a_round_tells_each_check(tmp_path: pathlib.Path) -> None:
    path = program(tmp_path, "echo ok codec-lz4; echo 'FAIL acls: refused: no'; exit 1")
    assert run_round([str(path)]) == {"codec-lz4": "passed", "acls": "refused: no"}


RUST_TESTS = """shift
echo "$*" >> asked
cat <<'END'
running 2 tests
test test_one ... ok
test test_two ... FAILED

---- test_two stdout ----
thread 'test_two' panicked at tests/a.rs:7:9:
got 7
stack backtrace:
   0: rust_begin_unwind
END
exit 101"""


def test_rust_programs_are_asked_for_their_own_tests_alone(tmp_path: pathlib.Path) -> None:
    (tmp_path / "programs").mkdir()
    for name in ("other", "client"):
        program(tmp_path, RUST_TESTS).rename(tmp_path / "programs" / name)
    outcomes = run_rust(tmp_path, {}, ["client::test_one", "client::test_two"])
    assert (tmp_path / "asked").read_text() == "--exact test_one test_two\n"
    assert outcomes == {
        "client::test_one": "passed",
        "client::test_two": "FAILED: thread 'test_two' panicked at tests/a.rs:7:9: got 7",
    }


KAFKA_PYTHON_TESTS = """
import logging, threading
import pytest

def io_thread(client, *words):
    def speak():
        for line in words:
            logging.getLogger("kafka.cluster").debug(line)
        logging.getLogger("kafka.consumer.subscription_state").info("Updated partition assignment: []")
    thread = threading.Thread(target=speak, name=f"kafka-io-{client}")
    thread.start()
    thread.join()

def test_passes():
    io_thread("a", "Sending metadata request MetadataRequest(topics=[]) to node 1")

@pytest.mark.parametrize("never", ["asks"])
def test_lost(never):
    io_thread("b", "Sending metadata request MetadataRequest(topics=[]) to node 1")
    io_thread("c", "Sending metadata request MetadataRequest(topics=['t']) to node 1")
    raise AssertionError("got 0")

def test_broken():
    io_thread("d", "Sending metadata request MetadataRequest(topics=[]) to node 1",
              "Sending metadata request MetadataRequest(topics=['t']) to node 1")
    raise AssertionError("got 1")

def test_needs_more():
    pytest.skip("not here")
"""


def test_a_failed_test_of_kafka_python_was_run_again_whatever_its_log_said(tmp_path: pathlib.Path) -> None:
    tests = tmp_path / "test" / "integration"
    tests.mkdir(parents=True)
    for package in (tests, tests.parent):
        (package / "__init__.py").touch()
    (tests / "test_a.py").write_text(KAFKA_PYTHON_TESTS)
    outcomes = run_kafka_python(tmp_path, "localhost:9092", [])
    assert outcomes.pop("test_a.py::test_passes") == "passed"
    assert outcomes.pop("test_a.py::test_needs_more") == "skipped: not here"
    lost, broken = outcomes.pop("test_a.py::test_lost[asks]"), outcomes.pop("test_a.py::test_broken")
    assert outcomes == {}
    assert LOST_UPDATE in lost and LOST_UPDATE not in broken and "AssertionError: got 1" in broken
    logs = {path.name: path.read_text() for path in (tmp_path / "logs").iterdir()}
    assert set(logs) == {"test_a.py.test_lost[asks].log", "test_a.py.test_broken.log"}
    assert "kafka-io-d kafka.cluster: Sending metadata request MetadataRequest(topics=['t'])" in logs["test_a.py.test_broken.log"]


SMOKE_TEST_ENDS = """...
Result Verification
-------------------
recordGenerated=5000
recordProcessed=5000
ALL-RECORDS-DELIVERED
SUCCESS
"""


@pytest.mark.parametrize("guarantee", ["at_least_once", EXACTLY_ONCE])
def test_a_smoke_test_is_sound_if_its_driver_says_so(guarantee: str) -> None:
    assert smoke_failure(SMOKE_TEST_ENDS, guarantee) == ""
    for lost in ("Result Verification", "ALL-RECORDS-DELIVERED"):
        assert smoke_failure(SMOKE_TEST_ENDS.replace(lost, "missedRecords=1"), guarantee) == f"the driver did not say {lost}"
    assert smoke_failure(SMOKE_TEST_ENDS.replace("SUCCESS", "FAILURE"), guarantee) == "the driver did not say SUCCESS"


def test_records_processed_twice_are_sound_only_at_least_once() -> None:
    said = SMOKE_TEST_ENDS.replace("ALL-", "PROCESSED-MORE-THAN-GENERATED\nALL-").replace("SUCCESS", "FAILURE")
    assert smoke_failure(said, "at_least_once") == ""
    assert smoke_failure(said, EXACTLY_ONCE) == "records were processed twice under exactly-once"
    assert smoke_failure(said.replace("FAILURE", "SUCCESS"), EXACTLY_ONCE) != ""


def test_what_remains_is_the_copiers_last_report() -> None:
    assert remaining("[date] WARN Connection") == -1
    assert remaining('{"remaining":7}\nwarning\n{"remaining":0,"consumed":7}\n') == 0
