"""Transformations, predicates and converters, as Apache's classes answer (`test_transforms_against_apache`)."""

from __future__ import annotations

import random
import re

import pytest
from support.mirrormaker.transform_cases import chain_props, ours, random_record

from kmirror.common.errors import ConfigError
from kmirror.mirrormaker.transforms import Failed, Made, alias_configs, changes_headers, make_chain, source_record
from kmirror.mirrormaker.transforms.date_format import compile_format, format_date, parse_date
from kmirror.mirrormaker.transforms.literals import parse_literal, text_of

PACKAGE = "org.apache.kafka.connect.transforms."
SIMPLE = {"header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter"}
TIME = 1_700_000_000_123
Props = dict[str, str]


def chain(*stages: Props, **others: str) -> Props:
    props = {"transforms": ",".join(f"t{number}" for number in range(len(stages))), **others}
    for number, stage in enumerate(stages):
        props |= {f"transforms.t{number}.{name}": value for name, value in stage.items()}
    return props


def made(props: Props, value: bytes | None = b"v", headers: list[tuple[str, bytes | None]] | None = None) -> Made | Failed | None:
    return make_chain(props).apply(source_record("A.t", 7, b"k", value, headers or [], TIME))


def sided(name: str, side: str = "Value", **configs: str) -> Props:
    return {"type": f"{PACKAGE}{name}${side}", **{config.replace("_", "."): value for config, value in configs.items()}}


ONLY_VALIDATED = re.compile("duplicated|defining a predicate|either true or false")
"""What the validation of a config refuses, and a task does without."""
HOIST = sided("HoistField", field="x")


@pytest.mark.parametrize(
    ("stage", "topic"),
    [
        ({"type": "RegexRouter", "regex": r"A\.(.*)", "replacement": "b-$1"}, "b-t"),
        ({"type": "RegexRouter", "regex": r"(?<n>.)\..*", "replacement": r"${n}\$$0"}, "A$A.t"),
        ({"type": "RegexRouter", "regex": "t", "replacement": "b"}, "A.t"),
        ({"type": "RegexRouter", "regex": "A|A.t", "replacement": "b"}, "b.t"),
        ({"type": "TimestampRouter"}, "A.t-20231114"),
        ({"type": "TimestampRouter", "topic.format": "${timestamp}_${topic}", "timestamp.format": "yyyy.MM 'w'EEE"}, "2023.11 wTue_A.t"),
        ({"type": "InsertHeader", "header": "h", "value.literal": "null"}, "A.t"),
    ],
)
def test_topics(stage: Props, topic: str) -> None:
    found = made(chain(stage))
    assert isinstance(found, Made) and found[1:4] == (7, b"k", b"v")
    assert found.topic == topic


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([{"type": "RegexRouter", "regex": ".*", "replacement": "$2"}], "TRANSFORMATION IndexOutOfBoundsException: No group 2"),
        ([{"type": "InsertHeader", "header": "h", "value.literal": "v"}],
         "HEADER_CONVERTER DataException: Invalid schema type for ByteArrayConverter: STRING"),
        ([sided("InsertField", topic_field="x")],
         "TRANSFORMATION DataException: Only Struct objects supported for [field insertion], found: [B"),
        ([sided("InsertField", "Key", topic_field="x")],
         "TRANSFORMATION DataException: Only Struct objects supported for [field insertion], found: [B"),
        ([sided("SetSchemaMetadata", schema_name="n")], "TRANSFORMATION DataException: Cannot list fields on non-struct type"),
        ([sided("Cast", spec="string")], "VALUE_CONVERTER DataException: Invalid schema type for ByteArrayConverter: STRING"),
        ([sided("Cast", spec="int8")], "TRANSFORMATION DataException: Unexpected type in Cast transformation: class [B"),
        ([HOIST], "VALUE_CONVERTER DataException: Invalid schema type for ByteArrayConverter: STRUCT"),
        ([HOIST, sided("ExtractField", field="y")], "TRANSFORMATION IllegalArgumentException: Unknown field: y"),
        ([HOIST, sided("MaskField", fields="x")], "TRANSFORMATION DataException: Cannot mask value of type: class [B"),
        ([{"type": "ValueToKey", "fields": "x"}],
         "TRANSFORMATION DataException: Only Struct objects supported for [copying fields from value to key], found: [B"),
        ([sided("TimestampConverter", target_type="unix")],
         "TRANSFORMATION ConnectException: Schema Schema{BYTES} does not correspond to a known timestamp type format"),
    ],
)  # fmt: skip
def test_what_fails_on_bytes_fails_in_connects_words(stages: list[Props], message: str) -> None:
    found = made(chain(*stages))
    assert isinstance(found, Failed)
    assert f"{found.stage} {found.error.java_class.rpartition('.')[2]}: {found.error}" == message


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ([HOIST, {"type": "ValueToKey", "fields": "x"}, sided("ExtractField", "Key", field="x"), sided("ExtractField", field="x")],
         (b"v", b"v", [])),
        ([HOIST, sided("HeaderFrom", fields="x", headers="h", operation="copy"), sided("ExtractField", field="x")], (b"k", b"v", [("h", b"v")])),
        ([HOIST, sided("ReplaceField", renames="x:y"), sided("ExtractField", field="y")], (b"k", b"v", [])),
        ([HOIST, sided("HoistField", field="o"), sided("Flatten", delimiter="_"), sided("ExtractField", field="o_x")], (b"k", b"v", [])),
        ([HOIST, sided("HoistField", field="a.b"), sided("ExtractField", field="`a.b`.x", field_syntax_version="v2")], (b"k", b"v", [])),
    ],
)  # fmt: skip
def test_bytes_go_through_structs(stages: list[Props], expected: tuple[bytes, bytes, list[tuple[str, bytes]]]) -> None:
    found = made(chain(*stages))
    assert isinstance(found, Made)
    assert (found.key, found.value, found.headers) == expected


