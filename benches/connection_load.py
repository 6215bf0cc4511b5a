"""Load for the bench `connections`, in a process of its own: idle connections, and busy ones that
send small produces at a fixed rate.

python -m benches.connection_load PORT TOPIC PARTITIONS IDLE BUSY RATE SECONDS prints one JSON
object: latencies in ms, counts.

Frames are encoded once; only the correlation id is written anew. Each connection sends on its own
clock whether or not the last answer came (so a slow broker shows as latency, not as less load), and
a latency counts from when the produce was due.
"""

from __future__ import annotations

import asyncio
import json
import sys

from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.framing import RequestHeader, encode_request
from kmirror.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE_VERSION = 9
CORRELATION_ID_AT = 8
WARM_UP_S = 2.0
VALUE = b"v" * 100


def produce_frame(topic: str, partition: int) -> bytearray:
    records = bytes(build_batch([Record(0, 1_750_000_000_000, None, VALUE, [])]))
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=records)])
    request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data])
    parts = encode_request(RequestHeader(ApiKeys.PRODUCE, PRODUCE_VERSION, 0, "load"), request)
    return bytearray(b"".join(bytes(part) for part in parts))


class Busy(asyncio.Protocol):
    """One connection that produces every `interval_s`."""

    def __init__(self, frame: bytearray, first_s: float, interval_s: float, until_s: float, measured_from_s: float) -> None:
        self.latencies: list[float] = []
        self.failures = 0
        self._frame = frame
        self._due_s, self._interval_s = first_s, interval_s
        self._until_s, self._measured_from_s = until_s, measured_from_s
        self._sent: dict[int, float] = {}
        self._next_id = 0
        self._received = bytearray()
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._loop.call_at(self._due_s, self._send)

    def _send(self) -> None:
        self._next_id += 1
        self._frame[CORRELATION_ID_AT : CORRELATION_ID_AT + 4] = self._next_id.to_bytes(4, "big")
        self._sent[self._next_id] = self._due_s
        self._transport.write(bytes(self._frame))
        self._due_s += self._interval_s
        if self._due_s < self._until_s:
            self._loop.call_at(self._due_s, self._send)

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 8:
            size = int.from_bytes(self._received[:4], "big")
            if len(self._received) < 4 + size:
                return
            due_s = self._sent.pop(int.from_bytes(self._received[4:8], "big"))
            del self._received[: 4 + size]
            if due_s >= self._measured_from_s:
                self.latencies.append(1000 * (self._loop.time() - due_s))

    def connection_lost(self, error: Exception | None) -> None:
        self.failures += len(self._sent)


async def load(port: int, topic: str, partitions: int, idle: int, busy: int, rate: float, seconds: float) -> dict[str, object]:
    loop = asyncio.get_running_loop()
    for _ in range(idle):
        await loop.create_connection(asyncio.Protocol, "127.0.0.1", port)
    begin = loop.time() + 0.5 + busy / 1000
    interval = 1 / rate
    connections = []
    for number in range(busy):
        first = begin + interval * number / busy
        frame = produce_frame(topic, number % partitions)
        protocol = Busy(frame, first, interval, begin + WARM_UP_S + seconds, begin + WARM_UP_S)
        await loop.create_connection(lambda protocol=protocol: protocol, "127.0.0.1", port)
        connections.append(protocol)
    await asyncio.sleep(begin + WARM_UP_S + seconds + 2 - loop.time())
    latencies = sorted(latency for connection in connections for latency in connection.latencies)
    unanswered = sum(len(connection._sent) + connection.failures for connection in connections)
    return {"latencies_ms": [round(latency, 2) for latency in latencies], "unanswered": unanswered}


def main(arguments: list[str]) -> int:
    port, topic, partitions, idle, busy, rate, seconds = arguments
    print(json.dumps(asyncio.run(load(int(port), topic, int(partitions), int(idle), int(busy), float(rate), float(seconds)))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
