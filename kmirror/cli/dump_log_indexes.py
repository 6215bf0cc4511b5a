"""Dumps and checks `.index`, `.timeindex`, `.txnindex` and `.snapshot` files, read-only.

Kafka's tool opens indexes as a broker does: it creates a missing one, and the entries end at the
first slot of zeros (after slot 0). The problems that it finds are collected and printed at the end:
index entries with another offset than the log has at that position, and timestamps that are not
those of the log or are not in order. A problem that makes the check impossible ends it with an
error.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from kmirror.cli.dump_log_batches import start_offset
from kmirror.cli.dump_log_options import Options
from kmirror.common.errors import CorruptFileError, KmirrorError
from kmirror.common.ports import FileSystem
from kmirror.record.record import NO_TIMESTAMP
from kmirror.record.record_batch import RecordBatch
from kmirror.storage.reader import SegmentReader

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_ABORTED_TXN = struct.Struct(">hqqqq")
_PRODUCER_ENTRY = struct.Struct(">qhiqiqiq")
MAX_INT = 2147483647
_HOT_ENTRIES = 8192 // _OFFSET_ENTRY.size
Write = Callable[[bytes], None]


class IndexProblems:
    """The problems found, by file (absolute path), in the order in which they are printed."""

    def __init__(self) -> None:
        self.mismatches: dict[str, list[tuple[int, int]]] = {}
        self.timestamp_mismatches: dict[str, list[tuple[int, int]]] = {}
        self.out_of_order: dict[str, list[tuple[int, int]]] = {}
        self.not_found: dict[str, list[tuple[int, int]]] = {}

    def lines(self) -> Iterator[str]:
        for path, pairs in self.mismatches.items():
            yield f"Mismatches in :{path}"
            yield from (f"  Index offset: {index}, log offset: {log}" for index, log in pairs)
        for path, pairs in self.timestamp_mismatches.items():
            yield f"Found timestamp mismatch in :{path}"
            yield from (f"  Index timestamp: {index}, log timestamp: {log}" for index, log in pairs)
        for path, pairs in self.out_of_order.items():
            yield f"Found out of order timestamp in :{path}"
            yield from (f"  Index timestamp: {index}, Previously indexed timestamp: {before}" for index, before in pairs)
        for path, pairs in self.not_found.items():
            yield f"The following indexed offsets are not found in :{path}"
            yield from (f"Indexed offset: {index}, found log offset: {log}" for index, log in pairs)


def _log_path(path: str) -> str:
    directory, slash, name = path.rpartition("/")
    return f"{directory}{slash}{name.split('.')[0]}.log"


def _read(files: FileSystem, path: str) -> bytes:
    if not files.exists(path):
        raise KmirrorError(f"{path} (No such file or directory)")
    return files.read_bytes(path)


def _read_index(files: FileSystem, path: str) -> bytes:
    """Read an index file; raises Kafka's text if Kafka would create a missing one with size -1."""
    if not files.exists(path):
        raise KmirrorError(f"{path} does not exist (Invalid max index size: -1)")
    return files.read_bytes(path)


def _batch_at(files: FileSystem, log_path: str, position: int, max_size: int) -> RecordBatch:
    """Returns the first batch of at most `max_size` bytes from `position` of the log."""
    _check_position(files, log_path, position)
    size = files.size(log_path)
    with SegmentReader(files, log_path, start=position, end=min(size, position + max_size)) as reader:
        found = next(reader.batches(block_bytes=64 * 1024), None)
    if found is None:
        raise KmirrorError(f"{log_path}: no complete batch at position {position} (NoSuchElementException)")
    return found[1]


def _check_position(files: FileSystem, log_path: str, position: int) -> None:
    where = f"FileRecords(size={files.size(log_path)}, file={log_path}, start=0, end={MAX_INT})"
    if position < 0:
        raise KmirrorError(f"Invalid position: {position} in read from {where}")
    if position > files.size(log_path):
        raise KmirrorError(f"Slice from position {position} exceeds end position of {where}")


