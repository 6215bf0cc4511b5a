"""Compares the MBeans of a node with those of Apache Kafka 4.3, by name and attribute.

Missing ones are listed with the reason. The lists are exact: a metric that appears must leave them,
and one that disappears fails the test.
"""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from support.peers.mbean_names import facts, merged

from kmirror import EmbeddedCluster
from kmirror.metadata.image import ClientQuotaEntity

NO_SHARE_GROUPS = "share groups are not served but for their offsets: nobody fetches"
NO_STREAMS_GROUPS = "groups of the streams protocol are not served"
NO_REMOTE_STORAGE = "there is no tiered storage"
NO_SELECTOR = "requests of brokers among each other do not go through a selector that counts"
NO_CONVERSIONS = "batches are never converted to another format"
NO_POOL = "requests are received into buffers of their own"
NO_QUEUE = "responses leave on the loop that made them, connections are accepted on it"
ONE_LOOP = "there is one loop; RequestHandlerAvgIdlePercent says how idle it is"
HOST = "what the host's own exporters tell"
JAVA = "of the JVM's libraries"
NOT_MEASURED = "not measured"
REFUSED_RECORDS = "refused batches are counted in FailedProduceRequestsPerSec, not by what is wrong with them"
NO_RECEIVER = "only where a receiver of client telemetry is switched on"

CHANNELS = (
    "AddPartitionsManager-channel-metrics", "ForwardingManager", "Persister-channel-metrics", "alter-partition-metrics,BrokerId=*",
    "directory-assignments-metrics,BrokerId=*", "forwarding-metrics,BrokerId=*", "heartbeat-metrics,BrokerId=*", "raft-channel-metrics",
    "registration-metrics,BrokerId=*", "txn-marker-channel-metrics",
)  # fmt: skip

LACKING: dict[str, str] = {
    **{f"kafka.server:type={name}": NO_SELECTOR for name in CHANNELS},
    "kafka.controller:type=ControllerEventManager,name=AvgIdleRatio": ONE_LOOP,
    "kafka.log:type=LogManager,name=CordonedLogDirectoryCount": "log directories cannot be cordoned",
    "kafka.log:type=LogManager,name=LogDirectoryCordoned,logDirectory=*": "log directories cannot be cordoned",
    "kafka.network:type=Acceptor,name=AcceptorBlockedPercent,listener=*": NO_QUEUE,
    "kafka.network:type=RequestChannel,name=ResponseQueueSize": NO_QUEUE,
    "kafka.network:type=RequestChannel,name=ResponseQueueSize,processor=*": NO_QUEUE,
    "kafka.network:type=RequestMetrics,name=MessageConversionsTimeMs,request=*": NO_CONVERSIONS,
    "kafka.network:type=RequestMetrics,name=TemporaryMemoryBytes,request=*": NO_CONVERSIONS,
    "kafka.network:type=SocketServer,name=MemoryPoolAvailable": NO_POOL,
    "kafka.network:type=SocketServer,name=MemoryPoolUsed": NO_POOL,
    "kafka.server:type=BrokerTopicMetrics,name=FetchMessageConversionsPerSec": NO_CONVERSIONS,
    "kafka.server:type=BrokerTopicMetrics,name=ProduceMessageConversionsPerSec": NO_CONVERSIONS,
    "kafka.server:type=BrokerTopicMetrics,name=InvalidMagicNumberRecordsPerSec": REFUSED_RECORDS,
    "kafka.server:type=BrokerTopicMetrics,name=InvalidMessageCrcRecordsPerSec": REFUSED_RECORDS,
    "kafka.server:type=BrokerTopicMetrics,name=InvalidOffsetOrSequenceRecordsPerSec": REFUSED_RECORDS,
    "kafka.server:type=BrokerTopicMetrics,name=NoKeyCompactedTopicRecordsPerSec": REFUSED_RECORDS,
    "kafka.server:type=ControllerServer,name=linux-disk-read-bytes": HOST,
    "kafka.server:type=ControllerServer,name=linux-disk-write-bytes": HOST,
    "kafka.server:type=ControllerServer,name=yammer-metrics-count": JAVA,
    "kafka.server:type=DelayedOperationPurgatory,name=NumDelayedOperations,delayedOperation=AlterAcls": "changes of ACLs do not wait",
    "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation=AlterAcls": "changes of ACLs do not wait",
    "kafka.server:type=KafkaServer,name=linux-disk-read-bytes": HOST,
    "kafka.server:type=KafkaServer,name=linux-disk-write-bytes": HOST,
    "kafka.server:type=KafkaServer,name=yammer-metrics-count": JAVA,
    "kafka.server:type=MetadataLoader,name=AvgIdleRatio": ONE_LOOP,
    "kafka.server:type=MetadataLoader,name=CurrentControllerId": NOT_MEASURED,
    "kafka.server:type=ReplicaFetcherManager,name=MinFetchRate,clientId=Replica": NOT_MEASURED,
    "kafka.server:type=client-metrics": NO_RECEIVER,
    "kafka.server:type=group-coordinator-metrics,protocol=streams": NO_STREAMS_GROUPS,
    "kafka.server:type=group-coordinator-metrics,state=NotReady": NO_STREAMS_GROUPS,
    "kafka:type=kafka.Log4jController": "levels of loggers are BROKER_LOGGER configs",
    "kafka.server:type=ReplicaAlterLogDirsManager,name=MinFetchRate,clientId=ReplicaAlterLogDirs": NOT_MEASURED,
    **{
        f"kafka.server:type=DelayedOperationPurgatory,name={name},delayedOperation={operation}": reason
        for name in ("NumDelayedOperations", "PurgatorySize")
        for operation, reason in (
            ("RemoteFetch", NO_REMOTE_STORAGE),
            ("RemoteListOffsets", NO_REMOTE_STORAGE),
            ("ShareFetch", NO_SHARE_GROUPS),
        )
    },
    **{
        f"kafka.server:type=BrokerTopicMetrics,name={name}PerSec": NO_SHARE_GROUPS
        for name in (
            "FailedShareAcknowledgementRequests",
            "FailedShareFetchRequests",
            "TotalShareAcknowledgementRequests",
            "TotalShareFetchRequests",
        )
    },
    "kafka.server:type=ShareGroupMetrics,name=PartitionLoadTimeMs": NO_SHARE_GROUPS,
    **{
        f"kafka.server:type=ShareGroupMetrics,name=RecordAcknowledgementsPerSec,ackType={kind}": NO_SHARE_GROUPS
        for kind in ("Accept", "Reject", "Release", "Renew")
    },
    **{
        f"kafka.server:type=ShareSessionCache,name={name}": NO_SHARE_GROUPS
        for name in ("SharePartitionsCount", "ShareSessionEvictionsPerSec", "ShareSessionsCount")
    },
}

