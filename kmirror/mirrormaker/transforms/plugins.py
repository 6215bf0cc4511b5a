"""The transformations and predicates that there are, by their classes' names: those of Kafka's
`connect-transforms`.

A class is named in full. Those that do not work on a key or a value, and predicates, may be named without
their package, too: `RegexRouter`, but `org.apache.kafka.connect.transforms.Cast$Value`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from kmirror.common.config import ConfigDef
from kmirror.mirrormaker.transforms import conversions, fields, headers, predicates, routers
from kmirror.mirrormaker.transforms.predicates import Predicate, Values
from kmirror.mirrormaker.transforms.routers import Transformation
from kmirror.mirrormaker.transforms.sides import KEY, VALUE, Side

PACKAGE: Final = "org.apache.kafka.connect.transforms."
PREDICATES_PACKAGE: Final = f"{PACKAGE}predicates."


class TransformationPlugin(NamedTuple):
    """`make` gets the typed configs; ConfigError for what is wrong about them together."""

    java_class: str
    definition: ConfigDef
    make: Callable[[Values], Transformation]


class PredicatePlugin(NamedTuple):
    java_class: str
    definition: ConfigDef
    make: Callable[[Values], Predicate]


_SIDED: Final[Mapping[str, tuple[ConfigDef, Callable[[Side, Values], Transformation]]]] = {
    "Cast": (conversions.CAST_DEF, conversions.cast),
    "ExtractField": (fields.EXTRACT_FIELD_DEF, fields.extract_field),
    "Flatten": (fields.FLATTEN_DEF, fields.flatten),
    "HeaderFrom": (headers.HEADER_FROM_DEF, headers.header_from),
    "HoistField": (fields.HOIST_FIELD_DEF, fields.hoist_field),
    "InsertField": (fields.INSERT_FIELD_DEF, fields.insert_field),
    "MaskField": (fields.MASK_FIELD_DEF, fields.mask_field),
    "ReplaceField": (fields.REPLACE_FIELD_DEF, fields.replace_field),
    "SetSchemaMetadata": (fields.SET_SCHEMA_METADATA_DEF, fields.set_schema_metadata),
    "TimestampConverter": (conversions.TIMESTAMP_CONVERTER_DEF, conversions.timestamp_converter),
}
_WHOLE: Final[Mapping[str, tuple[ConfigDef, Callable[[Values], Transformation]]]] = {
    "DropHeaders": (headers.DROP_HEADERS_DEF, headers.drop_headers),
    "Filter": (routers.FILTER_DEF, routers.filter_all),
    "InsertHeader": (headers.INSERT_HEADER_DEF, headers.insert_header),
    "RegexRouter": (routers.REGEX_ROUTER_DEF, routers.regex_router),
    "TimestampRouter": (routers.TIMESTAMP_ROUTER_DEF, routers.timestamp_router),
    "ValueToKey": (fields.VALUE_TO_KEY_DEF, fields.value_to_key),
}
_PREDICATES: Final[Mapping[str, tuple[ConfigDef, Callable[[Values], Predicate]]]] = {
    "HasHeaderKey": (predicates.HAS_HEADER_KEY_DEF, predicates.has_header_key),
    "RecordIsTombstone": (predicates.RECORD_IS_TOMBSTONE_DEF, predicates.record_is_tombstone),
    "TopicNameMatches": (predicates.TOPIC_NAME_MATCHES_DEF, predicates.topic_name_matches),
}
TRANSFORMATIONS: Final = {
    **{name: TransformationPlugin(PACKAGE + name, *row) for name, row in _WHOLE.items()},
    **{
        f"{name}${side.name}": TransformationPlugin(f"{PACKAGE}{name}${side.name}", definition, partial(make, side))
        for name, (definition, make) in _SIDED.items()
        for side in (KEY, VALUE)
    },
}
"""By their names without a package."""
PREDICATES: Final = {name: PredicatePlugin(PREDICATES_PACKAGE + name, *row) for name, row in _PREDICATES.items()}


def transformation_plugin(given: str) -> TransformationPlugin | None:
    name = given.strip()
    return TRANSFORMATIONS.get(name.removeprefix(PACKAGE)) if name.startswith(PACKAGE) or "$" not in name else None


def abstract_classes() -> dict[str, list[str]]:
    """Returns what stands for two classes, for keys and for values, by name without a package."""
    return {name: [f"{PACKAGE}{name}${side.name}" for side in (KEY, VALUE)] for name in _SIDED}


def predicate_plugin(given: str) -> PredicatePlugin | None:
    return PREDICATES.get(given.strip().removeprefix(PREDICATES_PACKAGE))
