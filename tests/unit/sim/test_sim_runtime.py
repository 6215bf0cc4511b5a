"""SimRuntime and SimNetwork: lives and deaths of nodes, and what the network does to connections."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from support.brokers.network_doubles import RawPeer

from kmirror.sim.links import Link
from kmirror.sim.loop import SimLoop
from kmirror.sim.owners import NodeKilledError
from kmirror.sim.runtime import SimWorld

PORT = 9000


@pytest.fixture
def world():
    world = SimWorld(SimLoop(11))
    yield world
    world.close()


class Pair:
    """A connection from node "a" to node "b"."""

    def __init__(self, world: SimWorld) -> None:
        self.world = world
        self.a = world.node("a").runtime or world.node("a").boot()
        self.b = world.node("b").runtime or world.node("b").boot()
        accepted: list[RawPeer] = []

        def accept() -> RawPeer:
            accepted.append(RawPeer())
            return accepted[-1]

        listen = self.b.spawn(self.b.listen("", PORT, accept), name="listen")
        self.listener = world.loop.run_until_complete(listen)
        connect = self.a.spawn(self.a.connect("b", PORT, RawPeer), name="connect")
        self.left: RawPeer = world.loop.run_until_complete(connect)[1]
        self.right = accepted[0]


def test_bytes_arrive_in_order_and_late(world):
    pair = Pair(world)
    sent_us = world.loop.now_us
    data = bytes(range(256)) * 4000
    pair.left.connection.write([data[:10], memoryview(data)[10:5000], data[5000:]])
    while len(pair.right.received) < len(data):
        world.loop.run_for_us(100)
    assert pair.right.received == data
    assert world.loop.now_us - sent_us >= 200
    assert pair.right.connection.peer_address == pair.left.connection.local_address


def test_links_have_latency_and_bandwidth(world):
    pair = Pair(world)
    world.network.links.set("a", "b", Link(min_latency_us=100_000, max_latency_us=100_001, bytes_per_s=1_000_000))
    pair.left.connection.write([bytes(50_000)])
    world.loop.run_for_us(140_000)
    assert pair.right.received == b""
    world.loop.run_for_us(20_000)
    assert len(pair.right.received) == 50_000


def test_a_partition_holds_back_and_healing_delivers_in_order(world):
    pair = Pair(world)
    world.network.partition(["a"], ["b"], both_ways=False)
    for index in range(20):
        pair.left.connection.write([bytes([index])])
    pair.right.connection.write([b"other way"])
    world.loop.run_for_us(1_000_000)
    assert pair.right.received == b""
    assert pair.left.received == b"other way"
    world.network.heal()
    pair.left.connection.write([b"\xff"])
    world.loop.run_for_us(100_000)
    assert pair.right.received == bytes(range(20)) + b"\xff"


def test_a_reset_reaches_both_ends(world):
    pair = Pair(world)
    assert world.network.reset("a", "b") == 1
    world.loop.run_for_us(100_000)
    assert isinstance(pair.left.error, ConnectionResetError)
    assert isinstance(pair.right.error, ConnectionResetError)


def test_closing_delivers_what_was_written_and_then_the_end(world):
    pair = Pair(world)
    pair.left.connection.write([bytes(3_000_000)])
    pair.left.connection.close()
    pair.left.connection.write([b"ignored"])
    world.loop.run_for_us(1_000_000)
    assert len(pair.right.received) == 3_000_000
    assert (pair.right.lost, pair.right.error) == (True, None)


def test_a_reader_that_pauses_fills_the_window_and_then_the_writer(world):
    pair = Pair(world)
    pair.right.connection.pause_reading()
    pair.left.connection.write([bytes(2_000_000)])
    world.loop.run_for_us(1_000_000)
    assert pair.right.received == b""
    assert pair.left.connection.unsent_bytes > 1_500_000
    pair.right.connection.resume_reading()
    world.loop.run_for_us(1_000_000)
    assert len(pair.right.received) == 2_000_000
    assert pair.left.connection.unsent_bytes == 0


def test_connecting_to_nobody_is_refused_and_a_taken_port_too(world):
    pair = Pair(world)
    with pytest.raises(ConnectionRefusedError):
        world.loop.run_until_complete(pair.a.spawn(pair.a.connect("b", 1, RawPeer), name="connect"))
    with pytest.raises(OSError, match="no host is called nowhere"):
        world.loop.run_until_complete(pair.a.spawn(pair.a.connect("nowhere", 1, RawPeer), name="connect"))
    with pytest.raises(OSError, match="Address already in use"):
        world.loop.run_until_complete(pair.b.spawn(pair.b.listen("", PORT, RawPeer), name="listen"))
    pair.listener.close()
    with pytest.raises(ConnectionRefusedError):
        world.loop.run_until_complete(pair.a.spawn(pair.a.connect("b", PORT, RawPeer), name="connect"))


def test_a_crash_resets_its_peers_at_once(world):
    pair = Pair(world)
    world.node("b").kill()
    world.loop.run_for_us(10_000)
    assert isinstance(pair.left.error, ConnectionResetError)
    assert not pair.right.lost


def test_a_power_loss_is_silent_until_the_host_is_back(world):
    pair = Pair(world)
    world.node("b").kill(power_loss=True)
    pair.left.connection.write([b"anyone?"])
    world.loop.run_for_us(60_000_000)
    assert not pair.left.lost
    connecting = pair.a.spawn(pair.a.connect("b", PORT, RawPeer), name="connect")
    world.loop.run_for_us(1_000_000)
    assert not connecting.done()
    world.node("b").boot()
    world.loop.run_for_us(2_000_000)
    assert isinstance(pair.left.error, ConnectionResetError)
    assert isinstance(connecting.exception(), ConnectionRefusedError)
    assert pair.right.received == b""


def test_a_killed_node_stops_between_two_steps_and_cleans_nothing_up(world):
    node = world.node("a")
    runtime = node.boot()
    after_death: list[str] = []

    async def work() -> None:
        file = runtime.files.open("/log", create=True)
        try:
            file.pwrite(b"before", 0)
            await runtime.sleep_ms(1_000)
            after_death.append("went on")
        finally:
            after_death.append("finally")
            file.pwrite(b"after!", 0)
            after_death.append("wrote")

    runtime.spawn(work(), name="work")
    runtime.call_later_ms(1_000, lambda: after_death.append("timer"))
    world.loop.run_for_us(500_000)
    node.kill()
    world.loop.run_for_us(5_000_000)
    assert after_death == ["finally"]
    assert node.boot().files.read_bytes("/log") == b"before"
    assert world.loop.failures == []


def test_a_node_can_be_killed_from_inside_one_of_its_own_steps(world):
    node = world.node("a")
    runtime = node.boot()
    reached: list[str] = []

    async def work() -> None:
        node.kill(power_loss=True)
        reached.append("same step")
        with contextlib.suppress(Exception):  # no handler of the node survives its death
            runtime.files.exists("/log")
        reached.append("after the disk was used")

    runtime.spawn(work(), name="work")
    world.loop.run_for_us(1_000)
    assert reached == ["same step"]
    assert world.loop.failures == []


def test_a_dead_runtime_refuses_everything(world):
    runtime = world.node("a").boot()
    world.node("a").kill()
    for use in (
        lambda: runtime.call_soon(print),
        lambda: runtime.call_later_ms(1, print),
        lambda: runtime.spawn(asyncio.sleep(1), name="x"),
    ):
        with pytest.raises(NodeKilledError):
            use()


def test_lives_have_chance_of_their_own_and_clocks_may_be_off(world):
    node = world.node("a")
    first = node.boot().random.token_bytes(8)
    node.kill()
    second = node.boot().random.token_bytes(8)
    assert first != second
    node.clock.offset_ms = -5_000
    other = world.node("b").boot()
    assert other.clock.time_ms() - node.clock.time_ms() == 5_000
    assert other.clock.monotonic_ms() == node.clock.monotonic_ms()


def test_a_paused_node_does_nothing_and_then_everything_late(world):
    node = world.node("a")
    runtime = node.boot()
    ticks: list[int] = []

    async def tick() -> None:
        while True:
            await runtime.sleep_ms(100)
            ticks.append(world.loop.now_us // 1000)

    runtime.spawn(tick(), name="tick")
    world.loop.run_for_us(250_000)
    node.pause(1_000_000)
    world.loop.run_for_us(1_210_000)
    assert ticks == [100, 200, 1250, 1350, 1450]


def test_blocking_work_takes_virtual_time_and_lets_others_run(world):
    runtime = world.node("a").boot()
    order: list[str] = []

    async def main() -> int:
        runtime.call_soon(lambda: order.append("loop"))
        return await runtime.run_blocking(lambda: order.append("work") or 42)

    assert world.loop.run_until_complete(runtime.spawn(main(), name="main")) == 42
    assert order == ["loop", "work"]
    assert world.loop.now_us > 0


def test_bytes_are_handed_over_in_the_step_in_which_they_arrive(world):
    pair = Pair(world)
    world.loop.run_for_us(10_000)
    before = world.loop.steps
    pair.left.connection.write([b"one piece"])
    world.loop.run_for_us(10_000)
    assert pair.right.received == b"one piece"
    assert world.loop.steps - before == 2, "the piece, and the end of the 10 ms"


def test_a_node_that_stands_still_receives_nothing_until_it_goes_on(world):
    pair = Pair(world)
    world.node("b").pause(50_000)
    pair.left.connection.write([b"early"])
    world.loop.run_for_us(40_000)
    assert pair.right.received == b""
    world.loop.run_for_us(20_000)
    assert pair.right.received == b"early"


def test_a_node_that_dies_while_it_stands_still_is_forgotten(world):
    """What arrived at others was put off to a step of its own for the rest of the run."""
    pair = Pair(world)
    world.node("c").boot()
    world.node("c").pause(50_000)
    world.node("c").kill()
    world.loop.run_for_us(10_000)
    before = world.loop.steps
    pair.left.connection.write([b"one piece"])
    world.loop.run_for_us(10_000)
    assert pair.right.received == b"one piece"
    assert world.loop.steps - before == 2, "the piece, and the end of the 10 ms"


def test_an_error_of_a_callback_is_its_node_s(world, monkeypatch):
    pair = Pair(world)
    world.loop.run_for_us(10_000)

    def refuse(*_: object) -> None:
        raise RuntimeError("not mine")

    pair.a.call_soon(refuse)
    world.loop.run_for_us(10_000)
    monkeypatch.setattr(pair.right, "buffer_updated", refuse)
    pair.left.connection.write([b"handed over in the step of the network"])
    world.loop.run_for_us(10_000)
    assert [(failure.node, str(failure.error)) for failure in world.loop.failures] == [("a", "not mine"), ("b", "not mine")]
