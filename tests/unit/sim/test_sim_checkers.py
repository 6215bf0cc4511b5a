"""Each checker has a history that it must find fault with, and the same history without the fault."""

from __future__ import annotations

import pytest

from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.sim import checkers
from kmirror.sim.events import (
    START,
    Acknowledged,
    Appended,
    Batch,
    Converged,
    History,
    LastMirrorEpochWritten,
    LogKey,
    MirrorDeletionAsked,
    MirrorStatesRead,
    Recovered,
    Reloaded,
    Removed,
    Served,
    StateLost,
    StateWritten,
    chain_of,
    digest_of,
)
from kmirror.sim.topic_events import PartitionMade, TopicGone

A = LogKey("a", TopicPartition("orders", 0))
B = LogKey("b", TopicPartition("orders", 0))


class Story:
    """Writes a history; batches are made from what is said of them, chains follow the logs."""

    def __init__(self) -> None:
        self.history = History(sources={("b", "m"): "a", ("a", "m"): "b"})
        self.logs: dict[LogKey, list[Batch]] = {A: [], B: []}
        self._now_us = 0

    def now(self) -> int:
        self._now_us += 1
        return self._now_us

    def batch(
        self, log: LogKey, value: str, *, base: int | None = None, epoch: int = 0, reset: bool = False, txn: int = -1, marker: int = -1
    ) -> Batch:
        before = self.logs[log]
        offset = base if base is not None else (before[-1].last_offset + 1 if before else 0)
        producer_id = max(txn, marker)
        digest = digest_of(f"{value} {offset} {epoch} {reset} {txn} {marker}".encode())
        chain = chain_of(before[-1].chain if before else START, digest)
        is_control = reset or marker >= 0
        values = () if is_control else (value.encode(),)
        return Batch(
            offset,
            offset,
            epoch,
            producer_id,
            producer_id >= 0,
            is_control,
            "a" if reset else None,
            values,
            digest,
            chain,
            "/log",
            offset,
            1,
        )

    def append(self, log: LogKey, value: str = "", **named: object) -> Batch:
        batch = self.batch(log, value, **named)  # type: ignore[arg-type]
        self.logs[log].append(batch)
        self.history.add(Appended(self.now(), log, batch))
        return batch

    def mirror(self, source: LogKey, destination: LogKey) -> None:
        """Everything that the destination lacks."""
        for theirs in self.logs[source][len(self.logs[destination]) :]:
            self.logs[destination].append(theirs)
            self.history.add(Appended(self.now(), destination, theirs))

    def remove(self, log: LogKey, *batches: Batch, cause: str = "truncate") -> None:
        self.logs[log] = [batch for batch in self.logs[log] if batch not in batches]
        self.history.add(Removed(self.now(), log, list(batches), cause))

    def state(self, log: LogKey, state: State) -> None:
        self.history.add(StateWritten(self.now(), log, "m", state))

    def acknowledge(self, log: LogKey, value: str, offset: int = 0) -> None:
        self.history.add(Acknowledged(self.now(), log, "client", offset, (value.encode(),)))

    def fail_over(self, *, epoch: int = 1) -> None:
        self.state(B, State.STOPPING)
        self.append(B, reset=True, epoch=epoch)
        self.state(B, State.STOPPED)


@pytest.fixture
def mirrored() -> Story:
    """A has a/0 and a/1, and B mirrors them."""
    story = Story()
    story.append(A, "a/0")
    story.append(A, "a/1")
    story.state(B, State.PREPARING)
    story.state(B, State.MIRRORING)
    story.mirror(A, B)
    return story


def rules(story: Story) -> set[str]:
    return {violation.rule for violation in checkers.check(story.history)}


def test_a_clean_failover_and_failback_breaks_nothing(mirrored):
    mirrored.acknowledge(A, "a/1", 1)
    mirrored.history.add(LastMirrorEpochWritten(mirrored.now(), B, "m", 0))
    mirrored.fail_over()
    mirrored.append(B, "b/0", epoch=1)
    mirrored.acknowledge(B, "b/0", 3)
    mirrored.state(A, State.PREPARING)
    mirrored.state(A, State.MIRRORING)
    mirrored.mirror(B, A)
    mirrored.history.add(Converged(mirrored.now(), B, A))
    assert rules(mirrored) == set()


