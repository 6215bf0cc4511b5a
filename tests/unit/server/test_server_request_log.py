"""The request log and the timing of requests; levels of loggers at run time."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest
from support.brokers.broker_doubles import BrokerWorld
from support.logs.storage_doubles import ManualClock

from kmirror.cli.start import log_requests_to
from kmirror.common.errors import ApiException, Errors
from kmirror.common.metrics import MetricsRegistry
from kmirror.network.request_context import CLOSE, RequestContext
from kmirror.server.request import NO_RESPONSE, Request
from kmirror.server.request_log import REQUEST_LOGGER, describe
from kmirror.server.request_metrics import RequestChannelMetrics, error_counts
from kmirror.server.request_timing import RequestTiming, timed
from kmirror.server.runtime_logger_manager import TRACE, apply_changes, logger_levels
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.framing import RequestHeader, encode_request, read_request_header
from kmirror.wire.messages import incremental_alter_configs as iac
from kmirror.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from kmirror.wire.messages.api_versions import ApiVersionsRequest
from kmirror.wire.messages.create_mirror import CreateMirrorRequest, CreateMirrorResponse, MirrorConfig
from kmirror.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from kmirror.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData


def request_of(api_key: ApiKeys, version: int, message: object) -> Request:
    return Request(
        api_key=api_key,
        api_version=version,
        correlation_id=5,
        client_id="app",
        message=message,
        listener_name="PLAINTEXT",
        connection_id="c-1",
        timing=RequestTiming(arrived_ns=1_000_000, started_ns=3_000_000),
    )


def test_a_line_has_kafkas_keys_and_no_record_data() -> None:
    message = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(0, b"secret")])])
    request = request_of(ApiKeys.PRODUCE, 10, message)
    request.timing.finished_ns, request.timing.local_ns = 10_000_000, 2_500_000
    line = describe(request, ProduceResponse(), throttle_time_ms=7, send_ns=500_000)
    assert list(line) == [
        "isForwarded", "requestHeader", "request", "response", "connection", "totalTimeMs", "requestQueueTimeMs", "localTimeMs",
        "remoteTimeMs", "throttleTimeMs", "responseQueueTimeMs", "sendTimeMs", "securityProtocol", "principal", "listener",
        "clientInformation",
    ]  # fmt: skip
    assert line["requestHeader"] == {
        "requestApiKey": 0, "requestApiVersion": 10, "correlationId": 5, "clientId": "app", "requestApiKeyName": "PRODUCE",
    }  # fmt: skip
    assert line["request"]["topicData"] == [{"name": "t", "partitionData": [{"index": 0, "recordsSizeInBytes": 6}]}]
    assert line["response"] == {"responses": [], "throttleTimeMs": 0}
    assert [line[key] for key in ("totalTimeMs", "requestQueueTimeMs", "localTimeMs", "remoteTimeMs", "sendTimeMs")] == [
        9.5,
        2.0,
        2.5,
        4.5,
        0.5,
    ]


def test_secrets_are_not_written() -> None:
    resources = [
        iac.AlterConfigsResource(4, "1", [iac.AlterableConfig(name, 0, "secret") for name in ("ssl.key.password", "unknown.setting")]),
        iac.AlterConfigsResource(2, "t", [iac.AlterableConfig("retention.ms", 0, "5")]),
    ]
    line = describe(
        request_of(ApiKeys.INCREMENTAL_ALTER_CONFIGS, 1, iac.IncrementalAlterConfigsRequest(resources)),
        iac.IncrementalAlterConfigsResponse(),
        throttle_time_ms=0,
        send_ns=0,
    )
    assert "secret" not in json.dumps(line)
    assert line["request"]["resources"][1]["configs"][0]["value"] == "5"
    mirror = CreateMirrorRequest("m", [MirrorConfig("sasl.jaas.config", "secret"), MirrorConfig("bootstrap.servers", "east:9092")])
    line = describe(request_of(ApiKeys.CREATE_MIRROR, 0, mirror), CreateMirrorResponse(), throttle_time_ms=0, send_ns=0)
    assert [config["value"] for config in line["request"]["config"]] == ["(redacted)", "east:9092"]
    upsertion = ScramCredentialUpsertion(name="alice", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"secret")
    scram = request_of(ApiKeys.ALTER_USER_SCRAM_CREDENTIALS, 0, AlterUserScramCredentialsRequest(upsertions=[upsertion]))
    shown = describe(scram, AlterUserScramCredentialsResponse(), throttle_time_ms=0, send_ns=0)["request"]["upsertions"][0]
    assert (shown["name"], shown["saltedPassword"]) == ("alice", "(redacted)")


def test_every_message_has_a_json_form_in_every_version() -> None:
    from kmirror.wire.api_keys import API_TABLE
    from kmirror.wire.json_converter import dumps, message_to_json

    for spec in API_TABLE.values():
        for version in range(spec.lowest, spec.highest + 1):
            for kind in (spec.request, spec.response):
                json.loads(dumps(message_to_json(kind(), version)))


def test_a_completed_request_is_logged_at_debug_only(tmp_path, caplog: pytest.LogCaptureFixture) -> None:
    async def ask(world: BrokerWorld) -> None:
        header = RequestHeader(ApiKeys.API_VERSIONS, 3, 7, "app")
        message = ApiVersionsRequest(client_software_name="soft", client_software_version="1.0")
        frame = memoryview(b"".join(bytes(part) for part in encode_request(header, message)))[4:]
        read, position = read_request_header(frame, 0)
        answer = await world.apis.handle(RequestContext(read, frame, position, "PLAINTEXT", "127.0.0.1", "c-1"))
        assert answer is not CLOSE
        answer.on_sent(0)

    async def run() -> None:
        world = BrokerWorld(str(tmp_path))
        await ask(world)
        assert not lines_of_this_test()
        with caplog.at_level(logging.DEBUG, logger=REQUEST_LOGGER.name):
            await ask(world)

    def lines_of_this_test() -> list[str]:
        """Leaves out the lines of a broker of the session's fixtures, which shares the process."""
        return [line for line in caplog.messages if line.startswith("Completed request:{") and '"correlationId":7,"clientId":"app"' in line]

    asyncio.run(run())
    [line] = lines_of_this_test()
    written = json.loads(line.removeprefix("Completed request:"))
    assert written["clientInformation"] == {"softwareName": "soft", "softwareVersion": "1.0"}
    assert written["response"]["apiKeys"]


