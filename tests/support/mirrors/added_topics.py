"""Topics that are added to a mirror with records in them (`MirrorMachine`)."""

from __future__ import annotations

from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.wire.messages import fetch
from support.brokers.broker_doubles import NOW_MS
from support.mirrors.mirror_machine import MIRROR, MirrorMachine
from support.mirrors.scripted_source import batch

NINE = [batch(offset, b"a", epoch=1) for offset in range(9)]


async def removed_and_written(machine: MirrorMachine, **topic: str) -> None:
    """Nine records mirrored, failed over, two written here: 9 is the reset, 10 and 11 are ours."""
    await machine.mirroring(*NINE, **topic)
    machine.name("m.removed")
    await machine.reach("STOPPED")
    assert machine.produce(bytes(build_batch([Record(n, NOW_MS, b"k", b"x") for n in (0, 1)]))).name == "NONE"
    machine.log().update_high_watermark(12)
    assert machine.log().log_end_offset == 12
    machine.source.requests.clear()


async def added_again(machine: MirrorMachine) -> None:
    machine.name(MIRROR)
    await machine.advance(8_000)


def polled_offsets(machine: MirrorMachine) -> list[int]:
    """From where the source was asked for records to append."""
    return [
        row.fetch_offset
        for _, _, _, request in machine.source.requests
        if isinstance(request, fetch.FetchRequest) and request.max_wait_ms
        for topic in request.topics
        for row in topic.partitions
    ]
