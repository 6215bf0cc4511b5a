"""The filters that `kafka-log` uses itself: comparisons of topic, partition, offset and timestamp
with constants.

Topics and partitions select folders. Offsets select segments, bytes of a segment (by its offset
index), batches and finally rows. A lower bound of the timestamp selects segments (by their time
index) and batches (by the largest timestamp in their header). An upper bound selects nothing,
because no header has the smallest timestamp of its records. For rows of batches the columns are
`base_offset` and `max_timestamp`. Spark evaluates all filters again: see `pushdown` for why.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

MAX_OFFSET: Final = (1 << 63) - 1
NO_TIME: Final = -(1 << 63)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class FarTime(int):
    """Microseconds since 1970 of a time that `datetime` does not have: before year 1 or after
    9999."""


@dataclass
class Pushed:
    """What the accepted filters leave to read. `low` and `high` are the first and last offset
    wanted."""

    offset_column: str = "offset"
    topics: set[str] | None = None
    prefixes: list[str] = field(default_factory=list)
    partitions: set[int] | None = None
    partition_low: int = 0
    partition_high: int = MAX_OFFSET
    low: int = 0
    high: int = MAX_OFFSET
    time_low: int = NO_TIME
    """In milliseconds; older batches are not wanted."""

    @property
    def time_column(self) -> str:
        return "timestamp" if self.offset_column == "offset" else "max_timestamp"

    def wants(self, topic: str, partition: int) -> bool:
        return (
            (self.topics is None or topic in self.topics)
            and all(topic.startswith(prefix) for prefix in self.prefixes)
            and (self.partitions is None or partition in self.partitions)
            and self.partition_low <= partition <= self.partition_high
        )

    def hull(self, other: Pushed) -> Pushed:
        """Returns the narrowest selection that has all that `self` or `other` wants (for
        partitions, as far as ranges and sets can express it)."""
        return Pushed(
            offset_column=self.offset_column,
            topics=None if self.topics is None or other.topics is None else self.topics | other.topics,
            prefixes=self.prefixes if self.prefixes == other.prefixes else [],
            partitions=None if self.partitions is None or other.partitions is None else self.partitions | other.partitions,
            partition_low=min(self.partition_low, other.partition_low),
            partition_high=max(self.partition_high, other.partition_high),
            low=min(self.low, other.low),
            high=max(self.high, other.high),
            time_low=min(self.time_low, other.time_low),
        )

    def push(self, filters: Iterable[Filter]) -> list[Filter]:
        """Takes the filters that it can use, and returns the others."""
        return [one for one in filters if not self._take(one)]

    def _take(self, one: Filter) -> bool:
        from pyspark.sql import datasource as spark

        attribute = ".".join(getattr(one, "attribute", ()))
        value = getattr(one, "value", None)
        if isinstance(one, spark.IsNotNull):
            return attribute in ("topic", "partition", self.offset_column)
        if attribute == "topic":
            return self._take_topic(one, value)
        if attribute == self.time_column:
            return self._take_time(one, value)
        if attribute not in ("partition", self.offset_column):
            return False
        if isinstance(one, spark.In):
            if attribute != "partition":
                return False
            self._keep_partitions(value if isinstance(value, (tuple, list)) else ())
            return True
        if not isinstance(value, int):
            return False
        if isinstance(one, (spark.EqualTo, spark.EqualNullSafe)):
            self._narrow(attribute, value, value)
        elif isinstance(one, spark.GreaterThan):
            self._narrow(attribute, value + 1, MAX_OFFSET)
        elif isinstance(one, spark.GreaterThanOrEqual):
            self._narrow(attribute, value, MAX_OFFSET)
        elif isinstance(one, spark.LessThan):
            self._narrow(attribute, 0, value - 1)
        elif isinstance(one, spark.LessThanOrEqual):
            self._narrow(attribute, 0, value)
        else:
            return False
        return True

    def _take_topic(self, one: Filter, value: object) -> bool:
        from pyspark.sql import datasource as spark

        if isinstance(one, (spark.EqualTo, spark.EqualNullSafe)) and isinstance(value, str):
            names = {value}
        elif isinstance(one, spark.In) and isinstance(value, (tuple, list)):
            names = set(value)
        elif isinstance(one, spark.StringStartsWith) and isinstance(value, str):
            self.prefixes.append(value)
            return True
        else:
            return False
        self.topics = names if self.topics is None else self.topics & names
        return True

    def _take_time(self, one: Filter, value: object) -> bool:
        from pyspark.sql import datasource as spark

        kinds = (spark.GreaterThan, spark.GreaterThanOrEqual, spark.EqualTo, spark.EqualNullSafe)
        if not isinstance(one, kinds):
            return False
        if isinstance(value, FarTime):
            self.time_low = max(self.time_low, value // 1000)
        elif isinstance(value, datetime) and value.tzinfo is not None:
            self.time_low = max(self.time_low, (value - _EPOCH) // timedelta(milliseconds=1))
        else:
            return False
        return True

    def _keep_partitions(self, numbers: Iterable[int]) -> None:
        wanted = set(numbers)
        self.partitions = wanted if self.partitions is None else self.partitions & wanted

    def _narrow(self, attribute: str, low: int, high: int) -> None:
        if attribute == "partition":
            self.partition_low, self.partition_high = max(self.partition_low, low), min(self.partition_high, high)
        else:
            self.low, self.high = max(self.low, low), min(self.high, high)
