"""KafkaApis from frame to frame: routing, versions, what cannot be read, and each handler's
answers, without sockets.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from support.brokers.broker_doubles import NOW_MS, BrokerWorld, batch_of
from support.brokers.frame_exchange import exchange, send

from kmirror.common.errors import ApiException, Errors
from kmirror.common.uuid import Uuid
from kmirror.network.request_context import CLOSE
from kmirror.record.builder import rewrite_crc
from kmirror.record.compression import CompressionType
from kmirror.record.record_batch import RecordBatch
from kmirror.wire import error_responses
from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.messages import (
    allocate_producer_ids,
    api_versions,
    create_topics,
    delete_records,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_config_resources,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)


def produce_request(records: bytes | bytearray, *, acks: int = 1, topic: str = "t", topic_id: Uuid = Uuid.ZERO) -> produce.ProduceRequest:
    data = produce.PartitionProduceData(index=0, records=records)
    return produce.ProduceRequest(
        acks=acks, timeout_ms=1000, topic_data=[produce.TopicProduceData(name=topic, topic_id=topic_id, partition_data=[data])]
    )


def fetch_request(
    offset: int, *, topic: str = "t", topic_id: Uuid = Uuid.ZERO, session_id: int = 0, session_epoch: int = -1
) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return fetch.FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[fetch.FetchTopic(topic=topic, topic_id=topic_id, partitions=[partition])],
    )


async def test_produce_and_fetch_in_every_version(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    topic_id = world.create_topic("t")
    for expected, version in enumerate(range(3, 14)):
        response = await exchange(world, ApiKeys.PRODUCE, version, produce_request(batch_of(b"v"), topic_id=topic_id))
        partition = response.responses[0].partition_responses[0]
        assert (partition.error_code, partition.base_offset) == (0, expected)
    for version in range(4, 19):
        response = await exchange(world, ApiKeys.FETCH, version, fetch_request(10, topic_id=topic_id))
        data = response.responses[0].partitions[0]
        assert (data.error_code, data.high_watermark) == (0, 11)
        assert RecordBatch(data.records).base_offset == 10


async def test_all_codecs_go_in_and_come_out_unchanged(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t")
    for offset, codec in enumerate(CompressionType):
        sent = batch_of(b"value " * 50, compression=codec)
        body = bytes(sent[21:])
        await exchange(world, ApiKeys.PRODUCE, 9, produce_request(sent))
        response = await exchange(world, ApiKeys.FETCH, 12, fetch_request(offset))
        assert bytes(response.responses[0].partitions[0].records[21:]) == body, codec


async def test_produce_below_version_3_closes_the_connection_but_is_advertised(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    frame = memoryview(b"\x00\x00\x00\x02\x00\x00\x00\x07\x00\x04test\x00\x01\x00\x00\x03\xe8\x00\x00\x00\x00")
    assert await send(world, frame, 2) is CLOSE
    versions = await exchange(
        world, ApiKeys.API_VERSIONS, 4, api_versions.ApiVersionsRequest(client_software_name="c", client_software_version="1")
    )
    rows = {row.api_key: (row.min_version, row.max_version) for row in versions.api_keys}
    assert rows[0] == (0, 13)
    assert rows[1] == (4, 18)
    assert ApiKeys.CREATE_MIRROR not in rows and ApiKeys.VOTE not in rows


async def test_api_versions_steps_down_and_checks_the_software_name(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    answer = await send(world, memoryview(b"\x00\x12\x00\x63\x00\x00\x00\x07\x00\x04test\x00"), 99)
    assert answer.error_code == Errors.UNSUPPORTED_VERSION
    assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [(18, 0, 4)]
    bad = await exchange(
        world, ApiKeys.API_VERSIONS, 3, api_versions.ApiVersionsRequest(client_software_name="?", client_software_version="1")
    )
    assert bad.error_code == Errors.INVALID_REQUEST
    old = await exchange(
        world, ApiKeys.API_VERSIONS, 3, api_versions.ApiVersionsRequest(client_software_name="c", client_software_version="1")
    )
    assert all(row.min_version > 0 for row in old.supported_features)


async def test_mirroring_adds_its_apis_and_versions(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path), props={"unstable.api.versions.enable": "true", "unstable.feature.versions.enable": "true"})
    versions = await exchange(
        world, ApiKeys.API_VERSIONS, 4, api_versions.ApiVersionsRequest(client_software_name="c", client_software_version="1")
    )
    rows = {row.api_key: row.max_version for row in versions.api_keys}
    assert (rows[1], rows[10], rows[19], rows[32], rows[94]) == (19, 7, 8, 5, 0)
    assert "mirror.version" in {row.name for row in versions.supported_features}


async def test_a_body_that_does_not_decode_closes_the_connection(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    assert await send(world, memoryview(b"\x00\x03\x00\x01\x00\x00\x00\x07\x00\x04test\x7f\xff\xff\xff"), 1) is CLOSE
    assert await send(world, memoryview(b"\x00\x34\x00\x00\x00\x00\x00\x07\x00\x04test\x00"), 0) is CLOSE, "Vote is for controllers"


async def test_acks_0_answers_nothing_and_closes_on_an_error(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t")
    assert await exchange(world, ApiKeys.PRODUCE, 9, produce_request(batch_of(b"a"), acks=0)) is None
    assert world.partition("t").log.log_end_offset == 1
    assert await exchange(world, ApiKeys.PRODUCE, 9, produce_request(batch_of(b"a"), acks=0, topic="gone")) is CLOSE


async def test_what_produce_refuses(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t", configs={"max.message.bytes": "200"})
    magic_1, zstd = batch_of(b"a"), batch_of(b"a", compression=CompressionType.ZSTD)
    magic_1[16] = 1
    codec_5, huge, magic_3 = batch_of(b"a"), batch_of(b"a"), batch_of(b"a")
    codec_5[22], magic_3[16] = 5, 3
    rewrite_crc(codec_5)
    huge[8:12] = b"\x7f\xff\xff\xff"
    cases: list[tuple[int, bytes | bytearray, Errors]] = [
        (9, b"", Errors.INVALID_RECORD),
        (9, magic_1, Errors.INVALID_RECORD),
        (9, batch_of(b"a") + batch_of(b"b"), Errors.INVALID_RECORD),
        (6, zstd, Errors.UNSUPPORTED_COMPRESSION_TYPE),
        (9, codec_5, Errors.UNKNOWN_SERVER_ERROR),
        (9, huge, Errors.UNKNOWN_SERVER_ERROR),
        (9, magic_3, Errors.CORRUPT_MESSAGE),
        (9, batch_of(b"x" * 300), Errors.MESSAGE_TOO_LARGE),
        (
            9,
            batch_of(b"a", is_transactional=True, producer_id=1, producer_epoch=0, base_sequence=0),
            Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
    ]
    for version, records, error in cases:
        response = await exchange(world, ApiKeys.PRODUCE, version, produce_request(records))
        answer = response.responses[0].partition_responses[0]
        assert (Errors(answer.error_code), answer.base_offset) == (error, -1)
        text = "Invalid magic found in record: 3" if records is magic_3 else None
        assert answer.error_message == text
    unknown = await exchange(world, ApiKeys.PRODUCE, 13, produce_request(batch_of(b"a"), topic_id=Uuid(b"x" * 16)))
    assert unknown.responses[0].partition_responses[0].error_code == Errors.UNKNOWN_TOPIC_ID


async def test_not_the_leader_is_told_who_is(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path), others=(2,))
    topic_id = world.create_topic("t", replicas=(2, 1))
    response = await exchange(world, ApiKeys.PRODUCE, 12, produce_request(batch_of(b"a")))
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code == Errors.NOT_LEADER_OR_FOLLOWER
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (2, 0)
    assert [(node.node_id, node.host) for node in response.node_endpoints] == [(2, "host-2")]
    old = fetch_request(0, topic_id=topic_id)
    old.topics[0].partitions[0].current_leader_epoch = 0
    world.elect("t", 0, 2)
    fetched = (await exchange(world, ApiKeys.FETCH, 16, old)).responses[0].partitions[0]
    assert (fetched.error_code, fetched.current_leader.leader_id) == (Errors.FENCED_LEADER_EPOCH, 2)


async def test_an_idempotent_producer_gets_ids_and_its_duplicates_are_noticed(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t")
    world.controller.answers["AllocateProducerIdsRequest"] = lambda request: allocate_producer_ids.AllocateProducerIdsResponse(
        producer_id_start=4000, producer_id_len=1000
    )
    for expected in (4000, 4001):
        response = await exchange(world, ApiKeys.INIT_PRODUCER_ID, 5, init_producer_id.InitProducerIdRequest(transactional_id=None))
        assert (response.error_code, response.producer_id, response.producer_epoch) == (0, expected, 0)
    assert len(world.controller.sent) == 1, "one block for both"
    refused = await exchange(world, ApiKeys.INIT_PRODUCER_ID, 5, init_producer_id.InitProducerIdRequest(transactional_id="tx"))
    assert refused.error_code == Errors.COORDINATOR_NOT_AVAILABLE, "this world has no transaction coordinator"
    offsets = []
    for sequence in (0, 0, 1):
        batch = batch_of(b"a", producer_id=4000, producer_epoch=0, base_sequence=sequence)
        response = await exchange(world, ApiKeys.PRODUCE, 9, produce_request(batch))
        offsets.append(response.responses[0].partition_responses[0].base_offset)
    assert offsets == [0, 0, 1]
    gap = batch_of(b"a", producer_id=4000, producer_epoch=0, base_sequence=9)
    response = await exchange(world, ApiKeys.PRODUCE, 9, produce_request(gap))
    assert response.responses[0].partition_responses[0].error_code == Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    request = describe_producers.DescribeProducersRequest(topics=[describe_producers.TopicRequest(name="t", partition_indexes=[0])])
    described = await exchange(world, ApiKeys.DESCRIBE_PRODUCERS, 0, request)
    producer = described.topics[0].partitions[0].active_producers[0]
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (4000, 0, 1)


async def test_a_fetch_session_answers_only_what_is_new(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    topic_id = world.create_topic("t")
    full = await exchange(world, ApiKeys.FETCH, 17, fetch_request(0, topic_id=topic_id, session_epoch=0))
    assert full.session_id > 0 and len(full.responses) == 1
    empty = fetch.FetchRequest(max_wait_ms=0, min_bytes=1, session_id=full.session_id, session_epoch=1)
    assert (await exchange(world, ApiKeys.FETCH, 17, empty)).responses == []
    await exchange(world, ApiKeys.PRODUCE, 9, produce_request(batch_of(b"a")))
    again = fetch.FetchRequest(max_wait_ms=0, min_bytes=1, session_id=full.session_id, session_epoch=2)
    answer = await exchange(world, ApiKeys.FETCH, 17, again)
    assert len(answer.responses[0].partitions[0].records) == 69
    stale = await exchange(world, ApiKeys.FETCH, 17, again)
    assert stale.error_code == Errors.INVALID_FETCH_SESSION_EPOCH
    unknown = fetch.FetchRequest(session_id=12345, session_epoch=1)
    assert (await exchange(world, ApiKeys.FETCH, 17, unknown)).error_code == Errors.FETCH_SESSION_ID_NOT_FOUND
    by_name = fetch.FetchRequest(session_id=full.session_id, session_epoch=3)
    assert (await exchange(world, ApiKeys.FETCH, 12, by_name)).error_code == Errors.FETCH_SESSION_TOPIC_ID_ERROR


async def test_fetching_a_topic_id_that_is_not_known(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    answer = await exchange(world, ApiKeys.FETCH, 17, fetch_request(0, topic_id=Uuid(b"y" * 16)))
    assert answer.responses[0].partitions[0].error_code == Errors.UNKNOWN_TOPIC_ID
    by_name = await exchange(world, ApiKeys.FETCH, 12, fetch_request(0, topic="gone"))
    assert by_name.responses[0].partitions[0].error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION


async def test_list_offsets(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t")
    await exchange(world, ApiKeys.PRODUCE, 9, produce_request(batch_of(b"a", b"b")))

    async def ask(timestamp: int, version: int = 11) -> tuple[int, int, int]:
        partition = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        topic = list_offsets.ListOffsetsTopic(name="t", partitions=[partition])
        answer = await exchange(world, ApiKeys.LIST_OFFSETS, version, list_offsets.ListOffsetsRequest(replica_id=-1, topics=[topic]))
        row = answer.topics[0].partitions[0]
        return row.error_code, row.timestamp, row.offset

    assert await ask(-1) == (0, -1, 2)
    assert await ask(-2) == (0, -1, 0)
    assert await ask(-3) == (0, NOW_MS, 0)
    assert await ask(NOW_MS + 1) == (0, -1, -1)
    assert await ask(NOW_MS) == (0, NOW_MS, 0)
    assert (await ask(-3, version=6))[0] == Errors.UNSUPPORTED_VERSION
    for version in range(1, 12):
        assert await ask(-1, version) == (0, -1, 2)
    twice = [list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)] * 2
    topic = list_offsets.ListOffsetsTopic(name="t", partitions=twice)
    answer = await exchange(world, ApiKeys.LIST_OFFSETS, 5, list_offsets.ListOffsetsRequest(replica_id=-1, topics=[topic]))
    assert [row.error_code for row in answer.topics[0].partitions] == [Errors.INVALID_REQUEST]


async def test_delete_records_and_epochs(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t")
    await exchange(world, ApiKeys.PRODUCE, 9, produce_request(batch_of(b"a")))
    rows = [
        delete_records.DeleteRecordsPartition(partition_index=0, offset=1),
        delete_records.DeleteRecordsPartition(partition_index=4, offset=1),
    ]
    request = delete_records.DeleteRecordsRequest(timeout_ms=100, topics=[delete_records.DeleteRecordsTopic(name="t", partitions=rows)])
    answer = await exchange(world, ApiKeys.DELETE_RECORDS, 2, request)
    assert [(row.error_code, row.low_watermark) for row in answer.topics[0].partitions] == [(0, 1), (3, -1)]
    partition = offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=0)
    topic = offset_for_leader_epoch.OffsetForLeaderTopic(topic="t", partitions=[partition])
    request_epochs = offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=[topic])
    answer = await exchange(world, ApiKeys.OFFSET_FOR_LEADER_EPOCH, 4, request_epochs)
    row = answer.topics[0].partitions[0]
    assert (row.error_code, row.leader_epoch, row.end_offset) == (0, 0, 1)


async def test_metadata_in_every_version(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path), others=(2,))
    world.create_topic("t", partitions=2, replicas=(1, 2))
    for version in range(14):
        request = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name="t")])
        answer = await exchange(world, ApiKeys.METADATA, version, request)
        assert [(broker.node_id, broker.host) for broker in answer.brokers] == [(1, "host-1"), (2, "host-2")]
        topic = answer.topics[0]
        assert (topic.error_code, topic.name, len(topic.partitions)) == (0, "t", 2)
        assert (topic.partitions[0].leader_id, topic.partitions[0].replica_nodes) == (1, [1, 2])
    everything = await exchange(world, ApiKeys.METADATA, 12, metadata.MetadataRequest(topics=None))
    assert [topic.name for topic in everything.topics] == ["t"] and everything.cluster_id == "test-cluster"
    by_id = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=None, topic_id=Uuid(b"z" * 16))])
    assert (await exchange(world, ApiKeys.METADATA, 12, by_id)).topics[0].error_code == Errors.UNKNOWN_TOPIC_ID


async def test_an_unknown_topic_is_created_through_the_controller_once(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path), props={"num.partitions": "3"})
    world.controller.answers["CreateTopicsRequest"] = lambda request: create_topics.CreateTopicsResponse()
    names = [metadata.MetadataRequestTopic(name=name) for name in ("new", "not/legal")]
    for allow in (True, True, False):
        request = metadata.MetadataRequest(topics=names, allow_auto_topic_creation=allow)
        answer = await exchange(world, ApiKeys.METADATA, 9, request)
        errors = [topic.error_code for topic in answer.topics]
        assert errors == [Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.INVALID_TOPIC_EXCEPTION]
    await asyncio.sleep(0)
    sent = [topic for asked in world.controller.forwarded for topic in asked.message.topics]
    assert [(topic.name, topic.num_partitions, topic.replication_factor) for topic in sent] == [("new", 3, 1)]
    assert world.controller.sent == [], "it is the client's request, with its permissions"


async def test_describe_topic_partitions_pages(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    world.create_topic("b", partitions=3)
    world.create_topic("a")
    seen: list[tuple[str, int]] = []
    cursor = None
    while True:
        request = describe_topic_partitions.DescribeTopicPartitionsRequest(response_partition_limit=2, cursor=cursor)
        answer = await exchange(world, ApiKeys.DESCRIBE_TOPIC_PARTITIONS, 0, request)
        seen += [(topic.name, row.partition_index) for topic in answer.topics for row in topic.partitions]
        if answer.next_cursor is None:
            break
        cursor = describe_topic_partitions.DescribeTopicPartitionsRequestCursor(
            topic_name=answer.next_cursor.topic_name, partition_index=answer.next_cursor.partition_index
        )
    assert seen == [("a", 0), ("b", 0), ("b", 1), ("b", 2)]


async def test_find_coordinator(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    world.controller.answers["CreateTopicsRequest"] = lambda request: create_topics.CreateTopicsResponse()
    request = find_coordinator.FindCoordinatorRequest(key="g", coordinator_keys=["g"])
    old = find_coordinator.FindCoordinatorRequest(key="g")
    assert (await exchange(world, ApiKeys.FIND_COORDINATOR, 3, old)).error_code == Errors.COORDINATOR_NOT_AVAILABLE
    world.create_topic("__consumer_offsets", partitions=5)
    answer = await exchange(world, ApiKeys.FIND_COORDINATOR, 3, old)
    assert (answer.error_code, answer.error_message, answer.node_id, answer.host) == (0, "NONE", 1, "host-1")
    request = find_coordinator.FindCoordinatorRequest(coordinator_keys=["g", "h"])
    batched = await exchange(world, ApiKeys.FIND_COORDINATOR, 4, request)
    assert [(row.key, row.error_code, row.node_id) for row in batched.coordinators] == [("g", 0, 1), ("h", 0, 1)]
    mirror = find_coordinator.FindCoordinatorRequest(key_type=3, coordinator_keys=["m:AAAAAAAAAAAAAAAAAAAAAQ:0"])
    below = await exchange(world, ApiKeys.FIND_COORDINATOR, 6, mirror)
    assert below.coordinators[0].error_code == Errors.INVALID_REQUEST


async def describe(world: BrokerWorld, resource_type: int, name: str, *keys: str) -> Any:
    resource = describe_configs.DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=list(keys) or None
    )
    request = describe_configs.DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)
    return (await exchange(world, ApiKeys.DESCRIBE_CONFIGS, 4, request)).results[0]


async def test_describe_topic_configs_with_sources_and_synonyms(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path), props={"log.segment.bytes": "2000000", "log.retention.hours": "24"})
    world.create_topic("t", configs={"retention.bytes": "99", "mirror.name": "m"})
    result = await describe(world, 2, "t")
    configs = {entry.name: entry for entry in result.configs}
    assert "mirror.name" not in configs

    def shown(name: str) -> tuple[str | None, int, list[tuple[str, str | None, int]]]:
        entry = configs[name]
        return entry.value, entry.config_source, [(row.name, row.value, row.source) for row in entry.synonyms]

    assert shown("segment.bytes") == (
        "2000000",
        4,
        [("log.segment.bytes", "2000000", 4), ("log.segment.bytes", "1073741824", 5)],
    )
    assert shown("retention.bytes") == ("99", 1, [("retention.bytes", "99", 1), ("log.retention.bytes", "-1", 5)])
    assert shown("retention.ms") == ("86400000", 5, []), "a synonym of another unit is not shown, as in Kafka"
    assert configs["segment.bytes"].documentation and configs["segment.bytes"].config_type == 3
    assert (await describe(world, 2, "gone")).error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION


async def test_describe_broker_configs(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path), props={"num.partitions": "7", "ssl.key.password": "secret", "my.own": "x"})
    result = await describe(world, 4, "1")
    configs = {entry.name: entry for entry in result.configs}
    assert (configs["num.partitions"].value, configs["num.partitions"].config_source) == ("7", 4)
    assert (configs["ssl.key.password"].value, configs["ssl.key.password"].is_sensitive) == (None, True)
    assert (configs["my.own"].value, configs["my.own"].is_sensitive) == (None, True)
    assert configs["log.segment.bytes"].read_only is False and configs["node.id"].read_only is True
    assert "unstable.api.versions.enable" not in configs
    wrong = await describe(world, 4, "2")
    assert (wrong.error_code, wrong.error_message) == (
        Errors.INVALID_REQUEST,
        "Unexpected broker id, expected 1 or empty string, but received 2",
    )
    assert (await describe(world, 4, "x")).error_message == "Broker id must be an integer, but it is: x"
    assert (await describe(world, 4, "", "x")).configs == []
    assert (await describe(world, 64, "m")).error_code == Errors.UNKNOWN_MIRROR
    assert (await describe(world, 3, "m")).error_code == Errors.INVALID_REQUEST


async def test_the_rest_of_the_describing_apis(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t")
    await exchange(world, ApiKeys.PRODUCE, 9, produce_request(batch_of(b"a")))
    dirs = await exchange(world, ApiKeys.DESCRIBE_LOG_DIRS, 4, describe_log_dirs.DescribeLogDirsRequest(topics=None))
    assert dirs.results[0].log_dir == str(tmp_path) and dirs.results[0].total_bytes > 0
    assert [(row.partition_index, row.partition_size) for row in dirs.results[0].topics[0].partitions] == [(0, 69)]
    cluster = await exchange(world, ApiKeys.DESCRIBE_CLUSTER, 2, describe_cluster.DescribeClusterRequest())
    assert (cluster.cluster_id, [broker.broker_id for broker in cluster.brokers]) == ("test-cluster", [1])
    wrong = await exchange(world, ApiKeys.DESCRIBE_CLUSTER, 1, describe_cluster.DescribeClusterRequest(endpoint_type=2))
    assert wrong.error_code == Errors.MISMATCHED_ENDPOINT_TYPE
    listed = await exchange(
        world, ApiKeys.LIST_CONFIG_RESOURCES, 1, list_config_resources.ListConfigResourcesRequest(resource_types=[2, 4])
    )
    assert [(row.resource_type, row.resource_name) for row in listed.config_resources] == [(2, "t"), (4, "1")]


async def test_requests_that_change_metadata_are_forwarded_as_they_are(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    response = create_topics.CreateTopicsResponse(topics=[create_topics.CreatableTopicResult(name="n", error_code=36)])
    world.controller.answers["CreateTopicsRequest"] = lambda request: response
    request = create_topics.CreateTopicsRequest(topics=[create_topics.CreatableTopic(name="n", num_partitions=1, replication_factor=1)])
    answer = await exchange(world, ApiKeys.CREATE_TOPICS, 7, request)
    assert answer.topics[0].error_code == 36
    assert (world.controller.forwarded[0].api_version, world.controller.forwarded[0].message) == (7, request)


async def test_a_controller_that_does_not_answer_is_said_per_topic(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))

    def time_out(request: Any) -> Any:
        raise ApiException(Errors.REQUEST_TIMED_OUT, "no controller")

    world.controller.answers["CreateTopicsRequest"] = time_out
    request = create_topics.CreateTopicsRequest(topics=[create_topics.CreatableTopic(name="n", num_partitions=1, replication_factor=1)])
    answer = await exchange(world, ApiKeys.CREATE_TOPICS, 7, request)
    assert [(topic.name, topic.error_code, topic.error_message) for topic in answer.topics] == [("n", 7, "no controller")]


def test_every_served_api_has_a_place_for_an_error() -> None:
    for api_key, spec in API_TABLE.items():
        if "broker" in spec.listeners and not hasattr(spec.response(), "error_code") and spec.forwardable:
            assert api_key in error_responses._BUILDERS or api_key in (ApiKeys.ALTER_CLIENT_QUOTAS,), spec.name


async def test_resources_that_are_named_twice_are_refused_and_the_others_forwarded(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    config = incremental_alter_configs.AlterableConfig(name="retention.ms", config_operation=0, value="1000")
    resources = [incremental_alter_configs.AlterConfigsResource(2, name, [config]) for name in ("a", "b", "a")]
    row = incremental_alter_configs.AlterConfigsResourceResponse
    world.controller.answers["IncrementalAlterConfigsRequest"] = lambda message: incremental_alter_configs.IncrementalAlterConfigsResponse(
        responses=[row(resource_type=2, resource_name=resource.resource_name) for resource in message.resources]
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=resources)
    response = await world.ask(ApiKeys.INCREMENTAL_ALTER_CONFIGS, request, 1)
    answers = [(each.resource_name, each.error_code, each.error_message or "") for each in response.responses]
    twice = ("a", Errors.INVALID_REQUEST, "Each resource must appear at most once.")
    assert answers == [("b", Errors.NONE, ""), twice, twice]


async def test_named_configs_come_in_kafkas_order_not_in_ours(tmp_path: Path) -> None:
    """As Kafka 4.3 answered, whatever order they were asked in."""
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t")

    async def names(resource_type: int, name: str, keys: list[str]) -> list[str]:
        resource = describe_configs.DescribeConfigsResource(resource_type=resource_type, resource_name=name, configuration_keys=keys)
        request = describe_configs.DescribeConfigsRequest(resources=[resource])
        response = await exchange(world, ApiKeys.DESCRIBE_CONFIGS, 4, request)
        return [config.name for config in response.results[0].configs]

    of_topic = ["min.insync.replicas", "cleanup.policy", "segment.bytes", "retention.ms", "retention.bytes"]
    assert await names(2, "t", sorted(of_topic)) == of_topic
    of_broker = ["log.cleaner.threads", "node.id", "log.dirs", "num.io.threads", "log.retention.ms", "listeners"]
    assert await names(4, str(world.apis.config.node_id), sorted(of_broker)) == of_broker


async def test_log_dirs_of_a_topic_that_is_named_twice_are_those_of_both_lists(
    tmp_path: Path,
) -> None:
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t", partitions=4)
    twice = [describe_log_dirs.DescribableLogDirTopic("t", numbers) for numbers in ([0, 0], [2, 9])]
    request = describe_log_dirs.DescribeLogDirsRequest(topics=twice)
    (found,) = (await exchange(world, ApiKeys.DESCRIBE_LOG_DIRS, 4, request)).results
    (topic,) = found.topics
    assert sorted(row.partition_index for row in topic.partitions) == [0, 2]
