"""The options of `kafka-log`, checked; `data_source` says what they mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kmirror.common.errors import KmirrorError
from kmirror.spark.columns import BATCH_COLUMNS, CORRUPT_COLUMN, MORE_BATCH_COLUMNS, MORE_RECORD_COLUMNS, RECORD_COLUMNS
from kmirror.verify.planner import TASK_BYTES

NAME: Final = "kafka-log"
MARKED: Final = "kmirror.marked"
"""Set by our own `load()`: the frame has a filter in every query (`pushdown`)."""
OPTIONS: Final = {name.lower(): name for name in ("path", "rows", "columns", "splitBytes", "mode")}


@dataclass(frozen=True)
class ReadOptions:
    """The checked options of one read."""

    path: str
    rows: str
    columns: tuple[str, ...]
    split_bytes: int
    is_permissive: bool
    is_marked: bool

    @property
    def offset_column(self) -> str:
        return "offset" if self.rows == "record" else "base_offset"

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """KmirrorError with one line for what is unknown, missing or not allowed."""
        given = {key.lower(): value for key, value in options.items()}
        is_marked = given.pop(MARKED, None) is not None
        unknown = sorted(set(given) - set(OPTIONS))
        if unknown:
            raise KmirrorError(f"{NAME}: there is no option {', '.join(unknown)}; the options are {', '.join(OPTIONS.values())}")
        if not given.get("path"):
            raise KmirrorError(f'{NAME}: no path; use spark.read.format("{NAME}").load("/a/log/dir")')
        rows = _one_of(given, "rows", "record", "batch")
        split = given.get("splitbytes", str(TASK_BYTES))
        if not split.isdecimal() or int(split) < 1:
            raise KmirrorError(f"{NAME}: option splitBytes is a number of bytes, not '{split}'")
        is_permissive = _one_of(given, "mode", "FAILFAST", "PERMISSIVE") == "PERMISSIVE"
        made = cls(given["path"], rows, (), int(split), is_permissive, is_marked)
        default = RECORD_COLUMNS if rows == "record" else BATCH_COLUMNS
        names = [name.strip() for name in given.get("columns", ",".join(default)).split(",")]
        return made.with_columns([*names, CORRUPT_COLUMN] if is_permissive else names)

    def with_columns(self, names: Sequence[str]) -> ReadOptions:
        """KmirrorError for a column that there is not."""
        known = (*RECORD_COLUMNS, *MORE_RECORD_COLUMNS) if self.rows == "record" else (*BATCH_COLUMNS, *MORE_BATCH_COLUMNS)
        known = (*known, CORRUPT_COLUMN) if self.is_permissive else known
        wrong = [name for name in names if name not in known]
        if wrong:
            raise KmirrorError(
                f"{NAME}: a {self.rows} has no column {', '.join(wrong) or 'without a name'}; the columns are {', '.join(known)}"
            )
        return replace(self, columns=tuple(dict.fromkeys(names)))


def _one_of(given: Mapping[str, str], name: str, *allowed: str) -> str:
    """The value of an option, in any case; the first of `allowed` by default."""
    value = given.get(name.lower(), allowed[0])
    for one in allowed:
        if value.lower() == one.lower():
            return one
    raise KmirrorError(f"{NAME}: option {name} is {' or '.join(repr(one) for one in allowed)}, not '{value}'")
