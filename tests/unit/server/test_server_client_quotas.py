"""Which quota applies to a client, what it costs to break it, and where the throttle time shows."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from support.brokers.broker_doubles import BrokerWorld, batch_of
from support.logs.storage_doubles import ManualClock

from kmirror.common.errors import ApiException, ConfigError, Errors
from kmirror.common.kafka_principal import KafkaPrincipal
from kmirror.common.metrics import MetricsRegistry, sensor_metric
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import ClientQuotaEntity, MetadataImage, MetadataProvenance
from kmirror.metadata.loader import LoaderManifest, LoaderManifestType
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.quota.client_quota_manager import DEFAULT, MAX_REMEMBERED_CLIENTS, ClientQuotaManager, QuotaType, QuotaWindow
from kmirror.server.quota.client_request_quota_manager import ClientRequestQuotaManager
from kmirror.server.quota.controller_mutation_quota_manager import ControllerMutationQuotaManager
from kmirror.server.quota.quota_managers import DynamicClientQuotaPublisher, QuotaManagers
from kmirror.server.request_throttling import RequestThrottler
from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.error_responses import error_response
from kmirror.wire.framing import encode_response, read_response
from kmirror.wire.messages.alter_partition import AlterPartitionRequest
from kmirror.wire.messages.bump_leader_epochs import BumpLeaderEpochsRequest
from kmirror.wire.messages.config_record import ConfigRecord
from kmirror.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kmirror.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kmirror.wire.messages.read_mirror_states import ReadMirrorStatesRequest
from kmirror.wire.messages.write_mirror_states import WriteMirrorStatesRequest
from kmirror.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

ALICE, BOB = KafkaPrincipal("User", "alice"), KafkaPrincipal("User", "bob")
PROPS = {
    "node.id": "1",
    "process.roles": "broker",
    "controller.quorum.voters": "9@localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://localhost:9092",
    "log.dirs": "/none",
}
LISTENER_RATE = "listener.name.plaintext.max.connection.creation.rate"
LEVELS = [
    ("alice", "c"),
    ("alice", DEFAULT),
    ("alice", None),
    (DEFAULT, "c"),
    (DEFAULT, DEFAULT),
    (DEFAULT, None),
    (None, "c"),
    (None, DEFAULT),
]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def metrics(clock: ManualClock) -> MetricsRegistry:
    return MetricsRegistry(clock)


@pytest.fixture
def produce(clock: ManualClock, metrics: MetricsRegistry) -> ClientQuotaManager:
    return ClientQuotaManager(QuotaType.PRODUCE, QuotaWindow(), metrics, clock)


def test_the_most_specific_of_eight_levels_applies(produce: ClientQuotaManager) -> None:
    for bound, (user, client_id) in enumerate(LEVELS, 1):
        produce.update_quota(user, client_id, float(bound))
    for bound, (user, client_id) in enumerate(LEVELS, 1):
        assert produce.quota("alice", "c") == bound
        produce.update_quota(user, client_id, None)
    assert produce.quota("alice", "c") is None


def test_a_default_is_a_rate_of_its_own_for_everybody(produce: ClientQuotaManager, clock: ManualClock) -> None:
    produce.update_quota(DEFAULT, None, 100.0)
    assert produce.maybe_record_and_get_throttle_time_ms(ALICE, "c1", 900, clock.now_ms) == 0
    assert produce.maybe_record_and_get_throttle_time_ms(ALICE, "c2", 1_100, clock.now_ms) == 10_000, "one rate for the user"
    assert produce.maybe_record_and_get_throttle_time_ms(BOB, "c1", 900, clock.now_ms) == 0


def test_nothing_is_kept_before_the_first_quota(produce: ClientQuotaManager, clock: ManualClock, metrics: MetricsRegistry) -> None:
    before = len(metrics)
    assert produce.maybe_record_and_get_throttle_time_ms(ALICE, "c", 1e12, clock.now_ms) == 0
    assert len(metrics) == before and not produce.enabled
    assert produce.max_value_in_quota_window(ALICE, "c") is None


def test_a_throttle_time_fits_its_response(produce: ClientQuotaManager, clock: ManualClock, metrics: MetricsRegistry) -> None:
    """A response that could not be encoded closed the connection of a client far above its quota."""
    produce.update_quota(DEFAULT, None, 1.0)
    assert produce.maybe_record_and_get_throttle_time_ms(ALICE, "c", 100_000_000, clock.now_ms) == 2**31 - 1
    mutations = ControllerMutationQuotaManager(QuotaWindow(), metrics, clock)
    mutations.update_quota("alice", None, 1e-6)
    quota = mutations.new_quota_for(ALICE, "c", is_strict=False)
    quota.record(10_000)
    assert quota.throttle_time_ms == 2**31 - 1


def test_client_ids_that_come_once_are_not_remembered_for_ever(produce: ClientQuotaManager, clock: ManualClock) -> None:
    produce.update_quota("alice", None, 1e9)
    for number in range(MAX_REMEMBERED_CLIENTS + 5):
        produce.maybe_record_and_get_throttle_time_ms(ALICE, f"c-{number}", 1, clock.now_ms)
    assert len(produce._by_client) == 5
    assert produce._by_client[("alice", f"c-{MAX_REMEMBERED_CLIENTS}")].quota.metrics, "one rate for the user, as before"
    assert len(produce._sensors) == 1


def test_a_changed_quota_applies_to_the_rate_that_is_there(produce: ClientQuotaManager, clock: ManualClock) -> None:
    produce.update_quota("alice", None, 1_000.0)
    assert produce.maybe_record_and_get_throttle_time_ms(ALICE, "c", 10_000, clock.now_ms) == 0
    produce.update_quota("alice", None, 100.0)
    assert produce.maybe_record_and_get_throttle_time_ms(ALICE, "c", 0, clock.now_ms) == 90_000
    produce.update_quota("alice", None, None)
    assert produce.maybe_record_and_get_throttle_time_ms(ALICE, "c", 10_000, clock.now_ms) == 0


def test_what_was_taken_back_does_not_count(produce: ClientQuotaManager, clock: ManualClock) -> None:
    produce.update_quota(None, "c", 100.0)
    assert produce.maybe_record_and_get_throttle_time_ms(ALICE, "c", 5_000, clock.now_ms) > 0
    produce.record_no_throttle(ALICE, "c", -5_000, clock.now_ms)
    assert produce.maybe_record_and_get_throttle_time_ms(ALICE, "c", 1_000, clock.now_ms) == 0
    assert produce.max_value_in_quota_window(ALICE, "c") == 1_000.0


def test_metrics_have_kafkas_names_and_forget_who_is_away(
    produce: ClientQuotaManager, clock: ManualClock, metrics: MetricsRegistry
) -> None:
    produce.update_quota("alice", None, 100.0)
    produce.update_quota(None, "c", 100.0)
    produce.maybe_record_and_get_throttle_time_ms(KafkaPrincipal("User", "CN=a b"), "c", 50, clock.now_ms)
    produce.maybe_record_and_get_throttle_time_ms(ALICE, "c", 2_000, clock.now_ms)
    produce.throttle(ALICE, "c", 10_000, clock.now_ms)
    beans = metrics.mbeans()
    assert beans["kafka.server:type=Produce,user=alice"] == {"byte-rate": 200.0, "throttle-time": 10_000.0}
    assert beans["kafka.server:type=Produce,client-id=c"]["byte-rate"] == 5.0
    assert beans["kafka.server:type=Produce"] == {"queue-size": 1}
    clock.now_ms += 3_700_000
    produce.maybe_record_and_get_throttle_time_ms(BOB, "d", 1, clock.now_ms)
    beans = metrics.mbeans()
    assert "kafka.server:type=Produce,user=alice" not in beans and beans["kafka.server:type=Produce"] == {"queue-size": 0}
    assert produce.maybe_record_and_get_throttle_time_ms(ALICE, "c", 1, clock.now_ms) == 0
    assert "kafka.server:type=Produce,user=alice" in metrics.mbeans(), "it is kept again when the client is back"


def test_request_time_is_throttled_for_one_window_at_most(clock: ManualClock, metrics: MetricsRegistry) -> None:
    request = ClientRequestQuotaManager(QuotaWindow(), metrics, clock)
    request.update_quota("alice", None, 1.0)
    assert request.record_time(ALICE, "c", 100_000_000, clock.now_ms) == 0, "0.1 s in 10 s is 1%"
    assert request.record_time(ALICE, "c", 10_000_000, clock.now_ms) == 1_000
    assert request.record_time(ALICE, "c", 10_000_000_000, clock.now_ms) == 1_000
    request.record_exempt(500_000_000, clock.now_ms)
    assert metrics.mbeans()["kafka.server:type=Request"]["exempt-request-time"] == 50.0 / 30, "over the metrics window of 30 s"


def test_strict_mutation_quotas_refuse_and_permissive_ones_throttle(clock: ManualClock, metrics: MetricsRegistry) -> None:
    mutations = ControllerMutationQuotaManager(QuotaWindow(samples=10), metrics, clock)
    mutations.update_quota("alice", None, 1.0)
    strict = mutations.new_quota_for(ALICE, "c", is_strict=True)
    strict.record(30)
    assert strict.throttle_time_ms == 0
    with pytest.raises(ApiException) as raised:
        strict.record(1)
    assert raised.value.error is Errors.THROTTLING_QUOTA_EXCEEDED and strict.throttle_time_ms == 20_000
    clock.now_ms += 5_000
    assert strict.throttle_time_ms == 15_000
    permissive = mutations.new_quota_for(ALICE, "c", is_strict=False)
    permissive.record(5)
    assert permissive.throttle_time_ms == 20_000
    assert metrics.mbeans()["kafka.server:type=ControllerMutation,user=alice"]["tokens"] == -20.0


def test_metadata_reaches_the_managers(clock: ManualClock, metrics: MetricsRegistry) -> None:
    quotas = QuotaManagers(KafkaConfig.from_props(PROPS | {"quota.window.num": "5"}), metrics, clock)
    assert not quotas.enabled
    quotas.update(ClientQuotaEntity((("ip", "::ffff:10.0.0.1"),)), "connection_creation_rate", 3.0)
    quotas.update(ClientQuotaEntity((("ip", None),)), "connection_creation_rate", 9.0)
    assert (quotas.connections.address_rate("10.0.0.1"), quotas.connections.address_rate("10.0.0.2")) == (3, 9)
    assert not quotas.enabled, "connections are not requests"
    quotas.update(ClientQuotaEntity((("client-id", None), ("user", "alice"))), "consumer_byte_rate", 10.0)
    assert quotas.enabled and quotas.fetch.quota("alice", "any") == 10.0 and not quotas.produce.enabled
    assert quotas.fetch.max_value_in_quota_window(ALICE, "c") == 40.0
    quotas.update(ClientQuotaEntity((("user", "alice"),)), "of_a_later_version", 10.0)


def test_a_connection_rate_of_a_listener_that_is_no_number_stops_no_broker(clock: ManualClock, metrics: MetricsRegistry) -> None:
    """A static one is refused at the start; a dynamic one, which nobody checked, leaves the rates
    as they were.
    """
    with pytest.raises(ConfigError, match=f"Invalid {LISTENER_RATE} lots"):
        QuotaManagers(KafkaConfig.from_props(PROPS | {LISTENER_RATE: "lots"}), metrics, clock)
    config = KafkaConfig.from_props(PROPS | {LISTENER_RATE: "3"})
    publisher = DynamicClientQuotaPublisher(config, QuotaManagers(config, metrics, clock))
    sensor = metrics.get(sensor_metric("socket-server-metrics", "connection-accept-rate", (("listener", "PLAINTEXT"),)))
    image = MetadataImage.EMPTY
    for value, expected in (("lots", 3.0), ("0", 3.0), ("5", 5.0)):
        delta = MetadataDelta(image)
        delta.replay(ConfigRecord(resource_type=4, resource_name="", name=LISTENER_RATE, value=value))
        image = delta.apply(MetadataProvenance(1, 1, 1))
        publisher.on_metadata_update(delta, image, LoaderManifest(LoaderManifestType.LOG_DELTA, image.provenance))
        assert sensor.config.quota == expected


def test_a_rate_of_nothing_makes_everybody_wait_for_a_window(clock: ManualClock, metrics: MetricsRegistry) -> None:
    quotas = QuotaManagers(KafkaConfig.from_props(PROPS | {"max.connection.creation.rate": "0"}), metrics, clock)
    assert quotas.connections.admit("PLAINTEXT", "1.1.1.1").delay_ms == 1_000


def test_what_a_throttled_fetch_does_not_send_is_not_counted_as_sent(tmp_path) -> None:
    async def run() -> None:
        world = BrokerWorld(str(tmp_path))
        world.create_topic("t")
        entry = TopicProduceData(name="t", partition_data=[PartitionProduceData(0, batch_of(b"x" * 1_000))])
        assert (await world.ask(ApiKeys.PRODUCE, ProduceRequest(acks=1, topic_data=[entry]), 9)).responses[0].partition_responses[
            0
        ].error_code == 0
        world.apis.quotas.update(ClientQuotaEntity((("user", None),)), "consumer_byte_rate", 200.0)
        partition = FetchPartition(0, partition_max_bytes=10_000)
        message = FetchRequest(max_bytes=10_000, topics=[FetchTopic(topic="t", partitions=[partition])])
        answers = [await world.ask(ApiKeys.FETCH, message, 12) for _ in range(3)]
        assert [bool(answer.throttle_time_ms) for answer in answers] == [False, True, True]
        assert [len(answer.responses) for answer in answers] == [1, 0, 0]
        stats = world.replica_manager.stats
        assert stats.all_topics.bytes_out.count == stats.topic("t").bytes_out.count == answers[0].responses[0].partitions[0].records.size

    asyncio.run(run())


@pytest.mark.parametrize(
    ("api_key", "is_throttled"),
    [(ApiKeys.WRITE_TXN_MARKERS, False), (ApiKeys.WRITE_SHARE_GROUP_STATE, True), (ApiKeys.READ_SHARE_GROUP_STATE_SUMMARY, True)],
)
def test_share_group_state_is_throttled_by_its_time(
    clock: ManualClock, metrics: MetricsRegistry, api_key: ApiKeys, is_throttled: bool
) -> None:
    quotas = QuotaManagers(KafkaConfig.from_props(PROPS), metrics, clock)
    quotas.update(ClientQuotaEntity((("user", "alice"),)), "request_percentage", 1.0)
    timing = SimpleNamespace(judged_ns=0, thread_time_ns=lambda _: 10_000_000_000)
    request: Any = SimpleNamespace(api_key=api_key, principal=ALICE, client_id="c", throttle_time_ms=None, timing=timing)
    assert (RequestThrottler(quotas, clock).throttle(request, API_TABLE[api_key].response()) > 0) is is_throttled


MARKERS = WriteTxnMarkersRequest(
    markers=[WritableTxnMarker(producer_id=1, topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0, 1])])]
)
BETWEEN_BROKERS = [MARKERS, AlterPartitionRequest(), ReadMirrorStatesRequest(), WriteMirrorStatesRequest(), BumpLeaderEpochsRequest()]


@pytest.mark.parametrize("message", BETWEEN_BROKERS, ids=lambda message: type(message).__name__)
def test_what_brokers_ask_of_each_other_is_exempt_unless_it_is_refused(clock: ManualClock, metrics: MetricsRegistry, message: Any) -> None:
    """Anybody may ask. A refusal of markers is said of each partition."""
    api_key = ApiKeys(message.API_KEY)

    def throttled(response: Any) -> bool:
        quotas = QuotaManagers(KafkaConfig.from_props(PROPS), metrics, clock)
        quotas.update(ClientQuotaEntity((("user", "alice"),)), "request_percentage", 1.0)
        timing = SimpleNamespace(judged_ns=0, thread_time_ns=lambda _: 10_000_000_000)
        request: Any = SimpleNamespace(api_key=api_key, principal=ALICE, client_id="c", throttle_time_ms=None, timing=timing)
        return RequestThrottler(quotas, clock).throttle(request, response) > 0

    def answer(error: Errors) -> Any:
        return error_response(api_key, API_TABLE[api_key].highest, message, ApiException(error))

    assert throttled(answer(Errors.CLUSTER_AUTHORIZATION_FAILED))
    assert not throttled(answer(Errors.UNSUPPORTED_VERSION))
    assert not throttled(API_TABLE[api_key].response())


@pytest.mark.parametrize("api_key", [key for key in API_TABLE if "throttle_time_ms" in API_TABLE[key].response.__struct_fields__])
def test_a_throttle_time_never_makes_a_response_that_cannot_be_written(api_key: ApiKeys) -> None:
    spec = API_TABLE[api_key]
    for version in range(spec.lowest, spec.highest + 1):
        response = spec.response()
        response.throttle_time_ms = 7
        parts = encode_response(api_key, version, 1, response)
        frame = b"".join(bytes(part) for part in parts)[4:]
        assert read_response(api_key, version, memoryview(frame))[1].throttle_time_ms in (0, 7)