class TestPrefix:
    def test_a_batch_that_the_source_never_had(self, mirrored):
        mirrored.append(B, "invented")
        assert "prefix" in rules(mirrored)

    def test_a_batch_left_out(self, mirrored):
        mirrored.append(A, "a/2")
        left_out_after = mirrored.append(A, "a/3")
        mirrored.append(B, "a/3", base=left_out_after.base_offset)
        assert "prefix" in rules(mirrored)

    def test_a_batch_with_other_bytes(self, mirrored):
        mirrored.append(A, "a/2", epoch=0)
        mirrored.append(B, "a/2", epoch=1)
        assert "prefix" in rules(mirrored)

    def test_an_append_while_paused(self, mirrored):
        mirrored.append(A, "a/2")
        mirrored.state(B, State.PAUSED)
        mirrored.mirror(A, B)
        assert "prefix" in rules(mirrored)

    def test_what_the_source_lost_later_is_still_a_prefix(self, mirrored):
        mirrored.append(A, "a/2")
        mirrored.remove(A, mirrored.logs[A][-1], cause="power loss")
        mirrored.append(B, "a/2")
        assert rules(mirrored) == set()


class TestReadOnly:
    @pytest.mark.parametrize("state", [State.PREPARING, State.MIRRORING, State.PAUSED, State.STOPPING, State.FAILED])
    def test_a_clients_write_to_a_mirror(self, mirrored, state):
        mirrored.state(B, state)
        mirrored.append(B, "b/0")
        mirrored.acknowledge(B, "b/0", 2)
        found = [violation.text for violation in checkers.check(mirrored.history, ["read-only"])]
        assert len(found) == 2

    def test_a_write_after_stopped_is_none(self, mirrored):
        mirrored.fail_over()
        mirrored.append(B, "b/0", epoch=1)
        assert checkers.check(mirrored.history, ["read-only"]) == []


class TestOffsets:
    @pytest.mark.parametrize("base", [1, 3])
    def test_an_overlap_and_a_gap(self, mirrored, base):
        mirrored.append(A, "a/2", base=base)
        assert "offsets" in rules(mirrored)

    def test_a_mirror_keeps_the_gaps_of_its_source(self, mirrored):
        mirrored.append(A, "a/2", base=2)
        gap = mirrored.append(A, "a/9", base=9)
        mirrored.logs[A].remove(gap)
        mirrored.mirror(A, B)
        mirrored.logs[B].append(gap)
        mirrored.history.add(Appended(mirrored.now(), B, gap))
        found = checkers.check(mirrored.history, ["offsets"])
        assert [violation.text.split()[0] for violation in found] == ["orders-0@a"]


class TestEpochs:
    def test_an_epoch_that_falls(self, mirrored):
        mirrored.append(A, "a/2", epoch=3)
        mirrored.append(A, "a/3", epoch=2)
        assert "epochs" in rules(mirrored)

    def test_a_reset_in_a_mirrored_epoch(self, mirrored):
        mirrored.fail_over(epoch=0)
        assert "epochs" in rules(mirrored)


