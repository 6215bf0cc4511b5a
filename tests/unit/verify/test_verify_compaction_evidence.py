"""Holes in a mirror of a compacted topic, or in its source: which of them a cleaner can have made,
and which `kafka-mirrors --verify` names.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from kmirror.admin.results import MirrorPartitionDescription
from kmirror.cli.mirrors_verify import Ask, PartitionChecker, RunState
from kmirror.record.builder import build_batch, empty_batch, rebuild_batch
from kmirror.record.compression import CompressionType
from kmirror.record.control_record import ControlRecordType, build_end_transaction_marker, build_mirror_pid_reset
from kmirror.record.record import Record
from kmirror.record.record_batch import iter_batches
from kmirror.verify import key_evidence
from kmirror.verify.committed_records import CommittedRecords
from kmirror.verify.verdict import PartitionVerdict, Status

TIME = 1_750_000_000_000


def put(offset: int, key: str | None, value: str | None = "v", *, producer_id: int = -1) -> bytes:
    """A batch of one record; transactional with a producer."""
    record = Record(offset, TIME, None if key is None else key.encode(), None if value is None else value.encode(), [])
    has_producer = producer_id >= 0
    return bytes(
        build_batch(
            [record],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0 if has_producer else -1,
            base_sequence=offset if has_producer else -1,
            is_transactional=has_producer,
        )
    )


def marker(offset: int, producer_id: int, kind: ControlRecordType) -> bytes:
    batch = build_end_transaction_marker(
        kind, coordinator_epoch=0, producer_id=producer_id, producer_epoch=0, timestamp=TIME, base_offset=offset
    )
    return bytes(batch)


COMMIT, ABORT = ControlRecordType.COMMIT, ControlRecordType.ABORT


class Cluster:
    """What `PartitionChecker` asks of an AdminClient, of one partition's log."""

    def __init__(self, *batches: bytes, mirrored_end: int = -1, policy: str = "compact") -> None:
        self.parts = [batch for data in batches for batch in iter_batches(data)]
        self.mirrored_end = mirrored_end
        self.policy = policy
        self.fetches = 0

    async def list_mirrors(self):
        return [SimpleNamespace(mirror_name="m", source_cluster_id="the source")]

    async def describe_cluster(self):
        return SimpleNamespace(cluster_id="the source")

    async def list_offsets(self, names, *, timestamp: int = -1):
        return {names[0]: 0 if timestamp == -2 else self.parts[-1].next_offset}

    async def fetch_records(self, name, offset: int, *, max_bytes: int) -> bytes:
        self.fetches += 1
        return b"".join(bytes(part.memory) for part in self.parts if part.last_offset >= offset)

    async def describe_topics(self, topics):
        return {topics[0]: SimpleNamespace(partitions=[SimpleNamespace(partition=0)])}

    async def describe_configs(self, kind, topic: str):
        return [SimpleNamespace(name="cleanup.policy", value=self.policy)]

    async def end_offset_of_epoch(self, name, epoch: int) -> int:
        return self.mirrored_end


def verify(source: Cluster, mirror: Cluster, *, state: str = "MIRRORING", sample: int | None = None) -> PartitionVerdict:
    options = argparse.Namespace(sample=sample, **{"from": None})

    async def of_mirror(name: str) -> Cluster:
        return source

    clients = SimpleNamespace(admin=mirror, source=of_mirror, options=options, runtime=None)
    row = MirrorPartitionDescription("t", 0, -1, -1, -1, state, 0)
    with asyncio.Runner() as runner:
        run_state = RunState()
        run_state.retries_left = 0
        return PartitionChecker(Ask(runner.run), clients, "m", row, run_state).verdict(lambda size: None)


FULL = (put(0, "a"), put(1, "b"), put(2, "a"), put(3, "c"), put(4, "end"))


