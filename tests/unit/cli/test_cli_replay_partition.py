"""One partition's replay: equal records, transactions as they ended, and a process that dies at
every request.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from support.logs.replay_stories import PARTITION, Story
from support.tools.replay_destination import Destination, recorded, replay, views

from kmirror.cli.replay_partition import PartitionOutcome
from kmirror.cli.replay_source import RecordedPartition
from kmirror.common.errors import Errors, KmirrorError

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
