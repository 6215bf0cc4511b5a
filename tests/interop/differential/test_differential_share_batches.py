"""Delivery states of share partitions, combined by Kafka's own class and by ours: the same lists,
also where two equal ranges stay apart.
"""

from __future__ import annotations

import pathlib
import random
import subprocess

import pytest
from support.peers.peers import TOOL_JVM, java, kafka_classpath
from support.waiting import REACHED_S

from kmirror.coordinator.share.persister_state_batch import PersisterStateBatch, combine_state_batches

pytestmark = pytest.mark.interop

PROGRAM = pathlib.Path(__file__).parent / "share_batches.java"
CASES = 20_000


def batches(source: random.Random) -> list[PersisterStateBatch]:
    first = [source.randrange(25) for _ in range(source.randrange(7))]
    return [PersisterStateBatch(start, start + source.randrange(9), source.choice((1, 2)), source.choice((0, 2, 4))) for start in first]


def text(rows: list[PersisterStateBatch]) -> str:
    return " ".join(f"{row.first_offset},{row.last_offset},{row.delivery_state},{row.delivery_count}" for row in rows)


def test_kafkas_class_gives_the_same_lists() -> None:
    source = random.Random(932)
    cases = [(source.choice((-1, -1, 0, source.randrange(30))), batches(source), batches(source)) for _ in range(CASES)]
    script = "".join(f"{start}|{text(so_far)}|{text(newer)}\n" for start, so_far, newer in cases)
    command = [java(), *TOOL_JVM, "-cp", kafka_classpath(), str(PROGRAM)]
    done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=REACHED_S, check=False)
    assert done.returncode == 0, done.stderr
    theirs = [line.strip() for line in done.stdout.split("\n")[:CASES]]
    equal_neighbours = 0
    for case, kafka in zip(cases, theirs, strict=True):
        start, so_far, newer = case
        ours = combine_state_batches(so_far, newer, start)
        assert text(ours) == kafka, case
        equal_neighbours += any(
            a.delivery == b.delivery and a.last_offset + 1 == b.first_offset for a, b in zip(ours, ours[1:], strict=False)
        )
    assert equal_neighbours > 10, "the case that is not obvious did not come up"
