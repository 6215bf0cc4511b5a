"""The MBeans of mirroring and their values, also over HTTP and in `kmirror metrics` (E7; MET16 is
in test_e10_throttling).
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from support.brokers.prometheus_text import check_exposition
from support.logs.storage_doubles import ManualClock
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    call,
    create_mirror,
    create_topic,
    numbered,
    produce,
    remove,
    send,
    wait_caught_up,
    wait_for,
    wait_state,
)
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.cli.kmirror import main
from kmirror.common.metrics import MetricsRegistry
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.fetch.fetcher_stats import FetcherStats
from kmirror.mirror.mirror_metrics import STATE_GAUGES, LedPartition, register_mirror_metrics
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.mirror.partition.partition_description import NEVER_KNOWN, MirroredPartitionLag, PartitionLag
from kmirror.mirror.source.source_cluster import SourceNode
from kmirror.mirror.sync.mirror_metadata_manager import SyncErrors
from kmirror.network.client_metrics import ClientMetrics
from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.mirror_dialect import MIRROR_API_KEYS

MANAGER = "kafka.server.mirror:type=MirrorFetcherManager,name={},clientId=MirrorReplica"
METADATA = "kafka.server.mirror:type=MirrorMetadataManager,name={}"
REQUESTS = "kafka.network:type=RequestMetrics,name={},request={}"
HISTOGRAMS = (
    "LocalTimeMs", "MessageConversionsTimeMs", "RemoteTimeMs", "RequestBytes", "RequestQueueTimeMs", "ResponseQueueTimeMs", "ResponseSendTimeMs",
    "TemporaryMemoryBytes", "TotalTimeMs",
)  # fmt: skip
CLIENT_METRICS = [
    "connection-close-rate",
    "connection-close-total",
    "connection-count",
    "connection-creation-rate",
    "connection-creation-total",
    "failed-authentication-rate",
    "failed-authentication-total",
    "failed-reauthentication-rate",
    "failed-reauthentication-total",
    "incoming-byte-rate",
    "incoming-byte-total",
    "network-io-rate",
    "network-io-total",
    "outgoing-byte-rate",
    "outgoing-byte-total",
    "reauthentication-latency-avg",
    "reauthentication-latency-max",
    "request-rate",
    "request-size-avg",
    "request-size-max",
    "request-total",
    "response-rate",
    "response-total",
    "select-rate",
    "select-total",
    "successful-authentication-no-reauth-total",
    "successful-authentication-rate",
    "successful-authentication-total",
    "successful-reauthentication-rate",
    "successful-reauthentication-total",
]
METER = {"Count", "MeanRate", "OneMinuteRate", "FiveMinuteRate", "FifteenMinuteRate"}
S = MirrorPartitionState


# --- doubles: the numbers
# -----------------------------------------------------------------------------------------------


class Key(NamedTuple):
    fetcher_id: int
    source_broker: SourceNode
    mirror_name: str


@dataclass
class Fetcher:
    name: str
    stats: FetcherStats
    client_metrics: ClientMetrics


class Running(NamedTuple):
    key: Key
    fetcher: Fetcher
    is_dead: bool = False


class Partition(NamedTuple):
    state: MirrorPartitionState
    reason: str | None = None


class Room:
    """What a broker's mirror shows, set by hand."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.registry = MetricsRegistry(self.clock)
        self.fetchers: list[Running] = []
        self.lags: list[MirroredPartitionLag] = []
        self.partitions: list[Partition] = []
        self.led: list[LedPartition] = []
        self.errors = SyncErrors()
        self.is_enabled = True
        register_mirror_metrics(
            self.registry,
            4,
            is_enabled=lambda: self.is_enabled,
            fetchers=lambda: self.fetchers,
            lags=lambda: self.lags,
            partitions=lambda: self.partitions,
            led_partitions=lambda: self.led,
            sync_errors=self.errors,
        )

    def fetcher(self, fetcher_id: int, mirror: str, *, is_dead: bool = False, **lags: int) -> Fetcher:
        node = SourceNode(7, "source.example", 9092)
        made = Fetcher(f"MirrorFetcherThread-7-{fetcher_id}-{mirror}", FetcherStats(self.clock), ClientMetrics(self.clock))
        self.lags += [MirroredPartitionLag(TopicPartition(topic, 0), made.name, PartitionLag(lag, 5, True)) for topic, lag in lags.items()]
        self.fetchers.append(Running(Key(fetcher_id, node, mirror), made, is_dead))
        return made

    def bean(self, name: str) -> dict[str, Any]:
        return self.registry.mbeans()[name]

    def value(self, name: str) -> Any:
        return self.bean(name)["Value"]


