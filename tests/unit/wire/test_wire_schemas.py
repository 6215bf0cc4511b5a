"""The schemas as data, and that the generated classes are what they say."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from schema_interpreter import PROTOCOL, load_schemas

TOOLS = PROTOCOL.parent / "tools"
SCHEMAS = load_schemas()


def fields_of(fields: list[Any]) -> Iterator[Any]:
    for field in fields:
        yield field
        yield from fields_of(field.get("fields", []))


def all_fields(schema: Any) -> Iterator[Any]:
    yield from fields_of(schema["fields"])
    for common in schema.get("commonStructs", []):
        yield from fields_of(common["fields"])


def test_generated_classes_are_up_to_date() -> None:
    check = subprocess.run([sys.executable, str(TOOLS / "generate_messages.py"), "--check"], capture_output=True, text=True, check=False)
    assert (check.returncode, check.stderr) == (0, "")


def test_an_unknown_option_is_told_the_usage() -> None:
    wrong = subprocess.run([sys.executable, str(TOOLS / "generate_messages.py"), "--chek"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stderr) == (2, "usage: generate_messages.py [--check]\n")


def test_everything_says_what_it_is_about_on_one_line() -> None:
    for schema in SCHEMAS.values():
        for thing in (schema, *all_fields(schema)):
            assert thing["about"].endswith(".") and "\n" not in thing["about"], (schema["name"], thing["name"])


@pytest.mark.parametrize("name", [name for name in SCHEMAS if name.endswith("Request")])
def test_a_request_and_its_response_have_the_same_versions(name: str) -> None:
    request, response = SCHEMAS[name], SCHEMAS[name.removesuffix("Request") + "Response"]
    for key in ("apiKey", "validVersions", "flexibleVersions"):
        assert request[key] == response[key]


def test_tags_are_unique_in_their_struct_and_only_in_flexible_versions() -> None:
    for schema in SCHEMAS.values():
        structs = [schema["fields"], *(field["fields"] for field in all_fields(schema) if "fields" in field)]
        for fields in structs:
            tags = [field["tag"] for field in fields if "tag" in field]
            assert sorted(tags) == list(range(len(tags))), schema["name"]


def test_a_schema_without_an_about_is_refused_with_its_place(tmp_path: pathlib.Path) -> None:
    bad = {"name": "Bad", "type": "data", "validVersions": "0", "flexibleVersions": "none", "about": "Bad.", "fields": [
        {"name": "Field", "type": "int8", "versions": "0+"}]}  # fmt: skip
    (tmp_path / "Bad.json").write_text(json.dumps(bad))
    code = f"import pathlib, message_schema; message_schema.load_message(pathlib.Path({str(tmp_path / 'Bad.json')!r}))"
    run = subprocess.run([sys.executable, "-c", code], cwd=TOOLS, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "Bad.json: Bad.Field needs an about that ends in a full stop" in run.stderr
