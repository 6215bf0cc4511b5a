"""The rules that keep a mirror from losing data, each with a switch (decision 14).

All are on. Switching one off shows the hole it closes: the simulator's ablations do that and its
checkers must notice. Never switch one off anywhere else; the broker has no settings for them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MirrorSafeguards:
    """Which safeguards are on."""

    lso_truncation: bool = True
    """Cut to the LSO fixpoint before a stopped mirror becomes writable (D4 step 3)."""

    lso_fixpoint: bool = True
    """Repeat the cut until LSO = LEO; a single cut can leave a hanging transaction (C2)."""

    pid_reset_after_bump: bool = True
    """The reset is appended in the new leader epoch (D4 step 2 before 6)."""

    read_only_enforced: bool = True
    """Clients' writes are refused in every state but STOPPED (D1)."""

    lme_truncation: bool = True
    """PREPARING cuts to the last mirror epoch (D5 step 4)."""

    bump_after_cut: bool = True
    """The epoch is bumped after every cut of a leader, before anything is appended (D5 step
    4, F1).
    """

    first_fetch_verified: bool = True
    """The last local batch is compared with the source's before the first append (C36b)."""

    loss_refused: bool = True
    """A source that lost its log is not followed (mirror.max.truncation.records): the partition
    fails and keeps its records.
    """

    kept_when_added_again: bool = True
    """A topic that is added again without a last mirror epoch keeps what the source still has of
    it, instead of copying everything.
    """

    definite_answers_only: bool = True
    """Only a definite -1 truncates to zero; silence and errors are retried (C6, C7)."""

    loop_refused: bool = True
    """PREPARING waits while the source mirrors the same topic from us (C34)."""

    configs_before_records: bool = True
    """A topic has its source's configs before the first record is fetched (SYN6)."""

    state_rewritten_on_election: bool = True
    """A new leader appends the state again before acting on it (D3-28, D3-29, F19)."""


ALL_SAFEGUARDS = MirrorSafeguards()