@pytest.mark.parametrize(
    ("source", "mirror"),
    [
        (FULL, (*FULL[1:],)),
        ((*FULL[1:],), FULL),
        ((*FULL[1:], put(5, "b"), put(6, "new")), FULL),
        ((FULL[0], *FULL[2:], put(5, "b")), FULL),
        ((put(0, "a"), put(1, "a", None), put(2, "end")), (put(0, "a"), put(2, "end"))),
        ((put(0, "a"), put(1, "a", None), put(2, "end")), (put(2, "end"),)),
        ((put(0, None), put(1, "end")), (put(1, "end"),)),
    ],
    ids=["mirror-cleaned", "source-cleaned", "source-went-on", "source-went-on-elsewhere", "tombstone", "tombstone-and-value", "no-key"],
)
def test_what_a_cleaner_may_remove_is_no_difference(source, mirror):
    verdict = verify(Cluster(*source), Cluster(*mirror))
    assert (verdict.error, verdict.status) == (None, Status.EQUAL)
    assert verdict.ignored_counts["compacted"] >= 1


@pytest.mark.parametrize(
    ("source", "mirror", "text"),
    [
        (FULL, (*FULL[:3], *FULL[4:]), "B lacks offset 3: no later record of key 'c'"),
        (FULL, (*FULL[:2], *FULL[3:]), "B lacks offset 2: no later record of key 'a'"),
        ((*FULL, put(5, "c")), (*FULL[:3], *FULL[4:]), "B lacks offset 3: no later record of key 'c'"),
        ((*FULL[:3], *FULL[4:]), FULL, "A lacks offset 3: no later record of key 'c'"),
    ],
    ids=["newest", "newest-of-two", "the-newer-one-is-not-mirrored-yet", "stale-key"],
)
def test_the_newest_record_of_a_key_is_missing(source, mirror, text):
    verdict = verify(Cluster(*source), Cluster(*mirror))
    assert (verdict.error, verdict.status) == (None, Status.DIFFERENT)
    assert text in verdict.differences[0].detail


def test_a_record_that_is_missing_where_the_mirrored_part_ends_was_taken_for_lag():
    """The mirror came past offset 1 and goes on with its own records."""
    source = Cluster(put(0, "a"), put(1, "lost"))
    lost = Cluster(put(0, "a"), put(2, "own"), mirrored_end=2)
    assert verify(source, lost, state="STOPPED").status is Status.DIFFERENT
    replaced = Cluster(put(0, "a"), put(2, "lost", "own"), mirrored_end=2)
    assert verify(source, replaced, state="STOPPED").status is Status.EQUAL


@pytest.mark.parametrize(("kind", "status"), [(ABORT, Status.EQUAL), (COMMIT, Status.DIFFERENT)])
def test_records_of_aborted_transactions_may_go(kind, status):
    source = Cluster(put(0, "a"), put(1, "x", producer_id=7), marker(2, 7, kind), put(3, "end"))
    mirror = Cluster(put(0, "a"), marker(2, 7, kind), put(3, "end"))
    assert verify(source, mirror).status is status


@pytest.mark.parametrize(("kind", "status"), [(COMMIT, Status.EQUAL), (ABORT, Status.DIFFERENT)])
def test_a_later_record_counts_when_it_is_committed(kind, status):
    rest = (put(1, "a", "later", producer_id=7), marker(2, 7, kind), put(3, "end"))
    assert verify(Cluster(put(0, "a"), *rest), Cluster(*rest)).status is status


class GrowingCluster(Cluster):
    """Serves a batch at a time; `when_read` is done when the last one is."""

    def __init__(self, *batches: bytes, when_read: Callable[[], None] = lambda: None) -> None:
        super().__init__(*batches)
        self.when_read = when_read

    async def fetch_records(self, name, offset: int, *, max_bytes: int) -> bytes:
        part = next(part for part in self.parts if part.last_offset >= offset)
        if part is self.parts[-1]:
            self.when_read()
        return bytes(part.memory)


@pytest.mark.parametrize(("key", "status"), [("c", Status.EQUAL), ("d", Status.DIFFERENT)])
def test_what_a_cleaner_removes_while_the_logs_are_compared_is_no_difference(key, status):
    """The first hole has both logs read to their ends; then c is written again, and the source's
    cleaner comes by.
    """
    source = GrowingCluster(*FULL)

    def go_on() -> None:
        source.parts = [*source.parts[:3], *source.parts[4:5], *iter_batches(put(5, key))]

    verdict = verify(source, GrowingCluster(*FULL[1:], when_read=go_on))
    assert (verdict.error, verdict.status) == (None, status)


