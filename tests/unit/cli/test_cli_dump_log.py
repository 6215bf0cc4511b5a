"""kafka-dump-log: options, errors, decoders and JSON.

What it prints for Kafka's own files is in tests/golden.
"""

from __future__ import annotations

import base64
import json
import pathlib
import re
import struct
from typing import Any

import pytest

from kmirror.cli import dump_log_batches
from kmirror.cli.dump_log import main
from kmirror.metadata.image import RESOURCE_BROKER, RESOURCE_MIRROR, RESOURCE_TOPIC
from kmirror.record.builder import build_batch
from kmirror.record.compression import CompressionType
from kmirror.record.control_record import build_control_batch, build_mirror_pid_reset
from kmirror.record.record import Record
from kmirror.wire.messages.config_record import ConfigRecord
from kmirror.wire.messages.user_scram_credential_record import UserScramCredentialRecord
from kmirror.wire.records import write_metadata_record

HEAD = (
    "baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 partitionLeaderEpoch: 0 isTransactional: false isControl: false "
    "deleteHorizonMs: OptionalLong.empty"
)
STATE_0 = (
    "0000000000000000000000560000000002c594acc90000000000000000019c66135dd70000019c66135dd7ffffffffffffffffffffffffffff"
    "00000001480000001a000200096d792d6d6972726f72220000096d792d746f70696300000000000000"
)
STATE_1 = (
    "0000000000000001000000560000000002ec8e44a10000000000000000019c66135df30000019c66135df3ffffffffffffffffffffffffffff"
    "00000001480000001a000200096d792d6d6972726f72220000096d792d746f70696300000000010000"
)


def write_log(folder: pathlib.Path, *batches: bytes | bytearray, name: str = "00000000000000000000.log") -> str:
    path = folder / name
    path.write_bytes(b"".join(batches))
    return str(path)


