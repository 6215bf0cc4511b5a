"""Transformations and predicates against Apache Kafka's own classes: random chains over random records.

`TransformChains.java` runs Kafka's classes and answers one line of JSON for each. Topic, partition, key,
value, headers and time of each record must be ours, and so must each error: where, its class and its text.
"""

from __future__ import annotations

import base64
import json
import pathlib
import random
import re
from typing import Any

import pytest
from support.mirrormaker.apaches_rules import run_program
from support.mirrormaker.transform_cases import OBJECT, chain_props, ours, random_record

from kmirror.mirrormaker.transforms.literals import float32

pytestmark = pytest.mark.interop

PROGRAM = pathlib.Path(__file__).parent / "TransformChains.java"
CASES = 4_000


FLOAT = re.compile(r"-?\d\.\d+E-?\d+")


def comparable(answer: dict[str, Any]) -> dict[str, Any]:
    """Texts of floats become their values: Java before 19 does not print the shortest."""

    def plain(text: str) -> str:
        return FLOAT.sub(lambda match: str(float32(float(match[0]))), text)

    def of_record(record: dict[str, Any]) -> dict[str, Any]:
        headers = [
            [key, None if value is None else plain(base64.b64decode(value).decode("latin-1"))] for key, value in record.get("headers", ())
        ]
        return {**record, "headers": headers, "failed": [plain(str(word)) for word in record.get("failed", ())]}

    return {**answer, "records": [of_record(record) for record in answer.get("records", ())]}


@pytest.mark.parametrize("seed", [1, 2])
def test_every_record_becomes_what_apaches_classes_make_of_it(seed: int, tmp_path: pathlib.Path) -> None:
    source = random.Random(seed)
    asked = [{"props": chain_props(source), "records": [random_record(source) for _ in range(3)]} for _ in range(CASES)]
    answers = run_program(PROGRAM, tmp_path, [json.dumps(one) for one in asked])
    wrong = []
    for one, answer in zip(asked, answers, strict=True):
        theirs, mine = json.loads(OBJECT.sub("", answer)), ours(one)
        if comparable(theirs) != comparable(mine):
            wrong.append(f"{one}\n    {theirs}\n    {mine}")
    assert not wrong, f"{len(wrong)} of {CASES} differ\n" + "\n".join(wrong[:20])
    kinds = [next(iter(record)) for answer in answers for record in json.loads(answer).get("records", ())]
    assert min(kinds.count(kind) for kind in ("key", "failed", "dropped")) > CASES // 20, "the cases are of too few kinds"