def test_the_request_log_has_a_file_of_its_own(tmp_path) -> None:
    before = REQUEST_LOGGER.level, REQUEST_LOGGER.propagate, list(REQUEST_LOGGER.handlers)
    try:
        log_requests_to(tmp_path / "requests.log")
        REQUEST_LOGGER.debug("Completed request:%s", '{"of": "this test"}')
        [line] = [line for line in (tmp_path / "requests.log").read_text().splitlines() if "this test" in line]
        assert line.endswith('DEBUG Completed request:{"of": "this test"} (kafka.request.logger)')
    finally:
        for handler in REQUEST_LOGGER.handlers[len(before[2]) :]:
            handler.close()
            REQUEST_LOGGER.removeHandler(handler)
        REQUEST_LOGGER.setLevel(before[0])
        REQUEST_LOGGER.propagate = before[1]


def test_time_is_counted_in_steps_and_errors_go_through() -> None:
    clock = ManualClock(0)

    async def work(gate: asyncio.Future[str]) -> str:
        clock.now_ms += 3
        text = await gate
        clock.now_ms += 4
        if text == "fail":
            raise ApiException(Errors.INVALID_REQUEST, text)
        return text

    async def run(text: str | None) -> tuple[RequestTiming, object]:
        timing = RequestTiming(arrived_ns=0, started_ns=clock.monotonic_ns())
        gate: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def handle() -> str:
            return await timed(work(gate), timing, clock.monotonic_ns)

        task = asyncio.ensure_future(handle())
        await asyncio.sleep(0)
        clock.now_ms += 100
        task.cancel() if text is None else gate.set_result(text)
        return timing, (await asyncio.gather(task, return_exceptions=True))[0]

    for text in ("done", "fail", None):
        timing, result = asyncio.run(run(text))
        assert (timing.local_ns, timing.remote_ns) == ((7_000_000 if text else 3_000_000), 100_000_000)
        assert result == text if text == "done" else isinstance(result, ApiException if text else asyncio.CancelledError)


