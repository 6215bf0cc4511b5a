"""Random chains of transformations and random records, as JSON, and what ours make of them."""

from __future__ import annotations

import base64
import random
import re
from typing import Any

from kmirror.common.errors import ConfigError
from kmirror.mirrormaker.transforms import Chain, Failed, make_chain, source_record
from kmirror.mirrormaker.transforms.plugins import PACKAGE, PREDICATES_PACKAGE

OBJECT = re.compile(r"org[.\w]*InsertField\$InsertionSpec@\w+|(?<=No value specified for static field: )[\w.!?]+")
"""What Java prints of an object without a text of its own."""
FIELDS = ("x", "y", "a.b", "z")
TIMES = (0, -1, 1, 86_399_999, 951_782_400_000, 1_700_000_000_123, 1_735_603_200_000, 4_102_444_800_000, 253_402_300_800_000)
PATTERNS = ("yyyyMMdd", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", "yy.M.d", "EEE EEEE MMM MMMM", "a hh KK kk H", "D F u", "''yyyy''", "bad b",
            "yyyy 'open", "S SS SSSS", "X XX XXX Z z", "G", "HH:mm:ss.SSS'Z'", "", "yyyy-MM-dd", "XXXX")  # fmt: skip
STATIC = ("5", "500", "1.5", "true", "2024-01-31", "s", "1e20", "-1e10", "NaN", "-Infinity", "1e400", "9223372036854775807", "-3000000000",
          "1e-7", "3.4028236e38", " 7", "0x1p3", "1.5f", "+5", "\u0665")  # fmt: skip
LITERALS = ("v", "5", "-5", "300", "70000", "5000000000", "99999999999999999999", "1.5", "1.50", "0.1", "0", "00", "+7", "1e3", "1e40",
            "1.5e300", "null", "true", " false ", "True", "", "  ", "[1, 2]", "[1,300,1.5]", "[]", "[a]", '["a","b"]', '{"a":1,"b":2}', "{}",
            "{a:1}", "[1", "[1,,2]", "{1:2, 3:null}", "a,b", "a:b", "10:00:00.000Z", "2024-01-31", "2024-13-31",
            "2024-01-31T10:00:00.000Z", "2024-01-31T10:00:00", "1970-01-01T00:00:00.000Z", "http://a", "\\{x\\}", '"q"', '["a\\"b"]', "[null]",
            "[true, false]", "[true, 1]", "1.", ".5", "-", "+", "1d", "0x10", "[[1],[2]]", '{"a":[1,2]}', "[ 1 , 2 ]", "null ", "nullx",
            '["2024-01-31"]', "1,2", "é")  # fmt: skip


def sided(name: str, side: str) -> str:
    return f"{PACKAGE}{name}${side}"


def one_or_more(source: random.Random, choices: tuple[str, ...]) -> str:
    return ",".join(source.choices(choices, k=source.choice((1, 1, 1, 2))))


