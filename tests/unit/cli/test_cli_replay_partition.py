"""One partition's replay: equal records, transactions as they ended, and a process that dies at
every request.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from support.logs.replay_stories import PARTITION, Story
from support.tools.replay_destination import Destination, recorded, replay, views

from kmirror.cli.replay_partition import PartitionOutcome
from kmirror.cli.replay_source import RecordedPartition
from kmirror.common.errors import Errors, KmirrorError
from kmirror.runtime.os_files import OsFileSystem
from kmirror.verify.offset_lookup import log_end_offset

VERSIONS = pytest.mark.parametrize("v2", [False, True], ids=["transactions v1", "transactions v2"])


def told(folder: Path, seed: int, steps: int, *, others: tuple[str, ...] = ("roll", "epoch"), policy: str = "delete") -> RecordedPartition:
    story = Story(folder, seed, others=others, policy=policy)
    story.tell(steps)
    story.end()
    return recorded(folder)


def finished(partition: RecordedPartition, destination: Destination, state: Path | None) -> PartitionOutcome:
    outcome = replay(partition, destination, state)
    assert isinstance(outcome, PartitionOutcome) and outcome.is_complete
    return outcome


@VERSIONS
@pytest.mark.parametrize("seed", range(8))
def test_what_consumers_see_is_what_was_recorded(tmp_path: Path, seed: int, v2: bool) -> None:
    others = ("roll", "epoch", "reset", "restart", "truncate", "delete_records", "clean")
    partition = told(tmp_path / "data", seed, 120, others=others, policy="compact,delete" if seed % 2 else "delete")
    destination = Destination(transactions_v2=v2)
    finished(partition, destination, None)
    uncommitted, committed = views(partition)
    assert destination.uncommitted() == uncommitted and uncommitted
    assert destination.committed() == committed
    assert not destination.is_anything_open()


@VERSIONS
@pytest.mark.parametrize("answers_are_lost", [False, True], ids=["request lost", "answer lost"])
def test_a_process_that_dies_at_any_request_writes_nothing_twice_and_loses_nothing(
    tmp_path: Path, v2: bool, answers_are_lost: bool
) -> None:
    partition = told(tmp_path / "data", 3, 45)
    uncommitted, committed = views(partition)
    dies_at, died = 0, True
    while died:
        dies_at += 1
        destination, state = Destination(transactions_v2=v2), tmp_path / str(dies_at)
        died = not isinstance(replay(partition, destination, state, dies_at=dies_at, answers_are_lost=answers_are_lost), PartitionOutcome)
        for again in (dies_at % 7 + 1, dies_at % 3 + 1):
            replay(partition, destination, state, dies_at=again, answers_are_lost=answers_are_lost)
        finished(partition, destination, state)
        assert destination.uncommitted() == uncommitted, f"died at request {dies_at}"
        assert destination.committed() == committed, f"died at request {dies_at}"
    assert dies_at > 25


@VERSIONS
@pytest.mark.parametrize("answers_are_lost", [False, True], ids=["request lost", "answer lost"])
def test_transactions_that_time_out_meanwhile_are_sent_again_as_a_whole(tmp_path: Path, v2: bool, answers_are_lost: bool) -> None:
    partition = told(tmp_path / "data", 5, 45)
    uncommitted, committed = views(partition)
    sent_again = 0
    dies_at, died = 0, True
    while died:
        dies_at += 1
        destination, state = Destination(transactions_v2=v2), tmp_path / str(dies_at)
        died = not isinstance(replay(partition, destination, state, dies_at=dies_at, answers_are_lost=answers_are_lost), PartitionOutcome)
        destination.time_out()
        replay(partition, destination, state, dies_at=dies_at % 5 + 1, answers_are_lost=answers_are_lost)
        destination.time_out()
        finished(partition, destination, state)
        assert Counter(destination.committed()) == Counter(committed), f"died at request {dies_at}"
        assert not Counter(uncommitted) - Counter(destination.uncommitted())
        sent_again += len(destination.uncommitted()) - len(uncommitted)
    assert sent_again, "no transaction was open when the process died"


@VERSIONS
def test_a_replay_that_is_stopped_goes_on_where_it_was_and_says_so(tmp_path: Path, v2: bool) -> None:
    partition = told(tmp_path / "data", 3, 60)
    uncommitted, committed = views(partition)
    destination = Destination(transactions_v2=v2)
    stops = 0
    while not (outcome := stopped(partition, destination, tmp_path / "state")).is_complete:
        assert outcome.next_offset > 0
        stops += 1
    assert stops == 3
    assert (destination.uncommitted(), destination.committed()) == (uncommitted, committed)


def stopped(partition: RecordedPartition, destination: Destination, state: Path) -> PartitionOutcome:
    outcome = replay(partition, destination, state, stops_at=7)
    assert isinstance(outcome, PartitionOutcome)
    return outcome


@VERSIONS
def test_a_recording_that_grows_is_replayed_once_and_its_open_transactions_commit(tmp_path: Path, v2: bool) -> None:
    story = Story(tmp_path / "data", 11, others=("roll",))
    destination = Destination(transactions_v2=v2)
    left_open = 0
    for _ in range(6):
        story.tell(15)
        left_open += len(finished(recorded(tmp_path / "data"), destination, tmp_path / "state").left_open)
        before = len(destination.log)
        finished(recorded(tmp_path / "data"), destination, tmp_path / "state")
        assert len(destination.log) == before, "a run without news wrote something"
    story.end()
    uncommitted, committed = views(recorded(tmp_path / "data"))
    assert Counter(destination.committed()) == Counter(committed)
    assert left_open and not Counter(uncommitted) - Counter(destination.uncommitted())


def test_aborted_transactions_are_left_out_if_asked(tmp_path: Path) -> None:
    told(tmp_path / "data", 4, 80)
    partition = recorded(tmp_path / "data", drops_aborted=True)
    destination = Destination(transactions_v2=True)
    outcome = finished(partition, destination, None)
    uncommitted, committed = views(partition)
    assert destination.committed() == committed
    assert outcome.aborted == len(outcome.left_open)
    assert len(committed) <= len(destination.uncommitted()) < len(uncommitted)


@pytest.mark.parametrize("error", [Errors.NETWORK_EXCEPTION, Errors.NOT_LEADER_OR_FOLLOWER, Errors.NOT_ENOUGH_REPLICAS])
def test_errors_that_may_pass_are_tried_again_in_order(tmp_path: Path, error: Errors) -> None:
    partition = told(tmp_path / "data", 3, 60)
    destination = Destination(transactions_v2=True)
    failing = {number: error for number in range(1, 200) if number % 3 == 0 or number % 7 == 0}
    replay(partition, destination, None, failing=failing)
    assert destination.uncommitted() == views(partition)[0]


def test_a_batch_that_is_too_large_is_named_in_one_line(tmp_path: Path) -> None:
    partition = told(tmp_path / "data", 3, 60)
    destination = Destination(transactions_v2=True)
    destination.largest_batch = 150
    with pytest.raises(
        KmirrorError, match=rf"^{PARTITION}: the batch at offset \d+ of the recording has \d+ bytes, but max.message.bytes of topic t"
    ):
        replay(partition, destination, None)


def test_a_destination_that_forgot_the_producer_is_an_error_not_a_guess(tmp_path: Path) -> None:
    partition = told(tmp_path / "data", 3, 60)
    destination = Destination(transactions_v2=True)
    stopped(partition, destination, tmp_path / "state")
    destination.producers.clear()
    with pytest.raises(KmirrorError, match="has forgotten the producer of the interrupted replay"):
        replay(partition, destination, tmp_path / "state")


def test_progress_of_another_replay_is_refused(tmp_path: Path) -> None:
    partition = told(tmp_path / "data", 3, 20)
    destination = Destination(transactions_v2=True)
    finished(partition, destination, tmp_path / "state")
    path = tmp_path / "state" / f"{PARTITION}.replay.json"
    path.write_text(path.read_text().replace('"cluster_id":"cluster"', '"cluster_id":"other"'))
    with pytest.raises(KmirrorError, match="has cluster_id other, and now it is cluster: it belongs to another replay"):
        replay(partition, destination, tmp_path / "state")
    path.write_text("{")
    with pytest.raises(KmirrorError, match="is not a progress file of kmirror replay"):
        replay(partition, destination, tmp_path / "state")


def interrupted(tmp_path: Path, *, stops_at: int = 4) -> tuple[Story, RecordedPartition, Destination, Path]:
    """A recording of several segments, and a replay that was stopped after some batches."""
    story = Story(tmp_path / "data", 3, others=("roll", "roll", "epoch"))
    story.tell(60)
    story.end()
    partition, destination, state = recorded(tmp_path / "data"), Destination(transactions_v2=True), tmp_path / "state"
    outcome = replay(partition, destination, state, stops_at=stops_at)
    assert isinstance(outcome, PartitionOutcome) and not outcome.is_complete
    return story, partition, destination, state


def test_what_was_deleted_before_it_was_replayed_is_told_each_time(tmp_path: Path) -> None:
    """The next run began where the recording began by then, and nothing was missing."""
    _, partition, destination, state = interrupted(tmp_path)
    before = list(destination.uncommitted())
    segments = partition.files.segments
    start = segments[len(segments) // 2].base_offset
    for segment in segments[: len(segments) // 2]:
        for path in Path(segment.path()).parent.glob(f"{segment.base_offset:020d}.*"):
            path.unlink()
    later = replace(recorded(tmp_path / "data"), first_offset=start)
    for _ in range(2):
        with pytest.raises(
            KmirrorError, match=rf"offsets \d+ to {start - 1} of t-0 were deleted from the recording before they were replayed"
        ):
            replay(later, destination, state)
    assert destination.uncommitted() == before, "and nothing was sent"


def test_a_recording_that_was_replayed_to_its_end_may_lose_its_front(tmp_path: Path) -> None:
    partition = told(tmp_path / "data", 3, 60)
    destination, state = Destination(transactions_v2=True), tmp_path / "state"
    finished(partition, destination, state)
    later = replace(partition, first_offset=log_end_offset(OsFileSystem(), partition.files))
    assert finished(later, destination, state).records == finished(partition, destination, state).records == 0


def test_a_recording_that_ends_before_the_progress_or_is_of_another_topic_is_told(tmp_path: Path) -> None:
    _, partition, destination, state = interrupted(tmp_path, stops_at=30)
    shorter = replace(partition, files=replace(partition.files, segments=partition.files.segments[:1]))
    with pytest.raises(KmirrorError, match=r"t-0 was replayed up to offset \d+, and the recording now ends at \d+: it was truncated"):
        replay(shorter, destination, state)
    assert partition.topic_id is not None
    with pytest.raises(
        KmirrorError, match=f"is of the recorded topic with id {partition.topic_id}, and t-0 now has id other: the topic was"
    ):
        replay(replace(partition, topic_id="other"), destination, state)
    unknown = replace(partition, topic_id=None)
    finished(unknown, destination, state)


def test_a_lost_transaction_whose_front_was_deleted_is_not_sent_in_part(tmp_path: Path) -> None:
    """What was left of it was committed, as if it were the whole."""
    story = Story(tmp_path / "data", 3)
    story.tell(30)
    partition, destination, state = recorded(tmp_path / "data"), Destination(transactions_v2=True), tmp_path / "state"
    left_open = finished(partition, destination, state).left_open
    assert left_open, "a transaction is open where the recording ends"
    for _ in range(40):
        story.tell(1)
    story.end()
    committed = destination.committed()
    later = replace(recorded(tmp_path / "data"), first_offset=max(left_open) + 1)
    with pytest.raises(KmirrorError, match=rf"offsets \d+ to {max(left_open)} of t-0 were deleted from the recording before they were"):
        replay(later, destination, state)
    assert destination.committed()[: len(committed)] == committed and not destination.is_anything_open()
