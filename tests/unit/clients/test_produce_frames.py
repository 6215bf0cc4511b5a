"""Produce requests and answers as bytes, against the generated modules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kmirror.clients.produce_frames import FIRST_FLEXIBLE, BatchOnWire, ProduceBodies, acknowledged, least_answer_bytes
from kmirror.common.uuid import Uuid
from kmirror.wire.framing import encode_response
from kmirror.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kmirror.wire.primitives import Writer

VERSIONS = range(ProduceRequest.LOWEST_VERSION, ProduceRequest.HIGHEST_VERSION + 1)
FIRST_WITH_IDS = 13
BATCHES = st.builds(
    BatchOnWire, st.integers(0, 2**31 - 1), st.binary(min_size=1, max_size=61), st.binary(max_size=200) | st.just(b"r" * 20_000)
)
TOPICS = st.dictionaries(st.text("abcü.-", min_size=1, max_size=200), st.lists(BATCHES, min_size=1, max_size=4), min_size=1, max_size=4)


def id_of(name: str) -> Uuid:
    return Uuid(name.encode()[:16].rjust(16, b"\1"))


@pytest.mark.parametrize("version", VERSIONS)
@given(st.none() | st.text(max_size=150), st.sampled_from([-1, 0, 1]), st.integers(0, 2**31 - 1), TOPICS)
def test_a_request_is_what_the_generated_module_writes(version, transactional_id, acks, timeout_ms, topics):
    by_id = version >= FIRST_WITH_IDS
    if by_id:
        topics = {name: batches for name, batches in topics.items() if id_of(name).raw not in [id_of(x).raw for x in topics if x != name]}
    parts, size = ProduceBodies(transactional_id, acks, timeout_ms).body(
        version, {id_of(name).raw if by_id else name: batches for name, batches in topics.items()}
    )
    out = Writer()
    data = [
        TopicProduceData(
            name="" if by_id else name,
            topic_id=id_of(name) if by_id else Uuid.ZERO,
            partition_data=[PartitionProduceData(index=one.partition, records=[one.header, one.payload]) for one in batches],
        )
        for name, batches in topics.items()
    ]
    ProduceRequest(transactional_id, acks, timeout_ms, data).write(out, version)
    assert b"".join(parts) == out.to_bytes()
    assert size == out.size


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= FIRST_FLEXIBLE])
@given(st.none() | st.text(max_size=150), st.text("abcü.-", min_size=1, max_size=200), st.lists(BATCHES, min_size=1, max_size=4))
def test_a_request_of_one_batch_is_the_same_made_sooner(version, transactional_id, name, batches):
    bodies = ProduceBodies(transactional_id, -1, 30_000)
    topic = id_of(name).raw if version >= FIRST_WITH_IDS else name
    for batch in batches:  # what the first one leaves behind serves those after it
        parts, size = bodies.body_of_one(version, (topic, batch.partition), batch.header, batch.payload)
        expected, expected_size = bodies.body(version, {topic: [batch]})
        assert (b"".join(parts), size) == (b"".join(expected), expected_size)


ROWS = st.builds(lambda index, offset, time_ms: (index, offset, time_ms), st.integers(0, 99), st.integers(0, 2**62), st.integers(-1, 2**62))
ANSWERS = st.dictionaries(
    st.text("abcü", min_size=1, max_size=140), st.lists(ROWS, min_size=1, max_size=4, unique_by=lambda row: row[0]), max_size=4
)


def frame_of(version: int, response: ProduceResponse) -> memoryview:
    parts = encode_response(ProduceRequest.API_KEY, version, 7, response)
    return memoryview(b"".join(bytes(part) for part in parts)[4:])


def answer_of(version: int, topics, throttle_ms: int = 0, **more) -> ProduceResponse:
    by_id = version >= FIRST_WITH_IDS
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name="" if by_id else name,
                topic_id=id_of(name) if by_id else Uuid.ZERO,
                partition_responses=[
                    PartitionProduceResponse(index=index, base_offset=offset, log_append_time_ms=time_ms, log_start_offset=0, **more)
                    for index, offset, time_ms in rows
                ],
            )
            for name, rows in topics.items()
        ],
        throttle_time_ms=throttle_ms,
    )


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= 9])
@given(ANSWERS, st.integers(0, 2**31 - 1))
def test_an_answer_that_all_was_written_is_read(version, topics, throttle_ms):
    frame = frame_of(version, answer_of(version, topics, throttle_ms))
    expected = {
        (id_of(name).raw if version >= FIRST_WITH_IDS else name, index): (offset, time_ms)
        for name, rows in topics.items()
        for index, offset, time_ms in rows
    }
    keys = list(expected)
    assert acknowledged(version, frame, keys) == (list(expected.values()), throttle_ms)
    assert acknowledged(version, frame, keys[::-1]) == (list(expected.values())[::-1], throttle_ms), "in the order of the request"
    assert acknowledged(version, frame, [*keys, ("other", 1)]) is None
    if keys:
        assert acknowledged(version, frame, [*keys[:-1], (keys[-1][0], keys[-1][1] + 1_000)]) is None
    assert len(frame) + 4 >= least_answer_bytes(version, len(keys)) or len(topics) != 1


@given(st.text("abcü", min_size=1, max_size=140), ROWS, st.integers(0, 1))
def test_an_answer_to_one_batch_is_read(name, row, throttle_ms):
    frame = frame_of(13, answer_of(13, {name: [row]}, throttle_ms))
    key = (id_of(name).raw, row[0])
    assert acknowledged(13, frame, [key]) == ([row[1:]], throttle_ms)
    assert acknowledged(13, frame, [(key[0], key[1] + 1)]) is None
    assert acknowledged(13, frame, [(bytes(16), key[1])]) is None
    assert len(frame) + 4 == least_answer_bytes(13, 1)


@pytest.mark.parametrize(
    "more",
    [
        {"error_code": 6},
        {"error_message": "no"},
        {"error_message": ""},
        {"record_errors": [BatchIndexAndErrorMessage(0, "bad")]},
        {"current_leader": LeaderIdAndEpoch(2, 3)},
        {"unknown_tagged_fields": [(9, b"x")]},
    ],
)
def test_an_answer_with_more_to_say_is_left_to_the_generated_reader(more):
    for version in (12, 13):
        key = (id_of("t").raw if version >= FIRST_WITH_IDS else "t", 0)
        assert acknowledged(version, frame_of(version, answer_of(version, {"t": [(0, 5, -1)]}, **more)), [key]) is None


@given(st.integers(9, 13), st.binary(max_size=120))
def test_garbage_is_left_to_the_generated_reader_and_raises_nothing(version, garbage):
    acknowledged(version, memoryview(garbage), [(bytes(16), 0)])


@given(st.integers(0, 100))
def test_a_torn_answer_is_left_to_the_generated_reader(cut):
    topic = id_of("t").raw
    for rows in ([(0, 5, -1), (1, 6, -1)], [(0, 5, -1)]):
        whole = frame_of(13, answer_of(13, {"t": rows}))
        if cut < len(whole):
            assert acknowledged(13, whole[:cut], [(topic, row[0]) for row in rows]) is None
