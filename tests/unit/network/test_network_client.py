"""NetworkClient over the simulated network."""

from __future__ import annotations

import pytest
from support.brokers.network_doubles import METADATA_RANGE, tiny_broker

from kmirror.network.client import ClientSettings, DisconnectError, NetworkClient, RequestTimeoutError, UnsupportedVersionError
from kmirror.network.client_connection import LONGEST_REST_MS
from kmirror.network.client_requests import PostedRequest
from kmirror.network.client_security import ClientSecurity
from kmirror.network.socket_server import SocketServer
from kmirror.runtime.api import TaskScope
from kmirror.sim.loop import SimLoop
from kmirror.sim.runtime import SimWorld
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.framing import read_response
from kmirror.wire.messages.create_topics import CreateTopicsRequest
from kmirror.wire.messages.metadata import MetadataRequest
from kmirror.wire.primitives import Writer

PORT = 9092


class Bench:
    def __init__(self) -> None:
        self.world = SimWorld(SimLoop(5))
        self.requests = []
        self.delay_ms = 0
        self.client_runtime = self.world.node("client").boot()
        self.client = NetworkClient(self.client_runtime, "tester", settings=ClientSettings())
        self.start_broker()

    def start_broker(self, **options) -> None:
        node = self.world.node("broker")
        if node.alive:
            node.kill()
        runtime = node.boot()

        async def record(context) -> None:
            self.requests.append(context)
            if self.delay_ms:
                await runtime.sleep_ms(self.delay_ms)

        server = SocketServer(runtime, "PLAINTEXT", "", PORT, tiny_broker(record, **options))
        self.world.loop.run_until_complete(runtime.spawn(server.start(), name="start"))

    def run(self, coroutine):
        return self.world.loop.run_until_complete(self.client_runtime.spawn(coroutine, name="test"))

    def ask(self, **options):
        return self.run(self.client.send("broker", PORT, MetadataRequest(), **{"timeout_ms": 1_000, **options}))


@pytest.fixture
def bench():
    bench = Bench()
    yield bench
    bench.client.close()
    failures = bench.world.loop.failures
    bench.world.close()
    assert failures == []


def test_the_highest_common_version_is_used(bench):
    assert bench.ask().cluster_id == "tester"
    assert bench.requests[0].header.api_version == METADATA_RANGE[1]
    assert bench.run(bench.client.api_version("broker", PORT, ApiKeys.METADATA, timeout_ms=100)) == METADATA_RANGE[1]


def test_a_caller_may_fix_or_cap_the_version(bench):
    bench.ask(version=4)
    bench.ask(max_version=7)
    assert [context.header.api_version for context in bench.requests] == [4, 7]
    with pytest.raises(UnsupportedVersionError, match="METADATA in versions 0 to 9, but kmirror asked for version 10"):
        bench.ask(version=10)


def test_an_api_that_the_peer_lacks_is_refused_here(bench):
    with pytest.raises(UnsupportedVersionError, match="does not support CREATE_TOPICS"):
        bench.run(bench.client.send("broker", PORT, CreateTopicsRequest(), timeout_ms=100))


@pytest.mark.parametrize("newest", [0, 1, 2, 3, 4])
def test_peers_of_every_api_versions_version_are_understood(bench, newest):
    bench.start_broker(newest_api_versions=newest)
    assert bench.ask().cluster_id == "tester"
    peer = bench.run(bench.client.api_versions("broker", PORT, timeout_ms=100))
    assert {entry.api_key for entry in peer.api_keys} == {ApiKeys.API_VERSIONS, ApiKeys.METADATA}


def test_requests_share_a_connection_and_a_key_gives_another(bench):
    for key in ("", "", "fetch"):
        bench.ask(connection_key=key)
    first, second, third = (context.connection_id for context in bench.requests)
    assert first == second != third


