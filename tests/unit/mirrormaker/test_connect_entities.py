"""What the REST interface is sent, files of connectors, and Java's map of source offsets (RE1, RU3)."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from kmirror.common.errors import ConfigError, KmirrorError
from kmirror.mirrormaker.connector_files import parse_connector_file
from kmirror.mirrormaker.herder.file_offset_storage import FileOffsetStorage
from kmirror.mirrormaker.herder.herder import HerderError, TargetState
from kmirror.mirrormaker.herder.java_hash_map import JavaSerializationError, read_hash_map, write_hash_map
from kmirror.mirrormaker.rest.entities import CreateRequest, parse_config, parse_create_request, parse_offsets
from kmirror.mirrormaker.rest.rest_messages import RestRequest
from kmirror.runtime.os_files import OsFileSystem

KEY = b'["src",{"cluster":"A","partition":0,"topic":"t"}]'
OF_JAVA = bytes.fromhex(
    "aced0005737200116a6176612e7574696c2e486173684d61700507dac1c31660d103000246000a6c6f6164466163746f724900097468726573686f6c6478703f40"
    "00000000000c7708000000100000000570757200025b42acf317f8060854e00200007870000000016e7571007e000200000001617571007e0002000000017675"
    "71007e0002000000016b707571007e0002000000315b22737263222c7b22636c7573746572223a2241222c22706172746974696f6e223a302c22746f70696322"
    "3a2274227d5d7571007e00020000000d7b226f6666736574223a34397d7571007e0002000000016271007e000578"
)
"""Java's own: null is a key, k's value is null, and a and b share an array."""
EMPTY_OF_JAVA = bytes.fromhex(
    "aced0005737200116a6176612e7574696c2e486173684d61700507dac1c31660d103000246000a6c6f6164466163746f724900097468726573686f6c6478703f40"
    "0000000000007708000000100000000078"
)
ONE_OF_JAVA = bytes.fromhex(
    "aced0005737200116a6176612e7574696c2e486173684d61700507dac1c31660d103000246000a6c6f6164466163746f724900097468726573686f6c6478703f40"
    "00000000000c77080000001000000001757200025b42acf317f8060854e0020000787000000001017078"
)


def test_ru3_java_s_map_is_read_and_written_byte_for_byte() -> None:
    assert read_hash_map(OF_JAVA) == {b"a": b"v", b"k": None, KEY: b'{"offset":49}', b"b": b"v"}
    assert write_hash_map({}) == EMPTY_OF_JAVA
    assert write_hash_map({b"\x01": None}) == ONE_OF_JAVA


@pytest.mark.parametrize("count", [0, 1, 12, 13, 100])
def test_ru3_what_is_written_is_read(count: int) -> None:
    entries = {bytes([number]) * number: b"v" * number or None for number in range(count)}
    assert read_hash_map(write_hash_map(entries)) == entries


def test_ru3_a_table_of_13_has_32_places_as_in_java() -> None:
    written = write_hash_map({bytes([number]): b"" for number in range(13)})
    assert written[len(EMPTY_OF_JAVA) - 15 :].startswith(bytes.fromhex("000000187708000000200000000d"))


def test_ru3_every_cut_and_every_other_class_is_refused() -> None:
    for end in range(len(OF_JAVA)):
        with pytest.raises(JavaSerializationError):
            read_hash_map(OF_JAVA[:end])
    for old, new in ((b"HashMap", b"TreeMap"), (b"[B\xac", b"[I\xac"), (bytes.fromhex("71007e0005"), bytes.fromhex("71007e0001"))):
        with pytest.raises(JavaSerializationError):
            read_hash_map(OF_JAVA.replace(old, new))


def test_ru3_a_file_of_offsets_keeps_what_others_wrote(tmp_path: Path) -> None:
    files, path = OsFileSystem(), str(tmp_path / "offsets")
    other = b'["x",{"topic":"t","cluster":"A"}]'
    files.write_bytes(path, write_hash_map({KEY: b'{"offset":49}', other: b'{"offset":1}', b"rubbish": b"\xff"}))
    storage = FileOffsetStorage(files, path)
    partition = {"topic": "t", "partition": 0, "cluster": "A"}
    assert (storage.get("src", partition), storage.get("src", {"cluster": "B"})) == (49, -1)
    asyncio.run(storage.write("src", [(partition, 50), ({"cluster": "B"}, 1)]))
    storage.change("x", [({"cluster": "A", "topic": "t"}, {"offset": 2, "more": [1]}), ({"y": 1}, None)])
    assert read_hash_map(files.read_bytes(path)) == {
        KEY: b'{"offset":50}',
        other: b'{"offset":2,"more":[1]}',
        b"rubbish": b"\xff",
        b'["src",{"cluster":"B"}]': b'{"offset":1}',
    }
    again = FileOffsetStorage(files, path)
    assert again.of_connector("x") == [({"topic": "t", "cluster": "A"}, {"offset": 2, "more": [1]})]
    again.change("x", [({"cluster": "A", "topic": "t"}, None)])
    assert FileOffsetStorage(files, path).of_connector("x") == []


def test_ru3_a_file_of_offsets_behind_a_link_stays_there(tmp_path: Path) -> None:
    files, real, link = OsFileSystem(), tmp_path / "volume", tmp_path / "offsets"
    link.symlink_to(real)
    asyncio.run(FileOffsetStorage(files, str(link)).write("x", [({"cluster": "A"}, 3)]))
    assert link.is_symlink() and read_hash_map(real.read_bytes()) == {b'["x",{"cluster":"A"}]': b'{"offset":3}'}


@pytest.mark.parametrize("code", [errno.EBUSY, errno.EACCES])
def test_ru3_a_file_of_offsets_that_cannot_be_replaced_is_written_as_it_lies(tmp_path: Path, code: int) -> None:
    class Mounted(OsFileSystem):
        def rename(self, source: str, destination: str) -> None:
            raise OSError(code, os.strerror(code), destination)

    path = tmp_path / "offsets"
    storage = FileOffsetStorage(Mounted(), str(path))
    with pytest.raises(KmirrorError, match="the offsets cannot be written to"):
        asyncio.run(storage.write("x", [({"cluster": "A"}, 3)]))
    path.touch()
    asyncio.run(storage.write("x", [({"cluster": "A"}, 4)]))
    assert read_hash_map(path.read_bytes()) == {b'["x",{"cluster":"A"}]': b'{"offset":4}'}


def test_ru3_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    files, path = OsFileSystem(), str(tmp_path / "offsets")
    assert FileOffsetStorage(files, path).of_connector("x") == []
    files.write_bytes(path, b"offset=1")
    with pytest.raises(ConfigError, match="offsets is not a file of offsets"):
        FileOffsetStorage(files, path)


def body(data: bytes, **options: bool) -> Any:
    return RestRequest("PUT", "/", body=data).json(**options)


def test_re1_values_are_the_text_that_they_are_written_as() -> None:
    given = body(b'{"a": 1.50, "b": true, "c": null, "d": "x", "e": 12345678901234567890}', numbers_as_text=True)
    assert parse_config(given) == {"a": "1.50", "b": "true", "c": None, "d": "x", "e": "12345678901234567890"}


@pytest.mark.parametrize("data", [b"{", b"[1,]", b"NaN", b"\xff", b"{} x"])
def test_re1_a_body_that_is_not_json_is_refused(data: bytes) -> None:
    with pytest.raises(HerderError, match="The body is not JSON") as refusal:
        body(data)
    assert refusal.value.status == 500


def test_re1_requests_to_create() -> None:
    assert parse_create_request({"name": " a ", "config": {"b": 1}, "initial_state": "Paused"}) == CreateRequest(
        "a", {"b": "1"}, TargetState.PAUSED
    )
    for wrong in (None, [], {"name": "a"}, {"config": {}, "x": 1}, {"config": {"a": [1]}}, {"config": {}, "initial_state": "on"}):
        with pytest.raises(HerderError) as refusal:
            parse_create_request(wrong)
        assert refusal.value.status == 500


def test_the_last_entry_of_a_partition_counts() -> None:
    one, other = {"topic": "t", "partition": 0}, {"partition": 0, "topic": "t"}
    entries = [{"partition": one, "offset": {"offset": 1}}, {"partition": other}]
    assert parse_offsets({"offsets": entries}) == [(other, None)]
    with pytest.raises(HerderError, match="need to be provided") as refusal:
        parse_offsets({"offsets": []})
    assert refusal.value.status == 400


@pytest.mark.parametrize(
    "data",
    [
        b"name=c\nconnector.class=X\n",
        b'{"name": "c", "connector.class": "X"}',
        b'{"name": "c", "config": {"connector.class": "X"}}',
        b'{"name": "c", "config": {"connector.class": "X", "name": "c"}, "initial_state": null, "more": 1}',
    ],
)
def test_ru3_files_of_connectors(data: bytes) -> None:
    assert parse_connector_file("f", data) == CreateRequest("c", {"name": "c", "connector.class": "X"}, None)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"connector.class=X\n", "Connector configuration at 'f' is missing the mandatory 'name' configuration"),
        (b'{"connector.class": "X"}', "Connector configuration at 'f' is missing the mandatory 'name' configuration"),
        (b'{"name": "c", "config": {"name": "d"}}', "doesn't match the one specified in 'name' at 'f'"),
        (b'{"name": "c", "config": {}, "initial_state": "on"}', "initial_state on at 'f'"),
    ],
)
def test_ru3_a_file_without_a_name_or_with_two_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(KmirrorError) as refusal:
        parse_connector_file("f", data)
    assert message in str(refusal.value)


def test_ru3_a_file_may_say_how_the_connector_begins() -> None:
    wanted = parse_connector_file("f", b'{"name": "c", "config": {"a": true, "b": 1.0}, "initial_state": "stopped"}')
    assert wanted == CreateRequest("c", {"a": "true", "b": "1.0", "name": "c"}, TargetState.STOPPED)