@pytest.mark.parametrize(("offset", "status"), [(1, Status.DIFFERENT), (3, Status.EQUAL), (7, Status.DIFFERENT)])
def test_the_next_marker_of_the_producer_decides_however_many_there_are(offset, status):
    rest = [put(number, f"k{number}", producer_id=7) for number in (1, 3, 5, 7)]
    rest += [marker(number, 7, kind) for number, kind in ((2, COMMIT), (4, ABORT), (6, ABORT), (8, COMMIT), (10, COMMIT))]
    full = [put(0, "a"), *sorted(rest, key=lambda data: next(iter_batches(data)).base_offset), put(11, "end")]
    assert verify(Cluster(*full), Cluster(*(data for data in full if next(iter_batches(data)).base_offset != offset))).status is status


def test_markers_take_no_memory_each():
    records = CommittedRecords(lambda name, offset: None)
    for number in range(1_000):
        (batch,) = iter_batches(marker(number, 7, COMMIT))
        records.add_control(batch)
    assert records._markers == {7: ([999], [False])}


def test_equal_logs_are_read_once():
    source, mirror = Cluster(*FULL), Cluster(*FULL)
    assert verify(source, mirror).status is Status.EQUAL
    assert (source.fetches, mirror.fetches) == (1, 1)


def test_a_hole_in_a_topic_that_is_not_compacted_is_one_as_ever():
    source, mirror = Cluster(*FULL, policy="delete"), Cluster(*FULL[1:], policy="delete")
    assert verify(source, mirror).difference_counts == {"missing": 1}


def test_where_nothing_can_be_told_compaction_is_believed(monkeypatch):
    source, mirror = Cluster(*FULL), Cluster(*FULL[:3], *FULL[4:])
    assert verify(source, mirror, sample=1).status is Status.EQUAL, "a sample does not read both logs to their ends"
    monkeypatch.setattr(key_evidence, "MAX_KEYS", 0)
    assert verify(source, mirror).status is Status.EQUAL


def test_what_the_readme_says_is_not_told():
    """Deleted here after the failover; the tombstone behind the mirrored part has gone, too."""
    source, mirror = Cluster(put(0, "k"), put(1, "end")), Cluster(put(1, "end"), put(4, "own"), mirrored_end=2)
    assert verify(source, mirror, state="STOPPED").difference_counts == {"missing": 1}


TRANSACTION = (
    put(0, "a"),
    put(1, "x", producer_id=7),
    put(2, "y", producer_id=7),
    marker(3, 7, COMMIT),
    put(4, "x"),
    put(5, "y"),
    put(6, "end"),
)


@pytest.mark.parametrize("kind", [COMMIT, ABORT])
@pytest.mark.parametrize("missing_in", ["mirror", "source"])
def test_a_lost_marker_of_a_transaction_that_has_records_left_was_taken_for_cleaned(kind, missing_in):
    full = (*TRANSACTION[:3], marker(3, 7, kind), *TRANSACTION[4:])
    lost = (TRANSACTION[0], *TRANSACTION[2:3], *TRANSACTION[4:])
    source, mirror = (Cluster(*full), Cluster(*lost)) if missing_in == "mirror" else (Cluster(*lost), Cluster(*full))
    verdict = verify(source, mirror)
    assert (verdict.error, verdict.difference_counts) == (None, {"control-only": 1})
    lacking = "B" if missing_in == "mirror" else "A"
    assert f"{lacking} lacks the marker at offset 3: it has a batch of the transaction" in verdict.differences[0].detail


TWO = (put(0, "a"), put(1, "z", producer_id=8), *TRANSACTION[2:4], marker(4, 8, COMMIT), *TRANSACTION[5:])


