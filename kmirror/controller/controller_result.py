"""What a decision of the controller is: records to append, and the answer to give once they are committed."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct, field

from kmirror.metadata.record import ApiMessageAndVersion

T = TypeVar("T")


class ControllerResult(Struct, Generic[T], frozen=True):
    """`records` take effect all together (one batch) when `atomic`, which is how kmirror's managers always write them. `kraft_version` raises
    that of the log, before the records."""

    records: list[ApiMessageAndVersion] = field(default_factory=list)
    response: T | None = None
    kraft_version: int | None = None
