"""KIP-101/279: whatever leaders come and go, a follower cuts its log exactly to what it has in
common with its leader.

Three replicas as plain lists of (epoch, value), changed by elections (also unclean ones), appends
and single steps of fetching. The code under test is the leader's answer (`diverging_epoch`) and the
follower's cut (`ReplicaFetcher.truncate`) over real epoch caches; the oracle compares the lists.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.logs.storage_doubles import ManualClock, ManualScheduler

from kmirror.common.topic_partition import TopicPartition
from kmirror.replica.partition_reader import diverging_epoch
from kmirror.replica.replica_fetcher import ReplicaFetcher
from kmirror.storage.leader_epoch_file_cache import LeaderEpochFileCache
from kmirror.storage.log_offset_metadata import EpochAndOffset

T0 = TopicPartition("t", 0)
REPLICAS = 3


class MemoryCheckpoint:
    def read(self) -> list[Any]:
        return []

    def write(self, entries: list[Any]) -> None:
        self.entries = list(entries)

    def write_if_dir_exists(self, entries: list[Any]) -> None:
        self.entries = list(entries)


class ListLog:
    """A log as a list; what `diverging_epoch` and the fetcher's cut ask of one.

    It is its own partition and replica manager.
    """

    def __init__(self) -> None:
        self.records: list[tuple[int, int]] = []
        self.cache = LeaderEpochFileCache(T0, MemoryCheckpoint(), ManualScheduler(ManualClock(0)))  # type: ignore[arg-type]
        self.high_watermark = 0
        self.log_start_offset = 0
        self.leader_epoch = 0
        self.local_log = self
        self.quotas = self
        self.follower = None

    def get_partition_or_exception(self, topic_partition: TopicPartition) -> ListLog:
        return self

    @property
    def log_end_offset(self) -> int:
        return len(self.records)

    @property
    def latest_epoch(self) -> int | None:
        return self.cache.latest_epoch

    def end_offset_for_epoch(self, epoch: int) -> EpochAndOffset | None:
        found = self.cache.end_offset_for(epoch, self.log_end_offset)
        return None if found.offset < 0 else found

    def append(self, epoch: int, value: int) -> None:
        self.cache.assign(epoch, self.log_end_offset)
        self.records.append((epoch, value))

    def truncate_to(self, offset: int, *, at_batch_boundary: bool) -> None:
        del self.records[offset:]
        self.cache.truncate_from_end_async_flush(offset)


def common_prefix(one: ListLog, other: ListLog) -> int:
    length = 0
    while length < min(len(one.records), len(other.records)) and one.records[length] == other.records[length]:
        length += 1
    return length


def fetch_once(follower: ListLog, leader: ListLog) -> None:
    """One round of a fetcher: a cut or one record.

    A follower never cuts into what it has in common with the leader.
    """
    common = common_prefix(follower, leader)
    epoch = follower.latest_epoch
    diverging = None if epoch is None else diverging_epoch(leader, leader, follower.log_end_offset, epoch)  # type: ignore[arg-type]
    if diverging is not None:
        before = follower.log_end_offset, epoch
        ReplicaFetcher(follower).truncate(T0, diverging)  # type: ignore[arg-type]
        assert common <= follower.log_end_offset <= before[0]
        assert (follower.log_end_offset, follower.latest_epoch) != before, (
            "a cut that cuts nothing, not even an empty epoch, repeats for ever"
        )
    elif follower.log_end_offset < leader.log_end_offset:
        assert follower.log_end_offset == common, "a follower that is served has nothing but the leader's records"
        follower.append(*leader.records[follower.log_end_offset])
    else:
        assert follower.records == leader.records


steps = st.lists(
    st.one_of(
        st.tuples(st.just("elect"), st.integers(0, REPLICAS - 1), st.integers(1, 3)),
        st.tuples(st.just("append"), st.integers(1, 4), st.just(0)),
        st.tuples(st.just("fetch"), st.integers(0, REPLICAS - 1), st.integers(1, 5)),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(steps)
def test_a_follower_cuts_exactly_to_the_common_prefix_and_becomes_equal(history: list[tuple[str, int, int]]) -> None:
    logs = [ListLog() for _ in range(REPLICAS)]
    leader, epoch, value = 0, 0, 0
    for kind, argument, count in history:
        if kind == "elect":
            leader, epoch = argument, epoch + count
            logs[leader].leader_epoch = epoch
            logs[leader].cache.assign(epoch, logs[leader].log_end_offset)
        elif kind == "append":
            for _ in range(argument):
                value += 1
                logs[leader].append(epoch, value)
        elif argument != leader:
            for _ in range(count):
                fetch_once(logs[argument], logs[leader])
    for number, follower in enumerate(logs):
        if number != leader:
            for _ in range(10 * (len(history) + 10)):
                fetch_once(follower, logs[leader])
            assert follower.records == logs[leader].records
