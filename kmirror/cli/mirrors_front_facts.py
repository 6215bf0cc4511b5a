"""What `--describe` found at the fronts of mirrored logs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kmirror.cli.mirrors_losses import OffsetRange
from kmirror.common.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class OneSided:
    """Offsets before one side's log start that only the other side has."""

    offsets: OffsetRange
    only_at_source: bool
    reason: str

    def as_json(self) -> dict[str, Any]:
        return {
            "onlyAt": "source" if self.only_at_source else "mirror",
            "startOffset": self.offsets.start,
            "endOffset": self.offsets.end,
            "reason": self.reason,
        }

    def __str__(self) -> str:
        where = "source: this log begins later" if self.only_at_source else "mirror: the source begins later"
        return f"{self.offsets} are only at the {where} ({self.reason})"


@dataclass(slots=True)
class Fronts:
    """What was found, by mirror and partition; and of which mirrors nothing is known, and why."""

    found: dict[tuple[str, TopicPartition], OneSided] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)

    def notes(self) -> list[str]:
        told = [f"{mirror}: {name}: {one}" for (mirror, name), one in sorted(self.found.items(), key=lambda pair: pair[0])]
        unknown = "not known whether it has records before the log starts here"
        return told + [
            f"{mirror}: the source was not looked at, so it is {unknown}: {why}" for mirror, why in sorted(self.problems.items())
        ]
