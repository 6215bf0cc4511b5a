"""Our tools beside Apache Kafka's (`tool_comparison`); those of groups have a file of their own."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from support.peers import apache_tools
from support.peers.apache_tools import ApacheTools
from support.peers.tool_comparison import TOOLS, Runner, ours, produce

from kmirror.embedded import EmbeddedCluster
from kmirror.embedded_security import Security

pytestmark = pytest.mark.interop


def test_kafka_topics(runner: Runner) -> None:
    runner.run(
        """
        < topics --bootstrap-server BS --create --topic a.b_c --replica-assignment 1:2,2:3,3:1 --config retention.ms=5000
        topics --bootstrap-server BS --create --topic a.b_c --partitions 3
        topics --bootstrap-server BS --create --topic a.b_c --if-not-exists
        topics --bootstrap-server BS --list
        topics --bootstrap-server BS --list --topic 'a.*,b'
        topics --bootstrap-server BS --describe
        topics --bootstrap-server BS --describe --partition-size-limit-per-response 1
        topics --bootstrap-server BS --describe --topics-with-overrides
        topics --bootstrap-server BS --describe --under-replicated-partitions
        topics --bootstrap-server BS --describe --at-min-isr-partitions
        topics --bootstrap-server BS --describe --topic nosuch
        topics --bootstrap-server BS --describe --topic nosuch --if-exists
        topics --bootstrap-server BS --describe --topic-id AAAAAAAAAAAAAAAAAAAAAQ
        topics --bootstrap-server BS --alter --topic a.b_c --partitions 2
        topics --bootstrap-server BS --alter --topic a.b_c
        topics --bootstrap-server BS --delete --topic nosuch
        topics --bootstrap-server BS --create --topic x --replication-factor 4
        topics --bootstrap-server BS --create --topic x --replication-factor 0
        topics --bootstrap-server BS --create --topic x --partitions 0
        topics --bootstrap-server BS --create --topic x --partitions abc
        topics --bootstrap-server BS --create --topic x --config foo
        topics --bootstrap-server BS --create --topic x --config foo=bar
        topics --bootstrap-server BS --create --topic x --config retention.ms=abc
        topics --bootstrap-server BS --create --topic x --replica-assignment 1:1
        topics --bootstrap-server BS --create --topic x --replica-assignment 1,1:2
        topics --bootstrap-server BS --create --topic x --replica-assignment 9
        topics --bootstrap-server BS --create --topic x --replica-assignment 1 --partitions 2
        topics --bootstrap-server BS --create --topic "a b"
        topics --bootstrap-server BS --create
        topics --bootstrap-server BS --create --list
        topics --list
        topics --bootstrap-server BS --list --bogus
        topics --bootstrap-server BS --list -x
        topics --bootstrap-server BS --list --topic
        topics --bootstrap-server BS --list --partitions 2
        topics --bootstrap-server BS --list --topic a --topic b
        topics --bootstrap-server BS --list --topic '['
        topics --version
        > topics --bootstrap-server BS --delete --topic a.b_c
        topics --bootstrap-server BS --list
        """
    )


def test_kafka_configs(runner: Runner) -> None:
    runner.run(
        """
        < topics --bootstrap-server BS --create --topic t --config retention.ms=5000 --config segment.bytes=1048576
        configs --bootstrap-server BS --describe --topic t
        configs --bootstrap-server BS --describe --topic t --all
        configs --bootstrap-server BS --describe --entity-type brokers
        configs --bootstrap-server BS --describe --entity-type ips --entity-name 300.1.2.3.4
        configs --bootstrap-server BS --alter --entity-type ips --entity-name 300.1.2.3.4 --add-config connection_creation_rate=5
        configs --bootstrap-server BS --describe --broker 2 --all
        > configs --bootstrap-server BS --alter --broker-defaults --add-config log.cleaner.threads=2
        > configs --bootstrap-server BS --alter --broker 1 --add-config log.retention.ms=20000000,log.cleaner.threads=1
        configs --bootstrap-server BS --describe --entity-type brokers
        configs --bootstrap-server BS --alter --broker 1 --delete-config log.cleaner.threads,log.retention.ms
        configs --bootstrap-server BS --alter --topic t --add-config cleanup.policy=[compact,delete],max.message.bytes=2000
        configs --bootstrap-server BS --describe --topic t
        configs --bootstrap-server BS --alter --topic t --delete-config cleanup.policy
        configs --bootstrap-server BS --alter --topic t --add-config nope
        configs --bootstrap-server BS --alter --topic t --add-config 'a b=1'
        configs --bootstrap-server BS --describe --topic nosuch
        configs --bootstrap-server BS --describe --broker 7x
        configs --bootstrap-server BS --describe --broker 99
        configs --bootstrap-server BS --describe --entity-type foo
        configs --bootstrap-server BS --describe
        configs --bootstrap-server BS --alter --topic t
        configs --bootstrap-server BS --alter --entity-type topics --add-config a=b
        configs --bootstrap-server BS --alter --entity-type users --add-config a=b
        configs --bootstrap-server BS --alter --describe --topic t
        configs --bootstrap-server BS --describe --topic t --entity-type topics
        configs --describe --topic t
        configs --bootstrap-server BS --bootstrap-controller BS --describe --topic t
        configs --bootstrap-server BS --describe --topic t --user u
        configs --bootstrap-server BS --describe --entity-type topics --entity-default
        configs --bootstrap-server BS --describe --entity-type broker-loggers
        configs --bootstrap-server BS --alter --group g --add-config consumer.session.timeout.ms=50000
        configs --bootstrap-server BS --describe --group g
        configs --bootstrap-server BS --alter --client-metrics m --add-config interval.ms=1000,metrics=[a.,b.]
        configs --bootstrap-server BS --describe --entity-type client-metrics
        configs --bootstrap-server BS --alter --user u --add-config producer_byte_rate=1048576,request_percentage=50
        configs --bootstrap-server BS --alter --user u --client c --add-config consumer_byte_rate=1e8
        configs --bootstrap-server BS --alter --client-defaults --add-config consumer_byte_rate=12345678
        configs --bootstrap-server BS --alter --user u --add-config foo=1
        configs --bootstrap-server BS --alter --user u --add-config producer_byte_rate=abc
        configs --bootstrap-server BS --alter --client c --add-config SCRAM-SHA-256=[password=x]
        configs --bootstrap-server BS --alter --user u --add-config SCRAM-SHA-256=[iterations=8192,password=x]
        configs --bootstrap-server BS --alter --user u --add-config SCRAM-SHA-256=[iterations=10,password=x]
        configs --bootstrap-server BS --alter --user u --add-config SCRAM-SHA-256=x
        configs --bootstrap-server BS --alter --user-defaults --add-config SCRAM-SHA-256=[password=x]
        configs --bootstrap-server BS --alter --user u --add-config SCRAM-SHA-256=[password=x],producer_byte_rate=1
        configs --bootstrap-server BS --describe --user u
        configs --bootstrap-server BS --describe --entity-type users
        configs --bootstrap-server BS --describe --user u --client c
        configs --bootstrap-server BS --describe --entity-type clients
        configs --bootstrap-server BS --describe --user nosuch
        > configs --bootstrap-server BS --alter --user u --delete-config producer_byte_rate
        configs --bootstrap-server BS --alter --user u --delete-config producer_byte_rate
        configs --bootstrap-server BS --alter --ip 127.0.0.1 --add-config connection_creation_rate=100000
        configs --bootstrap-server BS --describe --entity-type ips
        configs --bootstrap-server BS --alter --ip 127.0.0.1 --add-config foo=10
        > configs --bootstrap-server BS --alter --ip 127.0.0.1 --delete-config connection_creation_rate
        > configs --bootstrap-server BS --alter --user u --delete-config request_percentage
        > configs --bootstrap-server BS --alter --client-defaults --delete-config consumer_byte_rate
        """
    )


def test_kafka_acls(runner: Runner) -> None:
    runner.run(
        """
        acls --bootstrap-server BS --list
        > acls --bootstrap-server BS --add --topic t --allow-principal User:a --operation Read
        acls --bootstrap-server BS --add --topic t --allow-principal User:a --operation Read
        > acls --bootstrap-server BS --add --topic t --topic u --allow-principal User:b --producer --idempotent --transactional-id x
        < acls --bootstrap-server BS --add --topic t --group g --allow-principal User:b --consumer --allow-host 1.2.3.4
        < acls --bootstrap-server BS --add --cluster --deny-principal User:c
        < acls --bootstrap-server BS --add --topic pre --resource-pattern-type prefixed --allow-principal User:c --operation DescribeConfigs
        ~ acls --bootstrap-server BS --list
        ~ acls --bootstrap-server BS --list --topic t
        acls --bootstrap-server BS --list --topic prefix --resource-pattern-type match
        ~ acls --bootstrap-server BS --list --principal User:c
        acls --bootstrap-server BS --list --principal foo
        acls --bootstrap-server BS --add --topic t --operation Read
        acls --bootstrap-server BS --add --allow-principal User:a
        acls --bootstrap-server BS --add --topic t --allow-principal foo
        acls --bootstrap-server BS --add --topic t --allow-principal User:a --resource-pattern-type any
        acls --bootstrap-server BS --add --topic t --allow-principal User:a --resource-pattern-type foo
        acls --bootstrap-server BS --add --list
        acls --bootstrap-server BS --add --producer
        acls --bootstrap-server BS --add --idempotent --topic t
        acls --bootstrap-server BS --add --consumer --topic t
        acls --add --consumer --topic t
        acls --bootstrap-server BS --remove --topic t --allow-principal User:a --operation Read --force
        > acls --bootstrap-server BS --remove --topic t --force
        < acls --bootstrap-server BS --remove --topic u --force
        < acls --bootstrap-server BS --remove --cluster --group g --transactional-id x --force
        < acls --bootstrap-server BS --remove --topic pre --resource-pattern-type prefixed --force
        acls --bootstrap-server BS --list
        """
    )


def test_kafka_reassign_partitions_and_kafka_leader_election(runner: Runner, cluster: EmbeddedCluster) -> None:
    plans = {
        "move": [{"topic": "r", "partition": 0, "replicas": [2, 3]}, {"topic": "r", "partition": 1, "replicas": [3, 1]}],
        "none": [],
        "twice": [{"topic": "r", "partition": 0, "replicas": [2, 2]}],
        "broker": [{"topic": "r", "partition": 0, "replicas": [9]}],
        "topic": [{"topic": "nosuch", "partition": 0, "replicas": [1]}],
        "partition": [{"topic": "r", "partition": 9, "replicas": [1]}],
        "dirs": [{"topic": "r", "partition": 0, "replicas": [1], "log_dirs": ["any", "any"]}],
        "empty": [{"topic": "r", "partition": 0, "replicas": []}],
        "double": [{"topic": "r", "partition": 0, "replicas": [1]}] * 2,
    }
    for name, partitions in plans.items():
        runner.file(f"{name}.json", {"version": 1, "partitions": partitions})
    runner.file("version.json", {"version": 2, "partitions": []})
    runner.file("generate.json", {"version": 1, "topics": [{"topic": "r"}]})
    runner.file("elect.json", {"partitions": [{"topic": "r", "partition": 0}, {"topic": "r", "partition": 1}]})
    runner.run("< topics --bootstrap-server BS --create --topic r --replica-assignment 1:2,2:3,3:1")
    produce(cluster, "r", 30, 3)
    for name in ("none", "twice", "broker", "topic", "partition", "dirs", "empty", "double", "version"):
        runner.run(f"reassign --bootstrap-server BS --execute --reassignment-json-file DIR/{name}.json")
    runner.run(
        """
        reassign --bootstrap-server BS --list
        reassign --bootstrap-server BS --verify --reassignment-json-file DIR/move.json --preserve-throttles
        > reassign --bootstrap-server BS --execute --reassignment-json-file DIR/move.json
        """
    )
    while (
        "in progress"
        in ours(
            "reassign",
            f"--bootstrap-server {cluster.bootstrap_servers} --verify --reassignment-json-file {runner._folder}/move.json".split(),
        ).out
    ):
        pass
    runner.run(
        """
        reassign --bootstrap-server BS --verify --reassignment-json-file DIR/move.json
        reassign --bootstrap-server BS --execute --reassignment-json-file DIR/move.json --throttle 100000
        configs --bootstrap-server BS --describe --topic r
        reassign --bootstrap-server BS --cancel --reassignment-json-file DIR/move.json
        reassign --bootstrap-server BS --execute --reassignment-json-file /nonexistent
        reassign --bootstrap-server BS --generate --topics-to-move-json-file DIR/generate.json --broker-list 1
        reassign --bootstrap-server BS --generate --topics-to-move-json-file DIR/generate.json --broker-list 1,1
        reassign --bootstrap-server BS --generate --topics-to-move-json-file DIR/generate.json
        reassign --bootstrap-server BS --list --broker-list 1
        reassign --bootstrap-server BS
        reassign --list
        topics --bootstrap-server BS --describe --topic r
        election --bootstrap-server BS --election-type preferred --topic nosuch --partition 0
        < election --bootstrap-server BS --election-type preferred --all-topic-partitions
        election --bootstrap-server BS --election-type preferred --path-to-json-file DIR/elect.json
        election --bootstrap-server BS --election-type unclean --topic r --partition 0
        election --bootstrap-server BS
        election --bootstrap-server BS --election-type foo --all-topic-partitions
        election --bootstrap-server BS --election-type preferred
        election --bootstrap-server BS --election-type preferred --topic x
        """
    )


def test_small_tools(runner: Runner, cluster: EmbeddedCluster) -> None:
    runner.run("< topics --bootstrap-server BS --create --if-not-exists --topic s --partitions 3")
    produce(cluster, "s", 30, 3)
    rows = [{"topic": "s", "partition": partition, "offset": offset} for partition, offset in ((0, 4), (1, -1), (2, 99))]
    runner.file("delete.json", {"version": 1, "partitions": rows})
    runner.file("nothing.json", "{}")
    runner.file("broken.json", "[")
    runner.file("version.json", {"version": 2, "partitions": rows})
    runner.file("double.json", {"version": 1, "partitions": [rows[0], rows[0]]})
    runner.run(
        """
        get-offsets --bootstrap-server BS --topic s
        get-offsets --bootstrap-server BS --topic s --time -2
        get-offsets --bootstrap-server BS --topic s --time max-timestamp
        get-offsets --bootstrap-server BS --topic s --time 99999999999999
        get-offsets --bootstrap-server BS --time foo
        get-offsets --bootstrap-server BS --topic s --partitions 0,2
        get-offsets --bootstrap-server BS --partitions x
        get-offsets --bootstrap-server BS --partitions 1 --topic-partitions x
        get-offsets --bootstrap-server BS --topic-partitions s:1-
        get-offsets --bootstrap-server BS --topic-partitions s:-1,s:2
        get-offsets --bootstrap-server BS --topic nosuch
        get-offsets --bootstrap-server foo
        get-offsets --time 1
        delete-records --bootstrap-server BS
        delete-records --bootstrap-server BS --offset-json-file DIR/nothing.json
        delete-records --bootstrap-server BS --offset-json-file DIR/broken.json
        delete-records --bootstrap-server BS --offset-json-file DIR/version.json
        delete-records --bootstrap-server BS --offset-json-file DIR/double.json
        ~ delete-records --bootstrap-server BS --offset-json-file DIR/delete.json
        get-offsets --bootstrap-server BS --topic s --time earliest
        log-dirs --bootstrap-server BS --describe --topic-list s
        log-dirs --bootstrap-server BS --describe --topic-list x
        log-dirs --bootstrap-server BS --describe --broker-list 7,8
        log-dirs --bootstrap-server BS --describe --broker-list x
        log-dirs --bootstrap-server BS
        features --bootstrap-server BS version-mapping
        features --bootstrap-server BS version-mapping --release-version 3.7-IV0
        features --bootstrap-server BS feature-dependencies --feature metadata.version=29 --feature eligible.leader.replicas.version=1
        features --bootstrap-server BS feature-dependencies --feature foo=1
        features --bootstrap-server BS feature-dependencies --feature transaction.version=9
        features --bootstrap-server BS feature-dependencies --feature x=y
        features --bootstrap-server BS upgrade
        features --bootstrap-server BS upgrade --feature a=1 --feature a=2
        features --bootstrap-server BS upgrade --dry-run --feature foo=1
        features --bootstrap-server BS disable --dry-run --feature group.version --unsafe
        features --bootstrap-server BS upgrade --release-version 4.3-IV0 --feature a=1
        cluster cluster-id --bootstrap-server BS
        cluster list-endpoints --bootstrap-server BS
        cluster list-endpoints --bootstrap-server BS --include-fenced-brokers
        cluster unregister --bootstrap-server BS --id 7
        cluster cluster-id
        quorum --bootstrap-server BS describe
        quorum --bootstrap-server BS describe --status --replication
        quorum --bootstrap-server BS describe --status --human-readable
        ~ api-versions --bootstrap-server BS
        storage version-mapping -r 4.0-IV3
        storage feature-dependencies -f eligible.leader.replicas.version=1
        """
    )


def test_controllers_are_asked_instead_of_brokers(runner: Runner) -> None:
    runner.run(
        """
        cluster cluster-id --bootstrap-controller CC
        cluster list-endpoints --bootstrap-controller CC
        cluster list-endpoints --bootstrap-controller CC --include-fenced-brokers
        configs --bootstrap-controller CC --describe --entity-type brokers
        configs --bootstrap-controller CC --describe --topic nosuch
        > configs --bootstrap-controller CC --alter --broker 1 --add-config log.cleaner.threads=1
        configs --bootstrap-controller CC --describe --broker 1
        < configs --bootstrap-controller CC --alter --broker 1 --delete-config log.cleaner.threads
        configs --bootstrap-controller CC --describe --broker 1
        reassign --bootstrap-controller CC --list
        quorum --bootstrap-controller CC describe
        acls --bootstrap-controller CC --list
        > acls --bootstrap-controller CC --add --allow-principal User:cc --operation Read --topic controlled
        acls --bootstrap-controller CC --list --topic controlled
        acls --bootstrap-controller CC --list --principal User:cc --topic controlled
        acls --bootstrap-server BS --list --topic controlled
        acls --bootstrap-controller CC --remove --topic controlled --force
        acls --bootstrap-controller CC --list --topic controlled
        """
    )


def test_voters_of_a_static_quorum(runner: Runner) -> None:
    (runner._folder / "metadata").mkdir()
    runner.file("metadata/meta.properties", "version=1\nnode.id=7\ncluster.id=abc\ndirectory.id=PoeXVPGfTUOyUXTQOZmZuw\n")
    controller = "node.id=7\nprocess.roles=controller\ncontroller.listener.names=CONTROLLER,OTHER\n"
    listeners = "listeners=CONTROLLER://:9093,OTHER://[::1]:9094\nadvertised.listeners=CONTROLLER://example.org:9095\n"
    good = f"{controller}{listeners}log.dirs={runner._folder}/metadata,/x\n"
    for number, text in enumerate(
        (
            "",
            "node.id=-1\n",
            "node.id=7\nprocess.roles=broker\n",
            controller,
            f"{controller}metadata.log.dir=/nowhere\n",
            f"{controller}log.dirs={runner._folder}/metadata\n",
            good.replace("controller.listener.names=CONTROLLER,OTHER\n", ""),
            good,
        )
    ):
        runner.file(f"{number}.properties", text)
        for dry in ("", " --dry-run"):
            runner.run(f"quorum --bootstrap-server BS --command-config DIR/{number}.properties add-controller{dry}")
    runner.run(
        """
        quorum --bootstrap-controller CC --command-config DIR/7.properties add-controller
        quorum --bootstrap-server BS add-controller
        quorum --bootstrap-server BS remove-controller
        quorum --bootstrap-server BS remove-controller -i x -d y
        quorum --bootstrap-server BS remove-controller -i -1 -d PoeXVPGfTUOyUXTQOZmZuw
        quorum --bootstrap-server BS remove-controller -i 1 -d abc
        quorum --bootstrap-server BS remove-controller -i 1 -d PoeXVPGfTUOyUXTQOZmZuw --dry-run
        quorum --bootstrap-server BS remove-controller -i 1 -d PoeXVPGfTUOyUXTQOZmZuw
        quorum --bootstrap-controller CC remove-controller --controller-id 1 --controller-directory-id PoeXVPGfTUOyUXTQOZmZuw
        """
    )


def test_kafka_storage(runner: Runner) -> None:
    runner.file(
        "node.properties",
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:9093\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\nlog.dirs={runner._folder}/a,{runner._folder}/b\n",
    )
    runner.run("storage info -c DIR/node.properties")
    (runner._folder / "a").mkdir()
    runner.run(
        """
        storage info -c DIR/node.properties
        < storage format -c DIR/node.properties -t lBq12jYZRp-9wF3M9MPopg
        storage info -c DIR/node.properties
        storage format -c DIR/node.properties -t lBq12jYZRp-9wF3M9MPopg -g
        storage format -c DIR/node.properties -t AAAAAAAAAAAAAAAAAAAAAg -g
        storage format -c DIR/node.properties -t AAAAAAAAAAAAAAAAAAAAAg
        """
    )
    runner.file("b/meta.properties", "version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAg\nnode.id=2\ndirectory.id=AAAAAAAAAAAAAAAAAAAABg\n")
    runner.run(
        """
        storage info -c DIR/node.properties
        storage format -c DIR/node.properties -t lBq12jYZRp-9wF3M9MPopg -g
        """
    )
    runner.file("b/meta.properties", "version=1\ncluster.id=lBq12jYZRp-9wF3M9MPopg\nnode.id=2\ndirectory.id=AAAAAAAAAAAAAAAAAAAABg\n")
    runner.run("storage format -c DIR/node.properties -t lBq12jYZRp-9wF3M9MPopg -g")


def test_kafka_delegation_tokens(apaches: ApacheTools, tmp_path: Path) -> None:
    users = {"alice": "alice-secret", "bob": "bob-secret"}
    config = {"delegation.token.secret.key": "a secret of the cluster"}
    with EmbeddedCluster(security=Security.sasl_plaintext(users), config=config) as cluster:
        runner = Runner(apaches, cluster, tmp_path)
        for user in users:
            properties = cluster.client_properties(user, style="java")
            runner.file(f"{user}.properties", "".join(f"{name}={value}\n" for name, value in properties.items()))
        alice = "--bootstrap-server BS --command-config DIR/alice.properties"
        words = [runner._filled(word) for word in f"{alice} --create --max-life-time-period 600000 --renewer-principal User:bob".split()]
        theirs, own = apaches.run(TOOLS["tokens"], *words), ours("tokens", words)
        masked = [re.sub(r"[\w-]{22}(?= |$)|\S{86}==", "*", done.out, flags=re.MULTILINE) for done in (theirs, own)]
        assert masked[0] == masked[1] and masked[0].count("*") == 3 and "User:bob" in masked[0]
        hmac = next(word for word in own.out.split() if word.endswith("=="))
        runner.run(
            f"""
            tokens {alice} --describe --owner-principal User:alice
            tokens {alice} --describe --owner-principal User:bob
            tokens {alice} --describe --owner-principal alice
            tokens {alice} --renew --hmac {hmac} --renew-time-period -1
            tokens {alice} --renew --hmac AAAA --renew-time-period -1
            tokens {alice.replace("alice", "bob")} --renew --hmac {hmac} --renew-time-period 300000
            tokens {alice} --describe --owner-principal User:alice
            tokens {alice} --expire --hmac {hmac} --expiry-time-period 120000
            > tokens {alice} --expire --hmac {hmac} --expiry-time-period -1
            tokens {alice} --expire --hmac {hmac} --expiry-time-period -1
            tokens {alice} --create
            tokens {alice} --create --describe
            tokens {alice}
            tokens {alice} --renew --hmac x
            tokens {alice} --create --max-life-time-period 1 --hmac x
            tokens {alice} --expire --hmac x --expiry-time-period 1 --owner-principal User:x
            tokens {alice} --describe --renew-time-period 1
            tokens --bootstrap-server BS --describe
            tokens --command-config DIR/alice.properties --describe
            """
        )
        alices = [runner._filled(word) for word in alice.split()]
        listed = ours("tokens", [*alices, "--describe", "--json"])
        assert [row["owner"] for row in json.loads(listed.out)] == ["User:alice"]


def test_the_console_tools_read_each_others_records(
    apaches: ApacheTools, cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = ["--bootstrap-server", cluster.bootstrap_servers]
    reader = [word for name in ("parse.key=true", "parse.headers=true", "null.marker=NULL") for word in ("--reader-property", name)]
    lines = "h1:a,h2:b\tk1\tv1\nh1:\tk2\tNULL\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    assert ours("producer", [*connection, "--topic", "c-own", *reader]).code == 0
    assert apaches.run(apache_tools.PRODUCER, *connection, "--topic", "c-apache", *reader, stdin=lines).code == 0
    shown = [word for name in ("key", "offset", "partition", "headers") for word in ("--formatter-property", f"print.{name}=true")]
    for topic in ("c-own", "c-apache"):
        arguments = [*connection, "--topic", topic, "--from-beginning", "--max-messages", "2", "--timeout-ms", "20000", *shown]
        theirs = apaches.run(apache_tools.CONSUMER, *arguments)
        out = io.TextIOWrapper(io.BytesIO())
        monkeypatch.setattr("sys.stdout", out)
        from kmirror.cli import console_consumer

        code = console_consumer.main(arguments)
        monkeypatch.undo()
        assert (code, out.buffer.getvalue().decode()) == (theirs.code, theirs.out)  # type: ignore[attr-defined]
        assert theirs.out == "Partition:0\tOffset:0\th1:a,h2:b\tk1\tv1\nPartition:0\tOffset:1\th1:\tk2\tnull\n"


def test_the_console_consumers_show_internal_topics_alike(apaches: ApacheTools, monkeypatch: pytest.MonkeyPatch) -> None:
    from kmirror.cli import console_consumer

    config = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
    with EmbeddedCluster(config=config) as cluster:
        produce(cluster, "watched", 3, 1)
        connection = {"bootstrap.servers": cluster.bootstrap_servers}
        for protocol in ("classic", "consumer"):
            group = {"group.id": protocol, "group.protocol": protocol, "auto.offset.reset": "earliest", "enable.auto.commit": False}
            consumer = Consumer(connection | group)
            consumer.subscribe(["watched"])
            assert consumer.poll(20) is not None
            consumer.commit(asynchronous=False)
            consumer.close()
        producer = Producer(connection | {"transactional.id": "tx"})
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce("watched", "in a transaction")
        producer.commit_transaction(20)
        for topic, formatters in (
            ("__consumer_offsets", ("OffsetsMessageFormatter", "GroupMetadataMessageFormatter", "ShareGroupMessageFormatter")),
            ("__transaction_state", ("TransactionLogMessageFormatter",)),
        ):
            for name in formatters:
                where = ["--bootstrap-server", cluster.bootstrap_servers, "--topic", topic, "--partition", "0", "--offset", "earliest"]
                arguments = [*where, "--timeout-ms", "1500", "--formatter", f"org.apache.kafka.tools.consumer.{name}"]
                theirs = apaches.run(apache_tools.CONSUMER, *arguments)
                out = io.TextIOWrapper(io.BytesIO())
                monkeypatch.setattr("sys.stdout", out)
                code = console_consumer.main(arguments)
                monkeypatch.undo()
                assert (code, out.buffer.getvalue().decode()) == (theirs.code, theirs.out), name  # type: ignore[attr-defined]
                assert (theirs.out == "") == ("Share" in name), theirs