def dump_index(files: FileSystem, path: str, options: Options, problems: IndexProblems, write: Write, absolute: str) -> None:
    """Dump one `.index`. KmirrorError where Kafka's tool ends with an exception."""
    base_offset = start_offset(path)
    log_path = _log_path(path)
    if not files.exists(log_path):
        raise KmirrorError(f"{log_path} does not exist; an index is dumped together with its log")
    data = _read_index(files, path)
    entries = len(data) // _OFFSET_ENTRY.size
    if entries == 0:
        write(f"{path} is empty.\n".encode())
        return
    if "index-sanity-check" in options.flags:
        last_offset = base_offset + _OFFSET_ENTRY.unpack_from(data, (entries - 1) * _OFFSET_ENTRY.size)[0]
        if last_offset < base_offset:
            raise KmirrorError(
                f"Corrupt index found, index file ({absolute}) has non-zero size but the last offset is {last_offset} which is less than the "
                f"base offset {base_offset}"
            )
        _check_size(f"Index file {absolute}", data, _OFFSET_ENTRY.size)
        write(f"{path} passed sanity check.\n".encode())
        return
    for slot in range(entries):
        relative_offset, position = _OFFSET_ENTRY.unpack_from(data, slot * _OFFSET_ENTRY.size)
        offset = base_offset + relative_offset
        if relative_offset == 0 and slot > 0:
            return
        batch = _batch_at(files, log_path, position, options.max_message_size)
        if batch.last_offset != offset:
            problems.mismatches.setdefault(absolute, []).append((offset, batch.last_offset))
        if "verify-index-only" not in options.flags:
            write(b"offset: %d position: %d\n" % (offset, position))


def _check_size(what: str, data: bytes, entry_size: int) -> None:
    if len(data) % entry_size:
        raise KmirrorError(f"{what} is corrupt, found {len(data)} bytes which is neither positive nor a multiple of {entry_size}")


def dump_time_index(files: FileSystem, path: str, options: Options, problems: IndexProblems, write: Write, absolute: str) -> None:
    """Dump one `.timeindex`.

    KmirrorError or ApiException where Kafka's tool ends with an exception.
    """
    base_offset = start_offset(path)
    log_path = _log_path(path)
    if not files.exists(log_path):
        raise KmirrorError(f"{log_path} does not exist; an index is dumped together with its log")
    data = _read_index(files, path)
    entries = len(data) // _TIME_ENTRY.size
    if "index-sanity-check" in options.flags:
        _check_time_index(data, entries, base_offset, absolute)
        write(f"{path} passed sanity check.\n".encode())
        return
    offset_index = _read_index(files, log_path.removesuffix(".log") + ".index")
    log = _Log(files, log_path)
    previous_timestamp = NO_TIMESTAMP
    for slot in range(entries):
        timestamp, relative_offset = _TIME_ENTRY.unpack_from(data, slot * _TIME_ENTRY.size)
        offset = base_offset + relative_offset
        if relative_offset == 0 and slot > 0:
            return
        batch = log.find_batch(offset, from_position=_lookup(offset_index, relative_offset))
        _verify_time_entry(batch, problems, absolute, timestamp=timestamp, offset=offset, previous_timestamp=previous_timestamp)
        if "verify-index-only" not in options.flags:
            write(b"timestamp: %d offset: %d\n" % (timestamp, offset))
        previous_timestamp = timestamp


def _check_time_index(data: bytes, entries: int, base_offset: int, absolute: str) -> None:
    if entries:
        last_timestamp, last_relative_offset = _TIME_ENTRY.unpack_from(data, (entries - 1) * _TIME_ENTRY.size)
        first_timestamp = _TIME_ENTRY.unpack_from(data)[0]
        head = f"Corrupt time index found, time index file ({absolute}) has non-zero size but the last"
        if last_timestamp < first_timestamp:
            raise KmirrorError(f"{head} timestamp is {last_timestamp} which is less than the first timestamp {first_timestamp}")
        if last_relative_offset < 0:
            raise KmirrorError(f"{head} offset is {base_offset + last_relative_offset} which is less than the first offset {base_offset}")
    _check_size(f"Time index file {absolute}", data, _TIME_ENTRY.size)


class _Log:
    """Finds batches in a log.

    Like Kafka's tool it reads on to the end, so damage behind the batch is an error, too. It
    remembers the positions from which it reached the end (or the damage), so a log is walked once,
    not once per entry.
    """

    def __init__(self, files: FileSystem, path: str) -> None:
        self._files = files
        self._path = path
        self._walked: dict[int, CorruptFileError | None] = {}

    def find_batch(self, offset: int, *, from_position: int) -> RecordBatch | None:
        """Returns the first batch from `from_position` on whose last offset is at least `offset`.

        CorruptFileError for damage anywhere after `from_position`.
        """
        _check_position(self._files, self._path, from_position)
        if from_position not in self._walked:
            self._walk(from_position)
        damage = self._walked[from_position]
        if damage is not None:
            raise damage
        with SegmentReader(self._files, self._path, start=from_position) as reader:
            return next((batch for _, batch in reader.batches(block_bytes=64 * 1024) if batch.last_offset >= offset), None)

    def _walk(self, from_position: int) -> None:
        damage: CorruptFileError | None = None
        positions = [from_position]
        with SegmentReader(self._files, self._path, start=from_position) as reader:
            try:
                positions += [position for position, _ in reader.batches()]
            except CorruptFileError as error:
                damage = error
        self._walked.update(dict.fromkeys(positions, damage))