class TestAlignment:
    def start_failback(self, story: Story, last_mirror_epoch: int) -> None:
        story.history.add(LastMirrorEpochWritten(story.now(), B, "m", last_mirror_epoch))
        story.fail_over(epoch=5)
        story.append(A, "a/2", epoch=4)
        story.state(A, State.PREPARING)

    def test_a_batch_above_the_last_mirror_epoch(self, mirrored):
        self.start_failback(mirrored, 0)
        mirrored.state(A, State.MIRRORING)
        assert [violation.rule for violation in checkers.check(mirrored.history, ["alignment"])] == ["alignment"]

    def test_cut_to_the_last_mirror_epoch(self, mirrored):
        self.start_failback(mirrored, 0)
        mirrored.remove(A, mirrored.logs[A][-1])
        mirrored.state(A, State.MIRRORING)
        assert checkers.check(mirrored.history, ["alignment"]) == []

    def test_a_last_mirror_epoch_that_was_told_and_then_forgotten(self, mirrored):
        """Seed 69216: the topic of the source was deleted between the two copies that put MIRRORING
        in force.
        """
        self.start_failback(mirrored, 0)
        mirrored.remove(A, mirrored.logs[A][-1])
        mirrored.history.add(LastMirrorEpochWritten(mirrored.now(), B, "m", -1))
        mirrored.state(A, State.MIRRORING)
        assert checkers.check(mirrored.history, ["alignment"]) == []

    def test_a_last_mirror_epoch_of_before_is_none(self, mirrored):
        mirrored.history.add(LastMirrorEpochWritten(mirrored.now(), B, "m", 4))
        mirrored.history.add(LastMirrorEpochWritten(mirrored.now(), B, "m", 0))
        mirrored.fail_over(epoch=5)
        mirrored.append(A, "a/2", epoch=4)
        mirrored.state(A, State.PREPARING)
        mirrored.state(A, State.MIRRORING)
        assert [violation.rule for violation in checkers.check(mirrored.history, ["alignment"])] == ["alignment"]

    def test_an_old_source_tells_none_though_it_has_one(self, mirrored):
        """Seed 201301: what is identical on both sides may stay then, and nothing else."""
        mirrored.history.old.add("b")
        mirrored.append(B, "b/1", epoch=4)
        mirrored.append(A, "b/1", epoch=4)
        mirrored.history.add(LastMirrorEpochWritten(mirrored.now(), B, "m", 0))
        mirrored.fail_over(epoch=5)
        mirrored.state(A, State.PREPARING)
        mirrored.state(A, State.MIRRORING)
        assert [violation.rule for violation in checkers.check(mirrored.history, ["alignment"])] == []
        mirrored.append(A, "a/2", epoch=4)
        mirrored.state(A, State.PREPARING)
        mirrored.state(A, State.MIRRORING)
        assert [violation.rule for violation in checkers.check(mirrored.history, ["alignment"])] == ["alignment"]

    def test_a_mirror_that_is_being_deleted_may_tell_none(self, mirrored):
        """Seed 211591: a full disk kept the tombstones from being written; the source told none,
        and its checker the stored one.
        """
        mirrored.history.add(LastMirrorEpochWritten(mirrored.now(), B, "m", 0))
        mirrored.fail_over(epoch=5)
        mirrored.append(B, "b/2", epoch=5)
        for batch in mirrored.logs[B][len(mirrored.logs[A]) :]:
            mirrored.history.add(Appended(mirrored.now(), A, batch))
        mirrored.history.add(MirrorDeletionAsked(mirrored.now(), "b", "m"))
        mirrored.state(A, State.PREPARING)
        mirrored.state(A, State.MIRRORING)
        assert checkers.check(mirrored.history, ["alignment"]) == []

    def test_without_a_last_mirror_epoch_the_log_must_be_empty(self):
        story = Story()
        story.append(A, "a/0")
        story.append(B, "b/0")
        story.state(B, State.PREPARING)
        story.state(B, State.MIRRORING)
        assert [violation.rule for violation in checkers.check(story.history, ["alignment"])] == ["alignment"]

    def test_without_a_last_mirror_epoch_what_the_source_has_may_stay(self, mirrored):
        """A topic that is added again keeps it, and drops what was written since."""
        mirrored.state(B, State.PREPARING)
        mirrored.state(B, State.MIRRORING)
        assert checkers.check(mirrored.history, ["alignment"]) == []
        mirrored.append(B, "b/1", epoch=7)
        mirrored.state(B, State.PREPARING)
        mirrored.state(B, State.MIRRORING)
        assert [violation.rule for violation in checkers.check(mirrored.history, ["alignment"])] == ["alignment"]

    @pytest.mark.parametrize("hosts", [("b1",), ("b1", "b2"), ("b1", "b2", "b3")])
    def test_a_replica_to_which_nothing_was_appended_is_aligned(self, hosts):
        """Seed 138070: one batch was on one replica of three, which was cut off, and nobody had
        seen the others' empty logs.
        """
        history = History(sources={("b", "m"): "a"}, hosts=dict.fromkeys(hosts, "b"))
        b1 = LogKey("b1", B.partition)
        history.add(PartitionMade(1, "b", "orders", 0, hosts))
        history.add(Appended(2, b1, Batch(0, 0, 0, -1, False, False, None, (b"b/0",), b"0", b"0", "/log", 0, 1)))
        states = [StateWritten(3, b1, "m", state, (0, offset)) for offset, state in enumerate((State.PREPARING, State.MIRRORING))]
        for state in states:
            for host in hosts:
                history.add(StateWritten(3, LogKey(host, B.partition), "m", state.state, state.order))
        history.add(MirrorStatesRead(4, "b", list(states)))
        assert [violation.rule for violation in checkers.check(history, ["alignment"])] == (["alignment"] if len(hosts) == 1 else [])


