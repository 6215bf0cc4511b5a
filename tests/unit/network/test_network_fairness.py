"""One client must not hold up or use up what all share: the loop, and the memory of requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.brokers.network_doubles import (
    RawPeer,
    ServerBench,
    frame_of,
    metadata_request,
    tiny_broker,
)

from kmirror.network.frame_memory import FIRST_PIECE_BYTES, MANY_BYTES, FrameMemory
from kmirror.network.frames import FrameReader, new_scratch
from kmirror.network.request_context import RequestContext
from kmirror.network.socket_server import SocketServer
from kmirror.runtime.turns import THINGS_A_SLICE, in_turns

MB = 1 << 20


@pytest.fixture
def bench() -> Iterator[ServerBench]:
    bench = ServerBench()
    yield bench
    bench.world.close()


def claim(peer: RawPeer, size: int, sent: int = 100_000) -> None:
    """Sends the beginning of a frame that announces `size` bytes."""
    peer.connection.write([size.to_bytes(4, "big"), bytes(sent)])


def server_with(bench: ServerBench, limit_bytes: int) -> SocketServer:
    return bench.start(tiny_broker(), frame_memory=FrameMemory(limit_bytes))


def test_a_client_that_pipelines_held_up_all_others(bench: ServerBench) -> None:
    handled: list[int] = []

    async def other() -> None:
        handled.append(-1)

    async def note(context: RequestContext) -> None:
        if not handled:
            bench.broker.spawn(other(), name="other")
        handled.append(context.header.correlation_id)

    bench.start(tiny_broker(note))
    count = 3 * THINGS_A_SLICE
    bench.peer().connection.write([b"".join(metadata_request(number) for number in range(count))])
    bench.run_ms(2_000)
    assert sorted(handled) == list(range(-1, count))
    assert handled.index(-1) < count, "what else was to be done had its turn"


def test_long_work_lets_others_have_their_turn(bench: ServerBench) -> None:
    order: list[str] = []

    async def work() -> None:
        async for number in in_turns(bench.broker, range(2 * THINGS_A_SLICE)):
            order.append(str(number))

    async def other() -> None:
        order.append("other")

    bench.broker.spawn(work(), name="work")
    bench.broker.spawn(other(), name="other")
    bench.run_ms(100)
    assert len(order) == 2 * THINGS_A_SLICE + 1
    assert order.index("other") <= THINGS_A_SLICE


def test_a_frames_announced_size_was_allocated_before_its_bytes_came(bench: ServerBench) -> None:
    server = server_with(bench, -1)
    peers = [bench.peer() for _ in range(20)]
    for peer in peers:
        claim(peer, 90 * MB)
    bench.run_ms(200)
    assert server.frame_memory.claimed_bytes == 20 * 90 * MB
    assert server.frame_memory.held_bytes <= 20 * FIRST_PIECE_BYTES
    for peer in peers:
        peer.connection.abort()
    bench.run_ms(200)
    assert (server.frame_memory.claimed_bytes, server.frame_memory.held_bytes) == (0, 0)


def test_hundreds_of_frames_begin_with_small_pieces() -> None:
    memory = FrameMemory()
    readers = [FrameReader(lambda frame: None, max_size=100 * MB, scratch=new_scratch(), memory=memory) for _ in range(600)]
    for reader in readers:
        reader.get_buffer(0)[:4] = (90 * MB).to_bytes(4, "big")
        reader.buffer_updated(4)
    assert memory.held_bytes < MANY_BYTES + 600 * (1 << 16)


@pytest.mark.parametrize("size", [MB - 7, MB, MB + 1, 5 * MB + 3])
def test_a_frame_that_grows_arrives_whole(size: int) -> None:
    received: list[memoryview] = []
    memory = FrameMemory()
    reader = FrameReader(received.append, max_size=1 << 30, scratch=new_scratch(), memory=memory)
    data = bytes(range(251)) * (size // 251 + 1)
    left = memoryview(size.to_bytes(4, "big") + data[:size] + (3).to_bytes(4, "big") + b"end")
    while left:
        buffer = reader.get_buffer(0)
        taken = min(len(buffer), len(left), 70_000)
        buffer[:taken] = left[:taken]
        reader.buffer_updated(taken)
        left = left[taken:]
    assert [bytes(frame) for frame in received] == [data[:size], b"end"]
    assert memory.held_bytes == 0


def test_a_connection_waits_until_another_large_request_is_handled(bench: ServerBench) -> None:
    server = server_with(bench, MB)
    first, second, small = bench.peer(), bench.peer(), bench.peer()
    whole = padded_request(1, 2 * MB)
    first.connection.write([whole[:200_000]])
    bench.run_ms(100)
    second.connection.write([padded_request(2, 2 * MB)])
    small.connection.write([metadata_request(3)])
    bench.run_ms(500)
    assert (server.frame_memory.waiting_connections, second.correlation_ids()) == (1, [])
    assert small.correlation_ids() == [3], "small requests are not counted"
    first.connection.write([whole[200_000:]])
    bench.run_ms(2_000)
    assert (first.correlation_ids(), second.correlation_ids()) == ([1], [2])
    assert (server.frame_memory.claimed_bytes, server.frame_memory.waiting_connections) == (0, 0)


def test_a_lost_connection_gives_its_place_to_the_next(bench: ServerBench) -> None:
    server = server_with(bench, MB)
    first, second, third = bench.peer(), bench.peer(), bench.peer()
    claim(first, 2 * MB)
    bench.run_ms(100)
    claim(second, 2 * MB)
    third.connection.write([padded_request(3, 2 * MB)])
    bench.run_ms(500)
    second.connection.abort()
    bench.run_ms(200)
    first.connection.abort()
    bench.run_ms(2_000)
    assert third.correlation_ids() == [3]
    assert server.frame_memory.claimed_bytes == 0


def padded_request(correlation_id: int, size: int) -> bytes:
    """A request with bytes behind its last field, which are ignored."""
    request = metadata_request(correlation_id)[4:]
    return frame_of([(len(request) + size).to_bytes(4, "big"), request, bytes(size)])
