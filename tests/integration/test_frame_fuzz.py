"""Mutated frames, the small campaign; `python tools/fuzz_frames.py --frames 1000000 --seed N` is the large one."""

from __future__ import annotations

import random

from frame_fuzzer import Campaign, Mutator, captured_frames, decoded, filled_frames, is_allowed_harm, localised

from kmirror.common.uuid import Uuid
from kmirror.wire.api_keys import API_TABLE

TOPIC_IDS = [Uuid(b"0123456789abcde" + bytes([number])) for number in range(3)]


def test_a_broker_takes_mutated_frames_and_nobody_else_notices() -> None:
    outcome = Campaign(seed=848).run(5_000, in_process=0.3)
    assert outcome.problems == []
    assert outcome.frames >= 5_000 and outcome.answered > 1_000 and outcome.closed > 500 and outcome.in_process > 1_000, outcome
    assert len(outcome.apis) > 80, "only few APIs were tried"
    assert outcome.rounds > 10, "the other connection did not get anything done"


def test_the_decoder_reads_or_refuses_every_mutated_frame() -> None:
    """`decoded` lets any other exception through."""
    chance = random.Random(1)
    corpus = [localised(frame, chance, TOPIC_IDS) for frame in captured_frames() + filled_frames(TOPIC_IDS)]
    mutator = Mutator(corpus, seed=12)
    readable = sum(decoded(mutator.next_frame()) is not None for _ in range(15_000))
    assert 5_000 < readable < 12_000


def test_the_corpus_has_every_api_and_the_same_seed_gives_the_same_frames() -> None:
    corpus = captured_frames() + filled_frames(TOPIC_IDS)
    assert {int.from_bytes(frame[:2], "big") for frame in corpus} == set(map(int, API_TABLE))
    one, other = Mutator(corpus, 7), Mutator(corpus, 7)
    frames = [one.next_frame() for _ in range(500)]
    assert frames == [other.next_frame() for _ in range(500)]
    assert sum(map(is_allowed_harm, frames)) < 100, "too much is left out"
