"""Compares our tools with Apache Kafka's on one kmirror cluster. Exit code and standard output must
be equal byte for byte, and so must the first line of an error. The same runs show that Apache's
tools work with kmirror.

A line of a script is a tool and its arguments. Both run it, Apache's first. A line may begin with
    >    only Apache's tool runs it
    <    only our tool runs it; used for lines that change the cluster, which is done once
    ~    the order of lines is ignored, because Apache's order is that of Java's identity hashes
The comparison leaves out what only Apache's tools print: stack traces, and what a tool prints when
the driver that runs it catches its `exit`.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Producer

from kmirror.embedded import EmbeddedCluster
from support.peers import apache_tools
from support.peers.apache_tools import ApacheTools, Done
from support.waiting import REACHED_S

TOOLS = {
    "acls": apache_tools.ACLS,
    "api-versions": apache_tools.API_VERSIONS,
    "cluster": apache_tools.CLUSTER,
    "configs": apache_tools.CONFIGS,
    "delete-records": apache_tools.DELETE_RECORDS,
    "election": apache_tools.ELECTION,
    "features": apache_tools.FEATURES,
    "get-offsets": apache_tools.GET_OFFSETS,
    "groups": apache_tools.GROUPS,
    "log-dirs": apache_tools.LOG_DIRS,
    "quorum": apache_tools.QUORUM,
    "reassign": apache_tools.REASSIGN,
    "share-groups": apache_tools.SHARE_GROUPS,
    "storage": apache_tools.STORAGE,
    "tokens": apache_tools.TOKENS,
    "topics": apache_tools.TOPICS,
    "consumer": apache_tools.CONSUMER,
    "producer": apache_tools.PRODUCER,
}
MODULES = {
    "api-versions": "broker_api_versions",
    "delete-records": "delete_records",
    "election": "leader_election",
    "get-offsets": "get_offsets",
    "groups": "consumer_groups",
    "log-dirs": "log_dirs",
    "quorum": "metadata_quorum",
    "reassign": "reassign_partitions",
    "share-groups": "share_groups",
    "storage": "storage_tool",
    "tokens": "delegation_tokens",
    "consumer": "console_consumer",
    "producer": "console_producer",
}
TRACE = re.compile(
    r"^(?:\tat .*|(?:Caused by: )?(?:java|org|com|joptsimple)\.[\w.$]+(?:Exception|Error)\b.*|\t\.\.\. \d+ more)\n?", re.MULTILINE
)
KIP_WORDS = re.compile(r"\bmirrors, | or --cluster-mirror <mirror>")
"""What KIP-1279 adds to lists in messages; Apache Kafka 4.3 does not have it."""
PLACE = re.compile(r"(?<![\w+/])(?:BS|CC|DIR)(?![\w+=])")
"""The placeholders of a script. The base64 text of an HMAC or an id may contain the same letters,
so a placeholder must stand alone.
"""
SURPRISED = "ToolDriver$Exited"


def ours(name: str, arguments: list[str]) -> Done:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = importlib.import_module(f"kmirror.cli.{MODULES.get(name, name)}").main(arguments)
    return Done(code, out.getvalue(), err.getvalue())


class Runner:
    """Runs scripts. BS is the brokers' address, CC the controller's, DIR a folder for files."""

    def __init__(self, apaches: ApacheTools, cluster: EmbeddedCluster, folder: Path) -> None:
        self._apaches, self._cluster, self._folder = apaches, cluster, folder

    def _filled(self, word: str) -> str:
        controller = f"127.0.0.1:{self._cluster.nodes[0].controller_port}"
        values = {"BS": self._cluster.bootstrap_servers, "CC": controller, "DIR": str(self._folder)}
        return PLACE.sub(lambda place: values[place[0]], word)

    def file(self, name: str, value: object) -> None:
        (self._folder / name).write_text(value if isinstance(value, str) else json.dumps(value))

    def run(self, script: str) -> None:
        different = []
        for line in filter(None, map(str.strip, script.splitlines())):
            mark = line[0] if line[0] in "<>~" else ""
            name, *arguments = shlex.split(line.removeprefix(mark))
            words = [self._filled(word) for word in arguments]
            if mark == "<":
                assert ours(name, words).code == 0, line
                continue
            theirs = self._apaches.run(TOOLS[name], *words)
            if mark == ">":
                assert theirs.code == 0, (line, theirs)
                continue
            different += [(line, *pair) for pair in differences(theirs, ours(name, words), in_any_order=mark == "~")]
        assert not different, "\n".join(f"{line}\n  Apache's {theirs!r}\n  ours     {own!r}" for line, theirs, own in different)


def differences(theirs: Done, own: Done, *, in_any_order: bool) -> Iterator[tuple[object, object]]:
    if theirs.code != own.code:
        yield theirs.code, own.code
    expected = TRACE.sub("", theirs.out)
    if in_any_order and sorted(expected.split("\n")) == sorted(own.out.split("\n")):
        expected = own.out
    if SURPRISED not in theirs.out and "due to null" not in theirs.out and expected.rstrip("\n") != own.out.rstrip("\n"):
        yield expected, own.out
    complaint = TRACE.sub("", theirs.err).lstrip("\n").split("\n")[0]
    our_complaint = KIP_WORDS.sub("", own.err.lstrip("\n").split("\n")[0])
    if complaint and not complaint.startswith("usage: ") and complaint != our_complaint:
        yield complaint, our_complaint


def produce(cluster: EmbeddedCluster, topic: str, count: int, partitions: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(count):
        producer.produce(topic, f"{number}", partition=number % partitions)
    assert producer.flush(REACHED_S) == 0
