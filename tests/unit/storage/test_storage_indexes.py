"""Offset, time and transaction index: growth rules, files, and look-ups against a linear scan."""

from __future__ import annotations

import errno
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kmirror.common.errors import CorruptFileError
from kmirror.common.ports import Buffer, File
from kmirror.runtime.os_files import OsFile, OsFileSystem
from kmirror.storage.fetch_data_info import AbortedTxn
from kmirror.storage.offset_index import OffsetIndex, OffsetPosition
from kmirror.storage.time_index import TimeIndex, TimestampOffset
from kmirror.storage.transaction_index import TransactionIndex

BASE = 1000


def offset_index(tmp_path: pathlib.Path, max_index_size: int = 8000) -> OffsetIndex:
    return OffsetIndex(OsFileSystem(), str(tmp_path / "0.index"), base_offset=BASE, max_index_size=max_index_size)


def time_index(tmp_path: pathlib.Path, max_index_size: int = 12000) -> TimeIndex:
    return TimeIndex(OsFileSystem(), str(tmp_path / "0.timeindex"), base_offset=BASE, max_index_size=max_index_size)


class TestOffsetIndex:
    def test_is_preallocated_in_whole_entries_and_trimmed_on_close(self, tmp_path: pathlib.Path) -> None:
        index = offset_index(tmp_path, max_index_size=30)
        assert (index.entries, index.max_entries, index.length) == (0, 3, 24)
        index.append(BASE + 1, 77)
        index.close()
        assert (tmp_path / "0.index").read_bytes() == bytes.fromhex("000000010000004d")

    def test_a_file_that_was_not_trimmed_looks_full_of_zero_entries(self, tmp_path: pathlib.Path) -> None:
        index = offset_index(tmp_path, max_index_size=24)
        index.append(BASE + 1, 77)
        index.close_handler()
        reopened = offset_index(tmp_path, max_index_size=24)
        assert (reopened.entries, reopened.is_full, reopened.last_offset) == (3, True, BASE)
        reopened.reset()
        assert (reopened.entries, reopened.length) == (0, 24)

    def test_entries_that_come_while_others_are_written_are_written_next(self, tmp_path: pathlib.Path) -> None:
        """A coordinator's log is flushed on a worker while the loop appends to it: the append
        raised BufferError, or was never written.
        """

        class During(OsFileSystem):
            happen: Callable[[], None] | None = None

            def open(self, path: str, **how: Any) -> OsFile:
                return Slow(path, super().open(path, **how).detach())

        class Slow(OsFile):
            def pwrite(self, data: Buffer, position: int) -> int:
                happen, files.happen = files.happen, None
                size = super().pwrite(data, position)
                if happen is not None:
                    happen()
                return size

        files = During()
        index = OffsetIndex(files, str(tmp_path / "0.index"), base_offset=BASE, max_index_size=80)
        index.append(BASE + 1, 77)
        index.append(BASE + 2, 88)
        files.happen = lambda: index.append(BASE + 3, 99)
        index.flush()
        index.append(BASE + 4, 111)
        files.happen = lambda: index.truncate_to(BASE + 2)
        index.flush()
        index.append(BASE + 5, 122)
        index.close()
        assert (tmp_path / "0.index").read_bytes() == bytes.fromhex("000000010000004d 000000050000007a")

    def test_the_preallocated_zeros_of_an_index_were_read_before_it_was_rebuilt(self, tmp_path: pathlib.Path) -> None:
        """10 MiB for each index of a partition, which took most of a recovery."""

        class Unread(OsFileSystem):
            def read_bytes(self, path: str) -> bytes:
                raise AssertionError(f"{path} is read")

        index = offset_index(tmp_path, max_index_size=24)
        index.append(BASE + 1, 77)
        index.close_handler()
        rebuilt = OffsetIndex(Unread(), index.path, base_offset=BASE, max_index_size=32)
        rebuilt.reset()
        assert (rebuilt.entries, rebuilt.length, rebuilt.last_offset) == (0, 32, BASE)
        rebuilt.append(BASE + 9, 55)
        rebuilt.close()
        assert (tmp_path / "0.index").read_bytes() == bytes.fromhex("0000000900000037")

    def test_entries_wait_while_the_process_has_no_descriptor_left(self, tmp_path: pathlib.Path) -> None:
        class Exhausted(OsFileSystem):
            error = 0

            def open(self, path: str, *, create: bool = False, exclusive: bool = False, write: bool = True) -> File:
                if self.error:
                    raise OSError(self.error, "no")
                return super().open(path, create=create, exclusive=exclusive, write=write)

        files = Exhausted()
        index = OffsetIndex(files, str(tmp_path / "0.index"), base_offset=BASE, max_index_size=80_000)
        index.ensure_created()
        files.error = errno.EMFILE
        for number in range(1, 1001):
            index.append(BASE + number, number)
        assert (index.entries, index.lookup(BASE + 700)) == (1000, (BASE + 700, 700))
        files.error = errno.EIO
        with pytest.raises(OSError, match="no"):
            index.append(BASE + 1001, 1001)
        files.error = 0
        index.close()
        assert len((tmp_path / "0.index").read_bytes()) == 1001 * 8

    def test_a_full_index_takes_no_more_and_offsets_that_do_not_grow_are_refused(self, tmp_path: pathlib.Path) -> None:
        index = offset_index(tmp_path, max_index_size=16)
        index.append(BASE + 5, 10)
        with pytest.raises(CorruptFileError, match="not below the next one"):
            index.append(BASE + 5, 20)
        index.append(BASE + 6, 20)
        index.append(BASE + 7, 30)
        assert (index.entries, index.last_offset) == (2, BASE + 6)

    def test_truncated_entries_are_overwritten(self, tmp_path: pathlib.Path) -> None:
        index = offset_index(tmp_path)
        for offset in (1, 3, 5):
            index.append(BASE + offset, offset * 10)
        index.truncate_to(BASE + 3)
        index.append(BASE + 4, 99)
        index.close()
        reopened = offset_index(tmp_path)
        assert [reopened.entry(slot) for slot in range(reopened.entries)] == [OffsetPosition(BASE + 1, 10), OffsetPosition(BASE + 4, 99)]

    def test_an_index_never_used_leaves_its_file_alone(self, tmp_path: pathlib.Path) -> None:
        (tmp_path / "0.index").write_bytes(b"garbage!!")
        index = offset_index(tmp_path)
        index.close()
        assert (tmp_path / "0.index").read_bytes() == b"garbage!!"
        assert index.sanity_problem() is not None

    def test_entries_that_wait_in_memory_reach_the_file_on_flush_and_on_rename(self, tmp_path: pathlib.Path) -> None:
        index = offset_index(tmp_path)
        index.append(BASE + 1, 1)
        index.flush()
        assert (tmp_path / "0.index").read_bytes()[:8] == bytes.fromhex("0000000100000001")
        index.append(BASE + 2, 2)
        index.rename_to(str(tmp_path / "0.index.deleted"))
        assert (tmp_path / "0.index.deleted").read_bytes()[8:16] == bytes.fromhex("0000000200000002")

    @given(deltas=st.lists(st.integers(1, 9), max_size=60), targets=st.lists(st.integers(-5, 600), min_size=1), cut=st.integers(0, 600))
    def test_lookup_equals_a_linear_scan(
        self, tmp_path_factory: pytest.TempPathFactory, deltas: list[int], targets: list[int], cut: int
    ) -> None:
        index = offset_index(tmp_path_factory.mktemp("index"))
        entries: list[OffsetPosition] = []
        offset = BASE
        for slot, delta in enumerate(deltas):
            offset += delta
            entries.append(OffsetPosition(offset, slot * 100))
            index.append(*entries[-1])
        for _ in range(2):
            for target in targets:
                lower = [entry for entry in entries if entry.offset <= BASE + target]
                assert index.lookup(BASE + target) == (lower[-1] if lower else OffsetPosition(BASE, 0))
                above = [entry.offset for entry in entries if entry.position >= target * 10 + 7]
                assert index.fetch_upper_bound_offset(target * 10, 7) == (above[0] if above else None)
            index.truncate_to(BASE + cut)
            entries = [entry for entry in entries if entry.offset < BASE + cut]
        index.close()


