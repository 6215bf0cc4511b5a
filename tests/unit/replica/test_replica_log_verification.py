"""A follower of a mirror topic keeps exactly the batches that its leader has, even where the epochs
of both are equal (C36b).
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from support.brokers.broker_doubles import NOW_MS, BrokerWorld, ManualRuntime, batch_of
from support.logs.cleaned_histories import case, end_of, live, split

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.builder import build_batch, rebuild_batch
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch
from kmirror.replica.abstract_fetcher import AbstractFetcher
from kmirror.replica.leader_end_point import FetchData, PartitionFetchState
from kmirror.replica.replica_fetcher import ReplicaFetcher
from kmirror.replica.replica_types import DivergingEpoch
from kmirror.wire.messages.feature_level_record import FeatureLevelRecord

T0 = TopicPartition("t", 0)


def history(*values: bytes, start: int = 0, epoch: int = 0) -> list[bytes]:
    """Batches, one a value, each value as often as it is long."""
    batches, offset = [], start
    for value in values:
        batches.append(bytes(batch_of(*[value] * len(value), base_offset=offset, partition_leader_epoch=epoch)))
        offset += len(value)
    return batches


def without_records(batch: bytes, *offsets: int) -> bytes:
    """What a cleaner leaves of a batch when it takes these records: the offsets of the batch stay."""
    header = RecordBatch(batch)
    return bytes(rebuild_batch(header, [record for record in header.records() if record.offset not in offsets]))


def keyed(*rows: tuple[int, bytes, bytes | None]) -> bytes:
    """One batch of (offset, key, value)."""
    records = [Record(offset, NOW_MS + offset, key, value) for offset, key, value in rows]
    return bytes(build_batch(records, base_offset=rows[0][0], partition_leader_epoch=0))


class Follower:
    """Broker 1 follows broker 2, whose log is `leader`: batches from offset `leader_start` on."""

    def __init__(self, tmp_path: Path, *, configs: dict[str, str] | None = None) -> None:
        self.world = BrokerWorld(str(tmp_path), others=(2,))
        self.topic_id = self.world.create_topic(
            "t", replicas=(1, 2), leader=2, configs={"mirror.name": "m"} if configs is None else configs
        )
        self.hooks = ReplicaFetcher(self.world.replica_manager)
        self.log = self.world.partition("t").log

    def have(self, batches: list[bytes]) -> None:
        for batch in batches:
            self.world.partition("t").append_records_to_follower(bytearray(batch), leader_epoch=99)

    def follow(
        self, leader: list[bytes], *, leader_start: int = 0, batches_a_fetch: int = 100, max_rounds: int = 60, high_watermark: int = 0
    ) -> list[int]:
        """Fetch until equal; the offsets that were fetched from."""
        offset = self.hooks.first_fetch_offset(T0, self.log.log_end_offset)
        offsets = []
        for _ in range(max_rounds):
            offsets.append(offset)
            rest = [batch for batch in leader if int.from_bytes(batch[:8], "big") + int.from_bytes(batch[23:27], "big") >= offset]
            answer = b"".join(rest[:batches_a_fetch])
            data = FetchData(Errors.NONE, high_watermark, leader_start, answer)
            offset, _ = self.hooks.process_partition_data(T0, PartitionFetchState(self.topic_id, offset, 99, 99), data)
            if not rest and offset == offsets[-1] and not self.hooks.verification.is_pending(T0):
                break
        return offsets

    def content(self) -> bytes:
        return b"".join(path.read_bytes() for path in sorted(Path(self.log.directory).glob("*.log")))


class IdleLeader:
    """Answers as a fetch session does: a partition without news is missing."""

    def __init__(self, batches: list[bytes]) -> None:
        self.batches = batches
        self.asked_for_end = 0

    async def fetch(
        self, partitions: Mapping[TopicPartition, PartitionFetchState], touched: object, **options: object
    ) -> dict[TopicPartition, FetchData]:
        rest = [batch for batch in self.batches if int.from_bytes(batch[:8], "big") >= partitions[T0].fetch_offset]
        return {T0: FetchData(Errors.NONE, 0, 0, b"".join(rest))} if rest else {}

    async def fetch_earliest_offset(self, topic_partition: TopicPartition, current_leader_epoch: int) -> int:
        return 0

    async def fetch_latest_offset(self, topic_partition: TopicPartition, current_leader_epoch: int) -> int:
        self.asked_for_end += 1
        return sum(int.from_bytes(batch[23:27], "big") + 1 for batch in self.batches)

    async def close(self) -> None:
        return None


async def test_equal_logs_are_told_by_one_batch(tmp_path: Path) -> None:
    follower, batches = Follower(tmp_path), history(b"a", b"bb", b"c")
    follower.have(batches)
    more = batches + history(b"dd", start=4)
    assert follower.follow(more) == [3, 6]
    assert follower.content() == b"".join(more)


async def test_an_answer_that_had_no_room_for_the_batch_emptied_the_log(tmp_path: Path) -> None:
    """Many partitions are verified at a time, and the response has room for some: the only batch of
    a log was cut for that, below the high watermark, and in the ISR.
    """
    follower, batches = Follower(tmp_path), history(b"aaa")
    follower.have(batches)
    offset = follower.hooks.first_fetch_offset(T0, 3)
    for _ in range(3):
        data = FetchData(Errors.NONE, 3, 0, b"")
        offset, _ = follower.hooks.process_partition_data(T0, PartitionFetchState(follower.topic_id, offset, 0, 0), data)
        assert (offset, follower.log.log_end_offset) == (0, 3)
    data = FetchData(Errors.NONE, 3, 0, b"".join(batches))
    offset, _ = follower.hooks.process_partition_data(T0, PartitionFetchState(follower.topic_id, offset, 0, 0), data)
    assert (offset, follower.log.log_end_offset, follower.hooks.verification.is_pending(T0)) == (3, 3, False)


async def test_a_leader_whose_cleaner_took_the_last_batch_is_not_asked_for_ever(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    follower.have(history(b"aaa"))
    offset = follower.hooks.first_fetch_offset(T0, 3)
    for _ in range(50):
        data = FetchData(Errors.NONE, 3, 0, b"")
        offset, _ = follower.hooks.process_partition_data(T0, PartitionFetchState(follower.topic_id, offset, 0, 0), data)
    assert not follower.hooks.verification.is_pending(T0)


async def test_a_history_of_equal_epochs_and_offsets_is_not_taken_for_the_leaders(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    common = history(b"a", b"b", b"c")
    follower.have(common + history(b"x", b"y", b"z", start=3))
    leader = common + history(b"1", b"2", start=3)
    follower.follow(leader)
    assert follower.content() == b"".join(leader)


@pytest.mark.parametrize("seed", range(25))
async def test_any_two_histories_end_as_the_leaders(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)

    def some(count: int, start: int, letter: int) -> list[bytes]:
        return history(*[bytes([letter + chance.randrange(3)]) * chance.randint(1, 3) for _ in range(count)], start=start)

    def end_of(batches: list[bytes]) -> int:
        return 0 if not batches else int.from_bytes(batches[-1][:8], "big") + int.from_bytes(batches[-1][23:27], "big") + 1

    follower = Follower(tmp_path)
    common = some(chance.randint(0, 12), 0, 97)
    follower.have(common + some(chance.randint(0, 12), end_of(common), 107))
    leader = common + some(chance.randint(0, 12), end_of(common), 117)
    if chance.random() < 0.3:
        leader = leader[: len(leader) // 2]
    before = follower.content()
    follower.follow(leader, batches_a_fetch=chance.choice((1, 2, 100)))
    assert follower.content() == b"".join(leader)
    shared = len(common[: len(leader)])
    assert before.startswith(b"".join(common[:shared]))


async def test_the_followers_of_a_throttled_leader_were_not_verified(tmp_path: Path) -> None:
    """Most of its answers have no records; the log is compared when some come, and is not cut
    before.
    """
    follower = Follower(tmp_path, configs={"mirror.name": "m", "leader.replication.throttled.replicas": "0:2"})
    follower.have(history(b"a", b"x"))
    leader = history(b"a", b"b", b"c")
    offset = follower.hooks.first_fetch_offset(T0, 2)
    for _ in range(50):
        data = FetchData(Errors.NONE, 3, 0, b"")
        offset, _ = follower.hooks.process_partition_data(T0, PartitionFetchState(follower.topic_id, offset, 0, 0), data)
        assert (offset, follower.log.log_end_offset) == (1, 2)
    for answer in (leader[1:], leader, leader[1:]):
        data = FetchData(Errors.NONE, 3, 0, b"".join(answer))
        offset, _ = follower.hooks.process_partition_data(T0, PartitionFetchState(follower.topic_id, offset, 0, 0), data)
    assert follower.content() == b"".join(leader)


@pytest.mark.parametrize(
    ("configs", "at"),
    [({"mirror.name": "m"}, 17), ({"mirror.name": "m"}, 45), ({"cleanup.policy": "compact"}, 45)],
    ids=["crc", "producer id", "producer id, compacted"],
)
async def test_what_is_damaged_at_the_leader_is_not_cut_off_here(tmp_path: Path, configs: dict[str, str], at: int) -> None:
    """It was taken for another batch, and the only good copy went."""
    follower, batches = Follower(tmp_path, configs=configs), history(b"a", b"bb", b"c")
    follower.world.apply(FeatureLevelRecord(name="mirror.version", feature_level=1))
    follower.have(batches)
    kept = follower.content()
    damaged = bytearray(batches[-1])
    damaged[at] ^= 0x55
    with pytest.raises(ApiException, match="Record is corrupt") as refused:
        follower.follow([*batches[:-1], bytes(damaged)])
    assert refused.value.error is Errors.CORRUPT_MESSAGE and follower.content() == kept
    assert follower.follow(batches) and follower.content() == kept


async def test_what_comes_damaged_behind_the_verified_part_is_fetched_again(tmp_path: Path) -> None:
    """The log was verified by then, and the next answer, to the old offset, made the partition a
    failed one.
    """
    follower, batches = Follower(tmp_path), history(b"a", b"bb", b"c")
    follower.have(batches[:2])
    offset = follower.hooks.first_fetch_offset(T0, follower.log.log_end_offset)
    damaged = bytearray(batches[2])
    damaged[-1] ^= 0x55
    state = PartitionFetchState(follower.topic_id, offset, 99, 99)
    with pytest.raises(ApiException, match="Record is corrupt") as refused:
        follower.hooks.process_partition_data(T0, state, FetchData(Errors.NONE, 0, 0, batches[1] + bytes(damaged)))
    assert refused.value.error is Errors.CORRUPT_MESSAGE
    for answer, end in ((batches[1] + batches[2], 3), (batches[2], 4)):
        data = FetchData(Errors.NONE, 0, 0, answer)
        offset, _ = follower.hooks.process_partition_data(T0, replace(state, fetch_offset=offset), data)
        assert offset == follower.log.log_end_offset == end
    assert follower.content() == b"".join(batches)
    with pytest.raises(ApiException, match="Offset mismatch"):
        follower.hooks.process_partition_data(T0, state, data)


async def test_an_empty_log_that_begins_too_late_starts_over_and_a_divergence_begins_the_comparison_anew(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    follower.log.truncate_fully_and_start_at(10)
    leader = history(b"a", b"b", start=5)
    follower.follow(leader, leader_start=5)
    assert (follower.log.log_start_offset, follower.content()) == (5, b"".join(leader))
    follower.have(history(b"x", start=7))
    follower.hooks.first_fetch_offset(T0, 8)
    assert follower.hooks.truncate(T0, DivergingEpoch(0, 7))[0] == 6, "the base of what is the last batch now"
    assert follower.hooks.verification.is_pending(T0)


async def test_a_topic_whose_mirror_was_deleted_while_the_follower_was_away_is_verified(tmp_path: Path) -> None:
    """`mirror.name` is gone, but the follower still has its own batches of the same epoch (F5)."""
    follower = Follower(tmp_path, configs={"cleanup.policy": "delete"})
    follower.world.apply(FeatureLevelRecord(name="mirror.version", feature_level=1))
    common = history(b"a", b"b", b"c")
    follower.have(common + history(b"x", b"y", b"z", start=3))
    leader = common + history(b"1", b"2", start=3)
    follower.follow(leader)
    assert follower.content() == b"".join(leader)


@pytest.mark.parametrize(("theirs", "is_kept"), [("gone", True), ("rewritten", True), ("other epoch", False)])
@pytest.mark.parametrize(
    "configs", [{"cleanup.policy": "compact"}, {"mirror.name": "m.removed"}, {"cleanup.policy": "compact", "mirror.name": "m"}]
)
async def test_what_the_leaders_cleaner_did_is_no_difference(tmp_path: Path, theirs: str, is_kept: bool, configs: dict[str, str]) -> None:
    """The leader's batch may be gone, or have lost records; another epoch at its offset is a
    difference.
    """
    follower = Follower(tmp_path, configs=configs)
    common = history(b"a", b"b")
    follower.have(common + history(b"xx", start=2))
    last = []
    if theirs == "rewritten":
        last = [without_records(history(b"xx", start=2)[0], 2)]
    elif theirs == "other epoch":
        last = history(b"yy", start=2, epoch=1)
    before = follower.content()
    follower.follow(common + last, max_rounds=30, high_watermark=4)
    assert not follower.hooks.verification.is_pending(T0)
    assert follower.content().startswith(before) is is_kept


async def test_a_follower_that_came_back_after_the_downgrade_of_the_feature_was_not_verified(tmp_path: Path) -> None:
    """The mirrors were deleted and mirror.version lowered to 0 while it was away; its own batches
    of equal epochs stayed.
    """
    follower = Follower(tmp_path, configs={"cleanup.policy": "delete"})
    common = history(b"a", b"b", b"c")
    follower.have(common + history(b"x", b"y", b"z", start=3))
    leader = common + history(b"1", b"2", start=3)
    follower.follow(leader)
    assert follower.content() == b"".join(leader)


@pytest.mark.parametrize("common", [1, 2, 3])
async def test_the_end_of_an_idle_leaders_log_is_heard(tmp_path: Path, common: int) -> None:
    """Mirrors, seed 17674: a follower that was ahead waited for the leader's next record to find
    that its own last ones are nobody's; and it counted as in sync.
    """
    follower, batches = Follower(tmp_path), history(b"a", b"bb", b"ccc")
    follower.have(batches)
    leader = IdleLeader(batches[:common])
    fetcher = AbstractFetcher(ManualRuntime(), "f", leader, follower.hooks, backoff_ms=1)
    begin = follower.hooks.first_fetch_offset(T0, follower.log.log_end_offset)
    fetcher.add_partitions({T0: PartitionFetchState(follower.topic_id, begin, 0, 0)})
    for _ in range(8):
        await fetcher.do_work()
    assert follower.content() == b"".join(batches[:common])
    asked = leader.asked_for_end
    await fetcher.do_work()
    assert leader.asked_for_end == asked <= 3


@pytest.mark.parametrize("name", ["m", "m.removed", None])
async def test_a_tombstone_that_the_leader_has_dropped_was_cut(tmp_path: Path, name: str | None) -> None:
    """A follower of a compacted topic was away for longer than tombstones are kept.

    Its last batches lie in a hole that the leader's cleaner left. Once, they were cut after the
    last equal batch, and the deleted key came back.
    """
    configs = {"cleanup.policy": "compact"} | ({} if name is None else {"mirror.name": name})
    follower = Follower(tmp_path, configs=configs)
    first = keyed((0, b"customer-1", b"personal data"), (1, b"x", b"1"))
    ours = [first, keyed((2, b"a", b"1")), keyed((3, b"customer-1", None)), keyed((4, b"b", b"1"))]
    follower.have(ours)
    follower.follow([without_records(first, 0), ours[1], keyed((5, b"b", b"2"))], high_watermark=6)
    assert live(split(follower.content())) == {b"x": b"1", b"a": b"1", b"b": b"2"}


async def test_a_difference_behind_a_hole_is_no_reason_to_guess_where_the_logs_part(tmp_path: Path) -> None:
    """What we have in the hole may be the leader's tombstone, or a record that nobody else has:
    everything is copied again.
    """
    follower = Follower(tmp_path, configs={"cleanup.policy": "compact"})
    first = keyed((0, b"customer-1", b"personal data"), (1, b"x", b"1"))
    follower.have([first, keyed((2, b"customer-1", None)), keyed((3, b"a", b"ours"))])
    leader = [without_records(first, 0), keyed((3, b"a", b"theirs"))]
    follower.follow(leader, high_watermark=4)
    assert follower.content() == b"".join(leader)


@pytest.mark.parametrize("block", range(6))
async def test_after_any_two_cleaned_histories_the_live_keys_are_the_leaders(tmp_path: Path, block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        found = case(seed)
        follower = Follower(tmp_path / str(seed), configs={"cleanup.policy": "compact"})
        follower.have(found.ours)
        follower.world.replica_manager.log_manager.cleaned_until = lambda log, found=found: found.cleaned_until
        follower.follow(found.theirs, high_watermark=end_of(found.theirs), batches_a_fetch=random.Random(seed).choice((1, 2, 100)))
        left = split(follower.content())
        if found.is_provable or not found.has_parted:
            assert live(left) == live(found.theirs_whole), seed
        if not found.is_provable:
            assert left[: len(found.ours)] == found.ours, seed
