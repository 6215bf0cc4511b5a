"""KIP-714: who is subscribed to what, who may push when, and what is remembered of clients."""

from __future__ import annotations

import pytest
from support.logs.storage_doubles import ManualClock, SeededRandom

from kmirror.common.errors import ApiException, Errors
from kmirror.common.metrics import MetricsRegistry
from kmirror.common.uuid import Uuid
from kmirror.network.request_context import ClientInformation
from kmirror.server.client_metrics_manager import ClientMetricsManager, ClientTelemetryReceiver
from kmirror.server.request import Request
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse
from kmirror.wire.messages.push_telemetry import PushTelemetryRequest


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.metrics = MetricsRegistry(self.clock)
        self.receiver = ClientTelemetryReceiver(self.metrics)
        self.manager = ClientMetricsManager(self.receiver, max_bytes=100, clock=self.clock, random=SeededRandom(), metrics=self.metrics)

    def request(self, message: object, *, client_id: str = "app-1", port: int = 5000) -> Request:
        return Request(
            api_key=ApiKeys.PUSH_TELEMETRY,
            api_version=0,
            correlation_id=1,
            client_id=client_id,
            message=message,
            listener_name="PLAINTEXT",
            client_address="10.0.0.7",
            connection_id=f"10.0.0.1:9092-10.0.0.7:{port}-0-{port}",
            client_information=ClientInformation("librdkafka", "2.6.0"),
        )

    def get(self, instance_id: Uuid = Uuid.ZERO, **who) -> GetTelemetrySubscriptionsResponse:
        return self.manager.get_subscriptions(self.request(GetTelemetrySubscriptionsRequest(client_instance_id=instance_id), **who))

    def push(self, answer: GetTelemetrySubscriptionsResponse, data: bytes = b"x", *, terminating: bool = False, **changes) -> Errors:
        fields = {"client_instance_id": answer.client_instance_id, "subscription_id": answer.subscription_id, "metrics": data}
        try:
            self.manager.push(self.request(PushTelemetryRequest(**(fields | changes), terminating=terminating)))
        except ApiException as error:
            return error.error
        return Errors.NONE

    def beans(self) -> dict:
        return self.metrics.mbeans()


@pytest.fixture
def world() -> World:
    return World()


def test_a_client_gets_an_id_and_what_all_matching_subscriptions_ask_for(world: World) -> None:
    world.manager.update_subscription("a", {"metrics": "org.apache.kafka.producer.", "interval.ms": "5000", "match": "client_id=app-.*"})
    world.manager.update_subscription("b", {"metrics": "org.apache.kafka.consumer.", "interval.ms": "1000"})
    world.manager.update_subscription("c", {"metrics": "other", "match": "client_id=app,client_software_name=librdkafka"})
    answer = world.get()
    assert bool(answer.client_instance_id) and answer.delta_temporality and answer.telemetry_max_bytes == 100
    assert answer.requested_metrics == ["org.apache.kafka.consumer.", "org.apache.kafka.producer."]
    assert answer.push_interval_ms == 1_000 and answer.accepted_compression_types == [4, 3, 1, 2]
    assert world.get(client_id="app").requested_metrics == ["org.apache.kafka.consumer.", "other"], "a pattern matches in full"
    world.manager.update_subscription("b", {"metrics": "*", "match": "client_source_port=50.."})
    assert world.get(port=5001).requested_metrics == ["*"]
    assert world.get(port=6001, client_id="x").requested_metrics == []
    assert world.get(port=6002, client_id="x").push_interval_ms == 300_000


def test_a_push_before_its_time_is_throttled(world: World) -> None:
    world.manager.update_subscription("all", {"metrics": "*", "interval.ms": "1000"})
    answer = world.get()
    assert world.push(answer, b"12345") is Errors.NONE, "the first push may come at once"
    assert world.push(answer) is Errors.THROTTLING_QUOTA_EXCEEDED
    world.clock.now_ms += 1_000
    assert world.push(answer, b"123") is Errors.NONE
    assert world.receiver.last_payloads == {answer.client_instance_id: b"123"} and world.receiver.received_bytes == 8
    assert world.push(answer, terminating=True) is Errors.NONE, "the last push may come at any time"
    assert world.push(answer) is Errors.INVALID_REQUEST
    bean = world.beans()[f"kafka.server:type=client-metrics,client_instance_id={answer.client_instance_id}"]
    assert (bean["throttle-count"], bean["plugin-export-count"], bean["plugin-error-count"]) == (1, 3, 0)


def test_asking_again_before_the_interval_is_over_is_throttled_unless_there_is_a_reason(world: World) -> None:
    world.manager.update_subscription("all", {"metrics": "*", "interval.ms": "1000"})
    answer = world.get()
    with pytest.raises(ApiException, match="arrived before the next push interval time"):
        world.get(answer.client_instance_id)
    assert world.push(answer, subscription_id=answer.subscription_id + 1) is Errors.UNKNOWN_SUBSCRIPTION_ID
    assert world.get(answer.client_instance_id).subscription_id == answer.subscription_id
    world.manager.update_subscription("all", {"metrics": "some", "interval.ms": "1000"})
    changed = world.get(answer.client_instance_id)
    assert changed.subscription_id != answer.subscription_id, "a changed subscription is told at once"
    assert world.push(answer) is Errors.UNKNOWN_SUBSCRIPTION_ID
    assert world.beans()["kafka.server:type=client-metrics"]["unknown-subscription-request-count"] == 2


def test_what_cannot_be_taken(world: World) -> None:
    answer = world.get()
    assert world.push(answer, b"x" * 101) is Errors.TELEMETRY_TOO_LARGE
    assert world.push(world.get(port=1), compression_type=9) is Errors.UNSUPPORTED_COMPRESSION_TYPE
    assert world.push(answer, client_instance_id=Uuid.ZERO) is Errors.INVALID_REQUEST
    assert world.receiver.received_bytes == 0


def test_clients_are_forgotten_when_they_leave_and_when_they_are_silent(world: World) -> None:
    first, second = world.get(port=1), world.get(port=2)
    world.push(second)
    assert world.beans()["kafka.server:type=client-metrics"]["instance-count"] == 2
    world.manager.on_disconnect("10.0.0.1:9092-10.0.0.7:1-0-1")
    world.manager.on_disconnect("never seen")
    assert world.beans()["kafka.server:type=client-metrics"]["instance-count"] == 1
    assert f"kafka.server:type=client-metrics,client_instance_id={first.client_instance_id}" not in world.beans()
    world.clock.now_ms += 900_001
    world.get(port=3)
    assert world.beans()["kafka.server:type=client-metrics"]["instance-count"] == 1
    assert world.receiver.last_payloads == {}


def test_a_subscription_without_settings_is_removed(world: World) -> None:
    world.manager.update_subscription("all", {"metrics": "*"})
    assert world.get(port=1).requested_metrics == ["*"]
    world.manager.update_subscription("all", {})
    assert world.get(port=2).requested_metrics == []