def plugin_props(source: random.Random, side: str) -> dict[str, str]:
    field = source.choice(FIELDS)
    whole: list[dict[str, str]] = [
        {"type": "RegexRouter", "regex": source.choice((r"A\.(.*)", ".*", r"(\w+)\.(\w+)", "A|A.t", "(?<n>A).*", "x(y)?.*|A.t")),
         "replacement": source.choice(("$1", "b-$1", "$0-x", "$2.$1", "${n}", "\\$1", "$12", "plain", "$", "${nope}", "$x", "end\\", "${n"))},
        {"type": "TimestampRouter", "timestamp.format": source.choice(PATTERNS), "topic.format": source.choice(
            ("${topic}-${timestamp}", "${timestamp}", "x${topic}${topic}", "plain", "${nope}"))},
        {"type": "Filter"},
        {"type": "InsertHeader", "header": source.choice(("h", "i", "")), "value.literal": source.choice(LITERALS)},
        {"type": "DropHeaders", "headers": source.choice(("h", "h,i", "", "h,h", "j,"))},
        {"type": "ValueToKey", "fields": one_or_more(source, FIELDS)},
    ]  # fmt: skip
    by_side: list[dict[str, str]] = [
        {"type": "HoistField", "field": field},
        {"type": "HoistField", "field": field},
        {"type": "HoistField", "field": source.choice((field, ""))},
        {"type": "ExtractField", "field": field},
        {"type": "ExtractField", "field": field},
        {"type": "ExtractField", "field": source.choice(("x.y", "`a.b`", "x.x.x", "`a.b`.y", "`open", "x.", "")),
         "field.syntax.version": source.choice(("V2", "v2", "V3"))},
        {"type": "HeaderFrom", "fields": one_or_more(source, FIELDS), "headers": source.choice(("h", "i", "h,i")),
         "operation": source.choice(("move", "copy", "copy", "steal"))},
        {"type": "InsertField", **{
            f"{kind}.field": source.choice(FIELDS) + source.choice(("", "?", "!"))
            for kind in source.sample(("topic", "partition", "timestamp", "static", "offset"), source.choice((0, 1, 2)))},
         **source.choice(({}, {"static.value": source.choice(STATIC)}))},
        {"type": "ReplaceField", **source.choice(({"renames": f"{field}:y"}, {"exclude": field}, {"include": field, "renames": "x:z,y:w"},
                                                  {"renames": "bad"}, {"renames": "a:b:c"}, {}, {"include": "x,x"}))},
        {"type": "MaskField", "fields": one_or_more(source, FIELDS), **source.choice(({}, {"replacement": source.choice(("7", "x", ""))}))},
        {"type": "SetSchemaMetadata", **source.choice(({"schema.name": "n"}, {"schema.version": "3"}, {"schema.version": "x"}, {},
                                                       {"schema.name": "org.apache.kafka.connect.data.Timestamp"}))},
        {"type": "Flatten", **source.choice(({}, {"delimiter": "_"}, {"delimiter": ""}))},
        {"type": "Cast", "spec": source.choice(("string", "int8", "int64", "float32", "boolean", "x:int8", "x:string,y:int32", "x:bytes",
                                                "bytes", "nope", "", "int8,int16", "a:b:c", "x:float64", "x:boolean", "x:float32"))},
        {"type": "TimestampConverter", "target.type": source.choice(("string", "unix", "Date", "Time", "Timestamp", "none")),
         "format": source.choice(("", "yyyy-MM-dd", "bad b")), "field": source.choice(("", "x", "y")),
         "unix.precision": source.choice(("seconds", "microseconds", "milliseconds", "nanoseconds"))},
    ]  # fmt: skip
    if source.random() < 0.3:
        found = dict(source.choice(whole))
        return found | {"type": PACKAGE + found["type"]}
    found = dict(source.choice(by_side))
    return found | {"type": sided(found["type"], side)}


def predicate_props(source: random.Random) -> dict[str, str]:
    return dict(source.choice((
        {"type": f"{PREDICATES_PACKAGE}TopicNameMatches", "pattern": source.choice((r"A\..*", "A", ".*t", ""))},
        {"type": f"{PREDICATES_PACKAGE}HasHeaderKey", "name": source.choice(("h", "i", ""))},
        {"type": f"{PREDICATES_PACKAGE}RecordIsTombstone"},
    )))  # fmt: skip


