"""`kmirror replay`: its schedule, its selection, the batches that it sends, its progress."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from support.logs.log_folders import batch, records, write_log
from support.tools.replay_destination import Destination, recorded, replay

from kmirror.admin.results import PartitionDescription, TopicDescription
from kmirror.cli.log_diff_inputs import FolderInput
from kmirror.cli.replay import parse_time
from kmirror.cli.replay_batches import replay_batch
from kmirror.cli.replay_pace import Schedule, parse_speed
from kmirror.cli.replay_partition import PartitionOutcome
from kmirror.cli.replay_plan import Plan, Selection, make_plan, missing_topics, parse_rename
from kmirror.cli.replay_progress import Progress, rates, shown
from kmirror.cli.replay_report import report
from kmirror.cli.replay_run import Destination as RealDestination
from kmirror.cli.replay_served import RecordedFiles
from kmirror.cli.replay_source import RecordedPartition, block_bytes, blocks_from, first_time
from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.record.builder import build_batch
from kmirror.record.compression import CompressionType
from kmirror.record.record import Record
from kmirror.record.record_batch import RECORD_BATCH_OVERHEAD, RecordBatch, TimestampType
from kmirror.runtime.os_files import OsFileSystem

FILES = OsFileSystem()


# -- the schedule
# -----------------------------------------------------------------------------------------------------------------


def test_a_batch_is_due_when_its_time_has_come_at_the_speed_that_is_wished() -> None:
    original, tenfold = Schedule(1_000, 500_000, 1.0), Schedule(1_000, 500_000, 10.0)
    assert [original.wait_ms(timestamp, 1_000) for timestamp in (500_000, 500_250, 560_000)] == [0, 250, 60_000]
    assert [tenfold.wait_ms(timestamp, 1_000) for timestamp in (500_000, 500_250, 560_000)] == [0, 25, 6_000]
    assert tenfold.wait_ms(560_000, 6_500) == 500
    assert tenfold.wait_ms(560_000, 7_500) == 0 and tenfold.lag_ms(560_000, 7_500) == 500


def test_nothing_waits_at_full_speed_or_for_a_record_without_a_time() -> None:
    assert Schedule(0, 0, None).wait_ms(1 << 60, 0) == 0 == Schedule(0, 0, None).lag_ms(0, 1 << 60)
    assert Schedule(0, 0, 1.0).wait_ms(-1, 0) == 0


@pytest.mark.parametrize(("text", "speed"), [("1", 1.0), ("2.5", 2.5), (".5", 0.5), ("10x", 10.0), ("max", None)])
def test_a_speed_is_a_number_or_max(text: str, speed: float | None) -> None:
    assert parse_speed(text) == speed


@pytest.mark.parametrize("text", ["0", "-1", "fast", "", "1e3", "0.0", "nan"])
def test_any_other_speed_is_refused(text: str) -> None:
    with pytest.raises(KmirrorError, match="--speed takes a number above 0"):
        parse_speed(text)


def test_batches_wait_for_their_time_and_never_come_before_it(tmp_path: Path) -> None:
    write_log(tmp_path / "data" / "t-0", *(batch(first, 5) for first in range(0, 50, 5)))
    partition = recorded(tmp_path / "data")
    first = first_time(FILES, partition, 0)
    assert first == 1_750_000_000_004  # of the last record in the first batch
    destination = Destination(transactions_v2=True)
    began_ms = 1_900_000_000_000  # in years from now: so nothing is due, but for what has no time
    outcome = replay(partition, destination, tmp_path / "state", schedule=Schedule(began_ms, first, 1.0), stops_after_ms=50)
    assert isinstance(outcome, PartitionOutcome) and not outcome.is_complete and not destination.log


# -- what is replayed, and where
# ----------------------------------------------------------------------------------------------------


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    for name in ("orders-0", "orders-1", "orders-2", "eu.payments-0", "__consumer_offsets-3"):
        write_log(tmp_path / "data" / name, batch(0))
    return tmp_path / "data"


def plan_of(data_dir: Path, **wanted: object) -> dict[str, str]:
    renames = tuple(parse_rename(text) for text in wanted.pop("renames", ()))  # type: ignore[attr-defined]
    plan = make_plan(FolderInput(str(data_dir)), str(data_dir), Selection(renames=renames, **wanted))  # type: ignore[arg-type]
    return {str(one.source): str(one.target) for one in plan.partitions}


def test_everything_but_kafkas_own_topics_is_replayed_under_its_name(data_dir: Path) -> None:
    assert plan_of(data_dir) == {name: name for name in ("eu.payments-0", "orders-0", "orders-1", "orders-2")}


def test_topics_and_partitions_are_chosen_and_renamed(data_dir: Path) -> None:
    assert plan_of(data_dir, topics="ord.*", partitions=frozenset({1})) == {"orders-1": "orders-1"}
    renamed = plan_of(data_dir, renames=(r"eu\.(.*)=\1.again", "orders=bills"))
    assert renamed == {"eu.payments-0": "payments.again-0", "orders-0": "bills-0", "orders-1": "bills-1", "orders-2": "bills-2"}
    assert plan_of(data_dir, topics="__.*", renames=("__consumer_offsets=commits",)) == {"__consumer_offsets-3": "commits-3"}


@pytest.mark.parametrize("text", ["a", "=b", "a=", "(=b", r"a=\1"])
def test_a_rename_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(KmirrorError, match="--rename"):
        parse_rename(text)


def test_two_partitions_with_one_target_are_refused(data_dir: Path) -> None:
    with pytest.raises(KmirrorError, match=r"^eu\.payments-0 and orders-0 would both be replayed into all-0"):
        plan_of(data_dir, renames=(".*=all",))


def test_a_topic_is_created_with_the_recordings_number_of_partitions(data_dir: Path) -> None:
    plan = make_plan(FolderInput(str(data_dir)), str(data_dir), Selection(topics="orders", partitions=frozenset({0})))
    (created,) = missing_topics(plan, {}, create=True, replication_factor=2, configs={"retention.ms": "5"})
    assert (created.name, created.num_partitions, created.replication_factor) == ("orders", 3, 2)
    assert created.configs == {"retention.ms": "5", "message.timestamp.type": "CreateTime"}
    with pytest.raises(KmirrorError, match="the destination has no topic orders; --create-topics creates it"):
        missing_topics(plan, {}, create=False, replication_factor=-1, configs={})


def test_a_topic_needs_the_partitions_that_are_replayed_and_no_more(data_dir: Path) -> None:
    def found(count: int) -> dict[str, TopicDescription]:
        return {"orders": TopicDescription("orders", Uuid.ZERO, False, [PartitionDescription(n, 1, 0, [1], [1]) for n in range(count)])}

    def ask(partitions: frozenset[int] | None, count: int) -> Plan:
        plan = make_plan(FolderInput(str(data_dir)), str(data_dir), Selection(topics="orders", partitions=partitions))
        assert missing_topics(plan, found(count), create=True, replication_factor=-1, configs={}) == []
        return plan

    assert len(ask(None, 3).partitions) == 3 and len(ask(frozenset({0, 1}), 2).partitions) == 2
    with pytest.raises(KmirrorError, match="topic orders has 2 partitions at the destination, and the recording has 3"):
        ask(None, 2)


def test_bounds_in_time_leave_batches_out(tmp_path: Path) -> None:
    write_log(tmp_path / "data" / "t-0", *(batch(first, 5) for first in range(0, 50, 5)))
    recording = FolderInput(str(tmp_path / "data"))
    wanted = Selection(first_timestamp=1_750_000_000_010, last_timestamp=1_750_000_000_029)
    (partition,) = make_plan(recording, "", wanted).partitions
    destination = Destination(transactions_v2=True)
    replay(partition, destination, None)
    assert [value for _, _, value, _ in destination.uncommitted()] == [b"value-%d" % offset for offset in range(10, 30)]


@pytest.mark.parametrize("text", ["1700000000000", "2023-11-14T22:13:20Z", "2023-11-14 22:13:20", "2023-11-14T23:13:20+01:00"])
def test_times_are_milliseconds_or_iso_8601(text: str) -> None:
    assert parse_time(text, "--starting-timestamp") == 1_700_000_000_000


def test_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(KmirrorError, match="--ending-timestamp takes ms since 1970 or a time such as"):
        parse_time("yesterday", "--ending-timestamp")


# -- batches
# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", list(CompressionType))
def test_a_batchs_records_stay_the_bytes_that_they_are(codec: CompressionType) -> None:
    read = RecordBatch(build_batch(records(100, 7), base_offset=100, compression=codec, partition_leader_epoch=9))
    outgoing = replay_batch(read)
    assert outgoing is not None
    sent = RecordBatch(outgoing.encoded(77, 3, 20))
    sent.ensure_valid()
    assert sent.memory[RECORD_BATCH_OVERHEAD:] == read.memory[RECORD_BATCH_OVERHEAD:]
    assert (sent.producer_id, sent.producer_epoch, sent.base_sequence, sent.compression) == (77, 3, 20, codec)
    assert (sent.base_offset, sent.last_offset_delta, sent.partition_leader_epoch) == (0, 6, -1)
    assert [one.timestamp for one in sent.records()] == [one.timestamp for one in read.records()]


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.ZSTD])
def test_holes_and_times_of_the_broker_and_delete_horizons_are_written_anew(codec: CompressionType) -> None:
    kept = [Record(offset, 1_000 + offset, b"k", b"v%d" % offset, [("h", None)]) for offset in (10, 13, 14)]
    holes = build_batch(kept, base_offset=10, last_offset=20, compression=codec)
    horizon = build_batch(kept, base_offset=10, compression=codec, delete_horizon_ms=5_000)
    appended = build_batch(kept, base_offset=10, compression=codec, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=9_000)
    for data, times in ((holes, [1_010, 1_013, 1_014]), (horizon, [1_010, 1_013, 1_014]), (appended, [9_000] * 3)):
        outgoing = replay_batch(RecordBatch(data))
        assert outgoing is not None and outgoing.next_offset == RecordBatch(data).next_offset
        sent = RecordBatch(outgoing.encoded(1, 0, 0))
        assert (sent.record_count, sent.last_offset_delta, sent.attributes) == (3, 2, int(codec))
        assert [(one.timestamp, bytes(one.value or b""), one.headers) for one in sent.records()] == [
            (time_ms, b"v%d" % record.offset, [("h", None)]) for time_ms, record in zip(times, kept)
        ]


def test_a_batch_that_begins_below_the_log_start_is_cut_there() -> None:
    outgoing = replay_batch(RecordBatch(batch(10, 5)), first_offset=12)
    assert outgoing is not None and (outgoing.offset, outgoing.record_count, outgoing.next_offset) == (12, 3, 15)
    assert replay_batch(RecordBatch(batch(10, 5)), first_offset=15) is None


def test_blocks_go_on_where_they_ended_over_segments(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "t-0"
    write_log(folder, *(batch(first, 5) for first in range(0, 50, 5)))
    write_log(folder, *(batch(first, 5) for first in range(50, 100, 5)), base_offset=50)
    partition: RecordedPartition = recorded(tmp_path / "data")
    for size in (1, 300, 1 << 20):
        for offset in (0, 5, 45, 50, 77, 100):
            found = [one.base_offset for block in blocks_from(FILES, partition, offset, size=size) for one in block]
            assert found == list(range(offset // 5 * 5, 100, 5))
    assert block_bytes(1) == 4 << 20 and block_bytes(10_000) == 64 << 10


# -- progress
# -----------------------------------------------------------------------------------------------------------------------


def test_progress_is_rates_and_the_worst_lag_since_it_was_shown() -> None:
    now = [100.0]
    lines: list[dict[str, object]] = []
    progress = Progress(10_000_000, 1_000_000, lambda one: lines.append(one.facts()), 10.0, now=lambda: now[0])
    for seconds, lag_ms in ((4.0, 500.0), (9.0, 2_500.0), (10.0, 100.0), (15.0, 0.0), (20.0, 50.0)):
        now[0] = 100.0 + seconds
        progress.told(100, 1_000_000, lag_ms)
    assert [(line["records"], line["bytes_done"], line["mb_per_s"], line["lag_ms"]) for line in lines] == [
        (300, 4_000_000, 0.3, 2_500),
        (500, 6_000_000, 0.25, 50),
    ]
    assert rates(progress, is_paced=True) == "500 records, 5.0 MB, 25 records/s, 0.25 MB/s, 0.1 s behind the schedule"


def test_a_count_of_transactions_says_what_it_counts(capsys: pytest.CaptureFixture[str]) -> None:
    """40 transactions over three partitions were "120 committed"."""
    progress = Progress(100, 0, lambda one: None, 1.0, now=lambda: 0.0)
    partitions = [RecordedPartition("", None, one, one) for one in (TopicPartition("t", number) for number in range(3))]  # type: ignore[arg-type]
    outcomes = [PartitionOutcome(f"t-{number}", f"t-{number}", 9, committed=40, aborted=1, is_complete=True) for number in range(3)]
    report(progress, outcomes, Plan(partitions), RealDestination("b:1"), as_json=False)
    assert "transactions, one for each partition that a recorded one wrote to: 120 committed, 3 aborted\n" in capsys.readouterr().out
    outcomes[0].records_again, outcomes[0].left_open = 7, [5]
    report(progress, outcomes, Plan(partitions), RealDestination("b:1"), as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2] == "7 of these records were sent again, because the destination had ended their transaction"
    assert lines[-1].endswith("120 committed, 3 aborted, 1 of them open where the recording ends")
    report(progress, outcomes, Plan(partitions), RealDestination("b:1"), as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["transactions"] == {"committed": 120, "aborted": 3, "open_at_the_end": 1, "counted_per": "partition"}
    assert [one["records_again"] for one in found["partitions"]] == [7, 0, 0]


def test_progress_is_lines_elsewhere_and_json_if_asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with shown(100, 0, as_json=False, is_paced=False) as progress:
        progress.told(1, 50, 0.0)
        progress.show()
        assert sys.stderr.getvalue().startswith("50 %: 1 records, 50 bytes, ")  # type: ignore[attr-defined]
    with shown(100, 0, as_json=True, is_paced=False) as progress:
        progress.show()
    assert json.loads(capsys.readouterr().out)["event"] == "progress"


# -- served files
# -------------------------------------------------------------------------------------------------------------------


def test_a_recorded_segment_cannot_be_written_to_and_ends_where_it_is_sound(tmp_path: Path) -> None:
    recorded_log = write_log(tmp_path / "t-0", batch(0), b"torn") / "00000000000000000000.log"
    before = (recorded_log.read_bytes(), recorded_log.stat().st_mtime_ns)
    files, link = RecordedFiles(), str(tmp_path / "link.log")
    Path(link).symlink_to(recorded_log)
    files.ends[link] = len(batch(0))
    file = files.open(link, create=True, write=True)
    for write in (lambda: file.pwrite(b"x", 0), lambda: file.pwritev([b"x"], 0), lambda: file.truncate(0)):
        with pytest.raises(OSError):
            write()
    assert file.size() == files.size(link) == len(batch(0)) and file.pread(1 << 20, 0) == batch(0)
    file.close()
    files.set_mtime_ms(link, 5)
    files.rename(link, f"{link}.deleted")
    files.remove(f"{link}.deleted")
    assert (recorded_log.read_bytes(), recorded_log.stat().st_mtime_ns) == before
