"""kafka-consumer-groups and kafka-share-groups beside Apache Kafka's (`tool_comparison`)."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition
from support.peers.tool_comparison import Runner, produce

from kmirror.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop


def test_kafka_share_groups(runner: Runner, cluster: EmbeddedCluster) -> None:
    runner.run("< topics --bootstrap-server BS --create --topic s --partitions 3\n< topics --bootstrap-server BS --create --topic s2")
    produce(cluster, "s", 30, 3)
    runner.run(
        """
        share-groups --bootstrap-server BS --list
        share-groups --bootstrap-server BS --describe --group nosuch
        share-groups --bootstrap-server BS --describe --group nosuch --members
        share-groups --bootstrap-server BS --describe --group nosuch --state
        share-groups --bootstrap-server BS --reset-offsets --group one --topic s --to-latest --dry-run
        share-groups --bootstrap-server BS --reset-offsets --group one --topic s --topic s2 --to-latest --execute
        > share-groups --bootstrap-server BS --reset-offsets --group a-group-with-a-long-name --topic s:0,2 --to-earliest --execute
        share-groups --bootstrap-server BS --reset-offsets --group one --topic s:1 --to-earliest --execute
        share-groups --bootstrap-server BS --reset-offsets --group one --all-topics --to-datetime 2020-01-01T00:00:00.000 --dry-run
        share-groups --bootstrap-server BS --reset-offsets --group one --topic s --to-datetime 2050-01-01T00:00:00.000 --dry-run
        share-groups --bootstrap-server BS --reset-offsets --group one --topic s --to-datetime 2050 --dry-run
        share-groups --bootstrap-server BS --reset-offsets --group one --topic nosuch --to-latest --execute
        share-groups --bootstrap-server BS --reset-offsets --group one --topic s:9 --to-latest --execute
        share-groups --bootstrap-server BS --reset-offsets --group one --topic s:x --to-latest --execute
        share-groups --bootstrap-server BS --reset-offsets --group one --topic s --to-latest
        share-groups --bootstrap-server BS --reset-offsets --group one --topic s --execute
        share-groups --bootstrap-server BS --reset-offsets --group one --to-latest --execute
        share-groups --bootstrap-server BS --reset-offsets --topic s --to-latest --execute
        share-groups --bootstrap-server BS --reset-offsets --group one --topic s --to-latest --execute --dry-run
        share-groups --bootstrap-server BS --reset-offsets --group one --topic s --to-latest --to-earliest --execute
        ~ share-groups --bootstrap-server BS --list
        ~ share-groups --bootstrap-server BS --list --state
        ~ share-groups --bootstrap-server BS --list --state empty
        share-groups --bootstrap-server BS --list --state Stable
        share-groups --bootstrap-server BS --describe
        share-groups --bootstrap-server BS --describe --group one --members --state
        share-groups --bootstrap-server BS --describe --group one --state Empty
        share-groups --bootstrap-server BS --describe --all-groups
        share-groups --list
        share-groups --bootstrap-server BS --list --describe --group one
        share-groups --bootstrap-server BS --delete
        share-groups --bootstrap-server BS --delete --group one --all-groups
        share-groups --bootstrap-server BS --delete --group one --topic s
        share-groups --bootstrap-server BS --delete-offsets --group one
        share-groups --bootstrap-server BS --delete-offsets --group nosuch --topic s
        share-groups --bootstrap-server BS --delete-offsets --group one --topic nosuch
        > share-groups --bootstrap-server BS --delete-offsets --group one --topic s2
        share-groups --bootstrap-server BS --delete-offsets --group one --topic nosuch --topic s2
        """
    )
    for group in ("one", "a-group-with-a-long-name"):
        for details in ("", "--verbose", "--offsets", "--members", "--members --verbose", "--state", "--state --verbose"):
            runner.run(f"share-groups --bootstrap-server BS --describe --group {group} {details}")
    runner.run(
        """
        < share-groups --bootstrap-server BS --delete --group a-group-with-a-long-name
        share-groups --bootstrap-server BS --delete --group a-group-with-a-long-name --group nosuch
        > share-groups --bootstrap-server BS --delete --all-groups
        share-groups --bootstrap-server BS --list
        """
    )


def test_kafka_consumer_groups(runner: Runner, cluster: EmbeddedCluster) -> None:
    connection = {"bootstrap.servers": cluster.bootstrap_servers, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    runner.run("< topics --bootstrap-server BS --create --topic g --partitions 3\n< topics --bootstrap-server BS --create --topic h")
    produce(cluster, "g", 30, 3)
    produce(cluster, "h", 5, 1)
    for group, offsets in {"empty": [("g", 0, 3), ("g", 1, 4), ("h", 0, 5)], "other-group-with-a-long-name": [("h", 0, 2)]}.items():
        consumer = Consumer(connection | {"group.id": group})
        consumer.commit(offsets=[TopicPartition(*row) for row in offsets], asynchronous=False)
        consumer.close()
    members = []
    for settings in (
        {"group.id": "classic"},
        {"group.id": "static", "group.instance.id": "me"},
        {"group.id": "new", "group.protocol": "consumer"},
    ):
        member = Consumer(connection | settings)
        member.subscribe(["g", "h"])
        while not member.assignment():
            member.poll(0.1)
        member.commit(offsets=[TopicPartition("g", 0, 10), TopicPartition("h", 0, 1)], asynchronous=False)
        members.append(member)
    runner.file("plan.csv", "g,0,1\ng,1,2\n")
    for group in ("empty", "classic", "static", "new"):
        for details in ("", "--verbose", "--members", "--members --verbose", "--state", "--state --verbose"):
            runner.run(f"groups --bootstrap-server BS --describe --group {group} {details}")
    runner.run(
        """
        ~ groups --bootstrap-server BS --list
        ~ groups --bootstrap-server BS --list --state
        ~ groups --bootstrap-server BS --list --type --state
        ~ groups --bootstrap-server BS --list --state Empty
        ~ groups --bootstrap-server BS --list --type consumer
        ~ groups --bootstrap-server BS --describe --all-groups --state
        groups --bootstrap-server BS --describe --group nosuch
        groups --bootstrap-server BS --describe --group nosuch --members
        groups --bootstrap-server BS --describe --group classic --members --state
        groups --bootstrap-server BS --reset-offsets --group empty --to-earliest --all-topics
        groups --bootstrap-server BS --reset-offsets --group empty --to-latest --topic g --dry-run
        groups --bootstrap-server BS --reset-offsets --group empty --to-latest --topic g:0,2 --dry-run --export
        groups --bootstrap-server BS --reset-offsets --group empty --group other-group-with-a-long-name --to-latest --topic g --dry-run --export
        groups --bootstrap-server BS --reset-offsets --group empty --shift-by -2 --all-topics --dry-run
        groups --bootstrap-server BS --reset-offsets --group empty --shift-by 200 --all-topics --dry-run
        groups --bootstrap-server BS --reset-offsets --group empty --to-offset 7 --topic g --dry-run
        groups --bootstrap-server BS --reset-offsets --group empty --to-current --topic g --dry-run
        groups --bootstrap-server BS --reset-offsets --group empty --to-datetime 2020-01-01T00:00:00.000 --topic g --dry-run
        groups --bootstrap-server BS --reset-offsets --group empty --to-datetime 2050-01-01T00:00:00.000 --topic g --dry-run
        groups --bootstrap-server BS --reset-offsets --group empty --to-datetime 2050 --topic g --dry-run
        groups --bootstrap-server BS --reset-offsets --group empty --by-duration P1D --topic g --dry-run
        groups --bootstrap-server BS --reset-offsets --group empty --by-duration foo --topic g --dry-run
        groups --bootstrap-server BS --reset-offsets --group empty --dry-run --to-earliest
        groups --bootstrap-server BS --reset-offsets --group empty --dry-run --execute --to-earliest
        groups --bootstrap-server BS --reset-offsets --group empty --dry-run --to-latest --topic nosuch
        groups --bootstrap-server BS --reset-offsets --group empty --dry-run --to-latest --topic g:9
        groups --bootstrap-server BS --reset-offsets --group empty --dry-run --to-latest --topic g:x
        groups --bootstrap-server BS --reset-offsets --group classic --dry-run --to-latest --topic g
        groups --bootstrap-server BS --reset-offsets --group empty --dry-run --from-file DIR/plan.csv
        < groups --bootstrap-server BS --reset-offsets --group empty --execute --to-earliest --topic g
        groups --bootstrap-server BS --describe --group empty
        > groups --bootstrap-server BS --reset-offsets --group empty --execute --to-latest --topic g
        groups --bootstrap-server BS --describe --group empty
        groups --bootstrap-server BS --delete-offsets --group classic --topic g
        groups --bootstrap-server BS --delete-offsets --group nosuch --topic g
        > groups --bootstrap-server BS --delete-offsets --group empty --topic g:0
        < groups --bootstrap-server BS --delete-offsets --group empty --topic g:1
        groups --bootstrap-server BS --describe --group empty
        groups --bootstrap-server BS --delete --group nosuch --group classic
        groups --bootstrap-server BS --delete --topic g --group x
        groups --bootstrap-server BS --list --group x
        groups --bootstrap-server BS
        groups --list
        groups --validate-regex 'a.*'
        groups --validate-regex 'a(?=b)'
        groups --validate-regex '('
        > groups --bootstrap-server BS --delete --group empty
        < groups --bootstrap-server BS --delete --group other-group-with-a-long-name
        ~ groups --bootstrap-server BS --list
        """
    )
    for member in members:
        member.close()