LACKING_ATTRIBUTES: dict[str, tuple[set[str], str]] = {
    "kafka.server:type=raft-metrics": (
        {
            "append-records-rate", "commit-latency-avg", "commit-latency-max", "current-vote-directory-id", "election-latency-avg",
            "election-latency-max", "fetch-records-rate", "poll-idle-ratio-avg",
        },
        "there is one voter: nothing is elected and nothing commits later than it is flushed",
    ),
    "kafka.server:type=socket-server-metrics": ({"MemoryPoolAvgDepletedPercent", "MemoryPoolDepletedTimeTotal"}, NO_POOL),
    "kafka.server:type=socket-server-metrics,listener=*": (
        {"connection-accept-throttle-time", "ip-connection-accept-throttle-time"},
        "appear when a connection is throttled",
    ),
    **{
        f"kafka.server:type=group-coordinator-metrics,state={state}": (attributes, NO_STREAMS_GROUPS)
        for state, attributes in (
            ("Assigning", {"streams-group-count"}),
            ("Dead", {"streams-group-count"}),
            ("Empty", {"streams-group-count"}),
            ("Reconciling", {"streams-group-count"}),
            ("Stable", {"streams-group-count"}),
        )
    },
}  # fmt: skip

ONLY_BY_PREFIX = {
    "kafka.server:type=group-coordinator-metrics": (
        "event-", "batch-", "background-", "share-", "streams-", "thread-",
    ),  # the phases of a write on other threads; here it runs to completion on the loop
    "kafka.server:type=share-coordinator-metrics": ("event-", "batch-", "background-", "thread-"),
    "kafka.server:type=socket-server-metrics,listener=*,networkProcessor=*": (
        "io-", "select-", "network-io-", "request-size-", "successful-", "failed-", "reauthentication-",
    ),  # a selector's own times; authentications where a listener has them
}  # fmt: skip
"""Attributes that are lacking, by how they begin."""


@pytest.fixture(scope="module")
def beans() -> dict[str, set[str]]:
    """What a node registers after what was done to Kafka's when its list was recorded."""
    config = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
    with EmbeddedCluster(config=config) as cluster:
        servers = {"bootstrap.servers": cluster.bootstrap_servers}
        quotas = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
        for quota in quotas:
            cluster.call(lambda server, quota=quota: server.quotas.update(ClientQuotaEntity((("user", None),)), quota, 1e6))
        admin = AdminClient(servers)
        for future in admin.create_topics([NewTopic("t", 1, 1)]).values():
            future.result()
        producer = Producer({**servers, "transactional.id": "x"})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce("t", b"v")
        producer.commit_transaction()
        consumer = Consumer({**servers, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        assert any(consumer.poll(1.0) for _ in range(15))
        consumer.commit(asynchronous=False)
        registered = merged(cluster.metrics().items())
        consumer.close()
        return registered


def test_every_mbean_of_kafka_is_there_or_has_a_reason(beans: dict[str, set[str]]) -> None:
    missing = set(facts()) - set(beans)
    assert missing - set(LACKING) == set(), "no reason is given"
    assert set(LACKING) - missing == set(), "it is there: take it off the list"


def test_every_attribute_is_there_or_has_a_reason(beans: dict[str, set[str]]) -> None:
    found: dict[str, set[str]] = {}
    for name, attributes in facts().items():
        prefixes = ONLY_BY_PREFIX.get(name, ())
        missing = {attribute for attribute in attributes - beans.get(name, attributes) if not attribute.startswith(prefixes or ("\0",))}
        if missing:
            found[name] = missing
    assert found == {name: attributes for name, (attributes, _) in LACKING_ATTRIBUTES.items()}
