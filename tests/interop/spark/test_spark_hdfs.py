"""Logs in HDFS, read through Spark's own Hadoop client: what the tools say of them is what they say
of the same logs on a disk.
"""

from __future__ import annotations

import json
import pathlib
import random
from collections.abc import Iterator
from typing import Any

import pytest
from support.logs.log_folders import batches, write_log
from support.peers.hdfs import Hdfs, hdfs
from support.waiting import PROGRAM_S

from kmirror.cli.kmirror import main as kmirror_main
from kmirror.cli.log_diff import main as log_diff_main
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.spark.files import file_system_for
from kmirror.spark.session import spark_session

pytestmark = [pytest.mark.interop, pytest.mark.timeout(PROGRAM_S)]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A log of 9 MB, more than one read has, and three small ones."""
    folder = tmp_path_factory.mktemp("logs") / "kafka"
    chance = random.Random(1)
    large = [
        build_batch([Record(offset, 1, None, chance.randbytes(20_000), []) for offset in range(first, first + 5)], base_offset=first)
        for first in range(0, 475, 5)
    ]
    write_log(folder / "large-0", *large)
    for number in range(3):
        write_log(folder / f"t-{number}", *batches(5))
    return folder


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    with hdfs(tmp_path_factory.mktemp("hdfs")) as made:
        yield made


@pytest.fixture(scope="module")
def uri(store: Hdfs, logs: pathlib.Path) -> str:
    return store.put(logs, "/kafka")


def verified(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    """(the exit code, the tables)"""
    code = kmirror_main(["verify-logs", *arguments, "--json"])
    said = capsys.readouterr()
    return code, json.loads(said.out or said.err)


def test_files_are_those_on_the_disk(uri: str, logs: pathlib.Path) -> None:
    files, path = file_system_for(uri)
    found = list(files.list_tree(path, 2))
    assert {(one.path, one.size) for one in found} == {
        (f"/kafka/{one.relative_to(logs)}", one.stat().st_size) for one in logs.rglob("*") if one.is_file()
    }
    for one in found:
        assert files.read_bytes(one.path) == (logs.parent / one.path[1:]).read_bytes()
    large = files.open("/kafka/large-0/00000000000000000000.log", write=False)
    assert large.pread(100, 5_000_000) == (logs / "large-0" / "00000000000000000000.log").read_bytes()[5_000_000:5_000_100]
    assert large.pread(100, large.size() - 10) == (logs / "large-0" / "00000000000000000000.log").read_bytes()[-10:]


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_verify_logs_says_of_hdfs_what_it_says_of_a_disk(
    engine: str, uri: str, logs: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = verified(capsys, str(logs), "--engine", "local"), verified(capsys, uri, "--engine", engine)
    assert there[1].pop("input") == uri and here[1].pop("input") == str(logs)
    assert json.dumps(there).replace('"/kafka', f'"{logs}') == json.dumps(here)
    assert len(here[1]["logs"]) == 4 and here[1]["findings"]


def test_a_copy_in_hdfs_is_equal_and_damage_is_named(
    store: Hdfs, uri: str, logs: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert log_diff_main([str(logs), uri, "--engine", "local"]) == 0
    assert "4 partitions: 4 equal" in capsys.readouterr().out
    write_log(tmp_path / "damaged" / "large-0", *[])
    segment = (logs / "large-0" / "00000000000000000000.log").read_bytes()
    flipped = bytearray(segment)
    flipped[7_000_000] ^= 1
    (tmp_path / "damaged" / "large-0" / "00000000000000000000.log").write_bytes(flipped)
    damaged = store.put(tmp_path / "damaged", "/damaged")
    assert kmirror_main(["verify-logs", damaged, "--engine", "spark"]) == 1
    assert "crc" in capsys.readouterr().out.lower()


def test_a_spark_query_reads_hdfs(uri: str) -> None:
    frame = spark_session("hdfs", 2).read.format("kafka-log").load(uri)
    assert frame.where("topic = 'large'").count() == 475
    assert frame.where("topic = 't'").selectExpr("count(value)").first()[0] == frame.where("topic = 't'").count()