def test_headers_become_text_if_the_connector_says_so_and_only_then() -> None:
    stages = ({"type": "DropHeaders", "headers": "gone"}, {"type": "InsertHeader", "header": "h", "value.literal": "[1, 300]"})
    headers: list[tuple[str, bytes | None]] = [("gone", b"1"), ("kept", b"\xff"), ("null", None)]
    found = made(chain(*stages, **SIMPLE), headers=headers)
    assert isinstance(found, Made)
    assert found.headers == [("kept", b"/w=="), ("null", None), ("h", b"[1,300]")]
    of_worker = make_chain(chain(*stages), SIMPLE["header.converter"]).apply(source_record("A.t", 0, None, None, headers, TIME))
    assert isinstance(of_worker, Made)
    assert of_worker.headers == [("kept", b"\xff"), ("null", None), ("h", b"[1,300]")]
    assert [changes_headers(one) for one in (None, "ByteArrayConverter", SIMPLE["header.converter"])] == [False, False, True]


@pytest.mark.parametrize(
    ("props", "kept"),
    [
        ({"predicates.p.type": "RecordIsTombstone"}, True),
        ({"predicates.p.type": "RecordIsTombstone", "transforms.t0.negate": "TRUE"}, False),
        ({"predicates.p.type": "TopicNameMatches", "predicates.p.pattern": "A"}, True),
        ({"predicates.p.type": "TopicNameMatches", "predicates.p.pattern": r"A\..*"}, False),
        ({"predicates.p.type": "HasHeaderKey", "predicates.p.name": "h"}, False),
        ({"predicates.p.type": f"{PACKAGE}predicates.HasHeaderKey", "predicates.p.name": "i"}, True),
    ],
)
def test_predicates(props: Props, kept: bool) -> None:
    whole = chain({"type": "Filter", "predicate": "p"}, predicates="p") | props
    assert (made(whole, headers=[("h", b"1")]) is not None) is kept


@pytest.mark.parametrize(
    ("props", "message"),
    [
        (chain(sided("InsertField")), "No field insertion configured"),
        (chain({"type": "Filter", "predicate": "nope"}), "predicates.nope.type"),
        (chain({"type": "Cast$Value", "spec": "int8"}), "Not a Transformation"),
        (chain({"type": "RegexRouter", "regex": "(", "replacement": ""}), "Invalid regex"),
        (chain({"type": "Filter"}, **{"header.converter": "nope"}), "Class nope could not be found"),
    ],
)
def test_a_chain_that_cannot_be_made_says_why(props: Props, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_chain(props)


@pytest.mark.parametrize("seed", range(3))
def test_any_chain_makes_something_of_any_record(seed: int) -> None:
    """Nothing but Connect's own errors comes out, whatever goes in; and what validation refuses is no surprise."""
    source = random.Random(seed)
    for _ in range(400):
        props = chain_props(source)
        answer = ours({"props": props, "records": [random_record(source) for _ in range(2)]})
        assert answer.keys() <= {"config", "records"}
        if "records" in answer:
            errors = [error for config in alias_configs(props) for error in config.errors]
            assert all(ONLY_VALIDATED.search(error) for error in errors), (props, errors)


@pytest.mark.parametrize(
    ("literal", "type_", "text"),
    [
        ("", "STRING", ""), ("a b", "STRING", "a b"), ("5", "INT8", "5"), ("300", "INT16", "300"), ("1e3", "INT16", "1000"),
        ("1.50", "FLOAT32", "1.5"), ("99999999999999999999", "BYTES", "99999999999999999999"), ("true", "BOOLEAN", "true"),
        ("True", "STRING", "True"), ("[1, 1.5]", "ARRAY", "[1.0,1.5]"), ("[1,,2]", "STRING", "[1,,2]"), ('{"a": 1}', "MAP", '{"a":1}'),
        ("[1,null]", "STRING", "[1,null]"), ("2024-01-31", "INT32", "2024-01-31"), ("2024-13-31", "INT32", "2025-01-31"),
        ("10:00:00.000Z", "INT32", "10:00:00.000Z"), ("2024-01-31T10:00:00.000Z", "INT64", "2024-01-31T10:00:00.000Z"),
    ],
)  # fmt: skip
def test_literals(literal: str, type_: str, text: str) -> None:
    schema, value = parse_literal(literal)
    assert (schema and schema.type, text_of(value)) == (type_, text)


@pytest.mark.parametrize(
    ("pattern", "milliseconds", "text"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", 951_782_400_007, "2000-02-29T00:00:00.007Z"), ("yyyyMMdd", -1, "19691231"),
        ("yy D F u", TIME, "23 318 2 2"), ("''yyyy''", 253_402_300_800_000, "'10000'"), ("h a K k", 0, "12 AM 0 24"), ("Z X XXX z", 0, "+0000 Z Z UTC"),
    ],
)  # fmt: skip
def test_dates(pattern: str, milliseconds: int, text: str) -> None:
    assert format_date(compile_format(pattern), milliseconds) == text


def test_a_date_is_parsed_as_it_is_written() -> None:
    pieces = compile_format("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
    source = random.Random(7)
    for _ in range(300):
        milliseconds = source.randrange(0, 253_402_300_800_000)
        assert parse_date(pieces, format_date(pieces, milliseconds)) == milliseconds
