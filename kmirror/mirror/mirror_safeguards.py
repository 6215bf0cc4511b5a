"""The rules that keep a mirror from losing data, each with a switch (decision 14).

All are on. Switching one off shows the hole it closes: the simulator's ablations do that and its
checkers must notice. Never switch one off anywhere else; the broker has no setting for them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MirrorSafeguards:
    """Which safeguards are on."""

    lso_truncation: bool = True
    """D4 step 3: cut to the LSO fixpoint before a stopped mirror becomes writable."""

    lso_fixpoint: bool = True
    """C2: repeat the cut until LSO = LEO; a single cut can leave a hanging transaction."""

    pid_reset_after_bump: bool = True
    """D4 step 2 before 6: the reset is appended in the new leader epoch (reference deviation 1)."""

    read_only_enforced: bool = True
    """D1: clients' writes are refused in every state but STOPPED."""

    lme_truncation: bool = True
    """D5 step 4: PREPARING cuts to the last mirror epoch."""

    bump_after_cut: bool = True
    """D5 step 4, F1: an epoch bump after every cut of a leader, before anything is appended."""

    first_fetch_verified: bool = True
    """C36b: the last local batch is compared with the source's before the first append."""

    loss_refused: bool = True
    """A source that lost its log is not followed (mirror.max.truncation.records): the partition
    fails and keeps its records.
    """

    kept_when_added_again: bool = True
    """A topic that is added again without a last mirror epoch keeps what the source still has of
    it, instead of copying everything.
    """

    definite_answers_only: bool = True
    """C6, C7: only a definite -1 truncates to zero; silence and errors are retried."""

    loop_refused: bool = True
    """C34: PREPARING waits while the source mirrors the same topic from us."""

    state_rewritten_on_election: bool = True
    """D3-28, D3-29: a new leader appends the state again before acting on it (F19)."""


ALL_SAFEGUARDS = MirrorSafeguards()