@pytest.mark.parametrize(
    ("source", "mirror"),
    [(TRANSACTION, (TRANSACTION[0], *TRANSACTION[4:])), (TWO, (*TWO[:2], *TWO[4:]))],
    ids=["nothing-left", "another-producers-is-left"],
)
def test_a_marker_whose_transaction_has_no_batch_left_may_go(source, mirror):
    verdict = verify(Cluster(*source), Cluster(*mirror))
    assert (verdict.error, verdict.status) == (None, Status.EQUAL)


def test_a_second_marker_without_records_of_its_own_may_go():
    """An abort of a transaction that wrote nothing here: the batches in front of it are the one's
    before it.
    """
    full = (*TRANSACTION[:4], marker(4, 7, ABORT), put(5, "end"))
    assert verify(Cluster(*full), Cluster(*full[:4], *full[5:])).status is Status.EQUAL
    assert verify(Cluster(*full), Cluster(*full[:3], *full[4:])).status is Status.DIFFERENT, "the first one may not"
    verdict = verify(Cluster(*full), Cluster(*full[:3], *full[5:]))
    assert verdict.difference_counts == {"control-only": 1}, "of two that are missing one after the other, too"


def test_a_transaction_whose_batches_are_cleaned_during_the_comparison_may_lose_its_marker():
    """The mirror's batches were read for the first missing marker; when the second is looked for,
    its cleaner has taken them along.
    """
    full = (put(0, "a", producer_id=5), marker(1, 5, COMMIT), put(2, "x", producer_id=7), marker(3, 7, COMMIT), put(4, "a"), put(5, "x"))
    mirror = GrowingCluster(*full[1:3], *full[4:])
    before = list(mirror.parts)

    class Cleaned(GrowingCluster):
        """Its cleaner comes by as soon as its batch at offset 2 was served twice: compared, and
        read for evidence.
        """

        served = 0

        async def fetch_records(self, name, offset: int, *, max_bytes: int) -> bytes:
            data = await super().fetch_records(name, offset, max_bytes=max_bytes)
            if next(iter_batches(data)).base_offset == 2:
                self.served += 1
                if self.served == 2:
                    self.parts = [part for part in before if part.base_offset != 2]
            return data

    cleaned = Cleaned(*full[1:3], *full[4:])
    verdict = verify(GrowingCluster(*full), cleaned)
    assert cleaned.served == 2
    assert (verdict.error, verdict.status) == (None, Status.EQUAL)


def test_a_control_record_that_no_cleaner_removes_is_a_difference():
    reset = bytes(build_mirror_pid_reset("source", timestamp=TIME, base_offset=1))
    full = (put(0, "a"), reset, put(2, "end"))
    assert verify(Cluster(*full), Cluster(full[0], full[2])).difference_counts == {"control-only": 1}


def test_a_marker_that_waits_for_its_removal_on_one_side_is_no_difference():
    """The cleaner has noted in it when it may go, or has left its header for the producer's epoch."""
    (batch,) = iter_batches(TRANSACTION[3])
    waiting = bytes(rebuild_batch(batch, list(batch.records()), delete_horizon_ms=TIME + 5))
    for other in (waiting, bytes(empty_batch(batch))):
        log = (TRANSACTION[0], other, *TRANSACTION[4:])
        full = (TRANSACTION[0], *TRANSACTION[3:])
        for source, mirror in ((full, log), (log, full)):
            verdict = verify(Cluster(*source), Cluster(*mirror))
            assert (verdict.error, verdict.status, verdict.difference_counts) == (None, Status.EQUAL, {})


def rewritten(data: bytes, horizon_ms: int) -> bytes:
    """As a cleaner leaves a batch."""
    (old,) = iter_batches(data)
    return bytes(rebuild_batch(old, list(old.records()), delete_horizon_ms=horizon_ms))