def numbers_props(source: random.Random) -> dict[str, str]:
    """A field that is cast and converted, and becomes a header, where its text can be seen."""
    stages = [
        {"type": "HoistField", "field": "o"},
        {"type": "InsertField", **source.choice((
            {"static.field": "x", "static.value": source.choice(STATIC)}, {"timestamp.field": "x"}, {"partition.field": "x"}, {"topic.field": "x"}))},
    ]  # fmt: skip
    # Java before 19 does not print the shortest text of a float that a time has become.
    types = (
        ("int64", "int32", "string")
        if "timestamp.field" in stages[1]
        else ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")
    )
    for _ in range(source.randint(1, 3)):
        converted = {"type": "TimestampConverter", "target.type": source.choice(("string", "unix", "Date", "Time", "Timestamp")), "field": "x",
                     "format": source.choice(("yyyy-MM-dd", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", "yyyyMMdd HHmm", "")),
                     "unix.precision": source.choice(("seconds", "microseconds", "milliseconds", "nanoseconds"))}  # fmt: skip
        masked = {"type": "MaskField", "fields": "x", **source.choice(({}, {"replacement": source.choice(STATIC)}))}
        stages.append(source.choice(({"type": "Cast", "spec": f"x:{source.choice(types)}"},) * 3 + (converted, masked)))
    stages += [{"type": "HeaderFrom", "fields": "x", "headers": "h", "operation": "move"}, {"type": "ExtractField", "field": "o"}]
    props = {"transforms": ",".join(f"t{number}" for number in range(len(stages)))}
    props["header.converter"] = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    for number, stage in enumerate(stages):
        props |= {f"transforms.t{number}.{name}": value for name, value in (stage | {"type": sided(stage["type"], "Value")}).items()}
    return props


def chain_props(source: random.Random) -> dict[str, str]:
    if source.random() < 0.2:
        return numbers_props(source)
    names = [f"t{number}" for number in range(source.choice((1, 2, 3, 4, 5)))]
    props = {"transforms": ",".join(names)}
    if source.random() < 0.5:
        props["header.converter"] = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    side = source.choice(("Key", "Value", ""))
    for number, name in enumerate(names):
        own = plugin_props(source, side or source.choice(("Key", "Value")))
        if number == 0 and side:  # a struct, on which more transformations work
            own = {"type": sided("HoistField", side), "field": "x"}
        if source.random() < 0.2:
            own["predicate"] = f"p{number}"
            props |= {f"predicates.p{number}.{one}": value for one, value in predicate_props(source).items()}
            if source.random() < 0.5:
                own["negate"] = source.choice(("true", "false", "TRUE", "x"))
        props |= {f"transforms.{name}.{one}": value for one, value in own.items()}
    return props


def random_bytes(source: random.Random) -> bytes | None:
    return source.choice((None, b"", b"5", source.randbytes(3)))


def random_record(source: random.Random) -> dict[str, Any]:
    def text(value: bytes | None) -> str | None:
        return None if value is None else base64.b64encode(value).decode()

    headers = [[source.choice("hij"), text(random_bytes(source))] for _ in range(source.choice((0, 0, 1, 2)))]
    return {
        "topic": source.choice(("A.t", "A.x_y", "A", "orders")),
        "partition": source.choice((0, 7, 300)),
        "key": text(random_bytes(source)),
        "value": text(random_bytes(source)),
        "headers": headers,
        "timestamp": source.choice(TIMES),
    }


def ours(asked: dict[str, Any]) -> dict[str, Any]:
    try:
        chain = make_chain(asked["props"])
    except ConfigError as error:
        return {"config": OBJECT.sub("", str(error))}
    return {"records": [_made(chain, record) for record in asked["records"]]}


def _made(chain: Chain, given: dict[str, Any]) -> dict[str, Any]:
    def data(text: str | None) -> bytes | None:
        return None if text is None else base64.b64decode(text)

    def text(value: bytes | None) -> str | None:
        return None if value is None else base64.b64encode(value).decode()

    headers = [(key, data(value)) for key, value in given["headers"]]
    made = chain.apply(
        source_record(given["topic"], given["partition"], data(given["key"]), data(given["value"]), headers, given["timestamp"])
    )
    if made is None:
        return {"dropped": True}
    if isinstance(made, Failed):
        return {"failed": [made.stage, made.error.java_class, str(made.error)]}
    return {
        "key": text(made.key),
        "value": text(made.value),
        "headers": [[key, text(value)] for key, value in made.headers],
        "topic": made.topic,
        "partition": made.partition,
        "timestamp": made.timestamp,
    }
