"""A replica that was built from a leader has the holes of that leader's cleaner, although its own
cleaner has cleaned nothing yet.

A cut may remove a key's new value while the old value is already missing. The old value then has to
be copied from the source.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.brokers.broker_doubles import NOW_MS
from support.logs.cleaned_histories import batches_of, carried_out, case, keyed, live, log_of, verdict_of, without_records
from support.mirrors.added_topics import added_again, polled_offsets
from support.mirrors.mirror_machine import MIRROR, OWN_CLUSTER_ID, T0, MirrorMachine

from kmirror.mirror.logs.log_completeness import has_holes, is_complete
from kmirror.mirror.logs.log_questions import KEEP, Inquiry, LogAction, Verdict
from kmirror.mirror.logs.log_verifier import diverged, out_of_range, verify_log
from kmirror.record.builder import build_batch
from kmirror.record.control_record import ControlRecordType, build_end_transaction_marker
from kmirror.record.record import Record
from kmirror.storage.unified_log import UnifiedLog
from kmirror.wire.messages import fetch

MIRRORED = [keyed((n, b"K" if n == 3 else b"key-%d" % n, b"old")) for n in range(9)]
WRITTEN_HERE = [keyed((9, b"K", b"new"), epoch=2), keyed((10, b"other", b"new"), epoch=2)]


async def failed_back(machine: MirrorMachine, ours: list[bytes], theirs: list[bytes], **topic: str) -> None:
    """Fails back to a source that mirrored our log, copied from a leader, up to epoch 1."""
    machine.source.create("t")
    machine.at_source(*theirs)
    machine.topic(value=None, **({"cleanup_policy": "compact"} | topic))
    machine.local(*ours)
    machine.log().update_high_watermark(machine.log().log_end_offset)
    machine.source_mirrors[MIRROR] = (OWN_CLUSTER_ID, {T0: ("STOPPED", 1)})
    await added_again(machine)
    assert machine.state() == "MIRRORING", machine.driver().status.reason


def what_is_there(machine: MirrorMachine) -> dict[bytes, bytes]:
    return live(batches_of(machine.log()))


@pytest.mark.parametrize("policy", ["compact", "delete"])
async def test_a_failback_brings_back_what_a_leader_before_dropped_for_what_goes(tmp_path: Path, policy: str) -> None:
    """The cleanup policy of today does not show whether a cleaner ran before."""
    machine = MirrorMachine(str(tmp_path))
    await failed_back(machine, [*MIRRORED[:3], *MIRRORED[4:], *WRITTEN_HERE], MIRRORED, cleanup_policy=policy)
    assert [header.base_offset for header in machine.headers()] == list(range(9))
    assert what_is_there(machine) == live(MIRRORED)
    assert min(polled_offsets(machine)) == 3, "what is identical from the beginning on stays"
    await machine.close()


async def test_what_was_dropped_for_what_stays_costs_no_copy(tmp_path: Path) -> None:
    """Each side is cleaned on its own, and a failback copies only the difference."""
    machine = MirrorMachine(str(tmp_path))
    theirs = [*MIRRORED, keyed((9, b"K", b"newer")), keyed((10, b"x", b"1"))]
    ours = [*MIRRORED[:3], *MIRRORED[4:], keyed((9, b"K", b"newer")), *[keyed((10, b"K", b"here"), epoch=2)]]
    await failed_back(machine, ours, theirs, mirror_max_truncation_records="0")
    assert what_is_there(machine) == live(theirs)
    assert min(polled_offsets(machine)) == 10
    await machine.close()


async def test_holes_of_the_source_cost_no_copy(tmp_path: Path) -> None:
    """The source has holes that we copied, and holes that its cleaner made later."""
    machine = MirrorMachine(str(tmp_path))
    await failed_back(machine, [*MIRRORED[:3], *MIRRORED[4:], *WRITTEN_HERE], [*MIRRORED[:2], *MIRRORED[4:]])
    assert [header.base_offset for header in machine.headers()] == [0, 1, 2, 4, 5, 6, 7, 8]
    assert min(polled_offsets(machine)) == 9
    await machine.close()


async def test_a_log_without_holes_is_not_read_at_the_source(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await failed_back(machine, [*MIRRORED, *WRITTEN_HERE], MIRRORED)
    fetches = [request for _, _, _, request in machine.source.requests if isinstance(request, fetch.FetchRequest)]
    assert min(row.fetch_offset for each in fetches for topic in each.topics for row in topic.partitions) == 8
    await machine.close()


async def test_an_election_at_the_source_brings_it_back_too(tmp_path: Path) -> None:
    """The fetcher's comparison of logs finds it too, whatever starts the comparison."""
    log = log_of(tmp_path, [*MIRRORED[:3], *MIRRORED[4:], keyed((9, b"K", b"ours"))])
    source = [*MIRRORED, keyed((9, b"c", b"theirs"), epoch=2)]
    assert verdict_of(verify_log(log, cleaned_until=lambda: 0), source).action is LogAction.START_OVER
    assert verdict_of(diverged(log, 1, 9, cleaned_until=lambda: 0), source).action is LogAction.START_OVER
    assert verdict_of(out_of_range(log, cleaned_until=lambda: 0), MIRRORED).action is LogAction.START_OVER
    source = [*MIRRORED[:3], *MIRRORED[4:], keyed((9, b"c", b"theirs"), epoch=2)]
    assert verdict_of(verify_log(log, cleaned_until=lambda: 0), source)[:2] == (LogAction.CUT, 9)


