"""Run a client's own tests against a cluster of ours: outcome by test name, "passed" or the reason
in a word.

The cluster is set up as each project's own fixtures set up theirs: short sessions allowed, an
authorizer that allows what no ACL speaks of, four partitions by default; for SCRAM and ACLs one
whose listeners want a login. librdkafka's tests call `kafka-topics.sh` and `kafka-acls.sh` of a
Kafka distribution; they get tools of ours under these names.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import warnings
import xml.etree.ElementTree as ElementTree

HERE = pathlib.Path(__file__).parent
CONFIG = {
    "num.partitions": "4",
    "group.min.session.timeout.ms": "100",
    "auto.create.topics.enable": "true",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "log.cleaner.backoff.ms": "1000",
}
USER, PASSWORD = "admin", "admin-secret"
OTHER, OTHER_PASSWORD = "other", "other-secret"
"""A super user that logs in by SCRAM-SHA-256, and one by SCRAM-SHA-512 that may do nothing."""
SECURE_CONFIG = {
    "group.min.session.timeout.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:broker;User:{USER}",
    "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
}
KAFKA_VERSION = "4.3.0"
SUITE_TIMEOUT_S = 600
FRANZ_GO_RECORDS = 10_000
"""How many records its two pipelines carry; 500,000 is its default, for brokers on more than two
cores.
"""


def allowed(suite: str) -> list[str]:
    """The tests that must pass, one a line; `#` begins a comment."""
    lines = (HERE / f"{suite}.allow").read_text().splitlines()
    return [line for line in (line.partition("#")[0].strip() for line in lines) if line]


def broken(outcomes: dict[str, str], tests: list[str]) -> dict[str, str]:
    """Allowed tests that did not pass, with what happened instead."""
    return {name: outcomes.get(name, "did not run") for name in tests if outcomes.get(name) != "passed"}


LOG_FORMAT = "%(asctime)s.%(msecs)03d %(threadName)s %(name)s: %(message)s"
KEEP_LOGS = [
    *("--log-level=DEBUG", f"--log-format={LOG_FORMAT}", "--log-disable=kafka.protocol.parser", "--log-disable=kafka.net.transport"),
    *("-o", "junit_logging=log", "-o", "junit_log_passing_tests=false"),
]
"""The report has kafka-python's own log of each test that fails: its requests and answers, without
their bytes.
"""
LOST_UPDATE = "kafka-python lost a metadata update"
_METADATA_LINE = re.compile(r"^\S+ (kafka-io-\S+) kafka\.(?:cluster|consumer\.subscription_state): (.*)$", re.MULTILINE)


def lost_update(log: str) -> bool:
    """Whether a consumer has a subscription, and in all its time asked the broker for no topic.

    The I/O thread of a new `KafkaConsumer` asks for metadata while the caller's thread is still to
    name the topic. When the topic comes between that request and its answer, the answer takes back
    the wish for another (`ClusterMetadata._need_update`), and the next request is sent after
    `metadata_max_age_ms`, five minutes. No broker can do anything about it: it hears of no topic.
    """
    requests: dict[str, list[str]] = {}
    subscribed = set()
    for thread, words in _METADATA_LINE.findall(log):
        if words.startswith("Sending metadata request"):
            requests.setdefault(thread, []).append(words)
        elif words == "Updated partition assignment: []":
            subscribed.add(thread)
    return any(thread in requests and all("topics=[]" in request for request in requests[thread]) for thread in subscribed)


def run_kafka_python(folder: pathlib.Path, bootstrap: str, tests: list[str]) -> dict[str, str]:
    """`tests` as pytest names them below test/integration; none: all.

    The log of each that failed is kept in `logs`, and its outcome says where.
    """
    folder = folder.resolve()  # pytest names tests after their folder as it is without links
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    selected = [f"test/integration/{name}" for name in tests] or ["test/integration"]
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"},  # these are for our run
        "KAFKA_URI": f"kafka://{bootstrap.partition(',')[0]}",
        "KAFKA_VERSION": KAFKA_VERSION,
        "KAFKA_ROOT": str(folder),
        "PYTHONPATH": str(folder),
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-c",
        os.devnull,
        "--rootdir",
        str(folder),
        "-p",
        "no:cacheprovider",
        "--timeout",
        "90",
        *KEEP_LOGS,
    ]
    done = subprocess.run(
        [*command, f"--junitxml={report}", *selected],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SUITE_TIMEOUT_S,
        check=False,
    )
    assert report.exists(), done.stdout[-3000:] + done.stderr[-3000:]
    outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        path = case.attrib["classname"].removeprefix("test.integration.").split(".")
        name = "::".join([f"{path[0]}.py", *path[1:], case.attrib["name"]])
        verdicts = [child for child in case if child.tag in ("failure", "error", "skipped")]
        outcomes[name] = _with_log(folder, name, verdicts[0], case.findtext("system-out", "")) if verdicts else "passed"
    return outcomes


def _with_log(folder: pathlib.Path, name: str, verdict: ElementTree.Element, log: str) -> str:
    outcome = f"{verdict.tag}: {verdict.attrib.get('message', '')[:300]}"
    if verdict.tag == "skipped" or not log:
        return outcome
    path = folder / "logs" / f"{name.replace('::', '.')}.log"
    path.parent.mkdir(exist_ok=True)
    path.write_text(log)
    return f"{outcome} ({LOST_UPDATE + '; ' if lost_update(log) else ''}its log is {path})"


def _distribution(folder: pathlib.Path) -> pathlib.Path:
    """A folder with `bin/kafka-*.sh`, as in Kafka's distribution."""
    tools = folder / "kafka" / "bin"
    tools.mkdir(parents=True, exist_ok=True)
    for module in ("topics", "acls"):
        script = tools / f"kafka-{module}.sh"
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kmirror.cli.{module} "$@"\n')
        script.chmod(0o755)
    return tools.parent


