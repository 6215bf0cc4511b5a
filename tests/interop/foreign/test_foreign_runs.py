"""What is said of a foreign runner that dies; the runner is a script here, so nothing has to be built."""

from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from foreign_runs import run_librdkafka

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
