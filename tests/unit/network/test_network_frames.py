"""FrameReader: every way of cutting a stream gives the same frames."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kmirror.network.frames import SCRATCH_BYTES, FrameReader, InvalidReceiveError, new_scratch


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
