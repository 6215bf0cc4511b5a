"""Mutated frames, the small campaign; `python tools/fuzz_frames.py --frames 1000000 --seed N` is
the large one.
"""

from __future__ import annotations

import logging
import random
import socket
import struct

from support.brokers.frame_fuzzer import Campaign, Faults, is_allowed_harm
from support.brokers.mutated_frames import Mutator, captured_frames, decoded, encode, filled_frames, localised

from kmirror import EmbeddedCluster
from kmirror.common.uuid import Uuid
from kmirror.embedded_security import Security
from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.messages.sasl_handshake import SaslHandshakeRequest

TOPIC_IDS = [Uuid(b"0123456789abcde" + bytes([number])) for number in range(3)]


def test_a_broker_takes_mutated_frames_and_nobody_else_notices() -> None:
    outcome = Campaign(seed=848).run(5_000, in_process=0.3)
    assert outcome.problems == []
    assert outcome.frames >= 5_000 and outcome.answered > 1_000 and outcome.closed > 500 and outcome.in_process > 1_000, outcome
    assert len(outcome.apis) > 80, "only few APIs were tried"
    assert outcome.rounds > 10, "the other connection did not get anything done"


def test_frames_of_somebody_who_is_not_logged_in_close_their_connection_only() -> None:
    mutator = Mutator([*captured_frames(), *filled_frames(TOPIC_IDS)], seed=3)
    faults = Faults()
    logging.getLogger().addHandler(faults)
    try:
        security = Security.sasl_plaintext({"alice": "secret"}, mechanism="PLAIN")
        with EmbeddedCluster(security=security, config={"connection.failed.authentication.delay.ms": "0"}) as cluster:
            ports = (cluster.nodes[0].port, cluster.nodes[0].controller_port)
            answered = sum(_is_answered(ports[number % 2], mutator.next_frame()) for number in range(600))
            assert 20 < answered < 200, "ApiVersions and SaslHandshake are answered, nothing else is"
            assert _is_answered(ports[0], encode(ApiKeys.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN")))
    finally:
        logging.getLogger().removeHandler(faults)
    assert not faults.found


def _is_answered(port: int, frame: bytes) -> bool:
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        try:
            return connection.recv(1) != b""
        except ConnectionError:
            return False


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
