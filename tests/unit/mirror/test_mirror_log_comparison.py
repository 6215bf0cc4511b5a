"""Finding where our log and the source's diverge when cleaners have run: what is cut, and above all
what is not.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.logs.cleaned_histories import batches_of, carried_out, case, end_of, keyed, live, log_of, verdict_of, without_records
from support.mirrors.mirror_machine import MirrorMachine

from kmirror.mirror.logs.log_questions import EndOfEpoch, Inquiry, LogAction, Loss, Verdict
from kmirror.mirror.logs.log_verifier import diverged, out_of_range, verify_before, verify_log
from kmirror.sim.ablations import Ablations

FIRST = keyed((0, b"customer-1", b"personal data"), (1, b"x", b"1"))


async def test_a_key_that_was_deleted_came_back_when_the_mirror_was_resumed(tmp_path: Path) -> None:
    """A compacted mirror is paused for longer than the source keeps tombstones.

    The logs do not diverge: the source's cleaner removed the value, its tombstone and the last
    batch. Once, the mirror then cut its own tombstone, which came after the last equal batch.
    """
    machine = MirrorMachine(str(tmp_path))
    ours = [FIRST, keyed((2, b"a", b"1")), keyed((3, b"customer-1", None)), keyed((4, b"b", b"1"))]
    await machine.mirroring(*ours, cleanup_policy="compact")
    machine.name("m.paused")
    await machine.reach("PAUSED")
    machine.source.log("t").batches[:] = [without_records(FIRST, 0), ours[1], keyed((5, b"b", b"2"))]
    machine.name("m")
    await machine.reach("MIRRORING")
    await machine.advance(5_000)
    assert live(batches_of(machine.log())) == {b"x": b"1", b"a": b"1", b"b": b"2"}
    assert machine.registration().leader_epoch == 0, "nothing was cut"
    await machine.close()


async def test_without_the_rule_about_holes_the_key_is_back(tmp_path: Path) -> None:
    with Ablations.without(["holes_prove_nothing"]).applied(), pytest.raises(AssertionError, match="customer-1"):
        await test_a_key_that_was_deleted_came_back_when_the_mirror_was_resumed(tmp_path)


@pytest.mark.parametrize("block", range(6))
async def test_after_any_two_cleaned_histories_the_live_keys_are_the_sources(tmp_path: Path, block: int) -> None:
    """The oracle knows both histories before any cleaner ran (`cleaned_histories`)."""
    for seed in range(1000 + block * 60, 1060 + block * 60):
        found = case(seed)
        log = log_of(tmp_path / str(seed), found.ours)
        inquiry = verify_log(log, cleaned_until=lambda found=found: found.cleaned_until)
        verdict = verdict_of(inquiry, found.theirs)
        left = carried_out(verdict, found.ours, found.theirs)
        if found.is_provable or not found.has_parted:
            assert live(left) == live(found.theirs_whole), seed
        if not found.is_provable:
            assert left[: len(found.ours)] == found.ours, seed


async def test_where_the_border_lies_in_a_hole_nothing_is_guessed(tmp_path: Path) -> None:
    log = log_of(tmp_path, [FIRST, keyed((2, b"customer-1", None)), keyed((3, b"a", b"ours"), epoch=2)])
    source = [without_records(FIRST, 0), keyed((3, b"a", b"theirs"))]
    verdict = verdict_of(verify_log(log, cleaned_until=lambda: 0), source)
    assert (verdict.action, verdict.offset, verdict.loss) == (LogAction.START_OVER, 0, Loss.COUNTED)


async def test_where_our_own_cleaner_was_behind_the_border_everything_is_copied_again(tmp_path: Path) -> None:
    """It dropped a=1 because of a=ours, which is cut now; the source still has a=1."""
    first = keyed((0, b"a", b"1"), (1, b"b", b"1"))
    log = log_of(tmp_path, [without_records(first, 0), keyed((2, b"a", b"ours"))])
    source = [first, keyed((2, b"c", b"theirs"))]
    assert verdict_of(verify_log(log, cleaned_until=lambda: 3), source).action is LogAction.START_OVER
    assert verdict_of(verify_log(log, cleaned_until=lambda: 2), source).action is LogAction.START_OVER, "another's cleaner did"


async def test_what_our_own_cleaner_did_before_the_border_stays(tmp_path: Path) -> None:
    first = keyed((0, b"a", b"1"), (1, b"a", b"2"))
    log = log_of(tmp_path, [without_records(first, 0), keyed((2, b"a", b"ours"))])
    source = [first, keyed((2, b"c", b"theirs"))]
    assert verdict_of(verify_log(log, cleaned_until=lambda: 3), source).action is LogAction.START_OVER
    assert verdict_of(verify_log(log, cleaned_until=lambda: 2), source)[:2] == (LogAction.CUT, 2)


async def test_an_epoch_that_the_source_has_forgotten_with_its_batches_cuts_nothing(tmp_path: Path) -> None:
    """A replica of the source that copied a cleaned log knows no epochs without batches, so it
    answers that epoch 0 ends where epoch 2 begins.

    Our batches of epoch 1 below that offset lie in a hole of the source. Above it they would
    differ.
    """
    first = keyed((0, b"a", b"1"), (1, b"b", b"1"), epoch=0)
    ours = [first, keyed((2, b"a", None), epoch=1), keyed((3, b"c", b"1"), epoch=1)]
    source = [without_records(first, 0), keyed((5, b"c", b"2"), epoch=2)]
    log = log_of(tmp_path, ours)
    verdict = verdict_of(diverged(log, 0, 5, cleaned_until=lambda: 0), source)
    assert (verdict.action, verdict.ignores_epochs) == (LogAction.KEEP, True)
    verdict = verdict_of(diverged(log, 0, 3, cleaned_until=lambda: 0), source)
    assert verdict.action is LogAction.START_OVER, "what is behind 3 is different, what is before lies in a hole"
    verdict = verdict_of(diverged(log, 0, 2, cleaned_until=lambda: 0), source)
    assert verdict[:2] == (LogAction.CUT, 2)


async def test_a_source_that_ends_before_us_is_followed_to_the_last_equal_batch(tmp_path: Path) -> None:
    ours = [keyed((offset, b"k", b"%d" % offset)) for offset in range(9)]
    log = log_of(tmp_path, ours)
    for count in range(1, 9):
        verdict = verdict_of(out_of_range(log, cleaned_until=lambda: 0), ours[:count])
        assert (verdict.action, verdict.offset, verdict.loss) == (LogAction.CUT, count, Loss.COUNTED)
    assert verdict_of(out_of_range(log, cleaned_until=lambda: 0), []).loss is Loss.EVERYTHING


def test_an_epoch_that_began_without_a_batch_is_not_asked_for(tmp_path: Path) -> None:
    """An election here leaves an entry in our epoch cache (C5).

    At the source that number is no epoch, or means another one.
    """
    ours = [keyed((0, b"k", b"1"), epoch=1), keyed((1, b"k", b"2"), epoch=2)]
    log = log_of(tmp_path, ours)
    log.maybe_assign_epoch_start_offset(7, log.log_end_offset)
    assert (log.latest_epoch, log.latest_batch_epoch()) == (7, 2)
    asked: list[int | None] = []

    def watched(inquiry: Inquiry) -> Inquiry:
        answer = None
        while True:
            try:
                question = inquiry.send(answer)
            except StopIteration as ended:
                assert isinstance(ended.value, Verdict)
                return ended.value
            if isinstance(question, EndOfEpoch):
                asked.append(question.leader_epoch)
            answer = yield question

    verdict = verdict_of(watched(out_of_range(log, cleaned_until=lambda: 0)), ours)
    assert (verdict[:2], asked) == ((LogAction.CUT, 2), [2])


async def test_of_a_log_with_writes_of_ours_the_part_before_them_is_compared(tmp_path: Path) -> None:
    ours = [keyed((offset, b"k", b"%d" % offset)) for offset in range(9)]
    log = log_of(tmp_path, ours)
    source = [*ours[:6], keyed((6, b"k", b"theirs"))]
    assert verdict_of(verify_before(log, 6, cleaned_until=lambda: 0), source)[:2] == (LogAction.CUT, 6)
    assert verdict_of(verify_before(log, 5, cleaned_until=lambda: 0), source)[:2] == (LogAction.CUT, 5)
    assert verdict_of(verify_before(log, 8, cleaned_until=lambda: 0), source)[:2] == (LogAction.CUT, 6)
    assert end_of(source) == 7
