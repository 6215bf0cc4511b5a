"""Settings by name, typed by their definition (Kafka's `AbstractConfig`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from kmirror.common.config import ConfigDef, to_text


class AbstractConfig:
    """`props` holds what the user set, as text; `values` every setting of `definition`, typed."""

    def __init__(self, definition: ConfigDef, props: Mapping[str, str]) -> None:
        self.definition = definition
        self.props = dict(props)
        self.values = definition.parse(self.props)

    def get_int(self, name: str) -> int:
        return cast(int, self.values[name])

    def get_optional_int(self, name: str) -> int | None:
        return cast("int | None", self.values[name])

    def get_bool(self, name: str) -> bool:
        return cast(bool, self.values[name])

    def get_float(self, name: str) -> float:
        return cast(float, self.values[name])

    def get_string(self, name: str) -> str | None:
        return cast("str | None", self.values[name])

    def get_list(self, name: str) -> list[str]:
        """An unset list is empty."""
        return [item for item in cast("list[str] | None", self.values[name]) or [] if item]

    def text(self, name: str) -> str | None:
        """The value as Kafka prints it; passwords come out hidden."""
        return to_text(self.values[name], self.definition[name].type)