KILL_THE_RUNNER = frozenset(("0076_produce_retry", "0094_idempotence_msg_timeout"))
"""Tests that take the whole runner with them when they fail.

A thread of theirs (sockem_ctrl) works on a variable of the test's stack; the failed test's thread
ends, the other one goes on: SIGSEGV, or SIGABRT by an assertion in a mutex, without a report. 0076
fails on a busy machine, whatever the broker does: it has six tries of 2 s, and takes the delay from
its socket after 10 s, when the sixth has begun or not. Two of eight runs on a busy machine died so,
after 35 s; the core showed that thread. So these are run by themselves.
"""
RACES = {"0118_commit_rebalance": 6}
"""Tests that depend on which of their clients comes first, and how often they are run alone.

With `consumer`, 0118 asks of its second member that a commit fails, because it is closing; but
where that one joins first, it has to give up two of four partitions while it is not closing, and
that commit succeeds (Apache's broker has no other answer): two to three of ten runs.
"""
RUNS_THAT_MAY_DIE = 1
"""How often the runner may be killed by a signal before it wrote its report; each such death is a
warning of the test, with its last lines. (With a failed test the runner ends by SIGABRT, too, and
when a test's time is up by SIGKILL, but both after the report.)
"""
LAST_LINES = 50


def death_of(returncode: int, output: str) -> str:
    """How the runner ended, and the last that it said."""
    ended = signal.Signals(-returncode).name if returncode < 0 else f"exit code {returncode}"
    lines = re.sub(r"\x1b\[[0-9;]*m", "", output).splitlines()[-LAST_LINES:]
    return "\n".join([f"the runner ended with {ended} and no report; the last that it said:", *lines])


def run_librdkafka(
    folder: pathlib.Path, bootstrap: str, tests: list[str], *, consumer_protocol: str = "classic", at_a_time: int = 8
) -> dict[str, str]:
    """`tests` by name, e.g.

    `0012_produce_consume`; none: all. What shares a number with one of them is run, too.
    """
    with tempfile.TemporaryDirectory() as own:  # two runs may go on in `folder` at the same time
        return _run_librdkafka(folder, pathlib.Path(own), bootstrap, tests, consumer_protocol, at_a_time)


def _run_librdkafka(
    folder: pathlib.Path, own: pathlib.Path, bootstrap: str, tests: list[str], consumer_protocol: str, at_a_time: int
) -> dict[str, str]:
    runner = folder / "tests"
    report = own / "report.json"
    conf = own / "test.conf"
    conf.write_text(f"metadata.broker.list={bootstrap}\n")
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": f"{folder / 'src'}:{folder / 'src-cpp'}",
        "RDKAFKA_TEST_CONF": str(conf),
        "TEST_KAFKA_VERSION": KAFKA_VERSION,
        "TEST_REPORT": str(report),
        "TEST_CONSUMER_GROUP_PROTOCOL": consumer_protocol,
    }
    environment |= {"KAFKA_PATH": str(_distribution(own)), "BROKERS": bootstrap}
    if tests:
        environment["TESTS"] = ",".join(dict.fromkeys(name[:4] for name in tests))
    command = ["./test-runner", f"-p{at_a_time}", "-Q", "-r"]
    deaths: list[str] = []
    while not report.exists() and len(deaths) <= RUNS_THAT_MAY_DIE:
        done = subprocess.run(
            command, cwd=runner, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SUITE_TIMEOUT_S, check=False
        )
        if not report.exists():
            deaths.append(death_of(done.returncode, done.stdout.decode(errors="replace")))
            if done.returncode >= 0:
                break
    assert report.exists(), "\n\n".join(deaths)
    for death in deaths:
        warnings.warn(death, stacklevel=2)
    found = json.loads(report.read_text())["tests"]
    return {name: "passed" if test["state"] == "PASSED" else test["state"].lower() for name, test in found.items() if name != "<MAIN>"}