def test_met1_met3_lag_of_a_partition_and_the_greatest() -> None:
    room = Room()
    assert room.value(MANAGER.format("MaxLag")) == 0
    room.fetcher(0, "m", a=3, b=12)
    room.fetcher(1, "m", c=5)
    assert room.value(MANAGER.format("MaxLag")) == 12
    lag = "kafka.server:type=FetcherLagMetrics,name=ConsumerLag,clientId=MirrorFetcherThread-7-{}-m,topic={},partition=0"
    assert [room.value(lag.format(*row)) for row in ((0, "a"), (0, "b"), (1, "c"))] == [3, 12, 5]
    room.lags.pop()
    assert lag.format(1, "c") not in room.registry.mbeans(), "nothing is left of a partition that is not mirrored any more"


def test_met1_met3_a_lag_that_is_not_known_now_stays_with_its_age() -> None:
    """While the source is down: no 0, and nothing vanishes with the fetcher. -1 was never known."""
    room = Room()
    assert room.value(MANAGER.format("MaxLagAgeMs")) == 0, "nothing is mirrored"
    room.fetcher(0, "m", a=3)
    room.fetchers.clear()
    room.lags = [room.lags[0]._replace(lag=PartitionLag(12, 42_000, False))]
    bean = "kafka.server:type=FetcherLagMetrics,name={},clientId=MirrorFetcherThread-7-0-m,topic=a,partition=0"
    assert (room.value(MANAGER.format("MaxLag")), room.value(MANAGER.format("MaxLagAgeMs"))) == (12, 42_000)
    assert (room.value(bean.format("ConsumerLag")), room.value(bean.format("ConsumerLagAgeMs"))) == (12, 42_000)
    room.lags.append(MirroredPartitionLag(TopicPartition("b", 0), None, NEVER_KNOWN))
    assert (room.value(MANAGER.format("MaxLag")), room.value(MANAGER.format("MaxLagAgeMs"))) == (12, 42_000), "of what is known"
    room.lags.insert(0, room.lags.pop())
    assert (room.value(MANAGER.format("MaxLag")), room.value(MANAGER.format("MaxLagAgeMs"))) == (12, 42_000)
    room.lags.pop()
    assert (room.value(MANAGER.format("MaxLag")), room.value(MANAGER.format("MaxLagAgeMs"))) == (-1, -1)


OWN = "kmirror:type=MirrorPartition,name={},mirror=dr.one,topic={},partition=0"


def led(topic: str, state: str, lag: PartitionLag, *, is_failing: bool = False, mirror: str = "dr.one") -> LedPartition:
    return LedPartition(mirror, TopicPartition(topic, 0), MirrorPartitionState[state], is_failing, lag)


def test_a_lag_that_is_not_known_is_absent_and_counted() -> None:
    """MaxLag says 12 while nobody knows how far behind the partition is: our own MBeans do not."""
    room = Room()
    room.led = [
        led("a", "MIRRORING", PartitionLag(3, 20, True)),
        led("b", "MIRRORING", PartitionLag(12, 42_000, False), is_failing=True),
        led("c", "PREPARING", NEVER_KNOWN),
    ]
    beans = room.registry.mbeans()
    assert beans[OWN.format("Lag", "a")] == {"Value": 3} and beans[OWN.format("LagAgeMs", "a")] == {"Value": 20}
    assert OWN.format("Lag", "b") not in beans and beans[OWN.format("LagAgeMs", "b")] == {"Value": 42_000}
    assert OWN.format("Lag", "c") not in beans and OWN.format("LagAgeMs", "c") not in beans
    assert room.value("kmirror:type=Mirror,name=UnknownLagCount,mirror=dr.one") == 2
    assert room.value("kmirror:type=Mirror,name=FailingPartitionCount,mirror=dr.one") == 1


