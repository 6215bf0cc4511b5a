"""The rules of MirrorMaker 2 against Apache Kafka's own classes, over the same random questions.

`MirrorMakerRules.java` is compiled into the package of those classes and answers one line for each
line. Every answer must be ours.
"""

from __future__ import annotations

import random

import pytest
from support.mirrormaker.apaches_rules import Apache, Question, compare

from kmirror.admin.groups import OffsetAndMetadata
from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.checkpoints import CheckpointStore, checkpoints_for_group, group_offsets_to_sync
from kmirror.mirrormaker.connector_config import (
    CONNECTORS,
    MirrorCheckpointConfig,
    MirrorConnectorConfig,
    MirrorHeartbeatConfig,
    MirrorSourceConfig,
)
from kmirror.mirrormaker.cycles import SourceAndTarget, TopicSelection, is_cycle
from kmirror.mirrormaker.formats import Checkpoint, Heartbeat, OffsetSync
from kmirror.mirrormaker.mirror_maker_config import MirrorMakerConfig
from kmirror.mirrormaker.offset_sync_store import SYNCS_PER_PARTITION, OffsetSyncStore
from kmirror.mirrormaker.offset_syncs import PartitionState
from kmirror.mirrormaker.remote_cluster_utils import MirrorClient
from kmirror.mirrormaker.replication_policy import DefaultReplicationPolicy, ReplicationPolicy, replication_policy
from kmirror.mirrormaker.topic_filters import DefaultTopicFilter

pytestmark = pytest.mark.interop

T0 = TopicPartition("t", 0)
A_TO_B = SourceAndTarget("A", "B")


def names(source: random.Random, count: int) -> list[str]:
    pieces = [
        "A",
        "B",
        "S",
        "t",
        "heartbeats",
        "my-heartbeats",
        "checkpoints",
        "internal",
        "mm2-offset-syncs",
        "__x",
        "",
        "x_y",
        "a-internal",
    ]
    return [source.choice(("", ".", "_", "-")).join(source.choices(pieces, k=source.randint(1, 5))) for _ in range(count)] + [
        source.choice(".._").join(source.choices(pieces, k=source.randint(1, 5))) for _ in range(count)
    ]


def policy_of(name: str, separator: str, internal: str, alias: str) -> ReplicationPolicy:
    props = {"replication.policy.class": name}
    given = {
        "replication.policy.separator": separator,
        "replication.policy.internal.topic.separator.enabled": internal,
        "source.cluster.alias": alias,
    }
    return replication_policy(props | {key: value for key, value in given.items() if value != "-"})