def test_several_requests_are_in_flight_in_order(bench):
    bench.delay_ms = 10
    scope = TaskScope(bench.client_runtime, "many")
    tasks = [scope.spawn(bench.client.send("broker", PORT, MetadataRequest(), timeout_ms=5_000), name=str(index)) for index in range(20)]
    bench.world.loop.run_for_us(2_000_000)
    assert [task.result().cluster_id for task in tasks] == ["tester"] * 20
    ids = [context.header.correlation_id for context in bench.requests]
    assert ids == sorted(ids)
    assert len({context.connection_id for context in bench.requests}) == 1


def test_a_timeout_ends_the_connection_and_the_next_request_makes_a_new_one(bench):
    bench.ask()
    bench.delay_ms = 5_000
    with pytest.raises(RequestTimeoutError, match=r"^broker:9092 did not answer METADATA in time$"):
        bench.ask(timeout_ms=100)
    bench.delay_ms = 0
    bench.ask()
    assert bench.requests[0].connection_id != bench.requests[2].connection_id


def test_a_lost_connection_fails_all_its_requests(bench):
    bench.ask()
    bench.delay_ms = 5_000
    tasks = [
        bench.client_runtime.spawn(bench.client.send("broker", PORT, MetadataRequest(), timeout_ms=60_000), name=str(index))
        for index in range(3)
    ]
    bench.world.loop.run_for_us(100_000)
    bench.world.node("broker").kill()
    bench.world.loop.run_for_us(100_000)
    assert [type(task.exception()) for task in tasks] == [DisconnectError] * 3


def test_a_refused_connection_is_a_disconnect_and_backs_off(bench):
    bench.world.node("broker").kill()
    attempts = []
    for _ in range(8):
        with pytest.raises(DisconnectError, match="cannot connect to broker:9092"):
            bench.ask(timeout_ms=10_000)
        attempts.append(bench.world.loop.now_us)
    gaps_ms = [(later - earlier) / 1000 for earlier, later in zip(attempts, attempts[1:])]
    assert 38 <= gaps_ms[0] <= 70
    assert 150 <= gaps_ms[2] <= 250
    assert 780 <= gaps_ms[-1] <= 1_250
    bench.start_broker()
    assert bench.ask(timeout_ms=10_000).cluster_id == "tester"


def test_a_timeout_also_covers_connecting(bench):
    bench.world.network.partition(["client"], ["broker"])
    started_us = bench.world.loop.now_us
    with pytest.raises(RequestTimeoutError, match="no connection to broker:9092 in time"):
        bench.ask(timeout_ms=300)
    assert bench.world.loop.now_us - started_us == 300_000
    bench.world.network.heal()
    assert bench.ask().cluster_id == "tester"


def test_a_caller_that_gives_up_leaves_the_connection_to_the_others(bench):
    bench.ask()
    bench.delay_ms = 50
    gone = bench.client_runtime.spawn(bench.client.send("broker", PORT, MetadataRequest(), timeout_ms=5_000), name="gone")
    stays = bench.client_runtime.spawn(bench.client.send("broker", PORT, MetadataRequest(), timeout_ms=5_000), name="stays")
    bench.world.loop.run_for_us(10_000)
    gone.cancel()
    bench.world.loop.run_for_us(500_000)
    assert gone.cancelled()
    assert stays.result().cluster_id == "tester"


def test_an_idle_connection_is_replaced(bench):
    bench.ask()
    bench.world.loop.run_for_us(550 * 1_000_000)
    bench.ask()
    assert bench.requests[0].connection_id != bench.requests[1].connection_id


