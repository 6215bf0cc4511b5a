"""Safeguards that can be switched off, to show that a checker notices (decision 14).

Those of the mirror are fields of `MirrorSafeguards`. `tail_recovery` is storage's: recovery checks each batch and cuts the log at
the first bad one; without it recovery trusts what it finds. That one has no switch in the program and is put in from here,
for the time of one run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

from kmirror.common.errors import KmirrorError
from kmirror.mirror.mirror_safeguards import ALL_SAFEGUARDS, MirrorSafeguards
from kmirror.storage import log_segment

TAIL_RECOVERY = "tail_recovery"


def safeguard_names() -> list[str]:
    """All that `Ablations.without` knows."""
    return [*(field.name for field in fields(MirrorSafeguards)), TAIL_RECOVERY]


@dataclass(frozen=True, slots=True)
class Ablations:
    """What is off in one run."""

    safeguards: MirrorSafeguards = ALL_SAFEGUARDS
    tail_recovery: bool = True

    @classmethod
    def without(cls, names: Iterable[str]) -> Ablations:
        """KmirrorError for a name that there is not."""
        off = list(names)
        for name in off:
            if name not in safeguard_names():
                raise KmirrorError(f"there is no safeguard {name!r}; there are {', '.join(safeguard_names())}")
        safeguards = MirrorSafeguards(**{name: False for name in off if name != TAIL_RECOVERY})
        return cls(safeguards, TAIL_RECOVERY not in off)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Within, recovery is as this says."""
        if self.tail_recovery:
            yield
            return
        names = vars(log_segment)
        ensure_valid = names["ensure_valid"]
        names["ensure_valid"] = _trust
        try:
            yield
        finally:
            names["ensure_valid"] = ensure_valid


def _trust(path: str, header: object, batch: object) -> None:
    """Whatever is there is right."""