def java_text(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def test_rp1_to_rp6_and_rt7_policies_name_topics_alike(apache: Apache) -> None:
    source = random.Random(1)
    kinds = [
        (name, separator, internal, alias)
        for name in ("DefaultReplicationPolicy", "IdentityReplicationPolicy")
        for separator in ("-", ".", "_", "ab", "")
        for internal in ("-", "false", "TRUE", "yes")
        for alias in ("-", "A")
    ]
    questions = [("policy", *kind, name) for kind in kinds for name in names(source, 60)]
    ours = []
    for _, name, separator, internal, alias, topic in questions:
        policy = policy_of(name, separator, internal, alias)
        parts = [policy.format_remote_topic("S", topic), policy.topic_source(topic), policy.upstream_topic(topic), policy.original_topic(topic),
                 policy.is_internal_topic(topic), policy.is_heartbeats_topic(topic), policy.is_checkpoints_topic(topic),
                 policy.is_mm2_internal_topic(topic), policy.offset_syncs_topic(topic), policy.checkpoints_topic(topic)]  # fmt: skip
        ours.append(",".join(map(java_text, parts)))
    compare(questions, apache(questions), ours)


PATTERNS = [
    ".*", "orders, pay.*", "logs,(?i)orders.*, pay", "a(?i)b|c", r"\Qa.b*\E.", r"\p{Upper}\p{Digit}+", "[a-c&&[^b]]+", "[a[xy]]", "[^a[xy]]", "[]a]",
    r"[\w&&[^\d]]+", "a++b", r"\x41\u0042", r"\d+", "x.y", "(?s)x.y", "a|", r"mm2.*\.internal", "orders(?!-test).*", "(?<n>a+)-\\k<n>", "(a)(b)\\1",
    "[a-z&&[^aeiou]]+", "[+*.]", r"[\[\]]", r"[a\-z]", "(?i:A)b", "((?i)a)b", "^orders$", r"\bab\b", "a{2}", "[a-]", r"\.", "", " ", "a,,b", "a(", "a[", "*a",
    "[^\\W_]+", "[a-c[x-z]&&[bx]]", "(?:a|b)*c", "(?>a+)b", "x?+y", "[&&a]", "[a&&]", "__.*", "a\\", "(?i)[a-c]+", "(?-i)a", "\\p{Alpha}", "\\P{Alpha}+", "\\h", "a#b",
]  # fmt: skip
WORDS = ["a", "b", "c", "ab", "AB", "aB", "C", "orders", "ORDERS-1", "orders-test", "orders-eu", "pay", "PAY", "logs", "LOGS", "a.b*x", "axb*x", "A12", "a12", "ac",
         "x", "y", "[", "]", "ab_", "a1", "aab", "aa", "AB", "12", "x.y", "xy", "", "mm2-x.internal", "aa-aa", "aa-a", "aba", "bcd", "aei", "+", "z", "-",
         "__consumer_offsets", "aac", "bx", "Ab", "&", " ", "a#b"]  # fmt: skip


def test_fi1_filters_take_the_same_names(apache: Apache) -> None:
    questions = [("filter", pattern, exclude, name) for pattern in PATTERNS for exclude in ("", "(?i)pay.*") for name in WORDS]
    theirs, ours = apache(questions), []
    for _, pattern, exclude, name in questions:
        try:
            taken = DefaultTopicFilter.from_props({"topics": pattern, "topics.exclude": exclude}).should_replicate_topic(name)
            ours.append(java_text(taken))
        except KmirrorError:
            ours.append("error")
    refused = {question[1] for question, answer in zip(questions, theirs, strict=True) if answer.startswith("error")}
    assert {"a,,b", "a(", "a[", "*a", "a\\"} <= refused, "the questions hold bad expressions"
    compare(questions, ["error" if answer.startswith("error") else answer for answer in theirs], ours)


def test_cy1_cy2_cy4_fi4_flows_take_the_same_topics(apache: Apache) -> None:
    source = random.Random(2)
    questions = [
        ("replicate", policy, topics, name)
        for policy in ("DefaultReplicationPolicy", "IdentityReplicationPolicy")
        for topics in (".*", "t, A.t")
        for name in names(source, 200)
    ]
    ours = []
    for _, policy_name, topics, name in questions:
        policy = policy_of(policy_name, "-", "-", "A")
        flow = TopicSelection(A_TO_B, policy, DefaultTopicFilter.from_props({"topics": topics}))
        ours.append(f"{java_text(flow.should_replicate_topic(name))} {java_text(is_cycle(policy, 'B', name))}")
    compare(questions, apache(questions), ours)


def test_cu1_cu4_cu5_hops_sources_and_remote_topics(apache: Apache) -> None:
    source = random.Random(3)
    questions = [
        ("hops", policy, name, alias)
        for policy in ("DefaultReplicationPolicy", "IdentityReplicationPolicy")
        for name in names(source, 150)
        for alias in ("A", "B")
    ]
    theirs, ours = apache(questions), []
    for _, policy_name, name, alias in questions:
        client = MirrorClient(policy_of(policy_name, "-", "-", "A"))
        sources = list(client._sources(name))
        hops = sources.index(alias) + 1 if alias in sources else -1
        ours.append(f"{hops} [{', '.join(sorted(set(sources)))}] {java_text(bool(client.remote_topics([name])))}")
    compare(questions, theirs, ours)


def test_it1_to_it3_records_are_read_and_written_alike(apache: Apache) -> None:
    source = random.Random(4)
    records = []
    for _ in range(300):
        text = "".join(source.choices("ab.-\u00e4\u20ac\U0001f511", k=source.randint(0, 9)))
        partition = TopicPartition(text, source.choice((0, 1, -1, 2**31 - 1)))
        first, second = (source.choice((0, -1, 5, 2**63 - 1, -(2**63))) for _ in range(2))
        records += [Heartbeat(text, "B", first), Checkpoint(text, partition, first, second, text), OffsetSync(partition, first, second)]
    questions, ours = [], []
    for record in records:
        key, value = record.record_key, record.record_value
        if source.random() < 0.3:
            key = key[: source.randint(0, len(key))]
        if source.random() < 0.3:
            value = value[: source.randint(0, len(value))]
        questions.append(("record", type(record).__name__, key.hex(), value.hex()))
        try:
            read = type(record).deserialize_record(key, value)
            ours.append(f"{read}|{read.record_key.hex()}|{read.record_value.hex()}")
        except KmirrorError as error:
            ours.append(f"error {error}")
    theirs = apache(questions)
    assert sum(answer.startswith("error") for answer in theirs) > 100
    compare(questions, theirs, ours)


def test_os1_partitions_sync_at_the_same_records(apache: Apache) -> None:
    source = random.Random(5)
    questions: list[Question] = []
    ours = []
    for _ in range(60):
        lag = source.choice((0, 1, 5, 100))
        state, upstream, downstream = PartitionState(lag), 0, 1000
        questions.append(("state", lag))
        ours.append("")
        for _ in range(100):
            upstream = max(0, upstream + source.choice((1,) * 12 + (0, 2, -3)))
            # Never the same offset again: Kafka does not see then that the target's topic was made anew.
            downstream += source.choice((1,) * 12 + (2, -3))
            questions.append(("pair", upstream, downstream))
            ours.append(java_text(state.update(upstream, downstream)))
    compare(questions, apache(questions), ours)


def histories(seed: int) -> tuple[list[Question], list[str]]:
    """Syncs, rewinds, gaps and questions, with what kmirror answers."""
    source = random.Random(seed)
    questions: list[Question] = []
    ours: list[str] = []
    for _ in range(40):
        only_last = source.random() < 0.4
        store = OffsetSyncStore()
        store.start(initialization_must_read_to_end=only_last)
        questions.append(("store", "last" if only_last else "all"))
        ours.append("")
        upstream, downstream = source.choice((0, 5, 10**6, 2**62, 2**63 - 5000)), 0
        step = source.choice((1, 3, 101, 10_000)) if upstream < 2**62 else 1
        for _step in range(120):
            event = source.random()
            if event < 0.04 and not store.read_to_end:
                store.reached_end()
                questions.append(("end",))
                ours.append("")
            elif event < 0.75:
                upstream += source.choice((1, step, step * 2)) if source.random() < 0.97 else -min(upstream, source.randint(0, 5 * step))
                downstream += source.randint(1, 2 * step)
                store.handle_sync(OffsetSync(T0, upstream, downstream))
                questions.append(("sync", upstream, downstream))
                ours.append("")
            else:
                offset = max(0, upstream - source.choice((-1, 0, 1, 7, 100, 1000, 10**5)) + source.randint(-2, 2))
                questions.append(("ask", offset))
                ours.append(java_text(store.translate_downstream(T0, offset)))
        if store.topic_partitions():
            questions.append(("entries",))
            entries = [store.sync_for(T0, index) for index in range(SYNCS_PER_PARTITION)]
            ours.append(" ".join(f"{entry.upstream_offset}:{entry.downstream_offset}" for entry in entries))
    return questions, ours


@pytest.mark.parametrize("seed", range(3))
def test_os3_to_os6_stores_keep_the_same_syncs_and_translate_alike(apache: Apache, seed: int) -> None:
    questions, ours = histories(seed)
    assert sum(answer == "-1" for answer in ours) > 5 and sum(answer == "null" for answer in ours) > 5
    compare(questions, apache(questions), ours)


def test_cp5_of_a_million_records_with_a_sync_every_hundred(apache: Apache) -> None:
    syncs: list[Question] = [("sync", offset, offset) for offset in range(100, 1_000_001, 100)]
    answers = apache([("store", "all"), ("end",), *syncs, ("ask", 998_400), ("ask", 1_000_100)])
    assert answers[-2:] == ["996901", "1000001"], "1499 are read again; behind the end Kafka answers the next offset, not -1"


def test_cp1_to_cp3_checkpoints_and_group_offsets_are_the_same(apache: Apache) -> None:
    source = random.Random(6)
    questions: list[Question] = []
    ours: list[str] = []
    for _ in range(40):
        store, checkpoints, idle = OffsetSyncStore(), CheckpointStore(), dict[TopicPartition, OffsetAndMetadata | None]()
        store.reached_end()
        questions += [("store", "all"), ("end",), ("checkpoints",)]
        ours += ["", "", ""]
        upstream = downstream = 0
        for _ in range(30):
            upstream += source.randint(1, 50)
            downstream += source.randint(1, 50)
            store.handle_sync(OffsetSync(T0, upstream, downstream))
            committed = max(0, upstream - source.randint(-5, 200))
            found = checkpoints_for_group(
                "g", {T0: OffsetAndMetadata(committed, "m")}, flow=A_TO_B, policy=DefaultReplicationPolicy(),
                topic_filter=DefaultTopicFilter.from_props({}), translate=store.translate_downstream, store=checkpoints,
            )  # fmt: skip
            checkpoints.update(found)
            questions += [("sync", upstream, downstream), ("commit", committed)]
            ours += ["", f"[{', '.join(map(str, found))}]"]
        if source.random() < 0.8:
            at = max(0, downstream - source.randint(-20, 100))
            topic = source.choice(("A.t", "other"))
            idle[TopicPartition(topic, 0)] = OffsetAndMetadata(at)
            questions.append(("idle", topic, at))
            ours.append("")
        written = group_offsets_to_sync(checkpoints.converted_upstream_offsets("g"), idle or None, {})
        questions.append(("groupoffsets",))
        ours.append("\t".join(f"{partition}={offset.offset}" for partition, offset in sorted(written.items())))
    compare(questions, apache(questions), ours)


K382_DRIVER = {
    "clusters": "us-west, us-east", "us-west.bootstrap.servers": "host1:9092", "us-east.bootstrap.servers": "host2:9092", "topics": ".*",
    "groups": ".*", "emit.checkpoints.interval.seconds": "10", "us-west.offset.storage.topic": "mm2-offsets",
    "us-west->us-east.emit.heartbeats.enabled": "false", "us-east.config.storage.topic": "mm2-configs",
}  # fmt: skip
"""The shape of KIP-382's mm2.properties."""
IBM_DRIVER = {
    "clusters": "source, target", "source.bootstrap.servers": "broker-1:9092,broker-2:9092", "target.bootstrap.servers": "cloud:9093",
    "target.security.protocol": "SASL_SSL", "target.ssl.protocol": "TLSv1.2", "target.ssl.endpoint.identification.algorithm": "https",
    "target.sasl.mechanism": "PLAIN", "target.sasl.jaas.config": 'org.example.PlainLoginModule required username="token" password="key";',
    "sync.topic.acls.enabled": "false", "replication.factor": "3", "source->target.enabled": "true", "source->target.topics": "products",
    "tasks.max": "10", "internal.topic.replication.factor": "3", "offset.storage.replication.factor": "3", "refresh.topics.interval.seconds": "10",
}  # fmt: skip
"""The shape of the IBM guide's TLS and SASL file."""
SECURED_DRIVER = {
    "clusters": "A,B,C", "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1", "C.bootstrap.servers": "c:1", "ssl.protocol": "top",
    "security.protocol": "SSL", "A.ssl.protocol": "a", "A.consumer.ssl.protocol": "ac", "A.admin.retries": "7", "B.producers.x": "1",
    "A->B.enabled": "TRUE", "A->B.ssl.protocol": "flow", "A->B.source.cluster.ssl.protocol": "fsc", "A->B.source.admin.ssl.protocol": "fsa",
    "A->B.producer.linger.ms": "5", "A->B.target.consumer.client.id": "me", "B->A.enabled": "true ", "use.defaults.from": "source",
    "B->C.emit.heartbeats.enabled": "no", "replication.policy.separator": "_", "replication.policy.mine": "x", "task.y": "1", "worker": "w",
    "topics": "a, b", "exactly.once.support": "required", "config.providers": "", "A.group.id": "g", "B.key.converter": "k", "B.a.": "1", "C.": "2",
}  # fmt: skip


@pytest.mark.parametrize("file", [K382_DRIVER, IBM_DRIVER, SECURED_DRIVER], ids=["k382", "ibm", "secured"])
def test_dg1_to_dg9_and_dg13_files_resolve_to_the_same_connectors_workers_and_clients(apache: Apache, file: dict[str, str]) -> None:
    file = file | {"plugin.discovery": "service_load"}  # without it Apache's class looks into each jar for each question
    config = MirrorMakerConfig(file)
    given = [f"{name}={value}" for name, value in file.items()]
    questions: list[Question] = [("pairs", *given)]
    ours = [" ".join(sorted(map(str, config.cluster_pairs())))]
    for source in config.clusters:
        for target in config.clusters:
            if source == target:
                continue
            flow = SourceAndTarget(source, target)
            questions.append(("worker", source, target, *given))
            ours.append(text(config.worker_config(flow)))
            for name in CONNECTORS:
                props = config.connector_base_config(flow, name)
                questions.append(("connector", source, target, name, *given))
                ours.append(text(props))
            props = config.connector_base_config(flow, "MirrorSourceConnector")
            resolved = MirrorSourceConfig(props)
            for side in ("source", "target"):
                for kind in ("producer", "consumer", "admin"):
                    questions.append(("client", side, kind, *(f"{name}={value}" for name, value in props.items())))
                    ours.append(text(resolved.client_config(side, kind, "r")))
    compare(questions, apache(questions), ours)


BASE = {"name": "n", "connector.class": "c", "source.cluster.alias": "A", "target.cluster.alias": "B"}
CONNECTOR_CLASSES: dict[str, type[MirrorConnectorConfig]] = {
    "source": MirrorSourceConfig,
    "checkpoint": MirrorCheckpointConfig,
    "heartbeat": MirrorHeartbeatConfig,
}
VALUES = ["", " ", "x", "0", "-1", "1", "40000", "99999999999", "true", "FALSE", "yes", "a,b", "a,,b", "target", "all", "ssl", "3.5", "+7"]
NOT_ASKED = (
    "class",
    "converter",
    "plugin.version",
    "metric.reporters",
    "transforms",
    "predicates",
    "config.providers",
    "replication.policy.class",
)
"""Classes are loaded by Java, and transformations configured; there is nothing to compare."""


def test_wrong_values_of_every_property_get_the_same_error(apache: Apache) -> None:
    questions: list[Question] = []
    ours = []
    for kind, connector in CONNECTOR_CLASSES.items():
        known = connector(BASE).definition.names()
        for name in known:
            if any(word in name for word in NOT_ASKED) or name == "use.defaults.from":
                continue
            for value in VALUES:
                questions.append((kind, *(f"{key}={item}" for key, item in (BASE | {name: value}).items())))
                try:
                    connector(BASE | {name: value})
                    ours.append("ok")
                except KmirrorError as error:
                    ours.append(f"error {error}")
    compare(questions, apache(questions), ours)


def text(props: dict[str, str]) -> str:
    return "\t".join(f"{name}={value}" for name, value in sorted(props.items()))