class TestTimeIndex:
    def test_one_slot_is_reserved_for_the_final_entry(self, tmp_path: pathlib.Path) -> None:
        index = time_index(tmp_path, max_index_size=24)
        index.maybe_append(5, BASE)
        assert index.is_full
        index.maybe_append(6, BASE + 1)
        assert index.entries == 1
        index.maybe_append(6, BASE + 1, skip_full_check=True)
        assert index.last_entry == TimestampOffset(6, BASE + 1)

    def test_equal_timestamps_are_left_out_and_smaller_ones_refused(self, tmp_path: pathlib.Path) -> None:
        index = time_index(tmp_path)
        assert index.last_entry == TimestampOffset(-1, BASE)
        index.maybe_append(5, BASE + 1)
        index.maybe_append(5, BASE + 2)
        assert index.entries == 1
        with pytest.raises(CorruptFileError, match="beyond the next one"):
            index.maybe_append(4, BASE + 3)

    @given(steps=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), max_size=40), targets=st.lists(st.integers(-1, 250), min_size=1))
    def test_lookup_equals_a_linear_scan(
        self, tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int]], targets: list[int]
    ) -> None:
        index = time_index(tmp_path_factory.mktemp("index"))
        entries: list[TimestampOffset] = []
        timestamp, offset = 0, BASE
        for time_step, offset_step in steps:
            timestamp, offset = timestamp + time_step, offset + offset_step
            entries.append(TimestampOffset(timestamp, offset))
            index.maybe_append(timestamp, offset)
        for target in targets:
            lower = [entry for entry in entries if entry.timestamp <= target]
            assert index.lookup(target) == (lower[-1] if lower else TimestampOffset(-1, BASE))
            index.truncate_to(BASE + target)
            entries = [entry for entry in entries if entry.offset < BASE + target]
            assert index.entries == len(entries)
        index.close()


