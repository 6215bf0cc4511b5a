"""A decision of the controller: records to append, and the answer to give once they are
committed."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct, field

from kmirror.metadata.record import ApiMessageAndVersion

T = TypeVar("T")


class ControllerResult(Struct, Generic[T], frozen=True):
    """With `atomic` all `records` take effect together (as one batch); kmirror's managers always
    write them so. `kraft_version` raises the log's kraft.version, before the records."""

    records: list[ApiMessageAndVersion] = field(default_factory=list)
    response: T | None = None
    kraft_version: int | None = None