def test_a_stopped_partition_has_no_lag() -> None:
    """Its log is its own: what was written to it after the failover made its lag 0."""
    room = Room()
    room.led = [led("a", "STOPPED", PartitionLag(0, 5, True)), led("b", "STOPPING", PartitionLag(4, 5, True))]
    beans = room.registry.mbeans()
    assert not [bean for bean in beans if "MirrorPartition,name=Lag" in bean]
    assert room.value("kmirror:type=Mirror,name=UnknownLagCount,mirror=dr.one") == 0


def test_partitions_are_counted_by_mirror_and_state() -> None:
    room = Room()
    known = PartitionLag(0, 1, True)
    room.led = [led("a", "MIRRORING", known), led("b", "MIRRORING", known), led("c", "FAILED", known, mirror="other")]
    count = "kmirror:type=Mirror,name=PartitionCount,mirror={},state={}"
    for state in MirrorPartitionState:
        assert room.value(count.format("dr.one", state.name)) == (2 if state.name == "MIRRORING" else 0)
        assert room.value(count.format("other", state.name)) == (state.name == "FAILED")
    assert room.value(OWN.format("State", "a") + ",state=MIRRORING") == 1


def test_met2_the_slowest_fetcher() -> None:
    room = Room()
    assert room.value(MANAGER.format("MinFetchRate")) == 0
    quick, slow = room.fetcher(0, "m"), room.fetcher(1, "m")
    for _ in range(50):
        quick.stats.fetched(1)
    for _ in range(10):
        slow.stats.fetched(1)
    room.clock.now_ms += 5_000
    assert room.value(MANAGER.format("MinFetchRate")) == pytest.approx(2.0)


def test_met4_fetchers_that_died() -> None:
    room = Room()
    room.fetcher(0, "m")
    assert room.value(MANAGER.format("DeadThreadCount")) == 0
    room.fetcher(1, "m", is_dead=True)
    assert room.value(MANAGER.format("DeadThreadCount")) == 1


def test_met5_partitions_that_fail_for_any_reason() -> None:
    room = Room()
    room.partitions = [Partition(S.MIRRORING), Partition(S.STOPPED)]
    assert room.value(MANAGER.format("FailedPartitionsCount")) == 0
    room.partitions += [
        Partition(S.FAILED),
        Partition(S.FAILED, "why"),
        Partition(S.MIRRORING, "no answer"),
        Partition(S.STOPPING, "no epoch"),
    ]
    assert room.value(MANAGER.format("FailedPartitionsCount")) == 4


def test_met6_met7_bytes_and_requests_of_a_fetcher() -> None:
    room = Room()
    fetcher = room.fetcher(2, "m")
    for size in (1_000, 0, 500):
        fetcher.stats.fetched(size)
    tags = "clientId=MirrorFetcherThread-7-2-m,brokerHost=source.example,brokerPort=9092,mirror-name=m"
    for name, count in (("BytesPerSec", 1_500), ("RequestsPerSec", 3)):
        bean = room.bean(f"kafka.server:type=FetcherStats,name={name},{tags}")
        assert set(bean) == METER and bean["Count"] == count


def test_met11_the_connection_of_a_fetcher() -> None:
    room = Room()
    fetcher = room.fetcher(2, "m")
    fetcher.client_metrics.opened()
    fetcher.client_metrics.wrote(300, room.clock.monotonic_ms())
    bean = room.bean("kafka.server:type=mirror-broker-4-fetcher-2-mirror-m-metrics,broker-id=7,fetcher-id=2")
    assert sorted(bean) == sorted(CLIENT_METRICS) and len(CLIENT_METRICS) == 30
    assert (bean["connection-count"], bean["request-total"], bean["outgoing-byte-total"], bean["request-size-max"]) == (1, 1, 300, 300)


SYNC_ERRORS = {
    "MET12": ("MetadataRefreshError", "metadata_refresh"),
    "MET13": ("TopicConfigMetadataSyncError", "topic_config"),
    "MET14": ("ConsumerGroupOffsetSyncError", "group_offset"),
    "MET15": ("AclSyncError", "acl"),
}


@pytest.mark.parametrize(("name", "counted"), list(SYNC_ERRORS.values()), ids=list(SYNC_ERRORS))
def test_errors_of_the_metadata_syncs(name: str, counted: str) -> None:
    """Each has its own gauge; that each failed step counts once per cycle is C37."""
    room = Room()
    assert room.value(METADATA.format(name)) == 0
    setattr(room.errors, counted, 3)
    assert {other: room.value(METADATA.format(other)) for other, _ in SYNC_ERRORS.values()} == {
        other: 3 if other == name else 0 for other, _ in SYNC_ERRORS.values()
    }


