"""Apache's `kafka-transactions` and ours, one after the other, against the same cluster: the same
text.
"""

from __future__ import annotations

import pathlib
import re

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from support.peers.apache_tools import ApacheTools, apache_tools

from kmirror import EmbeddedCluster
from kmirror.cli import transactions

pytestmark = pytest.mark.interop

APACHES = "org.apache.kafka.tools.TransactionsCommand"
CONFIG = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}
TIMEOUT_S = 30

SAME = [
    ("list",),
    ("list", "--duration-filter", "3600000"),
    ("list", "--transactional-id-pattern", "op.*"),
    ("describe", "--transactional-id", "open"),
    ("describe", "--transactional-id", "done"),
    ("describe", "--transactional-id", "nobody"),
    ("describe-producers", "--topic", "t", "--partition", "0"),
    ("describe-producers", "--topic", "t", "--partition", "0", "--broker-id", "1"),
    ("find-hanging", "--topic", "t", "--max-transaction-timeout", "0"),
    ("find-hanging", "--broker-id", "1"),
    ("find-hanging",),
    ("find-hanging", "--partition", "1", "--broker-id", "1"),
    ("abort", "--topic", "t", "--partition", "0"),
    ("abort", "--topic", "t", "--partition", "0", "--start-offset", "77"),
    ("abort", "--topic", "t", "--partition", "0", "--producer-id", "1"),
    ("abort", "--topic", "t", "--partition", "0", "--producer-id", "1", "--producer-epoch", "0"),
    ("abort", "--topic", "t", "--partition", "0", "--producer-id", "0", "--producer-epoch", "-5", "--coordinator-epoch", "0"),
]
"""Not here: a pattern that is none.

Kafka's tool says "failed with an unexpected exception", ours that the pattern is not valid.
"""


def durations_aside(text: str) -> str:
    """TransactionDurationMs grows from one run to the next, and with it the widths of the table."""
    return re.sub(r" +\t", "\t", re.sub(r"(\d{13} *\t)\d+", r"\1<ms>", text))


def test_the_tools_say_the_same(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    with EmbeddedCluster(config=CONFIG) as cluster, apache_tools(tmp_path) as tools:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(TIMEOUT_S)
        producers = {
            name: ck.Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name}) for name in ("done", "open")
        }
        for name, producer in producers.items():
            producer.init_transactions(TIMEOUT_S)
            producer.begin_transaction()
            producer.produce("t", name.encode())
            producer.flush(TIMEOUT_S)
            if name == "done":
                producer.commit_transaction(TIMEOUT_S)
        different = [line for arguments in SAME for line in differences(tools, cluster, arguments, capsys)]
        assert not different, "\n".join(different)
        ended = tools.run(
            APACHES, "--bootstrap-server", cluster.bootstrap_servers, "forceTerminateTransaction", "--transactionalId", "open"
        )
        assert (ended.code, ended.out) == (0, "")
        described = tools.run(APACHES, "--bootstrap-server", cluster.bootstrap_servers, "describe", "--transactional-id", "open")
        assert re.search(r"\t(Empty|CompleteAbort) *\t", described.out), described.out


def differences(tools: ApacheTools, cluster: EmbeddedCluster, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> list[str]:
    words = ("--bootstrap-server", cluster.bootstrap_servers, *arguments)
    apache = tools.run(APACHES, *words)
    capsys.readouterr()
    code = transactions.main(list(words))
    ours = capsys.readouterr()
    pairs = [(apache.code, code), (durations_aside(apache.out), durations_aside(ours.out)), (apache.err.strip(), ours.err.strip())]
    return [f"{' '.join(arguments)}\n  Apache: {theirs!r}\n  ours:   {mine!r}" for theirs, mine in pairs if theirs != mine]