def test_the_times_of_a_request_are_shown_in_milliseconds_and_the_idle_time_as_a_share() -> None:
    clock = ManualClock()
    registry = MetricsRegistry(clock)
    metrics = RequestChannelMetrics(registry, clock)
    request = request_of(ApiKeys.PRODUCE, 9, ProduceRequest())
    arrived_ns = clock.monotonic_ns()
    request.timing = timing = RequestTiming(arrived_ns=arrived_ns, started_ns=arrived_ns + 2_000_000)
    timing.local_ns, timing.finished_ns = 3_000_000, arrived_ns + 50_000_000
    request.size_in_bytes = 700
    metrics.completed(request, ProduceResponse(), throttle_time_ms=9, send_ns=1_000_000)
    metrics.completed(request, NO_RESPONSE, throttle_time_ms=0, send_ns=0, is_for_controller=True)
    clock.now_ms += 5_000
    beans = registry.mbeans()
    names = ("TotalTimeMs", "RequestQueueTimeMs", "LocalTimeMs", "RemoteTimeMs", "ThrottleTimeMs", "ResponseSendTimeMs", "RequestBytes")
    greatest = [beans[f"kafka.network:type=RequestMetrics,name={name},request=Produce"]["Max"] for name in names]
    assert greatest == [51.0, 2.0, 3.0, 45.0, 9, 1.0, 700]
    assert beans["kafka.network:type=RequestMetrics,name=RequestsPerSec,request=Produce,version=9"]["Count"] == 2
    idle = [
        beans[f"kafka.server:type=KafkaRequestHandlerPool,name={role}RequestHandlerAvgIdlePercent"] for role in ("", "Broker", "Controller")
    ]
    assert [share["OneMinuteRate"] for share in idle] == pytest.approx([1 - 0.0014, 1 - 0.0008, 1 - 0.0006])


def test_error_codes_are_counted_wherever_they_are() -> None:
    topics = [
        MetadataResponseTopic(error_code=3, partitions=[]),
        MetadataResponseTopic(error_code=0, partitions=[MetadataResponsePartition(error_code=5), MetadataResponsePartition()]),
    ]
    assert error_counts(MetadataResponse(topics=topics))[0] >= 2
    assert error_counts(MetadataResponse(topics=topics))[5] == error_counts(MetadataResponse(topics=topics))[3] == 1
    assert MetricsRegistry(ManualClock()).snapshot() == {}


def test_levels_of_loggers_are_set_and_inherited_again() -> None:
    logger = logging.getLogger("kmirror.test.levels")
    change = iac.AlterConfigsResource(8, "1", [iac.AlterableConfig("kmirror.test.levels", 0, "TRACE")])
    apply_changes(change, node_id=1, validate_only=True)
    assert logger.level == logging.NOTSET
    apply_changes(change, node_id=1, validate_only=False)
    assert logger.level == TRACE and logger_levels()["kmirror.test.levels"] == "TRACE"
    apply_changes(iac.AlterConfigsResource(8, "1", [iac.AlterableConfig("kmirror.test.levels", 1, None)]), node_id=1, validate_only=False)
    assert logger.level == logging.NOTSET
    with pytest.raises(ApiException, match=r"Logger no\.such does not exist!"):
        apply_changes(iac.AlterConfigsResource(8, "1", [iac.AlterableConfig("no.such", 0, "INFO")]), node_id=1, validate_only=False)


@pytest.mark.parametrize(
    "name, logger",
    [
        ("kafka.server.KafkaApis", "kmirror.server.kafka_apis"),
        ("org.apache.kafka.controller.QuorumController", "kmirror.controller.quorum_controller"),
    ],
)
def test_a_kafka_class_names_the_logger_of_its_module(name: str, logger: str) -> None:
    import kmirror.server.kafka_server  # noqa: F401 which has the loggers of a node

    def change(operation: int, value: str | None) -> None:
        configs = [iac.AlterableConfig(name, operation, value)]
        apply_changes(iac.AlterConfigsResource(8, "1", configs), node_id=1, validate_only=False)

    change(0, "TRACE")
    assert logger_levels()[logger] == "TRACE"
    change(1, None)
    assert logging.getLogger(logger).level == logging.NOTSET


@pytest.mark.parametrize("name", ["kafka.server.NoSuchClass", "kafka.server", "java.lang.KafkaApis", "KafkaApis"])
def test_a_name_that_is_no_class_of_kafkas_names_no_logger(name: str) -> None:
    configs = [iac.AlterableConfig(name, 0, "INFO")]
    with pytest.raises(ApiException, match=f"Logger {name} does not exist!"):
        apply_changes(iac.AlterConfigsResource(8, "1", configs), node_id=1, validate_only=False)
