"""Leader epochs hidden in a copy of batches: only those above the bound, in whole headers of format
v2.
"""

from __future__ import annotations

import struct

from kmirror.record.builder import build_batch
from kmirror.record.leader_epochs import hide_leader_epochs_above
from kmirror.record.record import Record
from kmirror.record.record_batch import iter_batches


def log_of(*epochs: int) -> bytes:
    records = [[Record(offset=offset, timestamp=1, key=None, value=b"value" * offset)] for offset in range(len(epochs))]
    return b"".join(
        bytes(build_batch(records[offset], base_offset=offset, partition_leader_epoch=epoch)) for offset, epoch in enumerate(epochs)
    )


def test_epochs_above_the_bound_are_hidden_and_nothing_else_changes() -> None:
    data = log_of(0, 2, 3, 7)
    hidden = bytes(hide_leader_epochs_above(data, 2))
    assert [batch.partition_leader_epoch for batch in iter_batches(hidden)] == [0, 2, -1, -1]
    assert all(batch.is_valid() for batch in iter_batches(hidden))
    for before, after in zip(iter_batches(data), iter_batches(hidden), strict=True):
        assert (before.memory[:12], before.memory[16:]) == (after.memory[:12], after.memory[16:])


def test_what_has_nothing_to_hide_is_not_copied() -> None:
    data = log_of(0, 2)
    assert hide_leader_epochs_above(data, 2) is data
    assert hide_leader_epochs_above(b"", 0) == b""


def test_a_last_batch_that_is_cut_anywhere_stays_cut_there() -> None:
    whole, cut = log_of(5), log_of(5, 6)
    for size in range(len(whole), len(cut)):
        hidden = bytes(hide_leader_epochs_above(cut[:size], 4))
        assert len(hidden) == size
        assert [batch.partition_leader_epoch for batch in iter_batches(hidden[: len(whole)])] == [-1]


def test_messages_of_old_formats_keep_their_checksum() -> None:
    """Where v2 has the epoch, v0 and v1 have the CRC."""
    for magic in (0, 1):
        message = struct.pack(">qiib", 0, 14, 0x7FFFFFFF, magic) + bytes(9)
        assert hide_leader_epochs_above(message, 0) is message


def test_what_is_no_batch_any_more_is_left_as_it_is() -> None:
    data = log_of(5) + bytes(40)
    hidden = bytes(hide_leader_epochs_above(data, 4))
    assert hidden[-40:] == bytes(40) and len(hidden) == len(data)