@pytest.mark.parametrize(
    "greeting",
    [
        pytest.param(b"220 mail.example ESMTP\r\n", id="mail"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", id="http"),
        pytest.param(b"\x15\x03\x03\x00\x02\x02\x32", id="a-TLS-listener"),
    ],
)
def test_a_peer_that_speaks_something_else_took_as_much_memory_as_its_first_bytes_happened_to_announce(bench, greeting):
    """352 MB for the alert of a TLS listener, for each connection and attempt; the loop stood still
    while they were cleared.
    """

    class Greeter:
        def connection_made(self, connection) -> None:
            connection.write([greeting])

        def get_buffer(self, size_hint: int) -> memoryview:
            return memoryview(bytearray(100))

        def buffer_updated(self, size: int) -> None: ...

        def connection_lost(self, error) -> None: ...

    runtime = bench.world.node("broker").runtime
    bench.world.loop.run_until_complete(runtime.spawn(runtime.listen("", 25, Greeter), name="listen"))
    with pytest.raises(DisconnectError, match="does not speak Kafka's protocol: Invalid receive"):
        bench.run(bench.client.send("broker", 25, MetadataRequest(), timeout_ms=15_000))


def test_a_closed_client_sends_nothing(bench):
    bench.client.close()
    with pytest.raises(DisconnectError, match="the client is closed"):
        bench.ask()


def test_a_client_that_was_closed_while_it_connected_went_on_connecting(bench):
    bench.world.network.partition(["client"], ["broker"])
    asking = bench.client_runtime.spawn(bench.client.send("broker", PORT, MetadataRequest(), timeout_ms=60_000), name="ask")
    bench.world.loop.run_for_us(100_000)
    (attempt,) = [node.attempt for node in bench.client._peers.values()]
    assert attempt is not None and not attempt.done()
    bench.client.close()
    bench.world.loop.run_for_us(1_000)
    assert attempt.cancelled()
    with pytest.raises(DisconnectError, match="connecting to broker:9092 was cancelled"):
        asking.result()


def test_security_that_cannot_be_had_is_asked_for_again_and_never_left_out(bench):
    """A key store that could not be read once must not make the next connection a plain one."""
    secured = ClientSecurity("SSL", props={"ssl.keystore.location": "/nowhere", "ssl.keystore.type": "PEM"})
    client = NetworkClient(bench.client_runtime, "tester", security=lambda: secured)
    for _ in range(2):
        with pytest.raises(DisconnectError, match="cannot be secured"):
            bench.run(client.send("broker", PORT, MetadataRequest(), timeout_ms=5_000))
    assert bench.requests == []
    client.close()


def posted(bench, count=1, *, timeout_ms=5_000):
    """Posts Metadata requests; returns what came of each, in the order in which it came."""
    outcomes = []
    connection = bench.client.connection_for_posts("broker", PORT)
    connection.post([Asked(number, outcomes) for number in range(count)], timeout_ms=timeout_ms)
    return outcomes


class Asked(PostedRequest):
    """A Metadata request."""

    api_key = ApiKeys.METADATA
    version = METADATA_RANGE[1]
    least_answer_bytes = 0

    def __init__(self, number, outcomes):
        out = Writer()
        MetadataRequest().write(out, self.version)
        self.body, self.size = out.parts(), out.size
        self.number, self.outcomes = number, outcomes

    def answered(self, frame):
        self.outcomes.append((self.number, read_response(ApiKeys.METADATA, self.version, frame)[1].cluster_id))

    def failed(self, error):
        self.outcomes.append((self.number, type(error)))


def prepare(bench):
    bench.run(bench.client.prepare("broker", PORT, timeout_ms=1_000))


def test_posts_are_written_at_once_and_answered_in_order_beside_other_requests(bench):
    assert bench.client.connection_for_posts("broker", PORT) is None
    prepare(bench)
    outcomes = posted(bench, 3)
    asked = bench.client_runtime.spawn(bench.client.send("broker", PORT, MetadataRequest(), timeout_ms=5_000), name="asked")
    bench.world.loop.run_for_us(1_000_000)
    assert outcomes == [(0, "tester"), (1, "tester"), (2, "tester")]
    assert asked.result().cluster_id == "tester"
    ids = [context.header.correlation_id for context in bench.requests]
    assert len(ids) == 4 and ids == sorted(ids)


def test_a_post_without_an_answer_fails_in_time_and_those_behind_it_with_the_connection(bench):
    prepare(bench)
    bench.delay_ms = 60_000
    outcomes = posted(bench, 2, timeout_ms=300)
    bench.world.loop.run_for_us(200_000)
    assert outcomes == []
    bench.world.loop.run_for_us(300_000)
    assert sorted(outcomes) == [(0, RequestTimeoutError), (1, DisconnectError)]
    assert bench.client.connection_for_posts("broker", PORT) is None


def test_a_later_post_has_its_own_time(bench):
    prepare(bench)
    early = posted(bench, timeout_ms=300)
    bench.world.loop.run_for_us(200_000)
    bench.delay_ms = 60_000
    late = posted(bench, timeout_ms=300)
    bench.world.loop.run_for_us(200_000)
    assert (early, late) == ([(0, "tester")], [])
    bench.world.loop.run_for_us(200_000)
    assert late == [(0, RequestTimeoutError)]


def test_posts_fail_when_their_connection_is_lost(bench):
    prepare(bench)
    bench.delay_ms = 60_000
    outcomes = posted(bench, 3)
    bench.world.loop.run_for_us(100_000)
    bench.world.node("broker").kill()
    bench.world.loop.run_for_us(100_000)
    assert outcomes == [(0, DisconnectError), (1, DisconnectError), (2, DisconnectError)]


def resting(bench, count, rest_until=1):
    """Posts requests of an owner that has nothing to do until most are answered. Returns the outcomes,
    and the sizes at which the connection asked to be woken.
    """
    connection = bench.client.connection_for_posts("broker", PORT)
    sizes = []
    connection._connection.wake_at = lambda size: sizes.append(size) or True
    connection.after_answers = lambda: connection.rest_until(rest_until)
    outcomes = []
    requests = [Asked(number, outcomes) for number in range(count)]
    for number, request in enumerate(requests):
        request.least_answer_bytes = 100 + number
    connection.post(requests, timeout_ms=5_000)
    return outcomes, sizes


def reach_rest(bench, sizes):
    for _ in range(10_000):
        if sizes:
            return
        bench.world.loop.run_for_us(50)
    raise AssertionError("the connection never rested")


def test_answers_that_nobody_waits_for_may_be_read_together(bench):
    """Of the first answer in flight a part may have been read: so it does not count."""
    prepare(bench)
    bench.delay_ms = 10
    outcomes, sizes = resting(bench, 5)
    bench.world.loop.run_for_us(1_000_000)
    assert [number for number, _ in outcomes] == [0, 1, 2, 3, 4]
    assert sizes == [1 + 102 + 103, 1 + 103, 1]


def test_a_connection_that_rests_looks_again_when_nothing_comes(bench):
    prepare(bench)
    bench.delay_ms = 10
    outcomes, sizes = resting(bench, 5)
    reach_rest(bench, sizes)
    bench.delay_ms = 10_000
    resting_at = sizes[-1]
    bench.world.loop.run_for_us(2_000 * LONGEST_REST_MS + 20_000)
    assert resting_at > 1 and sizes[-1] == 1 and len(outcomes) == 2


def test_a_request_that_is_awaited_ends_the_rest(bench):
    prepare(bench)
    bench.delay_ms = 10
    _, sizes = resting(bench, 5)
    reach_rest(bench, sizes)
    resting_at = sizes[-1]
    asked = bench.client_runtime.spawn(bench.client.send("broker", PORT, MetadataRequest(), timeout_ms=5_000), name="asked")
    bench.world.loop.run_for_us(1)
    assert resting_at > 1 and sizes[-1] == 1
    bench.world.loop.run_for_us(1_000_000)
    assert asked.result().cluster_id == "tester"


def test_a_connection_rests_only_for_answers_whose_least_size_is_known(bench):
    prepare(bench)
    connection = bench.client.connection_for_posts("broker", PORT)
    sizes = []
    connection._connection.wake_at = lambda size: sizes.append(size) or True
    connection.after_answers = lambda: connection.rest_until(1)
    outcomes = posted(bench, 5)
    bench.world.loop.run_for_us(1_000_000)
    assert len(outcomes) == 5 and sizes == []
