"""`count()` of a `kafka-log` frame from batch headers: nothing is unpacked, and Spark gets no row
per record.

Spark does not tell a Python source which columns a query needs, so a plain count would make them
all. The plan shows what a count needs: the columns of its filters. If the plan consists of filters
and column selections over our source, `count()` loads the source again with only these columns:

    filter columns                                loads
    the same for all records of a batch           rows of batches, and sums their record counts
    others                                        rows of records, with only the filters' columns

Such a count does not check CRCs, because it does not read what they cover. `mode=PERMISSIVE` does
check them, so Spark counts there itself, as it does for all other plans. It also counts what is
cached: `count()` is how one fills a cache, and the cache decides what the rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kmirror.spark.columns import SHARED
from kmirror.spark.options import MARKED, NAME, ReadOptions
from kmirror.spark.replaced_methods import replace_once

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WHOLE_BATCHES: Final = {"path", "paths", "rows", "columns", "splitbytes", "mode", "replica", MARKED}
"""With any other option, part of a batch may be wanted."""


def count_from_headers(source_name: str) -> None:
    """Makes `DataFrame.count()` count the frames of this source from headers."""
    from pyspark.sql.classic.dataframe import DataFrame

    replace_once(DataFrame, "count", lambda original: _count_from_headers(original, source_name))


def _count_from_headers(original: Callable[..., int], source_name: str) -> Callable[..., int]:
    def count(self: DataFrame) -> int:
        counting = counting_frame(self, source_name)
        if counting is None:
            return int(original(self))
        return int(counting.collect()[0]["n"] or 0) if counting.columns == ["n"] else int(original(counting))

    return count


def counting_frame(frame: DataFrame, source_name: str) -> DataFrame | None:
    """Returns a frame whose only row has the count as `n`, or one with the same number of rows and
    fewer columns; None for other plans."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return _narrowed(frame, source_name)
    except (Py4JError, PySparkException):
        return None  # a plan of another Spark version, or an error that Spark's own count will report


def _narrowed(frame: DataFrame, source_name: str) -> DataFrame | None:
    filters: list[Any] = []
    plan = frame._jdf.queryExecution().analyzed()
    if _is_cached(frame, plan):
        return None
    while (kind := plan.getClass().getSimpleName()) in ("Filter", "Project", "SubqueryAlias"):
        if kind == "Filter":
            filters.append(plan)
        elif kind == "Project" and not _only_chooses(plan):
            return None
        plan = plan.child()
    if kind != "DataSourceV2Relation" or plan.table().name() != source_name:
        return None
    attributes = {one.exprId().id(): one for one in _items(plan.output())}
    needed = set()
    for node in filters:
        if not _can_move(frame, node.condition()):
            return None
        needed |= {one.exprId().id() for one in _items(node.condition().references().toSeq())}
    if not needed <= set(attributes):
        return None
    options = {str(key): str(plan.options().get(key)) for key in plan.options().keySet()}
    kept = {attributes[number].name(): attributes[number] for number in sorted(needed)}
    return _narrower(frame, filters, kept, options)


def _is_cached(frame: DataFrame, plan: Any) -> bool:
    """Whether Spark would take a part of the plan from its cache. A frame's own execution may be
    older than its cache, so a new one is asked."""
    jvm: Any = frame.sparkSession._jvm
    execution = jvm.org.apache.spark.sql.classic.Dataset.ofRows(frame.sparkSession._jsparkSession, plan).queryExecution()
    return not execution.withCachedData().sameResult(execution.normalized())


def _narrower(frame: DataFrame, filters: list[Any], kept: dict[str, Any], options: dict[str, str]) -> DataFrame | None:
    """Returns the frame loaded again, with the filters' columns (`kept`: their attributes, by name)
    or with its batches' record counts."""
    narrowed = narrowed_options(options, kept)
    if narrowed is None:
        return None
    if MARKED in options:
        narrowed.options[MARKED] = "true"  # this load has only this query
    made = _with_filters(frame, _load(frame, narrowed.options), filters, kept)
    if not narrowed.sums:
        return made
    from pyspark.sql import functions

    return made.agg(functions.sum("record_count").alias("n"))


class Narrowed(NamedTuple):
    """Options of a load for counting. `sums`: its rows are batches, and `record_count` is added up."""

    options: dict[str, str]
    sums: bool


def narrowed_options(options: Mapping[str, str], names: Iterable[str]) -> Narrowed | None:
    """Returns options that load only the columns `names` of the same rows, or of their batches; None
    if every record has to be checked. KmirrorError as in `ReadOptions.parse`."""
    names = list(names)
    given = {key.lower(): value for key, value in options.items()}
    parsed = ReadOptions.parse(given)
    if parsed.is_permissive:
        return None
    is_record = parsed.rows == "record"
    sums = is_record and set(names) <= set(SHARED) and set(given) <= _WHOLE_BATCHES
    changed = {key: value for key, value in given.items() if key not in ("columns", "rows", MARKED)}
    changed["rows"] = "batch" if sums or not is_record else "record"
    changed["columns"] = ",".join([*names, "record_count"] if sums else names or ["partition"])
    return Narrowed(changed, sums)


def _load(frame: DataFrame, options: dict[str, str]) -> Any:
    """Returns the relation of a new `load()`, without our marker."""
    reader = frame.sparkSession._jsparkSession.read().format(NAME)
    for key, value in options.items():
        reader = reader.option(key, value)
    return reader.load().queryExecution().analyzed()


def _with_filters(frame: DataFrame, relation: Any, filters: list[Any], kept: dict[str, Any]) -> DataFrame:
    from pyspark.sql.classic.dataframe import DataFrame

    jvm: Any = frame.sparkSession._jvm
    sequence = jvm.org.apache.spark.api.python.PythonUtils.toSeq
    output = sequence([kept.get(attribute.name(), attribute) for attribute in _items(relation.output())])
    plan = relation.copy(relation.table(), output, relation.catalog(), relation.identifier(), relation.options(), relation.timeTravelSpec())
    for node in reversed(filters):
        plan = node.withNewChildren(sequence([plan]))
    rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(frame.sparkSession._jsparkSession, plan)
    return DataFrame(rows, frame.sparkSession)


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]


def _only_chooses(project: Any) -> bool:
    """Whether every column of a projection is a column of its input, with the same name."""
    return all(one.getClass().getSimpleName() == "AttributeReference" for one in _items(project.projectList()))


def _can_move(frame: DataFrame, condition: Any) -> bool:
    """Whether a condition can be evaluated on each row by itself."""
    jvm: Any = frame.sparkSession._jvm
    return bool(condition.deterministic()) and not jvm.org.apache.spark.sql.catalyst.expressions.SubqueryExpression.hasSubquery(condition)
