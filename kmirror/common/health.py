"""What a health page says, and of what.

A verdict speaks only of what was looked at. So `Health` has both sides: the reasons why something
is not ready, and a line for each thing that was looked at. Ready means that what should run is
known, and that it runs. With nothing looked at there is no reason, and no readiness either.

    reasons         why it is not ready
    warnings        what does not work beside it, and keeps nothing from being ready
    looked_at       each thing that the verdict is about, and how it was
    not_looked_at   what the verdict says nothing about
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

NOTHING_LOOKED_AT: Final = "nothing was looked at"


@dataclass(frozen=True, slots=True)
class Health:
    reasons: Sequence[str] = ()
    looked_at: Sequence[str] = ()
    not_looked_at: Sequence[str] = ()
    warnings: Sequence[str] = ()

    @property
    def all_reasons(self) -> list[str]:
        """Returns why it is not ready; empty if it is."""
        return [*self.reasons] or ([] if self.looked_at else [NOTHING_LOOKED_AT])

    @property
    def is_ready(self) -> bool:
        return not self.all_reasons

    def as_json(self) -> dict[str, object]:
        return {
            "ready": self.is_ready,
            "reasons": self.all_reasons,
            "warnings": [*self.warnings],
            "looked_at": [*self.looked_at],
            "not_looked_at": [*self.not_looked_at],
        }


def joined(healths: Iterable[Health]) -> Health:
    """Returns the health of a whole whose parts are all needed."""
    parts = list(healths)
    return Health(
        [reason for part in parts for reason in part.reasons],
        [line for part in parts for line in part.looked_at],
        list(dict.fromkeys(line for part in parts for line in part.not_looked_at)),
        [line for part in parts for line in part.warnings],
    )