def dump(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(list(arguments))
    captured = capfd.readouterr()
    return status, captured.out, captured.err


def test_the_kips_sample_output_is_reproduced(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_log(tmp_path, bytes.fromhex(STATE_0), bytes.fromhex(STATE_1))
    status, out, err = dump(capfd, "--mirror-state-decoder", "--files", path)
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        f"Dumping {path}",
        "Log starting offset: 0",
        f"baseOffset: 0 lastOffset: 0 count: 1 {HEAD} position: 0 CreateTime: 1771239071191 size: 98 magic: 2 compresscodec: none "
        "crc: 3314855113 isvalid: true",
        '| offset: 0 CreateTime: 1771239071191 keySize: 13 valueSize: 17 sequence: -1 headerKeys: [] key: {"type":"2","data":{"mirrorName":'
        '"my-mirror"}} payload: {"version":"0","data":{"topicName":"my-topic","partition":0,"state":0}}',
        f"baseOffset: 1 lastOffset: 1 count: 1 {HEAD} position: 98 CreateTime: 1771239071219 size: 98 magic: 2 compresscodec: none "
        "crc: 3968746657 isvalid: true",
        '| offset: 1 CreateTime: 1771239071219 keySize: 13 valueSize: 17 sequence: -1 headerKeys: [] key: {"type":"2","data":{"mirrorName":'
        '"my-mirror"}} payload: {"version":"0","data":{"topicName":"my-topic","partition":0,"state":1}}',
    ]


def test_last_mirror_epochs_and_tombstones_are_decoded(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    key = bytes.fromhex("000100096d792d6d6972726f72")
    value = bytes.fromhex("000002096d792d746f706963030000000000000001000000000100000003000000")
    path = write_log(tmp_path, build_batch([Record(0, 1, key, value, []), Record(1, 1, key, None, [])]))
    _, out, _ = dump(capfd, "--mirror-state-decoder", "--skip-record-metadata", "--files", path)
    assert out.splitlines()[3:] == [
        '| key: {"type":"1","data":{"mirrorName":"my-mirror"}} payload: {"version":"0","data":{"topics":[{"name":"my-topic","partitions":'
        '[{"partitionIndex":0,"lastMirrorEpoch":1},{"partitionIndex":1,"lastMirrorEpoch":3}]}]}}',
        '| key: {"type":"1","data":{"mirrorName":"my-mirror"}} payload: null',
    ]


def test_control_records_of_the_kip_and_of_the_future(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    reset = build_mirror_pid_reset("lBq12jYZRp-9wF3M9MPopg", timestamp=1, base_offset=0)
    future = build_batch([Record(1, 1, b"\0\0\0\x09", b"zz", [])], base_offset=1, is_control=True)
    _, out, _ = dump(capfd, "--deep-iteration", "--files", write_log(tmp_path, reset, future))
    lines = out.splitlines()
    assert lines[3].endswith(' headerKeys: [] MirrorPidReset {"version":0,"sourceClusterId":"lBq12jYZRp-9wF3M9MPopg"}')
    assert lines[5].endswith(" headerKeys: [] controlType: UNKNOWN(9)")


@pytest.mark.parametrize("codec", CompressionType)
@pytest.mark.parametrize("in_bulk", [False, True])
def test_text_is_what_java_prints(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, codec: CompressionType, in_bulk: bool
) -> None:
    records = [
        Record(0, 5, None, b"v", []),
        Record(1, 6, b"k", None, [("h1", b"x"), ("hé,2", None)]),
        Record(2, 7, None, None, []),
        Record(3, 7, b"\xed\xa0\x80a\xc3", b"\xf0\x9f\x98", []),
    ]
    path = write_log(tmp_path, build_batch(records, compression=codec, partition_leader_epoch=0), b"abc")
    if in_bulk:
        monkeypatch.setattr(dump_log_batches, "_SMALL_BYTES", -1)
    _, out, _ = dump(capfd, "--print-data-log", "--files", path)
    assert out.splitlines()[3:] == [
        "| offset: 0 CreateTime: 5 keySize: -1 valueSize: 1 sequence: -1 headerKeys: [] payload: v",
        "| offset: 1 CreateTime: 6 keySize: 1 valueSize: -1 sequence: -1 headerKeys: [h1,hé,2] key: k",
        "| offset: 2 CreateTime: 7 keySize: -1 valueSize: -1 sequence: -1 headerKeys: []",
        "| offset: 3 CreateTime: 7 keySize: 5 valueSize: 3 sequence: -1 headerKeys: [] key: \ufffda\ufffd payload: \ufffd",
        "Found 3 invalid bytes at the end of 00000000000000000000.log",
    ]
    _, out, _ = dump(capfd, "--print-data-log", "--skip-record-metadata", "--files", path)
    assert out.splitlines()[3:7] == ["| payload: v", "| key: k", "", "| key: \ufffda\ufffd payload: \ufffd"]


def coordinator_log(folder: pathlib.Path, *records: tuple[bytes | None, bytes | None]) -> str:
    return write_log(folder, build_batch([Record(index, 5, key, value, []) for index, (key, value) in enumerate(records)]))


def contents(out: str) -> list[str]:
    return [line.split("headerKeys: []")[1].strip() for line in out.splitlines() if line.startswith("|")]


def test_what_a_coordinator_decoder_says_of_records_it_cannot_read(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = coordinator_log(
        tmp_path,
        (b"\0\1\0\1x", b"v"),
        (b"\0\1\0\1g\0\1t\0\0\0\0", b"\0\x63"),
        (b"\0\2\0\1g", None),
        (b"\x84\xb9", b""),
        (None, b"x"),
    )
    status, out, err = dump(capfd, "--offsets-decoder", "--files", path)
    assert contents(out) == [
        "key: Error at offset 0, skipping. Could not read record with version 1 from key's buffer due to: null.",
        "key: Error at offset 1, skipping. Found an unknown record version 99 for 1 type",
        'key: {"type":"2","data":{"group":"g"}} payload: <DELETE>',
        "key: Unknown record type -31559 at offset 3, skipping.",
        "",
    ]
    assert (status, err) == (1, "Failed to decode message at offset 4 using the specified decoder (message had a missing key)\n")


def test_what_the_metadata_decoder_says_of_records_it_cannot_read(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = coordinator_log(tmp_path, (None, b"\1\x63\0"), (None, b"\1\2\0\2a"), (None, None), (None, b"o"))
    status, out, _ = dump(capfd, "--cluster-metadata-decoder", "--files", path)
    assert status == 0
    assert contents(out) == [
        "payload: Error at 0, skipping. org.apache.kafka.common.errors.UnsupportedVersionException: Unknown metadata id 99",
        "payload: Error at 1, skipping. Failed to deserialize record with type 2",
        "payload: Error at 2, skipping. Error while reading frame version",
        "payload: Error at 3, skipping. Could not deserialize metadata record due to unknown frame version 111(only frame version 1 is "
        "supported)",
    ]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--bogus"], "bogus is not a recognized option"),
        (["--file", "x.log"], "file is not a recognized option"),
        (["-x"], "x is not a recognized option"),
        (["--files"], "Option files requires an argument"),
        (["--files", "a.log", "--files=b.log"], "Found multiple arguments for option files, but you asked for only one"),
        (["--files", "a.log", "--max-bytes", "abc"], "Cannot parse argument 'abc' of option max-bytes"),
        (["--files", "00000000000000000000.log"], "00000000000000000000.log: No such file or directory"),
        (["--files", "foo.index"], 'For input string: "foo" (foo.index is not named by an offset)'),
        (["--files", "00000000000000000000.index"], "00000000000000000000.log does not exist; an index is dumped together with its log"),
        (
            ["--files", "00000000000000000000.log", "--key-decoder-class", "foo.Bar"],
            "Failed to load decoder class foo.Bar; kmirror has StringDecoder, IntegerDecoder and LongDecoder",
        ),
        (
            ["--files", "00000000000000000000.log", "--remote-log-metadata-decoder"],
            "--remote-log-metadata-decoder is not supported: kmirror has no tiered storage; use Apache Kafka's kafka-dump-log",
        ),
    ],
)
def test_bad_calls_are_one_line_and_status_1(
    arguments: list[str], error: str, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status, _, err = dump(capfd, *arguments)
    assert (status, err) == (1, error + "\n")
    assert list(tmp_path.iterdir()) == []


def test_without_files_the_options_are_listed(capfd: pytest.CaptureFixture[str]) -> None:
    status, out, err = dump(capfd, "--print-data-log")
    assert (status, out) == (1, "")
    assert err.startswith('Missing required argument "[files]"\nOption  ')
    status, out, err = dump(capfd, "--help")
    assert (status, out) == (1, "")
    assert err.startswith("This tool helps to parse a log file")
    assert "--mirror-state-decoder" in err
    assert dump(capfd, "--version") == (0, "4.3.0\n", "")


def test_unknown_files_are_passed_over(capfd: pytest.CaptureFixture[str]) -> None:
    assert dump(capfd, "--files", "foo.txt,foo") == (
        0,
        "Dumping foo.txt\nDumping foo\n",
        "Ignoring unknown file foo.txt\nIgnoring unknown file foo\n",
    )


def test_json_lines_carry_everything(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    batch = build_batch([Record(0, 5, b"k\n", b"\xff", [("h", None)]), Record(1, 6, None, b"v", [])], partition_leader_epoch=3)
    control = build_control_batch([], timestamp=1, base_offset=2, partition_leader_epoch=0)
    path = write_log(tmp_path, batch, build_mirror_pid_reset("c", timestamp=1, base_offset=2), control[:3])
    status, out, _ = dump(capfd, "--json", "--print-data-log", "--files", path)
    lines: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    assert [line["kind"] for line in lines] == ["file", "batch", "record", "record", "batch", "record", "trailingBytes"]
    assert lines[1]["partitionLeaderEpoch"] == 3
    assert lines[1]["isValid"] is True
    assert (lines[2]["key"], lines[2]["value"], lines[2]["headers"]) == ("k\n", {"base64": "/w=="}, [["h", None]])
    assert lines[5]["control"] == {"type": "MIRROR_PID_RESET", "id": 7, "data": {"version": 0, "sourceClusterId": "c"}}
    assert lines[6]["size"] == 3


def test_max_bytes_stops_in_front_of_the_batch_that_does_not_fit(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    batch = build_batch([Record(0, 5, b"k", b"v", [])])
    path = write_log(tmp_path, batch, batch)
    _, out, _ = dump(capfd, "--files", path, "--max-bytes", str(len(batch) + 20))
    assert [line.split()[0] for line in out.splitlines()] == ["Dumping", "Log", "baseOffset:"]


@pytest.mark.parametrize("in_bulk", [False, True])
def test_damage_ends_the_dump_behind_what_is_sound(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, in_bulk: bool
) -> None:
    if in_bulk:
        monkeypatch.setattr(dump_log_batches, "_SMALL_BYTES", -1)
    good = build_batch([Record(0, 5, b"k", b"v", []), Record(1, 5, b"k", b"v", [])])
    bad = bytearray(good)
    bad[-3] = 0x7F
    path = write_log(tmp_path, good, bad, bytes(40))
    status, out, err = dump(capfd, "--print-data-log", "--files", path)
    assert status == 1
    assert [line.split()[1] for line in out.splitlines() if line.startswith("|")] == ["offset:"] * 3
    assert "isvalid: false" in out
    assert err.count("\n") == 1


def test_old_message_formats_are_named_and_not_misread(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    good = build_batch([Record(0, 5, b"k", b"v", [])])
    old = struct.pack(">qiIbbqii", 1, 22, 0, 1, 0, 5, -1, -1)
    path = write_log(tmp_path, good, old, good)
    status, out, err = dump(capfd, "--files", path)
    assert status == 1
    assert [line.split()[0] for line in out.splitlines()] == ["Dumping", "Log", "baseOffset:"]
    assert err == (
        f"{path}: at byte {len(good)}: Records of message format v1 are not supported; only v2 (since Kafka 0.11) is; rewrite the topic first\n"
    )


def metadata_log(folder: pathlib.Path, *, name: str = "00000000000000000000.log") -> str:
    """Secrets, what is none, and a record of a type that nobody knows."""
    messages: list[tuple[Any, int]] = [
        (ConfigRecord(RESOURCE_MIRROR, "m", "sasl.jaas.config", 'x.PlainLoginModule required password="hush";'), 0),
        (ConfigRecord(RESOURCE_MIRROR, "m", "bootstrap.servers", "east:9092"), 0),
        (ConfigRecord(RESOURCE_BROKER, "1", "listener.name.a.ssl.key.password", "hush"), 0),
        (ConfigRecord(RESOURCE_BROKER, "1", "ssl.key.password", None), 0),
        (ConfigRecord(RESOURCE_TOPIC, "t", "retention.ms", "5"), 0),
        (UserScramCredentialRecord("eve", 1, b"hush", b"hush", b"hush", 4096), 0),
    ]
    records = [Record(offset, 0, None, write_metadata_record(message, version), []) for offset, (message, version) in enumerate(messages)]
    records.append(Record(len(records), 0, None, b"\x01\xe7\x07\x00hush", []))
    return write_log(folder, build_batch(records, base_offset=0), name=name)


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_secrets_of_the_metadata_are_redacted_unless_asked_for(
    form: list[str], tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--cluster-metadata-decoder", "--files", metadata_log(tmp_path), *form]
    status, out, err = dump(capfd, *arguments)
    assert (status, err, "hush" in out, "aHVzaA" in out) == (0, "", False, False)
    assert out.count('"(redacted)"') == 5 and "east:9092" in out and '"iterations":4096' in out and '"value":"5"' in out
    shown = dump(capfd, *arguments, "--show-secrets")[1]
    assert shown.count("hush") == 2 and shown.count("aHVzaA") == 3 and "redacted" not in shown


@pytest.mark.parametrize("options", [["--print-data-log"], ["--print-data-log", "--json"], ["--value-decoder-class", "StringDecoder"]])
@pytest.mark.parametrize("name", ["__cluster_metadata-0/00000000000000000000.log", "00000000000000000008-0000000001.checkpoint"])
def test_secrets_of_the_metadata_stood_where_it_was_printed_without_its_decoder(
    options: list[str], name: str, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "__cluster_metadata-0").mkdir()
    path = metadata_log(tmp_path, name=name)
    for small in (dump_log_batches._SMALL_BYTES, -1):
        monkeypatch.setattr(dump_log_batches, "_SMALL_BYTES", small)
        status, out, err = dump(capfd, "--files", path, *options)
        assert (status, err, "hush" in out) == (0, "", False)
        assert out.count("(redacted)") + base64_count(out, b"(redacted)") == 6
        assert "east:9092" in out and "retention.ms" in out and "listener.name.a.ssl.key.password" in out
    shown = dump(capfd, "--files", path, *options, "--show-secrets")[1]
    assert shown.count("hush") + base64_count(shown, b"hush") == 6 and "redacted" not in shown


def base64_count(out: str, text: bytes) -> int:
    """How often `text` is in values that JSON shows as bytes."""
    return sum(base64.b64decode(found).count(text) for found in re.findall(r'"base64":"([^"]*)"', out))


def test_a_segment_that_is_reached_by_a_link_is_one_of_the_metadata(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "__cluster_metadata-0").mkdir()
    link = tmp_path / "00000000000000000000.log"
    link.symlink_to(metadata_log(tmp_path / "__cluster_metadata-0"))
    assert "hush" not in dump(capfd, "--print-data-log", "--files", str(link))[1]
