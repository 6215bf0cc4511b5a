"""The 64 syncs of a partition, and translation by them."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.offset_translation import invariant_violations, read_again, skipped

from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker import offset_sync_store
from kmirror.mirrormaker.formats import OffsetSync, SchemaException
from kmirror.mirrormaker.offset_sync_store import SYNCS_PER_PARTITION, TOO_OLD, OffsetSyncStore
from kmirror.mirrormaker.offset_syncs import OffsetSyncWriter

T0 = TopicPartition("t", 0)


def store_of(syncs: list[tuple[int, int]]) -> OffsetSyncStore:
    store = OffsetSyncStore()
    store.reached_end()
    for upstream, downstream in syncs:
        store.handle_sync(OffsetSync(T0, upstream, downstream))
    return store


def mirrored(copies: list[tuple[int, int]], *, lag_max: int = 100, commit_every: int = 0) -> OffsetSyncStore:
    """What a checkpoint task has after a source task made these copies."""
    writer, store = OffsetSyncWriter(lag_max), OffsetSyncStore()
    store.reached_end()
    for number, (upstream, downstream) in enumerate(copies, 1):
        sent = writer.record_acknowledged(T0, upstream, downstream)
        if commit_every and number % commit_every == 0:
            sent += writer.commit()
        for sync in sent:
            writer.sync_done(sync)
            store.handle_sync(sync)
    return store


def test_os6_an_equal_offset_is_the_syncs_and_a_greater_one_is_the_next() -> None:
    store = store_of([(3, 12), (20, 17)])
    assert [store.translate_downstream(T0, offset) for offset in (2, 3, 4, 19, 20, 21, 99)] == [TOO_OLD, 12, 13, 13, 17, 18, 18]


def test_os6_without_a_sync_nothing_is_translated() -> None:
    assert store_of([]).translate_downstream(T0, 5) is None


def test_os4_a_rewind_of_the_source_voids_all_older_syncs() -> None:
    store = store_of([(offset, offset) for offset in range(0, 5000, 100)] + [(50, 6000)])
    assert store.kept(T0) == [(0, OffsetSync(T0, 50, 6000))]
    assert store.translate_downstream(T0, 40) == TOO_OLD


def test_os5_before_the_end_nothing_is_translated_and_only_the_last_sync_is_kept() -> None:
    store = OffsetSyncStore()
    store.start(initialization_must_read_to_end=True)
    for offset in (100, 200, 300):
        store.handle_sync(OffsetSync(T0, offset, offset))
    assert store.translate_downstream(T0, 250) is None
    store.reached_end()
    assert store.kept(T0) == [(0, OffsetSync(T0, 300, 300))] and store.translate_downstream(T0, 250) == TOO_OLD


def test_os5_with_the_checkpoints_of_an_earlier_life_all_syncs_count() -> None:
    store = OffsetSyncStore()
    store.start(initialization_must_read_to_end=False)
    for offset in (100, 200, 300):
        store.handle_sync(OffsetSync(T0, offset, offset))
    assert store.translate_downstream(T0, 250) is None, "not before the end"
    store.reached_end()
    assert store.translate_downstream(T0, 250) == 201


def test_cp4_the_ibm_example_resumes_at_12_and_skips_nothing() -> None:
    store = store_of([(3, 12)])
    assert store.translate_downstream(T0, 3) == 12
    store.handle_sync(OffsetSync(T0, 20, 17))
    assert (store.translate_downstream(T0, 20), store.translate_downstream(T0, 25)) == (17, 18)


def test_cp5_1499_records_are_read_again_at_998400_of_a_million_with_a_sync_every_100() -> None:
    store = store_of([(offset, offset) for offset in range(100, 1_000_001, 100)])
    translated = store.translate_downstream(T0, 998_400)
    assert translated == 996_901 and 998_400 - translated == 1_499
    assert [sync.upstream_offset for _, sync in store.kept(T0)][:6] == [1_000_000, 999_900, 999_700, 999_300, 998_500, 996_900]


def test_cp5_an_offset_behind_the_last_sync_is_the_next_offset_not_minus_one() -> None:
    """KIP-1292's page says that 1,000,100 of 1,000,000 does not translate; Kafka's class does."""
    store = store_of([(offset, offset) for offset in range(100, 1_000_001, 100)])
    assert store.translate_downstream(T0, 1_000_100) == 1_000_001
    assert store_of([(1_000_101, 5)]).translate_downstream(T0, 1_000_100) == TOO_OLD


def test_a_torn_record_of_the_topic_changes_nothing() -> None:
    store = store_of([(3, 12)])
    with pytest.raises(SchemaException):
        store.handle_record(b"\x00\x01", b"")
    assert store.translate_downstream(T0, 3) == 12
    store.handle_record(OffsetSync(T0, 4, 20).record_key, OffsetSync(T0, 4, 20).record_value)
    assert store.translate_downstream(T0, 4) == 20


def check_invariants(store: OffsetSyncStore, newest: OffsetSync) -> None:
    entries = [store.sync_for(T0, index) for index in range(SYNCS_PER_PARTITION)]
    assert entries[0] == newest, "A: entry 0 is the newest sync"
    same = [(i, j) for i in range(SYNCS_PER_PARTITION) for j in range(i + 1, SYNCS_PER_PARTITION) if entries[i] is entries[j]]
    assert not invariant_violations([entry.upstream_offset for entry in entries], same)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-3, 4000).filter(bool), min_size=1, max_size=80), st.integers(0, 2**40))
def test_os3_the_invariants_hold_for_all_pairs_after_every_sync(steps: list[int], start: int) -> None:
    store = store_of([])
    upstream, oldest = start, start
    for number, step in enumerate(steps):
        if upstream + step < upstream:
            oldest = max(upstream + step, 0) if upstream + step >= 0 else oldest
        upstream = upstream + step if upstream + step >= 0 else upstream + 1
        sync = OffsetSync(T0, upstream, number)
        store.handle_sync(sync)
        check_invariants(store, sync)
        assert store.sync_for(T0, SYNCS_PER_PARTITION - 1).upstream_offset >= oldest, "D: nothing from before a rewind"


def test_os4_a_log_of_the_target_that_went_back_voids_earlier_syncs() -> None:
    store = store_of([(50, 50), (99, 99)])
    assert store.handle_sync(OffsetSync(T0, 100, 0)), "it tells so"
    assert not store.handle_sync(OffsetSync(T0, 110, 10))
    assert [store.translate_downstream(T0, offset) for offset in (60, 99, 100, 105, 120)] == [TOO_OLD, TOO_OLD, 0, 1, 11]


def test_os4_another_record_at_the_last_syncs_offset_is_in_another_log() -> None:
    store = store_of([(50, 0)])
    assert not store.handle_sync(OffsetSync(T0, 50, 0)), "the same sync again says nothing"
    assert store.handle_sync(OffsetSync(T0, 51, 0))
    assert [store.translate_downstream(T0, offset) for offset in (50, 51, 60)] == [TOO_OLD, 0, 1]


def test_os3_a_record_that_is_synced_twice_is_kept_twice_as_in_kafka() -> None:
    """C does not hold there: Kafka's store takes only a smaller offset for a rewind."""
    store = store_of([(7, 3), (7, 9)])
    assert [(index, sync.downstream_offset) for index, sync in store.kept(T0)] == [(0, 9), (1, 3)]
    assert store.translate_downstream(T0, 7) == 9