@pytest.mark.parametrize("block", range(6))
async def test_after_any_two_cleaned_histories_a_built_replica_has_the_sources_keys(tmp_path: Path, block: int) -> None:
    """The same as in `test_mirror_log_comparison`, but it is unknown whether a cleaner ran."""
    kept = 0
    for seed in range(5000 + block * 60, 5060 + block * 60):
        found = case(seed)
        log = log_of(tmp_path / str(seed), found.ours)
        verdict = verdict_of(verify_log(log, cleaned_until=lambda: 0), found.theirs)
        if found.is_provable or not found.has_parted:
            assert live(carried_out(verdict, found.ours, found.theirs)) == live(found.theirs_whole), seed
        kept += verdict.action is not LogAction.START_OVER
    assert kept > 24


# --- what replaces what
# -------------------------------------------------------------------------------------------------


def answer_of(log: UnifiedLog, theirs: list[bytes], until: int) -> bool:
    def inquiry() -> Inquiry:
        return KEEP if (yield from is_complete(log, 0, until)) else Verdict(LogAction.WAIT)

    return verdict_of(inquiry(), theirs) is KEEP


def in_transaction(offset: int, key: bytes) -> bytes:
    record = Record(offset, NOW_MS, key, b"v")
    options: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    return bytes(build_batch([record], base_offset=offset, partition_leader_epoch=1, **options))


def marker(offset: int, kind: ControlRecordType) -> bytes:
    options = {"coordinator_epoch": 0, "producer_id": 7, "producer_epoch": 0, "timestamp": NOW_MS, "partition_leader_epoch": 1}
    return bytes(build_end_transaction_marker(kind, base_offset=offset, **options))


@pytest.mark.parametrize(
    ("last", "is_replaced"),
    [([marker(3, ControlRecordType.COMMIT)], True), ([marker(3, ControlRecordType.ABORT)], False), ([], False)],
    ids=["committed", "aborted", "open"],
)
async def test_only_a_committed_record_replaces_another(tmp_path: Path, last: list[bytes], is_replaced: bool) -> None:
    first = keyed((0, b"a", b"1"), (1, b"b", b"1"))
    rest = [in_transaction(2, b"a"), *last]
    log = log_of(tmp_path, [without_records(first, 0), *rest])
    assert answer_of(log, [first, *rest], 4) is is_replaced


async def test_an_earlier_record_replaces_nothing(tmp_path: Path) -> None:
    whole = [keyed((0, b"a", b"1"), (1, b"b", b"1")), keyed((2, b"a", b"2")), keyed((3, b"c", b"1"))]
    log = log_of(tmp_path, [whole[0], whole[2]])
    assert has_holes(log, 4) and not has_holes(log, 2)
    assert not answer_of(log, whole, 4) and answer_of(log, whole, 2)
    assert answer_of(log, [whole[0], whole[2]], 4)


async def test_a_long_log_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No single step keeps the worker busy for long, and a transaction may begin in one part and
    end in another.
    """
    monkeypatch.setattr("kmirror.mirror.logs.log_completeness.ALONE_IN_ITS_REQUEST_BYTES", 1)
    first = keyed((0, b"a", b"1"), (1, b"b", b"1"))
    rest = [in_transaction(2, b"a"), *[keyed((n, b"c", b"1")) for n in range(3, 9)], marker(9, ControlRecordType.COMMIT)]
    log = log_of(tmp_path, [without_records(first, 0), *rest])
    assert answer_of(log, [first, *rest], 10) and not answer_of(log, [first, *rest], 9)


async def test_keys_beyond_the_limit_are_taken_for_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [keyed((n, b"k%d" % (n % 3), b"v")) for n in range(6)]
    log = log_of(tmp_path, whole[3:])
    assert answer_of(log, whole, 6)
    monkeypatch.setattr("kmirror.mirror.logs.log_completeness.MISSING_KEYS_LIMIT", 2)
    assert not answer_of(log, whole, 6)