STATES = {17: S.FAILED, 18: S.STOPPED, 19: S.STOPPING, 20: S.MIRRORING, 21: S.PREPARING, 22: S.PAUSING, 23: S.PAUSED}


@pytest.mark.parametrize(("number", "state"), list(STATES.items()), ids=[f"MET{number}" for number in STATES])
@pytest.mark.item("B39")
def test_partitions_by_state(number: int, state: MirrorPartitionState) -> None:
    room = Room()
    name = METADATA.format(f"{state.name.capitalize()}PartitionState")
    assert room.value(name) == 0
    room.partitions = [Partition(other) for other in S for _ in range(2 if other is state else 1)]
    assert room.value(name) == 2
    assert sum(room.value(METADATA.format(gauge)) for gauge in STATE_GAUGES.values()) == 8, "UNKNOWN has none"


def test_nothing_is_shown_while_mirroring_is_off() -> None:
    room = Room()
    room.fetcher(0, "m", a=3)
    room.is_enabled = False
    assert room.registry.mbeans() == {}


# --- a destination: that it is so
# ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def destination() -> Iterator[EmbeddedCluster]:
    """Topics running, paused, stopped, failed (another id), and waiting for a source that is not
    there.
    """
    http = {"kmirror.http.listener": "127.0.0.1:0"}
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(mirroring=True, config=FAST_MIRROR | http) as b:
        source, address = a.bootstrap_servers, b.bootstrap_servers
        for topic, partitions in (("run", 2), ("pause", 1), ("stop", 1), ("fail", 1)):
            create_topic(source, topic, partitions)
            produce(source, topic, numbered("v", 10))
        create_topic(address, "fail")
        create_topic(address, "wait")
        create_mirror(address, "m", source)
        create_mirror(address, "dead", "127.0.0.1:1")
        add(address, "m", "run", "pause", "stop")
        wait_caught_up(address, source, "m")
        add(address, "m", "fail")
        add(address, "dead", "wait")
        call(address, lambda admin: admin.pause_mirror_topics("m", ["pause"])).all()
        remove(address, "m", "stop")
        for topic, state in (("pause", "PAUSED"), ("stop", "STOPPED"), ("fail", "FAILED")):
            wait_state(address, "m", state, topic=topic)
        yield b


def test_met17_met18_met20_met21_met23_on_a_destination(destination: EmbeddedCluster) -> None:
    found = destination.metrics()
    assert {
        name: found[METADATA.format(f"{name}PartitionState")]["Value"] for name in ("Failed", "Stopped", "Mirroring", "Preparing", "Paused")
    } == {
        "Failed": 1,
        "Stopped": 1,
        "Mirroring": 2,
        "Preparing": 1,
        "Paused": 1,
    }


def test_met1_met2_met4_met5_met12_on_a_destination(destination: EmbeddedCluster) -> None:
    """The failed partition and the one whose source does not answer fail; that source's refreshes
    are counted.
    """
    wait_for("a refresh of the dead source", lambda: destination.metrics()[METADATA.format("MetadataRefreshError")]["Value"])
    found = destination.metrics()
    assert found[MANAGER.format("FailedPartitionsCount")]["Value"] == 2
    assert found[MANAGER.format("DeadThreadCount")]["Value"] == found[MANAGER.format("MaxLag")]["Value"] == 0
    assert set(found[MANAGER.format("MinFetchRate")]) == {"Value"}


