"""The internal REST interface of `connect-mirror-maker` (RE3, DG11): two processes of one flow ask each
other, sign it (KIP-507), and refuse what they cannot do as Connect does.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.mirrormaker.embedded_flows import BROKER
from support.mirrormaker.logs_compared import make_topics, produce, read, rows
from support.mirrormaker.mirror_makers import OUR_PROGRAM, MirrorMakerProcess, count_of, our_mirror_maker_2, properties
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.mirrormaker.herder.cluster_config_state import ClusterConfigState
from kmirror.mirrormaker.herder.request_signatures import SIGNATURE_ALGORITHM_HEADER, Sign
from kmirror.mirrormaker.herder.session_keys import SessionConfig

SOURCE = "MirrorSourceConnector"
PARTITIONS = 4
REST = {
    "dedicated.mode.enable.internal.rest": "true",
    "listeners": "http://127.0.0.1:0",
    "tasks.max": str(PARTITIONS),
    "B.session.timeout.ms": "3000",
    "B.heartbeat.interval.ms": "500",
    "B.exactly.once.source.support": "enabled",
    "A.consumer.isolation.level": "read_committed",
}


class Flow:
    def __init__(self, folder: Path, a: str, b: str, stack: ExitStack, protocol: str) -> None:
        self.a, self.b = a, b
        self._folder, self._stack, self._started = folder, stack, 0
        self._props = properties(("A", "B"), (a, b), {"topics": "t", "B.connect.protocol": protocol, **REST})

    def start(self) -> tuple[MirrorMakerProcess, str]:
        """Returns a process, and its URL."""
        self._started += 1
        process = self._stack.enter_context(our_mirror_maker_2(self._folder / str(self._started), self._props))
        process.until("it is a member", lambda: "Joined group" in process.log)
        (url,) = re.findall(r"advertising URL (\S+)/", process.log)
        return process, url

    def committed(self) -> int:
        """How many records a reader of committed records can see. A worker that is killed leaves others behind."""
        if not count_of(self.b, "A.t", PARTITIONS):
            return 0
        return sum(map(len, read(self.b, "A.t", PARTITIONS, isolation="read_committed").values()))

    def configs(self) -> ClusterConfigState:
        state = ClusterConfigState()
        for _, row in read(self.b, "mm2-configs.A.internal")[0]:
            state.handle_record(row.key, row.value)
        return state

    def tasks(self) -> list[dict[str, str]] | None:
        return self.configs().task_configs(SOURCE)


@contextmanager
def flow(folder: Path, protocol: str) -> Iterator[Flow]:
    config = {**BROKER, "group.min.session.timeout.ms": "1000", "transaction.state.log.num.partitions": "1"}
    with EmbeddedCluster(config=config) as a, EmbeddedCluster(config=config) as b, ExitStack() as stack:
        make_topics(a.bootstrap_servers, {"t": PARTITIONS})
        yield Flow(folder, a.bootstrap_servers, b.bootstrap_servers, stack, protocol)


def ask(method: str, url: str, body: Any = None, sign: Sign = lambda body: {}) -> tuple[int, str]:
    """Returns the status and the message of a refusal."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", **sign(data or b"")}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=REACHED_S) as answer:
            return answer.status, ""
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, json.loads(refusal.read())["message"]


def test_re3_a_flow_is_shared_and_a_request_finds_the_leader(tmp_path: Path) -> None:
    with flow(tmp_path, "eager") as made:
        leader, leaders_url = made.start()
        other, url = made.start()
        produce(made.a, "t", 200, partitions=PARTITIONS)
        other.until("all is copied", lambda: made.committed() >= 200)
        for asked in (leaders_url, url):
            assert ask("PUT", f"{asked}/A/B/connectors/{SOURCE}/fence") == (204, "")
        assert ask("PUT", f"{url}/A/B/connectors/{SOURCE}/fence?forward=false")[0] == 409
        assert ask("PUT", f"{url}/A/B/connectors/nobody/fence") == (404, "Connector nobody not found")
        assert ask("PUT", f"{url}/B/A/connectors/{SOURCE}/fence") == (404, "No replication flow found for source 'B' and target 'A'")
        before = made.tasks()
        assert before is not None and len(before) == PARTITIONS
        assert ask("POST", f"{url}/A/B/connectors/{SOURCE}/tasks", before[:1]) == (204, "")
        leader.until("the leader wrote what it was told", lambda: made.tasks() == before[:1])
        leader.process.kill()
        produce(made.a, "t", 200, partitions=PARTITIONS, first=200)
        other.until("the next leader's connector says what its tasks are", lambda: made.tasks() == before)
        other.until("it goes on", lambda: made.committed() >= 400)
        assert other.stop() == 0, other.log[-3000:]
        assert rows(read(made.b, "A.t", PARTITIONS, isolation="read_committed")) == rows(read(made.a, "t", PARTITIONS))


def test_kip507_a_request_of_a_worker_is_taken_and_no_other(tmp_path: Path) -> None:
    session = SessionConfig({})
    with flow(tmp_path, "sessioned") as made:
        leader, leaders_url = made.start()
        other, url = made.start()
        produce(made.a, "t", 200, partitions=PARTITIONS)
        other.until("all is copied, and each runs a part", lambda: made.committed() >= 200 and re.search(r" [12] tasks", other.log))
        key = made.configs().session_key
        assert key is not None
        fence, tasks = f"A/B/connectors/{SOURCE}/fence", f"A/B/connectors/{SOURCE}/tasks"

        def sign(body: bytes) -> dict[str, str]:
            return session.headers(key, body)

        unsigned = (400, "Internal request missing required signature")
        wrong = {**sign(b"another body"), "Content-Type": "application/json"}
        before = made.tasks()
        for asked in (leaders_url, url):
            assert ask("PUT", f"{asked}/{fence}") == unsigned
            assert ask("POST", f"{asked}/{tasks}", before) == unsigned
            assert ask("POST", f"{asked}/{tasks}", before, lambda _: wrong) == (403, "Internal request contained invalid signature.")
            unknown = {**sign(b""), SIGNATURE_ALGORITHM_HEADER: "HmacX"}
            assert ask("PUT", f"{asked}/{fence}", None, lambda _, unknown=unknown: unknown) == (400, "Algorithm HmacX not available")
        assert ask("PUT", f"{leaders_url}/{fence}", None, sign) == (204, "")
        assert ask("POST", f"{leaders_url}/{tasks}", before, sign) == (204, "")
        assert ask("PUT", f"{url}/{fence}", None, sign) == unsigned, "as of Connect, what goes on to the leader is not signed again"
        assert "does not take" not in leader.log + other.log, "connectors told the leader what their tasks are"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"listeners": "tcp://127.0.0.1:0"}, 'Listener protocol must be either "http" or "https".'),
        ({"listeners": "http://192.0.2.1:80"}, "Unable to initialize REST server"),
    ],
)
def test_dg11_a_listener_that_cannot_be_is_one_line(tmp_path: Path, settings: Mapping[str, str], said: str) -> None:
    path = tmp_path / "mm2.properties"
    props = properties(("A", "B"), ("127.0.0.1:1", "127.0.0.1:1"), {**REST, **settings})
    path.write_text("".join(f"{name} = {value}\n" for name, value in props.items()))
    done = subprocess.run([sys.executable, "-m", OUR_PROGRAM, str(path)], capture_output=True, text=True, timeout=REACHED_S, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("connect-mirror-maker: ") and said in done.stderr and done.stderr.count("\n") == 1