def _verify_time_entry(
    batch: RecordBatch | None, problems: IndexProblems, absolute: str, *, timestamp: int, offset: int, previous_timestamp: int
) -> None:
    if batch is None or batch.last_offset != offset:
        problems.not_found.setdefault(absolute, []).append((offset, -1 if batch is None else batch.last_offset))
        return
    max_timestamp = max((record.timestamp for record in batch.records()), default=NO_TIMESTAMP)
    if max_timestamp != timestamp:
        problems.timestamp_mismatches.setdefault(absolute, []).append((timestamp, max_timestamp))
    if previous_timestamp >= timestamp:
        problems.out_of_order.setdefault(absolute, []).append((timestamp, previous_timestamp))


def _lookup(offset_index: bytes, relative_offset: int) -> int:
    """Returns the position of the largest entry not above `relative_offset`; 0 if there is none.

    It searches in the broker's order (the last 8 KiB first), because in a garbled index the order
    of the search decides what is found.
    """
    entries = len(offset_index) // _OFFSET_ENTRY.size
    if entries == 0:
        return 0
    first_hot = max(0, entries - 1 - _HOT_ENTRIES)
    if _relative_offset(offset_index, first_hot) < relative_offset:
        low, high = first_hot, entries - 1
    elif _relative_offset(offset_index, 0) > relative_offset:
        return 0
    else:
        low, high = 0, first_hot
    while low < high:
        middle = (low + high + 1) // 2
        found = _relative_offset(offset_index, middle)
        if found > relative_offset:
            high = middle - 1
        elif found < relative_offset:
            low = middle
        else:
            low = high = middle
    return int(_OFFSET_ENTRY.unpack_from(offset_index, low * _OFFSET_ENTRY.size)[1])


def _relative_offset(offset_index: bytes, slot: int) -> int:
    return int(_OFFSET_ENTRY.unpack_from(offset_index, slot * _OFFSET_ENTRY.size)[0])


def dump_transaction_index(files: FileSystem, path: str, write: Write) -> None:
    """Dump one `.txnindex`; CorruptFileError for an entry of a later version."""
    start_offset(path)
    data = _read(files, path)
    for position in range(0, len(data) - _ABORTED_TXN.size + 1, _ABORTED_TXN.size):
        version, producer_id, first_offset, last_offset, last_stable_offset = _ABORTED_TXN.unpack_from(data, position)
        if version > 0:
            raise CorruptFileError(path, position, f"Unexpected aborted transaction version {version}; current version is 0")
        write(
            b"version: %d producerId: %d firstOffset: %d lastOffset: %d lastStableOffset: %d\n"
            % (version, producer_id, first_offset, last_offset, last_stable_offset)
        )


def dump_producer_snapshot(files: FileSystem, path: str, write: Write) -> str | None:
    """Dump one `.snapshot`; returns the error line if it is damaged (Kafka's tool goes on then)."""
    from kmirror.common.crc32c import crc32c

    data = _read(files, path)
    if len(data) < 6:
        return "Snapshot failed schema validation: null"
    version, crc = struct.unpack_from(">hI", data)
    if version != 1:
        return f"Snapshot contained an unknown file version {version}"
    count = int.from_bytes(data[6:10], "big", signed=True)
    if len(data) < 10 + max(count, 0) * _PRODUCER_ENTRY.size:
        return "Snapshot failed schema validation: null"
    computed = crc32c(memoryview(data)[6:])
    if crc != computed:
        return f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {crc}. Computed crc: {computed}"
    for index in range(count):
        write(_producer_line(*_PRODUCER_ENTRY.unpack_from(data, 10 + index * _PRODUCER_ENTRY.size)))
    return None


def _producer_line(
    producer_id: int,
    producer_epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    current_txn_first_offset: int,
) -> bytes:
    first = b"OptionalLong[%d]" % current_txn_first_offset if current_txn_first_offset >= 0 else b"OptionalLong.empty"
    text = b"producerId: %d producerEpoch: %d coordinatorEpoch: %d currentTxnFirstOffset: %b lastTimestamp: %d" % (
        producer_id,
        producer_epoch,
        coordinator_epoch,
        first,
        timestamp,
    )
    if last_offset >= 0:
        first_sequence = (last_sequence - offset_delta) & 0x7FFFFFFF
        text += b" firstSequence: %d lastSequence: %d lastOffset: %d offsetDelta: %d timestamp: %d" % (
            first_sequence,
            last_sequence,
            last_offset,
            offset_delta,
            timestamp,
        )
    return text + b"\n"