def run_franz_go(program: pathlib.Path, bootstrap: str, secure_bootstrap: str, tests: list[str]) -> dict[str, str]:
    """`tests` by name, e.g. `TestGroupETL`; none: all, also those that need no broker."""
    environment = {
        **os.environ,
        "KGO_SEEDS": bootstrap,
        "KGO_TEST_RF": "3",
        "KGO_TEST_RECORDS": str(FRANZ_GO_RECORDS),
        "KGO_TEST_UNSAFE": "1",
        "KGO_TEST_SCRAM": f"{USER}:{PASSWORD}",
        "KGO_TEST_SCRAM_SEEDS": secure_bootstrap,
        "KGO_LOG_LEVEL": "none",
    }
    selected = [f"-test.run=^({'|'.join(tests)})$"] if tests else []
    text = _output_of([str(program), "-test.v", f"-test.timeout={SUITE_TIMEOUT_S}s", *selected], environment)
    found = re.findall(r"^--- (PASS|FAIL|SKIP): (\w+) ", text, re.MULTILINE)
    assert found, text[-3000:]
    outcomes = {name: "passed" if verdict == "PASS" else verdict.lower() for verdict, name in found}
    for name, outcome in outcomes.items():
        if outcome == "fail":
            outcomes[name] = f"fail: {_lines_of_test(text, name)}"
    return outcomes


def _lines_of_test(text: str, name: str) -> str:
    """What the test said while it was the one that speaks (Go marks changes of the speaker by `===
    `).
    """
    said: list[str] = []
    speaks = False
    for line in text.splitlines():
        if line.startswith(("=== ", "--- ")):
            speaks = name in line
        elif speaks:
            said.append(line.strip())
    words = " ".join(said)
    return words if len(words) <= 2_000 else f"{words[:1_500]} ... {words[-500:]}"


def run_rust(folder: pathlib.Path, environment: dict[str, str], tests: list[str]) -> dict[str, str]:
    """`tests` as PROGRAM::NAME; none: all of all programs. Two run at a time."""
    outcomes: dict[str, str] = {}
    for program in sorted((folder / "programs").iterdir()):
        prefix = f"{program.name}::"
        names = [name.removeprefix(prefix) for name in tests if name.startswith(prefix)]
        if tests and not names:
            continue
        command = [str(program), "--test-threads=2", "--exact", *names]
        text = _output_of(command, os.environ | environment, cwd=folder)
        found = re.findall(r"^test (\S+) \.\.\. (ok|FAILED|ignored)", text, re.MULTILINE)
        assert found or not names, text[-3000:]
        for name, verdict in found:
            outcomes[prefix + name] = "passed" if verdict == "ok" else f"{verdict}: {_panic_of(text, name)}"
    return outcomes


def _panic_of(text: str, name: str) -> str:
    """What a failed test said before its stack."""
    section = text.partition(f"---- {name} stdout ----")[2].partition("stack backtrace:")[0]
    return " ".join(section.split())[:600]


def run_round(command: list[str]) -> dict[str, str]:
    """A program of ours that prints `ok NAME` or `FAIL NAME: reason` for each check."""
    text = _output_of(command, dict(os.environ))
    outcomes = dict.fromkeys(re.findall(r"^ok ([\w-]+)$", text, re.MULTILINE), "passed")
    outcomes |= dict(re.findall(r"^FAIL ([\w-]+): (.*)$", text, re.MULTILINE))
    assert outcomes, text[-3000:]
    return outcomes


def _output_of(command: list[str], environment: dict[str, str], cwd: pathlib.Path | None = None) -> str:
    """Standard output and errors of a run to its end, whatever its exit code."""
    done = subprocess.run(
        command,
        env=environment,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SUITE_TIMEOUT_S + 30,
        check=False,
    )
    return done.stdout.decode(errors="replace")