class TestTransactions:
    def test_a_reset_over_an_open_transaction(self, mirrored):
        mirrored.append(A, "t", txn=1)
        mirrored.mirror(A, B)
        mirrored.fail_over()
        assert "transactions" in rules(mirrored)

    def test_one_cut_is_not_enough(self, mirrored):
        """Cutting the open transaction of 2 takes the marker of 1 with it."""
        mirrored.append(A, "t", txn=1)
        mirrored.append(A, "t", txn=2)
        mirrored.append(A, marker=1)
        log = mirrored.logs[A]
        assert checkers.open_transactions(log) == {2: 3}
        assert checkers.open_transactions(log[:3]) == {1: 2}
        assert checkers.fixpoint(log) == log[:2]

    def test_a_cut_below_the_fixpoint(self, mirrored):
        mirrored.state(B, State.STOPPING)
        mirrored.remove(B, mirrored.logs[B][-1])
        assert "transactions" in rules(mirrored)

    def test_a_cut_at_the_fixpoint(self, mirrored):
        opened = mirrored.append(A, "t", txn=1)
        mirrored.mirror(A, B)
        mirrored.state(B, State.STOPPING)
        mirrored.remove(B, opened)
        mirrored.append(B, reset=True, epoch=1)
        mirrored.state(B, State.STOPPED)
        assert rules(mirrored) == set()


def test_stopped_without_a_reset(mirrored):
    mirrored.state(B, State.STOPPING)
    mirrored.state(B, State.STOPPED)
    assert rules(mirrored) == {"reset"}


class TestAcknowledged:
    def test_a_record_that_vanishes(self, mirrored):
        mirrored.acknowledge(A, "a/1", 1)
        mirrored.remove(A, mirrored.logs[A][-1])
        assert "acknowledged" in rules(mirrored)

    def test_a_record_that_never_was(self, mirrored):
        mirrored.acknowledge(A, "a/7", 7)
        assert rules(mirrored) == {"acknowledged"}

    @pytest.mark.parametrize("durable", [True, False])
    def test_power_may_take_only_what_was_not_synced(self, mirrored, durable):
        mirrored.acknowledge(A, "a/1", 1)
        mirrored.logs[A][-1].durable = durable
        mirrored.remove(A, mirrored.logs[A][-1], cause="power loss")
        assert ("acknowledged" in rules(mirrored)) is durable

    def test_failback_may_cut_what_the_other_side_never_had(self, mirrored):
        own = mirrored.append(A, "a/2")
        mirrored.acknowledge(A, "a/2", 2)
        mirrored.fail_over()
        mirrored.state(A, State.PREPARING)
        mirrored.remove(A, own)
        assert checkers.check(mirrored.history, ["acknowledged"]) == []

    def test_failback_must_not_lose_what_the_other_side_has(self, mirrored):
        mirrored.acknowledge(A, "a/1", 1)
        mirrored.fail_over()
        mirrored.state(A, State.PREPARING)
        mirrored.remove(A, mirrored.logs[A][-1])
        assert [violation.rule for violation in checkers.check(mirrored.history, ["acknowledged"])] == ["acknowledged"]
        mirrored.state(A, State.MIRRORING)
        mirrored.mirror(B, A)
        assert checkers.check(mirrored.history, ["acknowledged"]) == []


class TestRecovery:
    def test_an_invalid_tail_is_served(self, mirrored):
        mirrored.history.add(Recovered(mirrored.now(), A, list(mirrored.logs[A]), 2))
        assert rules(mirrored) == {"recovery"}

    def test_a_restart_loses_a_batch(self, mirrored):
        mirrored.history.add(Recovered(mirrored.now(), A, mirrored.logs[A][:1], None))
        assert "recovery" in rules(mirrored)

    def test_a_power_loss_takes_what_was_synced(self, mirrored):
        mirrored.logs[A][-1].durable = True
        mirrored.remove(A, mirrored.logs[A][-1], cause="power loss")
        mirrored.history.add(Reloaded(mirrored.now(), A, list(mirrored.logs[A])))
        assert rules(mirrored) == {"recovery"}

    def test_recovery_removes_a_valid_batch(self, mirrored):
        mirrored.remove(A, mirrored.logs[A][-1], cause="recovery")
        assert "recovery" in rules(mirrored)


