"""FrameReader: every way of cutting a stream gives the same frames."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kmirror.network.frames import MAX_KEPT_BYTES, SCRATCH_BYTES, FrameReader, InvalidReceiveError, new_scratch


def feed(reader: FrameReader, data: bytes, cuts: list[int]) -> None:
    position = 0
    for cut in [*cuts, len(data)]:
        while position < cut:
            buffer = reader.get_buffer(0)
            size = min(len(buffer), cut - position)
            assert size > 0
            buffer[:size] = data[position : position + size]
            reader.buffer_updated(size)
            position += size


def framed(frames: list[bytes]) -> bytes:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=40), max_size=8), st.data())
def test_any_cut_gives_the_same_frames(frames, data):
    stream = framed(frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    received: list[memoryview] = []
    feed(FrameReader(received.append, max_size=1000, scratch=new_scratch()), stream, cuts)
    assert [bytes(frame) for frame in received] == frames


def test_frames_stay_what_they_were_when_the_scratch_is_used_again():
    received: list[memoryview] = []
    reader = FrameReader(received.append, max_size=1000, scratch=new_scratch())
    feed(reader, framed([b"first"]), [])
    feed(reader, framed([b"other"]), [])
    assert [bytes(frame) for frame in received] == [b"first", b"other"]


def test_two_readers_share_a_scratch():
    scratch = new_scratch()
    left: list[memoryview] = []
    right: list[memoryview] = []
    readers = [FrameReader(left.append, max_size=1000, scratch=scratch), FrameReader(right.append, max_size=1000, scratch=scratch)]
    for index in range(len(framed([b"left"]))):
        feed(readers[0], framed([b"left"])[index : index + 1], [])
        feed(readers[1], framed([b"rite"])[index : index + 1], [])
    assert (bytes(left[0]), bytes(right[0])) == (b"left", b"rite")


def test_a_large_frame_is_received_into_its_own_buffer():
    received: list[memoryview] = []
    reader = FrameReader(received.append, max_size=1 << 30, scratch=new_scratch())
    size = SCRATCH_BYTES * 4
    feed(reader, framed([bytes(size)])[:100], [])
    assert reader.in_frame
    assert len(reader.get_buffer(0)) == size - 96
    feed(reader, framed([bytes(size)])[100:], [])
    assert len(received[0]) == size
    assert not reader.in_frame


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (-1, "Invalid receive (size = -1)"),
        (0, "Invalid receive (size = 0)"),
        (1001, "Invalid receive (size = 1001 larger than 1000)"),
        (1195725856, "Invalid receive (size = 1195725856 larger than 1000)"),
    ],
)
def test_unbelievable_sizes_are_refused(size, message):
    reader = FrameReader(lambda frame: None, max_size=1000, scratch=new_scratch())
    with pytest.raises(InvalidReceiveError) as caught:
        feed(reader, size.to_bytes(4, "big", signed=True), [])
    assert str(caught.value) == message


def test_nothing_is_delivered_after_stop():
    received: list[memoryview] = []

    def once(frame: memoryview) -> None:
        received.append(frame)
        reader.stop()

    reader = FrameReader(once, max_size=1000, scratch=new_scratch())
    feed(reader, framed([b"one", b"two"]), [])
    assert len(received) == 1


@pytest.mark.parametrize(("received", "references"), [(100, 2), ((1 << 20) + 4, 1)], ids=["a frame that has begun", "one that was kept"])
def test_a_closed_reader_holds_no_buffer(received, references):
    buffers: list[bytearray] = []
    reader = FrameReader(lambda frame: buffers.append(frame.obj), max_size=1 << 24, scratch=new_scratch(), reuse_large_frames=True)
    feed(reader, framed([bytes(1 << 20)])[:received], [])
    if reader.in_frame:
        buffers.append(reader.get_buffer(0).obj)
    before = sys.getrefcount(buffers[0])
    reader.close()
    after = sys.getrefcount(buffers[0])
    assert before - after == references


def test_the_buffer_of_a_large_frame_is_used_again_when_nobody_looks_at_it() -> None:
    """A view on a frame keeps its bytes; a buffer nobody refers to takes the next frame, but none
    that is far too small for it.
    """
    kept: list[memoryview] = []
    reader = FrameReader(kept.append, max_size=1 << 24, scratch=new_scratch(), reuse_large_frames=True)

    def feed_frame(fill: int, size: int) -> None:
        data = size.to_bytes(4, "big") + bytes([fill]) * size
        while data:
            buffer = reader.get_buffer(-1)
            taken = min(len(buffer), len(data))
            buffer[:taken] = data[:taken]
            del buffer
            data = data[taken:]
            reader.buffer_updated(taken)

    feed_frame(1, 1_000_000)
    first = kept[0].obj
    feed_frame(2, 900_000)
    assert kept[1].obj is not first and set(bytes(kept[0])) == {1} and set(bytes(kept[1])) == {2}
    second = kept[1].obj
    kept.clear()
    feed_frame(3, 800_000)
    assert kept[0].obj is second and len(kept[0]) == 800_000 and set(bytes(kept[0])) == {3}
    kept.clear()
    feed_frame(4, 300_000)
    assert kept[0].obj is second
    kept.clear()
    feed_frame(5, 5_000_000)
    largest = kept[0].obj
    feed_frame(6, 400_000)
    assert kept[1].obj is not largest and set(bytes(kept[0])) == {5}
    kept.clear()
    feed_frame(7, 500_000)
    assert kept[0].obj is not largest, "too large to be used for so little"
    kept.clear()
    feed_frame(8, 4_000_000)
    assert kept[0].obj is largest


def test_several_buffers_are_kept_up_to_a_limit() -> None:
    kept: list[memoryview] = []
    reader = FrameReader(kept.append, max_size=1 << 24, scratch=new_scratch(), reuse_large_frames=True)
    size = MAX_KEPT_BYTES // 4
    for fill in range(6):
        data = size.to_bytes(4, "big") + bytes([fill]) * size
        while data:
            buffer = reader.get_buffer(-1)
            taken = min(len(buffer), len(data))
            buffer[:taken] = data[:taken]
            data = data[taken:]
            reader.buffer_updated(taken)
        del buffer
    buffers = [view.obj for view in kept]
    assert [set(bytes(view)) for view in kept] == [{fill} for fill in range(6)] and len({id(one) for one in buffers}) == 6
    held = [sys.getrefcount(one) for one in buffers]
    kept.clear()
    reader.close()
    assert [before - sys.getrefcount(one) for before, one in zip(held, buffers, strict=True)] == [0, 0, 1, 1, 1, 1]
