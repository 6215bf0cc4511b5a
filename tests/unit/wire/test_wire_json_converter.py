"""The JSON of stored records: Jackson's spelling, fields by version, tagged fields only when they
say something.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from kmirror.wire.json_converter import dumps, java_double, to_json
from kmirror.wire.messages.offset_commit_value import OffsetCommitValue
from kmirror.wire.messages.partition_change_record import PartitionChangeRecord

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_the_table_of_fields_is_what_the_schemas_give() -> None:
    checked = subprocess.run([sys.executable, "tools/generate_record_schemas.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_fields_come_and_go_with_the_version() -> None:
    value = OffsetCommitValue(offset=5, leader_epoch=1, metadata="m", commit_timestamp=7, expire_timestamp=9)
    assert list(to_json(value, 1)) == ["offset", "metadata", "commitTimestamp", "expireTimestamp"]
    assert list(to_json(value, 3)) == ["offset", "leaderEpoch", "metadata", "commitTimestamp"]
    assert list(to_json(value, 4)) == ["offset", "leaderEpoch", "metadata", "commitTimestamp"]


def test_tagged_fields_are_left_out_at_their_default() -> None:
    record = to_json(PartitionChangeRecord(partition_id=1, leader=-1), 0)
    assert record == {"partitionId": 1, "topicId": "AAAAAAAAAAAAAAAAAAAAAA", "leader": -1}
    assert to_json(PartitionChangeRecord(isr=[]), 0)["isr"] == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('a"b\\\n\x1fé\x7f日', '"a\\"b\\\\\\n\\u001Fé\x7f日"'),
        ("\\u001f", '"\\\\u001f"'),
        ({"a": [None, True, False, 1, 2.0]}, '{"a":[null,true,false,1,2.0]}'),
        ({}, "{}"),
    ],
)
def test_jackson_spelling(value: object, text: str) -> None:
    assert dumps(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2e6, "2000000.0"),
        (1e7, "1.0E7"),
        (12345678.0, "1.2345678E7"),
        (1e22, "1.0E22"),
        (0.001, "0.001"),
        (1e-4, "1.0E-4"),
        (-3.25e-5, "-3.25E-5"),
    ],
)
def test_doubles_as_java_prints_them(value: float, text: str) -> None:
    assert java_double(value) == text
