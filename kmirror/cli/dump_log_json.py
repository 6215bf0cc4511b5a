"""`kafka-dump-log --json`: one JSON object per line, for programs.

Field names are those of the text, in camelCase.

    {"kind":"file", "file":…, "type":"log"|"snapshot"|"index"|…}     then, for each file, of
    {"kind":"batch", "position":…, "baseOffset":…, …}               every batch
    {"kind":"record", "offset":…, "key":…, "value":…, "headers":…}   every record with --deep-iteration (contents with --print-data-log)
    {"kind":"indexEntry"|"timeIndexEntry"|"abortedTxn"|"producer", …}
    {"kind":"trailingBytes", "size":…}

A key or value is a string if it is UTF-8, otherwise {"base64":…}. With a decoder it is the decoded
object, or {"error":…} with the decoder's text. Problems with indexes and gaps between offsets are
printed on standard error, as in the text.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from kmirror.cli import dump_log_batches, dump_log_indexes
from kmirror.cli.dump_log_decoders import Concealer, Decoder
from kmirror.cli.dump_log_indexes import IndexProblems
from kmirror.cli.dump_log_options import MAX_INT, Options
from kmirror.common.errors import CorruptFileError, KmirrorError
from kmirror.common.ports import Buffer, FileSystem
from kmirror.record.control_record import ControlRecordType, EndTransactionMarker
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch
from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.reader import SegmentReader

Write = Callable[[bytes], None]
_TYPES = {".log": "log", ".checkpoint": "snapshot", ".index": "index", ".timeindex": "timeIndex", ".txnindex": "txnIndex"}
_ENTRY_KINDS = {".index": "indexEntry", ".timeindex": "timeIndexEntry", ".txnindex": "abortedTxn", ".snapshot": "producer"}


def dump_json(
    path: str,
    absolute: str,
    options: Options,
    decoder: Decoder | None,
    conceal: Concealer | None,
    problems: IndexProblems,
    write: Write,
) -> list[tuple[int, int]]:
    """Write the lines of one file; returns the gaps between its offsets.

    The errors are those of the text dump.
    """
    files = OsFileSystem()
    name = path.rsplit("/", 1)[-1]
    suffix = name[name.rfind(".") :] if "." in name else ""
    if suffix not in _TYPES and suffix != ".snapshot":
        raise KmirrorError(f"{path}: no file of a log directory that can be dumped")
    _line(write, {"kind": "file", "file": path, "type": _TYPES.get(suffix, "producerSnapshot")})
    if suffix in (".log", ".checkpoint"):
        dump_log_batches.headline(path)
        return _dump_batches(files, path, options, decoder, conceal, write)
    if suffix == ".index":
        dump_log_indexes.dump_index(files, path, options, problems, _entry_writer(suffix, write), absolute)
    elif suffix == ".timeindex":
        dump_log_indexes.dump_time_index(files, path, options, problems, _entry_writer(suffix, write), absolute)
    elif suffix == ".txnindex":
        dump_log_indexes.dump_transaction_index(files, path, _entry_writer(suffix, write))
    else:
        error = dump_log_indexes.dump_producer_snapshot(files, path, _entry_writer(suffix, write))
        if error is not None:
            raise CorruptFileError(path, 0, error)
    return []


def _line(write: Write, value: dict[str, Any]) -> None:
    write(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")


def _entry_writer(suffix: str, write: Write) -> Write:
    """Returns a function that turns an index's text lines (`name: number name: number`) to objects.

    Other lines become messages.
    """

    def write_entry(text: bytes) -> None:
        words = text.decode().split()
        names, values = words[0::2], words[1::2]
        if len(words) % 2 == 0 and all(name.endswith(":") for name in names):
            entry = {name[:-1]: _number(value) for name, value in zip(names, values)}
            _line(write, {"kind": _ENTRY_KINDS[suffix], **entry})
        else:
            _line(write, {"kind": "message", "text": text.decode().rstrip("\n")})

    return write_entry


def _number(text: str) -> int | None:
    return None if text == "OptionalLong.empty" else int(text.removeprefix("OptionalLong[").rstrip("]"))


def _dump_batches(
    files: FileSystem, path: str, options: Options, decoder: Decoder | None, conceal: Concealer | None, write: Write
) -> list[tuple[int, int]]:
    gaps = dump_log_batches.Gaps()
    limit = options.max_bytes
    with SegmentReader(files, path, end=None if limit == MAX_INT else max(limit, 0)) as reader:
        for position, batch in reader.batches():
            _line(write, _batch(batch, position))
            if options.deep_iteration:
                for record in batch.records():
                    gaps.see([record.offset])
                    _line(write, _record(batch, record, options, decoder, conceal))
        if reader.trailing_bytes and limit == MAX_INT:
            _line(write, {"kind": "trailingBytes", "size": reader.trailing_bytes})
    return gaps.pairs


def _batch(batch: RecordBatch, position: int) -> dict[str, Any]:
    return {
        "kind": "batch",
        "position": position,
        "size": batch.size_in_bytes,
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "count": batch.record_count,
        "baseSequence": batch.base_sequence,
        "lastSequence": batch.last_sequence,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "partitionLeaderEpoch": batch.partition_leader_epoch,
        "isTransactional": batch.is_transactional,
        "isControl": batch.is_control,
        "deleteHorizonMs": batch.delete_horizon_ms,
        "timestampType": batch.timestamp_type.text,
        "baseTimestamp": batch.base_timestamp,
        "maxTimestamp": batch.max_timestamp,
        "magic": batch.magic,
        "compression": batch.compression.text,
        "crc": batch.crc,
        "isValid": batch.is_valid(),
    }


def _record(batch: RecordBatch, record: Record, options: Options, decoder: Decoder | None, conceal: Concealer | None) -> dict[str, Any]:
    line: dict[str, Any] = {"kind": "record", "offset": record.offset}
    if "skip-record-metadata" not in options.flags:
        line |= {
            "timestamp": record.timestamp,
            "sequence": record.sequence,
            "keySize": -1 if record.key is None else len(record.key),
            "valueSize": -1 if record.value is None else len(record.value),
            "headers": [[name, None if value is None else _content(value)] for name, value in record.headers],
        }
    if batch.is_control:
        return line | {"control": _control(record)}
    if options.print_data_log:
        line |= _contents(record, decoder, conceal)
    return line


def _contents(record: Record, decoder: Decoder | None, conceal: Concealer | None) -> dict[str, Any]:
    shown = record.value if conceal is None else conceal(record.value)
    if decoder is None:
        return {"key": _content(record.key), "value": _content(shown)}
    key, value = decoder(record.offset, record.key, shown)
    return {"key": _decoded(key), "value": _decoded(value)}


def _content(data: Buffer | None) -> Any:
    if data is None:
        return None
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _decoded(text: str | None) -> Any:
    if text is None or text == "<DELETE>":
        return None
    try:
        return json.loads(text)
    except ValueError:
        return {"error": text}


def _control(record: Record) -> dict[str, Any]:
    control_type = ControlRecordType.parse(record.key)
    control: dict[str, Any] = {"type": control_type.name, "id": ControlRecordType.parse_type_id(record.key)}
    if control_type in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        control["coordinatorEpoch"] = EndTransactionMarker.deserialize(record).coordinator_epoch
    elif (found := dump_log_batches.control_message(record)) is not None:
        control["data"] = found[1]
    return control
