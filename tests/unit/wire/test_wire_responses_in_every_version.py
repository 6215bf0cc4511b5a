"""A handler may set every field of a response, whatever version the client speaks.

Kafka 3.2 got no delegation token: the answer to its CreateDelegationToken v2 held the requester,
which only v3 has, so it could not be written and the connection was closed. A field that later
versions add is `ignorable` in a response and is left out for older clients. The exceptions are
fields of which one version has the one and another version has the other: there, to leave one out
would lose what the handler wanted to say.
"""

from __future__ import annotations

import json
import pathlib
import re
import typing
from collections.abc import Iterator
from typing import Any

import pytest

from kmirror.common.uuid import Uuid
from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.primitives import Writer

SCHEMAS = pathlib.Path(__file__).resolve().parents[3] / "protocol" / "messages"
INSTEAD_OF_EACH_OTHER = {
    "AddPartitionsToTxnResponse": {"ResultsByTransaction", "ResultsByTopicV3AndBelow"},
    "ElectLeadersResponse": {"ErrorCode"},
    "FindCoordinatorResponse": {"ErrorCode", "NodeId", "Host", "Port", "Coordinators"},
    "JoinGroupResponse": {"SkipAssignment"},
    "LeaveGroupResponse": {"Members"},
    "OffsetFetchResponse": {"Topics", "Groups"},
}
"""ErrorCode: the topics have it in v0. SkipAssignment: without it, a leader would assign anew."""


def schema(path: pathlib.Path) -> Any:
    return json.loads(re.sub(r"^\s*//.*$", "", path.read_text(), flags=re.MULTILINE))


def later_fields(fields: list[Any], lowest: int, highest: int) -> Iterator[str]:
    """The fields that some versions lack and that may not be left out, not those inside them."""
    for field in fields:
        first, _, last = field["versions"].partition("-")
        is_partial = int(first.rstrip("+")) > lowest or (bool(last) and int(last) < highest)
        if is_partial and not field.get("ignorable", False):
            yield field["name"]
        elif not is_partial:
            yield from later_fields(field.get("fields", []), lowest, highest)


def test_every_field_of_a_response_that_is_not_in_all_versions_may_be_left_out() -> None:
    found: dict[str, set[str]] = {}
    for path in sorted(SCHEMAS.glob("*Response.json")):
        message = schema(path)
        lowest, _, highest = message["validVersions"].partition("-")
        shared = [field for struct in message.get("commonStructs", []) for field in struct["fields"]]
        fields = [*message["fields"], *shared]
        names = set(later_fields(fields, int(lowest), int(highest or lowest)))
        if names:
            found[message["name"]] = names
    assert found == INSTEAD_OF_EACH_OTHER


@pytest.mark.parametrize("api_key", list(API_TABLE), ids=lambda key: key.name)
def test_a_response_with_every_field_is_written_in_every_version(api_key: ApiKeys) -> None:
    spec = API_TABLE[api_key]
    response = filled(spec.response, skip=skipped(spec.response.__name__))
    for version in range(spec.lowest, spec.highest + 1):
        writer = Writer()
        response.write(writer, version)
        data = b"".join(bytes(part) for part in writer.parts())
        assert spec.response.read(memoryview(data), 0, version)[1] == len(data)


def skipped(response: str) -> set[str]:
    names = INSTEAD_OF_EACH_OTHER.get(response, set())
    return {re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower() for name in names}


def filled(cls: Any, skip: set[str] = frozenset()) -> Any:  # type: ignore[assignment]
    """A struct whose fields all differ from their defaults."""
    value = cls()
    for name, hint in typing.get_type_hints(cls).items():
        if name != "unknown_tagged_fields" and name not in skip and name in cls.__struct_fields__:
            setattr(value, name, example(hint))
    return value


def example(hint: Any) -> Any:
    options = [option for option in (hint, *typing.get_args(hint)) if option is not type(None)]
    for option in options:
        if hasattr(option, "__struct_fields__"):
            return filled(option)
        if option in EXAMPLES:
            return EXAMPLES[option]
        if typing.get_origin(option) is list:
            return [example(typing.get_args(option)[0])]
    return b"bytes"


EXAMPLES: dict[Any, Any] = {
    bool: True,
    int: 7,
    float: 7.0,
    str: "text",
    bytes: b"bytes",
    Uuid: Uuid(bytes(range(16))),
}