@st.composite
def copied_logs(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Copies of a log with gaps, by tasks that begin again further back, to a log with gaps."""
    source = list(accumulate(draw(st.lists(st.sampled_from((1, 1, 1, 1, 2, 7)), min_size=1, max_size=300)), initial=0))
    at = downstream = 0
    copies = []
    for _ in range(draw(st.integers(1, 6))):
        at = max(0, at - draw(st.integers(0, 30)))
        for upstream in source[at : at + draw(st.integers(1, 120))]:
            copies.append((upstream, downstream))
            at += 1
            downstream += draw(st.sampled_from((1, 1, 1, 1, 2, 3)))
    return copies


@settings(max_examples=80, deadline=None)
@given(copied_logs(), st.integers(0, 20), st.integers(0, 40))
def test_os6_a_translation_never_skips_a_record(copies: list[tuple[int, int]], lag_max: int, commit_every: int) -> None:
    store = mirrored(copies, lag_max=lag_max, commit_every=commit_every)
    for offset in range(max(upstream for upstream, _ in copies) + 3):
        translated = store.translate_downstream(T0, offset)
        if translated is not None and translated != TOO_OLD:
            assert skipped(copies, offset, translated) == [], f"offset {offset} became {translated}"


@pytest.mark.parametrize(("lag_max", "worst"), [(0, 0), (10, 10), (100, 100)])
def test_os1_near_the_end_no_more_than_offset_lag_max_is_read_again(lag_max: int, worst: int) -> None:
    copies = [(offset, offset) for offset in range(1000)]
    store = mirrored(copies, lag_max=lag_max)
    translated = store.translate_downstream(T0, 1000)
    assert translated is not None and read_again(copies, 1000, translated) <= worst


def test_without_the_one_of_os6_nothing_is_skipped_but_with_two_something_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The safeguard switched off: an offset that is guessed further skips records behind a gap."""
    copies = [(0, 0), (5, 1), (6, 2)]
    store = store_of([(0, 0)])
    translated = store.translate_downstream(T0, 5)
    assert translated is not None and skipped(copies, 5, translated) == []
    monkeypatch.setattr(offset_sync_store, "translated", lambda sync, offset: sync.downstream_offset + offset - sync.upstream_offset)
    guessed = store.translate_downstream(T0, 5)
    assert guessed is not None and skipped(copies, 5, guessed) == [5, 6]
