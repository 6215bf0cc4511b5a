"""Dumps `.log` files and KRaft snapshots: a line per batch, and with deep iteration per record.

It is made for segments of a gigabyte. It reads blocks of some megabytes, decodes all their records
into columns at once, and makes each line by one formatting of bytes, with keys and values cut out
of the block. Only rare things go record by record: control batches, decoders, and damaged batches
(the records before the damage are still printed, as Kafka prints them). Text that is not UTF-8 is
printed as Java prints it; this is checked per block, because most blocks are valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kmirror.cli.dump_log_decoders import Decoder, java_text
from kmirror.cli.dump_log_options import MAX_INT, Options
from kmirror.common.errors import ApiException, KmirrorError
from kmirror.common.ports import FileSystem
from kmirror.record.compression import CompressionType
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch, TimestampType
from kmirror.storage.reader import SegmentReader

if TYPE_CHECKING:
    from kmirror.record.columns import RecordColumns

_SMALL_BYTES = 1536 * 1024
"""Up to this file size, loading numpy costs more than it saves."""
_DECODE_BYTES = 8 * 1024 * 1024
"""Blocks of small compressed batches are decoded together up to this many bytes of batches."""
_RECORD_HEAD = b"| offset: %d %b: %d keySize: %d valueSize: %d sequence: %d headerKeys: %b"

Write = Callable[[bytes], None]


def dump_log(files: FileSystem, path: str, options: Options, decoder: Decoder | None, write: Write) -> list[tuple[int, int]]:
    """Write the dump of one file; returns the pairs of neighbouring offsets with a gap between.

    KmirrorError or ApiException if the file is damaged, after everything before the damage has been
    written.
    """
    write(headline(path))
    limit = options.max_bytes
    gaps = Gaps()
    with SegmentReader(files, path, end=None if limit == MAX_INT else max(limit, 0)) as reader:
        small = reader.size <= _SMALL_BYTES
        for block in reader.blocks():
            if not options.deep_iteration:
                write(b"".join([batch_line(batch, position) for position, batch in zip(block.positions, block.batches)]))
            elif small or (decoder is not None and options.print_data_log):
                for position, batch in zip(block.positions, block.batches):
                    _dump_carefully(position, batch, options, decoder, gaps, write)
            else:
                _dump_block(block.positions, block.batches, options, gaps, write)
        if reader.trailing_bytes > 0 and limit == MAX_INT:
            write(b"Found %d invalid bytes at the end of %b\n" % (reader.trailing_bytes, path.rsplit("/", 1)[-1].encode()))
    return gaps.pairs


def headline(path: str) -> bytes:
    """Returns the line that says what the file is, from its name.

    KmirrorError if the file is not named as Kafka names such files.
    """
    name = path.rsplit("/", 1)[-1]
    stem = name.split(".")[0]
    if name.endswith(".checkpoint"):
        if name == "bootstrap.checkpoint":
            return b"KRaft bootstrap snapshot\n"
        offset, dash, epoch = stem.partition("-")
        if dash and offset.isdigit() and epoch.isdigit():
            return b"Snapshot end offset: %d, epoch: %d\n" % (int(offset), int(epoch))
        raise KmirrorError(f"{path}: a snapshot is named <end offset>-<epoch>.checkpoint")
    return b"Log starting offset: %d\n" % start_offset(path)


def start_offset(path: str) -> int:
    """Returns the offset that a segment file is named by; KmirrorError if there is no number."""
    stem = path.rsplit("/", 1)[-1].split(".")[0]
    if not (stem.isascii() and stem.lstrip("+-").isdigit()):
        raise KmirrorError(f'For input string: "{stem}" ({path} is not named by an offset)')
    return int(stem)


class Gaps:
    """Collects offsets that do not follow their predecessor.

    The first offset is compared with -1, as Kafka does.
    """

    def __init__(self) -> None:
        self.last_offset = -1
        self.pairs: list[tuple[int, int]] = []

    def see(self, offsets: Sequence[int]) -> None:
        if not offsets:
            return
        if offsets[0] == self.last_offset + 1 and offsets[-1] - offsets[0] == len(offsets) - 1:
            self.last_offset = offsets[-1]
            return
        for offset in offsets:
            if offset != self.last_offset + 1:
                self.pairs.append((self.last_offset, offset))
            self.last_offset = offset


def _dump_block(positions: list[int], batches: list[RecordBatch], options: Options, gaps: Gaps, write: Write) -> None:
    """Write consecutive batches, as many at a time as are worth decoding into columns together."""
    start = 0
    while start < len(batches):
        end, size = start, 0
        while end < len(batches) and size < _DECODE_BYTES:
            size += batches[end].size_in_bytes * (4 if batches[end].is_compressed else 1)
            end += 1
        _dump_deep(positions[start:end], batches[start:end], options, gaps, write)
        start = end


def _dump_deep(positions: list[int], batches: list[RecordBatch], options: Options, gaps: Gaps, write: Write) -> None:
    from kmirror.record.columns import decode_columns

    try:
        columns = decode_columns(batches)
    except ApiException:
        for position, batch in zip(positions, batches):
            _dump_carefully(position, batch, options, None, gaps, write)
        return
    text = _bulk_text(positions, batches, columns, options, _same)
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError:
            text = _bulk_text(positions, batches, columns, options, java_text)
    gaps.see(columns.offset.tolist())
    write(text)


def _same(data: bytes) -> bytes:
    return data


def _bulk_text(
    positions: list[int], batches: list[RecordBatch], columns: RecordColumns, options: Options, clean: Callable[[bytes], bytes]
) -> bytes:
    """Returns the lines of the batches and of all their records.

    `clean` makes keys, values and header names printable.
    """
    rows = _rows(batches, columns, options, clean)
    parts: list[bytes] = []
    row = 0
    for position, batch in zip(positions, batches):
        parts.append(batch_line(batch, position))
        end = row + batch.record_count
        if batch.is_control:
            parts += [_record_line(batch, record, options) for record in batch.records()]
        else:
            parts += rows[row:end]
        row = end
    return b"".join(parts)


def _rows(batches: list[RecordBatch], columns: RecordColumns, options: Options, clean: Callable[[bytes], bytes]) -> list[bytes]:
    key_lengths, value_lengths = columns.key_length.tolist(), columns.value_length.tolist()
    tails = [b"\n"] * len(columns)
    if options.print_data_log:
        tails = _tails(columns, key_lengths, value_lengths, clean)
    if "skip-record-metadata" in options.flags:
        return [b"|" + tail if len(tail) > 1 else tail for tail in tails]
    types = [batch.timestamp_type.text.encode() for batch in batches]
    header_keys = [b"[]"] * len(columns)
    for row in columns.header_count.nonzero()[0].tolist():
        names = [clean(name.encode()) for name, _ in columns.headers(row)]
        header_keys[row] = b"[%b]" % b",".join(names)
    return [
        _RECORD_HEAD % head + tail
        for head, tail in zip(
            zip(
                columns.offset.tolist(),
                [types[index] for index in columns.batch_index.tolist()],
                columns.timestamp.tolist(),
                key_lengths,
                value_lengths,
                columns.sequence.tolist(),
                header_keys,
            ),
            tails,
        )
    ]


def _tails(columns: RecordColumns, key_lengths: list[int], value_lengths: list[int], clean: Callable[[bytes], bytes]) -> list[bytes]:
    body = columns.body.obj
    assert isinstance(body, bytes)
    spans = zip(columns.key_position.tolist(), key_lengths, columns.value_position.tolist(), value_lengths)
    if clean is _same:
        return [
            b" key: %b payload: %b\n" % (body[key : key + key_length], body[value : value + value_length])
            if key_length >= 0 and value_length >= 0
            else _tail(body, key, key_length, value, value_length, clean)
            for key, key_length, value, value_length in spans
        ]
    return [_tail(body, key, key_length, value, value_length, clean) for key, key_length, value, value_length in spans]


def _tail(body: bytes, key: int, key_length: int, value: int, value_length: int, clean: Callable[[bytes], bytes]) -> bytes:
    key_text = b"" if key_length < 0 else b" key: " + clean(body[key : key + key_length])
    value_text = b"" if value_length < 0 else b" payload: " + clean(body[value : value + value_length])
    return key_text + value_text + b"\n"


def _dump_carefully(position: int, batch: RecordBatch, options: Options, decoder: Decoder | None, gaps: Gaps, write: Write) -> None:
    """Write one batch, record by record.

    A compressed batch is read as a whole before any of it is printed, as Kafka does.
    """
    write(batch_line(batch, position))
    records: Iterator[Record] = batch.records()
    for record in list(records) if batch.is_compressed else records:
        gaps.see([record.offset])
        _write_record(batch, record, options, decoder, write)


def _write_record(batch: RecordBatch, record: Record, options: Options, decoder: Decoder | None, write: Write) -> None:
    write(_record_line(batch, record, options)[:-1])  # print what is known of the record before a decoder may give up
    if options.print_data_log and not batch.is_control:
        write(_contents(record, options, decoder))
    write(b"\n")


def _record_line(batch: RecordBatch, record: Record, options: Options) -> bytes:
    if "skip-record-metadata" in options.flags:
        return b"\n"
    head = _RECORD_HEAD % (
        record.offset,
        batch.timestamp_type.text.encode(),
        record.timestamp,
        -1 if record.key is None else len(record.key),
        -1 if record.value is None else len(record.value),
        record.sequence,
        b"[%b]" % b",".join([name.encode() for name, _ in record.headers]),
    )
    return head + (control_text(record).encode() if batch.is_control else b"") + b"\n"


def _contents(record: Record, options: Options, decoder: Decoder | None) -> bytes:
    if decoder is None:
        key = None if record.key is None else java_text(record.key)
        value = None if record.value is None else java_text(record.value)
    else:
        key_text, value_text = decoder(record.offset, record.key, record.value)
        key = None if key_text is None else key_text.encode()
        value = None if value_text is None else value_text.encode()
    text = (b"" if key is None else b" key: " + key) + (b"" if value is None else b" payload: " + value)
    return b"|" + text if text and "skip-record-metadata" in options.flags else text


def control_text(record: Record) -> str:
    """Returns what follows the common fields of a control record."""
    from kmirror.record.control_record import ControlRecordType, EndTransactionMarker
    from kmirror.wire.json_converter import dumps

    type_id = ControlRecordType.parse_type_id(record.key)
    control_type = ControlRecordType.parse(record.key)
    if control_type in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        marker = EndTransactionMarker.deserialize(record)
        return f" endTxnMarker: {marker.control_type.name} coordinatorEpoch: {marker.coordinator_epoch}"
    found = control_message(record)
    if found is None:
        return f" controlType: {control_type.name}({type_id})"
    name, data = found
    return f" {name} {dumps(data)}"


def control_message(record: Record) -> tuple[str, dict[str, Any]] | None:
    """Returns (name in a dump, fields) of a control record of type 2 to 7; None for other types.

    KmirrorError if the value is malformed.
    """
    from kmirror.record.control_record import ControlRecordType
    from kmirror.wire.api_keys import message_class
    from kmirror.wire.json_converter import to_json
    from kmirror.wire.json_schemas import RECORDS

    control_type = ControlRecordType.parse(record.key)
    if control_type not in _CONTROL_MESSAGES or record.value is None:
        return None
    title, name = _CONTROL_MESSAGES[control_type]
    version = int.from_bytes(record.value[:2], "big", signed=True)
    reader: Any = message_class(RECORDS[name][0], name)
    message, _ = reader.read(memoryview(record.value), 0, min(max(version, reader.LOWEST_VERSION), reader.HIGHEST_VERSION))
    return title, to_json(message, version)


_CONTROL_MESSAGES = {
    2: ("LeaderChange:", "LeaderChangeMessage"),
    3: ("SnapshotHeader", "SnapshotHeaderRecord"),
    4: ("SnapshotFooter", "SnapshotFooterRecord"),
    5: ("KRaftVersion", "KRaftVersionRecord"),
    6: ("KRaftVoters", "VotersRecord"),
    7: ("MirrorPidReset", "MirrorPidResetRecord"),
}


def batch_line(batch: RecordBatch, position: int) -> bytes:
    """Returns the line of a batch, with its line end."""
    horizon = b"OptionalLong[%d]" % batch.base_timestamp if batch.has_delete_horizon else b"OptionalLong.empty"
    return (
        b"baseOffset: %d lastOffset: %d count: %d baseSequence: %d lastSequence: %d producerId: %d producerEpoch: %d partitionLeaderEpoch: %d "
        b"isTransactional: %b isControl: %b deleteHorizonMs: %b position: %d %b: %d size: %d magic: %d compresscodec: %b crc: %d isvalid: %b\n"
    ) % (
        batch.base_offset,
        batch.last_offset,
        batch.record_count,
        batch.base_sequence,
        batch.last_sequence,
        batch.producer_id,
        batch.producer_epoch,
        batch.partition_leader_epoch,
        b"true" if batch.is_transactional else b"false",
        b"true" if batch.is_control else b"false",
        horizon,
        position,
        b"LogAppendTime" if batch.timestamp_type is TimestampType.LOG_APPEND_TIME else b"CreateTime",
        batch.max_timestamp,
        batch.size_in_bytes,
        batch.magic,
        _codec_name(batch.compression),
        batch.crc,
        b"true" if batch.is_valid() else b"false",
    )


def _codec_name(compression: CompressionType) -> bytes:
    return compression.text.encode()