class TestTransactionIndex:
    def index(self, tmp_path: pathlib.Path) -> TransactionIndex:
        return TransactionIndex(OsFileSystem(), str(tmp_path / "0.txnindex"), start_offset=BASE)

    def test_the_file_exists_once_there_is_an_entry(self, tmp_path: pathlib.Path) -> None:
        index = self.index(tmp_path)
        assert not index.exists() and index.all_aborted_txns() == []
        index.append(AbortedTxn(7, BASE, BASE + 3, BASE + 4))
        assert (tmp_path / "0.txnindex").stat().st_size == 34
        assert self.index(tmp_path).all_aborted_txns() == [AbortedTxn(7, BASE, BASE + 3, BASE + 4)]

    def test_collect_stops_at_an_entry_whose_last_stable_offset_reaches_the_bound(self, tmp_path: pathlib.Path) -> None:
        index = self.index(tmp_path)
        first, second = AbortedTxn(1, 1000, 1010, 1005), AbortedTxn(2, 1005, 1020, 1021)
        index.append(first)
        index.append(second)
        assert index.collect_aborted_txns(1000, 1005) == ([first], True)
        assert index.collect_aborted_txns(1000, 1006) == ([first, second], True)
        assert index.collect_aborted_txns(1011, 1030) == ([second], False)

    def test_truncation_drops_the_entries_of_cut_markers(self, tmp_path: pathlib.Path) -> None:
        index = self.index(tmp_path)
        for marker in (1010, 1020, 1030):
            index.append(AbortedTxn(1, marker - 5, marker, marker + 1))
        index.truncate_to(1020)
        assert [entry.last_offset for entry in self.index(tmp_path).all_aborted_txns()] == [1010]

    def test_entries_of_another_version_or_below_the_segment_are_a_problem(self, tmp_path: pathlib.Path) -> None:
        index = self.index(tmp_path)
        index.append(AbortedTxn(1, 1, BASE - 1, 1))
        assert "less than start offset" in str(self.index(tmp_path).sanity_problem())
        (tmp_path / "0.txnindex").write_bytes(b"\0\1" + bytes(32))
        assert "version 1" in str(self.index(tmp_path).sanity_problem())