class TestServed:
    def test_bytes_that_the_log_never_had(self, mirrored):
        mirrored.history.add(Served(mirrored.now(), A, "reader", 0, [(0, b"other", True)]))
        assert rules(mirrored) == {"served"}

    def test_a_wrong_crc(self, mirrored):
        mirrored.history.add(Served(mirrored.now(), A, "reader", 0, [(0, mirrored.logs[A][0].digest, False)]))
        assert rules(mirrored) == {"served"}

    def test_offsets_that_go_back(self, mirrored):
        got = [(batch.base_offset, batch.digest, True) for batch in mirrored.logs[A]]
        mirrored.history.add(Served(mirrored.now(), A, "reader", 0, [*got, got[0]]))
        assert rules(mirrored) == {"served"}


class TestFront:
    def test_retention_takes_what_the_source_still_has(self, mirrored):
        mirrored.remove(B, mirrored.logs[B][0], cause="retention")
        assert rules(mirrored) == {"front"}

    def test_retention_takes_what_the_source_has_dropped(self, mirrored):
        mirrored.remove(A, mirrored.logs[A][0], cause="retention")
        mirrored.remove(B, mirrored.logs[B][0], cause="retention")
        assert rules(mirrored) == set()

    def test_retention_works_on_a_mirror_that_was_failed_over(self, mirrored):
        mirrored.fail_over()
        mirrored.remove(B, mirrored.logs[B][0], cause="retention")
        assert rules(mirrored) == set()


class TestConverged:
    def test_a_batch_is_missing(self, mirrored):
        mirrored.append(A, "a/2")
        mirrored.history.add(Converged(mirrored.now(), A, B))
        assert rules(mirrored) == {"converged"}

    def test_the_beginning_is_missing(self, mirrored):
        mirrored.remove(B, mirrored.logs[B][0], cause="retention")
        mirrored.history.add(Converged(mirrored.now(), A, B))
        assert rules(mirrored) == {"converged", "front"}

    def test_a_beginning_that_the_source_has_dropped_may_stay(self, mirrored):
        mirrored.remove(A, mirrored.logs[A][0], cause="retention")
        mirrored.history.add(Converged(mirrored.now(), A, B))
        assert rules(mirrored) == set()


@pytest.mark.parametrize("topic_was_deleted", [False, True])
def test_a_state_that_may_not_follow_the_one_before_unless_the_topic_was_deleted(mirrored, topic_was_deleted):
    """Mirrors, seed 12899: the states of a deleted topic are forgotten (D3-34), which leaves the
    last mirror epoch -1.
    """
    records = [StateWritten(0, B, "m", State.STOPPED)]
    if topic_was_deleted:
        records.append(LastMirrorEpochWritten(0, B, "m", -1))
    mirrored.history.add(MirrorStatesRead(mirrored.now(), "b", [*records, StateWritten(0, B, "m", State.STOPPING)]))
    assert [violation.rule for violation in checkers.check(mirrored.history, ["states"])] == ([] if topic_was_deleted else ["states"])


@pytest.mark.parametrize("gone_at", [0, 1, 2])
def test_a_state_that_follows_on_the_deletion_of_its_topic_begins_anew(mirrored, gone_at):
    """Mirrors, seed 76932: no last mirror epoch was stored, so no record tells that STOPPED was
    forgotten.
    """
    steps = [StateWritten(0, B, "m", state, (0, 7 + number)) for number, state in enumerate((State.STOPPED, State.STOPPING))]
    for event in [*steps[:gone_at], TopicGone(0, "b", "orders"), *steps[gone_at:]]:
        event.now_us = mirrored.now()
        mirrored.history.add(event)
    records = [StateWritten(0, B, "m", step.state, step.order) for step in steps]
    mirrored.history.add(MirrorStatesRead(mirrored.now(), "b", records))
    assert [violation.rule for violation in checkers.check(mirrored.history, ["states"])] == ([] if gone_at == 1 else ["states"])


def test_a_state_lost_with_the_power_counts_as_gone(mirrored):
    mirrored.history.add(StateLost(mirrored.now(), B, "m", None))
    mirrored.append(B, "b/0")
    assert checkers.check(mirrored.history, ["read-only"]) == []