@pytest.mark.parametrize("sample", [None, 1])
def test_each_cleaner_has_a_delete_horizon_of_its_own(sample: int | None) -> None:
    """A tombstone and a marker, noted by both cleaners at the times at which they came by: as long
    as delete.retention.ms a mirror in which nothing is wrong was called different.
    """

    def cleaned(horizon_ms: int) -> Cluster:
        before, commit, after = TRANSACTION[:3], TRANSACTION[3], TRANSACTION[4:]
        return Cluster(*before, rewritten(commit, horizon_ms), *after, rewritten(put(7, "a", None), horizon_ms), put(8, "end"))

    verdict = verify(cleaned(TIME + 5), cleaned(TIME + 900), sample=sample)
    assert (verdict.error, verdict.status, verdict.difference_counts) == (None, Status.EQUAL, {})
    assert sum(verdict.ignored_counts.values()) > 1


@pytest.mark.parametrize("sample", [None, 1])
def test_times_that_both_cleaners_had_noted_were_differences(sample: int | None):
    """Each takes the time at which a tombstone or a marker may go from its own clock."""
    full = (put(0, "a"), put(1, "a", None), put(2, "x", producer_id=7), marker(3, 7, COMMIT), put(4, "end"))
    logs = [(full[0], rewritten(full[1], time), full[2], rewritten(full[3], time), full[4]) for time in (TIME + 5, TIME + 9)]
    verdict = verify(Cluster(*logs[0]), Cluster(*logs[1]), sample=sample)
    assert (verdict.error, verdict.status, verdict.difference_counts) == (None, Status.EQUAL, {})
    other = (*logs[1][:3], rewritten(marker(3, 7, ABORT), TIME + 9), full[4])
    assert verify(Cluster(*logs[0]), Cluster(*other), sample=sample).difference_counts == {"control-only": 1}
    value = rewritten(put(1, "a", "other"), TIME + 9)
    assert verify(Cluster(*logs[0]), Cluster(logs[1][0], value, *logs[1][2:]), sample=sample).status is Status.DIFFERENT


def test_batches_that_both_cleaners_had_compressed_anew_were_differences():
    """Two implementations compress the same records to other bytes; without a cleaner nobody writes
    a mirror's batches anew.
    """
    records = [Record(offset, TIME, f"k{offset}".encode(), b"v" * 50, []) for offset in range(4)]
    whole = [bytes(build_batch(records, compression=codec)) for codec in (CompressionType.GZIP, CompressionType.LZ4)]
    cleaned = []
    for data in whole:
        (old,) = iter_batches(data)
        cleaned.append((bytes(rebuild_batch(old, [records[0], records[3]])), put(4, "k1"), put(5, "k2")))
    assert verify(Cluster(*cleaned[0]), Cluster(*cleaned[1])).status is Status.EQUAL
    rest = cleaned[0][1:]
    assert verify(Cluster(whole[0], *rest), Cluster(whole[1], *rest)).difference_counts == {"re-batched": 1}


def test_a_marker_that_a_cleaner_removed_is_no_difference_in_a_sample_another_one_is():
    """In a compacted topic one side may lack the commit marker of a transaction whose records are
    gone (FEA2b). An abort marker in its place is a difference.
    """
    full, cleaned = (put(0, "a"), marker(1, 7, COMMIT), put(2, "end")), (put(0, "a"), put(2, "end"))
    for source, mirror in ((full, cleaned), (cleaned, full)):
        verdict = verify(Cluster(*source), Cluster(*mirror), sample=1)
        assert (verdict.status, verdict.difference_counts, verdict.ignored_counts) == (Status.EQUAL, {}, {"compacted": 1})
    assert verify(Cluster(*full), Cluster(full[0], marker(1, 7, ABORT), full[2]), sample=1).status is Status.DIFFERENT


@pytest.mark.parametrize("has_it", ["source", "mirror"])
def test_a_batch_at_the_end_of_a_place_of_a_sample_that_one_cleaner_had_removed_was_a_difference(has_it: str):
    """The log goes on behind the place: what is missing at its end is no tail."""
    full = tuple(put(offset, f"k{offset % 7}") for offset in range(5_000))
    cleaned = tuple(batch for offset, batch in enumerate(full) if not 990 <= offset < 1_010)
    source, mirror = (full, cleaned) if has_it == "source" else (cleaned, full)
    assert verify(Cluster(*source), Cluster(*mirror), sample=3).status is Status.EQUAL