def test_met3_met6_met7_met11_on_a_destination(destination: EmbeddedCluster) -> None:
    found = destination.metrics()
    lags = [name for name in found if name.startswith("kafka.server:type=FetcherLagMetrics,name=ConsumerLag,clientId=Mirror")]
    assert lags == [
        f"kafka.server:type=FetcherLagMetrics,name=ConsumerLag,clientId=MirrorFetcherThread-1-0-m,topic=run,partition={number}"
        for number in (0, 1)
    ]
    (stats,) = [
        name for name in found if re.match(r"kafka\.server:type=FetcherStats,name=BytesPerSec,clientId=MirrorFetcherThread-1-0-m", name)
    ]
    assert re.search(r",brokerHost=127\.0\.0\.1,brokerPort=\d+,mirror-name=m$", stats)
    assert found[stats]["Count"] > 0 and found[stats.replace("BytesPerSec", "RequestsPerSec")]["Count"] > 0
    connection = found["kafka.server:type=mirror-broker-1-fetcher-0-mirror-m-metrics,broker-id=1,fetcher-id=0"]
    assert sorted(connection) == sorted(CLIENT_METRICS)
    assert connection["connection-count"] == 1 and connection["response-total"] > 0 and connection["incoming-byte-total"] > 0


def test_met8_met9_met10_requests_of_mirroring(destination: EmbeddedCluster) -> None:
    for key in sorted(MIRROR_API_KEYS):
        request: Any = API_TABLE[ApiKeys(key)].request()
        if hasattr(request, "mirror_name"):
            request.mirror_name = "nosuch"
        send(destination.bootstrap_servers, request)

    def measured() -> dict[str, dict[str, Any]] | None:
        found = destination.metrics()
        return found if REQUESTS.format("TotalTimeMs", "BumpLeaderEpochs") in found else None

    found = wait_for("the last request's metrics", measured)
    for key in sorted(MIRROR_API_KEYS):
        name = API_TABLE[ApiKeys(key)].name
        for histogram in HISTOGRAMS:
            assert found[REQUESTS.format(histogram, name)]["Count"] >= 1, (name, histogram)
        requests = found[REQUESTS.format("RequestsPerSec", f"{name},version=0")]
        assert set(requests) >= METER and requests["Count"] >= 1
        errors = {re.search(r"error=(\w+)", bean)[1] for bean in found if bean.startswith(REQUESTS.format("ErrorsPerSec", f"{name},"))}  # type: ignore[index]
        assert errors, name
    assert found[REQUESTS.format("ErrorsPerSec", "DeleteMirror,error=UNKNOWN_MIRROR")]["Count"] == 1


def test_met1_met12_met20_over_http_and_by_the_tool(destination: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"http://127.0.0.1:{destination.call(lambda server: server.http.port)}"
    with urllib.request.urlopen(f"{url}/metrics", timeout=REACHED_S) as response:
        text = response.read().decode()
    assert 'kafka_server_mirror_MirrorFetcherManager_Value{name="MaxLag",clientId="MirrorReplica"} 0\n' in text
    assert 'kafka_server_mirror_MirrorMetadataManager_Value{name="MirroringPartitionState"} 2\n' in text
    assert re.search(r'kafka_server_mirror_fetcher_metrics_request_total\{mirror="m",broker_id="1",fetcher_id="0"\} \d', text)
    assert 'kmirror_Mirror_Value{name="PartitionCount",mirror="m",state="MIRRORING"} 2\n' in text
    assert 'kmirror_MirrorPartition_Value{name="Lag",mirror="m",topic="run",partition="0"} 0\n' in text
    assert 'kmirror_Mirror_Value{name="UnknownLagCount",mirror="dead"} 1\n' in text, "its source is not there"
    assert not re.search(r'name="Lag(AgeMs)?",mirror="(dead",|m",topic="stop")', text)
    assert not [line for line in text.splitlines() if "mirror_m" in line.partition("{")[0]], "no name has the mirror in it"
    with urllib.request.urlopen(f"{url}/metrics/mbeans", timeout=REACHED_S) as response:
        spelled = response.read().decode()
    assert re.search(r'kafka_server_mirror_broker_1_fetcher_0_mirror_m_metrics_request_total\{broker_id="1",fetcher_id="0"\} \d', spelled)
    check_exposition(text)
    check_exposition(spelled)
    assert main(["metrics", "--url", url, "--json", "--filter", "type=MirrorMetadataManager|type=MirrorFetcherManager"]) == 0
    beans = json.loads(capsys.readouterr().out)[url]
    expected = {METADATA.format(name) for name in [*STATE_GAUGES.values(), *(name for name, _ in SYNC_ERRORS.values())]}
    expected |= {MANAGER.format(name) for name in ("MaxLag", "MaxLagAgeMs", "MinFetchRate", "DeadThreadCount", "FailedPartitionsCount")}
    assert set(beans) == expected
